/* One step of a decoder: new elements of texts, a row each, through all blocks and the head.

       x ─ norm ─ q k v ─ rotate, keep, attend ─ out ─(+)─ norm ─ up, φ (, gate) ─ down ─(+)─ ...

   Every thread runs the whole step and computes its share of each product; a barrier stands where
   a thread reads what others wrote. Each number is a sum in one order, whatever else is computed:
   those of a row depend neither on the other rows nor on the number of threads. A row attends to
   the keys of its text up to its own, so rows of one text stand in order.

   `library.py` compiles this for the processor at hand and has the same structures. */

#include "vectors.h"

#include "product.h"

typedef struct {
  const float *weight, *bias; /* without a weight there is no norm */
  double epsilon;
  int64_t centred; /* LayerNorm; else RMSNorm */
} Norm;

typedef struct {
  Norm attention_norm, cross_norm, feedforward_norm, q_norm, k_norm, cross_q_norm;
  Matrix qkv, out, cross_q, cross_out, up, gate, down;
} Block;

typedef struct {
  const Block *blocks;
  Norm norm;
  Matrix head;
  int64_t n_blocks, d_model, d_ff, n_heads, n_kv_heads, d_head;
  int64_t pre_norm, residual, activation, window; /* window 0: none */
  double scale, head_factor;
} Decoder;

typedef struct {
  int64_t n, most, threads, slots, halves; /* most: rows that go through the blocks together */
  float *x;                 /* n x d_model */
  const float *cos, *sin;   /* n x d_head, or NULL */
  char *pool;               /* blocks x 2 x n_kv_heads x slots x d_head, float16 if `halves` */
  const int64_t *first;     /* slot of the first key of each row */
  const int64_t *ends;      /* number of its keys, the new one included */
  const int64_t *source;    /* the same of its source, for cross-attention */
  const int64_t *source_ends;
  const float *const *bias; /* of each row: n_heads x bias_width numbers; or NULL */
  const int64_t *bias_width;
  const int64_t *asked;     /* rows whose logits are wanted */
  int64_t n_asked;
  float *logits;            /* n_asked x rows of the head */
  float *shared;            /* most x (q k v + heads + 2 d_ff), or most x d_model */
  float *inputs;            /* of a product of many rows */
  float *own;               /* of each thread: own_size numbers */
  int64_t own_size;
} Step;

static void normalize(const Norm *norm, const float *x, float *y, int64_t n) {
  float mean = 0;
  if (norm->centred) {
    Vector total = {0};
    int64_t k = 0;
    for (; k + WIDTH <= n; k += WIDTH) total += load(x + k);
    for (mean = sum(total); k < n; k++) mean += x[k];
    mean /= n;
  }
  for (int64_t k = 0; k < n; k++) y[k] = x[k] - mean;
  float factor = 1 / sqrt(dot(y, y, n) / n + norm->epsilon);
  for (int64_t k = 0; k < n; k++) y[k] *= factor * norm->weight[k];
  for (int64_t k = 0; norm->bias && k < n; k++) y[k] += norm->bias[k];
}

/* The inputs of a product: x of each text, normalized if there is a norm, times a factor. Those of
   one tile each thread prepares for itself; of more, all threads prepare a share. */
static Inputs prepared(const Matrix *m, const Norm *norm, double factor, const Step *s,
                       const float *x, int64_t stride, float *own) {
  int64_t i = 0, end = s->n, columns = m->columns, alone = s->n <= TEXTS;
  if (!alone) share(s->n, TEXTS, &i, &end);
  float *rows = own, *place = alone ? own + TEXTS * columns : s->inputs;
  Inputs in = inputs_at(m, s->n, (uint32_t *)place);
  for (int64_t texts; i < end; i += texts) {
    texts = tile_of(end - i);
    for (int64_t t = 0; t < texts; t++) {
      float *row = rows + t * columns;
      const float *from = x + (i + t) * stride;
      if (norm && norm->weight) normalize(norm, from, row, m->inputs);
      else memcpy(row, from, m->inputs * sizeof(float));
      for (int64_t k = 0; factor != 1 && k < m->inputs; k++) row[k] *= (float)factor;
      memset(row + m->inputs, 0, (columns - m->inputs) * sizeof(float));
    }
    arrange(m, rows, texts, i, &in);
  }
  if (!alone) {
#pragma omp barrier
  }
  return in;
}

/* y[i] = W x[i] + b, x as in `prepared`, or that added to y, for this thread's share of W's rows. */
static void multiply(const Matrix *m, const Norm *norm, double factor, const Step *s,
                     const float *x, int64_t stride, float *y, int64_t to, int add, float *own) {
  Inputs in = prepared(m, norm, factor, s, x, stride, own + s->n * UNIT);
  product(m, &in, y, to, s->n, add, own);
}

static void rotate(float *x, const float *cos, const float *sin, int64_t n, float *copy) {
  memcpy(copy, x, n * sizeof(float));
  for (int64_t k = 0; k < n; k++) x[k] = copy[k] * cos[k] + copy[(k + n / 2) % n] * sin[k];
}

