// @ts-check
// Bars, lines, and a plane with arrows that can be moved.
import {fill, h, on, onWidth, redrawn, svg, svgFont, unique} from "./dom.js";
import {fixed, labelOf, number, tick, token} from "./format.js";

/**
 * Numbers as bars with their digits; signed numbers start at a middle line.
 * @param {{items: {label: any, value: number, note?: string, role?: string, faded?: boolean}[],
 * name: string, high?: number, format?: (x: number) => string,
 *   valueName?: string, selected?: number, onselect?: (index: number) => void}} options  high: the
 * number that fills the width
 */
export function bars(options) {
  let o = {format: (/** @type {number} */ x) => number(x), valueName: "value", ...options};
  const el = h("ol.bars", {"aria-label": o.name});
  function draw() {
    const high = o.high ?? Math.max(...o.items.map((item) => Math.abs(item.value)), 1e-12),
      signed = o.items.some((item) => item.value < 0);
    el.classList.toggle("signed", signed);
    fill(
      el,
      o.items.map((item, i) => {
        const share = Math.min(1, Math.abs(item.value) / high),
          width = `${(signed ? 50 : 100) * share}%`;
        const parts = [
          h(
            "span.bar-label",
            typeof item.label === "string" ? token({label: item.label, kind: "word"}) : item.label,
          ),
          h(
            "span.bar-track",
            {"aria-hidden": true},
            h("span", {
              class: `bar ${item.role ?? ""} ${item.value < 0 ? "minus" : "plus"}`,
              style: {width},
            }),
          ),
          h(
            "span.bar-value",
            o.format(item.value),
            item.note && h("span.bar-note", ` ${item.note}`),
          ),
        ];
        return h(
          "li",
          {class: `${item.faded ? "faded" : ""}${i === o.selected ? " now" : ""}`},
          o.onselect
            ? h(
                "button.bar-row",
                {type: "button", "aria-pressed": i === o.selected, onclick: () => o.onselect?.(i)},
                parts,
              )
            : h("div.bar-row", parts),
        );
      }),
    );
  }
  draw();
  const text = (label) => (label instanceof Node ? (label.textContent ?? "") : labelOf(label));
  return {
    el,
    update(/** @type {Partial<typeof options>} */ patch) {
      o = {...o, ...patch};
      redrawn(el, draw);
    },
    table: () => ({
      columns: ["", o.valueName],
      rows: o.items.map((item) => [text(item.label), item.value]),
    }),
    summary: () =>
      `${o.name}: ${o.items
        .map((item) => `${text(item.label)} ${o.format(item.value)}`)
        .slice(0, 12)
        .join(", ")}.`,
    toSvg() {
      const high = o.high ?? Math.max(...o.items.map((item) => Math.abs(item.value)), 1e-12),
        style = getComputedStyle(el),
        row = 26,
        signed = o.items.some((item) => item.value < 0);
      const zero = signed ? 330 : 160,
        span = signed ? 170 : 340,
        font = svgFont(el, 14);
      return svg(
        "svg",
        {viewBox: `0 0 600 ${row * o.items.length + 10}`},
        o.items.map((item, i) => {
          const width = (span * Math.min(high, Math.abs(item.value))) / high,
            y = row * (i + 0.5) + 5;
          return [
            svg("text", {...font, x: 150, y, "text-anchor": "end"}, text(item.label)),
            svg("rect", {
              x: item.value < 0 ? zero - width : zero,
              y: y - 8,
              width,
              height: 16,
              fill: style.getPropertyValue("accent-color"),
            }),
            svg("text", {...font, x: 510, y}, o.format(item.value)),
          ];
        }),
      );
    },
  };
}

/**
 * Lines over a common axis, each with its name at its end and its own dash, so that colour is not
 * needed.
 * @param {{series: {name: string, x: ArrayLike<number>, y: ArrayLike<number>, dots?: number[],
 * faded?: boolean}[], name: string, xName: string, yName: string,
 *   y?: [number, number], x?: [number, number], height?: number, at?: number | null, xTicks?:
 * number[], onselect?: (x: number) => void}} options
 */
