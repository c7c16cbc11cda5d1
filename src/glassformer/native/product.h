/* Products of a matrix in any format with the vectors of a few texts.

   A step takes the time of reading every matrix once, so each row is read once for all texts. Sums
   of a text are added in an order that depends on the matrix alone. */

#ifdef _OPENMP
#include <omp.h>
#else
#define omp_get_thread_num() 0
#define omp_get_num_threads() 1
#endif

typedef struct {
  const void *numbers;           /* rows x columns, one row behind the other */
  const float *scale;            /* of each row, in 8 bits */
  const int32_t *sums;           /* of each row's integers, in 8 bits */
  const uint16_t *steps, *zeros; /* of each group, in 4 bits: step · q + zero, in bfloat16 */
  const float *bias;             /* or NULL */
  int64_t rows, columns, format; /* columns: of whole vectors, the last ones of zeros */
  int64_t inputs;                /* columns without those */
} Matrix;

/* The vectors of all texts as a product reads them: integers times a scale in 8 and 4 bits. */
typedef struct {
  const char *numbers;
  const float *scale, *sums; /* of each text; of each of its groups */
  int64_t bytes;             /* from one text to the next */
} Inputs;

#ifdef __AVX512BF16__
#define BF16_PAIRS 1 /* products of two numbers in bfloat16 */
#else
#define BF16_PAIRS 0
#endif

INLINE int64_t bytes_of(int format) { return format == FP32 ? 4 : format == INT8 ? 1 : 2; }

/* Numbers of a row in one vector. */
INLINE int64_t numbers_of(int format) {
  return format == INT8 ? 4 * WIDTH : format == BF16 && BF16_PAIRS ? 2 * WIDTH : WIDTH;
}

/* One vector of a row, as `multiplied` takes it. */
INLINE Vector loaded(int format, const char *p) {
  if (format == FP16) return from_fp16((const uint16_t *)p);
  if (format == BF16 && !BF16_PAIRS) return from_bf16((const uint16_t *)p);
  return load((const float *)p);
}

INLINE Vector multiplied(int format, Vector total, Vector w, const char *x) {
  if (format == INT8) return (Vector)dot_bytes((Integers)total, load_integers(x), (Integers)w);
#if BF16_PAIRS
  if (format == BF16) {
    __m512i pairs = _mm512_loadu_si512(x);
    return (Vector)_mm512_dpbf16_ps((__m512)total, (__m512bh)pairs, (__m512bh)w);
  }
#endif
  return total + w * load((const float *)x);
}

/* sums[r][i] = row f + r of the matrix times text first + i. */
INLINE void rows_by_texts(const Matrix *m, int format, int rows, int texts, int64_t f,
                          const Inputs *in, int64_t first, float sums[ROWS][BATCH]) {
  int64_t bytes = bytes_of(format) * m->columns;
  int64_t of_input = format == FP16 || (format == BF16 && !BF16_PAIRS) ? 4 : bytes_of(format);
  const char *row = (const char *)m->numbers + f * bytes, *x = in->numbers + first * in->bytes;
  Vector total[ROWS][BATCH] = {0};
  for (int64_t k = 0; k < m->columns; k += numbers_of(format))
    for (int r = 0; r < rows; r++) {
      const char *p = row + r * bytes + k * bytes_of(format);
      __builtin_prefetch(p + ROWS * bytes); /* the next rows; without, half of the bandwidth */
      Vector w = loaded(format, p);
      for (int i = 0; i < texts; i++)
        total[r][i] = multiplied(format, total[r][i], w, x + i * in->bytes + k * of_input);
    }
  for (int r = 0; r < rows; r++)
    for (int i = 0; i < texts; i++) {
      if (format != INT8) {
        sums[r][i] = sum(total[r][i]);
      } else { /* the inputs are 128 too large */
        int64_t whole = sum_of_integers((Integers)total[r][i]) - 128 * (int64_t)m->sums[f + r];
        sums[r][i] = whole * (m->scale[f + r] * in->scale[first + i]);
      }
    }
}

/* Groups of a row in 4 bits, with zeros behind them up to a whole vector. */
INLINE int64_t whole_groups(const Matrix *m) { return (m->columns / GROUP + 15) / 16 * 16; }

INLINE void rows_by_texts_int4(const Matrix *m, int rows, int texts, int64_t f, const Inputs *in,
                               int64_t first, float sums[ROWS][BATCH]) {
  int64_t groups = m->columns / GROUP, whole = whole_groups(m), bytes = m->columns / 2;
  const char *row = (const char *)m->numbers + f * bytes, *x = in->numbers + first * in->bytes;
  Vector total[ROWS][BATCH] = {0};
  for (int64_t g = 0; g < groups; g += 2)
    for (int r = 0; r < rows; r++) {
      const char *p = row + r * bytes + g / 2 * GROUP;
      __builtin_prefetch(p + ROWS * bytes);
      for (int at = 0; at < 16 / WIDTH; at++) {
        Integers w = nibbles((const uint8_t *)p, at);
        Vector steps = steps_of(m->steps + (f + r) * groups + g, at);
        for (int i = 0; i < texts; i++) {
          Integers own = load_integers(x + i * in->bytes + (g + at) * GROUP);
          Integers products = dot_bytes((Integers){0}, w, own);
          total[r][i] += steps * __builtin_convertvector(products, Vector);
        }
      }
    }
  for (int r = 0; r < rows; r++)
    for (int64_t g = 0; g < whole; g += WIDTH) {
      Vector zeros = from_bf16(m->zeros + (f + r) * whole + g);
      for (int i = 0; i < texts; i++)
        total[r][i] += zeros * load(in->sums + (first + i) * whole + g);
    }
  for (int r = 0; r < rows; r++)
    for (int i = 0; i < texts; i++) sums[r][i] = sum(total[r][i]) * in->scale[first + i];
}

