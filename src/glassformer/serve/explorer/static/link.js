// @ts-check
// A link to another selection: a click follows it in place; Ctrl, the middle button or the menu
// open it elsewhere with all that is selected.
import {h} from "./dom.js";
import {toHash} from "./state.js";

/**
 * The address is written on pointer or focus, since the selection changes with every hover and may
 * hold an image.
 * @param {any} app @param {Record<string, any>} patch  what the link selects @param {any} children
 * @param {{onfollow?: () => void, [prop: string]: any}} [props]
 */
export function link(app, patch, children, {onfollow, ...props} = {}) {
  const address = () => toHash({...app.state.get(), ...patch}) || "#";
  const write = (event) => event.currentTarget.setAttribute("href", address());
  return h(
    "a",
    {
      href: `#page=${patch.page}${patch.lesson ? `&lesson=${patch.lesson}` : ""}`,
      onpointerenter: write,
      onpointerdown: write,
      onfocus: write,
      onkeydown: write,
      oncontextmenu: write,
      ...props,
      onclick: (event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
        event.preventDefault();
        app.state.set(patch);
        onfollow?.();
      },
    },
    children,
  );
}
