"""Processors with published tokenizers: their own frame around texts, pairs, sources and prompts;
words as within a sentence; the word of each token."""

import json
import shutil
from pathlib import Path

import pytest
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

import glassformer as gf
import tiny
from glassformer.core.errors import CheckpointError, ConfigError
from glassformer.models import Transformer
from glassformer.processors.config import ModelFacts
from glassformer.processors.documents import DocumentsProcessor
from glassformer.processors.pairs import PairsProcessor
from glassformer.processors.text import TextProcessor, WordsProcessor
from glassformer.processors.tokens.pair_tokenizer import PairTokenizer
from glassformer.processors.tokens.sequence_builder import SequenceBuilder
from glassformer.processors.tokens.word_spans import read_side, token_words, word_spans
from glassformer.runtime.config import GenerateConfig
from glassformer.tasks.predictors.likelihood import score
from glassformer.tasks.predictors.text import finish
from glassformer.tokenizers.published import published_tokenizer
from glassformer.tokenizers.text import Tokenizer
from published_folders import FAMILIES, published_folder
from small_runs import go, pair_recipe, recipe
from small_writers import continuations

FACTS = ModelFacts(window=64, context=64)
WORDS = st.lists(st.text("abtheTCſßé你😀zq", min_size=1, max_size=8), min_size=1, max_size=6)


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("published")
    return {family: published_folder(place, family) for family in FAMILIES}


@pytest.fixture(scope="module")
def tokenizers(folders) -> dict[str, Tokenizer]:
    return {family: published_tokenizer(folders[family], family) for family in FAMILIES}


def sequences(builder, *sides):
    return [window.example for window in builder.windows(*sides)]


def test_texts_and_pairs_stand_in_the_frame_of_their_tokenizer(tokenizers):
    bert = tokenizers["bert"]
    (pair,) = sequences(SequenceBuilder(bert, 64), "the cat", "sat on")
    first, second = bert.encode("the cat").tolist(), bert.encode("sat on").tolist()
    assert pair.ids.tolist() == [2, *first, 3, *second, 3]
    assert pair.token_type_ids.tolist() == [0] * (len(first) + 2) + [1] * (len(second) + 1)
    roberta = tokenizers["roberta"]
    first, second = roberta.encode("the cat").tolist(), roberta.encode("sat on").tolist()
    (pair,) = sequences(SequenceBuilder(roberta, 64), "the cat", "sat on")
    assert pair.ids.tolist() == [0, *first, 2, 2, *second, 2]
    assert not pair.token_type_ids.any()
    for part in sequences(SequenceBuilder(roberta, 9), "the cat sat", "on twelve mats"):
        assert len(part.ids) <= 9
        assert part.ids.tolist().count(2) == 3
    with pytest.raises(ConfigError, match="leaves no room"):
        sequences(SequenceBuilder(roberta, 5), "a")
    gpt2 = tokenizers["gpt2"]  # defines no frame, so it has the one of its roles
    assert sequences(SequenceBuilder(gpt2, 64), "a")[0].ids.tolist() == [0, *gpt2.encode("a"), 0]


def test_looks_name_the_words_of_texts_in_any_frame(tokenizers):
    for family in ("bert", "roberta", "t5"):
        processor = TextProcessor(tokenizers[family], FACTS)
        for given_text in ("the cat", ("the cat", "sat on 12 mats")):
            (window,) = processor.windows(given_text)
            found = processor.encode(given_text)
            ids = [element.id for element in found.elements]
            assert ids == window.example.ids.tolist()
            n = 2 if isinstance(given_text, str) else 6
            assert {element.word for element in found.elements} == {None, *range(n)}
            framing = [e for e in found.elements if e.kind == "special"]
            assert all(element.word is None for element in framing)
            frame = tokenizers[family].frame
            assert len(framing) == (frame.size if n == 2 else frame.pair_size)


@pytest.mark.parametrize("family", FAMILIES)
@given(words=WORDS)
@settings(max_examples=25, deadline=None)
def test_a_word_alone_is_encoded_as_within_a_sentence(family, words, tokenizers):
    tokenizer = tokenizers[family]
    text = tokenizer.word_space + " ".join(words)
    alone = [tokenizer.encode_word(word).tolist() for word in words]
    assert tokenizer.encode(text).tolist() == [index for own in alone for index in own]
    owners = token_words(tokenizer, text, word_spans(text))
    assert owners == [
        None if tokenizer.token_bytes(index).isspace() else number
        for number, own in enumerate(alone)
        for index in own
    ]


@pytest.mark.parametrize("family", ["bert", "roberta"])
@given(words=st.lists(st.text("abtheTCzq.é", min_size=1, max_size=8), min_size=1, max_size=6))
@settings(max_examples=25, deadline=None)
def test_a_tag_stands_at_the_piece_where_transformers_puts_it(family, words, folders, tokenizers):
    kind = {"bert": transformers.BertTokenizer, "roberta": transformers.RobertaTokenizer}[family]
    oracle = kind.from_pretrained(folders[family], add_prefix_space=True)
    expected = oracle(words, is_split_into_words=True)
    owners = expected.word_ids()
    for piece in ("first", "last"):
        (window,) = SequenceBuilder(tokenizers[family], 256, word_at=piece).windows(words)
        assert window.example.ids.tolist() == expected["input_ids"]
        places = [
            [place for place, owner in enumerate(owners) if owner == number]
            for number in range(len(words))
        ]
        wanted = [own[0] if piece == "first" else own[-1] for own in places]
        assert window.example.at.tolist() == wanted


