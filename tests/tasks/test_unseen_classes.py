"""Validation data without one class of the training data: their loss would be 0, the best for
ever."""

import pytest

from glassformer.core.errors import DataError
from small_runs import go
from small_tasks import class_recipe, json_file, order_label, slash, tag_recipe

WORDS = ["the", "sky", "is", "near"]


def other_classes(folder, tagged: bool, known: bool) -> str:
    """Six inputs of classes that training does not have, and one that it has."""
    last = order_label(WORDS) if known else "odd"
    if not tagged:
        text = " ".join(WORDS)
        return json_file(folder, "other.jsonl", [(text, "odd")] * 6 + [(text, last)])
    (folder / "other.txt").write_text(slash(WORDS, ["ODD"] * 4) * 6)
    if known:
        with (folder / "other.txt").open("a") as file:
            file.write((folder / "tags.txt").read_text().splitlines()[0] + "\n")
    return str(folder / "other.txt")


@pytest.mark.parametrize("make", [tag_recipe, class_recipe])
@pytest.mark.parametrize("known", [False, True])
def test_they_are_refused_before_anything_is_written(tmp_path, make, known):
    make(tmp_path)
    made = make(
        tmp_path, data={"validation.path": other_classes(tmp_path, make is tag_recipe, known)}
    )
    if known:
        assert go(made, tmp_path / "x")[0].scores["unseen"] > 0
        return
    with pytest.raises(DataError, match=r"no class of the validation .* is known to the model"):
        go(made, tmp_path / "x")
    assert not (tmp_path / "x").exists()