INLINE void part(const Matrix *m, int format, int rows, int texts, int64_t f, const Inputs *in,
                 int64_t i, float *y, int64_t to, int add) {
  float sums[ROWS][BATCH];
  if (format == INT4) rows_by_texts_int4(m, rows, texts, f, in, i, sums);
  else rows_by_texts(m, format, rows, texts, f, in, i, sums);
  for (int t = 0; t < texts; t++)
    for (int r = 0; r < rows; r++) {
      float *place = y + (i + t) * to + f + r;
      float value = sums[r][t] + (m->bias ? m->bias[f + r] : 0);
      *place = add ? *place + value : value;
    }
}

INLINE void parts(const Matrix *m, int format, int rows, int64_t f, const Inputs *in, float *y,
                  int64_t to, int64_t n, int add) {
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) part(m, format, rows, 4, f, in, i, y, to, add);
  if (i + 2 <= n) part(m, format, rows, 2, f, in, i, y, to, add), i += 2;
  if (i < n) part(m, format, rows, 1, f, in, i, y, to, add);
}

/* This thread's share of a count, in units. */
INLINE void share(int64_t count, int64_t unit, int64_t *begin, int64_t *end) {
  int64_t units = (count + unit - 1) / unit;
  int64_t thread = omp_get_thread_num(), threads = omp_get_num_threads();
  *begin = units * thread / threads * unit;
  *end = units * (thread + 1) / threads * unit;
  if (*end > count) *end = count;
}

#define PRODUCT(FORMAT)                                                                  \
  static void product_##FORMAT(const Matrix *m, const Inputs *in, float *y, int64_t to,  \
                               int64_t n, int add) {                                     \
    int64_t f, end;                                                                      \
    share(m->rows, ROWS, &f, &end);                                                      \
    for (; f + ROWS <= end; f += ROWS) parts(m, FORMAT, ROWS, f, in, y, to, n, add);     \
    for (; f < end; f++) parts(m, FORMAT, 1, f, in, y, to, n, add);                      \
  }
PRODUCT(FP32)
PRODUCT(BF16)
PRODUCT(FP16)
PRODUCT(INT8)
PRODUCT(INT4)

/* Integers of one text: x = scale · q, |q| at most 127; in 8 bits 128 more, so that none is
   negative. */
static void rounded(const Matrix *m, const float *x, int8_t *to, float *scale, float *sums) {
  int64_t shift = m->format == INT8 ? 128 : 0, whole = whole_groups(m);
  float peak = 0, finite = 0;
  for (int64_t k = 0; k < m->inputs; k++) {
    peak = peak < fabsf(x[k]) ? fabsf(x[k]) : peak;
    finite += x[k] * 0; /* not a number if one is not */
  }
  *scale = peak / 127 + finite;
  float factor = peak > 0 && finite == 0 ? 127 / peak : 0;
  for (int64_t k = 0; k < m->inputs; k++) {
    float value = factor ? x[k] * factor : 0;
    to[k] = (int8_t)((int32_t)rintf(value) + shift);
  }
  for (int64_t k = m->inputs; k < m->columns; k++) to[k] = (int8_t)shift;
  for (int64_t g = 0; !shift && g < whole; g++) {
    int32_t total = 0;
    for (int64_t k = g * GROUP; k < (g + 1) * GROUP && k < m->columns; k++) total += to[k];
    sums[g] = total;
  }
}

/* The inputs of a product, in this thread's memory `place` unless they are read as they lie. */
static Inputs prepared(const Matrix *m, const float *x, int64_t stride, int64_t n, float *place) {
  int64_t columns = m->columns, whole = whole_groups(m);
  int integers = m->format == INT8 || m->format == INT4, pairs = m->format == BF16 && BF16_PAIRS;
  if (!integers && !pairs && columns == m->inputs)
    return (Inputs){(const char *)x, 0, 0, 4 * stride};
  float *scale = place, *sums = place + n, *numbers = sums + n * whole;
  for (int64_t i = 0; i < n; i++) {
    const float *from = x + i * stride;
    if (integers) {
      rounded(m, from, (int8_t *)numbers + i * columns, scale + i, sums + i * whole);
    } else
      for (int64_t k = 0; k < columns; k++) {
        float value = k < m->inputs ? from[k] : 0;
        if (pairs) ((uint16_t *)numbers)[i * columns + k] = narrowed(value);
        else numbers[i * columns + k] = value;
      }
  }
  return (Inputs){(const char *)numbers, scale, sums, columns * (integers ? 1 : pairs ? 2 : 4)};
}

/* y[i] = W x[i] + b, or that added to y[i], for this thread's share of the rows. */
static void product(const Matrix *m, const float *x, int64_t stride, float *y, int64_t to,
                    int64_t n, int add, float *place) {
  Inputs in = prepared(m, x, stride, n, place);
  switch (m->format) {
    case FP32: product_FP32(m, &in, y, to, n, add); break;
    case BF16: product_BF16(m, &in, y, to, n, add); break;
    case FP16: product_FP16(m, &in, y, to, n, add); break;
    case INT8: product_INT8(m, &in, y, to, n, add); break;
    default: product_INT4(m, &in, y, to, n, add);
  }
}
