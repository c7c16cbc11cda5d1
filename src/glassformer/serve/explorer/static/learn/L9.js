// @ts-check
// Lesson 9, Notes C, D, E: the feed-forward network as a detector, the residual, and where the norm
// stands.
import {fill, h, svg} from "../dom.js";
import {fixed, number} from "../format.js";
import {bars, choice, figure, formula, lines, plane, prose, reading, slider} from "../marks.js";
import {p, section, trap} from "./article.js";
import {layerNorm, noiseMatrix, times} from "./numbers.js";

const ACTIVATIONS = {
  relu: {label: "ReLU", of: (x) => Math.max(0, x)},
  gelu: {label: "GELU", of: (x) => 0.5 * x * (1 + erf(x / Math.SQRT2))},
  none: {label: "none", of: (x) => x},
};
/** The error function to 1.5e−7 (Abramowitz and Stegun 7.1.26). */
function erf(/** @type {number} */ x) {
  const t = 1 / (1 + 0.3275911 * Math.abs(x)),
    y =
      1 -
      ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) *
        t *
        Math.exp(-x * x);
  return x < 0 ? -y : y;
}
/** The neuron of the note: how much Albert and Einstein together exceed a threshold. */
const neuron = (albert, einstein, threshold = 1, act = "relu") =>
  ACTIVATIONS[act].of(albert + einstein - threshold);
const NAMES = [
  ["Albert Einstein", 1, 1],
  ["Albert Camus", 1, 0],
  ["Einstein Bagels", 0, 1],
  ["studies", 0, 0],
];

function detector() {
  let act = "relu",
    threshold = 1,
    at = [1, 1];
  const picture = plane({
      name: "The neuron’s input",
      size: 1.5,
      arrows: [],
      xName: ["", "Albert"],
      yName: ["", "Einstein"],
    }),
    out = bars({
      items: [],
      name: "What is added along physics",
      high: 2,
      format: (x) => fixed(x),
      valueName: "physics",
    });
  const readings = h("div.readings");
  const pick = choice({
    label: "φ",
    options: Object.entries(ACTIVATIONS).map(([value, {label}]) => ({value, label})),
    value: act,
    onchange: (to) => ((act = to), draw()),
  });
  const bar = slider({
    label: "threshold",
    min: 0,
    max: 2,
    step: 0.05,
    value: 1,
    oninput: (x) => ((threshold = x), draw()),
  });
  const el = h("div.beside", picture.el, h("div.stack", out.el, readings));
  const frame = figure({
    title: "Albert ∧ Einstein → physics",
    controls: [pick.el, bar.el],
    picture: {...out, el},
    name: "and detector",
    shows:
      "One row of $W_1$ asks for both names at once, the bias sets the bar. Drag the " +
      "point: in the tinted half the neuron fires, and the column of $W_2$ that means " +
      "*physics* is added, as often as it fires.",
    hides: "real neurons, which rarely mean one thing; the note says so itself.",
  });
  function draw() {
    const shade = (to) => {
      const points = [];
      for (const [x, y] of [
        [1.5, 1.5],
        [1.5, threshold - 1.5],
        [threshold - 1.5, 1.5],
      ])
        points.push(to(x, y).join(","));
      return svg("polygon.square.after", {points: points.join(" ")});
    };
    picture.update({
      under: shade,
      arrows: [
        ...NAMES.map(([name, x, y]) => ({
          name,
          label: name === "studies" ? "" : name,
          x,
          y,
          dot: true,
        })),
        {
          name: "the vector",
          label: "",
          x: at[0],
          y: at[1],
          role: "main",
          onmove: (x, y) => ((at = [x, y]), draw()),
        },
      ],
    });
    out.update({
      items: [
        ...NAMES.map(([name, x, y]) => ({label: name, value: neuron(x, y, threshold, act)})),
        {label: "your vector", value: neuron(at[0], at[1], threshold, act)},
      ],
    });
    const values = NAMES.map(([, x, y]) => neuron(x, y, threshold, act)),
      and = values[0] > 0.5 && values.slice(1).every((v) => Math.abs(v) < 0.2);
    fill(
      readings,
      reading("fires for Albert Einstein alone", and ? "yes" : "no", and ? "good" : "bad"),
      reading("your vector, $h_1$", fixed(at[0] + at[1] - threshold)),
    );
    frame.refresh();
  }
  draw();
  return frame.el;
}

