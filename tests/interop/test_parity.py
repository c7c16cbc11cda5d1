"""Published models open here with the numbers of the published implementation."""

import json
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

import published_families as families
import tiny
from every import slow_but
from glassformer.core.batch import Batch, Positions
from glassformer.inspect.look import run
from glassformer.interop.configuration import published_keys, read_published
from glassformer.interop.targets.transformers import fitting, save_model
from glassformer.interop.weights import fill, tensors_of
from glassformer.media.patches import patchify
from glassformer.models import Transformer
from glassformer.models.trunk import streams
from published_families import CASES

pytestmark = pytest.mark.usefixtures("no_grad")
EXACT = {"rtol": 1e-9, "atol": 1e-9}
FLOAT32 = {"rtol": 0.0, "atol": 1e-4}
FIRST = {case.config: name for name, case in reversed(CASES.items())}.values()
"""A case of each family; the others differ by flags, which float64 shows better."""
PADDED = Positions.pad([7, 4])
VALID = PADDED.valid


POOLED = "BertModel", "RobertaModel"


def keys_of(folder: Path) -> dict:
    keys = published_keys(folder)
    assert keys is not None
    return keys


def opened(folder: Path, dtype: torch.dtype = torch.float32) -> Transformer:
    of = read_published(folder, keys_of(folder))
    return fill(of, tensors_of(folder, of.family.prefix), dtype=dtype)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Folders of published models, each written once."""
    made: dict[str, Path] = {}

    def of(name: str) -> Path:
        if name not in made:
            made[name] = tmp_path_factory.mktemp(name)
            families.save(name, made[name])
        return made[name]

    return of


def both(case, model, oracle, dtype):
    """Our logits (or vectors) and stream, and theirs, at the real elements."""
    # 0 is Llama's padding here, which its classifier looks for
    ids = tiny.tokens(2, 7).clamp(min=1).masked_fill(~VALID, 0)
    reads = case.reads
    kinds = tiny.tokens(2, 7, seed=2) % 3 if reads == "pairs" else None
    if reads == "pixels":
        size = case.values["image_size"]
        height, width = size if isinstance(size, list) else (size, size)
        pixels = torch.randn(2, 3, height, width, dtype=dtype)
        batch = Batch(patchify(pixels.permute(0, 2, 3, 1), model.config.patch))
        theirs = oracle(pixels, output_hidden_states=True)
    elif reads == "sources":
        source = Batch(tiny.tokens(2, 7, seed=1), PADDED)
        batch = Batch(ids, source=source)
        theirs = oracle(
            input_ids=source.elements,
            attention_mask=VALID.long(),
            decoder_input_ids=ids,
            output_hidden_states=True,
        )
    else:
        batch = Batch(ids, PADDED, token_type_ids=kinds)
        given = {"input_ids": ids, "attention_mask": VALID.long()}
        # RoBERTa takes padding from the ids, and numbers positions from it
        if "oberta" in case.model or "Camembert" in case.model:
            given["position_ids"] = PADDED.position + 2
        given |= {} if kinds is None else {"token_type_ids": kinds}
        theirs = oracle(**given, output_hidden_states=True)
    return batch, theirs


def compared(case, model, oracle, dtype, close):
    batch, theirs = both(case, model, oracle, dtype)
    ours = model(batch)
    hidden = model.features(batch).hidden
    last = theirs.get("last_hidden_state")
    if case.reads == "sources":
        states = theirs.encoder_hidden_states, theirs.encoder_last_hidden_state
        valid, of, last = VALID, Batch(batch.source.elements, PADDED), states[1]
        states = states[0]
        assert_close(ours.logits, theirs.logits, **close)
    else:
        valid = (
            VALID if batch.positions is PADDED else torch.ones(hidden.shape[:2], dtype=torch.bool)
        )
        of, states = batch, theirs.hidden_states
        if "logits" in theirs:
            got, wanted = ours.logits, theirs.logits
            one = got.dim() == 2
            assert_close(*((got, wanted) if one else (got[valid], wanted[valid])), **close)
        elif theirs.get("pooler_output") is not None:
            assert_close(ours.logits, theirs.pooler_output, **close)
    if last is not None and case.reads != "sources":
        assert_close(hidden[valid], last[valid], **close)
    if case.reads == "pixels":
        points = [f"encoder.blocks.{layer}.resid_post" for layer in (0, 1)]
        _, tape = run(model, batch, points)
        for point, state in zip(points, states[1:], strict=True):
            assert_close(tape.kept[point], state, **close)
    else:
        # their last one is behind the final norm, if the model has one
        got, _ = streams(model, of, [1, None])
        assert_close(got[0][valid], states[1][valid], **close)
        assert_close(got[1][valid], (states[-1] if last is None else last)[valid], **close)


@pytest.mark.parametrize("name", CASES)
def test_numbers_in_float64(name, folder):
    model = opened(folder(name), torch.float64)
    with families.exact(families.oracle(name, folder(name))) as oracle:
        compared(CASES[name], model, oracle, torch.float64, EXACT)


@pytest.mark.parametrize("name", slow_but(CASES, *FIRST))
def test_an_exported_folder_is_loaded_by_the_published_class(name, folder, tmp_path):
    """The same numbers there, and the same bits here."""
    model, task = opened(folder(name)), read_published(Path(), keys_of(folder(name))).head.task
    fit = fitting(model.config, task)
    save_model(fit, model, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"pad_token_id": 0}))  # a tokenizer's
    case = families.Case(fit.name, "", CASES[name].values, CASES[name].reads)
    options = {"add_pooling_layer": model.config.pooler} if fit.name in POOLED else {}
    made = getattr(families.transformers, fit.name).from_pretrained(tmp_path, **options).eval()
    compared(case, model, made, torch.float32, FLOAT32)
    again = dict(opened(tmp_path).named_parameters())
    for parameter, values in model.named_parameters():
        assert torch.equal(again.pop(parameter), values), parameter
    assert not any(values.any() for values in again.values())  # biases of the class alone


@pytest.mark.parametrize("name", slow_but(CASES, "gpt2", "bart", "vit"))
def test_numbers_in_float32(name, folder):
    compared(
        CASES[name],
        opened(folder(name)),
        families.oracle(name, folder(name)),
        torch.float32,
        FLOAT32,
    )
