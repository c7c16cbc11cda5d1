// @ts-check
// The present page as Python code, and its link, both for copying.
import {button} from "./controls.js";
import {copy, h} from "./dom.js";
import {pythonOf} from "./python.js";

/** @param {any} app */
export function shareBox(app) {
  const said = h("span.soft", {role: "status"}),
    code = h("pre.code", {tabindex: 0, "aria-label": "This page in Python"});
  const told = (/** @type {string} */ text) => (said.textContent = text);
  let turn = 0;
  const show = async () => {
    const mine = ++turn,
      text = await pythonOf(app);
    if (mine === turn) code.textContent = text;
  };
  show();
  const off = app.state.subscribe(() => (code.isConnected ? show() : off()));
  return h(
    "div.inspector-part",
    h("h2", "The same in Python"),
    code,
    h(
      "div.row",
      button("Copy", () => copy(code.textContent ?? "", "Python", told), {
        kind: "quiet",
        name: "Copy as Python",
      }),
      app.linked && button("Copy link", () => copy(location.href, "Link", told), {kind: "quiet"}),
      said,
    ),
  );
}
