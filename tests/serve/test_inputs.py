"""What a request may give as an input: nothing from the disk, and every form that the run's own
verbs take."""

import json
from contextlib import suppress

import numpy as np
import pytest

from glassformer.core.errors import ConfigError, GlassformerError
from serve.asking import ask, first, model_of
from small_senses import write_picture


@pytest.mark.parametrize("family", ["image", "audio", "mixture", "lm", "translate", "tag"])
def test_the_path_of_a_file_is_never_opened(explorer_of, tmp_path, monkeypatch, family):
    """A page that is opened from a link must not read what it likes: neither a picture nor that a
    file is there."""
    explorer, path = explorer_of(family), str(tmp_path / "own.png")
    write_picture(tmp_path / "own.png", np.zeros((8, 8, 1), np.uint8))

    def never(*arguments, **options):
        raise AssertionError("a file was opened")

    for name in ("media.processor.content", "media.processor.source_at"):
        monkeypatch.setattr(f"glassformer.processors.{name}", never)
    paths = [
        path,
        [path],
        [path, path],
        {"text": path},
        [{"text": path}],
        [[path], path],
        [[1], path],
        [path, [1]],
    ]
    paths += [{"image": path}, [{"image": path}], {"audio": path}, [[{"image": path}], "a"]]
    for value in paths:
        with suppress(GlassformerError):  # some are texts or pairs of texts, which a path may be
            ask(explorer, "look", look={"input": value})
    if family in ("image", "audio"):
        with pytest.raises(
            ConfigError,
            match=rf'^.* is no part that this model reads; give {{"{family}": "data:',
        ):
            ask(explorer, "look", look={"input": path})


def test_a_pair_may_be_token_ids_on_either_side(explorer_of):
    explorer = explorer_of("translate")
    seen = ask(explorer, "look", look={"input": ["abc", "cb"]}).header
    source, target = ([one["id"] for one in seen[name]] for name in ("source_elements", "elements"))
    for value in ([source, target], ["abc", target], [source, "cb"]):
        again = ask(explorer, "look", look={"input": value}).header
        assert again["outcome"] == seen["outcome"]
        assert [one["id"] for one in again["elements"]] == target
    with pytest.raises(
        ConfigError, match="A token id is a number from 0, and the input holds -1 to 3"
    ):
        explorer.looks.inputs.decode([[3, -1], "a"])
    for value in ([[], "a"], [[1, True], "a"], [["a"], [1]], [[1], None]):
        with pytest.raises(GlassformerError):
            ask(explorer, "look", look={"input": value})


@pytest.mark.parametrize("given", [["a", "b"], ("a", "b"), ["a", "b", "c"]])
def test_texts_of_parts_are_what_a_look_takes(explorer_of, given):
    """Two texts are parts; as a tuple, a part and the answer so far."""
    inputs = explorer_of("mixture").looks.inputs
    sent = inputs.encode(given)
    assert inputs.encode(sent) == sent
    run = inputs.run
    assert run.encode(inputs.decode(sent)).elements == run.encode(given).elements


def test_the_special_tokens_are_named(explorer):
    specials = model_of(explorer)["specials"]
    tokenizer = getattr(explorer.run.processor, "tokenizer", None)
    assert specials == ({} if tokenizer is None else tokenizer.specials)
    assert json.loads(json.dumps(specials)) == specials
    if explorer.run.model.config.head == "masked_lm":
        masked = ask(explorer, "look", look={"input": [specials["mask"], 3]}).header["elements"][0]
        assert masked["kind"] == "special"
        assert first(explorer)