def test_every_input_of_words_reads_the_tag_where_the_facts_say(tokenizers):
    words = ["the", "zthen", "cat"]
    facts = ModelFacts(window=64, context=64, word_at="first")
    processor = WordsProcessor(tokenizers["bert"], facts)
    (window,) = processor.windows(words)
    sizes = [len(processor.builder.pieces(word)) for word in words]
    assert max(sizes) > 1
    first = [1 + sum(sizes[:i]) for i in range(3)]
    assert window.example.at.tolist() == first
    parts = SequenceBuilder(tokenizers["bert"], word_at="first")
    parts = parts.example([("text", parts.words(words))])
    assert parts.at.tolist() == first
    assert parts.ids.tolist() == window.example.ids.tolist()
    elements = processor.encode(words).elements
    assert [e.word for e in elements] == [None, 0, *[1] * sizes[1], *[2] * sizes[2], None]


def test_sources_and_targets_stand_in_the_frame_and_decoders_begin_as_published(tokenizers):
    bart, t5 = tokenizers["bart"], tokenizers["t5"]
    pair = PairTokenizer(bart, bart)
    ids = bart.encode("the cat").tolist()
    assert pair.source_ids("the cat").tolist() == pair.target_ids("the cat").tolist()
    assert pair.target_ids("the cat").tolist() == [0, *ids, 2]
    assert (pair.bos, pair.eos) == (2, 2)
    other = PairTokenizer(t5, t5, "x: ")
    assert other.target_ids("a").tolist() == [*t5.encode("a"), t5.specials["eos"]]
    assert other.bos == t5.specials["pad"]
    assert SequenceBuilder(bart).begin == 2
    side = read_side(bart, "the cat", pair.source_ids("the cat"), before=1)
    assert side.word_of == (None, *token_words(bart, "the cat", word_spans("the cat")), None)
    assert set(side.word_of) == {None, 0, 1}
    found = PairsProcessor(pair, FACTS).encode(("the cat", "sat"))
    assert [element.id for element in found.source] == [0, *ids, 2]
    assert found.source[0].word is None
    target = bart.encode("sat").tolist()
    assert [element.id for element in found.elements] == [2, 0, *target]
    assert [element.word for element in found.elements] == [None, None, *[0] * len(target)]
    assert PairsProcessor(pair, FACTS).reader.windows("the cat")[0].tolist() == [0, *ids, 2]


def small(tokenizer: Tokenizer) -> Transformer:
    config = tiny.config(vocab_size=tokenizer.vocab_size)
    return tiny.stir(Transformer(config).double(), 0.3).eval()


def test_a_prompt_begins_as_the_tokenizer_begins_a_text(tokenizers):
    llama, gpt2 = tokenizers["llama"], tokenizers["gpt2"]
    model, how = small(llama), GenerateConfig.parse({"max_new_tokens": 5, "temperature": 0})
    whole = [1, *llama.encode("the").tolist()]
    (found,) = finish(continuations(model, llama, ["the"], how))
    scores = score(model, [*whole, *found.ids])[-len(found.ids) :]
    assert found.log_probs == pytest.approx(scores, abs=1e-9)  # float64
    assert finish(continuations(model, llama, [""], how))[
        0
    ].ids  # the begin symbol alone is a prompt
    look = DocumentsProcessor(llama, FACTS).prompt("the cat")
    assert [e.id for e in look.elements] == [1, *llama.encode("the cat").tolist()]
    assert look.elements[0].word is None
    assert {e.word for e in look.elements[1:]} == {0, 1}
    plain = DocumentsProcessor(gpt2, FACTS).prompt("the cat")
    assert [e.id for e in plain.elements] == gpt2.encode("the cat").tolist()
    bert = tokenizers["bert"]  # which does not continue a text, and reads it whole
    look = DocumentsProcessor(bert, FACTS).encode("the cat")
    assert (look.elements[0].id, look.elements[-1].id) == (2, 3)
    assert DocumentsProcessor(bert, FACTS).reader.windows("a")[0].tolist()[-1] == 3


def saved(tokenizer: Tokenizer, folder: Path) -> str:
    folder.mkdir()
    tokenizer.save(folder / "tokenizer.json")
    return str(folder)


def test_a_run_with_a_llama_tokenizer_does_what_any_run_does(tokenizers, tmp_path):
    path = saved(tokenizers["llama"], tmp_path / "llama")
    made = recipe(tmp_path, **{"processor.tokenizer": {"path": path}}, train={"steps": 2})
    go(made, tmp_path / "run")
    run = gf.load(tmp_path / "run")
    assert not (tmp_path / "run" / "special_tokens_map.json").exists()
    scored = run.score("the cat")
    assert len(scored) == len(run.tokenizer.encode("the cat"))
    assert all(isinstance(one.log_prob, float) for one in scored)
    assert isinstance(run.generate("the cat", max_new_tokens=3), str)
    assert run.evaluate()["loss"] > 0


def test_roles_are_files_of_a_run_that_its_manifest_covers(tokenizers, tmp_path):
    path = saved(tokenizers["t5"], tmp_path / "t5")
    changes = {"processor.tokenizer": {"path": path}, "model": {"max_length": 24}}
    go(pair_recipe(tmp_path, **changes, train={"steps": 2}), tmp_path / "run")
    kept = tmp_path / "run" / "special_tokens_map.json"
    assert json.loads(kept.read_text())["decoder_start_token"] == "<pad>"
    run = gf.load(tmp_path / "run")
    assert run.task.processor.pair.bos == tokenizers["t5"].specials["pad"]
    shutil.copytree(tmp_path / "run", tmp_path / "changed")
    (tmp_path / "changed" / "special_tokens_map.json").write_text('{"eos_token": "a"}')
    made = pair_recipe(tmp_path, **changes, train={"steps": 4})
    with pytest.raises(CheckpointError, match=r"special_tokens_map\.json has 18 bytes"):
        gf.training.train(made, tmp_path / "changed", resume=True)
