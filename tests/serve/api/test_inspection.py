"""What the model looked at, in a reply: equal to what `Run.look` shows of the same tokens."""

import base64

import numpy as np
import pytest
from safetensors.numpy import load

from glassformer.inspect.lens import lens

SAMPLED = {"model": "lm", "prompt": "the cat", "max_tokens": 5, "seed": 5}
EVERYTHING = {"attention": {}, "hidden": {}, "logit_lens": {"top": 3}}


def arrays(inside):
    """The arrays of a reply in either form, by their names."""
    if inside["safetensors"] is not None:
        return load(base64.b64decode(inside["safetensors"]))
    named = {
        "attention": ("values",),
        "hidden": ("values",),
        "logit_lens": ("ids", "probabilities", "chosen"),
    }
    return {
        f"{part}.{name}": np.array(inside[part][name])
        for part, names in named.items()
        if inside[part]
        for name in names
    }


@pytest.mark.parametrize("form", ["json", "safetensors"])
def test_a_completion_is_seen_as_the_run_is(api, form):
    """Logit for logit: one more pass of the same tokens; the last new one was never read."""
    run, config = api.runs["lm"], api.runs["lm"].model.config
    reply = api.post("/v1/completions", **SAMPLED, n=2, inspect=EVERYTHING | {"format": form})
    own = run.predict("the cat", max_new_tokens=5, seed=5)
    for number, choice in enumerate(reply["choices"]):
        inside, found = choice["inspect"], arrays(choice["inspect"])
        assert inside["tokens"] == [run.tokenizer.piece(one) for one in inside["ids"]]
        assert number or inside["ids"][7:] == own.ids[:-1]
        look = run.look(inside["ids"])
        assert (inside["first"], len(look.elements)) == (7, len(inside["tokens"]))
        layers, heads = range(config.n_layers), range(config.n_heads)
        patterns = [[look.pattern(layer, head).numpy() for head in heads] for layer in layers]
        np.testing.assert_array_equal(found["attention.values"], np.array(patterns))
        names = ["0.resid_pre", *(f"{layer}.resid_post" for layer in layers)]
        streams = [look[f"decoder.blocks.{name}"].tensor.numpy() for name in names]
        np.testing.assert_array_equal(found["hidden.values"], streams)
        positions = inside["logit_lens"]["positions"]
        assert positions == [*range(6, len(inside["ids"]))]
        of = lens(look, 3, positions=positions)
        np.testing.assert_array_equal(found["logit_lens.ids"], of.ids)
        np.testing.assert_array_equal(found["logit_lens.probabilities"], of.probabilities)
        if number == 0:
            alone = [lens(look, 1, positions=[6 + at], target=i) for at, i in enumerate(own.ids)]
            expected = np.concatenate([one.of_target for one in alone], 1)
            # the head of one row and of several: rounding of float32
            np.testing.assert_allclose(found["logit_lens.chosen"], expected, rtol=1e-5)


def test_chosen_layers_and_heads_of_a_chat(api):
    asked = {"model": "chat", "messages": [{"role": "user", "content": "hot day"}]}
    whole = api.post("/v1/chat/completions", **asked, inspect=EVERYTHING)["choices"][0]["inspect"]
    some = {"attention": {"layers": [1], "heads": [1, 0]}, "hidden": {"layers": [0]}}
    part = api.post("/v1/chat/completions", **asked, inspect=some)["choices"][0]["inspect"]
    assert (part["logit_lens"], part["tokens"]) == (None, whole["tokens"])
    every, own = arrays(whole), arrays(part)
    np.testing.assert_array_equal(own["attention.values"], every["attention.values"][1:, ::-1])
    np.testing.assert_array_equal(own["hidden.values"], every["hidden.values"][:1])
    assert every["logit_lens.chosen"][-1, 0] == pytest.approx(
        api.post("/v1/chat/completions", **asked, inspect={"logit_lens": {"top": 1}})["choices"][0][
            "inspect"
        ]["logit_lens"]["probabilities"][-1][0][0]
    ), "the answer is the likeliest token"


@pytest.mark.parametrize(
    ("inspect", "more", "said"),
    [
        ({}, {}, "name attention"),
        ({"attention": {"layers": [9]}}, {}, "from 0 to 1"),
        ({"attention": {"heads": [2]}}, {}, "from 0 to 1"),
        ({"hidden": {"layers": [3]}}, {}, "from 0 to 2"),
        ({"hidden": {"layers": []}}, {}, "inspect"),
        ({"logit_lens": {"top": 99}}, {}, "inspect"),
        ({"neurons": {}}, {}, "neurons"),
        ({"hidden": {}}, {"stream": True}, "leave out stream"),
        (EVERYTHING, {"n": 8, "prompt": ["the cat"] * 32}, "is the most of format='json'"),
    ],
)
def test_what_cannot_be_shown_is_refused(api, inspect, more, said):
    reply = api.ask("POST", "/v1/completions", json=SAMPLED | {"inspect": inspect} | more)
    assert reply.status_code == 400
    assert said in reply.json()["error"]["message"]
