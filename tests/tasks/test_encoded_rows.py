"""What `data show` prints of rows of tokens is what training is fed."""

import json

import numpy as np
import pytest
import torch

import tiny
from glassformer.core.batch import IGNORE, Batch, Positions
from glassformer.data.collate import pack_examples, windows
from glassformer.data.example import Example
from glassformer.data.tokens import training_order
from glassformer.models import Transformer
from glassformer.run.encoded_batch import encoded_rows
from glassformer.run.encoded_rows import EncodedRow, targets_by_slot
from glassformer.training.loop.prepare import temporary_task
from small_runs import recipe
from small_senses import prepared
from small_tasks import class_file, class_recipe, json_file, masked_recipe, slash, tag_recipe


def fed(made, rows: int, step: int) -> list[EncodedRow]:
    with temporary_task(made) as task:
        return list(encoded_rows(task, rows, step))


def test_rows_are_shifted_by_one_and_are_those_of_training(tmp_path):
    made = recipe(tmp_path)
    rows = fed(made, 3, 5)
    task = prepared(made, tmp_path / "x")
    text = task.objective.split("train")
    batch = windows(text, training_order(text, 16, 4, 0).rows(5), 16)
    assert len(rows) == 3
    for number, row in enumerate(rows):
        assert row.ids == batch.elements[number].tolist()
        assert row.targets == batch.targets[number].tolist()
        assert row.targets[:-1] == row.ids[1:]
        assert row.positions == list(range(16))
        assert "".join(row.pieces) == task.processor.tokenizer.decode(row.ids)
        assert row.mask == [[key <= query for key in range(16)] for query in range(16)]
        values = json.loads(json.dumps(row.as_json()))
        assert values["bears_loss"] == [True] * 16
        assert "16 elements, 16 bear loss" in row.as_text(number, 4, colour=False)
    assert len(fed(made, 99, 0)) == 4


def test_the_mask_is_the_models_own_with_documents_and_a_window(tmp_path):
    """Element j is seen by i exactly if changing j changes the model's output at i."""
    lines = "".join(
        json.dumps({"text": word * 2}) + "\n" for word in ["abc", "de", "fgh", "ij", "kl"] * 20
    )
    (tmp_path / "d.jsonl").write_text(lines)
    made = recipe(
        tmp_path,
        model={"window": 3, "n_layers": 1},
        data={
            "train.path": str(tmp_path / "d.jsonl"),
            "documents": "separate",
            "validation.fraction": 0.0,
        },
    )
    row = fed(made, 1, 0)[0]
    assert len(set(row.documents)) > 2
    for i in range(15):
        bears = row.documents[i] == row.documents[i + 1]
        assert row.targets[i] == (row.ids[i + 1] if bears else IGNORE)
        assert row.positions[i + 1] == (row.positions[i] + 1 if bears else 0)
    model = Transformer(made.with_vocabulary(30).model, seed=1).double().eval()
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(0, 0.3, generator=torch.Generator().manual_seed(p.numel()))
        positions = Positions(torch.tensor([row.positions]), torch.tensor([row.documents]))
        before = model(Batch(torch.tensor([row.ids]), positions)).logits[0]
        for j in range(16):
            changed = torch.tensor([row.ids])
            changed[0, j] = (changed[0, j] + 1) % 30
            moved = (model(Batch(changed, positions)).logits[0] - before).abs().amax(-1) > 1e-9
            assert moved.tolist() == [row.mask[i][j] for i in range(16)]


def test_tags_are_shown_at_the_last_pieces_of_their_words(tmp_path):
    (tmp_path / "w.txt").write_text(slash(["abc", "d", "ef"], ["X", "Y", "X"]) * 4)
    data = {"train.path": str(tmp_path / "w.txt"), "validation.fraction": 0.0}
    row = fed(tag_recipe(tmp_path, data=data, processor={"tokenizer": {"kind": "byte"}}), 1, 0)[0]
    n = 11  # <bos> _abc _d _ef <eos>
    assert "".join(row.pieces[:n]) == "<bos> abc d ef<eos>"
    assert row.target_pieces[:n] == ["", "", "", "", "X", "", "Y", "", "", "X", ""]
    assert row.targets[:n] == [IGNORE] * 4 + [0, IGNORE, 1, IGNORE, IGNORE, 0, IGNORE]
    for i, document in enumerate(row.documents):
        sees = [other == document and document >= 0 for other in row.documents]
        assert row.mask[i] == sees, "an encoder sees its whole document and nothing else"
    assert row.positions[:n] == list(range(n))
    assert "3 bear loss" in row.as_text(0, 4, colour=False) or len(row.ids) > n
    assert row.as_json()["bears_loss"][4]


