"""What `plan` and `data show` say is what training does."""

import json

import torch

from glassformer.batch import IGNORE, Batch, Places
from glassformer.data.batches import training_batch
from glassformer.models import Transformer
from glassformer.train.plan import make_plan
from glassformer.train.runfolder import prepare
from glassformer.train.show import rows_as_fed
from small_runs import recipe


def test_a_plan_counts_what_the_model_has(tmp_path):
    made = recipe(tmp_path, train={"micro_batches": 2})
    plan = make_plan(made)
    vocabulary = prepare(made, tmp_path / "x", False, lambda text: None).recipe
    assert plan.parameters == sum(m.numbers for m in plan.matrices) == Transformer(vocabulary.model).n_parameters
    assert plan.tokens_per_step == 4 * 16
    assert plan.seconds > 0
    assert plan.seconds == plan.seconds_per_step * 8
    assert plan.memory["weights"] == 4 * plan.parameters
    assert plan.epochs is not None
    values = json.loads(json.dumps(plan.as_json(), allow_nan=False))
    assert sum(row["numbers"] for row in values["matrices"]) == values["parameters"]
    text = plan.as_text()
    assert f"{plan.parameters:,}" in text
    assert "decoder.blocks.*.attention.q_proj.weight (2)" in text
    assert not (tmp_path / "x").exists()


def test_a_plan_needs_no_text(tmp_path):
    plan = make_plan(recipe(tmp_path, data={"path": None}, model={"vocab_size": 50}))
    assert plan.epochs is None
    assert plan.parameters > 50 * 16


def test_disk_is_what_checkpoints_take(tmp_path):
    from small_runs import go

    made = recipe(tmp_path)
    go(made, tmp_path / "x")
    files = list((tmp_path / "x" / "checkpoints").rglob("*.safetensors"))
    used = sum(path.stat().st_size for path in [*files, tmp_path / "x" / "model.safetensors"])
    assert 0.5 < make_plan(made).disk / used < 2


def test_rows_are_shifted_by_one_and_are_those_of_training(tmp_path):
    made = recipe(tmp_path)
    rows = list(rows_as_fed(made, 3, step=5))
    material = prepare(made, tmp_path / "x", False, lambda text: None)
    (tmp_path / "x").mkdir()
    material.store()
    batch = training_batch(material.split("train"), 5, 4, 16, 0)
    assert len(rows) == 3
    for number, row in enumerate(rows):
        assert row.ids == batch.elements[number].tolist()
        assert row.targets == batch.targets[number].tolist()
        assert row.targets[:-1] == row.ids[1:]
        assert row.positions == list(range(16))
        assert "".join(row.pieces) == material.tokenizer.decode(row.ids)
        assert row.mask == [[key <= query for key in range(16)] for query in range(16)]
        values = json.loads(json.dumps(row.as_json()))
        assert values["bears_loss"] == [True] * 16
        assert "16 elements, 16 bear loss" in row.as_text(number, 4, colour=False)
    assert len(list(rows_as_fed(made, 99, 0))) == 4


def test_the_mask_is_the_models_own_with_documents_and_a_window(tmp_path):
    """Element j is seen by i exactly if changing j changes the model's output at i."""
    lines = "".join(json.dumps({"text": word * 2}) + "\n" for word in ["abc", "de", "fgh", "ij", "kl"] * 20)
    (tmp_path / "d.jsonl").write_text(lines)
    made = recipe(
        tmp_path,
        model={"window": 3, "n_layers": 1},
        data={"path": str(tmp_path / "d.jsonl"), "documents": "separate", "validation_fraction": 0.0},
    )
    row = next(iter(rows_as_fed(made, 1, 0)))
    assert len(set(row.documents)) > 2
    for i in range(15):
        bears = row.documents[i] == row.documents[i + 1]
        assert row.targets[i] == (row.ids[i + 1] if bears else IGNORE)
        assert row.positions[i + 1] == (row.positions[i] + 1 if bears else 0)
    model = Transformer(made.with_vocabulary(30).model, seed=1).double().eval()
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(0, 0.3, generator=torch.Generator().manual_seed(p.numel()))
        places = Places(torch.tensor([row.positions]), torch.tensor([row.documents]))
        before = model(Batch(torch.tensor([row.ids]), places)).logits[0]
        for j in range(16):
            changed = torch.tensor([row.ids])
            changed[0, j] = (changed[0, j] + 1) % 30
            moved = (model(Batch(changed, places)).logits[0] - before).abs().amax(-1) > 1e-9
            assert moved.tolist() == [row.mask[i][j] for i in range(16)]
