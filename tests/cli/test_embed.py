"""`glassformer embed` and `Run.embed`: vectors, neighbours, analogies, a word in its contexts, and
what is refused."""

import re

import numpy as np
import pytest

from bare_runs import write_config
from glassformer.core.errors import ConfigError, DataError
from glassformer.models import ModelConfig, Transformer
from glassformer.models.weights import save_weights
from glassformer.run import load
from glassformer.tokenizers.config import TokenizerConfig
from glassformer.tokenizers.train import train_tokenizer
from glassformer.training.folder.model_files import accept_changed
from tiny import stir

LINES = ["the bank of the river", "", "money in the bank", "   ", "naïve — café 日本"]
INPUT = "\n".join(LINES).encode() + b"\n"
BANK = b"the bank of the river\n\nmoney in the bank\n"


@pytest.fixture(scope="session")
def encoder(tmp_path_factory):
    """An encoder of words that nobody trained."""
    folder = tmp_path_factory.mktemp("encoder") / "words"
    folder.mkdir()
    tokenizer = train_tokenizer(
        TokenizerConfig.parse({"kind": "word"}), ["the bank of river king queen man woman money in"]
    )
    config = ModelConfig.parse(
        {
            "architecture": "encoder",
            "head": "none",
            "d_model": 16,
            "n_layers": 2,
            "n_heads": 2,
            "max_length": 12,
        }
        | {"vocab_size": tokenizer.vocab_size}
    )
    tokenizer.save(folder / "tokenizer.json")
    write_config(folder, config)
    save_weights(stir(Transformer(config)), folder / "model.safetensors")
    accept_changed(folder)
    return folder


@pytest.fixture(scope="session")
def opened(encoder):
    return load(encoder)


@pytest.fixture
def words(tmp_path):
    royal, male, female = np.eye(3)
    rows = {
        "king": royal + male,
        "man": male,
        "woman": female,
        "queen": royal + female,
        "crown": royal,
        "none": 0 * royal,
    }
    path = tmp_path / "words.txt"
    path.write_text(
        "6 3\n" + "".join(f"{word} {' '.join(map(str, row))}\n" for word, row in rows.items())
    )
    return path


def test_a_line_of_json_for_every_line(cli, encoder, opened):
    said = cli("embed", encoder, stdin=INPUT)
    assert said.code == 0
    assert [row["text"] for row in said.lines] == LINES
    assert [row["vector"] is None for row in said.lines] == [False, True, False, True, False]
    got = np.float32([row["vector"] for row in said.lines if row["vector"]])
    assert (
        got == opened.embed([line for line in LINES if line.strip()])
    ).all()  # digits enough for every bit
    np.testing.assert_allclose(np.linalg.norm(got, axis=1), 1, rtol=1e-6)
    assert cli("embed", encoder, "--json", stdin=INPUT).out == said.out
    assert cli("embed", encoder, stdin=b"").out == ""


@pytest.mark.parametrize(
    ("options", "same"),
    [
        (["--pool", "last", "--no-normalize"], {"pool": "last", "normalize": False}),
        (["--layer", 0], {"layer": 0}),
        (["--layer", 2, "--pool", "first"], {"layer": 2, "pool": "first"}),
    ],
)
def test_options_are_those_of_python(cli, encoder, opened, tmp_path, options, same):
    said = cli("embed", encoder, *options, stdin=b"the bank\n")
    assert np.float32(said.json["vector"]).tolist() == opened.embed("the bank", **same).tolist()
    assert said.json["vector"] != opened.embed("the bank").tolist()


def test_a_decoder_too(cli, trained):
    run = load(trained)
    said = cli("embed", trained, "--pool", "last", stdin=b"the quick fox\n" * 3)
    np.testing.assert_allclose(
        said.lines[1]["vector"], run.embed("the quick fox", pool="last"), rtol=1e-5, atol=1e-6
    )


def test_a_table(cli, encoder, opened, tmp_path):
    out = tmp_path / "v.npy"
    said = cli("embed", encoder, "--out", out, stdin=INPUT)
    assert (said.code, said.out) == (0, "")
    table = np.load(out)
    assert (table.dtype, table.shape) == (np.float32, (5, 16))
    assert not table[[1, 3]].any()
    assert (table[[0, 2, 4]] == opened.embed([line for line in LINES if line.strip()])).all()
    assert cli("embed", encoder, "--out", out, "--force", stdin=b"").code == 0
    assert np.load(out).shape == (0, 16)
    assert [path.name for path in tmp_path.iterdir()] == ["v.npy"]


