/* One step of a decoder: new elements of texts, a row each, through all blocks and the head.

       x ─ norm ─ q k v ─ rotate, keep, attend ─ out ─(+)─ norm ─ up, φ (, gate) ─ down ─(+)─ ...

   Every thread runs the whole step and computes its share of each product; threads meet where one
   reads what others wrote. Each number is a sum in one order, whatever else is computed:
   those of a row depend neither on the other rows nor on the number of threads. A row attends to
   the keys that its block table lists, up to its own, so rows of one text stand in order. A block
   has one slot: what two sequences share stands once, and nothing is copied where they part.

   `library.py` compiles this for the processor at hand and has the same structures. */

#include "vectors.h"

#include "product.h"

#include "likeliest.h"

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
  const int32_t *tables;    /* block tables: the slots of the keys of each sequence */
  const int64_t *first;     /* where the table of each row begins in these */
  const int64_t *ends;      /* number of its keys, the new one included */
  const int64_t *source;    /* the same of its source, for cross-attention */
  const int64_t *source_ends;
  const float *bias;        /* tables of n_heads x bias_width numbers, or NULL */
  const int64_t *bias_of;   /* the number of the table of each row */
  int64_t bias_width;
  const int64_t *asked;     /* rows whose logits are wanted */
  int64_t n_asked;
  float *logits;            /* n_asked x rows of the head, or k > 0 */
  int64_t k, *ids;          /* n_asked x k: the likeliest elements after each row, all of which are */
  float *log_probs;         /* asked for, or k = 0 */
  float *memory;            /* for all that follows, which is set here (see `divide`) */
  int64_t part;             /* rows that one thread computes by itself, with memory of its own; 0: */
                            /* all threads share each product */
  float *shared;            /* most x (q k v + heads + 2 d_ff), or most x d_model */
  float *inputs;            /* of a product of many rows */
  float *own;               /* of each thread */
  int64_t shared_size, inputs_size, own_size;
  Team *team;
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
  if (!alone) meet(s->team);
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

/* Where WIDTH keys of a table stand from number j on; after the last of n, where that one is. */
INLINE void place(const int32_t *table, int64_t j, int64_t n, int64_t width, int64_t *at) {
  for (int i = 0; i < WIDTH; i++) at[i] = table[j + i < n ? j + i : n - 1] * width;
}

/* The products of a query with WIDTH keys at these places. */
INLINE Vector scores(int halves, const float *q, const char *keys, const int64_t *at,
                     int64_t width) {
  Vector total[WIDTH];
  for (int i = 0; i < WIDTH; i += 4) {
    Vector four[4] = {0};
    for (int64_t k = 0; k < width; k += WIDTH)
      for (int t = 0; t < 4; t++)
        four[t] += load_part(q + k, width - k) * kept(halves, keys, at[i + t] + k, width - k);
    for (int t = 0; t < 4; t++) total[i + t] = four[t];
  }
  return sums(total);
}

/* Add n values at these places, from number k on, times weights to so many vectors, or begin them;
   even and odd ones apart. */
