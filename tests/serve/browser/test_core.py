"""What all pages are built of, in a real browser: numbers, colours, selection, wire, matrix."""

import base64
import json
import struct

import numpy as np
import pytest
from safetensors.numpy import save

from glassformer.serve.explorer.schema import PAGES


def run(page, script, *given):
    return page.evaluate(script, *given)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.849671, "0.8497"), (58.8897, "58.89"), (-1.2034, "−1.203"), (0, "0"), (1234567, "1 234 "
    "567"), (2.05e-7, "2.05e−7"), (102, "102"), (None, "–"), (12345.678, "12 346")],
)  # fmt: skip
def test_numbers_are_written_with_four_digits(modules, value, text):
    assert (
        run(modules, "async (x) => (await import('./format.js')).number(x)", value).replace(
            "\u2009", " "
        )
        == text
    )


def test_infinities_have_names(modules):
    assert run(modules, "async () => (await import('./format.js')).number(-Infinity)") == "−∞"


def test_whitespace_of_tokens_is_drawn_and_markup_stays_text(modules):
    drawn = run(
        modules,
        """async () => {
        const {token} = await import("./format.js");
        const el = token({label: " <img src=x onerror=alert(1)>\\n\\t", kind: "token"});
        return [el.tagName, el.textContent, el.children.length];
    }""",
    )
    assert drawn == ["BDI", "·<img·src=x·onerror=alert(1)>⏎⇥", 0]


SELECTIONS = [
    {
        "page": "head",
        "input": "The chicken didn't cross",
        "layer": 3,
        "head": 5,
        "query": 8,
        "key": 1,
    },
    {"input": "[1, 2]", "lesson": "null", "mode": "12"},
    {"input": ["a & b = c", "d#e+f%"], "edits": [{"edit": "Zero", "point": "*.z", "head": 5}]},
    {"input": "emoji 🐔 and ünïcode\nnew line", "temperature": 0.25, "on": True},
    {"input": '"quoted"', "position": 7, "target": None},
]


@pytest.mark.parametrize("selection", SELECTIONS)
def test_the_address_restores_the_selection(modules, selection):
    back = run(
        modules,
        """async (selection) => {
        const {makeState, fromHash} = await import("./state.js");
        const {DEFAULTS} = await import("./schema.js"), state = makeState(selection);
        const url = new URL(state.toHash(), location.href);
        return {...DEFAULTS, ...fromHash(url.hash)};
    }""",
        selection,
    )
    defaults = run(modules, "async () => ({...(await import('./schema.js')).DEFAULTS})")
    assert back == {**defaults, **selection}


def test_the_selection_tells_who_listens_and_only_of_changes(modules):
    assert run(
        modules,
        """async () => {
        const {makeState} = await import("./state.js"), state = makeState(), heard = [];
        const off = state.subscribe(
          (now, before, replace) => heard.push([now.layer, before.layer, replace]));
        state.set({layer: 2});
        state.set({layer: 2, edits: []});
        state.set({layer: 3}, {replace: true});
        off();
        state.set({layer: 4});
        return heard;
    }""",
    ) == [[2, 0, False], [3, 2, True]]


def test_the_selection_as_python_compiles(modules):
    edit = {"edit": "Set", "point": "*.pattern", "head": 5, "to": 0.9, "renormalise": True}
    selection = {
        "input": 'say "hi"\nthere', "layer": 3, "head": 5, "query": 8, "key": 1,
        "side": "encoder", "edits": [edit],
    }  # fmt: skip
    text = run(
        modules,
        "async ([s, lines]) => (await import('./python.js')).toPython("
        "(await import('./state.js')).makeState(s).get(), 'runs/demo', lines)",
        [selection, PAGES["head"]["python"]],
    )
    compile(text, "selection", "exec")
    assert (
        'look = gf.look(run, "say \\"hi\\"\\nthere", edits=[gf.edits.Set("*.pattern", head=5, '
        "to=0.9, renormalise=True)])" in text
    )
    assert text.splitlines()[-1] == "pattern[8, 1]"
    assert 'look.pattern(layer=3, head=5, side="encoder")' in text


def looked_at(kind, labels):
    """The header of a look at tokens; special ones stand in angle brackets."""
    elements = [
        {"label": label, "kind": "special" if label[0] == "<" else "token"} for label in labels
    ]
    rows = [{"position": i, "top": [{"id": 10 + i}]} for i in range(len(labels))]
    return {"elements": elements, "source_elements": [], "outcome": {"kind": kind, "rows": rows}}