/* Numbers that were kept, from number k on: float32 or float16. */
INLINE Vector kept(int halves, const char *p, int64_t k) {
  return halves ? from_fp16((const uint16_t *)p + k) : load((const float *)p + k);
}

INLINE float kept_number(int halves, const char *p, int64_t k) {
  return halves ? from_half(((const uint16_t *)p)[k]) : ((const float *)p)[k];
}

/* z = softmax(q · keys · scale + bias) values over n keys. */
INLINE void attend(int halves, const float *q, const char *keys, const char *values,
                   const float *bias, int64_t n, int64_t width, float scale, float *weights,
                   float *z) {
  int64_t whole = width / WIDTH * WIDTH, k;
  float top = -INFINITY;
  for (int64_t j = 0; j < n; j++) {
    Vector total = {0};
    float rest = 0;
    for (k = 0; k < whole; k += WIDTH) total += load(q + k) * kept(halves, keys, j * width + k);
    for (; k < width; k++) rest += q[k] * kept_number(halves, keys, j * width + k);
    weights[j] = (sum(total) + rest) * scale + (bias ? bias[j] : 0);
    if (!(weights[j] <= top)) top = weights[j];
  }
  for (int64_t j = n; j % WIDTH; j++) weights[j] = top - 1000; /* adds nothing */
  Vector totals = {0};
  for (int64_t j = 0; j < n; j += WIDTH) {
    store(weights + j, exponential(load(weights + j) - top));
    totals += load(weights + j);
  }
  float factor = 1 / sum(totals);
  for (k = 0; k + 4 * WIDTH <= width; k += 4 * WIDTH) {
    Vector total[4] = {0};
    for (int64_t j = 0; j < n; j++)
      for (int v = 0; v < 4; v++)
        total[v] += weights[j] * kept(halves, values, j * width + k + v * WIDTH);
    for (int v = 0; v < 4; v++) store(z + k + v * WIDTH, total[v] * factor);
  }
  for (; k < width; k++) {
    float total = 0;
    for (int64_t j = 0; j < n; j++) total += weights[j] * kept_number(halves, values, j * width + k);
    z[k] = total * factor;
  }
}

/* Bytes of n slots of one head, and the keys of a key-value head in the pool at a block, from its
   first slot on; values stand behind the keys of all heads. */
INLINE int64_t bytes_of_slots(const Decoder *d, const Step *s, int64_t n) {
  return n * d->d_head * (s->halves ? 2 : 4);
}

INLINE char *keys_of(const Decoder *d, const Step *s, int64_t block, int64_t head) {
  return s->pool + (block * 2 * d->n_kv_heads + head) * bytes_of_slots(d, s, s->slots);
}

static void write(const Step *s, char *place, const float *x, int64_t n) {
  if (s->halves) to_fp16((uint16_t *)place, x, n);
  else memcpy(place, x, n * sizeof(float));
}

/* Normalize, rotate and keep the new keys and values of this thread's share of rows and heads. */
static void keep(const Decoder *d, const Block *b, const Step *s, int64_t block, float *qkv,
                 float *copy) {
  int64_t width = d->d_head, row = (d->n_heads + 2 * d->n_kv_heads) * width, at, end;
  share(s->n * d->n_kv_heads, 1, &at, &end);
  for (; at < end; at++) {
    int64_t i = at / d->n_kv_heads, g = at % d->n_kv_heads;
    float *k = qkv + i * row + (d->n_heads + g) * width, *v = k + d->n_kv_heads * width;
    char *place = keys_of(d, s, block, g) + bytes_of_slots(d, s, s->first[i] + s->ends[i] - 1);
    if (b->k_norm.weight) normalize(&b->k_norm, k, k, width);
    if (s->cos) rotate(k, s->cos + i * width, s->sin + i * width, width, copy);
    write(s, place, k, width);
    write(s, place + bytes_of_slots(d, s, d->n_kv_heads * s->slots), v, width);
  }
}

/* Attention of this thread's share of rows and heads: to the own keys, or to the source's. The
   queries of a row begin at `qs`, those of the next one `row` numbers further. */
static void attend_all(const Decoder *d, const Norm *q_norm, const Step *s, int64_t block,
                       int crossed, float *qs, int64_t row, float *z, float *own) {
  int64_t width = d->d_head, group = d->n_heads / d->n_kv_heads, at, end;
  share(s->n * d->n_heads, 1, &at, &end);
  for (; at < end; at++) {
    int64_t i = at / d->n_heads, h = at % d->n_heads;
    int64_t n = crossed ? s->source_ends[i] : s->ends[i];
    int64_t past = !crossed && d->window && n > d->window ? n - d->window : 0;
    int64_t slot = (crossed ? s->source[i] : s->first[i]) + past;
    float *q = qs + i * row + h * width;
    if (q_norm->weight) normalize(q_norm, q, q, width);
    if (s->cos && !crossed) rotate(q, s->cos + i * width, s->sin + i * width, width, own);
    const char *keys = keys_of(d, s, block, h / group) + bytes_of_slots(d, s, slot);
    const char *values = keys + bytes_of_slots(d, s, d->n_kv_heads * s->slots);
    const float *bias = s->bias && !crossed ? s->bias[i] + h * s->bias_width[i] + past : 0;
    if (s->halves) attend(1, q, keys, values, bias, n - past, width, d->scale, own, z + at * width);
    else attend(0, q, keys, values, bias, n - past, width, d->scale, own, z + at * width);
  }
}

