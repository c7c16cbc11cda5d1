"""Tables with the usual columns are read without settings; the resolved recipe has them."""

import json
from pathlib import Path

import pytest

from glassformer.core.errors import DataError
from glassformer.data.config import DataConfig
from glassformer.data.records.tagged import read_tagged
from glassformer.data.usual_columns import USUAL, with_usual_columns
from glassformer.recipe.reading import read_yaml
from glassformer.recipe.recipe import Recipe
from glassformer.training.loop.prepare import prepare
from small_runs import data_config, go, losses, pair_recipe
from small_tasks import class_recipe, tag_recipe

TEXT, WORDS = ("text_field", "pair_field", "label_field"), ("word_field", "tag_field")
PAIRS, FILES = ("source_field", "target_field"), ("file_field", "label_field")
READ = [
    (TEXT, {"sentence": "a", "label": "1", "idx": 3}, ["sentence", None, "label"]),
    (TEXT, {"premise": "a", "hypothesis": "b", "label": "1"}, ["premise", "hypothesis", "label"]),
    (TEXT, {"question": "a", "sentence": "b", "label": "1"}, ["question", "sentence", "label"]),
    (TEXT, {"text": "a", "label": "1", "sentence": "b"}, ["text", None, "label"]),
    (WORDS, {"tokens": ["a"], "ner_tags": ["O"]}, ["tokens", "ner_tags"]),
    (WORDS, {"words": ["a"], "tags": ["O"], "ner_tags": ["O"]}, ["words", None]),
    (PAIRS, {"question": "a", "answer": "b"}, ["question", "answer"]),
    (PAIRS, {"document": "a", "summary": "b", "id": 1}, ["document", "summary"]),
    (PAIRS, {"translation": {"en": "a", "de": "b"}}, ["translation.en", "translation.de"]),
    (FILES, {"image": "a.png", "label": "b"}, ["image", "label"]),
    (FILES, {"audio": "a.wav", "label": "b"}, ["audio", "label"]),
    (TEXT, {"review": "a", "sentiment": "b"}, ["text", None, "label"]),
    (PAIRS, {"translation": {"en": "a", "de": "b", "fr": "c"}}, ["source", "target"]),
]


@pytest.mark.parametrize(("settings", "row", "expected"), READ)
@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_usual_columns(tmp_path, settings, row, expected, kind):
    path = tmp_path / f"t.{kind}"
    if kind == "parquet":
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet as pq

        kinds = {
            name: pa.struct([(own, pa.string()) for own in of]) if isinstance(of, dict) else None
            for name, of in row.items()
        }
        pq.write_table(pa.table({n: pa.array([of], kinds[n]) for n, of in row.items()}), path)
    elif kind == "jsonl":
        path.write_text(json.dumps(row) + "\n")
    elif any(isinstance(value, dict) for value in row.values()):
        return
    else:
        path.write_text(",".join(row) + "\n" + ",".join(map(str, row.values())) + "\n")
    found, sentence = with_usual_columns(data_config({"train.path": str(path)}), settings)
    assert [getattr(found, name) for name in settings] == expected
    changed = found != data_config({"train.path": str(path)})
    assert changed == (sentence is not None)
    if sentence is not None:
        assert all(repr(field) in sentence for field in expected if field)


@pytest.mark.parametrize(
    ("settings", "columns", "told"),
    [
        (WORDS, ["tokens", "ner_tags", "pos_tags"], "'tokens' and 'ner_tags' or 'tokens' and 'pos"),
        (
            PAIRS,
            ["question", "answer", "document", "summary"],
            "set data.source_field and data.tar",
        ),
    ],
)
def test_columns_that_fit_in_two_ways_are_asked_for(tmp_path, settings, columns, told):
    (tmp_path / "t.jsonl").write_text(json.dumps({name: ["a"] for name in columns}) + "\n")
    with pytest.raises(DataError, match=told):
        with_usual_columns(data_config({"train.path": str(tmp_path / "t.jsonl")}), settings)


def test_a_setting_of_the_user_stays_and_nothing_is_guessed(tmp_path):
    (tmp_path / "t.csv").write_text("sentence,label\na,b\n")
    own = data_config({"train.path": str(tmp_path / "t.csv"), "label_field": "sentence"})
    assert with_usual_columns(own, TEXT) == (own, None)
    missing = data_config({"train.path": str(tmp_path / "none.csv")})
    assert with_usual_columns(missing, TEXT) == (missing, None)


