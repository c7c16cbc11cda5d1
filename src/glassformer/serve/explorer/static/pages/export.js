// @ts-check
// Exports: the selection as a link, as JSON and as Python; the pages with their answers as one
// file; exact tensors.
import {copy, fill, h, save} from "../dom.js";
import {number, plural} from "../format.js";
import {button, select, toggle} from "../marks.js";
import {pythonOf} from "../python.js";
import {same, toHash} from "../state.js";
import {toSafetensors} from "../wire.js";
import {follow, LOOK} from "./attended.js";

const MOST = 400;

/**
 * The requests whose answers a saved page needs: those about this input and about the model. @param
 * {any[]} asked @param {any} look @param {boolean} all
 */
export function needed(asked, look, all) {
  const about = (body) => [body.look, body.a, body.b].filter(Boolean),
    mine = (body) => !about(body).length || about(body).some((one) => same(one.input, look.input));
  const found = asked.filter(({body}) => all || mine(body));
  return [
    ...found.filter(({body}) => !about(body).length),
    ...found.filter(({body}) => about(body).length).slice(-MOST),
  ];
}

/** @param {HTMLElement} el @param {any} app */
function render(el, app) {
  const {model, state} = app,
    said = h("p.soft", {role: "status"});
  const told = (/** @type {string} */ text) => {
    said.textContent = text;
  };
  const own = h("pre.code.points-python", {tabindex: 0, "aria-label": "Points in Python"});
  let written = "";
  const shown = () => ({
    ...state.toJSON(),
    page:
      app
        .visited()
        .filter((id) => id !== "export")
        .pop() ?? "model",
  }); // the page that one came from
  const block = (what, text, file, type) => {
    const code = h("pre.code", {tabindex: 0, "aria-label": what}, text());
    return {
      code,
      show: () => (code.textContent = text()),
      el: h(
        "section.export-part",
        h("h3", what),
        code,
        h(
          "div.row",
          button("Copy", () => copy(text(), what, told), {name: `Copy: ${what}`}),
          file
            ? button("Save", () => save(file, new Blob([text()], {type})), {
                kind: "quiet",
                name: `Save: ${what}`,
              })
            : null,
        ),
      ),
    };
  };
  const link = block("Link", () => location.href.split("#")[0] + toHash(shown()), "", "");
  const json = block(
    "JSON",
    () => JSON.stringify(shown(), null, 1),
    `${model.name}.json`,
    "application/json",
  );
  const python = block("Python", () => written, `${model.name}.py`, "text/x-python");
  const write = async () => {
    written = await pythonOf(app, shown());
    python.show();
  };
  const blocks = [python, ...(app.linked ? [link] : []), json];

  const seen = app.visited().filter((id) => id !== "export"),
    titles = new Map(app.pages.map((page) => [page.id, page.title]));
  const first = select({
    label: "It opens with",
    value: shown().page,
    options: (seen.length ? seen : ["model"]).map((id) => ({
      value: id,
      label: titles.get(id) ?? id,
    })),
  });
  const all = toggle({label: "answers about other inputs, too", onchange: () => count()}),
    counted = h("p.soft");
  const count = () => {
    const found = needed(app.asked(), app.look(), all.checked),
      bytes = found.reduce((sum, one) => sum + one.bytes, 0);
    fill(
      counted,
      plural(found.length, "answer") +
        (bytes
          ? `, ${number(Math.max(1, Math.round(bytes / 1000)))} kB before the pages themselves`
          : "") +
        ".",
    );
  };
  const make = button(
    "Save as HTML",
    async () => {
      make.disabled = true;
      told("The answers are being put together…");
      try {
        const questions = needed(app.asked(), app.look(), all.checked).map((one) => one.question);
        const {header, arrays} = await app.call(
          "document",
          {
            state: {...state.toJSON(), page: first.value},
            questions,
            title: `${model.name} · glassformer`,
          },
          {fresh: true, keep: false},
        );
        save(`${model.name}.html`, new Blob([arrays.html.data], {type: "text/html"}));
        told(
          `${model.name}.html has ${plural(header.answers, "answer")} in ` +
            `${number(Math.round(arrays.html.data.length / 1000))} kB.`,
        );
      } catch (error) {
        told(/** @type {any} */ (error).message);
      }
      make.disabled = false;
    },
    {kind: "main"},
  );

  const saidPoints = h("div"),
    points = h("div.stack.points-room");
  el.append(
    h(
      "section.section.export-first",
      h("h2", "What is selected"),
      h(
        "div.export-parts",
        blocks.map((one) => one.el),
      ),
      said,
    ),
    h(
      "section.section",
      h("h2", "These pages as one file"),
      h(
        "p.prose",
        "An HTML file that opens from disk, on any machine, without a model and without a " +
          "network. It holds the answers to what you have looked at so far: open a page, a " +
          "head or a position first, and it will be in the file. What is not in it says so.",
      ),
      h("div.row.export-row", first.el, all.el, make),
      counted,
    ),
    h(
      "section.section",
      h("h2", "Exact tensors"),
      h(
        "p.prose",
        "Any named point of the model in this run, as the model computed it, in 32 bits.",
      ),
      saidPoints,
      points,
      own,
    ),
  );
  count();
  write();
  pythonOf(app, {...state.get(), page: "export"}).then((text) => (own.textContent = text));
  const offs = [
    follow(app, LOOK, saidPoints, async (fresh) => {
      const {header} = await app.call("points", {look: app.look()});
      if (fresh()) tensors(points, app, header.points, told);
    }),
    state.subscribe(() => {
      blocks.forEach((one) => one.show());
      write();
      count();
    }),
  ];
  return () => offs.forEach((off) => off());
}