def by_loop(batch, config) -> list[list[int]]:
    """Where the answer for each document is read, and what it is: one element after the other."""
    found = [[IGNORE] * batch.elements.shape[1] for _ in batch.elements]
    positions = batch.where()
    for number, target in enumerate(batch.targets.tolist()):
        slots = [
            (int(positions.position[r, t]), r, t)
            for r, t in (positions.document == number).nonzero().tolist()
        ]
        _, r, t = min(slots) if config.pool == "first" else max(slots)
        found[r][t] = (
            sum(2**c for c, own in enumerate(target) if own) if config.multi_label else target
        )
    return found


@pytest.mark.parametrize("pool", ["first", "last", "mean"])
@pytest.mark.parametrize("classes", [1, 4, 70])
def test_the_target_of_a_document_stands_where_it_is_read(pool, classes):
    """Also if there are as many rows as documents and as many classes as elements: it is not taken
    for a dense one."""
    random = np.random.default_rng(0)
    for multi in (False, True):
        config = tiny.config(
            architecture="encoder", head="classify", n_classes=classes, pool=pool, multi_label=multi
        )
        for sizes, rows in (([4, 4], [[0], [1]]), ([3, 2, 4], [[0, 1], [2]]), ([1], [[0]])):
            shape = (1, classes) if multi else (1,)
            made = [
                Example(
                    np.arange(n, dtype=np.int32), random.integers(0, 2 if multi else classes, shape)
                )
                for n in sizes
            ]
            batch = pack_examples([[made[i] for i in row] for row in rows])
            assert targets_by_slot(config, batch) == by_loop(batch, config)


def test_classes_are_shown_by_name(tmp_path):
    path = json_file(tmp_path, "c.jsonl", [("a b", ["x", "z"]), ("c", []), ("d", ["y"])] * 3)
    data = {"train.path": path, "validation.fraction": 0.0}
    shown = []
    made = class_recipe(tmp_path, model={"multi_label": True}, data=data)
    for step in range(9):
        for row in fed(made, 9, step):
            at = [i for i, target in enumerate(row.targets) if target != IGNORE]
            ends = [
                i for i, d in enumerate(row.documents) if d >= 0 and d not in row.documents[i + 1 :]
            ]
            assert at == ends, "the mean has no element of its own"
            shown += [(row.targets[i], row.target_pieces[i]) for i in at]
    assert set(shown) == {(0b101, "x, z"), (0, ""), (0b010, "y")}
    single = class_recipe(
        tmp_path, model={"pool": "first"}, data={"train.path": class_file(tmp_path)}
    )
    row = fed(single, 1, 0)[0]
    assert row.target_pieces[0] in ("a", "b")
    assert row.target_pieces[1:4] == ["", "", ""]


def test_hidden_tokens_are_shown_with_what_they_were(tmp_path):
    made = masked_recipe(tmp_path, train={"mask_fraction": 0.4})
    rows = fed(made, 4, 3)
    plain = fed(recipe(tmp_path), 4, 3)
    hidden = 0
    for row, text in zip(rows, plain, strict=True):
        restored = [
            i if target == IGNORE else target
            for i, target in zip(row.ids, row.targets, strict=True)
        ]
        assert restored == text.ids
        assert [
            piece
            for piece, target in zip(row.target_pieces, row.targets, strict=True)
            if target != IGNORE
        ] == [
            piece
            for piece, target in zip(text.pieces, row.targets, strict=True)
            if target != IGNORE
        ]
        hidden += row.pieces.count("<mask>")
        assert row.mask == [[True] * 16] * 16
    assert hidden > 10


def test_real_targets_stay_real_and_stand_at_their_elements():
    first = Example(np.arange(4), at=np.array([1, 3]), targets=np.array([[0.5, -1.25], [2.0, 3.0]]))
    second = Example(np.arange(3), at=np.array([2]), targets=np.array([[7.5, 8.0]]))
    batch = pack_examples([[first, second]])
    assert batch.targets.is_floating_point()
    config = tiny.config(architecture="encoder", head="tag", n_classes=2)
    found = [value for row in targets_by_slot(config, batch) for value in row if value != IGNORE]
    assert found == [[0.5, -1.25], [2.0, 3.0], [7.5, 8.0]]
