"""What `data show` prints and draws of pictures, recordings and sequences of parts is what training
is fed."""

import json

import pytest

from glassformer.run.encoded_batch import EncodedMedia, batch_page, encoded_rows
from glassformer.training.loop.prepare import temporary_task
from pages.reading import Page
from small_runs import recipe
from small_senses import picture_recipe, prepared, sound_recipe

MIXED = {"crop": 1, "mixup": 0.4}


def fed(made, rows: int, step: int) -> list:
    with temporary_task(made) as task:
        return list(encoded_rows(task, rows, step))


@pytest.mark.parametrize("make", [picture_recipe, sound_recipe])
def test_rows_are_those_of_training(tmp_path, make):
    made = make(
        tmp_path,
        **(
            {"augment": {"image": MIXED}}
            if make is picture_recipe
            else {"augment": {"audio": {"noise": 0.5}}}
        ),
    )
    rows = fed(made, 3, 2)
    task = prepared(made, tmp_path / "x")
    (batch,) = task.feed.batches(2)
    assert batch.targets is not None
    assert len(rows) == 3
    for i, row in enumerate(rows):
        assert isinstance(row, EncodedMedia)
        values = json.loads(json.dumps(row.as_json(), allow_nan=False))
        assert values["patches"] == batch.elements[i].tolist()
        (number,) = task.feed.order.rows(2)[i]
        assert values["file"] == task.objective.training.records[number].where
        target = batch.targets[i]
        wanted = (
            {task.objective.classes.names[int(target)]: 1.0}
            if target.ndim == 0
            else dict(zip(task.objective.classes.names, target.tolist(), strict=True))
        )
        assert values["classes"] == {name: share for name, share in wanted.items() if share > 0}
        text = row.as_text(i, 24, colour=False).splitlines()
        assert text[0] == f"row {i}: {values['file']}"
        assert text[2].startswith("  2 x 2 patches of ")
        assert len(text) == 5
    assert len(fed(made, 99, 0)) == 4


def test_rows_go_on_over_micro_batches(tmp_path):
    whole, parts = (fed(picture_recipe(tmp_path, train={"micro_batches": n}), 4, 1) for n in (1, 2))
    assert [row.as_json() for row in whole] == [row.as_json() for row in parts]
    text = recipe(tmp_path, train={"micro_batches": 2})
    assert len(fed(text, 3, 0)) == 3


def test_the_shades_are_brighter_where_the_picture_is(tmp_path):
    for row in fed(picture_recipe(tmp_path), 4, 0):
        assert isinstance(row, EncodedMedia)
        left, right = (
            row.as_text(0, 24, colour=False).splitlines()[-1][2:4],
            row.as_text(0, 24, False)[-2:],
        )
        bright = left if row.drawn.classes[0][0] == "left" else right
        assert (
            " ·░▒▓█".index(bright[0])
            >= 3
            > " ·░▒▓█".index((left + right).replace(bright, "", 1)[0])
        )


@pytest.mark.parametrize("make", [picture_recipe, sound_recipe, recipe])
def test_a_page_is_whole_and_loads_nothing(tmp_path, make):
    with temporary_task(make(tmp_path)) as task:
        made = batch_page(task, 2, 1, "Encoded <b> & more")
    page = Page(made)
    assert all(address.startswith("data:image/png;base64,") for address in page.addresses())
    assert "Encoded &lt;b&gt; &amp; more" in made
    assert "prefers-color-scheme: dark" in made
    assert made.count('<section class="card encoded') == 2
    if make is not recipe:
        assert made.count("patches in input order") == 2
        assert made.count("<details>") == 2 * 4