def test_python_takes_a_text_or_a_list(opened):
    assert opened.embed("the bank").shape == (16,)
    assert opened.embed(["the bank"]).shape == (1, 16)
    assert opened.embed([]).shape == (0, 16)
    with pytest.raises(DataError, match="Text 2 of 2 is '', which has no tokens"):
        opened.embed(["a", ""])
    with pytest.raises(ConfigError, match="should be 'mean', 'first' or 'last', got 'men'"):
        opened.embed("a", pool="men")
    look = opened.contexts("bank", ["the bank of the river", "money in the bank"])
    np.testing.assert_allclose(look.similarities[0], 1, atol=1e-6)


def test_neighbours(cli, encoder, opened, tmp_path):
    known = ["the king", "the queen", "money", "the bank of the man"]
    (tmp_path / "known.txt").write_text("\n".join([known[0], "", *known[1:]]) + "\n")
    query = opened.embed("the bank of the river")
    order = np.argsort(-(opened.embed(known) @ query))
    wanted = [(known[i], float(opened.embed(known)[i] @ query)) for i in order[:2]]
    said = cli("near", encoder, tmp_path / "known.txt", "--top", 2, "--json", stdin=INPUT)
    assert [row["text"] for row in said.lines] == LINES
    assert [len(row["near"]) for row in said.lines] == [2, 0, 2, 0, 2]
    assert [row["text"] for row in said.lines[0]["near"]] == [text for text, _ in wanted]
    assert [row["similarity"] for row in said.lines[0]["near"]] == pytest.approx(
        [how for _, how in wanted], abs=1e-5
    )
    plain = cli("near", encoder, tmp_path / "known.txt", "--top", 2, stdin=INPUT)
    blocks = plain.out.split("\n\n")
    assert len(blocks) == 3
    assert blocks[0] == "\n".join(f"{text}\t{how:.4f}" for text, how in wanted)


def test_neighbours_among_what_embed_wrote(cli, encoder, tmp_path):
    (tmp_path / "v.jsonl").write_text(cli("embed", encoder, stdin=INPUT).out)
    cli("embed", encoder, "--out", tmp_path / "v.npy", stdin=INPUT)
    said = cli("near", encoder, tmp_path / "v.jsonl", "--json", stdin=LINES[2].encode())
    assert said.json["near"][0] == {"text": LINES[2], "similarity": 1.0}
    assert len(said.json["near"]) == 3
    rows = cli("near", encoder, tmp_path / "v.npy", "--json", stdin=LINES[2].encode())
    assert rows.json["near"][0] == {"text": "row 3", "similarity": 1.0}
    assert [row["similarity"] for row in rows.json["near"][3:]] == [
        0,
        0,
    ]  # an empty line is like nothing


def test_analogies_of_a_file_need_no_run(cli, words):
    said = cli(
        "analogy",
        "--vectors",
        words,
        "--top",
        2,
        stdin=b"king - man + woman\n\nking\n",
    )
    first, second = said.out.split("\n\n")
    assert first == "queen\t0.9586\ncrown\t0.5615"
    assert sorted(second.splitlines()) == ["crown\t0.7071", "man\t0.7071"]
    rows = cli("analogy", "--vectors", words, "--json", stdin=b"king - man + woman\n\n").lines
    assert [row["text"] for row in rows] == ["king - man + woman", ""]
    assert [found["text"] for found in rows[0]["near"]] == ["queen", "crown", "none"]
    assert rows[1]["near"] == []


def test_analogies_of_a_models_own_rows(cli, encoder, opened):
    said = cli("analogy", encoder, "--json", "--top", 99, stdin=b"king - man + woman\n")
    near = {row["text"]: row["similarity"] for row in said.json["near"]}
    assert set(near) == {"the", "bank", "of", "river", "queen", "money", "in"}
    rows = opened.model.embed.element.weight.detach().numpy()
    unit = {
        w: rows[i] / np.linalg.norm(rows[i])
        for w in [*near, "king", "man", "woman"]
        for i in opened.tokenizer.encode(w)
    }
    goal = unit["king"] - unit["man"] + unit["woman"]
    for word, how in near.items():
        assert how == pytest.approx(float(unit[word] @ goal / np.linalg.norm(goal)), abs=1e-5)