FILLED, TAGGED = ["a", "<mask>", "fgh", "<eos>"], ["the", "cat", "no", ".", "<eos>"]
POSITIONS = [
    (looked_at("tokens", FILLED), -1, 1),
    (looked_at("tokens", FILLED), -2, 2),
    (looked_at("tokens", FILLED), 0, 0),
    (looked_at("tokens", TAGGED), -1, 4),
    (looked_at("tags", TAGGED), -1, 1),
    (looked_at("tags", [".", "<eos>"]), -1, 1),
]
"""Looks, selected positions, and the positions that pages explain."""


def test_pages_explain_the_selected_position_or_the_last_with_an_outcome(modules):
    script = """async (cases) => {
      const {aimOf} = await import("./pages/aimed.js");
      return cases.map(([looked, position]) =>
        aimOf({position, target: null, against: null}, looked).position);
    }"""
    assert run(modules, script, POSITIONS) == [expected for _, _, expected in POSITIONS]


def test_arrays_arrive_as_they_were_sent(modules):
    rng = np.random.default_rng(0)
    arrays = {
        "u8": rng.integers(0, 256, (3, 5), dtype=np.uint8),
        "f16": np.array([[1.5, -2.25, 65504, 6e-8, np.inf, 0]], dtype=np.float16),
        "f32": rng.normal(size=(2, 2, 3)).astype(np.float32),
        "i32": np.array([-7, 2**31 - 1], dtype=np.int32),
    }
    data = save(arrays, {"header": json.dumps({"note": "ü"})})
    got = run(
        modules,
        """async (text) => {
        const {readSafetensors, part} = await import("./wire.js");
        const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
        const {header, arrays} = readSafetensors(bytes.buffer);
        const said = (x) => Number.isFinite(x) ? x : String(x);
        const plain = Object.fromEntries(Object.entries(arrays).map(
          ([name, {shape, data}]) => [name, [shape, Array.from(data, said)]]));
        return {header, plain, row: Array.from(part(arrays.f32, 1, 0))};
    }""",
        base64.b64encode(data).decode(),
    )
    assert got["header"] == {"note": "ü"}
    for name, array in arrays.items():
        shape, values = got["plain"][name]
        assert shape == list(array.shape)
        assert [float(str(x).replace("Infinity", "inf")) for x in values] == array.ravel().astype(
            float
        ).tolist()
    assert got["row"] == arrays["f32"][1, 0].astype(float).tolist()


WIRE = """async (script) => {
  const {makeWire, WireError, superseded} = await import("./wire.js");
  const empty = () => {
    const head = new TextEncoder().encode(JSON.stringify({__metadata__: {header: "{}"}}));
    const all = new Uint8Array(8 + head.length);
    new DataView(all.buffer).setBigUint64(0, BigInt(head.length), true);
    all.set(head, 8);
    return all.buffer;
  };
  const asked = [], given = [];
  const wire = makeWire({
    ask: (body, signal) => new Promise((resolve, reject) => {
      asked.push(body);
      signal.addEventListener("abort", () => given.push(body.layer));
      const abort = () => reject(new DOMException("", "AbortError"));
      if (body.slow) signal.addEventListener("abort", abort);
      else resolve(empty());
    }),
    async *lines(body) { yield* body.items; },
  });
  if (script === "newest") {
    const first = wire.call("head", {slow: true, layer: 0}, {key: "head"})
      .then(() => "answered", (e) => superseded(e) ? "superseded" : String(e));
    const second = wire.call("head", {layer: 1}, {key: "head"}).then(() => "answered");
    return [await first, await second];
  }
  if (script === "kept") {
    await wire.call("head", {layer: 1, head: 2});
    await wire.call("head", {head: 2, layer: 1});
    await wire.call("head", {head: 2, layer: 1}, {fresh: true});
    return asked.length;
  }
  if (script === "together") {
    const [a, b] = await Promise.all([
      wire.call("head", {layer: 1}, {key: "page"}), wire.call("head", {layer: 1}),
    ]);
    return [asked.length, a === b];
  }
  if (script === "given up") {
    const says = (call) => call.then(
      () => "answered", (e) => superseded(e) ? "superseded" : String(e));
    const page = says(wire.call("head", {slow: true, layer: 1}, {key: "page"}));
    const panel = says(wire.call("head", {slow: true, layer: 1}, {key: "panel"}));
    await wire.call("head", {layer: 2}, {key: "page"});
    const still = given.length;
    await wire.call("head", {layer: 3}, {key: "panel"});
    return [await page, await panel, still, given];
  }
  if (script === "cut off") {
    const {overHttp} = await import("./wire.js"), items = [], line = '{"a": 1}\\n';
    const answer = new ReadableStream({
      start: (one) => one.enqueue(new TextEncoder().encode(line)),
      pull: (one) => one.error(new TypeError("network error")),
    });
    window.fetch = async () => new Response(answer);
    return makeWire(overHttp()).stream("sweep", {}, (item) => items.push(item.a))
      .catch((e) => [items, e.kind]);
  }
  const items = [], say = (e) => [e.name, e.message];
  const numbers = [{a: 1}, {a: 2}, {done: true}];
  const good = await wire.stream("sweep", {items: numbers}, (item) => items.push(item.a))
    .then(() => "done");
  const broken = await wire.stream("sweep", {items: [{a: 3}]}, () => {}).catch(say);
  const wrong = [{error: "No.", kind: "ConfigError"}];
  const failed = await wire.stream("sweep", {items: wrong}, () => {}).catch(say);
  return [items, good, broken[0], failed];
}"""


