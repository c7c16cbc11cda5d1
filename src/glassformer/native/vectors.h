/* Vectors of the processor at hand, and functions of them. */

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX2__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

#ifdef __AVX512F__
#define WIDTH 16 /* numbers of a vector */
#define TEXTS 8  /* whose sums are computed at a time: 8, 4, 2 or 1 */
#else
#define WIDTH 8
#define TEXTS 4
#endif
#define AHEAD 16384 /* bytes from what is read to what is fetched meanwhile, of few texts */
#define TOGETHER 8 /* queries of a head */
#define GROUP 32 /* numbers that share a step in 4 bits */
#define INLINE static inline __attribute__((always_inline))

typedef float Vector __attribute__((vector_size(4 * WIDTH), aligned(4)));
typedef int32_t Integers __attribute__((vector_size(4 * WIDTH), aligned(4)));
typedef uint16_t Halves __attribute__((vector_size(2 * WIDTH)));
typedef int8_t Bytes __attribute__((vector_size(WIDTH)));
typedef union {
  uint32_t bits;
  float value;
} Single;

enum { FP32, BF16, FP16, INT8, INT4 };
enum { RELU, RELU_SQUARED, GELU, GELU_TANH, SILU, TANH, IDENTITY };

INLINE Vector load(const float *p) { return *(const Vector *)p; }
INLINE Integers load_integers(const void *p) { return *(const Integers *)p; }
INLINE void store(float *p, Vector v) { *(Vector *)p = v; }
INLINE Vector all(float value) { return value - (Vector){0}; }
INLINE Integers word(const uint32_t *p) { return (int32_t)*p + (Integers){0}; }
INLINE Vector pick(Integers where, Vector a, Vector b) { /* a where all bits are set, else b */
  return (Vector)(((Integers)a & where) | ((Integers)b & ~where));
}

INLINE Integers larger(Integers a, Integers b) { return (a & (a >= b)) | (b & (a < b)); }

INLINE float sum(Vector v) {
#ifdef __AVX512F__
  return _mm512_reduce_add_ps((__m512)v);
#else
  float total = 0;
  for (int i = 0; i < WIDTH; i++) total += v[i];
  return total;
#endif
}

/* The first numbers of a vector, so many if it has as many. */
INLINE Vector load_part(const float *p, int64_t count) { /* with zeros behind */
  if (count >= WIDTH) return load(p);
  Vector v = {0};
  memcpy(&v, p, count * sizeof(float));
  return v;
}
INLINE void store_part(float *p, Vector v, int64_t count) {
  if (count >= WIDTH) store(p, v);
  else memcpy(p, &v, count * sizeof(float));
}

/* A vector of the sums of as many vectors as it has numbers: neighbours are added until none is
   left. */
INLINE Vector sums(Vector *v) {
#if WIDTH == 16
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#else
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14
#define ODD 1, 3, 5, 7, 9, 11, 13, 15
#endif
#ifdef __clang__
#define SELECT(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SELECT(a, b, ...) __builtin_shuffle(a, b, (Integers){__VA_ARGS__})
#endif
  for (int n = WIDTH; n > 1; n /= 2)
    for (int i = 0; i < n; i += 2)
      v[i / 2] = SELECT(v[i], v[i + 1], EVEN) + SELECT(v[i], v[i + 1], ODD);
  return v[0];
}

/* --- numbers of 16 and 8 bits --- */

INLINE Halves narrowed(Vector v) { /* to the nearest bfloat16, of two the even one */
  Integers bits = (Integers)v, none = v != v, odd = bits >> 16 & 1;
  bits = ((bits + 0x7fff + odd) & ~none) | (0x7fc00000 & none);
  return __builtin_convertvector(bits >> 16 & 0xffff, Halves);
}

/* total plus the products of two bfloat16 in each place. */
INLINE Vector dot_pairs(Vector total, Vector a, Integers b) {
#ifdef __AVX512BF16__
  return (Vector)_mm512_dpbf16_ps((__m512)total, (__m512bh)a, (__m512bh)b);
#else
  total += (Vector)((Integers)a << 16) * (Vector)(b << 16);
  return total + (Vector)((Integers)a & (int32_t)0xffff0000) * (Vector)(b & (int32_t)0xffff0000);
#endif
}

INLINE float from_half(uint16_t half) { /* the exponent is moved by a product, which is exact */
  Single one = {(uint32_t)(half & 0x7fff) << 13};
  one.value *= 0x1p112f;
  if (one.value >= 65536.0f) one.bits |= 0x7f800000; /* infinite or not a number */
  one.bits |= (uint32_t)(half & 0x8000) << 16;
  return one.value;
}

INLINE Vector from_fp16(const uint16_t *p) {
#ifdef __AVX512F__
  return (Vector)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
#elif defined(__AVX2__) && defined(__F16C__)
  return (Vector)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
#else
  Vector v;
  for (int i = 0; i < WIDTH; i++) v[i] = from_half(p[i]);
  return v;
#endif
}

/* Numbers that were kept, from number k on, so many of them: float32 or float16. */
INLINE Vector kept(int halves, const char *p, int64_t k, int64_t count) {
  if (!halves) return load_part((const float *)p + k, count);
  if (count >= WIDTH) return from_fp16((const uint16_t *)p + k);
  uint16_t part[WIDTH] = {0};
  memcpy(part, (const uint16_t *)p + k, count * sizeof(uint16_t));
  return from_fp16(part);
}

