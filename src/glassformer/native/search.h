/* A step of a beam search: rows that one thread computes by itself, a part of them at a time, and
   the likeliest elements after each. */

/* The rows of a search from `at` on, in the memory of this thread. */
static Step part_of(const Decoder *d, const Step *s, int64_t at) {
  int64_t thread = omp_get_thread_num();
  Step part = *s;
  part.n = s->n - at < s->part ? s->n - at : s->part;
  part.x += at * d->d_model;
  if (s->cos) part.cos += at * d->d_head, part.sin += at * d->d_head;
  part.bias_of += at;
  part.first += at, part.ends += at, part.source += at, part.source_ends += at;
  part.ids += at * s->k, part.log_probs += at * s->k;
  part.logits += thread * s->part * d->head.rows;
  part.shared += thread * s->shared_size, part.inputs += thread * s->inputs_size;
  part.own += thread * s->own_size;
  return part;
}

/* A step of a search: each thread computes parts of the rows by itself. */
static void search(const Decoder *d, const Step *s) {
#pragma omp parallel for schedule(dynamic) num_threads(s->threads)
  for (int64_t at = 0; at < s->n; at += s->part) {
    Team alone = {0};
    Step part = part_of(d, s, at);
    part.team = &alone;
    int64_t rows = d->head.rows;
#pragma omp parallel num_threads(1) /* the threads of `share` and `meet` */
    {
      blocks(d, &part);
      multiply(&d->head, &d->norm, d->head_factor, &part, part.x, d->d_model, part.logits, rows, 0,
               part.own);
    }
    for (int64_t i = 0; i < part.n; i++)
      likeliest(part.logits + i * rows, rows, s->k, part.ids + i * s->k, part.log_probs + i * s->k);
  }
}
