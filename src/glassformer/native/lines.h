/* Attention of the rows of a search, each of which reads its keys where they stand.

   Rows of a sentence follow each other and read nearly the same slots, so the rows take turns with
   one head, and only what the row before has not read is fetched ahead. */

/* Where the keys of a row are: in the slots of its line, or in those from `first` on. */
typedef struct {
  const int32_t *line;
  int64_t first, past, n; /* keys that are out of the window; the others */
} Places;

INLINE Places places_of(const Decoder *d, const Step *s, int64_t i, int crossed) {
  if (crossed) return (Places){0, s->source[i], 0, s->source_ends[i]};
  int64_t past = d->window && s->ends[i] > d->window ? s->ends[i] - d->window : 0;
  return (Places){s->lines + i * s->line + past, 0, past, s->ends[i] - past};
}

INLINE int64_t slot_of(Places own, int64_t j) { return own.line ? own.line[j] : own.first + j; }

/* Fetch keys and values that another row has not read. */
INLINE void fetch(const char *keys, const char *values, Places own, Places other, int64_t bytes) {
  for (int64_t j = 0; j < own.n; j++) {
    int64_t at = slot_of(own, j) * bytes;
    if (j < other.n && slot_of(own, j) == slot_of(other, j)) continue;
    for (int64_t k = 0; k < bytes; k += 64) {
      __builtin_prefetch(keys + at + k);
      __builtin_prefetch(values + at + k);
    }
  }
}

/* q · key of WIDTH keys from number j on; anything behind the last one. */
INLINE Vector scores_in(int halves, const float *q, const char *keys, Places own, int64_t j,
                        int64_t width) {
  Vector total[WIDTH] = {0};
  for (int i = 0; i < WIDTH && j + i < own.n; i += 4) {
    Vector four[4] = {0};
    int64_t at[4];
    for (int t = 0; t < 4; t++) at[t] = slot_of(own, j + i + t < own.n ? j + i + t : j) * width;
    for (int64_t k = 0; k < width; k += WIDTH)
      for (int t = 0; t < 4; t++)
        four[t] += load_part(q + k, width - k) * kept(halves, keys, at[t] + k, width - k);
    for (int t = 0; t < 4; t++) total[i + t] = four[t];
  }
  return sums(total);
}

/* z = so many vectors of the values from number k on, times weights; even and odd ones apart. */
INLINE void weighted_in(int halves, const float *weights, const char *values, Places own,
                        int64_t k, int64_t width, int vectors, float factor, float *z) {
  Vector total[2][4] = {0};
  for (int64_t j = 0; j < own.n; j++)
    for (int v = 0; v < vectors; v++) {
      int64_t at = k + v * WIDTH, place = slot_of(own, j) * width + at;
      total[j % 2][v] += weights[j] * kept(halves, values, place, width - at);
    }
  for (int v = 0; v < vectors; v++) {
    int64_t at = k + v * WIDTH;
    store_part(z + at, (total[0][v] + total[1][v]) * factor, width - at);
  }
}

/* z = softmax(q · keys · scale + bias) values. */
INLINE void attend_in(int halves, const float *q, const char *keys, const char *values,
                      const float *bias, Places own, int64_t width, float scale, float *weights,
                      float *z) {
  Vector tops = all(-INFINITY), totals = {0};
  for (int64_t j = 0; j < own.n; j += WIDTH) {
    Vector score = scores_in(halves, q, keys, own, j, width) * scale;
    if (bias) score += load_part(bias + j, own.n - j);
    store(weights + j, score);
    for (int64_t i = own.n; i < j + WIDTH; i++) weights[i] = weights[0]; /* for the largest */
    tops = pick(load(weights + j) <= tops, tops, load(weights + j));
  }
  float top = largest(tops);
  for (int64_t j = own.n; j % WIDTH; j++) weights[j] = top - 1000; /* adds nothing */
  for (int64_t j = 0; j < own.n; j += WIDTH) {
    store(weights + j, exponential(load(weights + j) - top));
    totals += load(weights + j);
  }
  float factor = 1 / sum(totals);
  int64_t k = 0;
  for (; k + 4 * WIDTH <= width; k += 4 * WIDTH)
    weighted_in(halves, weights, values, own, k, width, 4, factor, z);
  for (; k < width; k += WIDTH)
    weighted_in(halves, weights, values, own, k, width, 1, factor, z);
}

INLINE void attend_rows(int halves, const Decoder *d, const Norm *q_norm, const Step *s,
                        int64_t block, int crossed, float *qs, int64_t row, int64_t width,
                        float *z, float *own) {
  int64_t bytes = bytes_of_slots(d, s, 1);
  for (int64_t h = 0; h < d->n_heads; h++) {
    const char *keys = keys_of(d, s, block, h / (d->n_heads / d->n_kv_heads));
    const char *values = keys + d->n_kv_heads * s->slots * bytes;
    for (int64_t i = 0; i < s->n; i++) {
      Places at = places_of(d, s, i, crossed);
      float *q = qs + i * row + h * width;
      if (i + 1 < s->n) fetch(keys, values, places_of(d, s, i + 1, crossed), at, bytes);
      if (q_norm->weight) normalize(q_norm, q, q, width);
      if (s->cos && !crossed) rotate(q, s->cos + i * width, s->sin + i * width, width, own);
      const float *bias = s->bias && !crossed ? s->bias[i] + h * s->bias_width[i] + at.past : 0;
      float *to = z + (i * d->n_heads + h) * width;
      attend_in(halves, q, keys, values, bias, at, width, d->scale, own, to);
    }
  }
}

/* Attention of all rows, by one thread: to the own keys, or to the source's. */
static void attend_lines(const Decoder *d, const Norm *q_norm, const Step *s, int64_t block,
                         int crossed, float *qs, int64_t row, float *z, float *own) {
  int64_t width = d->d_head;
#define ROWS(HALVES, WIDE) attend_rows(HALVES, d, q_norm, s, block, crossed, qs, row, WIDE, z, own)
  if (width == 64 && s->halves) ROWS(1, 64); /* without loops over a width that is known */
  else if (width == 64) ROWS(0, 64);
  else if (s->halves) ROWS(1, width);
  else ROWS(0, width);
}