/* The nearest float16, of two the even one; what is too large becomes the largest. */
INLINE uint16_t to_half(float value) {
  Single one = {.value = fabsf(value)}, whole = one;
  uint16_t sign = ((Single){.value = value}).bits >> 16 & 0x8000;
  if (value != value) return sign | 0x7e00;
  if (one.value > 65504.0f) return sign | 0x7bff;
  if (one.value < 0x1p-14f) return sign | (uint16_t)rintf(one.value * 0x1p24f);
  return sign | (uint16_t)((whole.bits + 0xfff + (whole.bits >> 13 & 1) - (112u << 23)) >> 13);
}

INLINE void to_fp16(uint16_t *to, const float *x, int64_t n) {
  int64_t k = 0;
#ifdef __AVX512F__
  for (; k + 16 <= n; k += 16) {
    __m512 v = _mm512_loadu_ps(x + k), most = _mm512_set1_ps(65504.0f);
    v = _mm512_mask_mov_ps(v, _mm512_cmp_ps_mask(v, most, _CMP_GT_OQ), most);
    most = _mm512_set1_ps(-65504.0f);
    v = _mm512_mask_mov_ps(v, _mm512_cmp_ps_mask(v, most, _CMP_LT_OQ), most);
    _mm256_storeu_si256((__m256i *)(to + k), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
#endif
  for (; k < n; k++) to[k] = to_half(x[k]);
}

/* total plus the products of four bytes in each place: dot_bytes of weights of 8 bits, which are
   stored 128 too large and multiplied OFFSET too large; dot_nibbles of weights of 4 bits, at most
   eight times, until whole_sums makes integers of what it has added up. */
#if defined(__AVX2__) && WIDTH == 8 && !defined(__AVXVNNI__)
#define OFFSET 0
#define PAIRS(a, b) _mm256_maddubs_epi16((__m256i)(a), (__m256i)(b)) /* in 16 bits */
INLINE Integers whole_sums(Integers pairs) {
  return (Integers)_mm256_madd_epi16((__m256i)pairs, _mm256_set1_epi16(1));
}
INLINE Integers dot_bytes(Integers total, Integers weights, Integers any) {
  __m256i w = (__m256i)(weights ^ (int32_t)0x80808080);
  Integers signs_moved = (Integers)_mm256_sign_epi8((__m256i)any, w); /* 128 · 127 · 2 fit */
  return total + whole_sums((Integers)PAIRS(_mm256_abs_epi8(w), signs_moved));
}
INLINE Integers dot_nibbles(Integers pairs, Integers weights, Integers any) { /* 15 · 127 · 16 */
  return (Integers)_mm256_add_epi16((__m256i)pairs, PAIRS(weights, any));
}
#else
#define OFFSET 128
INLINE Integers dot_bytes(Integers total, Integers positive, Integers any) {
#ifdef __AVX512VNNI__
  return (Integers)_mm512_dpbusd_epi32((__m512i)total, (__m512i)positive, (__m512i)any);
#elif defined(__AVXVNNI__) && WIDTH == 8
  return (Integers)_mm256_dpbusd_avx_epi32((__m256i)total, (__m256i)positive, (__m256i)any);
#else
  for (int at = 0; at < 32; at += 8) total += (positive >> at & 255) * (any << (24 - at) >> 24);
  return total;
#endif
}
#define dot_nibbles dot_bytes
#define whole_sums(sums) (sums)
#endif

/* --- functions --- */

/* eˣ for x in -87 .. 88: 2ⁿ times a polynomial, to 2 units in the last place. */
INLINE Vector exponential(Vector x) {
  x = pick(x < -87.0f, all(-87.0f), x);
  x = pick(x > 88.0f, all(88.0f), x);
  Vector n = (x * 1.44269504f + 12582912.0f) - 12582912.0f; /* rounded to a whole number */
  Vector r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  Vector p = all(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  Integers power = (Integers)(n + 12582912.0f) - 0x4B400000;
  return p * (Vector)((power + 127) << 23);
}

INLINE Vector hyperbolic_tangent(Vector x) { return 1.0f - 2.0f / (exponential(x + x) + 1.0f); }

/* erf x to 1.5e-7 (Abramowitz and Stegun 1964, 7.1.26). */
INLINE Vector error_function(Vector x) {
  Vector a = pick(x < 0, -x, x), t = 1.0f / (1.0f + 0.3275911f * a), p = all(1.061405429f);
  p = p * t - 1.453152027f;
  p = p * t + 1.421413741f;
  p = p * t - 0.284496736f;
  p = p * t + 0.254829592f;
  Vector y = 1.0f - p * t * exponential(-a * a);
  return pick(x < 0, -y, y);
}

INLINE Vector activated(int64_t kind, Vector x) {
  Vector positive = pick(x < 0, all(0), x);
  switch (kind) {
    case RELU: return positive;
    case RELU_SQUARED: return positive * positive;
    case GELU: return 0.5f * x * (1.0f + error_function(x * 0.70710678f));
    case GELU_TANH:
      return 0.5f * x * (1.0f + hyperbolic_tangent(0.79788456f * (x + 0.044715f * x * x * x)));
    case SILU: return x / (1.0f + exponential(-x));
    case TANH: return hyperbolic_tangent(x);
    default: return x;
  }
}

INLINE float dot(const float *a, const float *b, int64_t n) {
  Vector total = {0};
  int64_t k = 0;
  for (; k + WIDTH <= n; k += WIDTH) total += load(a + k) * load(b + k);
  float rest = 0;
  for (; k < n; k++) rest += a[k] * b[k];
  return sum(total) + rest;
}
