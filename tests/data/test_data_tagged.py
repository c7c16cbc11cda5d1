"""Tagged words from every kind of file: what is read, how it is split, one sentence for everything
that is no such."""

import gzip
import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.core.errors import ConfigError, DataError
from glassformer.data.config import DataConfig
from glassformer.data.formats.documents import read as documents
from glassformer.data.formats.tagged_words import words_text
from glassformer.data.records.tagged import Tagged, read_tagged
from glassformer.data.sources import resolve
from small_runs import data_config

TREE = """# newdoc
# text = They don't
1\tThey\tthey\tPRON\tPRP\tCase=Nom\t3\tnsubj\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\tdo\tAUX\tVBP\t_\t3\taux\t_\t_
3\tn't\tnot\tPART\tRB\t_\t0\troot\t_\t_
3.1\tgo\tgo\tVERB\tVB\t_\t_\t_\t_\t_

# text = 20 000 #1
1\t20 000\t_\tNUM\t_\t_\t0\troot\t_\t_
2\t#1\t_\t_\t_\t_\t1\tdep\t_\t_"""


def read(folder, **fields) -> list[Tagged]:
    return list(
        read_tagged(data_config({"root": str(folder), "validation.fraction": 0.0, **fields}))
    )


def sentences(folder, **fields) -> list[tuple[list[str], list[str]]]:
    return [(list(found.words), list(found.tags)) for found in read(folder, **fields)]


def written(folder, name: str, content: str | bytes) -> dict[str, str]:
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return {"train.path": name}


def refused(folder, error=DataError, **fields) -> str:
    with pytest.raises(error) as caught:
        read(folder, **fields)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# Round trips

NEVER = "\0\n\r\ufeff"
"""What no line holds: its end, what no text holds, and the mark that a file may begin with."""


def texts(without: str = ""):
    some = st.characters(exclude_categories=["Cs"], exclude_characters=NEVER + without)
    odd = [character for character in "/-#_:\"'\u3000\u2028\x85\xa0" if character not in without]
    return st.text(some | st.sampled_from(odd), min_size=1, max_size=5)


def corpora(word, tag):
    row = st.tuples(word, tag)
    return st.lists(st.lists(row, min_size=1, max_size=5), min_size=1, max_size=4)


def as_lists(corpus) -> list[tuple[list[str], list[str]]]:
    return [([word for word, _ in sentence], [tag for _, tag in sentence]) for sentence in corpus]


def with_letters(text: str) -> bool:
    return bool(text.strip())


