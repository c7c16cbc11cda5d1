/* One step of a decoder: the next element of each of n texts, through all blocks and the head.

       x ─ norm ─ q k v ─ rotate, keep, attend ─ out ─(+)─ norm ─ up, φ (, gate) ─ down ─(+)─ ...

   Every thread runs the whole step and computes its share of each product; a barrier stands where
   a thread reads what others wrote. Each number is a sum in one order, whatever else is computed:
   those of a text depend neither on the other texts nor on the number of threads.

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
  int64_t n, threads, slots;
  float *x;                 /* n x d_model */
  const float *cos, *sin;   /* n x d_head, or NULL */
  float *pool;              /* blocks x 2 x n_kv_heads x slots x d_head */
  const int64_t *first;     /* slot of the first key of each text */
  const int64_t *ends;      /* number of its keys, the new one included */
  const int64_t *source;    /* the same of its source, for cross-attention */
  const int64_t *source_ends;
  const float *const *bias; /* of each text: n_heads x its keys; or NULL */
  float *logits;            /* n x rows of the head */
  float *shared;            /* n x (q k v + heads + 2 d_ff) */
  float *inputs;            /* of a product of many texts */
  float *own;               /* of each thread: own_size numbers */
  int64_t own_size;
} Step;

static void normalize(const Norm *norm, const float *x, float *y, int64_t n) {
  const float *weight = norm->weight, *bias = norm->bias;
  float mean = 0;
  if (norm->centred) {
    Vector total = {0};
    for (int64_t k = 0; k < n; k += WIDTH) total += load_part(x + k, n - k);
    mean = sum(total) / n;
  }
  for (int64_t k = 0; k < n; k += WIDTH)
    store_part(y + k, load_part(x + k, n - k) - mean, n - k);
  float factor = 1 / sqrt(dot(y, y, n) / n + norm->epsilon);
  for (int64_t k = 0; k < n; k += WIDTH) {
    Vector v = load_part(y + k, n - k) * (factor * load_part(weight + k, n - k));
    store_part(y + k, bias ? v + load_part(bias + k, n - k) : v, n - k);
  }
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

/* y[i] = W x[i] + b, x as in `prepared`, or that added to y, for this thread's share of rows. */
static void multiply(const Matrix *m, const Norm *norm, double factor, const Step *s,
                     const float *x, int64_t stride, float *y, int64_t to, int add, float *own) {
  Inputs in = prepared(m, norm, factor, s, x, stride, own + s->n * UNIT);
  product(m, &in, y, to, s->n, add, own);
}

static void rotate(float *x, const float *cos, const float *sin, int64_t n, float *copy) {
  memcpy(copy, x, n * sizeof(float));
  for (int64_t k = 0; k < n; k++) x[k] = copy[k] * cos[k] + copy[(k + n / 2) % n] * sin[k];
}

/* q · key of WIDTH keys. Behind the last key may stand anything, and stands something: values. */
INLINE Vector scores(const float *q, const float *keys, int64_t width) {
  Vector total[WIDTH];
  for (int i = 0; i < WIDTH; i += 4) {
    const float *key = keys + i * width;
    Vector four[4] = {0};
    for (int64_t k = 0; k < width; k += WIDTH)
      for (int j = 0; j < 4; j++)
        four[j] += load_part(q + k, width - k) * load_part(key + j * width + k, width - k);
    for (int j = 0; j < 4; j++) total[i + j] = four[j];
  }
  return sums(total);
}

/* Add n values times weights to so many vectors, or begin them; even and odd ones apart. */
INLINE void weighted(const float *weights, const float *values, int64_t n, int64_t width,
                     int vectors, int first, float *z) {
  Vector total[2][4] = {0};
  int64_t j = 0;
  for (; j + 2 <= n; j += 2)
    for (int v = 0; v < vectors; v++) {
      const float *value = values + j * width + v * WIDTH;
      total[0][v] += weights[j] * load(value);
      total[1][v] += weights[j + 1] * load(value + width);
    }
  for (int v = 0; v < vectors && j < n; v++)
    total[0][v] += weights[j] * load(values + j * width + v * WIDTH);
  for (int v = 0; v < vectors; v++) {
    Vector both = total[0][v] + total[1][v];
    store(z + v * WIDTH, first ? both : load(z + v * WIDTH) + both);
  }
}

/* A query, the number of its keys, its bias or NULL, its result, and room for its weights. */
typedef struct {
  const float *q, *bias;
  float *z, *weights;
  int64_t n;
} Query;

/* Weights of a query, from its scores. */
static void softmax(const Query *one) {
  Vector tops = all(-INFINITY), totals = {0};
  float *w = one->weights, top = w[0];
  for (int64_t j = one->n; j % WIDTH; j++) w[j] = w[0];
  for (int64_t j = 0; j < one->n; j += WIDTH) tops = pick(load(w + j) <= tops, tops, load(w + j));
  for (int i = 0; i < WIDTH; i++) top = tops[i] <= top ? top : tops[i];
  for (int64_t j = one->n; j % WIDTH; j++) w[j] = top - 1000; /* adds nothing */
  for (int64_t j = 0; j < one->n; j += WIDTH) {
    store(w + j, exponential(load(w + j) - top));
    totals += load(w + j);
  }
  float factor = 1 / sum(totals);
  for (int64_t j = 0; j < one->n; j += WIDTH) store(w + j, load(w + j) * factor);
}

/* z = softmax(q · keys · scale + bias) values of a few queries, whose keys begin with the same.
   Keys and values are read in pieces that stay in the cache for all queries. */
INLINE void attend_wide(const Query *queries, int64_t count, const float *keys,
                        const float *values, int64_t width, float scale) {
  const Query *end = queries + count;
  int64_t most = 0;
  for (const Query *one = queries; one < end; one++) most = most < one->n ? one->n : most;
  for (int64_t j = 0; j < most; j += WIDTH)
    for (const Query *one = queries; one < end; one++) {
      if (j >= one->n) continue;
      Vector score = scores(one->q, keys + j * width, width) * scale;
      if (one->bias) score += load_part(one->bias + j, one->n - j);
      store(one->weights + j, score);
    }
  for (const Query *one = queries; one < end; one++) softmax(one);
  for (int64_t j = 0; j < most; j += WIDTH)
    for (const Query *one = queries; one < end; one++) {
      int64_t n = one->n - j < WIDTH ? one->n - j : WIDTH, k = 0;
      const float *w = one->weights + j, *from = values + j * width;
      for (; k + 4 * WIDTH <= width; k += 4 * WIDTH)
        weighted(w, from + k, n, width, 4, !j, one->z + k);
      for (; k + WIDTH <= width; k += WIDTH) weighted(w, from + k, n, width, 1, !j, one->z + k);
      for (; k < width; k++) {
        float total = j ? one->z[k] : 0;
        for (int64_t i = 0; i < n; i++) total += w[i] * from[i * width + k];
        one->z[k] = total;
      }
    }
}

static void attend(const Query *queries, int64_t count, const float *keys, const float *values,
                   int64_t width, float scale) {
  if (width == 64) attend_wide(queries, count, keys, values, 64, scale); /* without loops */
  else if (width == 128) attend_wide(queries, count, keys, values, 128, scale);
  else attend_wide(queries, count, keys, values, width, scale);
}

/* Keys of a key-value head in the pool at a block, from its first slot on; values stand behind the
   keys of all heads. */
INLINE float *keys_of(const Decoder *d, const Step *s, int64_t block, int64_t head) {
  return s->pool + (block * 2 * d->n_kv_heads + head) * s->slots * d->d_head;
}

/* Normalize, rotate and keep the new keys and values of this thread's share of texts and heads. */
static void keep(const Decoder *d, const Block *b, const Step *s, int64_t block, float *qkv,
                 float *copy) {
  int64_t width = d->d_head, row = (d->n_heads + 2 * d->n_kv_heads) * width, at, end;
  share(s->n * d->n_kv_heads, 1, &at, &end);
  for (; at < end; at++) {
    int64_t i = at / d->n_kv_heads, g = at % d->n_kv_heads;
    float *k = qkv + i * row + (d->n_heads + g) * width, *v = k + d->n_kv_heads * width;
    float *place = keys_of(d, s, block, g) + (s->first[i] + s->ends[i] - 1) * width;
    if (b->k_norm.weight) normalize(&b->k_norm, k, k, width);
    if (s->cos) rotate(k, s->cos + i * width, s->sin + i * width, width, copy);
    memcpy(place, k, width * sizeof(float));
    memcpy(place + d->n_kv_heads * s->slots * width, v, width * sizeof(float));
  }
}

/* Attention of this thread's share of texts and heads: to the own keys, or to the source's. The
   queries of a text begin its row of `qs`, which has `row` numbers. Texts behind each other whose
   keys begin with the same one attend together. */
static void attend_all(const Decoder *d, const Norm *q_norm, const Step *s, int64_t block,
                       int crossed, float *qs, int64_t row, float *z, float *own) {
  int64_t width = d->d_head, at, end;
  const int64_t *ends = crossed ? s->source_ends : s->ends, *first = crossed ? s->source : s->first;
  share(s->n * d->n_heads, 1, &at, &end);
  while (at < end) {
    int64_t h = at / s->n, start = -1, count = 0;
    Query queries[TOGETHER];
    for (float *weights = own + width; count < TOGETHER && at < end && at / s->n == h; at++) {
      int64_t i = at % s->n, n = ends[i], past = !crossed && d->window ? n - d->window : 0;
      if (past < 0) past = 0;
      if (count && first[i] + past != start) break;
      start = first[i] + past;
      float *q = qs + i * row + h * width;
      if (q_norm->weight) normalize(q_norm, q, q, width);
      if (s->cos && !crossed) rotate(q, s->cos + i * width, s->sin + i * width, width, own);
      const float *bias = s->bias && !crossed ? s->bias[i] + h * n + past : 0;
      float *to = z + (i * d->n_heads + h) * width;
      queries[count++] = (Query){q, bias, to, weights, n - past};
      weights += n - past + WIDTH;
    }
    const float *keys = keys_of(d, s, block, h / (d->n_heads / d->n_kv_heads)) + start * width;
    attend(queries, count, keys, keys + d->n_kv_heads * s->slots * width, width, d->scale);
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
      float *h = hidden + i * width + f;
      Vector v = activated(d->activation, load_part(gate + i * width + f, end - f));
      store_part(h, b->gate.numbers ? load_part(h, end - f) * v : v, end - f);
    }
}

static void run(const Decoder *d, const Step *s) {
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
  multiply(&d->head, &d->norm, d->head_factor, s, s->x, model, s->logits, d->head.rows, 0, own);
}

void decoder_step(const Decoder *d, const Step *s) {
#pragma omp parallel num_threads(s->threads)
  run(d, s);
}