function column() {
  const W2 = [
      [1, 0.2],
      [0, 0.9],
      [0.5, -0.6],
    ],
    names = ["physics", "bakery", "name"],
    h1 = [1, 0.4];
  const out = bars({
    items: [],
    name: "The sum of columns",
    high: 1.5,
    format: (x) => fixed(x),
    valueName: "value",
  });
  const knobs = h1.map((start, i) =>
    slider({
      label: prose(`$h_${i}$`),
      name: `h ${i}`,
      min: -1,
      max: 1,
      step: 0.05,
      value: start,
      compact: true,
      oninput: (x) => ((h1[i] = x), draw()),
    }),
  );
  const frame = figure({
    title: "A matrix is a list of columns to add",
    controls: [
      h(
        "div.stack",
        knobs.map((k) => k.el),
      ),
    ],
    picture: out,
    name: "columns of W2",
    shows:
      "$\\sigma(h_0) w_0 + \\sigma(h_1) w_1$ with ReLU: a neuron at or below 0 adds " +
      "nothing, above 0 it adds its column.",
    hides: "the residual $e$ that this is added to.",
  });
  function draw() {
    out.update({
      items: names.map((label, r) => ({
        label,
        value: W2[r][0] * Math.max(0, h1[0]) + W2[r][1] * Math.max(0, h1[1]),
      })),
    });
    frame.refresh();
  }
  draw();
  return frame.el;
}

/** The gradient by all paths through n of the layers. */
const orderOf = (layers, slope, n) =>
  Array.from({length: n}, (_, i) => (layers - i) / (i + 1)).reduce((a, b) => a * b, 1) * slope ** n;
/** The gradient with residuals. */
const withResidual = (layers, slope) => (1 + slope) ** layers;
/** Weights of the two matrices of a feed-forward network. */
const weightCount = (d, factor) => 2 * d * d * factor;

function gradient() {
  let slope = 0.4,
    layers = 12;
  const x = Array.from({length: 25}, (_, n) => n),
    picture = lines({
      name: "The gradient that arrives",
      series: [],
      xName: "layers",
      yName: "log₁₀ of the gradient",
      y: [-12, 8],
    }),
    readings = h("div.readings");
  const orders = bars({
    items: [],
    name: "Orders of the product",
    format: (v) => number(v, 3),
    valueName: "share",
  });
  const knobs = [
    slider({
      label: prose("$f'$"),
      name: "slope",
      min: 0.05,
      max: 1,
      step: 0.05,
      value: slope,
      oninput: (v) => ((slope = v), draw()),
    }),
    slider({
      label: "layers",
      min: 1,
      max: 24,
      step: 1,
      value: layers,
      oninput: (v) => ((layers = v), draw()),
    }),
  ];
  const frame = figure({
    title: "The path that stays open",
    controls: knobs.map((k) => k.el),
    picture,
    below: [readings, h("h4.sub", prose("$1 + O_1 + O_2 + \\ldots$, by order")), orders.el],
    name: "residual gradient",
    shows:
      "Every layer multiplies the gradient by $f'$; with a residual by $1 + f'$. Expanded, " +
      "the product holds a 1: the path that passes through no layer at all.",
    hides:
      "real slopes, which differ by layer, direction and sign; with all of them equal and " +
      "positive the residual’s gradient grows.",
  });
  function draw() {
    picture.update({
      at: layers,
      series: [
        {name: "with residual", x, y: x.map((n) => n * Math.log10(1 + slope))},
        {name: "without", x, y: x.map((n) => n * Math.log10(slope))},
      ],
    });
    fill(
      readings,
      reading(
        `without: $f'^{${layers}}$`,
        number(slope ** layers, 3),
        slope ** layers < 1e-3 ? "bad" : "",
      ),
      reading(`with: $(1 + f')^{${layers}}$`, number(withResidual(layers, slope), 4)),
    );
    orders.update({
      items: Array.from({length: Math.min(layers, 8) + 1}, (_, n) => ({
        label: n === 0 ? "1" : `order ${n}`,
        value: orderOf(layers, slope, n),
      })),
    });
    frame.refresh();
  }
  draw();
  return frame.el;
}

/** The length of the stream after each layer. Post: LN(x + f(x)); pre: x + f(LN(x)). */
function stream(kind, layers = 24, d = 16) {
  let x = noiseMatrix(9, 1, d)[0];
  const length = (v) => Math.sqrt(v.reduce((a, b) => a + b * b, 0)),
    found = [length(x)];
  for (let n = 0; n < layers; n++) {
    const W = noiseMatrix(90 + n, d, d, 1 / Math.sqrt(d)),
      f = (v) => times([v], W)[0].map(Math.tanh);
    x =
      kind === "post"
        ? layerNorm(x.map((v, i) => v + f(x)[i]))
        : ((added) => x.map((v, i) => v + added[i]))(f(layerNorm(x)));
    found.push(length(x));
  }
  return found;
}