def test_a_newer_question_takes_the_place_of_an_older(modules):
    assert run(modules, WIRE, "newest") == ["superseded", "answered"]


def test_the_same_question_is_asked_once(modules):
    assert run(modules, WIRE, "kept") == 2


def test_what_is_being_asked_is_not_asked_again(modules):
    assert run(modules, WIRE, "together") == [1, True]


def test_a_shared_question_is_given_up_when_nobody_waits_any_more(modules):
    assert run(modules, WIRE, "given up") == ["superseded", "superseded", 0, [1]]


def test_a_stream_ends_with_done_or_with_an_error(modules):
    assert run(modules, WIRE, "stream") == [[1, 2], "done", "WireError", ["WireError", "No."]]


def test_a_stream_that_is_cut_off_is_an_error_in_a_sentence(visit):
    assert run(visit.open(), WIRE, "cut off") == [[1], "Offline"]


@pytest.mark.parametrize("dark", [False, True])
def test_attention_is_monotone_in_lightness(modules, dark):
    table = run(
        modules,
        "async (dark) => Array.from((await import('./ramp.js')).ramp('attention', dark))",
        dark,
    )
    light = [
        0.2126 * (c & 255) ** 2.2 + 0.7152 * (c >> 8 & 255) ** 2.2 + 0.0722 * (c >> 16 & 255) ** 2.2
        for c in table
    ]
    steps = np.diff(light[::5])  # one step alone is less than what rounding to bytes can turn
    assert len(table) == 256
    assert (steps > 0).all() if dark else (steps < 0).all()


def test_signed_numbers_are_neutral_at_zero_and_as_strong_on_both_sides(modules):
    levels = run(
        modules,
        "async () => { const {level} = await import('./ramp.js'); return [-2, -1, 0, 1, "
        "2].map((x) => level(x, {kind: 'signed', high: 2})); }",
    )
    assert levels[0] == 0
    assert levels[4] == 255
    assert levels[2] in (127, 128)
    assert levels[1] + levels[3] in (254, 255, 256)


MATRIX = """async () => {
  const {heatmap} = await import("./marks.js"), host = document.querySelector(".page-room");
  const picked = (window.picked = []);
  const it = (window.it = heatmap({
    rows: ["a", "b", "c"], columns: ["x", "y", "z", "w"],
    values: [0.5, 0.25, 0.25, 0, 0.1, 0.2, 0.3, 0.4, 1, 0, 0, 0], digits: false,
    masked: (r, c) => r === 0 && c === 3,
    onselect: (row, column, how) => picked.push([row, column, how.pinned]),
  }));
  host.replaceChildren(it.el);
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
}"""
PIXELS = """async (cells) => {
  const {level, ramp} = await import("./ramp.js"), table = ramp("attention", false);
  const canvas = it.canvas, [w, h] = [canvas.width / 4, canvas.height / 3];
  const {data, width} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return cells.map(([row, column]) => {
    const at = 4 * (Math.round((row + 0.3) * h) * width + Math.round((column + 0.3) * w));
    const colour = table[level(it.value(row, column))];
    return [[...data.slice(at, at + 3)], [colour & 255, colour >> 8 & 255, colour >> 16 & 255]];
  });
}"""


def test_pixels_have_the_colour_of_their_number(visit):
    page = visit.open()
    run(page, MATRIX)
    pairs = run(page, PIXELS, [[0, 0], [0, 1], [1, 3], [2, 0], [2, 3]])
    assert [drawn for drawn, _ in pairs] == [expected for _, expected in pairs]
    assert len({tuple(drawn) for drawn, _ in pairs}) == 5


