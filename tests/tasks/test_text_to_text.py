"""Training on pairs: it learns, it resumes to the bit, the best model is kept, and what cannot be
is one sentence."""

import json
import sys
from collections import Counter

import numpy as np
import pytest
from safetensors.numpy import load_file

from every import slow_but
from glassformer.core.errors import ConfigError, DataError
from glassformer.core.locks import LOCK
from glassformer.data.records.pairs import KIND, pairs_of
from glassformer.data.store import Store
from glassformer.run import load
from glassformer.tasks.objectives.answers import Answers
from glassformer.training.folder.history import read_metrics
from small_runs import go, hashes, losses, pair_file, pair_recipe, recipe
from small_senses import prepared
from training.test_resume import stopped_after

LEARNING = {
    "optimizer.learning_rate": 7e-3,
    "schedule.warmup_steps": 20,
    "optimizer.weight_decay": 0.0,
    "schedule.kind": "linear",
    "schedule.final_fraction": 0.0,
}


def test_new_words_are_written_backwards(tmp_path):
    pair_file(tmp_path, 1500, letters="abcd")
    train = {
        "steps": 150,
        "batch_size": 64,
        "evaluate.every": 150,
        "save.every": 150,
        "evaluate.batches": None,
        "evaluate.best": "exact_match",
        "evaluate.decode_lines": None,
        "optimizer.kind": "muon",
    }
    made = pair_recipe(tmp_path, model={"d_model": 32}, train={**LEARNING, **train})
    result, said = go(made, tmp_path / "x")
    assert (result.metric, result.best) == ("exact_match", result.scores["exact_match"])
    assert result.best >= 0.95
    assert f"exact_match {result.best:.2%}" in said
    run = load(tmp_path / "x")
    assert run.translate(["abcd", "", "dca", "b"]) == ["dcba", "", "acd", "b"]


CONFIGS = {
    "dropout in parts, two vocabularies": {
        "model": {"dropout": 0.2, "attention_dropout": 0.1, "max_length": 20},
        "train": {"micro_batches": 3},
        "processor.tokenizer": {"shared": False},
        "data": {"prefix": "turn: "},
    },
    "tokens, best by exact match": {
        "train": {
            "batch_tokens": 40,
            "micro_batches": 2,
            "schedule.kind": "inverse_sqrt",
            "evaluate.best": "exact_match",
            "optimizer.kind": "muon",
        }
    },
    "other pieces, averaged": {
        "augment": {"piece_dropout": 0.3},
        "processor.tokenizer": {"kind": "bpe", "vocab_size": 300},
        "train": {"save.average_checkpoints": 2, "save.keep_last": 2},
    },
    "not validated": {
        "data": {"validation.fraction": 0.0},
        "train": {"save.average_checkpoints": 2, "save.keep_last": 2},
    },
}


@pytest.mark.slow  # quick: training/test_resume.py, targets of sources
@pytest.mark.parametrize("name", CONFIGS)
def test_killed_and_resumed_is_uninterrupted(tmp_path, name):
    changes = CONFIGS[name]
    made = pair_recipe(
        tmp_path, **changes | {"train": {**changes.get("train", {}), "save.every": 3}}
    )
    whole, _ = go(made, tmp_path / "whole")
    for step in (5, 7):
        with stopped_after(step):
            go(made, tmp_path / "cut", resume=step > 5)
    cut, _ = go(made, tmp_path / "cut", resume=True)
    assert hashes(tmp_path / "cut") == hashes(tmp_path / "whole")
    assert losses(tmp_path / "cut") == losses(tmp_path / "whole")
    assert (cut.best, cut.scores) == (whole.best, whole.scores)


@pytest.mark.slow  # quick: training/test_resume.py, of documents
def test_micro_batches_change_nothing_but_rounding(tmp_path):
    for n in (1, 3):
        go(pair_recipe(tmp_path, train={"micro_batches": n}), tmp_path / str(n))
    one, three = (
        [line for line in losses(tmp_path / n) if "train_loss" in line] for n in ("1", "3")
    )
    for values in zip(one, three, strict=True):
        first, second = (line["train_loss"] for line in values)
        assert first == pytest.approx(second, rel=1e-4)  # float32 sums in another order
        assert values[0]["tokens"] == values[1]["tokens"]


def test_a_step_with_fewer_pairs_than_parts_has_fewer_parts(tmp_path):
    made = pair_recipe(tmp_path, train={"batch_tokens": 12, "micro_batches": 9})
    result, _ = go(made, tmp_path / "x")
    assert result.steps == 8


# The best model, and the mean of the last ones