@given(corpora(texts("\t"), texts("\t")), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_conllu_round_trip(tmp_path_factory, corpus, end, last):
    folder = tmp_path_factory.mktemp("tagged")
    blocks = []
    for sentence in corpus:
        rows = [
            f"{i}\t{word}\tlemma\t{tag}" + "\t_" * 6 for i, (word, tag) in enumerate(sentence, 1)
        ]
        blocks.append(end.join(["# comment", *rows]))
    body = (end + end).join(blocks) + end * 2 * last
    assert sentences(folder, **written(folder, "a.conllu", body)) == as_lists(corpus)
    assert sentences(
        folder, **written(folder, "a.conllu.gz", gzip.compress(body.encode()))
    ) == as_lists(corpus)


@given(
    corpora(texts("\t"), texts("\t").filter(with_letters)), st.sampled_from(["", " ", "\t", " \t "])
)
def test_columns_with_tabs_round_trip(tmp_path_factory, corpus, blank):
    folder = tmp_path_factory.mktemp("tagged")
    corpus = [[row for row in sentence if row[0] != "-DOCSTART-"] for sentence in corpus]
    body = f"\n{blank}\n".join(
        "\n".join(f"{word}\t{tag}" for word, tag in sentence) for sentence in corpus
    )
    assert sentences(folder, **written(folder, "a.iob", body)) == as_lists(corpus)


@given(corpora(texts("\t "), texts("\t ").filter(with_letters)), st.integers(1, 3))
def test_columns_with_spaces_round_trip(tmp_path_factory, corpus, spaces):
    folder = tmp_path_factory.mktemp("tagged")
    rows = (
        "\n".join(f"{word}{' ' * spaces}x {tag}" for word, tag in sentence) for sentence in corpus
    )
    assert sentences(folder, **written(folder, "a.conll", "\n\n".join(rows))) == as_lists(corpus)


@given(corpora(texts("\t "), texts("\t /")))
def test_slashes_round_trip(tmp_path_factory, corpus):
    folder = tmp_path_factory.mktemp("tagged")
    body = "\n\n".join(
        "\t" + " ".join(f"{word}/{tag}" for word, tag in sentence) + " " for sentence in corpus
    )
    assert sentences(folder, **written(folder, "a", body), format="slash") == as_lists(corpus)


@given(corpora(st.text(min_size=1, max_size=5), st.text(min_size=1, max_size=5)))
def test_json_round_trip(tmp_path_factory, corpus):
    folder = tmp_path_factory.mktemp("tagged")
    rows = [{"words": words, "tags": tags} for words, tags in as_lists(corpus)]
    body = "\n".join(map(json.dumps, [*rows, {"words": [], "tags": []}]))
    assert sentences(folder, **written(folder, "a.jsonl", body)) == as_lists(corpus)
    nested = "\n".join(json.dumps({"a": {"w": row["words"], "t": row["tags"]}}) for row in rows)
    fields = {"word_field": "a.w", "tag_field": "a.t"}
    assert sentences(folder, **written(folder, "b.jsonl", nested), **fields) == as_lists(corpus)


# What each format says


def test_universal_dependencies(tmp_path):
    fields = written(tmp_path, "a.conllu", TREE)
    assert sentences(tmp_path, **fields) == [
        (["They", "do", "n't"], ["PRON", "AUX", "PART"]), (["20 000", "#1"], ["NUM", "_"])
    ]  # fmt: skip
    assert [found.where for found in read(tmp_path, **fields)] == [
        f"{tmp_path}/a.conllu, line 3", f"{tmp_path}/a.conllu, line 10"
    ]  # fmt: skip
    for name, tags in (
        ("xpos", ["PRP", "VBP", "RB"]),
        ("5", ["PRP", "VBP", "RB"]),
        ("deprel", ["nsubj", "aux", "root"]),
    ):
        assert sentences(tmp_path, **fields, tag_field=name)[0][1] == tags
    assert sentences(tmp_path, **fields, word_field="lemma")[0][0] == ["they", "do", "not"]


def test_columns_are_taken_by_number(tmp_path):
    body = "-DOCSTART- -X- O\n\nEU NNP B-ORG\nrejects VBZ O\n-DOCSTART-\nPeter NNP B-PER\n"
    fields = written(tmp_path, "a.conll", body)
    assert sentences(tmp_path, **fields) == [
        (["EU", "rejects"], ["B-ORG", "O"]),
        (["Peter"], ["B-PER"]),
    ]
    assert sentences(tmp_path, **fields, tag_field="2")[0][1] == ["NNP", "VBZ"]
    assert sentences(tmp_path, **fields, word_field="2", tag_field="1")[0] == (
        ["NNP", "VBZ"],
        ["EU", "rejects"],
    )
    for name in ("a.iob", "a.bio", "a.annotated"):
        assert len(sentences(tmp_path, **written(tmp_path, name, body))) == 2


def test_a_slash_in_a_word_and_lines_of_blanks(tmp_path):
    fields = written(tmp_path, "a.txt", "\n\tand/or/cc 1/2/cd //in ./.\n\t\n a/b \n")
    assert sentences(tmp_path, **fields, format="slash") == [
        (["and/or", "1/2", "/", "."], ["cc", "cd", "in", "."]), (["a"], ["b"])
    ]  # fmt: skip


def test_a_tags_name_may_end_earlier_but_not_be_empty(tmp_path):
    fields = written(tmp_path, "a", "a/NN-TL -/-- b/-x c/NN")
    assert sentences(tmp_path, **fields, format="slash", label_delimiter="-")[0][1] == [
        "NN",
        "--",
        "-x",
        "NN",
    ]


# Splits


def test_splits_are_drawn_or_from_files_of_their_own(tmp_path):
    body = "\n".join(f"w{i}/t" for i in range(40))
    fields = written(tmp_path, "a", body) | {"format": "slash"}
    drawn = read(tmp_path, **fields, validation_fraction=0.25, test_fraction=0.1)
    assert [found.words[0] for found in drawn] == [f"w{i}" for i in range(40)], (
        "each once, in order"
    )
    assert Counter(found.split for found in drawn) == {"train": 26, "validation": 10, "test": 4}
    assert read(tmp_path, **fields, validation_fraction=0.25, test_fraction=0.1) == drawn
    written(tmp_path, "b", "v/t")
    own = read(
        tmp_path,
        **fields,
        validation_path="b",
        test_path="b",
        validation_fraction=0.5,
        test_fraction=0.2,
    )
    assert Counter(found.split for found in own) == {"train": 40, "validation": 1, "test": 1}


def test_the_words_alone_are_running_text(tmp_path):
    written(tmp_path, "a.conllu", TREE)
    written(tmp_path, "b.conll", "EU NNP\nrejects VBZ\n\nPeter NNP")
    config = data_config({"train.path": str(tmp_path)})
    assert [found.text for found in documents(resolve(config.train.path, config))] == [
        " They do n't\n 20 000 #1\n", " EU rejects\n Peter\n"
    ]  # fmt: skip
    written(tmp_path, "c", "a/x b/y\n")
    assert [
        d.text for d in documents(resolve(str(tmp_path / "c"), DataConfig(format="slash")))
    ] == [" a b\n"]
    assert words_text(()) == "\n"


# What is no tagged text

ROW = "1\ta\t_\tX" + "\t_" * 6
BAD = {
    "nine.conllu": (
        f"{ROW}\n\n2\tb\t_\tX" + "\t_" * 5,
        {},
        "nine.conllu, line 3 has 9 columns, not the 10 of CoNLL-U",
    ),
    "one.conllu": ("# x\nword\n", {}, "one.conllu, line 2 has 1 column, not the 10"),
    "id.conllu": (ROW.replace("1", "x", 1), {}, "id.conllu, line 1 has the id 'x', not a number"),
    "void.conllu": (ROW.replace("\ta\t", "\t\t"), {}, "void.conllu, line 1 has an empty word"),
    "ragged.conll": (
        "a\tO\n\nb\tx\tO",
        {},
        "ragged.conll, line 3 has 3 columns where line 1 has 2",
    ),
    "spaces.conll": ("a b O\nc O", {}, "spaces.conll, line 2 has 2 columns where line 1 has 3"),
    "lonely.conll": ("\na\n", {}, "lonely.conll, line 2 has 1 column, not a word and a tag"),
    "open.conll": ("a\t\n", {}, "open.conll, line 1 has an empty tag"),
    "high.conll": (
        "a O",
        {"tag_field": "3"},
        "line 1 has 2 columns and none is '3'; set data.tag_field to a number",
    ),
    "zero.conll": (
        "a O",
        {"word_field": "0"},
        "none is '0'; set data.word_field to a number from 1 to 2",
    ),
    "name.conll": (
        "a O",
        {"tag_field": "upos"},
        "none is 'upos'; set data.tag_field to a number from 1 to 2",
    ),
    "huge.conll": ("a O", {"tag_field": "9" * 5000}, "set data.tag_field to a number from 1 to 2"),
    "bare.txt": (
        "a/x b\n",
        {"format": "slash"},
        "bare.txt, line 1 has no tag after 'b'; write every word as word/tag",
    ),
    "wordless.txt": ("/x", {"format": "slash"}, "line 1 has an empty word in '/x'"),
    "tagless.txt": ("\nx/", {"format": "slash"}, "line 2 has an empty tag in 'x/'"),
    "short.jsonl": (
        '{"words": ["a", "b"], "tags": ["x"]}',
        {},
        "short.jsonl, line 1 has 2 words and 1 tag;",
    ),
    "list.jsonl": ('["a"]', {}, "list.jsonl, line 1 is not a JSON object but ['a']"),
    "field.jsonl": (
        '{"words": ["a"], "tag": ["x"]}',
        {},
        "no field 'tags'; did you mean 'tag'? (set data.tag_field)",
    ),
    "named.jsonl": (
        '{"tokens": ["a"]}',
        {},
        "no field 'words'; known are tokens (set data.word_field)",
    ),
    "number.jsonl": (
        '{"words": ["a"], "tags": [1.5]}',
        {},
        "has 'tags' that is not a string but 1.5; give a list of str",
    ),
    "text.jsonl": ('{"words": "a", "tags": []}', {}, "has 'words' that is not a list but 'a'"),
    "null.jsonl": (
        '{"words": ["a", ""], "tags": ["x", "y"]}',
        {},
        "has an empty string in 'words'",
    ),
    "half.jsonl": ('{"words": ["\\ud800"], "tags": ["x"]}', {}, "unpaired surrogate in 'words'"),
    "broken.jsonl": ("{", {}, "broken.jsonl, line 1 is not JSON"),
    "empty.conllu": ("", {}, "there are no sentences in"),
    "comments.conllu": ("# a\n\n# b\n", {}, "there are no sentences in"),
    "blank.conll": ("\n \n\t\n", {}, "there are no sentences in"),
    "blank.jsonl": ('{"words": [], "tags": []}\n', {}, "there are no sentences in"),
    "binary.conll": (b"a\tO\nb\0\tO\n", {}, "binary.conll looks binary (a NUL byte at offset 5)"),
    "latin.conll": (
        b"a O\n\xe9t\xe9 O\n",
        {},
        "byte 0xe9 at offset 4 does not fit; set data.encoding=cp1252",
    ),
    "rot.conll.gz": (
        gzip.compress(b"a\tO\n" * 99)[:-9],
        {},
        "rot.conll.gz is not a whole gzip file",
    ),
    "plain.txt": (
        "a b",
        {},
        "is read as text, where words have no tags; set data.format to conllu, conll, slash,",
    ),
    "table.csv": ("text,label\n", {}, "is read as csv, where words have no tags"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_not_tagged_is_one_sentence(name, tmp_path):
    content, fields, sentence = BAD[name]
    said = refused(tmp_path, **written(tmp_path, name, content), **fields)
    assert sentence in said
    assert name in said


def test_settings_that_no_file_can_meet(tmp_path):
    fields = written(tmp_path, "a.conllu", TREE)
    said = refused(tmp_path, ConfigError, **fields, tag_field="upso")
    assert said == "CoNLL-U has no column 'upso'; did you mean 'upos'? (set data.tag_field)"
    assert "no column '11'" in refused(tmp_path, ConfigError, **fields, word_field="11")
    assert "data.label_delimiter: " in refused(tmp_path, ConfigError, **fields, label_delimiter="")
    assert "data.overlap: " in refused(tmp_path, ConfigError, **fields, overlap=-1)


COMMENTED = """\
# newdoc id = 1
# sent_id = 1
A\tDET
dog\tNOUN

# text = # B
#\tSYM
B\tNOUN

# id 7\tdomain=en
#begin document (x); part 000
#\tdog\tcat
the\tDET
#\tSYM
"""


def test_comments_before_a_sentence_are_no_words(tmp_path):
    fields = {"train.path": "a.conll", "validation.fraction": 0.0}
    words = [["A", "dog"], ["#", "B"], ["the", "#"]]
    for content in (COMMENTED, COMMENTED.replace("\t", " ")):
        (tmp_path / "a.conll").write_text(content)
        assert [found for found, _ in sentences(tmp_path, **fields)] == words