def test_every_usual_column_is_a_known_header():
    from glassformer.data.formats.delimited import looks_like_header

    for row in (row for rows in USUAL.values() for row in rows):
        assert looks_like_header(row)


def prepared(made, tmp_path):
    said: list[str] = []
    return prepare(made, tmp_path / "new", False, 1, said.append), said


def test_a_run_is_trained_on_them_and_keeps_them_when_it_goes_on(tmp_path):
    rows = [f"{'abc'[i % 3]} b c,{'xy'[i % 2]}\n" for i in range(30)]
    (tmp_path / "t.csv").write_text("sentence,label\n" + "".join(rows))
    made = class_recipe(
        tmp_path,
        data={"train.path": str(tmp_path / "t.csv"), "format": "auto"},
        train={"steps": 2, "save.every": 2},
    )
    found, said = prepared(made, tmp_path)
    assert found.recipe.data.text_field == "sentence"
    assert said == [
        f"reading the columns 'sentence' (data.text_field) and 'label' (data.label_field) of "
        f"{tmp_path}/t.csv"
    ]
    go(made, tmp_path / "run")
    kept = Recipe.parse(read_yaml(tmp_path / "run" / "recipe.yaml"))
    assert kept.data.text_field == "sentence"
    result, _ = go(made, tmp_path / "run", resume=True)
    assert result.steps == 2


def test_pairs_of_texts_and_of_sides(tmp_path):
    rows = [{"premise": "a b", "hypothesis": "abc"[i % 3], "label": "xy"[i % 2]} for i in range(30)]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = {"train.path": str(tmp_path / "t.jsonl"), "format": "auto"}
    found, _ = prepared(class_recipe(tmp_path, data=data), tmp_path)
    assert found.records["train"][0].pair in {"a", "b", "c"}
    rows = [{"tokens": ["a", "abc"[i % 3]], "pos_tags": ["X", "YZ"[i % 2]]} for i in range(30)]
    (tmp_path / "w.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = {"train.path": str(tmp_path / "w.jsonl"), "format": "auto"}
    found, _ = prepared(tag_recipe(tmp_path, data=data), tmp_path)
    assert found.recipe.data.tag_field == "pos_tags"
    sides = [{"translation": {"en": "ab" * (i % 3 + 1), "de": "ba"}} for i in range(30)]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in sides))
    data = {"train.path": str(tmp_path / "p.jsonl")}
    found, said = prepared(pair_recipe(tmp_path, data=data), tmp_path)
    assert found.recipe.data.target_field == "translation.de"
    assert "'translation.en' (data.source_field)" in said[0]


def test_images_in_the_cells_of_a_folder_of_tables(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    from small_senses import picture_folder, picture_recipe

    folder = picture_folder(tmp_path)
    files = sorted(Path(folder).rglob("*.png"))
    rows = [
        {"image": {"bytes": file.read_bytes(), "path": file.name}, "label": file.parent.name}
        for file in files
    ]
    (tmp_path / "tables").mkdir()
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "tables" / "train-0.parquet")
    made = picture_recipe(tmp_path, data={"train.path": str(tmp_path / "tables")})
    found, said = prepared(made, tmp_path)
    assert found.recipe.data.file_field == "image"
    assert [sentence for sentence in said if "left out" in sentence] == []
    go(made, tmp_path / "run")
    plain = picture_recipe(tmp_path, data={"train.path": str(folder)})
    go(plain, tmp_path / "plain")
    of = [
        [line.get("loss", line.get("validation_loss")) for line in losses(tmp_path / run)]
        for run in ("run", "plain")
    ]
    assert of[0] == of[1]


def column_file(path: Path, order: tuple[str, ...], rows: int = 8, **cells) -> DataConfig:
    """Sentences of three words with token numbers, comments and annotators."""
    held = {"number": "123", "tag": ["O", "B-LOC", "I-LOC"], "note": "-?-", "who": "aaa"} | cells
    lines = [f"# sent_id = {path.name}"]
    for n in range(rows):
        for i in range(3):
            own = {name: of[i] for name, of in held.items()} | {"word": f"w{n}{i}"}
            lines.append("\t".join(own[name] for name in order))
        lines.append("")
    path.write_text("\n".join(lines))
    return data_config({"train.path": str(path), "validation.fraction": 0.0})


LAYOUTS = [
    ("number", "word", "tag", "note", "who"),
    ("number", "word", "tag", "note"),
    ("word", "tag", "note", "who"),
    ("word", "note", "who", "tag"),
    ("word", "number", "tag", "number"),
]


