"""Column files keep everything that is not changed."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.formats.column_lines import cells_in, column_sentences, with_tags
from glassformer.data.formats.tagged_words import sentences
from glassformer.data.sources import Source
from glassformer.data.tables import InputTable
from small_runs import data_config

CELLS = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\u2028\x85"),
    min_size=1,
    max_size=6,
).filter(lambda text: text.strip() == text and text)
COMMENT = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=12).map(
    lambda text: f"#{text}"
)


@st.composite
def documents(draw) -> list[list[list[str] | str]]:
    """Sentences of lines: comments, words, words written as one, words left out."""
    made = []
    for _ in range(draw(st.integers(0, 4))):
        lines: list[list[str] | str] = list(draw(st.lists(COMMENT, max_size=2)))
        for number in range(1, draw(st.integers(1, 4)) + 1):
            if draw(st.booleans()):
                lines.append([f"{number}-{number + 1}", *draw(st.tuples(*[CELLS] * 9))])
            lines.append([str(number), *draw(st.tuples(*[CELLS] * 9))])
            if draw(st.booleans()):
                lines.append([f"{number}.1", *draw(st.tuples(*[CELLS] * 9))])
        made.append(lines)
    return made


def raw_of(sentences_of, end: str, blank: int, last: bool) -> bytes:
    text = ""
    for lines in sentences_of:
        text += "".join(
            (line if isinstance(line, str) else "\t".join(line)) + end for line in lines
        )
        text += end * blank
    return (text if last else text.removesuffix(end)).encode()


@given(
    documents(),
    st.sampled_from(["\n", "\r\n"]),
    st.integers(1, 2),
    st.booleans(),
    st.booleans(),
    st.sampled_from([3, 4, 9]),
)
def test_conllu_survives_and_changes_in_one_column(made, end, blank, last, mark, column):
    import tempfile
    from pathlib import Path

    names = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
    raw = (b"\xef\xbb\xbf" if mark else b"") + raw_of(made, end, blank, last)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.conllu"
        path.write_bytes(raw)
        config = data_config({"tag_field": names[column]})
        found = list(column_sentences(Source(str(path), config=config)))
        text = raw.removeprefix(b"\xef\xbb\xbf").decode()
        assert "".join(line.text for one in found for line in one) == text
        same = [[line.cells[column] for line in one if line.cells] for one in found]
        again = (with_tags(one, column, own) for one, own in zip(found, same, strict=True))
        assert "".join(again) == text
        new = "".join(
            with_tags(one, column, ["NEW"] * len(own)) for one, own in zip(found, same, strict=True)
        )
        for lines in made:
            for line in lines:
                if isinstance(line, list) and line[0].isdecimal():
                    line[column] = "NEW"
        assert new.encode() == raw_of(made, end, blank, last)
        words = [
            [line[1] for line in lines if isinstance(line, list) and line[0].isdecimal()]
            for lines in made
        ]
        assert [[*cells_in(one, 1)] for one in found if cells_in(one, 1)] == words
        read = [list(own) for own, _, _ in sentences(Source(str(path), config=config))]
        assert read == words


TABLES = {
    "spaces.conll": b"a  X \n b Y\n\n-DOCSTART- O\n\nc Z\n",
    "tabs.conll": b"# id 1\na\tl\tX\nb\tm\tY\r\n\n\n\nc\tn\tZ",
    "latin.conll": "ä X\n".encode("latin-1"),
}


@pytest.mark.parametrize("name", TABLES)
def test_other_columns_survive(tmp_path, name):
    (tmp_path / name).write_bytes(TABLES[name])
    config = data_config({"encoding": "latin-1" if "latin" in name else "utf-8"})
    source = Source(str(tmp_path / name), config=config)
    table, made = InputTable(source, ("words",)), ""
    for row in table.rows():
        words = [line for line in row.sentence if line.cells]
        place = table.columns_of(row)[1]
        made += with_tags(row.sentence, place, [f"<{i}>" for i in range(len(words))])
    expected = TABLES[name].decode(config.encoding).replace("a  X \n b Y", "a X\nb Y")
    for old, new in (("X", "<0>"), ("Y", "<1>"), ("Z", "<0>")):
        expected = expected.replace(old, new)
    assert made == expected


def test_a_compressed_file(tmp_path):
    text = "# c\n1\ta\t_\tX\t_\t_\t_\t_\t_\t_\n\n"
    (tmp_path / "x.conllu.gz").write_bytes(gzip.compress(text.encode()))
    found = list(column_sentences(Source(str(tmp_path / "x.conllu.gz"))))
    assert "".join(line.text for one in found for line in one) == text
