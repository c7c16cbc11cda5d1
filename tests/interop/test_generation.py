"""Generation of published models: the same tokens as transformers' own `generate`, setting by
setting."""

import json
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import glassformer as gf
import published_families as families
from glassformer.core.errors import CheckpointError, GlassformerError
from glassformer.interop.configuration import published_keys, read_published
from glassformer.interop.weights import fill, tensors_of
from glassformer.run.export import export_run
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.decode import beam_search, decode
from glassformer.runtime.selectors.constraints import CONSTRAINTS, Rows, constrained

ENDS = {"gpt2": [57], "llama": [16], "t5": [59], "bart": [61], "marian": [31]}
"""Symbols with which the text of each model ends by itself, before its 64th token."""
LENGTH, VOCABULARY = 64, 64
INPUT = [3, 4, 5, 6, 2]
BASE: dict[str, Any] = {"no_repeat_ngram_size": 2}
"""Without it, models this small repeat one token."""
SETTINGS: dict[str, dict[str, Any]] = {
    "eos_token_id": {"eos_token_id": [43, 26, 24, 16, 34]},
    "repetition_penalty": {"repetition_penalty": 1.8},
    "no_repeat_ngram_size": {"no_repeat_ngram_size": 3},
    "bad_words_ids": {"bad_words_ids": [[4], [6], [37], [26, 27], [43, 51], [26, 26, 29]]},
    "min_length": {"min_length": LENGTH},
    "min_new_tokens": {"min_new_tokens": LENGTH - 1},
    "forced_bos_token_id": {"forced_bos_token_id": 7},
    "forced_eos_token_id": {"min_new_tokens": LENGTH, "forced_eos_token_id": [60]},
    "suppress_tokens": {"suppress_tokens": [50, 24, 44, 58, 6]},
    "begin_suppress_tokens": {"begin_suppress_tokens": [*range(62)]},
    "renormalize_logits": {"suppress_tokens": [50, 37, 6, 26, 43], "renormalize_logits": True},
}
WITHOUT_EFFECT = {"forced_bos_token_id": ("gpt2", "llama")}
"""It is the second token of all: a decoder's prompt is longer."""
TOGETHER: dict[str, Any] = {
    "repetition_penalty": 1.2, "bad_words_ids": [[9], [26, 26]], "min_new_tokens": 30,
    "forced_bos_token_id": 7, "forced_eos_token_id": [60], "suppress_tokens": [5],
    "begin_suppress_tokens": [7, 4, 55], "renormalize_logits": True,
}  # fmt: skip
GREEDY: dict[str, Any] = {"num_beams": 1}
BEAMS: list[dict[str, Any]] = [
    {"num_beams": 3, "early_stopping": True, "length_penalty": 2.0},
    {"num_beams": 3, "early_stopping": False, "length_penalty": 1.0},
    {"num_beams": 4, "early_stopping": "never", "length_penalty": 0.5},
]
QUICK = [*zip(ENDS, [GREEDY, BEAMS[1], GREEDY, BEAMS[0], BEAMS[2]], strict=True)]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Both implementations of a family, with room for 96 tokens; each made once."""
    made: dict[str, tuple[Any, Any]] = {}

    def of(name: str) -> tuple[Any, Any]:
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            case = families.CASES[name]
            size = "n_positions" if name == "gpt2" else "max_position_embeddings"
            config = getattr(families.transformers, case.config)(
                **case.values | {size: 96, "vocab_size": VOCABULARY}
            )
            made_up = families.tiny.stir(getattr(families.transformers, case.model)(config))
            made_up.save_pretrained(folder)
            theirs = families.oracle(name, folder)
            of = read_published(folder, published_keys(folder) or {})
            ours = fill(of, tensors_of(folder, of.family.prefix))
            made[name] = theirs, ours
        return made[name]

    return of


def of_theirs(name: str, model: Any, values: dict[str, Any], way: dict[str, Any]) -> list[int]:
    """New tokens by transformers."""
    ids = torch.tensor([INPUT])
    options = {"do_sample": False, "pad_token_id": 11, "max_new_tokens": LENGTH, "min_length": 0}
    options |= {"attention_mask": torch.ones_like(ids), "eos_token_id": ENDS[name]}
    before = len(INPUT)
    if model.config.is_encoder_decoder:
        options["decoder_start_token_id"] = families.CASES[name].values["decoder_start_token_id"]
        before = 1
    with torch.no_grad():
        return model.generate(ids, **options | values | way)[0, before:].tolist()


def how(name: str, own: dict[str, Any], way: dict[str, Any]) -> GenerateConfig:
    chosen = {key: value for key, value in way.items() if key != "num_beams"}
    chosen |= {"beams": way["num_beams"]} if way["num_beams"] > 1 else {"temperature": 0}
    values = {"eos_token_id": ENDS[name], "max_new_tokens": LENGTH, **own}
    return GenerateConfig.parse(values | chosen)


def of_ours(name: str, model: Any, config: GenerateConfig, inputs: list[list[int]]):
    """New tokens for each input by the package."""
    prompts, sources = inputs, None
    if model.config.architecture == "encoder_decoder":
        prompts = [[families.CASES[name].values["decoder_start_token_id"]]] * len(inputs)
        sources = inputs
    ends = config.ends(None)
    if config.beams:
        return [ones[0].ids for ones in beam_search(model, prompts, config, ends, sources)]
    found = [[] for _ in inputs]
    for step in decode(model, prompts, config, ends, sources):
        for row, token in zip(step.rows, step.ids, strict=True):
            found[row].append(token)
    return found


def compared(models, name: str, way: dict[str, Any], changes: dict[str, dict[str, Any]]) -> None:
    """Each setting gives the tokens of transformers, and others than no setting."""
    theirs, ours = models(name)
    same = lambda values: of_ours(name, ours, how(name, values, way), [INPUT])[0]
    plain = of_theirs(name, theirs, BASE, way)
    assert same(BASE) == plain
    assert plain[-1] in ENDS[name]
    for setting, values in changes.items():
        found = of_theirs(name, theirs, BASE | values, way)
        assert same(BASE | values) == found, setting
        assert (found == plain) == (name in WITHOUT_EFFECT.get(setting, ())), setting


@pytest.mark.parametrize(("name", "way"), QUICK)
def test_all_settings_together_give_the_tokens_of_transformers(models, name, way):
    compared(models, name, way, {"together": TOGETHER})


@pytest.mark.slow
@pytest.mark.parametrize("way", [GREEDY, *BEAMS])
@pytest.mark.parametrize("name", ENDS)
def test_each_setting_gives_the_tokens_of_transformers(models, name, way):
    compared(models, name, way, SETTINGS | {"together": TOGETHER})


@given(st.integers(0, 10_000), st.integers(0, 8), st.integers(0, 6))
@settings(max_examples=25)
def test_each_constraint_is_the_processor_of_transformers(seed, new, size):
    """On any logits behind any tokens, of few kinds so that much repeats; the last token of all."""
    from transformers.generation import logits_process as processors

    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(3, 7, generator=generator)
    seen = torch.randint(0, 4, (3, 1 + size + new), generator=generator)
    ends, begin = torch.tensor([2, 5]), 1 + size
    whole = begin + new + 1
    for values, expected in [
        ({"repetition_penalty": 1.4}, processors.RepetitionPenaltyLogitsProcessor(1.4)),
        ({"no_repeat_ngram_size": 2}, processors.NoRepeatNGramLogitsProcessor(2)),
        ({"no_repeat_ngram_size": 4}, processors.NoRepeatNGramLogitsProcessor(4)),
        (
            {"bad_words_ids": ((5,), (2, 5), (3,), (0, 1), (0, 3, 1))},
            processors.NoBadWordsLogitsProcessor([[5], [2, 5], [3], [0, 1], [0, 3, 1]], ends),
        ),
        ({"min_length": 8}, processors.MinLengthLogitsProcessor(8, ends)),
        ({"min_new_tokens": 4}, processors.MinNewTokensLengthLogitsProcessor(begin, 4, ends)),
        ({"forced_bos_token_id": 6}, processors.ForcedBOSTokenLogitsProcessor(6)),
        ({"forced_eos_token_id": (5,)}, processors.ForcedEOSTokenLogitsProcessor(whole, [5])),
        ({"suppress_tokens": (1, 6)}, processors.SuppressTokensLogitsProcessor([1, 6])),
        (
            {"begin_suppress_tokens": (1, 6)},
            processors.SuppressTokensAtBeginLogitsProcessor([1, 6], begin),
        ),
        ({"renormalize_logits": True}, processors.LogitNormalization()),
    ]:
        rows = Rows(seen.tolist(), [new] * 3, ends.tolist(), [True] * 3)
        found = constrained(logits, rows, GenerateConfig.parse(values))
        torch.testing.assert_close(found, expected(seen, logits), rtol=0, atol=0)


@pytest.mark.parametrize(("name", "way"), [("gpt2", GREEDY), ("t5", BEAMS[1])])
def test_constrained_rows_of_a_batch_are_as_alone(models, name, way):
    inputs, (_, ours) = [[3, 4, 5, 6, 2], [7], [1, 9, 12]], models(name)
    config = how(name, TOGETHER | BASE | {"max_new_tokens": 20, "min_new_tokens": 5}, way)
    together = of_ours(name, ours, config, inputs)
    assert together == [of_ours(name, ours, config, [one])[0] for one in inputs]
    assert len({*map(tuple, together)}) == 3


def test_each_constraint_is_a_field():
    assert CONSTRAINTS.keys() <= GenerateConfig.model_fields.keys()


PUBLISHED: dict[str, Any] = {
    "num_beams": 4, "early_stopping": True, "length_penalty": 2.0, "max_length": 60,
    "min_length": 6, "no_repeat_ngram_size": 3, "forced_bos_token_id": 1,
    "forced_eos_token_id": 2, "eos_token_id": [2, 3], "bad_words_ids": [[12]],
    "suppress_tokens": [4], "begin_suppress_tokens": [5, 6], "repetition_penalty": 1.3,
    "renormalize_logits": True,
}  # fmt: skip


@pytest.mark.parametrize("file", ["generation_config.json", "config.json"])
def test_settings_come_in_and_go_out(file, tmp_path):
    """In a file of their own, or among the others as before 2023."""
    place = families.complete("bart", tmp_path / "bart")
    (place / "generation_config.json").unlink()
    own = json.loads((place / file).read_text()) if (place / file).is_file() else {}
    (place / file).write_text(json.dumps(own | PUBLISHED))
    run = gf.load(place)
    config = run.options()
    assert (config.beams, config.max_new_tokens, config.length_ratio) == (4, 59, None)
    for name in ("early_stopping", "length_penalty", "min_length", "no_repeat_ngram_size"):
        assert getattr(config, name) == PUBLISHED[name]
    assert config.forced_eos_token_id == (2,)
    assert config.bad_words_ids == ((12,),)
    export_run(place, out=tmp_path / "out", check=False)
    theirs = families.transformers.GenerationConfig.from_pretrained(tmp_path / "out")
    for name, value in PUBLISHED.items():
        if name != "max_length":
            other = getattr(theirs, name)
            assert other in (value, [value]), name
    assert gf.load(tmp_path / "out").options() == config


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"bad_words_ids": [[5], [1, 13]]}, r"generate\.bad_words_ids holds token id 13; this"),
        ({"forced_bos_token_id": 40}, r"generate\.forced_bos_token_id holds token id 40"),
        ({"suppress_tokens": [-1]}, r"generate\.suppress_tokens\.0: .*got -1"),
        ({"no_repeat_ngram_size": -2}, r"generate\.no_repeat_ngram_size: .*got -2"),
        ({"bad_words_ids": [[]]}, r"generate\.bad_words_ids\.0: "),
        ({"num_beams": 2, "early_stopping": "soon"}, r"generate\.early_stopping: "),
        ({"min_new_tokens": "many"}, r"generate\.min_new_tokens: "),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(values, sentence, tmp_path):
    place = families.complete("gpt2", tmp_path / "gpt2")
    (place / "generation_config.json").write_text(json.dumps(values))
    with pytest.raises(CheckpointError, match=rf"generation_config\.json: {sentence}"):
        gf.load(place)


def test_a_text_ends_at_any_of_its_ends_and_none_is_shown(tmp_path, cli):
    run = gf.load(place := families.complete("gpt2", tmp_path / "gpt2"))
    ways = {"temperature": 0, "max_new_tokens": 20}
    whole = run.predict("the cat", **ways, eos_token_id=[])
    ends = [whole.ids[-1], 11]
    at = min(whole.ids.index(one) for one in ends if one in whole.ids)
    found = run.predict("the cat", **ways, eos_token_id=ends)
    assert found.ids == whole.ids[: at + 1]
    assert found.finish == "end"
    assert found.text == run.tokenizer.decode(whole.ids[:at])
    asked = ["--prompt", "the cat", "--temperature", 0, "--max-new-tokens", 9, "--json"]
    plain = cli("generate", place, *asked).json
    said = cli("generate", place, *asked, "--no-repeat-ngram-size", 1, "--min-new-tokens", 9).json
    words = said["text"].split()
    assert (said["tokens"], said["finish"], len({*words})) == (9, "length", len(words))
    assert said["text"] != plain["text"]


def test_nothing_left_to_choose_is_an_error_and_not_a_token():
    config = GenerateConfig.parse({"suppress_tokens": [0, 1, 2], "temperature": 0})
    with pytest.raises(GlassformerError, match="Every token is excluded by the settings"):
        constrained(torch.zeros(1, 3), Rows([[0]], [0]), config)
