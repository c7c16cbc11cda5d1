/* Products of a matrix in any format with the inputs of any number of texts.

   Inputs are read in words of 4 bytes: 1 number, 2 in bfloat16, 4 integers in 8 and 4 bits. A
   matrix lies in units of 32 rows, and in a unit, for one word after the other, the weights of all
   rows that belong to it. So a vector has a sum of each row, and a word is multiplied with all of
   them at once. Inputs lie in tiles of a few texts, in a tile word by word.

   A sum is added in the order of the columns, in blocks, whatever other texts and threads there
   are. Of a unit, a block stays in the cache until all tiles have passed. */

#ifdef _OPENMP
#include <omp.h>
#else
#define omp_get_thread_num() 0
#define omp_get_num_threads() 1
#endif
#include <sched.h>

/* Threads that wait for each other. OpenMP's own barrier puts a thread to sleep at once as soon as
   the process has more threads than the system has processors, which doubles the time of a step. */
typedef struct {
  _Atomic int64_t arrived, round;
} Team;

#define SPINS 1000000 /* some milliseconds */

static void meet(Team *team) {
  int64_t round = team->round, threads = omp_get_num_threads();
  if (++team->arrived == threads) {
    team->arrived = 0;
    team->round++;
  }
  for (int64_t spins = 0; team->round == round; spins++)
    if (spins > SPINS) sched_yield(); /* perhaps to the one that is waited for */
}


#define UNIT 32              /* rows of a matrix that lie together, and are computed at a time */
#define VECTORS (UNIT / WIDTH)
#define COLUMNS 64           /* of which a matrix has multiples */
#define BLOCK 256            /* words of inputs */
#define IN_BLOCK (4 * BLOCK) /* integers in them */

typedef struct {
  const void *numbers; /* units of rows, the last one filled with zeros; in 8 bits 128 more; in 4
                          bits, behind each group of a unit, of each row the step and the zero
                          of step · q + zero, in bfloat16, the step in the upper half */
  const float *scale;  /* of each row of all units, in 8 bits */
  const float *bias;             /* the same, or NULL */
  int64_t rows, columns, format; /* columns: the last ones are zeros */
  int64_t inputs;                /* columns without those */
} Matrix;

typedef struct {
  uint32_t *words; /* in tiles */
  uint32_t *sums;  /* in tiles: in 8 bits -OFFSET times the sum of the integers of each block, in 4
                      bits the sum of those of each group, a float */
  float *scale;    /* of the integers of each text */
} Inputs;

INLINE int64_t words_of(const Matrix *m) {
  return m->format == BF16 ? m->columns / 2 : m->format >= INT8 ? m->columns / 4 : m->columns;
}

INLINE int64_t sums_of(const Matrix *m) {
  if (m->format == INT8) return (m->columns + IN_BLOCK - 1) / IN_BLOCK;
  return m->format == INT4 ? m->columns / GROUP : 0;
}

/* The inputs of n texts at a place, which has room for n (columns + columns / GROUP + 1) words. */
static Inputs inputs_at(const Matrix *m, int64_t n, uint32_t *place) {
  uint32_t *sums = place + n * words_of(m);
  return (Inputs){place, sums, (float *)sums + n * sums_of(m)};
}

/* Texts of the next tile, of so many left. */
INLINE int64_t tile_of(int64_t left) {
  int64_t texts = TEXTS;
  while (texts > left) texts /= 2;
  return texts;
}

/* This thread's share of a count, in units. */
INLINE void share(int64_t count, int64_t unit, int64_t *begin, int64_t *end) {
  int64_t units = (count + unit - 1) / unit;
  int64_t thread = omp_get_thread_num(), threads = omp_get_num_threads();
  *begin = units * thread / threads * unit;
  *end = units * (thread + 1) / threads * unit;
  if (*end > count) *end = count;
}

/* --- inputs --- */

/* Numbers of one text as integers: x = scale · q, |q| at most 127, bytes at the place of x. */
static void rounded(const Matrix *m, float *x, float *scale, int64_t texts, uint32_t *sums) {
  int64_t columns = m->columns, eight = m->format == INT8, part = eight ? IN_BLOCK : GROUP;
  Integers sizes[4] = {0}; /* as integers they have the same order, and what is no number is last */
  for (int64_t k = 0; k < columns; k += 4 * WIDTH)
    for (int i = 0; i < 4; i++) {
      Integers size = load_integers(x + k + i * WIDTH) & 0x7fffffff;
      sizes[i] = larger(sizes[i], size);
    }
  sizes[0] = larger(larger(sizes[0], sizes[1]), larger(sizes[2], sizes[3]));
  int32_t most = 0;
  for (int i = 0; i < WIDTH; i++) most = most < sizes[0][i] ? sizes[0][i] : most;
  float peak = ((Single){(uint32_t)most}).value, factor = most ? 127 / peak : 0;
  *scale = most < 0x7f800000 ? peak / 127 : NAN;
  int8_t *bytes = (int8_t *)x;
  for (int64_t k = 0; k < columns; sums += texts) {
    Integers total = {0};
    for (int64_t end = k + part < columns ? k + part : columns; k < end; k += WIDTH) {
      Integers q = (Integers)(load(x + k) * factor + 12582912.0f) - 0x4B400000; /* the nearest */
      Bytes narrow = __builtin_convertvector(q, Bytes);
      memcpy(bytes + k, &narrow, WIDTH);
      total += q;
    }
    int32_t all = 0;
    for (int i = 0; i < WIDTH; i++) all += total[i];
    *sums = eight ? (uint32_t)(-OFFSET * all) : ((Single){.value = all}).bits;
  }
}

