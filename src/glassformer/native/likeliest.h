/* The choices of one text among its logits. */

/* A bit for each number of a vector that is larger. */
INLINE uint32_t larger(Vector v, float least) {
#ifdef __AVX512F__
  return _mm512_cmp_ps_mask((__m512)v, _mm512_set1_ps(least), _CMP_GT_OQ);
#else
  uint32_t bits = 0;
  for (int i = 0; i < WIDTH; i++) bits |= (uint32_t)(v[i] > least) << i;
  return bits;
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
    uint32_t bits = larger(load(u + j), top[k - 1]);
    bits |= larger(load(u + j + WIDTH), top[k - 1]) << WIDTH;
    for (; bits; bits &= bits - 1) {
      int64_t i = j + __builtin_ctz(bits);
      if (u[i] > top[k - 1]) insert(u[i], i, k, top, ids);
    }
  }
  for (; j < n; j++)
    if (u[j] > top[k - 1]) insert(u[j], j, k, top, ids);
  Vector totals = {0}, more = {0};
  for (j = 0; j < whole; j += 2 * WIDTH) {
    totals += exponential(load(u + j) - top[0]);
    more += exponential(load(u + j + WIDTH) - top[0]);
  }
  float total = sum(totals + more);
  for (; j < n; j++) total += expf(u[j] - top[0]);
  float first = top[0], rest = logf(total);
  for (int64_t i = 0; i < k; i++) top[i] = (top[i] - first) - rest;
}