/** Points by block, and the file of one. */
function tensors(room, app, points, told) {
  const places = [
    ...new Set(points.map((point) => point.name.split(".").slice(0, -1).join(".") || "the model")),
  ];
  const of = (place) =>
    points.filter(
      (point) => (point.name.split(".").slice(0, -1).join(".") || "the model") === place,
    );
  const list = h("div.points"),
    wanted =
      app.state.get().point ??
      points.find((point) => point.kind === "pattern")?.name ??
      points[0]?.name;
  let place = wanted?.split(".").slice(0, -1).join(".") || places[0];
  const show = () =>
    fill(
      list,
      h(
        "ul",
        of(place).map((point) =>
          h(
            "li.point",
            h("code", `look["${point.name}"]`),
            h(
              "span.soft",
              point.axes
                .map((axis, i) => `${axis} ${point.shape[i]}`)
                .filter((axis) => !axis.startsWith("batch"))
                .join(" × "),
            ),
            button("safetensors", () => fetched(point), {
              kind: "quiet",
              name: `Save ${point.name} as safetensors`,
            }),
          ),
        ),
      ),
    );
  const fetched = async (point) => {
    try {
      const {header, arrays} = await app.call(
        "raw",
        {look: app.look(), point: point.name},
        {keep: false},
      );
      save(
        `${point.name}.safetensors`,
        new Blob([toSafetensors(arrays, {point: point.name, axes: header.axes.join(" ")})]),
      );
      told(`${point.name}: ${header.axes.join(" × ")}, ${arrays.values.shape.join(" × ")}.`);
    } catch (error) {
      told(/** @type {any} */ (error).message);
    }
  };
  const by = select({
    label: "Where",
    value: place,
    options: places.map((name) => ({value: name, label: name})),
    onchange: (name) => ((place = name), show()),
  });
  fill(room, by.el, list);
  show();
}

export const page = {
  alone: true,
  about: "Export all of these pages: as a link, as Python, as a file, as numbers.",
  notAbout: "single charts: each has its own PNG, SVG and CSV.",
  render,
};