/* Join a branch, the product of `from`, to the stream: x + y, or y where there are no residual
   connections, normalized behind it in post-norm models. */
static void join(const Decoder *d, const Step *s, const Matrix *m, const Norm *norm,
                 const float *from, int64_t stride, float *own) {
  int64_t width = d->d_model, i, end;
  multiply(m, 0, 1, s, from, stride, s->x, width, d->residual, own);
#pragma omp barrier
  if (d->pre_norm || !norm->weight) return;
  share(s->n, 1, &i, &end);
  for (; i < end; i++) normalize(norm, s->x + i * width, s->x + i * width, width);
#pragma omp barrier
}

/* This thread's share of the hidden layer. */
static void feed(const Decoder *d, const Block *b, const Step *s, float *hidden, float *own) {
  int64_t begin, end, width = d->d_ff;
  float *gate = b->gate.numbers ? hidden + s->n * width : hidden;
  const Norm *norm = d->pre_norm ? &b->feedforward_norm : 0;
  multiply(&b->up, norm, 1, s, s->x, d->d_model, hidden, width, 0, own);
  if (b->gate.numbers) {
#pragma omp barrier
    multiply(&b->gate, norm, 1, s, s->x, d->d_model, gate, width, 0, own);
  }
  share(width, UNIT, &begin, &end);
  for (int64_t i = 0; i < s->n; i++)
    for (int64_t f = begin; f < end; f += WIDTH) {
      float *h = hidden + i * width + f, part[WIDTH] = {0};
      int64_t count = end - f < WIDTH ? end - f : WIDTH;
      memcpy(part, gate + i * width + f, count * sizeof(float));
      store(part, activated(d->activation, load(part)));
      for (int64_t k = 0; k < count; k++) h[k] = b->gate.numbers ? h[k] * part[k] : part[k];
    }
}

static void blocks(const Decoder *d, const Step *s) {
  int64_t n = s->n, model = d->d_model, heads = d->n_heads * d->d_head;
  int64_t row = heads + 2 * d->n_kv_heads * d->d_head;
  float *qkv = s->shared, *z = qkv + n * row, *hidden = z + n * heads;
  float *own = s->own + omp_get_thread_num() * s->own_size;
  for (int64_t l = 0; l < d->n_blocks; l++) {
    const Block *b = d->blocks + l;
    multiply(&b->qkv, d->pre_norm ? &b->attention_norm : 0, 1, s, s->x, model, qkv, row, 0, own);
#pragma omp barrier
    keep(d, b, s, l, qkv, own);
#pragma omp barrier
    attend_all(d, &b->q_norm, s, l, 0, qkv, row, z, own);
#pragma omp barrier
    join(d, s, &b->out, &b->attention_norm, z, heads, own);
    if (b->cross_q.numbers) {
      const Norm *norm = d->pre_norm ? &b->cross_norm : 0;
      multiply(&b->cross_q, norm, 1, s, s->x, model, qkv, heads, 0, own);
#pragma omp barrier
      attend_all(d, &b->cross_q_norm, s, l, 1, qkv, heads, z, own);
#pragma omp barrier
      join(d, s, &b->cross_out, &b->cross_norm, z, heads, own);
    }
    feed(d, b, s, hidden, own);
#pragma omp barrier
    join(d, s, &b->down, &b->feedforward_norm, hidden, d->d_ff, own);
  }
}

/* Logits of the rows that are asked for. */
static void head(const Decoder *d, const Step *s) {
  int64_t width = d->d_model, rows = d->head.rows, i, end;
  float *own = s->own + omp_get_thread_num() * s->own_size;
  for (int64_t at = 0; at < s->n_asked; at += s->most) {
    Step part = *s;
    part.n = s->n_asked - at < s->most ? s->n_asked - at : s->most;
    share(part.n, 1, &i, &end);
    for (; i < end; i++)
      memcpy(s->shared + i * width, s->x + s->asked[at + i] * width, width * sizeof(float));
#pragma omp barrier
    multiply(&d->head, &d->norm, d->head_factor, &part, s->shared, width, s->logits + at * rows,
             rows, 0, own);
#pragma omp barrier
  }
}

static void run(const Decoder *d, const Step *s) {
  for (int64_t at = 0; at < s->n; at += s->most) {
    Step part = *s;
    part.n = s->n - at < s->most ? s->n - at : s->most;
    part.x += at * d->d_model;
    part.first += at, part.ends += at, part.source += at, part.source_ends += at;
    if (s->cos) part.cos += at * d->d_head, part.sin += at * d->d_head;
    if (s->bias) part.bias += at, part.bias_width += at;
    blocks(d, &part);
  }
  head(d, s);
}

void decoder_step(const Decoder *d, const Step *s) {
#pragma omp parallel num_threads(s->threads)
  run(d, s);
}