INLINE void weighted(int halves, const float *weights, const char *values, const int64_t *at,
                     int64_t k, int64_t n, int vectors, int first, float *z) {
  Vector total[2][4] = {0};
  int64_t j = 0;
  for (; j + 2 <= n; j += 2)
    for (int v = 0; v < vectors; v++) {
      total[0][v] += weights[j] * kept(halves, values, at[j] + k + v * WIDTH, WIDTH);
      total[1][v] += weights[j + 1] * kept(halves, values, at[j + 1] + k + v * WIDTH, WIDTH);
    }
  for (int v = 0; v < vectors && j < n; v++)
    total[0][v] += weights[j] * kept(halves, values, at[j] + k + v * WIDTH, WIDTH);
  for (int v = 0; v < vectors; v++) {
    Vector both = total[0][v] + total[1][v];
    store(z + k + v * WIDTH, first ? both : load(z + k + v * WIDTH) + both);
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

/* z = softmax(q · keys · scale + bias) values of a few queries, whose keys are the first of one
   table. Keys and values are read in pieces that stay in the cache for all queries. */
INLINE void attend_wide(int halves, const Query *queries, int64_t count, const int32_t *table,
                        const char *keys, const char *values, int64_t width, float scale) {
  const Query *end = queries + count;
  int64_t most = 0, at[WIDTH];
  for (const Query *one = queries; one < end; one++) most = most < one->n ? one->n : most;
  for (int64_t j = 0; j < most; j += WIDTH) {
    place(table, j, most, width, at);
    for (const Query *one = queries; one < end; one++) {
      if (j >= one->n) continue;
      Vector score = scores(halves, one->q, keys, at, width) * scale;
      if (one->bias) score += load_part(one->bias + j, one->n - j);
      store(one->weights + j, score);
    }
  }
  for (const Query *one = queries; one < end; one++) softmax(one);
  for (int64_t j = 0; j < most; j += WIDTH) {
    place(table, j, most, width, at);
    for (const Query *one = queries; one < end; one++) {
      int64_t n = one->n - j < WIDTH ? one->n - j : WIDTH, k = 0;
      const float *w = one->weights + j;
      for (; k + 4 * WIDTH <= width; k += 4 * WIDTH)
        weighted(halves, w, values, at, k, n, 4, !j, one->z);
      for (; k + WIDTH <= width; k += WIDTH) weighted(halves, w, values, at, k, n, 1, !j, one->z);
      for (; k < width; k++) {
        float total = j ? one->z[k] : 0;
        for (int64_t i = 0; i < n; i++) total += w[i] * kept(halves, values, at[i] + k, 1)[0];
        one->z[k] = total;
      }
    }
  }
}

#define ATTEND(WIDE) /* without loops over a width that is known */ \
  if (s->halves) attend_wide(1, queries, count, table, keys, values, WIDE, scale); \
  else attend_wide(0, queries, count, table, keys, values, WIDE, scale)

static void attend(const Step *s, const Query *queries, int64_t count, const int32_t *table,
                   const char *keys, const char *values, int64_t width, float scale) {
  if (width == 64) ATTEND(64);
  else if (width == 128) ATTEND(128);
  else ATTEND(width);
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
    int64_t slot = s->tables[s->first[i] + s->ends[i] - 1];
    char *place = keys_of(d, s, block, g) + bytes_of_slots(d, s, slot);
    if (b->k_norm.weight) normalize(&b->k_norm, k, k, width);
    if (s->cos) rotate(k, s->cos + i * width, s->sin + i * width, width, copy);
    write(s, place, k, width);
    write(s, place + bytes_of_slots(d, s, d->n_kv_heads * s->slots), v, width);
  }
}

/* Fetch the keys and values of a table that another one with the same beginning does not list. */
static void fetch(const int32_t *table, int64_t n, const int32_t *other, int64_t n_other,
                  const char *keys, const char *values, int64_t bytes) {
  if (table[0] != other[0]) return;
  for (int64_t j = 0; j < n; j++) {
    if (j < n_other && table[j] == other[j]) continue;
    for (int64_t k = 0; k < bytes; k += 64) {
      __builtin_prefetch(keys + table[j] * bytes + k);
      __builtin_prefetch(values + table[j] * bytes + k);
    }
  }
}

/* Attention of this thread's share of rows and heads: to the own keys, or to the source's. The
   queries of a row begin at `qs`, those of the next one `row` numbers further. Neighbours with one
   table attend together; what the next table has of its own is fetched meanwhile. */
static void attend_all(const Decoder *d, const Norm *q_norm, const Step *s, int64_t block,
                       int crossed, float *qs, int64_t row, float *z, float *own) {
  int64_t width = d->d_head, bytes = bytes_of_slots(d, s, 1), at, end;
  const int64_t *ends = crossed ? s->source_ends : s->ends, *first = crossed ? s->source : s->first;
  share(s->n * d->n_heads, 1, &at, &end);
  while (at < end) {
    int64_t h = at / s->n, count = 0, most = 0;
    const int32_t *table = 0, *next = 0;
    Query queries[TOGETHER];
    for (float *weights = own + width; at < end && at / s->n == h; at++) {
      int64_t i = at % s->n, n = ends[i], past = !crossed && d->window ? n - d->window : 0;
      if (past < 0) past = 0;
      next = s->tables + first[i] + past;
      if (count == TOGETHER || (count && next != table)) break;
      table = next, most = n - past;
      float *q = qs + i * row + h * width;
      if (q_norm->weight) normalize(q_norm, q, q, width);
      if (s->cos && !crossed) rotate(q, s->cos + i * width, s->sin + i * width, width, own);
      const float *bias = 0;
      if (s->bias && !crossed)
        bias = s->bias + (s->bias_of[i] * d->n_heads + h) * s->bias_width + past;
      float *to = z + (i * d->n_heads + h) * width;
      queries[count++] = (Query){q, bias, to, weights, n - past};
      weights += n - past + WIDTH;
    }
    const char *keys = keys_of(d, s, block, h / (d->n_heads / d->n_kv_heads));
    const char *values = keys + d->n_kv_heads * s->slots * bytes;
    if (next != table) {
      int64_t i = at % s->n, n = ends[i] - (next - s->tables - first[i]);
      fetch(next, n, table, most, keys, values, bytes);
    }
    attend(s, queries, count, table, keys, values, width, d->scale);
  }
}

/* Join a branch, the product of `from`, to the stream: x + y, or y where there are no residual
   connections, normalized behind it in post-norm models. */
static void join(const Decoder *d, const Step *s, const Matrix *m, const Norm *norm,
                 const float *from, int64_t stride, float *own) {
  int64_t width = d->d_model, i, end;
  multiply(m, 0, 1, s, from, stride, s->x, width, d->residual, own);
  meet(s->team);
  if (d->pre_norm || !norm->weight) return;
  share(s->n, 1, &i, &end);
  for (; i < end; i++) normalize(norm, s->x + i * width, s->x + i * width, width);
  meet(s->team);
}

/* This thread's share of the hidden layer. */
static void feed(const Decoder *d, const Block *b, const Step *s, float *hidden, float *own) {
  int64_t begin, end, width = d->d_ff;
  float *gate = b->gate.numbers ? hidden + s->n * width : hidden;
  const Norm *norm = d->pre_norm ? &b->feedforward_norm : 0;
  multiply(&b->up, norm, 1, s, s->x, d->d_model, hidden, width, 0, own);
  if (b->gate.numbers) {
    meet(s->team);
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

static void blocks(const Decoder *d, const Step *s) {
  int64_t n = s->n, model = d->d_model, heads = d->n_heads * d->d_head;
  int64_t row = heads + 2 * d->n_kv_heads * d->d_head;
  float *qkv = s->shared, *z = qkv + n * row, *hidden = z + n * heads;
  float *own = s->own + omp_get_thread_num() * s->own_size;
  for (int64_t l = 0; l < d->n_blocks; l++) {
    const Block *b = d->blocks + l;
    multiply(&b->qkv, d->pre_norm ? &b->attention_norm : 0, 1, s, s->x, model, qkv, row, 0, own);
  meet(s->team);
    keep(d, b, s, l, qkv, own);
  meet(s->team);
    attend_all(d, &b->q_norm, s, l, 0, qkv, row, z, own);
  meet(s->team);
    join(d, s, &b->out, &b->attention_norm, z, heads, own);
    if (b->cross_q.numbers) {
      const Norm *norm = d->pre_norm ? &b->cross_norm : 0;
      multiply(&b->cross_q, norm, 1, s, s->x, model, qkv, heads, 0, own);
  meet(s->team);
      attend_all(d, &b->cross_q_norm, s, l, 1, qkv, heads, z, own);
  meet(s->team);
      join(d, s, &b->cross_out, &b->cross_norm, z, heads, own);
    }
    feed(d, b, s, hidden, own);
  meet(s->team);
    join(d, s, &b->down, &b->feedforward_norm, hidden, d->d_ff, own);
  }
}

/* Logits of the rows that are asked for, or the likeliest elements after each. */
static void head(const Decoder *d, const Step *s) {
  int64_t width = d->d_model, rows = d->head.rows, i, end;
  float *own = s->own + omp_get_thread_num() * s->own_size;
  for (int64_t at = 0; at < s->n_asked; at += s->most) {
    Step part = *s;
    part.n = s->n_asked - at < s->most ? s->n_asked - at : s->most;
    share(part.n, 1, &i, &end);
    for (; i < end; i++)
      memcpy(s->shared + i * width, s->x + s->asked[at + i] * width, width * sizeof(float));
    meet(s->team);
    float *logits = s->logits + (s->k ? 0 : at * rows);
    multiply(&d->head, &d->norm, d->head_factor, &part, s->shared, width, logits, rows, 0, own);
    meet(s->team);
    if (!s->k) continue;
    share(part.n, 1, &i, &end);
    for (; i < end; i++) {
      int64_t to = (at + i) * s->k;
      likeliest(logits + i * rows, rows, s->k, s->ids + to, s->log_probs + to);
    }
    meet(s->team);
  }
}

static void run(const Decoder *d, const Step *s) {
  for (int64_t at = 0; at < s->n; at += s->most) {
    Step part = *s;
    part.n = s->n - at < s->most ? s->n - at : s->most;
    part.x += at * d->d_model;
    part.first += at, part.ends += at, part.source += at, part.source_ends += at;
    if (s->cos) part.cos += at * d->d_head, part.sin += at * d->d_head;
    part.bias_of += at;
    blocks(d, &part);
  }
  head(d, s);
}

#include "search.h"

#define SEARCH 16 /* rows of a search for each thread from which on it computes rows of its own, */
#define PART 64   /* and most of them, in equal parts that stay in its cache */

INLINE int64_t most_of(int64_t a, int64_t b) { return a < b ? b : a; }
INLINE int64_t lines_of(int64_t size) { return (size + 15) / 16 * 16; } /* of the cache */

/* Say how a step is divided, and where what it needs lies in its memory; returns how many numbers
   that are. */
static int64_t divide(const Decoder *d, Step *s) {
  int64_t heads = d->n_heads * d->d_head, longest = 0;
  int64_t widest = most_of(most_of(d->d_model, d->d_ff), heads) + COLUMNS;
  int64_t inputs = widest + widest / GROUP + 1; /* of a row, in words */
  for (int64_t i = 0; i < s->n; i++)
    longest = most_of(longest, most_of(s->ends[i], s->source_ends[i]));
  if (s->most > s->n) s->most = s->n;
  int64_t parts = (s->n + PART * s->threads - 1) / (PART * s->threads) * s->threads;
  s->part = s->k && s->n >= SEARCH * s->threads ? (s->n + parts - 1) / parts : 0;
  int64_t n = s->part ? s->part : s->most, teams = s->part ? s->threads : 1;
  int64_t row = 2 * (heads + d->n_kv_heads * d->d_head + d->d_ff);
  s->shared_size = lines_of(n * most_of(row, d->d_model));
  s->inputs_size = lines_of(n * inputs);
  row = most_of(widest + inputs, longest + WIDTH + d->d_head);
  s->own_size = lines_of(n * UNIT + most_of(TEXTS, TOGETHER) * row);
  int64_t shared = teams * s->shared_size, given = shared + teams * s->inputs_size;
  int64_t own = given + s->threads * s->own_size;
  if (s->memory) {
    s->shared = s->memory, s->inputs = s->memory + shared, s->own = s->memory + given;
    if (s->k) s->logits = s->memory + own;
  }
  return own + (s->k ? teams * n * d->head.rows : 0);
}

/* Whether units of rows hold a float32 matrix, to the bit. */
int64_t holds(const Matrix *m, const uint32_t *weight, int64_t threads) {
  uint32_t other = 0;
#pragma omp parallel for num_threads(threads) reduction(| : other)
  for (int64_t first = 0; first < m->rows; first += UNIT) {
    const uint32_t *unit = (const uint32_t *)m->numbers + first * m->columns;
    int64_t rows = m->rows - first < UNIT ? m->rows - first : UNIT;
    for (int64_t k = 0; k < m->inputs; k += WIDTH) { /* pieces that stay in the cache */
      int64_t n = m->inputs - k < WIDTH ? m->inputs - k : WIDTH;
      for (int64_t r = 0; r < rows; r++) {
        const uint32_t *row = weight + (first + r) * m->inputs + k, *own = unit + k * UNIT + r;
        for (int64_t i = 0; i < n; i++) other |= own[i * UNIT] ^ row[i];
      }
    }
  }
  return !other;
}

/* Compute a step; without memory, only return how many numbers it needs. */
int64_t decoder_step(const Decoder *d, const Step *step) {
  Team team = {0};
  Step s = *step;
  int64_t needed = divide(d, &s);
  if (!s.memory) return needed;
  s.team = &team;
  if (s.part) {
    search(d, &s);
    return needed;
  }
#pragma omp parallel num_threads(s.threads)
  run(d, &s);
  return needed;
}
