// @ts-check
// Python code for the content of a page: lines of the schema, filled from a selection.
import {firstChoice, otherLook} from "./pages/aimed.js";
import {schema} from "./schema.js";

/**
 * Python code for a selection.
 * @param {any} s @param {string} run @param {string[]} lines  of the page, with {names}
 * @param {Record<string, string>} [values]  beside those of the selection, in Python
 */
export function toPython(s, run, lines, values = {}) {
  const where =
    (s.side ? `, side=${python(s.side)}` : "") +
    (s.site === "self" ? "" : `, site=${python(s.site)}`);
  const known = {
    ...Object.fromEntries(Object.entries(s).map(([name, value]) => [name, python(value)])),
    where,
    place: `layer=${s.layer}, head=${s.head}${where}`,
    cell: s.query === null ? "" : s.key === null ? `[${s.query}]` : `[${s.query}, ${s.key}]`,
    ...values,
  };
  const filled = lines.map((line) => line.replace(/\{(\w+)\}/g, (_, name) => known[name]));
  const imports = filled.filter((line) => line.startsWith("from "));
  const body = filled.filter((line) => !line.startsWith("from "));
  const looks = body.some((line) => /\blook\b/.test(line));
  return [
    "import glassformer as gf",
    ...imports,
    `run = ${runPython(run, s.checkpoint)}`,
    ...(looks ? [`look = ${lookPython(s, s.checkpoint, run)}`] : []),
    ...body,
  ].join("\n");
}

/**
 * Python code for the present page, or for a selection, with the defaults of the page.
 * @param {any} app @param {any} [s]
 */
export async function pythonOf(app, s = app.state.get()) {
  const page = app.pages.find((one) => one.id === s.page) ?? app.pages[0];
  const run = app.model.path ?? app.model.name;
  const lines = (s.mean && page.python_mean) || page.python;
  /** @type {Record<string, string>} */
  let values = {other: lookPython(otherLook(app, s), s.checkpoint, run)};
  try {
    values = {...values, ...valuesOf(app, s, await app.looked())};
  } catch {
    // without a look, only the fields of the selection are known
  }
  return toPython({...schema.controls, ...s}, run, lines, values);
}

/** Defaults of pages for what a selection leaves out, in Python. @param {any} app @param {any} s */
function valuesOf(app, s, looked) {
  const {aim: aimed, positions, k} = firstChoice(app, s, looked);
  const count = looked.elements.length;
  const against = aimed.against === null ? "" : `, against=${aimed.against}`;
  const own = ["occlusion", "gradient_x_input", "integrated_gradients"];
  const method = s.method ?? schema.arguments.method.default;
  const baseline = s.baseline ?? "zero";
  const [first] = looked.elements;
  const number = (name) => python(s[name] ?? schema.arguments[name].default);
  return {
    aim: `${aimed.target}, position=${aimed.position}${against}`,
    target: python(aimed.target),
    position: aimed.whole ? "" : String(aimed.position),
    window: python(positions),
    k: String(k),
    query: String(s.query ?? (first.kind === "class" ? 0 : count - 1)),
    begin: app.has("pair") && (s.begin ?? true) ? "0" : "-1",
    method: python(method),
    baseline: own.includes(method) ? `, baseline=${python(baseline)}` : "",
    heads: String(app.model.heads),
    temperature: number("temperature"),
    top_k: number("top_k"),
    top_p: number("top_p"),
  };
}

function runPython(run, checkpoint) {
  const at = checkpoint === null ? "" : `, checkpoint=${python(checkpoint)}`;
  return `gf.load(${python(run)}${at})`;
}

/** A look; `run` if it is of the same checkpoint. */
function lookPython(look, checkpoint, run) {
  const edited = (look.edits ?? []).map((edit) => editPython(edit, checkpoint, run));
  const edits = edited.length ? `, edits=[${edited.join(", ")}]` : "";
  const own = look.checkpoint === undefined || look.checkpoint === checkpoint;
  return (
    `gf.look(${own ? "run" : runPython(run, look.checkpoint)}, ` +
    `${inputPython(look.input ?? "")}${edits})`
  );
}

/**
 * An input as `gf.look` takes it: pairs are tuples, images and audio are files. @param {any}
 * input @returns {string}
 */
function inputPython(input) {
  if (typeof input === "string") return python(input);
  if (Array.isArray(input)) {
    if (input.every((part) => typeof part === "number")) return python(input);
    const parts = input.map(partPython).join(", ");
    const ids = (part) =>
      Array.isArray(part) && part.length > 0 && part.every((one) => typeof one === "number");
    const pair =
      input.length === 2 &&
      (typeof input[1] === "string" || ids(input[1])) &&
      (typeof input[0] === "string" || Array.isArray(input[0]));
    return pair ? `(${parts})` : `[${parts}]`;
  }
  const [[kind, where]] = Object.entries(input);
  return kind in SUFFIX ? python(fileName(kind, where)) : partPython(input);
}

function partPython(part) {
  if (typeof part === "string" || typeof part === "number") return python(part);
  if (Array.isArray(part)) return `[${part.map(partPython).join(", ")}]`;
  const [[kind, where]] = Object.entries(part);
  return kind in SUFFIX ? `{"${kind}": ${python(fileName(kind, where))}}` : python(where);
}

const SUFFIX = {image: "png", audio: "wav"};

function fileName(kind, where) {
  const stem = where.startsWith("example:") ? where.replace(":", "-") : kind;
  return `${stem}.${SUFFIX[kind]}`;
}

/** An edit; `checkpoint` and `run` as for the look that it is made in. */
function editPython({edit, point, ...rest}, checkpoint, run) {
  const source = (look) => (typeof look === "string" ? look : lookPython(look, checkpoint, run));
  const options = Object.entries(rest).map(
    ([name, value]) => `${name}=${name === "source" ? source(value) : python(value)}`,
  );
  return `gf.edits.${edit}(${[python(point), ...options].join(", ")})`;
}

/**
 * A plain value as Python writes it; JSON's slices "2:5" stay text. @param {any} value @returns
 * {string}
 */
export function python(value) {
  if (value === null || value === undefined) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  if (typeof value === "object")
    return `{${Object.entries(value)
      .map(([k, v]) => `${python(k)}: ${python(v)}`)
      .join(", ")}}`;
  return typeof value === "string" ? JSON.stringify(value) : String(value);
}
