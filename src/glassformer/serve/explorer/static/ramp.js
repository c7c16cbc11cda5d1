// @ts-check
// Colours of numbers: attention in one hue, signed numbers from blue through neutral to orange;
// light and dark.
// A larger number has more contrast to the page: lightness is monotone. Source: Ottosson,
// OKLab, 2020.

/** @typedef {"attention" | "signed"} Kind */

/** The weights that a legend names. */
export const TICKS = [0, 0.01, 0.05, 0.1, 0.25, 0.5, 1];

/**
 * 256 colours from least to most, each as the Uint32 of an ImageData's pixel. @param {Kind} kind
 * @param {boolean} dark
 */
export function ramp(kind, dark) {
  const name = `${kind} ${dark}`;
  if (!made.has(name))
    made.set(
      name,
      Uint32Array.from({length: 256}, (_, i) => pixel(MAKERS[kind](i / 255, dark))),
    );
  return /** @type {Uint32Array} */ (made.get(name));
}

/**
 * The step 0..255 of a number. Attention: in [low, high], √ by default, so that small weights are
 * visible.
 * Signed: linear, the middle is 0, `high` is the largest size.
 * @param {number} value @param {{kind?: Kind, scale?: string, low?: number, high?: number}} [how]
 */
export function level(value, {kind = "attention", scale = "sqrt", low = 0, high = 1} = {}) {
  if (kind === "signed")
    return Math.round(127.5 + 127.5 * Math.max(-1, Math.min(1, value / (high || 1))));
  const share = Math.max(0, Math.min(1, (value - low) / (high - low || 1)));
  return Math.round(255 * SCALES[scale](share));
}

const SCALES = {
  sqrt: Math.sqrt,
  linear: (/** @type {number} */ x) => x,
  // four decades
  log: (/** @type {number} */ x) => Math.max(0, 1 + Math.log10(Math.max(x, 1e-4)) / 4),
};

/** A step of a table as CSS writes it. @param {Uint32Array} table @param {number} i */
export function css(table, i) {
  const colour = table[i];
  return `rgb(${colour & 255} ${(colour >> 8) & 255} ${(colour >> 16) & 255})`;
}

/**
 * Black or white, whichever is easier to read on a colour. @param {Uint32Array} table @param
 * {number} i
 */
export function ink(table, i) {
  const colour = table[i];
  const light = luminance([colour & 255, (colour >> 8) & 255, (colour >> 16) & 255]);
  return (light + 0.05) / 0.05 > 1.05 / (light + 0.05) ? "#000" : "#fff";
}

/**
 * The contrast of two luminances, 1 to 21 (WCAG 2.1). @param {number[]} one @param {number[]} other
 */
export function contrast(one, other) {
  const [high, low] = [luminance(one), luminance(other)].sort((a, b) => b - a);
  return (high + 0.05) / (low + 0.05);
}

/** Whether the page is dark: the reader's choice, otherwise the system's. */
export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Calls `fn` when the page turns light or dark; returns how to stop. @param {() => void} fn */
export function onTheme(fn) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  system.addEventListener("change", fn);
  document.addEventListener("themechange", fn);
  return () => {
    system.removeEventListener("change", fn);
    document.removeEventListener("themechange", fn);
  };
}

/** @type {Map<string, Uint32Array>} */
const made = new Map();

const MAKERS = {
  attention(/** @type {number} */ x, /** @type {boolean} */ dark) {
    const lightness = dark ? 0.2 + 0.72 * x : 0.982 - 0.702 * x;
    return oklch(lightness, 0.006 + 0.155 * Math.sin(Math.PI * Math.min(x, 0.7)), 272);
  },
  signed(/** @type {number} */ x, /** @type {boolean} */ dark) {
    const size = Math.abs(2 * x - 1),
      lightness = dark ? 0.22 + 0.58 * size : 0.975 - 0.455 * size;
    return oklch(lightness, 0.135 * size, x < 0.5 ? 250 : 55);
  },
};

/**
 * sRGB bytes of a colour of OKLCH; its chroma is lowered into the gamut of the screen. @returns
 * {number[]}
 */
function oklch(/** @type {number} */ l, /** @type {number} */ c, /** @type {number} */ hue) {
  const a = c * Math.cos((hue * Math.PI) / 180),
    b = c * Math.sin((hue * Math.PI) / 180);
  const [x, y, z] = [
    l + 0.3963377774 * a + 0.2158037573 * b,
    l - 0.1055613458 * a - 0.0638541728 * b,
    l - 0.0894841775 * a - 1.291485548 * b,
  ].map((v) => v ** 3);
  const linear = [
    4.0767416621 * x - 3.3077115913 * y + 0.2309699292 * z,
    -1.2684380046 * x + 2.6097574011 * y - 0.3413193965 * z,
    -0.0041960863 * x - 0.7034186147 * y + 1.707614701 * z,
  ];
  if (c > 0.002 && linear.some((v) => v < -0.001 || v > 1.001)) return oklch(l, c - 0.002, hue);
  return linear
    .map((v) => Math.max(0, Math.min(1, v)))
    .map((v) => Math.round(255 * (v <= 0.0031308 ? 12.92 * v : 1.055 * v ** (1 / 2.4) - 0.055)));
}

function pixel([red, green, blue]) {
  // little-endian: red is the first byte
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

function luminance(rgb) {
  const [r, g, b] = rgb
    .map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
