/* The choices of one text among its logits. */

/* A bit for each number of a vector that is larger. */
INLINE uint32_t above(Vector v, float least) {
#ifdef __AVX512F__
  return _mm512_cmp_ps_mask((__m512)v, _mm512_set1_ps(least), _CMP_GT_OQ);
#else
  uint32_t bits = 0;
  for (int i = 0; i < WIDTH; i++) bits |= (uint32_t)(v[i] > least) << i;
  return bits;
#endif
}

INLINE float largest(Vector v) {
#ifdef __AVX512F__
  return _mm512_reduce_max_ps((__m512)v);
#else
  float top = v[0];
  for (int i = 1; i < WIDTH; i++) top = v[i] <= top ? top : v[i];
  return top;
#endif
}

/* eˣ for x at most 0, to 3 units in the last place of 1: what a sum of such numbers needs. */
INLINE Vector share_of(Vector x) {
#ifdef __AVX512F__
  __m512 t = _mm512_max_ps(_mm512_set1_ps(-126), (__m512)(x * 1.44269504f));
  __m512 n = _mm512_roundscale_ps(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  Vector f = (Vector)t - (Vector)n, p = all(1.33336498e-3f);
  p = p * f + 9.61817006e-3f;
  p = p * f + 5.55041087e-2f;
  p = p * f + 2.40226507e-1f;
  p = p * f + 6.93147182e-1f;
  return (Vector)_mm512_scalef_ps((__m512)(p * f + 1.0f), n);
#else
  return exponential(x);
#endif
}

/* Put a number among the k largest, behind its equals. */
INLINE void insert(float u, int64_t id, int64_t k, float *top, int64_t *ids) {
  int64_t at = k - 1;
  for (; at > 0 && u > top[at - 1]; at--) top[at] = top[at - 1], ids[at] = ids[at - 1];
  top[at] = u, ids[at] = id;
}

/* The k likeliest of n elements, the lower of equals first, and their log p = u - log Σ exp u. */
static void likeliest(const float *u, int64_t n, int64_t k, int64_t *ids, float *top) {
  for (int64_t i = 0; i < k; i++) top[i] = -INFINITY, ids[i] = 0;
  int64_t j = 0, whole = n - n % (2 * WIDTH);
  for (; j < whole; j += 2 * WIDTH) {
    uint32_t bits = above(load(u + j), top[k - 1]);
    bits |= above(load(u + j + WIDTH), top[k - 1]) << WIDTH;
    for (; bits; bits &= bits - 1) {
      int64_t i = j + __builtin_ctz(bits);
      if (u[i] > top[k - 1]) insert(u[i], i, k, top, ids);
    }
  }
  for (; j < n; j++)
    if (u[j] > top[k - 1]) insert(u[j], j, k, top, ids);
  Vector totals = {0}, more = {0};
  for (j = 0; j < whole; j += 2 * WIDTH) {
    totals += share_of(load(u + j) - top[0]);
    more += share_of(load(u + j + WIDTH) - top[0]);
  }
  float total = sum(totals + more);
  for (; j < n; j++) total += expf(u[j] - top[0]);
  float first = top[0], rest = logf(total);
  for (int64_t i = 0; i < k; i++) top[i] = (top[i] - first) - rest;
}