def test_a_word_in_its_contexts(cli, encoder, opened, tmp_path):
    page = tmp_path / "bank.html"
    said = cli("contexts", encoder, "bank", "--html", page, "--json", stdin=BANK)
    look = opened.contexts("bank", BANK.decode().split("\n"))
    assert said.json["word"] == "bank"
    assert [(one["line"], one["begin"], one["end"]) for one in said.json["occurrences"]] == [
        (1, 4, 8),
        (3, 13, 17),
    ]
    assert [layer["layer"] for layer in said.json["layers"]] == [0, 1, 2]
    assert said.json["layers"][0]["similarities"] == [[1, 1], [1, 1]]
    for layer, similarities in zip(said.json["layers"], look.similarities, strict=True):
        np.testing.assert_allclose(layer["similarities"], similarities, atol=1e-6)
        assert layer["mean"] == pytest.approx(similarities[0, 1])
    assert page.read_text().startswith("<!doctype html>")
    assert str(page) in said.err
    plain = cli("contexts", encoder, "bank", stdin=BANK).out.splitlines()
    assert "   1  the [bank] of the river" in plain
    assert "    0   1.000   1.000   1.000  static" in plain
    assert [line for line in plain if re.match(r"layer \d", line)] == [
        "layer 0, the static embedding",
        "layer 1",
        "layer 2",
    ]
    many = cli("contexts", encoder, "bank", stdin=BANK * 7).out.splitlines()
    assert not any(re.match(r"layer \d", line) for line in many)
    assert "  14  money in the [bank]" in many


def test_a_long_sentence_is_cut_around_the_word(cli, encoder, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    line = b"the river " * 30 + b"bank" + b" of money" * 30
    shown = cli("contexts", encoder, "bank", stdin=line + b"\n" + line).out.splitlines()[2]
    assert len(shown) <= 40
    assert "…" in shown.split("[bank]")[0]
    assert shown.endswith("…")


WRONG = [
    (["embed", "RUN", "--out", "v.npy", "--json"], "--json has no use"),
    (["embed", "RUN", "--out", "v.txt"], "--out writes .npy, not 'v.txt'"),
    (["contexts", "RUN", "x", "--html", "x.png"], "--html writes .html, not 'x.png'"),
    (["analogy", "RUN", "--vectors", "FILE"], "needs no run"),
    (["analogy"], "Give the folder of a run, or"),
    (["embed", "RUN", "--pool", "median"], "embed.pool: input should be 'mean', 'first' or 'last'"),
    (["near", "RUN", "FILE", "--pool", "median"], "embed.pool: input should be 'mean'"),
    (
        ["embed", "RUN", "--layer", "3"],
        "There is no layer 3 in this model; its layers are 0, the static embedding, and 1 to 2",
    ),
    (["near", "RUN", "FILE", "--layer", "-1"], "There is no layer -1"),
]


@pytest.mark.parametrize(
    ("command", "sentence"), WRONG, ids=[" ".join(command) for command, _ in WRONG]
)
def test_what_makes_no_sense_is_refused_before_a_line_is_read(
    refused, encoder, words, command, sentence
):
    given = [{"RUN": encoder, "FILE": words}.get(option, option) for option in command]
    assert sentence in refused(*given, code=2, keep=words.parent, stdin=BANK)


BAD = [
    (["near", "RUN", "none.txt"], b"a", "cannot read none.txt"),
    (["near", "RUN", "empty.txt"], b"a", "empty.txt is empty"),
    (["near", "RUN", "narrow.jsonl"], b"a", "have 2 numbers and those of"),
    (["analogy", "RUN"], b"\nking - man woman\n", "Line 2: 'king - man woman' cannot be"),
    (["analogy", "RUN"], b"\nkign - man\n", "Line 2: 'kign' is not among the 10 words of"),
    (["contexts", "RUN", "bank"], b"the bank\nthe river\n", "Line 2 does not have the word 'bank'"),
    (["contexts", "RUN", "bank"], b"", "'bank' is in these lines 0 times"),
    (["embed", "RUN"], b"a\n\xff\n", "Line 2 of standard input is not UTF-8"),
]


@pytest.mark.parametrize(("command", "stdin", "sentence"), BAD)
def test_bad_input_is_named(refused, encoder, tmp_path, monkeypatch, command, stdin, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.txt").write_text("\n")
    (tmp_path / "narrow.jsonl").write_text('{"text": "a", "vector": [1, 2]}\n')
    given = [encoder if option == "RUN" else option for option in command]
    assert sentence in refused(*given, code=1, keep=tmp_path, stdin=stdin)


def test_a_table_that_cannot_be_written_is_no_table(cli, encoder, tmp_path):
    said = cli("embed", encoder, "--out", tmp_path / "none" / "v.npy", stdin=BANK)
    assert said.code == 2
    assert f"there is no folder {tmp_path / 'none'}; make it first" in said.err
    (tmp_path / "v.npy").mkdir()
    said = cli("embed", encoder, "--out", tmp_path / "v.npy", stdin=BANK)
    assert said.code == 2
    assert "v.npy: it is a folder; name a file." in said.err
    assert list(tmp_path.rglob("*")) == [tmp_path / "v.npy"]


def test_windows_are_as_long_as_in_training(recipe, tmp_path):
    from glassformer.run import train

    run = train(recipe, {"train.length": 8, "train.steps": 1}, tmp_path / "run")
    assert max(len(part) for part in run.reader.windows("the quick brown fox jumps")) == 8