function norms() {
  const x = Array.from({length: 25}, (_, n) => n),
    picture = lines({
      name: "Length of the residual stream",
      xName: "layers",
      yName: "length",
      y: [0, 20],
      series: [
        {name: "pre-norm", x, y: stream("pre")},
        {name: "post-norm", x, y: stream("post")},
      ],
    });
  return figure({
    title: "Where the norm stands",
    picture,
    name: "pre and post norm",
    shows:
      "The same 24 random layers, 16 wide. After post-norm every vector has length " +
      "$\\sqrt{16} = 4$, for the norm is the last thing done; before it, the stream is " +
      "never rescaled and each layer only adds.",
    hides: "training. Both are used; the pre-norm stream gets one final norm before the head.",
  }).el;
}

/** @param {HTMLElement} el */
function render(el) {
  let d = 768;
  const counts = h("div.readings"),
    show = (factor) =>
      fill(
        counts,
        reading("neurons", number(d * factor)),
        reading("weights in $W_1$ and $W_2$", number(weightCount(d, factor))),
      );
  show(4);
  el.append(
    section(
      "A question with two parts",
      p(
        "Attention has carried *Albert* into the vector of *Einstein*. Now one neuron can " +
          "ask for both. Without a threshold it would be half content with *Einstein " +
          "Bagels*; the non-linearity makes it all or nothing.",
      ),
      formula("\\mathbf{e} + W_2 \\sigma(W_1 \\mathbf{e} + \\mathbf{b}_1) + \\mathbf{b}_2", "E"),
      detector(),
      column(),
    ),
    trap({
      title: "The middle is wider than the ends",
      printed:
        "Note D writes $\\MLP(X) = \\varphi(X W_1) W_2$ with $W_1, W_2 \\in \\mathbf{R}^{D " +
        "\\times D}$.",
      so:
        "Note E has $d_{\\text{hidden}} > d$, and so has nearly every model: four times as " +
        "wide in the 2017 Transformer and in GPT-2. Each neuron is one question, so width is " +
        "how many can be asked.",
      control: choice({
        label: "width, in multiples of d = 768",
        options: ["1", "2", "4"].map((value) => ({value, label: `${value} d`})),
        value: "4",
        onchange: (to) => show(Number(to)),
      }).el,
      shown: counts,
    }),
    section(
      "Keep what you have, add what you found",
      p(
        "Every part of a block adds to its input: $x + f(x)$. Backwards this is a sum too, " +
          "and the gradient always has one way that nothing shrinks.",
      ),
      formula(
        "\\frac{\\partial x_{i+1}}{\\partial x_i} = 1 + \\frac{\\partial f_i(x_i)}{\\partial x_i}",
        "C",
      ),
      gradient(),
    ),
    section(
      "Before or after",
      formula("\\text{post: } \\LN(x + f(x)), \\quad \\text{pre: } x + f(\\LN(x))", "B, E"),
      norms(),
    ),
  );
}

export const lesson = {
  id: "residual-and-mlp",
  note: "Notes B, C, D, E",
  title: "The residual and the detector",
  short: "Albert and Einstein make physics.",
  lead:
    "A block adds, it never replaces. See what a neuron adds when both halves of a name are " +
    "there, and why adding keeps gradients alive.",
  render,
  checks: [
    () => ["ReLU, threshold 1: Albert Einstein", neuron(1, 1), 1, 0],
    () => ["Albert Camus", neuron(1, 0), 0, 0],
    () => ["Einstein Bagels", neuron(0, 1), 0, 0],
    () => [
      "no activation, no threshold: Einstein Bagels still gets half",
      neuron(0, 1, 0, "none") / neuron(1, 1, 0, "none"),
      0.5,
      0,
    ],
    () => ["GELU(1)", neuron(1, 1, 1, "gelu"), 0.8413447, 1e-6],
    () => [
      "$(1 + f')^{12}$ by orders, $f' = 0.4$",
      Array.from({length: 13}, (_, n) => orderOf(12, 0.4, n)).reduce((a, b) => a + b),
      withResidual(12, 0.4),
      1e-10,
    ],
    () => ["length after post-norm: $\\sqrt{16}$", stream("post")[24], 4, 1e-12],
    () => ["weights, D × D as in Note D, d = 768", weightCount(768, 1), 1179648, 0],
    () => ["weights, four times as wide", weightCount(768, 4), 4718592, 0],
  ],
};
