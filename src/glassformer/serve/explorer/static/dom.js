// @ts-check
// Elements from plain calls: h("p.lead", {title: "a title"}, "text", other).
// Text only ever becomes a text node, so a vocabulary may contain markup.

/** @typedef {Node | string | number | null | undefined | false | Child[]} Child */

// The namespaces of SVG and MathML, from the browser's own parser.
const parsed = new DOMParser().parseFromString("<svg></svg><math></math>", "text/html").body;
const [HTML, SVG, MATH] = [parsed, ...parsed.children].map((el) => el.namespaceURI);

/** Set as properties: their attributes are only the first value. */
const PROPERTIES = new Set([
  "value",
  "checked",
  "selected",
  "indeterminate",
  "disabled",
  "open",
  "hidden",
]);

/**
 * An HTML element: its tag with classes, props (optional), children. Props: on* functions, `style`
 * and `dataset` objects, aria-* and other attributes (false, null: left out).
 * @param {string} selector @param {...any} rest @returns {any}
 */
export function h(selector, ...rest) {
  return element(HTML, selector, rest);
}

/** An SVG element. @param {string} selector @param {...any} rest @returns {any} */
export function svg(selector, ...rest) {
  return element(SVG, selector, rest);
}

/** A MathML element. @param {string} selector @param {...any} rest @returns {any} */
export function math(selector, ...rest) {
  return element(MATH, selector, rest);
}

/** Remove all children of an element. @param {Element} el */
export function clear(el) {
  el.replaceChildren();
  return el;
}

/** Replace the children of an element. @param {Element} el @param {...Child} children */
export function fill(el, ...children) {
  el.replaceChildren();
  append(el, children);
  return el;
}

/**
 * Redraw an element; the focus stays at the control in the same place. @param
 * {Element} el @param {() => void} draw @param {string} [controls]
 */
export function redrawn(el, draw, controls = "button") {
  const held = el.contains(document.activeElement)
    ? [...el.querySelectorAll(controls)].indexOf(/** @type {Element} */ (document.activeElement))
    : -1;
  draw();
  const now = el.querySelectorAll(controls);
  if (held >= 0) /** @type {any} */ (now[Math.min(held, now.length - 1)])?.focus();
}

/**
 * Listen; returns a function that stops. @param {EventTarget} target @param {string} type @param
 * {(event:
 * any) => void} fn @param {any} [options]
 */
export function on(target, type, fn, options) {
  target.addEventListener(type, fn, options);
  return () => target.removeEventListener(type, fn, options);
}

/**
 * Call `fn` when the element's width changes; returns a function that stops. @param {Element} el
 * @param {(width: number) => void} fn
 */
export function onWidth(el, fn) {
  let last = -1;
  const watcher = new ResizeObserver(() => {
    const width = Math.floor(el.clientWidth);
    if (width !== last) fn((last = width));
  });
  watcher.observe(el);
  return () => watcher.disconnect();
}

/** Resolves after the next frame was painted, for work that must not delay it. */
export function painted() {
  return new Promise((resolve) =>
    requestAnimationFrame(() => {
      const {port1, port2} = new MessageChannel();
      port1.onmessage = () => resolve(port1.close());
      port2.postMessage(0);
    }),
  );
}

let counted = 0;
/** A unique name. @param {string} [stem] */
export function unique(stem = "el") {
  return `${stem}-${++counted}`;
}

/** Whether the reader asked for less motion. */
export function still() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}

/** Attributes of text in an SVG file, in the colour of an element. @param {Element} el */
export function svgFont(el, size = 13) {
  return {
    "font-size": size,
    "font-family": "sans-serif",
    fill: getComputedStyle(el).color,
    "dominant-baseline": "central",
  };
}

/** Download a file. @param {string} name @param {Blob} blob */
export function save(name, blob) {
  const link = h("a", {href: URL.createObjectURL(blob), download: name});
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/**
 * Copy a text, and tell what came of it. @param {string} text @param {string} what @param {(said:
 * string) => void} tell
 */
export async function copy(text, what, tell) {
  try {
    await navigator.clipboard.writeText(text);
    tell(`${what} copied.`);
  } catch {
    tell("The browser does not let this page copy; select the text.");
  }
}

function element(space, selector, [props, ...children]) {
  const [tag, ...classes] = selector.split("."),
    el = document.createElementNS(space, tag);
  if (classes.length) el.setAttribute("class", classes.join(" "));
  if (props === null || typeof props !== "object" || props instanceof Node || Array.isArray(props))
    children.unshift(props);
  else set(el, props);
  append(el, children);
  return el;
}

function set(el, props) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined) continue;
    if (name.startsWith("on")) el.addEventListener(name.slice(2).toLowerCase(), value);
    else if (name === "style")
      for (const [key, rule] of Object.entries(value)) el.style.setProperty(key, String(rule));
    else if (name === "dataset") Object.assign(el.dataset, value);
    else if (name.startsWith("aria-")) el.setAttribute(name, String(value));
    else if (PROPERTIES.has(name)) el[name] = value;
    else if (value !== false) el.setAttribute(name, value === true ? "" : String(value));
  }
}

function append(el, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false || child === "") continue;
    if (Array.isArray(child)) append(el, child);
    else el.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}