/* Write the tile of inputs that begins with text i, from rows of m->columns numbers, which are
   overwritten. */
static void arrange(const Matrix *m, float *rows, int64_t texts, int64_t i, const Inputs *in) {
  int64_t words = words_of(m), columns = m->columns;
  for (int64_t t = 0; t < texts; t++) {
    float *row = rows + t * columns;
    if (m->format >= INT8)
      rounded(m, row, in->scale + i + t, texts, in->sums + i * sums_of(m) + t);
    for (int64_t k = 0; m->format == BF16 && k < columns; k += WIDTH) {
      Halves half = narrowed(load(row + k));
      memcpy((uint16_t *)row + k, &half, sizeof half);
    }
  }
  uint32_t *to = in->words + i * words;
  for (int64_t k = 0; k < words; k++)
    for (int64_t t = 0; t < texts; t++) to[k * texts + t] = ((uint32_t *)rows)[t * columns + k];
}

/* --- products --- */

/* Bits of a word's weights in one row, in 4 bits with what stands behind a group. */
INLINE int64_t bits_of(int format) { return format == FP16 ? 16 : format == INT4 ? 20 : 32; }

/* Add to sums, which has UNIT of them for each text, or begin them with the products of a block of
   words with a tile of texts; of a unit, so many vectors. */
INLINE void tile(int format, int texts, int vectors, const char *unit, const char *ahead,
                 int64_t step, const uint32_t *words, int64_t count, const uint32_t *initial,
                 float *sums, int first) {
  Vector total[VECTORS][TEXTS] = {0};
  Integers whole[VECTORS][TEXTS] = {0};
  for (int t = 0; t < texts; t++)
    for (int v = 0; v < vectors; v++)
      if (format == INT8) whole[v][t] = word(initial + t);
  for (int64_t k = 0; k < count; k++) {
    Vector w[VECTORS];
    for (int v = 0; v < vectors; v++) {
      const char *p = unit + (k * VECTORS + v) * (WIDTH * bits_of(format) / 8);
      if (v * WIDTH % 16 == 0) __builtin_prefetch(ahead + (k * VECTORS + v) * step);
      w[v] = format == FP16 ? from_fp16((const uint16_t *)p) : load((const float *)p);
    }
    for (int t = 0; t < texts; t++) {
      Integers x = word(words + k * texts + t);
      for (int v = 0; v < vectors; v++)
        if (format == INT8) whole[v][t] = dot_bytes(whole[v][t], (Integers)w[v], x);
        else if (format == BF16) total[v][t] = dot_pairs(total[v][t], w[v], x);
        else total[v][t] += w[v] * (Vector)x;
    }
  }
  for (int t = 0; t < texts; t++)
    for (int v = 0; v < vectors; v++) {
      float *place = sums + t * UNIT + v * WIDTH;
      Vector value = total[v][t];
      if (format == INT8) value = __builtin_convertvector(whole[v][t], Vector);
      store(place, first ? value : load(place) + value);
    }
}

/* The same in 4 bits. 16 bytes of a row are a group, the first halves of it in the lower halves. */
INLINE void tile_int4(int texts, int vectors, const char *unit, const char *ahead, int64_t step,
                      const uint32_t *words, int64_t count, const uint32_t *group_sums,
                      float *sums, int first) {
  Vector total[VECTORS][TEXTS] = {0};
  for (int64_t g = 0; g < count / 8; g++) {
    const char *p = unit + g * 5 * UNIT * 4;
    for (int line = 0; line < 5 * VECTORS; line += VECTORS)
      for (int v = 0; v < vectors; v += 16 / WIDTH)
        __builtin_prefetch(ahead + (g * 5 * VECTORS + line + v) * step);
    Integers part[VECTORS][TEXTS] = {0};
    for (int s = 0; s < 4; s++) {
      Integers low[VECTORS], high[VECTORS];
      for (int v = 0; v < vectors; v++) {
        Integers both = load_integers(p + (s * VECTORS + v) * 4 * WIDTH);
        low[v] = both & 0x0f0f0f0f;
        high[v] = both >> 4 & 0x0f0f0f0f;
      }
      const uint32_t *x = words + (g * 8 + s) * texts;
      for (int t = 0; t < texts; t++) {
        Integers a = word(x + t), b = word(x + 4 * texts + t);
        for (int v = 0; v < vectors; v++)
          part[v][t] = dot_nibbles(dot_nibbles(part[v][t], low[v], a), high[v], b);
      }
    }
    for (int v = 0; v < vectors; v++) {
      Integers both = load_integers(p + (4 * VECTORS + v) * 4 * WIDTH);
      Vector steps = (Vector)(both & (int32_t)0xffff0000), zeros = (Vector)(both << 16);
      for (int t = 0; t < texts; t++) {
        total[v][t] += steps * __builtin_convertvector(whole_sums(part[v][t]), Vector);
        total[v][t] += zeros * (Vector)word(group_sums + g * texts + t);
      }
    }
  }
  for (int t = 0; t < texts; t++)
    for (int v = 0; v < vectors; v++) {
      float *place = sums + t * UNIT + v * WIDTH;
      store(place, first ? total[v][t] : load(place) + total[v][t]);
    }
}