def scored(monkeypatch, *scores):
    """Validation scores come from here, in turn."""
    values = iter(scores)
    monkeypatch.setattr(Answers, "evaluate", lambda *arguments, **options: next(values))


def everything(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def averaging(tmp_path, **train):
    return pair_recipe(
        tmp_path,
        train={"save.average_checkpoints": 3, "save.keep_last": 3, "sample.tokens": 0, **train},
    )


def weights(run, step=None):
    return load_file(
        (run if step is None else run / "checkpoints" / f"step-{step:08d}") / "model.safetensors"
    )


@pytest.mark.parametrize("better", [True, False])
def test_the_mean_of_the_last_checkpoints_is_taken_if_it_is_better(tmp_path, monkeypatch, better):
    run, mean = tmp_path / "x", 0.5 if better else 1.5
    scored(monkeypatch, {"loss": 1.0}, {"loss": 1.25}, {"loss": mean})
    first, said = go(averaging(tmp_path), run)
    expected = {
        name: np.mean(
            [weights(run, step)[name].astype(np.float64) for step in (4, 6, 8)], axis=0
        ).astype(np.float32)
        for name in weights(run, 8)
    }
    best = expected if better else weights(run, 4)
    assert {name: value.tobytes() for name, value in weights(run).items()} == {
        name: value.tobytes() for name, value in best.items()
    }
    assert "mean of the checkpoints at 4, 6, 8: validation loss" in said
    card = (run / "README.md").read_text()
    assert f"| loss | {min(mean, 1.0):.4f} |" in card
    assert ("(mean of the weights of steps 4, 6, 8)" in card) == better
    assert (first.best, first.scores) == (min(mean, 1.0), {"loss": mean if better else 1.25})
    before = everything(run)
    monkeypatch.undo()
    again, said = go(averaging(tmp_path), run, resume=True)
    assert "nothing to do" in said
    assert "mean of" not in said
    assert everything(run) == before
    assert (again.best, again.scores) == (first.best, first.scores)
    assert sum("averaged" in line for line in read_metrics(run)) == 1


def test_a_mean_stays_the_best_until_something_is_better(tmp_path, monkeypatch):
    run = tmp_path / "x"
    scored(monkeypatch, {"loss": 1.0}, {"loss": 1.25}, {"loss": 0.5}, {"loss": 0.75}, {"loss": 0.8})
    go(averaging(tmp_path), run)
    mean = (run / "model.safetensors").read_bytes()
    more = averaging(tmp_path, steps=10, **{"evaluate.every": 10})
    with stopped_after(9):
        go(more, run, resume=True)
    result, _ = go(more, run, resume=True)
    assert (run / "model.safetensors").read_bytes() == mean
    assert result.best == 0.5
    scored(monkeypatch, {"loss": 0.25}, {"loss": 0.3})
    result, _ = go(averaging(tmp_path, steps=12, **{"evaluate.every": 12}), run, resume=True)
    assert result.best == 0.25
    assert (run / "model.safetensors").read_bytes() == (
        run / "checkpoints" / "step-00000012" / "model.safetensors"
    ).read_bytes()


def test_a_run_killed_before_its_mean_was_tried_tries_it(tmp_path, monkeypatch):
    made = averaging(tmp_path)
    go(made, tmp_path / "whole")
    real = Answers.scores
    with pytest.MonkeyPatch.context() as patch:
        calls = []

        def killed(self, *given):
            calls.append(0)
            if len(calls) == 3:
                raise KeyboardInterrupt
            return real(self, *given)

        patch.setattr(Answers, "scores", killed)
        with pytest.raises(KeyboardInterrupt):
            go(made, tmp_path / "cut")
    go(made, tmp_path / "cut", resume=True)
    assert hashes(tmp_path / "cut") == hashes(tmp_path / "whole")
    assert losses(tmp_path / "cut") == losses(tmp_path / "whole")


def test_more_is_averaged_than_kept_is_refused(tmp_path):
    with pytest.raises(
        ConfigError, match="average_checkpoints=3 need keep_last of at least as many"
    ):
        pair_recipe(tmp_path, train={"save.average_checkpoints": 3, "save.keep_last": 2})
    with pytest.raises(
        ConfigError, match="best='bleu' is a score of decoded text; set decode_lines above 0"
    ):
        pair_recipe(tmp_path, train={"evaluate.best": "bleu", "evaluate.decode_lines": 0})


@pytest.mark.parametrize(
    ("metric", "step"),
    slow_but(
        [("loss", 2), ("accuracy", 4), ("exact_match", 6), ("bleu", 8), ("chrf", 4)],
        *(("loss", 2), ("chrf", 4)),
    ),
)
def test_the_best_is_by_the_metric_that_was_asked_for(tmp_path, monkeypatch, metric, step):
    names = ("loss", "accuracy", "exact_match", "bleu", "chrf")
    table = [
        (1.0, 0.1, 0.1, 0.0, 5.0),
        (2.0, 0.4, 0.2, 3.0, 9.0),
        (3.0, 0.3, 0.8, 3.0, 9.0),
        (4.0, 0.2, 0.5, 7.0, 8.0),
    ]
    scored(monkeypatch, *(dict(zip(names, row, strict=True)) for row in table))
    run = tmp_path / "x"
    result, _ = go(
        pair_recipe(
            tmp_path, train={"evaluate.best": metric, "evaluate.every": 2, "sample.tokens": 0}
        ),
        run,
    )
    assert (result.metric, result.best) == (metric, table[step // 2 - 1][names.index(metric)])
    assert weights(run).keys() == weights(run, step).keys()
    assert all(
        np.array_equal(value, weights(run, step)[name]) for name, value in weights(run).items()
    )
    assert json.loads((run / "checkpoints" / "best.json").read_text())["step"] == step


def test_the_scores_of_an_evaluation(tmp_path):
    pytest.importorskip("sacrebleu")
    result, said = go(pair_recipe(tmp_path), tmp_path / "x")
    assert set(result.scores) == {
        *("loss", "perplexity", "accuracy", "tokens", "exact_match"),
        *("bleu", "bleu_signature", "chrf", "chrf_signature"),
    }
    assert "bleu 0.00" in said
    assert "table" not in (tmp_path / "x" / "README.md").read_text()
    quick, _ = go(pair_recipe(tmp_path, train={"evaluate.decode_lines": 0}), tmp_path / "y")
    assert set(quick.scores) == {"loss", "perplexity", "accuracy", "tokens"}


def test_bleu_without_sacrebleu_is_refused_before_any_work(tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "sacrebleu"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(ConfigError, match="BLEU and chrF need sacreBLEU"):
        go(pair_recipe(tmp_path, train={"evaluate.best": "bleu"}), tmp_path / "x")
    assert not (tmp_path / "x").exists()
    result, _ = go(pair_recipe(tmp_path), tmp_path / "x")
    assert "exact_match" in result.scores
    assert "bleu" not in result.scores


# Tokenizers, prefixes and lengths


def test_two_vocabularies(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text(
        "".join(f"{'abc'[i % 3] * (i % 4 + 1)}\t{'xyzuvw'[i % 6] * 2}\n" for i in range(40))
    )
    run = tmp_path / "x"
    go(pair_recipe(tmp_path, processor={"tokenizer": {"shared": False}}), run)
    opened = load(run)
    assert {p.name for p in run.iterdir()} >= {"tokenizer.json", "source_tokenizer.json"}
    assert (
        opened.task.processor.pair.source.encode("abc").min()
        != opened.task.processor.pair.target.encode("abc").min()
    )
    assert (
        opened.task.processor.pair.source.decode(opened.task.processor.pair.source_ids("cab"))
        == "cab"
    )
    assert (
        opened.task.processor.pair.target.decode(opened.task.processor.pair.target_ids("wxy"))
        == "wxy"
    )
    config = opened.model.config
    sizes = (
        opened.task.processor.pair.source.vocab_size,
        opened.task.processor.pair.target.vocab_size,
    )
    assert (config.source_vocab_size, config.vocab_size) == sizes == (8, 11)
    read = "source character, 8 tokens; target character, 11 tokens"
    assert read in (run / "README.md").read_text()
    shared = tmp_path / "y"
    go(pair_recipe(tmp_path), shared)
    assert not (shared / "source_tokenizer.json").exists()
    assert load(shared).model.config.source_vocab_size is None
    assert load(shared).task.processor.pair.shared


def test_tokenizers_that_are_there_already(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{'abc'[i % 3] * 2}\t{'xyzuvw'[i % 6] * 2}\n" for i in range(40)))
    go(pair_recipe(tmp_path, processor={"tokenizer": {"shared": False}}), tmp_path / "x")
    own = {
        "path": str(tmp_path / "x"),
        "source_path": str(tmp_path / "x" / "source_tokenizer.json"),
        "shared": False,
    }
    go(pair_recipe(tmp_path, processor={"tokenizer": own}), tmp_path / "y")
    for name in ("tokenizer.json", "source_tokenizer.json"):
        assert (tmp_path / "x" / name).read_bytes() == (tmp_path / "y" / name).read_bytes()
    with pytest.raises(ConfigError, match=r"set shared=false to use it"):
        go(pair_recipe(tmp_path, processor={"tokenizer": own | {"shared": True}}), tmp_path / "z")


@pytest.mark.parametrize("builder", [recipe, pair_recipe])
def test_a_store_that_runs_share_is_that_of_the_last(builder, tmp_path):
    data, run = {"store": str(tmp_path / "shared")}, tmp_path / "x"
    first = prepared(builder(tmp_path, data=data), run)
    own = first.recipe
    loaded = type(first.processor).load(run, own.data, own.model, own.facts)
    assert loaded.example_inputs(run)
    assert first.objective.load_stored() is not None
    other = builder(tmp_path, data=data, **{"processor.tokenizer": {"kind": "byte"}})
    assert prepared(other, tmp_path / "y").objective.load_stored() is not None
    assert first.objective.load_stored() is None


def test_a_second_tokenizer_of_a_run_that_never_began_is_not_left_behind(tmp_path):
    run = tmp_path / "x"
    (tmp_path / "pairs.tsv").write_text("abc\txyz\n" * 20)
    with pytest.raises(DataError, match="every training pair"):
        go(
            pair_recipe(
                tmp_path, processor={"tokenizer": {"shared": False}}, model={"max_length": 1}
            ),
            run,
        )
    prepared(pair_recipe(tmp_path, processor={"tokenizer": {"shared": False}}), run)
    assert (run / "source_tokenizer.json").exists()
    (run / LOCK).touch()
    go(pair_recipe(tmp_path), run)
    assert load(run).task.processor.pair.shared
    assert not (run / "source_tokenizer.json").exists()


def test_a_prefix_stands_before_every_source_and_nowhere_else(tmp_path):
    run = tmp_path / "x"
    go(pair_recipe(tmp_path, data={"prefix": "turn: "}, model={"max_length": 20}), run)
    opened, split = load(run), pairs_of(Store.open(run / "tokens", KIND), "validation")
    for i, text in enumerate(split.texts()):
        assert (
            opened.task.processor.pair.source.decode(split.source.row(i)) == f"turn: {text.source}"
        )
        assert opened.task.processor.pair.target.decode(split.target.row(i)) == text.target
    assert opened.task.processor.pair.source_ids("ab").tolist() == [
        *opened.tokenizer.encode("turn: ab"),
        opened.task.processor.pair.eos,
    ]


@pytest.mark.parametrize("validated", slow_but([True, False], False))
def test_samples_show_source_reference_and_output(tmp_path, validated):
    data = {"prefix": "turn: ", "validation.fraction": 0.2 if validated else 0.0}
    run = tmp_path / "x"
    _, said = go(
        pair_recipe(tmp_path, data=data, model={"max_length": 20}, train={"sample.tokens": 5}), run
    )
    (line,) = [line for line in read_metrics(run) if "samples" in line]
    assert len(line["samples"]) == 3
    for row in line["samples"]:
        assert row["reference"] == row["source"][::-1]
        assert f"{row['source']}\n      -> {row['output']}".rstrip() in said


def test_pairs_that_are_too_long_are_left_out_and_said(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{'a' * (i % 20 + 1)}\tb\n" for i in range(200)))
    counts = Counter()
    with path.open() as file:
        for line in file:
            counts[len(line.split("\t")[0]) + 1 > 12] += 1
    result, said = go(
        pair_recipe(tmp_path, train={"steps": 2, "evaluate.batches": None}), tmp_path / "x"
    )
    store = Store.open(tmp_path / "x" / "tokens", KIND)
    train, validation = (pairs_of(store, name).source.lengths for name in ("train", "validation"))
    assert (train > 12).sum() + (validation > 12).sum() == counts[True]
    for name, lengths in (("training", train), ("validation", validation)):
        n = (lengths > 12).sum()
        assert (
            f"left out: {n} {name} pairs with a side of more than 12 tokens; raise model.max_length"
            in said
        )
    assert result.scores["tokens"] == 2 * (validation <= 12).sum()
    _, said = go(pair_recipe(tmp_path, train={"steps": 1, "length": 5}), tmp_path / "y")
    assert (
        f"left out: {(train > 5).sum()} training pairs with a side of more than 5 tokens; "
        f"raise train.length" in said
    )
    assert (
        f"left out: {(validation > 12).sum()} validation pairs with a side of more than 12 tokens"
        in said
    )


def test_validation_pairs_of_which_none_fits_are_refused_before_the_first_step(tmp_path):
    (tmp_path / "long.tsv").write_text(f"{'a' * 30}\tb\n")
    made = pair_recipe(tmp_path, data={"validation.path": str(tmp_path / "long.tsv")})
    with pytest.raises(DataError, match="every validation pair has a side of more than 12 tokens"):
        go(made, tmp_path / "x")
    assert not list((tmp_path / "x").glob("checkpoints/*"))


def test_batch_tokens_limits_both_sides(tmp_path):
    made = pair_recipe(tmp_path, train={"batch_tokens": 30})
    task = prepared(made, tmp_path / "x")
    for step in range(12):
        (batch,) = task.feed.batches(step)
        rows, longest = batch.elements.shape
        assert rows * max(longest, batch.source.elements.shape[1]) <= 30


@pytest.mark.parametrize(
    ("tokens", "parts", "rows"), [(64, 1, 4), (70, 2, 4), (16, 1, 1), (5, 1, 1), (100, 3, 6)]
)
def test_batch_tokens_of_a_language_model_are_whole_sequences(tmp_path, tokens, parts, rows):
    made = recipe(tmp_path, train={"batch_tokens": tokens, "micro_batches": parts, "steps": 2})
    go(made, tmp_path / "x")
    assert [line["tokens"] for line in losses(tmp_path / "x") if "tokens" in line] == [
        rows * 16,
        2 * rows * 16,
    ]


# What does not go together


def test_a_language_model_of_pairs(tmp_path):
    with pytest.raises(
        ConfigError,
        match=r"data.train.targets has no use for input='documents', only for pairs; leave it out",
    ):
        go(recipe(tmp_path, data={"train.targets": "t.txt"}), tmp_path / "x")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("metric", ["exact_match", "bleu", "chrf"])
def test_a_language_model_has_no_scores_of_decoded_text(tmp_path, metric):
    with pytest.raises(
        ConfigError, match=f"train.evaluate.best='{metric}' is no score .* use loss or accuracy"
    ):
        go(recipe(tmp_path, train={"evaluate.best": metric}), tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_an_encoder_decoder_of_running_text(tmp_path):
    recipe(tmp_path)
    with pytest.raises(
        DataError, match=r"text.txt is a text file with one side only; set `targets`"
    ):
        go(pair_recipe(tmp_path, data={"train.path": str(tmp_path / "text.txt")}), tmp_path / "x")
    (tmp_path / "l.jsonl").write_text('{"text": "running"}\n')
    with pytest.raises(DataError, match="has no field 'source'"):
        go(pair_recipe(tmp_path, data={"train.path": str(tmp_path / "l.jsonl")}), tmp_path / "x")
    with pytest.raises(
        ConfigError,
        match=r"data\.documents has no use for input='pairs'",
    ):
        go(pair_recipe(tmp_path, data={"documents": "separate"}), tmp_path / "x")
    assert not (tmp_path / "x").exists()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a run, which a test may not change."""
    folder = tmp_path_factory.mktemp("trained")
    go(pair_recipe(folder), folder / "x")
    return folder


@pytest.mark.parametrize(
    ("section", "field", "value"),
    [
        ("data", "prefix", "x"),
        ("data", "source_field", "src"),
        ("data", "group_field", "lang"),
        ("processor.tokenizer", "shared", False),
        ("model", "d_model", 32),
    ],
)
def test_another_task_is_not_resumed(trained, section, field, value):
    run = trained / "x"
    before = everything(run)
    with pytest.raises(ConfigError, match=rf"{section}\.{field}="):
        go(pair_recipe(trained, **{f"{section}.{field}": value}), run, resume=True)
    assert everything(run) == before


def test_other_pairs_in_the_same_file_are_refused(tmp_path):
    go(pair_recipe(tmp_path), tmp_path / "x")
    pair_file(tmp_path, seed=5)
    with pytest.raises(ConfigError, match=r"data\.train\.path is not what"):
        go(pair_recipe(tmp_path, train={"steps": 9}), tmp_path / "x", resume=True)


def test_sampling_may_be_asked_for_by_any_of_its_options(tmp_path):
    assert pair_recipe(tmp_path).generate.beams == 5
    for option in (
        {"temperature": 0.5},
        {"top_k": 3},
        {"top_p": 0.5},
        {"min_p": 0.1},
    ):
        assert pair_recipe(tmp_path, generate=option).generate.beams == 0
    assert pair_recipe(tmp_path, generate={"repetition_penalty": 1.5}).generate.beams == 5
    assert pair_recipe(tmp_path, generate={"beams": 2, "n_best": 2}).generate.beams == 2
    assert recipe(tmp_path).generate.beams == 0
