"""Every answer, decoded and held against direct computation, for runs of every family."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from glassformer.core.errors import ConfigError
from glassformer.data.store import Store
from glassformer.inspect.edits import Mean, Patch, Zero
from glassformer.inspect.headmetrics import METRICS, head_metrics
from glassformer.serve.explorer.handler import Explorer
from glassformer.serve.explorer.schema import LookRequest
from serve.asking import CLOSE, ask, everywhere, first, model_of, own_look, softmax, untrained
from serve.conftest import CAPABILITIES
from small_senses import tone


def test_a_model_says_what_it_is_and_begins_with_inputs_that_it_can_read(explorer, request):
    header = model_of(explorer)
    assert header["capabilities"] == CAPABILITIES[request.node.callspec.params["explorer"]]
    config = explorer.run.model.config
    assert (header["layers"], header["heads"], header["kv_heads"]) == (
        config.n_layers,
        config.n_heads,
        config.kv_heads,
    )
    assert header["parameters"] == explorer.run.model.n_parameters
    assert header["checkpoints"] == [1, 2]
    assert header["config"]["d_model"] == config.d_model
    assert header["classes"] == list(config.classes)
    assert 1 <= len(header["examples"]) <= 6
    for example in header["examples"]:
        assert json.loads(json.dumps(example)) == example
        assert ask(explorer, "look", look={"input": example}).header["elements"]
    crossed = [("", "self"), ("", "cross"), ("encoder", "self")]
    assert [(a["side"], a["site"]) for a in header["attentions"]] == (
        crossed if config.architecture == "encoder_decoder" else crossed[:1]
    )


def test_a_look_has_elements_and_the_likeliest_outcomes_everywhere(explorer):
    value = first(explorer)
    header, own = ask(explorer, "look", look={"input": value}).header, own_look(explorer, value)
    assert [one["label"] for one in header["elements"]] == [
        element.label for element in own.elements
    ]
    assert [one["id"] for one in header["source_elements"]] == [
        element.id for element in own.source_elements
    ]
    logits = own.logits.double().reshape(-1, own.logits.shape[-1])
    assert len(header["outcome"]["rows"]) == len(logits)
    for position, (row, wanted) in enumerate(
        zip(header["outcome"]["rows"], logits.softmax(-1), strict=True)
    ):
        assert row["position"] == (position if own.logits.dim() == 2 else None)
        top = wanted.topk(min(5, len(wanted)))
        np.testing.assert_allclose([one["p"] for one in row["top"]], top.values, **CLOSE)
        assert [one["label"] for one in row["top"]] == [own.names[one["id"]] for one in row["top"]]
    assert (
        header["outcome"]["kind"]
        == {"lm": "tokens", "masked_lm": "tokens", "tag": "tags", "classify": "class"}[
            explorer.run.model.config.head
        ]
    )


@pytest.mark.parametrize("size", [4, 64])
def test_thumbnails_are_the_largest_weights_and_metrics_are_those_of_the_patterns(
    explorer, size, monkeypatch
):
    monkeypatch.setattr(
        "glassformer.serve.explorer.ops_attention.NUMBERS", 200
    )  # several portions, also of short sequences
    own, config = own_look(explorer, first(explorer)), explorer.run.model.config
    for where in everywhere(explorer):
        reply = ask(explorer, "thumbnails", look={"input": first(explorer)}, size=size, **where)
        rows, columns = reply.header["cell"]
        pixels = reply.arrays["thumbnails"]
        for layer in range(config.n_layers):
            for head in range(config.n_heads):
                pattern = own.pattern(layer, head, **where).numpy()
                wanted = np.array(
                    [
                        [
                            pattern[i : i + rows, j : j + columns].max()
                            for j in range(0, pattern.shape[1], columns)
                        ]
                        for i in range(0, len(pattern), rows)
                    ]
                )
                assert max(wanted.shape) <= size
                # a byte is a rounded root: (k ± 0.5)² / 255² around k²
                np.testing.assert_allclose(
                    pixels[layer, head] / 255, np.sqrt(wanted), atol=0.5 / 255 + 1e-5
                )
        assert [metric["name"] for metric in reply.header["metrics"]] == list(METRICS)
        np.testing.assert_allclose(
            reply.arrays["metrics"],
            np.stack([*head_metrics(own, **where).values()], -1),
            rtol=1e-4,
            atol=1e-5,
        )


def test_a_head_is_its_pattern(explorer):
    own = own_look(explorer, first(explorer))
    for where in everywhere(explorer):
        reply = ask(explorer, "head", look={"input": first(explorer)}, layer=0, head=1, **where)
        pattern = own.pattern(0, 1, **where).double().numpy()
        np.testing.assert_allclose(
            reply.arrays["pattern"] / 255, np.sqrt(pattern), atol=0.5 / 255 + 1e-6
        )
        np.testing.assert_allclose(reply.arrays["mass"], pattern.sum(0), **CLOSE)
        safe = np.where(pattern > 0, pattern, 1)
        np.testing.assert_allclose(
            reply.arrays["entropy"], -(pattern * np.log2(safe)).sum(1), rtol=1e-4, atol=1e-5
        )
        decoder = where["side"] != "encoder" and explorer.run.model.decoder is not None
        assert reply.header["mask"] == (
            "causal" if decoder and where["site"] == "self" else "table"
        )


def test_a_window_comes_with_the_mask(run_folder, monkeypatch):
    from glassformer.run import load

    run = load(run_folder("lm"))
    from glassformer.layers.attention.mask import Causal, Window

    assert run.model.decoder is not None
    monkeypatch.setattr(run.model.decoder, "mask", Causal() & Window(3))
    reply = ask(Explorer(run), "head", look={"input": "the cat sat"}, layer=0, head=0)
    assert reply.header["mask"] == "table"
    far = np.subtract.outer(np.arange(11), np.arange(11))
    np.testing.assert_array_equal(reply.arrays["masked"], (far < 0) | (far >= 3))


def test_a_row_and_a_step_can_be_computed_again_from_their_operands(explorer):
    """A head in float64, from nothing but what the step gives: scores, weights, z, and what joins
    the stream."""
    own, model = own_look(explorer, first(explorer)), explorer.run.model
    for where in everywhere(explorer):
        place, module = own.attention(1, **where)
        query = len(own.pattern(1, 0, **where)) - 2
        total = np.zeros(model.config.d_model)
        for head in range(model.config.n_heads):
            asked = {
                "look": {"input": first(explorer)},
                "layer": 1,
                "head": head,
                "query": query,
                **where,
            }
            step = ask(explorer, "step", **asked)
            row = ask(explorer, "row", **asked)
            a = {name: array.astype(np.float64) for name, array in step.arrays.items()}
            scores = a["k"] @ a["q"] * step.header["scale"] + a.get("bias", 0)
            scores[step.header["masked"]] = -np.inf
            np.testing.assert_allclose(a["weights"], softmax(scores), **CLOSE)
            np.testing.assert_allclose(a["z"], a["weights"] @ a["v"], rtol=1e-4, atol=1e-5)
            scores[step.header["masked"]] = 0
            np.testing.assert_allclose(a["scores"], scores, rtol=1e-4, atol=1e-5)
            for name in ("scores", "weights"):
                np.testing.assert_array_equal(row.arrays[name], step.arrays[name])
            assert row.header["masked"] == step.header["masked"]
            total += a["out"]
        bias = 0 if module.out_proj.bias is None else module.out_proj.bias.detach().numpy()
        joined = own[f"{place}_out"].tensor[query].numpy()
        np.testing.assert_allclose(total + bias, joined, rtol=1e-4, atol=1e-4)
        with torch.no_grad():
            asked_of = own[f"{place}.q"].tensor[:, query]
            x = torch.from_numpy(step.arrays["norm"])
            if step.header["rotary"] is False and module.q_norm is None:
                np.testing.assert_allclose(
                    module.q_proj(x).view_as(asked_of), asked_of, rtol=1e-4, atol=1e-4
                )
        assert step.header["norm"] == (
            ""
            if model.config.norm_placement == "post"
            else "LayerNorm"
            if model.config.norm == "layer"
            else "RMSNorm"
        )


def test_the_lens_ends_in_the_models_own_answer(explorer):
    reply, own = (
        ask(explorer, "lens", look={"input": first(explorer)}, k=3),
        own_look(explorer, first(explorer)),
    )
    layers = explorer.run.model.config.n_layers
    wanted = own.logits.reshape(-1, own.logits.shape[-1]).softmax(-1)
    assert reply.arrays["p"].shape[:2] == (layers + 1, len(wanted))
    ids = torch.from_numpy(reply.arrays["ids"][-1]).long()
    np.testing.assert_allclose(reply.arrays["p"][-1], wanted.gather(-1, ids), rtol=1e-4, atol=1e-5)
    assert {int(i): label for i, label in reply.header["labels"].items()} == {
        i: own.names[i] for i in np.unique(reply.arrays["ids"]).tolist()
    }


def test_the_ledger_adds_up(explorer):
    own = own_look(explorer, first(explorer))
    header = ask(explorer, "ledger", look={"input": first(explorer)}, target=1, against=0).header
    logits = own.logits[-1] if own.logits.dim() == 2 else own.logits
    assert header["logit"] == pytest.approx(float(logits[1] - logits[0]), abs=1e-4)
    assert sum(entry["value"] for entry in header["entries"]) + header["bias"] == pytest.approx(
        header["total"]
    )
    assert header["gap"] < 1e-5
    assert header["against"] == {"id": 0, "label": own.names[0]}


def test_effects_are_those_of_edits(explorer):
    """Streamed head by head, in batches; here one edit after the other."""
    own = own_look(explorer, first(explorer))
    value = lambda look: float((look.logits[-1] if look.logits.dim() == 2 else look.logits)[1])
    for where in everywhere(explorer):
        items = [
            *explorer.stream(
                {"op": "sweep", "look": {"input": first(explorer)}, "target": 1, **where}
            )
        ]
        config = explorer.run.model.config
        assert [(i["row"], i["column"]) for i in items] == [
            (layer, head) for layer in range(config.n_layers) for head in range(config.n_heads)
        ]
        for item in items[:: max(1, len(items) // 3)]:
            point = f"{own.attention(item['row'], **where)[0]}.z"
            wanted = value(own.edit([Mean(point, head=item["column"])])) - value(own)
            assert item["change"] == pytest.approx(wanted, abs=1e-4)


def test_a_sweep_patches_one_place_after_the_other(lm):
    clean, other = "the cat sat", "the dog ran"
    a, b = own_look(lm, clean), own_look(lm, other)
    asked = {"op": "sweep", "look": {"input": clean}, "target": 2, "by": "layer_position"}
    for item in lm.stream({**asked, "kind": "patch", "source": {"input": other}}):
        point = f"decoder.blocks.{item['row']}.resid_post"
        wanted = a.edit([Patch(point, position=item["column"], source=b)]).logits[-1, 2]
        assert item["value"] == pytest.approx(float(wanted), abs=1e-4)
    for item in lm.stream({**asked, "kind": "patch", "source": {"input": clean}}):
        assert item["change"] == pytest.approx(0, abs=1e-5)
    for item in lm.stream({**asked, "kind": "zero", "by": "layer_head"}):
        wanted = a.edit(
            [Zero(f"decoder.blocks.{item['row']}.attention.z", head=item["column"])]
        ).logits[-1, 2]
        assert item["value"] == pytest.approx(float(wanted), abs=1e-4)
    with pytest.raises(ConfigError, match="take equal ones"):
        next(lm.stream({**asked, "kind": "patch", "source": {"input": "the"}}))
    with pytest.raises(ConfigError, match="needs `source`"):
        next(lm.stream({**asked, "kind": "patch"}))


def test_next_shows_each_stage(lm):
    logits = own_look(lm, "the cat").logits[3].double()
    reply = ask(
        lm, "next", look={"input": "the cat"}, position=3, temperature=0.5, top_k=3, top_p=0.9
    )
    ids = torch.from_numpy(reply.arrays["ids"]).long()
    assert ids.tolist() == logits.argsort(descending=True, stable=True)[:50].tolist()
    np.testing.assert_allclose(reply.arrays["before"], logits.softmax(-1)[ids], **CLOSE)
    np.testing.assert_allclose(reply.arrays["tempered"], (logits / 0.5).softmax(-1)[ids], **CLOSE)
    kept = (reply.arrays["top_k"] > 0).sum()
    assert kept == reply.header["possible"]["top_k"] == 3
    assert reply.arrays["top_p"].sum() == pytest.approx(1)
    assert reply.header["rest"]["before"] == pytest.approx(
        1 - float(logits.softmax(-1)[ids].sum()), abs=1e-6
    )


def test_generation_is_the_runs_own_step_by_step(explorer_of):
    lm = explorer_of("lm")
    items = [
        *lm.stream(
            {
                "op": "generate",
                "look": {"input": "the c"},
                "new_tokens": 6,
                "temperature": 0.7,
                "seed": 3,
            }
        )
    ]
    assert "".join(item["label"] for item in items) == lm.run.generate(
        "the c", max_new_tokens=6, temperature=0.7, seed=3
    )
    assert [item["step"] for item in items] == [0, 1, 2, 3, 4, 5]
    for item in items:
        by_id = {one["id"]: one["p"] for one in item["alternatives"]}
        assert by_id.get(item["id"], item["p"]) == pytest.approx(item["p"])
    look = own_look(lm, "the c" + "".join(item["label"] for item in items[:2]))
    assert items[2]["p"] == pytest.approx(float(look.probabilities()[items[2]["id"]]), abs=1e-5)
    other = next(one["id"] for one in items[1]["alternatives"] if one["id"] != items[1]["id"])
    branch = [
        *lm.stream(
            {
                "op": "generate",
                "look": {"input": "the c"},
                "new_tokens": 4,
                "temperature": 0,
                "given": [items[0]["id"], other],
            }
        )
    ]
    assert (branch[0]["step"], branch[0]["id"]) == (1, other)
    translate = explorer_of("translate")
    pair = ["abc", ""]
    items = [
        *translate.stream(
            {"op": "generate", "look": {"input": pair}, "new_tokens": 5, "temperature": 0}
        )
    ]
    source = ask(translate, "look", look={"input": pair}).header["source_elements"]
    assert np.array(items[0]["cross"]).shape == (2, len(source))
    np.testing.assert_allclose(np.array(items[0]["cross"]).sum(-1), 1, rtol=1e-5)
    beams = [
        *translate.stream({"op": "generate", "look": {"input": pair}, "new_tokens": 5, "beams": 3})
    ]
    how = {"beams": 3, "n_best": 1, "max_new_tokens": 5, "length_penalty": 1.0}
    found = translate.run.predict("abc", **how)
    assert beams[-1]["best"][0]["ids"] == found.ids
    assert all(one["parent"] is None for one in beams[0]["beams"])


def test_generation_under_edits_goes_by_edited_looks(lm):
    edit = {"edit": "Zero", "point": "decoder.blocks.0.attention.z", "head": 1}
    look = {"input": "the c", "edits": [edit]}
    items = [*lm.stream({"op": "generate", "look": look, "new_tokens": 4, "temperature": 0})]
    text = "the c"
    for item in items:
        own = own_look(lm, text).edit([Zero("decoder.blocks.0.attention.z", head=1)])
        assert item["id"] == int(own.logits[-1].argmax())
        assert item["p"] == pytest.approx(float(own.probabilities()[item["id"]]), abs=1e-5)
        text += item["label"]


@pytest.mark.parametrize("edits", [[], [{"edit": "Scale", "point": "*.attention.z", "by": 1.0}]])
def test_a_picture_is_drawn_as_the_run_draws_it(explorer_of, edits):
    """Pixel by pixel to its end, of colours alone, whatever the model would rather write."""
    explorer = explorer_of("depiction")
    run, text = explorer.run, first(explorer)
    look, colours = {"input": text, "edits": edits}, run.tokenizer.vocab_size
    asked = {"op": "generate", "look": look, "new_tokens": 500, "temperature": 1.0, "seed": 3}
    items = [*explorer.stream(asked)]
    drawn, palette = run.draw(text, temperature=1.0, seed=3), run.task.objective.palette
    ids = np.array([item["id"] - colours for item in items])
    assert (palette.pixels(ids[None])[0] == drawn).all()
    assert len(items) == palette.config.n_pixels
    assert all(item["after"] >= item["p"] * (1 - 1e-9) for item in items), (
        "what may not come leaves its share to the others"
    )
    seen = [one["id"] for one in ask(explorer, "look", look=look).header["elements"]]
    for there in (1, palette.config.n_pixels - 1):
        part = [*seen, *(item["id"] for item in items[:there])]
        more = [
            *explorer.stream({**asked, "look": {"input": part, "edits": edits}, "temperature": 0})
        ]
        assert len(more) == palette.config.n_pixels - there
    short = [seen[0], *(item["id"] for item in items)]  # behind less text than in training
    assert [*explorer.stream({**asked, "look": {"input": short, "edits": edits}})] == [], (
        "the picture is whole"
    )
    for wrong, sentence in (
        ({"given": [1]}, "Token 1 is no colour; those of"),
        ({"beams": 2}, "unedited text"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            [*explorer.stream({**asked, **wrong})]


def test_the_next_pixel_is_a_colour(explorer_of):
    explorer = explorer_of("depiction")
    text, first_colour = first(explorer), explorer.run.tokenizer.vocab_size
    reply = ask(explorer, "next", look={"input": text})
    ids, palette = reply.arrays["ids"] - first_colour, explorer.run.task.objective.palette
    n = len(palette.colours)  # fewer than the model has rows for, if the pictures have fewer
    logits = own_look(explorer, text).logits[-1, first_colour : first_colour + n]
    assert reply.header["outcomes"] == n
    assert set(ids.tolist()) == set(range(n))
    np.testing.assert_allclose(reply.arrays["before"], logits.softmax(-1)[ids], rtol=1e-5)
    assert set(reply.header["labels"].values()) <= {
        "#" + bytes(colour.tolist()).hex() for colour in palette.colours
    }


@pytest.mark.parametrize("method", ["gradient_x_input", "occlusion", "rollout"])
def test_attribution_gives_every_element_a_score(explorer, method):
    from glassformer.inspect.attribution import attribute

    own = own_look(explorer, first(explorer))
    reply = ask(explorer, "attribute", look={"input": first(explorer)}, method=method, target=1)
    wanted = attribute(own, method, 1)
    np.testing.assert_allclose(reply.arrays["scores"], wanted.scores, rtol=1e-4, atol=1e-5)
    if own.source_elements:
        np.testing.assert_allclose(
            reply.arrays["source"], wanted.source_scores, rtol=1e-4, atol=1e-5
        )


def test_faithfulness_comes_beside_it(lm):
    reply = ask(
        lm,
        "attribute",
        look={"input": "the cat"},
        method="occlusion",
        target=2,
        faithfulness=True,
        steps=4,
    )
    assert (
        len(reply.arrays["shares"])
        == len(reply.arrays["deletion"])
        == len(reply.arrays["random"])
        == 5
    )
    p = own_look(lm, "the cat").probabilities()[2]
    assert reply.arrays["deletion"][0] == pytest.approx(float(p), abs=1e-5)
    assert reply.arrays["insertion"][-1] == pytest.approx(float(p), abs=1e-5)


def test_two_looks_are_aligned_and_subtracted_nowhere_but_in_the_browser(lm):
    a, b = "the cat sat", "the cow sat"
    reply = ask(lm, "compare", a={"input": a}, b={"input": b}, layer=1, head=2)
    assert reply.header["alignment"] == [[i, i] for i in range(11)]
    np.testing.assert_allclose(reply.arrays["pattern_a"], own_look(lm, a).pattern(1, 2), **CLOSE)
    np.testing.assert_allclose(reply.arrays["pattern_b"], own_look(lm, b).pattern(1, 2), **CLOSE)
    np.testing.assert_allclose(
        reply.arrays["metrics_b"],
        np.stack([*head_metrics(own_look(lm, b)).values()], -1),
        rtol=1e-4,
        atol=1e-5,
    )
    p, q = own_look(lm, a).probabilities(), own_look(lm, b).probabilities()
    assert reply.header["kl"] == pytest.approx(float((p * (p / q).log2()).sum()), abs=1e-4)
    for change in reply.header["changes"]:
        assert change["b"] - change["a"] == pytest.approx(float((q - p)[change["id"]]), abs=1e-5)
    shorter = ask(
        lm, "compare", a={"input": "the cat sat"}, b={"input": "the cat"}, layer=0, head=0
    )
    assert shorter.header["alignment"] == [[i, i] for i in range(7)] + [
        [i, None] for i in range(7, 11)
    ]
    assert shorter.arrays["pattern_a"].shape == (7, 7)


def test_pictures_come_as_the_model_was_given_them(explorer_of):
    image = explorer_of("image")
    array = Store.open(image.run.folder / "pixels", "arrays").array("validation", "arrays")
    reply = ask(image, "picture", look={"input": {"image": "example:1"}})
    np.testing.assert_array_equal(reply.arrays["pixels"], array[1])
    assert (reply.header["kind"], reply.header["grid"], reply.header["turned"]) == (
        "image",
        [2, 2],
        False,
    )
    sound = ask(explorer_of("audio"), "picture", look={"input": {"audio": "example:0"}})
    assert (sound.header["kind"], sound.header["grid"], sound.header["turned"]) == (
        "spectrogram",
        [2, 2],
        True,
    )
    assert sound.arrays["pixels"].shape == (16, 10, 1)
    mixture = explorer_of("mixture")
    reply = ask(mixture, "picture", look={"input": first(mixture)})
    assert reply.arrays["pixels"].shape == (8, 8, 3)
    with pytest.raises(ConfigError, match="no image or audio 1"):
        ask(mixture, "picture", look={"input": first(mixture)}, part=1)
    with pytest.raises(ConfigError, match="it has 0"):
        ask(explorer_of("lm"), "picture", look={"input": "a"})


def test_images_and_audio_are_counted_in_the_order_of_the_sequence(tmp_path):
    """A batch has them by kind, audio first."""
    explorer, draw = untrained(tmp_path), np.random.default_rng(0)
    one, other = draw.integers(0, 256, (2, 8, 8, 3), np.uint8)
    given = [{"image": one}, {"audio": (tone(400, draw), 8000)}, "the cat", {"image": other}]
    look = {"input": explorer.looks.inputs.encode(given)}
    replies = [ask(explorer, "picture", look=look, part=part) for part in range(3)]
    assert [reply.header["kind"] for reply in replies] == ["image", "spectrogram", "image"]
    np.testing.assert_array_equal(replies[0].arrays["pixels"], one)
    np.testing.assert_array_equal(replies[2].arrays["pixels"], other)


def test_a_sent_picture_is_the_same_as_the_file(explorer_of, tmp_path):
    import base64
    import io

    import soundfile

    from glassformer.media.audio_file import write_wav
    from glassformer.processors.media.audio import AudioProcessor
    from small_senses import write_picture

    image = explorer_of("image")
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 1)).astype(np.uint8)
    raw = Path(write_picture(tmp_path / "a.png", pixels)).read_bytes()
    address = f"data:image/png;base64,{base64.b64encode(raw).decode()}"
    reply = ask(image, "picture", look={"input": {"image": address}})
    np.testing.assert_array_equal(reply.arrays["pixels"], pixels)
    audio = explorer_of("audio")
    samples = np.sin(np.arange(800) / 5).astype(np.float32)
    address = f"data:audio/wav;base64,{base64.b64encode(write_wav(samples, 8000)).decode()}"
    content = io.BytesIO()
    soundfile.write(content, samples, 8000, format="FLAC")
    packed = f"data:audio/flac;base64,{base64.b64encode(content.getvalue()).decode()}"
    own = audio.run.look(
        (np.rint(samples * 32768).clip(-32768, 32767).astype(np.float32) / 32768, 8000)
    )
    for where in (address, packed):
        header = ask(audio, "look", look={"input": {"audio": where}}).header
        best = header["outcome"]["rows"][0]["top"][0]
        assert best["p"] == pytest.approx(float(own.probabilities().max()), abs=1e-5)
    assert {".wav", ".flac", ".mp3", "audio/ogg"} <= {*AudioProcessor.accept.split(",")}


def test_curves_and_raw_tensors_and_points(lm):
    reply = ask(lm, "curves")
    assert {"train_loss", "validation_loss"} <= set(reply.header["names"]) == set(reply.arrays)
    from glassformer.training.folder.history import read_metrics

    wanted = [
        (m["step"], m["train_loss"]) for m in read_metrics(lm.run.folder) if "train_loss" in m
    ]
    np.testing.assert_allclose(reply.arrays["train_loss"], wanted, rtol=1e-6)
    raw = ask(lm, "raw", look={"input": "the cat"}, point="decoder.blocks.1.attention.pattern")
    assert raw.header["axes"] == ["head", "query", "key"]
    np.testing.assert_array_equal(raw.arrays["values"][2], own_look(lm, "the cat").pattern(1, 2))
    points = ask(lm, "points", look={"input": "the cat"}).header["points"]
    assert {"decoder.blocks.0.attention.z", "head.logits"} <= {point["name"] for point in points}


def test_edits_reach_the_look_and_its_source_is_a_look(lm):
    plain = ask(lm, "row", look={"input": "the cat"}, layer=0, head=1, query=4).arrays["weights"]
    edit = {
        "edit": "Set",
        "point": "decoder.blocks.0.attention.pattern",
        "head": 1,
        "query": 4,
        "key": 0,
        "to": 0.5,
        "renormalise": True,
    }
    weights = ask(
        lm, "row", look={"input": "the cat", "edits": [edit]}, layer=0, head=1, query=4
    ).arrays["weights"]
    assert weights[0] == pytest.approx(0.5)
    np.testing.assert_allclose(weights[1:], plain[1:] * 0.5 / plain[1:].sum(), **CLOSE)
    patch = {"edit": "Patch", "point": "decoder.blocks.0.resid_pre", "source": {"input": "the dog"}}
    patched = ask(lm, "look", look={"input": "the cat", "edits": [patch]}).header["outcome"]
    assert patched == ask(lm, "look", look={"input": "the dog"}).header["outcome"]


def test_another_checkpoint_is_another_model(run_folder):
    from glassformer.run import load
    from glassformer.training.folder.checkpoints import Checkpoints
    from glassformer.training.folder.models import fill

    explorer = Explorer(load(run_folder("lm")))
    model = load(run_folder("lm"))
    fill(Checkpoints(run_folder("lm")), 1, model.model)
    reply = ask(explorer, "raw", look={"input": "the cat", "checkpoint": 1}, point="head.logits")
    np.testing.assert_array_equal(reply.arrays["values"], model.look("the cat").logits)
    with pytest.raises(ConfigError, match=r"There is no checkpoint of step 7 in .*; it has 1, 2"):
        ask(explorer, "look", look={"input": "the cat", "checkpoint": 7})


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        (
            {"op": "head", "layer": 0, "head": 9},
            "There is no head 9 in this model; its heads are 0 to 3",
        ),
        (
            {"op": "head", "layer": 9, "head": 0},
            "There is no layer 9 in this model; its layers are 0 to 1",
        ),
        (
            {"op": "head", "layer": 0, "head": 0, "side": "encoder"},
            "side='encoder' is not in this model",
        ),
        ({"op": "head", "layer": 0, "head": 0, "site": "cross"}, "has no cross-attention"),
        (
            {"op": "row", "layer": 0, "head": 0, "query": 7},
            "query=7 is not there; query runs from 0 to 6",
        ),
        ({"op": "head", "layer": 0}, "request.head: field required"),
        ({"op": "head", "layer": "x", "head": 0}, "request.layer: input should be a valid integer"),
        ({"op": "head", "layer": 0, "head": True}, "a yes or no is not what belongs here"),
        (
            {"op": "head", "layer": 0, "head": 0, "heat": 1},
            "Unknown key request.heat; did you mean 'head'",
        ),
        ({"op": "raw", "point": "decoder.blocks.0.attention.patern"}, "did you mean"),
        ({"op": "ledger", "target": 10**6}, "There is no outcome"),
        ({"op": "lens", "positions": [99]}, "There is no position 99"),
        ({"op": "attribute", "method": "magic", "target": 0}, "There is no method 'magic'"),
    ],
)
def test_what_is_not_there_is_one_sentence(lm, request_, sentence):
    with pytest.raises(ConfigError) as caught:
        lm.handle({"look": {"input": "the cat"}, **request_})
    assert sentence in str(caught.value)


def test_an_input_that_is_too_long_is_refused_with_the_reason(lm):
    with pytest.raises(
        ConfigError,
        match=r"^The input has \d+ elements and the model reads 48 at once; shorten",
    ):
        lm.handle({"op": "look", "look": {"input": "a" * 100_000}})


def test_an_op_that_is_not_there(lm):
    with pytest.raises(ConfigError, match="did you mean 'thumbnails'"):
        lm.handle({"op": "thumb"})
    with pytest.raises(ConfigError, match="no op 'generate' here"):
        lm.handle({"op": "generate"})
    with pytest.raises(ConfigError, match="no op 'look' here"):
        next(lm.stream({"op": "look"}))


def test_looks_are_let_go_when_there_is_no_room(run_folder):
    from glassformer.run import load

    explorer = Explorer(load(run_folder("lm")), room=1)
    looks = explorer.looks
    for text in ("a", "b"):
        found = looks.find(LookRequest(input=text))
        assert looks.find(LookRequest(input=text)) is found
    looks.find(LookRequest(input="a"))
    assert looks.find(LookRequest(input="b")) is not found


def test_requests_with_other_edits_do_not_disturb_each_other(lm):
    """Three kinds of requests on one model from many threads at once: each gets what it would get
    alone."""
    from concurrent.futures import ThreadPoolExecutor

    edits = [
        [],
        [{"edit": "Zero", "point": "decoder.blocks.0.attention.z", "head": 1}],
        [{"edit": "Scale", "point": "decoder.blocks.1.resid_mid", "by": 2}],
    ]
    requests = [
        {"op": "raw", "look": {"input": "the cat", "edits": edit}, "point": "head.logits"}
        for edit in edits
    ]
    alone = [Explorer(lm.run).handle(request).arrays["values"] for request in requests]
    assert not np.allclose(alone[0], alone[1])
    assert not np.allclose(alone[0], alone[2])
    forgetful = Explorer(lm.run, room=1)  # so that every request computes
    with ThreadPoolExecutor(6) as pool:
        found = [*pool.map(lambda i: forgetful.handle(requests[i % 3]).arrays["values"], range(36))]
    for i, values in enumerate(found):
        np.testing.assert_array_equal(values, alone[i % 3])


def test_whoever_has_gone_is_not_computed_for(lm):
    from glassformer.serve.explorer.looks import ClientDisconnected

    asked = []

    def gone() -> bool:
        asked.append(True)
        return len(asked) > 3

    with pytest.raises(ClientDisconnected):
        lm.handle({"op": "thumbnails", "look": {"input": "the cat"}}, gone)
    with pytest.raises(ClientDisconnected):
        list(lm.stream({"op": "sweep", "look": {"input": "the cat"}, "target": 1}, lambda: True))


@pytest.mark.parametrize(
    "more",
    [
        {"method": "occlusion"},
        {"method": "rollout", "faithfulness": True},
        {"method": "integrated_gradients"},
    ],
)
def test_an_explanation_stops_when_nobody_waits_for_it(lm, more):
    from glassformer.serve.explorer.looks import ClientDisconnected

    request = {"op": "attribute", "look": {"input": "the cat"}, "target": 1, **more}
    asked = []
    lm.handle(request, lambda: bool(asked.append(True)))
    assert len(asked) > 3, "the look, and the passes behind it"
    for last in (2, len(asked) // 2, len(asked) - 1):
        again = iter([False] * last)
        with pytest.raises(ClientDisconnected):
            lm.handle(request, lambda again=again: next(again, True))