/* A block of words, from word k on, of unit u with the tile that begins with text i of n. Over all
   tiles, as many bytes are fetched, further on: of many texts behind the block. */
INLINE void tile_at(const Matrix *m, int format, int texts, int64_t u, int64_t k, int64_t i,
                    int64_t n, const Inputs *in, float *sums) {
  int64_t words = words_of(m), count = words - k < BLOCK ? words - k : BLOCK;
  int64_t of_word = UNIT * bits_of(format) / 8, vector = format == FP16 ? 2 * WIDTH : 4 * WIDTH;
  const char *unit = (const char *)m->numbers + (u * words + k) * of_word;
  const char *ahead = unit + (n > TEXTS ? BLOCK * of_word : AHEAD) + count * of_word * i / n;
  const uint32_t *x = in->words + i * words + k * texts, *own = in->sums + i * sums_of(m);
  sums += i * UNIT, k /= format == INT4 ? 8 : BLOCK; /* the number of the group or block */
  int64_t step = vector * texts / n;
  own += k * texts;
  int some = texts > 2 ? 2 : VECTORS; /* as many sums as the processor has registers for */
  for (int v = 0; v < VECTORS; v += some, unit += some * vector, ahead += some * step) {
    float *to = sums + v * WIDTH;
    if (format == INT4) tile_int4(texts, some, unit, ahead, step, x, count, own, to, !k);
    else tile(format, texts, some, unit, ahead, step, x, count, own, to, !k);
  }
}

/* Write what the sums of unit u are to y, or add it. */
static void finish(const Matrix *m, int64_t u, const Inputs *in, int64_t n, float *sums, float *y,
                   int64_t to, int add) {
  int64_t f = u * UNIT, rows = m->rows - f < UNIT ? m->rows - f : UNIT;
  Vector scale[VECTORS], bias[VECTORS];
  for (int v = 0; v < VECTORS; v++) {
    scale[v] = m->format == INT8 ? load(m->scale + f + v * WIDTH) : all(1);
    bias[v] = m->bias ? load(m->bias + f + v * WIDTH) : all(0);
  }
  const float *own = m->format >= INT8 ? in->scale : 0;
  for (int64_t i = 0; i < n; i++, sums += UNIT)
    for (int v = 0; v < VECTORS; v++) {
      float *place = y + i * to + f + v * WIDTH;
      int64_t count = rows - v * WIDTH;
      Vector value = load(sums + v * WIDTH) * (scale[v] * (own ? own[i] : 1)) + bias[v];
      if (count > 0) store_part(place, add ? load_part(place, count) + value : value, count);
    }
}

#define TILE(FORMAT, WIDE) \
  if (WIDE <= TEXTS) tile_at(m, FORMAT, WIDE, u, k, i, n, in, sums)
#define PRODUCT(FORMAT)                                                                 \
  static void product_##FORMAT(const Matrix *m, const Inputs *in, float *y, int64_t to, \
                               int64_t n, int add, float *sums) {                       \
    int64_t u, end;                                                                     \
    share((m->rows + UNIT - 1) / UNIT, 1, &u, &end);                                    \
    for (; u < end; u++) {                                                              \
      for (int64_t k = 0; k < words_of(m); k += BLOCK)                                  \
        for (int64_t i = 0, texts; i < n; i += texts) switch (texts = tile_of(n - i)) { \
            case 8: TILE(FORMAT, 8); break;                                             \
            case 4: TILE(FORMAT, 4); break;                                             \
            case 2: TILE(FORMAT, 2); break;                                             \
            default: TILE(FORMAT, 1);                                                   \
          }                                                                             \
      finish(m, u, in, n, sums, y, to, add);                                            \
    }                                                                                   \
  }
PRODUCT(FP32)
PRODUCT(BF16)
PRODUCT(FP16)
PRODUCT(INT8)
PRODUCT(INT4)

/* y[i] = W x[i] + b, or that added to y[i], for this thread's share of the rows; `sums` has room
   for n UNIT numbers. */
static void product(const Matrix *m, const Inputs *in, float *y, int64_t to, int64_t n, int add,
                    float *sums) {
  switch (m->format) {
    case FP32: product_FP32(m, in, y, to, n, add, sums); break;
    case BF16: product_BF16(m, in, y, to, n, add, sums); break;
    case FP16: product_FP16(m, in, y, to, n, add, sums); break;
    case INT8: product_INT8(m, in, y, to, n, add, sums); break;
    default: product_INT4(m, in, y, to, n, add, sums);
  }
}