export function lines(options) {
  let o = {height: 300, ...options};
  let W = 720;
  const L = 54,
    R = 104,
    top = 34,
    low = 44,
    clip = unique("clip");
  const el = svg("svg.lines", {role: "img", "aria-label": o.name});
  function draw() {
    const xs = o.series.flatMap((s) => [s.x[0], s.x[s.x.length - 1]]),
      ys = o.y ?? [
        Math.min(...o.series.flatMap((s) => Array.from(s.y))),
        Math.max(...o.series.flatMap((s) => Array.from(s.y))),
      ];
    const [x0, x1] = o.x ?? [Math.min(...xs), Math.max(...xs)],
      [y0, y1] = ys[0] === ys[1] ? [ys[0] - 1, ys[1] + 1] : ys,
      H = o.height;
    const px = (x) => L + ((W - L - R) * (x - x0)) / (x1 - x0 || 1),
      py = (y) => H - low - ((H - low - top) * (y - y0)) / (y1 - y0);
    el.setAttribute("viewBox", `0 0 ${W} ${H}`);
    const ends = o.series
      .map((s, i) => ({i, y: py(s.y[s.y.length - 1])}))
      .sort((a, b) => a.y - b.y);
    // names overlap neither each other nor the axis
    ends.forEach((end, i) => i && (end.y = Math.max(end.y, ends[i - 1].y + 17)));
    for (let i = ends.length - 1, most = H - low - 8; i >= 0; i--, most = ends[i + 1].y - 17)
      ends[i].y = Math.min(ends[i].y, most);
    fill(
      el,
      svg("clipPath", {id: clip}, svg("rect", {x: L, y: 0, width: W - L - R, height: H})),
      ticks(y0, y1, 4).map((y) => [
        svg("line.grid", {x1: L, x2: W - R, y1: py(y), y2: py(y)}),
        svg(
          "text.tick",
          {x: L - 8, y: py(y), "text-anchor": "end", "dominant-baseline": "central"},
          tick(y),
        ),
      ]),
      (o.xTicks ?? ticks(x0, x1, W < 500 ? 3 : 6)).map((x) =>
        svg("text.tick", {x: px(x), y: H - low + 20, "text-anchor": "middle"}, tick(x)),
      ),
      svg("line.axis", {x1: L, x2: W - R, y1: H - low, y2: H - low}),
      svg("text.axis-name", {x: (L + W - R) / 2, y: H - 6, "text-anchor": "middle"}, o.xName),
      svg("text.axis-name", {x: 4, y: 14}, o.yName),
      o.at === null || o.at === undefined
        ? null
        : svg("line.at", {x1: px(o.at), x2: px(o.at), y1: top, y2: H - low}),
      o.series.map((s, i) =>
        svg(
          "g",
          {class: `series s${i}${s.faded ? " faded" : ""}`},
          svg("polyline", {
            "clip-path": `url(#${clip})`,
            points: Array.from(s.x, (x, k) => `${px(x).toFixed(1)},${py(s.y[k]).toFixed(1)}`).join(
              " ",
            ),
          }),
          (s.dots ?? []).map((k) => svg("circle", {cx: px(s.x[k]), cy: py(s.y[k]), r: 4.5})),
          svg(
            "text.series-name",
            {x: W - R + 8, y: ends.find((end) => end.i === i)?.y, "dominant-baseline": "central"},
            s.name,
          ),
        ),
      ),
    );
  }
  on(el, "click", (event) => {
    if (!o.onselect) return;
    const box = el.getBoundingClientRect(),
      xs = o.series[0].x,
      share = (((event.clientX - box.left) / box.width) * W - L) / (W - L - R);
    o.onselect(xs[0] + Math.max(0, Math.min(1, share)) * (xs[xs.length - 1] - xs[0]));
  });
  draw();
  onWidth(el, (width) => {
    // text keeps its size on a small screen
    const fits = width ? Math.max(320, Math.min(720, width)) : 720;
    if (fits === W) return;
    W = fits;
    draw();
  });
  return {
    el,
    update(/** @type {Partial<typeof options>} */ patch) {
      o = {...o, ...patch};
      draw();
    },
    table: () => ({
      columns: [o.xName, ...o.series.map((s) => s.name)],
      rows: Array.from(o.series[0]?.x ?? [], (x, k) => [number(x), ...o.series.map((s) => s.y[k])]),
    }),
    summary: () =>
      `${o.name}: ` +
      o.series.map((s) => `${s.name} from ${number(s.y[0])} to ${number(s.y.at(-1))}`).join("; ") +
      ".",
  };
}

/**
 * A plane with arrows from its middle; an arrow with `onmove` can be dragged, or moved with the
 * arrow keys.
 * @param {{name: string, size: number, arrows: {name: string, x: number, y: number, role?: string,
 * dot?: boolean, label?: string, onmove?: (x: number, y: number) => void}[],
 *   under?: (at: (x: number, y: number) => [number, number]) => any, xName?: [string, string],
 * yName?: [string, string]}} options  it shows -size .. size
 */
