/* The choices of one text among its logits. */

INLINE int any(Integers where) { /* whether a bit is set */
#ifdef __AVX512F__
  return _mm512_test_epi32_mask((__m512i)where, (__m512i)where) != 0;
#else
  int32_t bits = 0;
  for (int i = 0; i < WIDTH; i++) bits |= where[i];
  return bits != 0;
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
    Vector a = load(u + j), b = load(u + j + WIDTH), least = all(top[k - 1]);
    if (!any((Integers)(a > least) | (Integers)(b > least))) continue;
    for (int64_t i = j; i < j + 2 * WIDTH; i++)
      if (u[i] > top[k - 1]) insert(u[i], i, k, top, ids);
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
