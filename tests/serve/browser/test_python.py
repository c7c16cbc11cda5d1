"""The Python that a page prints gives what the page shows: run, and compared with its answers."""

import io
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from PIL import Image

import glassformer as gf
from glassformer.serve.explorer.schema import PAGES
from serve.asking import reply_of

CLOSE = {"rtol": 2e-4, "atol": 2e-5}
"""float32, in another order, with one input more or less in a batch."""
EDITS = quote('[{"edit":"Zero","point":"*.0.attention.z","head":1}]')
PATCH = quote(
    '[{"edit":"Patch","point":"*.0.resid_post","position":1,'
    '"source":{"input":"the dog","edits":[],"checkpoint":null}}]'
)
AT = "query=1&key=0&layer=1&head=1"
QUICK = [
    ("model", "", "model"),
    ("attention", "", "thumbnails"),
    ("head", AT, "row"),
    ("edit", f"input=the+cat&edits={PATCH}", "look"),
    ("flow", f"against=2&edits={EDITS}", "lens"),
    ("explain", "method=integrated_gradients&baseline=mean", "attribute"),
    ("compare", f"layer=1&edits={EDITS}", "compare"),
    ("train", "", "curves"),
    ("export", "", "points"),
    ("next", "temperature=0.5&top_k=3", "next"),
]
"""A page for each request of `compared`, of the lm."""
CASES = [("lm", *case) for case in QUICK]
MORE = [("lm", "tokens", "", "look"), ("lm", "flow", "position=2", "ledger")]
MORE += [("translate", "head", f"{AT}&site=cross", "row")]
MORE += [("image", "image", "query=1&layer=1", "row")]
MORE += [("lm", "explain", "position=3", "attribute")]
MORE += [("lm", "explain", "method=gradient_attention", "attribute")]
MORE += [("lm", "compare", "b=" + quote('{"input":"the dog"}'), "compare")]
MORE += [("translate", "next", "", "next"), ("translate", "explain", "", "attribute")]
MORE += [("tag", "flow", "", "ledger"), ("image", "explain", "", "attribute")]
MORE += [("classify", "explain", "method=gradient_x_input", "attribute")]


def test_every_page_is_compared():
    assert {page for _, page, _, _ in CASES + MORE} == {
        id for id, page in PAGES.items() if page["python"]
    }


def value_of(code: str, names: dict) -> Any:
    """The value of the last line of a program."""
    *lines, last = code.splitlines()
    exec("\n".join(lines), names)
    exec(f"value = {last}", names)
    return names["value"]


@pytest.mark.parametrize(
    ("family", "page", "selected", "op"),
    [*CASES, *(pytest.param(*case, marks=pytest.mark.slow) for case in MORE)],
)
def test_the_code_of_a_page_gives_what_it_shows(
    visiting_model, explorer_of, tmp_path, monkeypatch, family, page, selected, op
):
    run = explorer_of(family).run
    answers = []

    def heard(response) -> None:
        asked = response.request.post_data_json if response.request.method == "POST" else None
        # a page with edits also asks what comes without them
        edited = bool(asked and (asked.get("look") or asked.get("a") or {}).get("edits"))
        if asked and asked.get("op") == op and edited == ("edits=" in selected):
            answers.append(response)

    selection = "&".join(part for part in (f"page={page}", selected) if part)
    with visiting_model(family, selection, heard) as visit:
        shown = ".inspector .code, .points-python, .card-python .code"
        code = visit.page.locator(shown).first.text_content()
        reply = reply_of(answers[-1].body())
    for i, row in enumerate(explorer_of(family).looks.inputs.kept.get("image", ())):
        file = io.BytesIO()
        Image.fromarray(row.squeeze()).save(file, "png")
        (tmp_path / f"example-{i}.png").write_bytes(file.getvalue())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(gf, "load", {str(run.folder): run}.__getitem__, raising=False)
    names: dict = {}
    compared(op, page, value_of(code, names), names, reply)


def compared(op, page, value, names, reply) -> None:  # noqa: C901
    header, arrays = reply.header, reply.arrays
    match op:
        case "model":
            assert value.model_dump(mode="json") == header["config"]
        case "look" if page == "tokens":
            assert [e.label for e in value] == [e["label"] for e in header["elements"]]
        case "look":
            top = {one["id"]: one["p"] for one in header["outcome"]["rows"][-1]["top"]}
            np.testing.assert_allclose([value[i] for i in top], [*top.values()], **CLOSE)
        case "thumbnails":
            metrics = np.stack([*value.values()], -1)
            np.testing.assert_allclose(metrics, arrays["metrics"], **CLOSE, equal_nan=True)
        case "row":
            weights = arrays["weights"] if page == "image" else arrays["weights"][0]
            np.testing.assert_allclose(value, weights, **CLOSE)
        case "ledger":
            assert value.total == pytest.approx(header["total"], rel=1e-5)
            assert value.target.position == header["position"]
        case "lens":
            found = names["answers"]
            np.testing.assert_array_equal(found.ids, arrays["ids"])
            np.testing.assert_allclose(found.probabilities, arrays["p"], **CLOSE)
        case "next":
            *_, after = value.values()
            np.testing.assert_allclose(after[arrays["ids"]], arrays["after"], **CLOSE)
        case "attribute":
            np.testing.assert_allclose(value, arrays["scores"], **CLOSE)
            assert np.abs(arrays["scores"]).max() > 0
        case "compare":
            both = arrays["pattern_b"] - arrays["pattern_a"]
            assert np.abs(both).max() > 0
            np.testing.assert_allclose(value, both, **CLOSE)
        case "curves":
            (name, *_) = header["names"]
            steps = [line["step"] for line in value if name in line]
            assert steps == arrays[name][:, 0].tolist()
        case "points":
            assert [point.name for point in value] == [one["name"] for one in header["points"]]
        case _:
            raise AssertionError(op)
