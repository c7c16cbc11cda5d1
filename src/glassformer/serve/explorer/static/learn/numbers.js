// @ts-check
// The notes' mathematics on plain lists, in double precision. A matrix is a list of rows.

/** @typedef {number[][]} Matrix */

/** Σ aᵢ bᵢ @param {number[]} a @param {number[]} b */
export const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);

/** A B @param {Matrix} a @param {Matrix} b @returns {Matrix} */
export const times = (a, b) =>
  a.map((row) => b[0].map((_, j) => row.reduce((sum, x, k) => sum + x * b[k][j], 0)));

/** Aᵀ @param {Matrix} a @returns {Matrix} */
export const transposed = (a) => a[0].map((_, j) => a.map((row) => row[j]));

/** Row by row, one list. @param {Matrix} a */
export const flat = (a) => a.flat();

/** Σ of a list. @param {number[]} a */
export const total = (a) => a.reduce((sum, x) => sum + x, 0);

/**
 * softmax(x / τ): the largest is subtracted first, so nothing overflows. −∞ gives 0; a row of −∞
 * alone gives 0. @param {number[]} x
 */
export function softmax(x, tau = 1) {
  const most = Math.max(...x);
  if (most === -Infinity) return x.map(() => 0);
  const powers = x.map((v) => Math.exp((v - most) / tau)),
    sum = total(powers);
  return powers.map((v) => v / sum);
}

/**
 * softmax(Q Kᵀ · scale + M) V for one head: {scores, pattern, z}. @param {Matrix} q @param {Matrix}
 * k @param {Matrix} v @param {{scale?: number, causal?: boolean}} [how]
 */
export function attention(q, k, v, {scale = 1 / Math.sqrt(k[0].length), causal = false} = {}) {
  const scores = q.map((row, i) =>
    k.map((key, j) => (causal && j > i ? -Infinity : dot(row, key) * scale)),
  );
  const pattern = scores.map((row) => softmax(row));
  return {scores, pattern, z: times(pattern, v)};
}

/**
 * Sinusoidal position of place t, width d. Paired: sin and cos of t / 10000^(2k/d), k = ⌊j/2⌋
 * (Notes A and E).
 * As printed in Note C: the exponent 2j/d at the raw index j.
 * @param {number} t @param {number} d
 */
export function sinusoid(t, d, paired = true) {
  return Array.from({length: d}, (_, j) => {
    const angle = t / 10000 ** ((2 * (paired ? Math.floor(j / 2) : j)) / d);
    return j % 2 ? Math.cos(angle) : Math.sin(angle);
  });
}

/** γ (x − μ)/σ + β with γ = 1, β = 0 and the population's σ. @param {number[]} x */
export function layerNorm(x, epsilon = 0) {
  const mean = total(x) / x.length,
    spread = Math.sqrt(total(x.map((v) => (v - mean) ** 2)) / x.length + epsilon);
  return x.map((v) => (spread === 0 ? 0 : (v - mean) / spread));
}

/** Rotation by an angle in degrees, times a scale, as a 2×2 matrix. */
export function turned(/** @type {number} */ degrees, scale = 1) {
  const a = (degrees * Math.PI) / 180;
  return [
    [scale * Math.cos(a), -scale * Math.sin(a)],
    [scale * Math.sin(a), scale * Math.cos(a)],
  ];
}

/**
 * Numbers of a normal distribution as a function of seed and index. @returns {number[]}
 */
export function noise(/** @type {number} */ seed, /** @type {number} */ count) {
  const uniform = (n) => {
    let x = Math.imul((n + 1) ^ Math.imul(seed + 1, 0x9e3779b1), 0x85ebca6b) >>> 0;
    x = Math.imul(x ^ (x >>> 15), 0xc2b2ae35) >>> 0;
    x = Math.imul(x ^ (x >>> 13), 0x27d4eb2f) >>> 0;
    return ((x ^ (x >>> 16)) >>> 0) / 4294967296;
  };
  return Array.from(
    {length: count},
    (_, i) =>
      Math.sqrt(-2 * Math.log(1 - uniform(2 * i))) * Math.cos(2 * Math.PI * uniform(2 * i + 1)),
  );
}

/** A rows × columns matrix of such numbers. */
export function noiseMatrix(
  /** @type {number} */ seed,
  /** @type {number} */ rows,
  /** @type {number} */ columns,
  scale = 1,
) {
  const values = noise(seed, rows * columns);
  return Array.from({length: rows}, (_, i) =>
    values.slice(i * columns, (i + 1) * columns).map((x) => scale * x),
  );
}

/** The largest |aᵢⱼ − bᵢⱼ|. @param {Matrix} a @param {Matrix} b */
export const furthest = (a, b) =>
  Math.max(...a.map((row, i) => Math.max(...row.map((x, j) => Math.abs(x - b[i][j])))));
