"""Training on other pieces at every step: the same texts, answers at the same words, and no other
task takes it."""

import random

import numpy as np
import pytest

from glassformer.core.batch import IGNORE
from glassformer.core.errors import ConfigError
from glassformer.training.loop.prepare import prepare
from small_runs import pair_recipe, recipe
from small_senses import prepared
from small_tasks import class_recipe, json_file, masked_recipe, slash, tag_recipe

BPE = {"kind": "bpe", "vocab_size": 300}
CUT = {"piece_dropout": 0.4}
STEMS = ("walk", "talk", "jump", "sleep", "dream")


def sentences(n: int = 50) -> list[list[str]]:
    """Words of several pieces."""
    draw = random.Random(0)
    return [
        [
            draw.choice(STEMS) + draw.choice(("", "s", "ed", "ing"))
            for _ in range(draw.randint(1, 6))
        ]
        for _ in range(n)
    ]


def documents(batch) -> list[np.ndarray]:
    """The slots of each document, flat."""
    document = batch.where().document.flatten().numpy()
    return [np.flatnonzero(document == i) for i in range(document.max() + 1)]


def test_a_tag_is_asked_for_where_its_word_ends(tmp_path):
    path = tmp_path / "tags.txt"
    path.write_text("".join(slash(words, [f"T-{word}" for word in words]) for words in sentences()))
    data = {"train.path": str(path), "validation.fraction": 0.0}
    made = tag_recipe(
        tmp_path,
        model={"max_length": 64},
        data=data,
        processor={"tokenizer": BPE},
        augment=CUT,
        train={"batch_size": 8},
    )
    task = prepared(made, tmp_path / "task")
    seen, cuts, epoch = [], set(), task.feed.order.batches
    for step in range(3 * epoch):
        (batch,) = task.feed.batches(step)
        flat, at = batch.elements.flatten().numpy(), batch.at.numpy()
        targets = iter(batch.targets.tolist())
        for slots in documents(batch):
            ends = at[np.isin(at, slots)]
            words, begin = [], slots[0] + 1  # behind <bos>
            for end in ends:
                word = task.processor.tokenizer.decode(flat[begin : end + 1])
                assert f"T-{word[1:]}" == task.objective.classes.names[next(targets)]
                words.append(word[1:])
                cuts.add((word, tuple(flat[begin : end + 1])))
                begin = end + 1
            assert begin == slots[-1]  # <eos>
            seen.append(words)
        assert next(targets, None) is None
    assert sorted(seen) == sorted(sentences() * 3)
    assert len(cuts) > 3 * len({word for word, _ in cuts})


def test_a_pair_keeps_its_segments(tmp_path):
    pairs = [(" ".join(words), " ".join(reversed(words))) for words in sentences()]
    rows = "".join(
        f'{{"text": "{a}", "other": "{b}", "label": "{len(a) % 2}"}}\n' for a, b in pairs
    )
    (tmp_path / "pairs.jsonl").write_text(rows)
    data = {
        "train.path": str(tmp_path / "pairs.jsonl"),
        "pair_field": "other",
        "validation.fraction": 0.0,
    }
    model = {"n_token_types": 2, "max_length": 128}
    task = prepared(
        class_recipe(
            tmp_path,
            model=model,
            data=data,
            processor={"tokenizer": BPE},
            augment=CUT,
            train={"batch_size": 8},
        ),
        tmp_path / "task",
    )
    seen, lengths = [], set()
    for step in range(task.feed.order.batches):
        (batch,) = task.feed.batches(step)
        flat, kinds = batch.elements.flatten().numpy(), batch.token_type_ids.flatten().numpy()
        for slots, target in zip(documents(batch), batch.targets.tolist(), strict=True):
            a, b = (
                task.processor.tokenizer.decode(flat[slots[kinds[slots] == kind]])
                for kind in (0, 1)
            )
            assert task.objective.classes.names[target] == str(len(a) % 2)
            seen.append((a, b))
            lengths.add((a, len(slots)))
    assert sorted(seen) == sorted(pairs)
    whole = {
        task.processor.tokenizer.encode(a).size + task.processor.tokenizer.encode(b).size + 3
        for a, b in pairs
    }
    assert max(n for _, n in lengths) > max(whole)


def test_both_sides_of_a_translation(tmp_path):
    (tmp_path / "pairs.tsv").write_text(
        "".join(f"{' '.join(w)}\t{' '.join(w[::-1])}\n" for w in sentences())
    )
    made = pair_recipe(
        tmp_path,
        model={"max_length": 64},
        processor={"tokenizer": BPE},
        augment=CUT,
        train={"batch_size": 8} | {"micro_batches": 2},
    )
    task = prepared(made, tmp_path / "task")
    cuts: dict[str, set[tuple[int, ...]]] = {}
    for step in range(3 * task.feed.order.batches):
        for batch in task.feed.batches(step):
            for source, target in zip(
                batch.source.elements.numpy(), batch.targets.numpy(), strict=True
            ):
                kept = target[target != IGNORE]
                text, other = (
                    task.processor.pair.source.decode(source).rstrip("\0"),
                    task.processor.pair.target.decode(kept),
                )
                assert text.split() == other.split()[::-1]
                assert kept[-1] == task.processor.pair.target.specials["eos"]
                cuts.setdefault(other, set()).add(tuple(kept))
    assert sum(len(found) == 3 for found in cuts.values()) > len(cuts) / 2


def test_what_would_be_too_long_stays_as_it_is(tmp_path):
    path = json_file(
        tmp_path,
        "x.jsonl",
        ((" ".join(words), "a" if len(words) > 3 else "b") for words in sentences()),
    )
    data = {"train.path": path, "validation.fraction": 0.0}
    task = prepared(
        class_recipe(
            tmp_path,
            model={"max_length": 16},
            data=data,
            processor={"tokenizer": BPE},
            augment=CUT,
            train={"batch_size": 8},
        ),
        tmp_path / "task",
    )
    for step in range(20):
        assert max(len(slots) for slots in documents(task.feed.batches(step)[0])) <= 16


@pytest.mark.parametrize(
    ("make", "field", "value"),
    [
        (recipe, "augment.piece_dropout", 0.1),
        (masked_recipe, "augment.piece_dropout", 0.1),
        (recipe, "train.class_weights", "balanced"),
        (tag_recipe, "train.mask_fraction", 0.3),
        (recipe, "train.whole_words", True),
        (recipe, "data.tag_field", "2"),
        (tag_recipe, "data.prefix", "tag: "),
    ],
)
def test_a_choice_that_would_do_nothing_is_refused(tmp_path, make, field, value):
    with pytest.raises(ConfigError, match=rf"^{field} has no use for (task|input)=.* leave it out"):
        make(tmp_path, **{field: value})


@pytest.mark.parametrize("make", [tag_recipe, class_recipe])
def test_a_tokenizer_without_merges_is_refused_before_anything_is_written(tmp_path, make):
    with pytest.raises(ConfigError, match="the tokenizer is of kind word; use kind bpe"):
        prepare(
            make(tmp_path, augment=CUT, train={"batch_size": 8}),
            tmp_path / "x",
            False,
            1,
            lambda text: None,
        )
    assert not (tmp_path / "x").exists()