@pytest.mark.parametrize("order", LAYOUTS)
@pytest.mark.parametrize("tags", [["O", "B-X", "I-X"], ["B_X", "M_X", "E_X"], ["X-B", "X-I", "O"]])
def test_tags_are_found_by_their_values_wherever_they_stand(tmp_path, order, tags):
    config = column_file(tmp_path / "x.iob2", order, tag=tags)
    found, sentence = with_usual_columns(config, WORDS)
    (first, *_) = read_tagged(found)
    assert first.words == ("w00", "w01", "w02")
    assert first.tags == tuple(tags)
    usual = order[0] == "word" and order[-1] == "tag"
    assert (found == config) == usual == (sentence is None)
    assert (
        sentence is None or f"{order.index('tag') + 1} such as {max(tags, key=len)!r}" in sentence
    )


def test_a_set_column_of_tags_is_kept_and_token_numbers_are_no_words(tmp_path):
    config = column_file(tmp_path / "x.conll", LAYOUTS[0])
    config = config.model_copy(update={"tag_field": "3"})
    found, _ = with_usual_columns(config, WORDS)
    assert (found.word_field, found.tag_field) == ("2", "3")
    both = config.model_copy(update={"word_field": "5"})
    assert with_usual_columns(both, WORDS) == (both, None)


def test_two_columns_of_tags_are_named_and_a_file_without_any_is_refused(tmp_path):
    order = ("word", "fine", "tag")
    pos = {"fine": ["NN", "VB", "JJ"], "tag": ["N", "V", "A"]}
    config = column_file(tmp_path / "x.conll", order, **pos)
    found, sentence = with_usual_columns(config, WORDS)
    assert found == config
    assert "1 such as 'w00', 2 such as 'NN', 3 such as 'N'); data.word_field" in str(sentence)
    config = column_file(tmp_path / "y.conll", ("word", "who", "who"))
    with pytest.raises(DataError, match=r"y.conll has the values of tags \(1 such as 'w00', 2"):
        with_usual_columns(config, WORDS)


def sentences(words: str, n: int) -> list[str]:
    own = words.split()
    return [" ".join(own[(i * k) % len(own)] for k in range(1, 6)) for i in range(n)]


def table_file(path: Path, head: str | None, *columns: list[str]) -> DataConfig:
    rows = [",".join(cells) for cells in zip(*columns, strict=True)]
    path.write_text("\n".join([head] * (head is not None) + rows) + "\n")
    return data_config({"train.path": str(path)})


GERMAN = sentences("der Hund läuft schnell über die Straße und das Kind sieht ihn", 30)
CLASSES = ["gut", "schlecht"] * 15
NUMBERS = [*map(str, range(30))]
UNNAMED = [
    ("Satz,Klasse", (GERMAN, CLASSES), TEXT, ["Satz", None, "Klasse"]),
    ("Klasse,Satz", (CLASSES, GERMAN), TEXT, ["Satz", None, "Klasse"]),
    (None, (GERMAN, CLASSES), TEXT, ["text", None, "label"]),
    (None, (CLASSES, GERMAN), TEXT, ["2", None, "1"]),
    ("Deutsch,Andere Sprache", (GERMAN, GERMAN), PAIRS, ["Deutsch", "Andere Sprache"]),
    (None, (GERMAN, GERMAN), PAIRS, ["source", "target"]),
    (None, (CLASSES, NUMBERS), PAIRS, ["source", "target"]),  # words may be names: as written
]


@pytest.mark.parametrize(("head", "columns", "settings", "expected"), UNNAMED)
def test_names_in_any_language_are_known_by_the_values(tmp_path, head, columns, settings, expected):
    config = table_file(tmp_path / "t.csv", head, *columns)
    found, _ = with_usual_columns(config, settings)
    assert [getattr(found, name) for name in settings] == expected


@pytest.mark.parametrize("head", ["id,Satz,Klasse,Kommentar", None])
def test_more_columns_than_two_without_usual_names_are_a_question(tmp_path, head):
    config = table_file(tmp_path / "t.csv", head, NUMBERS, GERMAN, CLASSES, ["x"] * 30)
    told = r"4 columns .*2 '.*' with '.*set data.text_field and data.label_field to the names"
    with pytest.raises(DataError, match=told):
        with_usual_columns(config, TEXT)
    named = config.model_copy(update={"text_field": "2", "label_field": "3"})
    assert with_usual_columns(named, TEXT) == (named, None)
