// @ts-check
// The explorer in a cell of a notebook, run by anywidget: a frame that holds the page, and the
// messages between it and the kernel.
// The frame isolates page and notebook: styles, keys, title, address, width.
//   to the kernel     {view, hello: "page"}   {view, hello: "start"}   {view, bye: true}   and what
// the page says (framed.js), with `view`
//   from the kernel   {to, page, height} and the page's bytes   {to, start}   and what the page
// hears; `to` "": every view but `not`

/**
 * Theme of a notebook: of the background of its cell, otherwise of the system. @param {Element} el
 */
function themeOf(el) {
  for (let at = /** @type {any} */ (el); at; at = at.parentElement ?? at.getRootNode().host) {
    const [r, g, b, a = 1] = (
      /^rgba?\((.*)\)$/.exec(getComputedStyle(at).backgroundColor)?.[1] ?? "0,0,0,0"
    )
      .split(/[ ,/]+/)
      .map(Number);
    if (a > 0.5) return 0.2126 * r + 0.7152 * g + 0.0722 * b < 110 ? "dark" : "light";
  }
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/** @param {{model: any, el: HTMLElement}} cell */
function render({model, el}) {
  const view = Array.from(crypto.getRandomValues(new Uint32Array(2)), (part) =>
    part.toString(36),
  ).join("");
  const frame = document.createElement("iframe"),
    waiting = document.createElement("p");
  let port = /** @type {MessagePort | null} */ (null),
    theme = "";
  frame.title = "glassformer";
  frame.allow = "clipboard-write";
  frame.setAttribute("sandbox", "allow-scripts allow-forms allow-downloads");
  Object.assign(frame.style, {display: "block", width: "100%", border: "0"});
  waiting.textContent = "Waiting for the kernel; if it was restarted, run the cell again.";
  el.append(waiting);

  const send = (/** @type {any} */ message) => model.send({...message, view});
  const paint = () => {
    const now = themeOf(el);
    if (now !== theme) port?.postMessage({theme: now});
    theme = now;
  };
  const fromKernel = (/** @type {any} */ said, /** @type {any[]} */ parts) => {
    if (said.to ? said.to !== view : said.not === view) return;
    const bytes =
      parts?.[0] &&
      new Uint8Array(
        parts[0].buffer ?? parts[0],
        parts[0].byteOffset ?? 0,
        parts[0].byteLength,
      ).slice();
    if (said.page) {
      frame.srcdoc = new TextDecoder().decode(bytes);
      frame.style.height = `${said.height}px`;
      el.replaceChildren(frame);
    } else if (said.start) {
      const {port1, port2} = new MessageChannel();
      port?.close();
      port = port1;
      port.onmessage = ({data}) => send(data);
      theme = themeOf(el);
      frame.contentWindow?.postMessage({glassformer: "start", start: said.start, theme}, "*", [
        port2,
      ]);
    } else if (bytes) port?.postMessage({...said, buffer: bytes.buffer}, [bytes.buffer]);
    else port?.postMessage(said);
  };
  const fromFrame = (/** @type {MessageEvent} */ event) => {
    if (event.source === frame.contentWindow && event.data?.glassformer === "ready")
      send({hello: "start"}); // again after a cell was moved: frames load anew
  };
  const watcher = new MutationObserver(paint),
    system = matchMedia("(prefers-color-scheme: dark)");
  for (const part of [document.documentElement, document.body])
    watcher.observe(part, {attributes: true});
  system.addEventListener("change", paint);
  addEventListener("message", fromFrame);
  model.on("msg:custom", fromKernel);
  send({hello: "page"});
  return () => {
    watcher.disconnect();
    system.removeEventListener("change", paint);
    removeEventListener("message", fromFrame);
    model.off("msg:custom", fromKernel);
    send({bye: true});
    port?.close();
    el.replaceChildren();
  };
}

export default {render};
