// @ts-check
// Formulas as native MathML, written in a small part of TeX: tex("z_i = \\sum_j p_{ij} v_j").
// Understands _ ^ {} \frac \sqrt \text \mathbf \hat \vec \bar \underbrace, Greek letters, and the
// signs below.
import {h, math} from "./dom.js";

const SIGNS = {
  cdot: "⋅",
  times: "×",
  sum: "∑",
  prod: "∏",
  le: "≤",
  ge: "≥",
  neq: "≠",
  approx: "≈",
  in: "∈",
  to: "→",
  sim: "∼",
  pm: "±",
  oplus: "⊕",
  top: "⊤",
  ldots: "…",
  cdots: "⋯",
  partial: "∂",
  lfloor: "⌊",
  rfloor: "⌋",
  forall: "∀",
  mapsto: "↦",
  wedge: "∧",
  Vert: "‖",
};
const LETTERS = {
  infty: "∞",
  alpha: "α",
  beta: "β",
  gamma: "γ",
  delta: "δ",
  Delta: "Δ",
  epsilon: "ε",
  theta: "θ",
  mu: "μ",
  pi: "π",
  sigma: "σ",
  tau: "τ",
  phi: "φ",
  varphi: "φ",
  omega: "ω",
  ell: "ℓ",
};
const NAMES = new Set([
  "softmax",
  "exp",
  "sin",
  "cos",
  "max",
  "min",
  "log",
  "concat",
  "ReLU",
  "LN",
  "MLP",
  "Attention",
  "LayerNorm",
  "Pos",
  "FFN",
]);
const OVER = {hat: "^", vec: "→", bar: "¯"};

/** A formula in a line of text. @param {string} source */
export function tex(source) {
  return math("math", {alttext: source}, ...parse(source));
}

/** A formula on a line of its own. @param {string} source @param {string} [number] */
export function formula(source, number) {
  return h(
    "div.formula",
    math("math", {display: "block", alttext: source}, ...parse(source)),
    number ? h("span.formula-number", `(${number})`) : null,
  );
}

/** Text with $formulas$, *emphasis* and `code`, as nodes. @param {string} text @returns {Node[]} */
export function prose(text) {
  return text
    .split(/(\$[^$]+\$|\*[^*]+\*|`[^`]+`)/)
    .filter(Boolean)
    .map((piece) => {
      const inside = piece.slice(1, -1);
      if (piece.length > 2 && piece.endsWith(piece[0])) {
        if (piece[0] === "$") return tex(inside);
        if (piece[0] === "*") return h("em", inside);
        if (piece[0] === "`") return h("code", inside);
      }
      return document.createTextNode(piece);
    });
}

function parse(source) {
  const tokens = source.match(/\\[a-zA-Z]+|\\.|\d+(?:\.\d+)?|\s+|./gu) ?? [];
  let at = 0;

  function group() {
    // a group in braces, or one atom
    skip();
    if (tokens[at] !== "{") return atom();
    at++;
    const inside = row("}");
    at++;
    return inside.length === 1 ? inside[0] : math("mrow", ...inside);
  }

  function raw() {
    // the literal text in braces
    skip();
    at++;
    let text = "";
    while (at < tokens.length && tokens[at] !== "}") text += tokens[at++];
    at++;
    return text;
  }

  function skip() {
    while (/^\s+$/.test(tokens[at] ?? "")) at++;
  }

  function atom() {
    const token = tokens[at++] ?? "";
    if (token === "{") {
      at--;
      return group();
    }
    if (/^\d/.test(token)) return math("mn", token);
    if (/^[a-zA-Z]$/.test(token) || /^\p{L}$/u.test(token)) return math("mi", token);
    if (!token.startsWith("\\") || token.length < 2)
      return math(
        "mo",
        "()[]|".includes(token) && {stretchy: "false"},
        token === "-" ? "−" : token,
      );
    const name = token.slice(1);
    if (name === "frac") return math("mfrac", group(), group());
    if (name === "sqrt") return math("msqrt", group());
    if (name === "text") return math("mtext", raw().replace(/^\s+|\s+$/g, "\u00a0"));
    if (name === "mathbf") return math("mi.bold", raw());
    if (name in OVER) return math("mover", {accent: "true"}, group(), math("mo", OVER[name]));
    if (name === "underbrace") {
      const body = math("munder", group(), math("mo", {stretchy: "true"}, "⏟"));
      if (tokens[at] !== "_") return body;
      at++;
      return math("munder", body, group());
    }
    if (name === "color") return math("mrow", {class: `role-${raw()}`}, group());
    if (name === "left" || name === "right") return math("mo", {stretchy: "true"}, tokens[at++]);
    if (name === "quad" || name === ",")
      return math("mspace", {width: name === "quad" ? "1.2em" : "0.2em"});
    if (name in LETTERS) return math("mi", LETTERS[name]);
    if (NAMES.has(name)) return math("mi", {mathvariant: "normal"}, name);
    if (name in SIGNS) return math("mo", SIGNS[name]);
    return math("mo", name);
  }

  /** Whether a minus is a sign, not a difference. */
  function signed(found) {
    found.forEach((el, i) => {
      const before = found[i - 1]?.textContent ?? "";
      if (
        el.textContent === "−" &&
        (i === 0 || "=,(".includes(before) || found[i - 1].localName === "mspace")
      )
        el.setAttribute("form", "prefix");
    });
    return found;
  }

  function row(end) {
    const found = [];
    for (skip(); at < tokens.length && tokens[at] !== end; skip()) {
      const base = atom(),
        wide = ["∑", "∏"].includes(base.textContent ?? "");
      /** @type {Element | null} */
      let sub = null,
        sup = null;
      for (skip(); tokens[at] === "_" || tokens[at] === "^"; skip()) {
        if (tokens[at++] === "_") sub = group();
        else sup = group();
      }
      if (sub && sup) found.push(math(wide ? "munderover" : "msubsup", null, base, sub, sup));
      else if (sub) found.push(math(wide ? "munder" : "msub", null, base, sub));
      else if (sup) found.push(math(wide ? "mover" : "msup", null, base, sup));
      else found.push(base);
    }
    return signed(found);
  }

  return row("");
}