def test_a_matrix_is_walked_by_keyboard_and_says_where_it_is(visit):
    page = visit.open()
    run(page, MATRIX)
    stack, live = page.locator(".matrix-stack"), page.locator(".matrix [aria-live]")
    assert stack.get_attribute("aria-label") == "Matrix, 3 by 4"
    stack.focus()
    assert live.text_content() == "query a, key x, weight 0.5000"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert live.text_content() == "query b, key y, weight 0.2000"
    assert page.locator(".readout output").text_content() == "0.2000"
    page.keyboard.press("Shift+ArrowRight")  # the row's largest
    assert live.text_content() == "query b, key w, weight 0.4000"
    page.keyboard.press("ArrowUp")
    assert live.text_content() == "query a, key w, masked"
    page.keyboard.press("Home")
    page.keyboard.press("Shift+ArrowDown")  # the column's
    page.keyboard.press("Enter")
    assert run(page, "() => picked.at(-1)") == [2, 0, True]
    page.keyboard.press("ArrowDown")  # stops at the end
    assert live.text_content() == "query c, key x, weight 1"


def test_a_matrix_as_table_csv_and_svg_holds_its_numbers(visit):
    page = visit.open()
    run(page, MATRIX)
    got = run(
        page,
        "async () => { const {csv} = await import('./marks.js'); return [csv(it.table()), "
        "it.toSvg().querySelectorAll('rect').length, it.summary()]; }",
    )
    assert got[0].splitlines()[1] == "a,0.5,0.25,0.25,masked"
    assert got[1] == 12
    assert "Strongest: query c, key x, weight 1" in got[2]


LARGE = """async () => {
  const {heatmap} = await import("./marks.js"), host = document.querySelector(".page-room");
  const side = 1200, bytes = new Uint8Array(side * side).fill(40);
  bytes[900 * side + 30] = 90;
  const names = Array.from({length: side}, (_, i) => String(i));
  const it = (window.it = heatmap({rows: names, columns: names, bytes, masked: (r, c) => c > r}));
  host.replaceChildren(it.el);
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const canvas = it.canvas, context = canvas.getContext("2d");
  const {data, width} = context.getImageData(0, 0, canvas.width, canvas.height);
  const colour = (x, y) => {
    const at = 4 * (Math.floor(y * canvas.height) * width + Math.floor(x * canvas.width));
    return [...data.slice(at, at + 4)];
  };
  const hatched = Array.from({length: 12}, (_, i) => colour(0.75 + i / canvas.width, 0.25)[3]);
  return [it.summary(), colour(0.25, 0.75), hatched, it.el.querySelectorAll("span").length];
}"""


def test_a_large_matrix_is_summed_up_whole_and_hatched_in_one_go(visit):
    page = visit.open()
    said, seen, hatched, spans = run(page, LARGE)
    assert "Strongest: query 900, key 30, weight about 0.12." in said
    low = run(page, "async () => (await import('./ramp.js')).ramp('attention', false)[40]")
    assert seen == [low & 255, low >> 8 & 255, low >> 16 & 255, 255]
    assert max(hatched) < 255
    assert min(hatched) < max(hatched)  # lines, with paper between them
    assert spans < 300


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({}, ["0", ".01", ".05", ".1", ".25", ".5", "1"]),
        ({"scale": "log"}, [".0001", ".001", ".01", ".1", "1"]),
        ({"scale": "log", "high": 0.11}, [".0001", ".001", ".01", ".11"]),
        ({"kind": "signed", "high": 2}, ["−2", "0", "2"]),
    ],
)
def test_the_numbers_of_a_legend_do_not_stand_in_each_others_way(modules, how, expected):
    script = (
        "async (how) => [...(await "
        "import('./marks.js')).legend(how).querySelectorAll('.legend-tick')].map((t) => "
        "t.textContent)"
    )
    assert run(modules, script, how) == expected


def test_csv_quotes_what_needs_it(modules):
    got = run(
        modules,
        """async () => (await import('./marks.js'))
        .csv({columns: ["a,b", 'q"'], rows: [["x\\ny", 1]]})""",
    )
    assert got == '"a,b","q"""\r\n"x\ny",1\r\n'


@pytest.mark.parametrize("bits", [0, 1, 0x3C00, 0xBC00, 0x7BFF, 0x0400, 0x3555, 0x8001])
def test_halves_are_those_of_numpy(modules, bits):
    expected = np.frombuffer(struct.pack("<H", bits), dtype=np.float16)[0]
    assert run(modules, "async (bits) => (await import('./wire.js')).half(bits)", bits) == float(
        expected
    )