export function plane(options) {
  let o = options;
  const W = 480,
    mid = W / 2,
    el = svg("svg.plane", {viewBox: `0 0 ${W} ${W}`, role: "group", "aria-label": o.name});
  const at = (x, y) =>
    /** @type {[number, number]} */ ([
      mid + (x / o.size) * (mid - 28),
      mid - (y / o.size) * (mid - 28),
    ]);
  /** @type {number | null} */
  let dragged = null;
  function draw() {
    redrawn(
      el,
      () =>
        fill(
          el,
          svg("line.axis", {x1: 14, x2: W - 14, y1: mid, y2: mid}),
          svg("line.axis", {x1: mid, x2: mid, y1: 14, y2: W - 14}),
          o.xName && [
            svg("text.axis-name", {x: 14, y: mid + 20}, o.xName[0]),
            svg("text.axis-name", {x: W - 14, y: mid + 20, "text-anchor": "end"}, o.xName[1]),
          ],
          o.yName && [
            svg("text.axis-name", {x: mid + 8, y: 24}, o.yName[1]),
            svg("text.axis-name", {x: mid + 8, y: W - 14}, o.yName[0]),
          ],
          o.under?.(at) ?? null,
          o.arrows.map(arrow),
        ),
      "[data-arrow]",
    );
  }
  function arrow(a, i) {
    const [x, y] = at(a.x, a.y),
      angle = Math.atan2(y - mid, x - mid),
      long = Math.hypot(x - mid, y - mid);
    const tip = (turn, back) =>
      [x - back * Math.cos(angle + turn), y - back * Math.sin(angle + turn)]
        .map((v) => v.toFixed(1))
        .join();
    const outward = x >= mid ? 1 : -1;
    return svg(
      "g",
      {
        class: `arrow ${a.role ?? ""}${a.onmove ? " movable" : ""}`,
        "data-arrow": String(i),
        tabindex: a.onmove ? 0 : null,
        role: a.onmove ? "slider" : "img",
        "aria-label": `${a.name}`,
        "aria-valuetext": `${fixed(a.x)} across, ${fixed(a.y)} up`,
        ...(a.onmove ? {"aria-valuenow": a.x} : {}),
        onkeydown: (event) => keyed(event, a),
      },
      a.dot
        ? svg("circle.dot", {cx: x, cy: y, r: 5})
        : [
            svg("line", {
              x1: mid,
              y1: mid,
              x2: long > 8 ? x - 8 * Math.cos(angle) : x,
              y2: long > 8 ? y - 8 * Math.sin(angle) : y,
            }),
            svg("polygon", {
              points: `${x.toFixed(1)},${y.toFixed(1)} ${tip(0.4, 12)} ${tip(-0.4, 12)}`,
            }),
          ],
      a.onmove &&
        svg("circle.handle", {
          cx: x,
          cy: y,
          r: 14,
          onpointerdown: (event) => ((dragged = i), event.preventDefault()),
        }),
      svg(
        "text",
        {
          x: x + outward * 11,
          y: y + (y > mid ? 16 : -9),
          "text-anchor": outward > 0 ? "start" : "end",
        },
        a.label ?? a.name,
      ),
    );
  }
  function keyed(event, a) {
    const step = (event.shiftKey ? 0.2 : 0.05) * o.size,
      moves = {
        ArrowLeft: [-step, 0],
        ArrowRight: [step, 0],
        ArrowUp: [0, step],
        ArrowDown: [0, -step],
      };
    if (!a.onmove || !(event.key in moves)) return;
    event.preventDefault();
    const limit = (v) => Math.max(-o.size, Math.min(o.size, v));
    a.onmove(limit(a.x + moves[event.key][0]), limit(a.y + moves[event.key][1]));
  }
  on(el, "pointermove", (event) => {
    if (dragged === null) return;
    const box = el.getBoundingClientRect(),
      scale = W / box.width,
      limit = (v) => Math.max(-o.size, Math.min(o.size, v));
    o.arrows[dragged]?.onmove?.(
      limit((((event.clientX - box.left) * scale - mid) / (mid - 28)) * o.size),
      limit((-((event.clientY - box.top) * scale - mid) / (mid - 28)) * o.size),
    );
  });
  for (const type of ["pointerup", "pointerleave", "pointercancel"])
    on(el, type, () => (dragged = null));
  draw();
  return {
    el,
    update(/** @type {Partial<typeof options>} */ patch) {
      o = {...o, ...patch};
      draw();
    },
    table: () => ({
      columns: ["vector", "across", "up"],
      rows: o.arrows.map((a) => [a.name, a.x, a.y]),
    }),
    summary: () =>
      `${o.name}: ${o.arrows.map((a) => `${a.name} at ${fixed(a.x)}, ${fixed(a.y)}`).join("; ")}.`,
  };
}

/** Round numbers between two. @param {number} low @param {number} high */
export function ticks(low, high, about = 5) {
  const rough = (high - low) / about,
    power = 10 ** Math.floor(Math.log10(rough || 1));
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10);
  const found = [];
  for (let x = Math.ceil(low / step - 1e-9) * step; x <= high + step * 1e-6; x += step)
    found.push(Math.abs(x) < step * 1e-9 ? 0 : Number(x.toPrecision(12)));
  return found;
}
