"""Folders of published models as their users have them: opened, imported, exported, damaged."""

import json
import re
import shutil
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

import glassformer as gf
import published_families as families
from every import slow_but
from glassformer.core.errors import CheckpointError, ConfigError
from glassformer.families import FAMILIES
from glassformer.interop.configuration import published_keys, read_published
from glassformer.interop.parity import compare_outputs
from glassformer.interop.weights import fill, tensors_of
from glassformer.run.export import export_run
from glassformer.run.folder import import_published
from properties.mutated_files import Outcomes, mutated_files
from small_adapters import stir

KINDS = [
    *("gpt2", "llama-3", "mistral", "qwen3", "gemma", "bert-masked", "bert-tags"),
    *(
        "roberta-classes",
        "distilbert-classes",
        "t5-1.1",
        "bart",
        "marian",
        "vit-wide",
        "deit-teacher",
    ),
]

CUT = {"height": 8, "width": 12}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Whole folders, each written once; a test may not change them."""
    made: dict[str, Path] = {}

    def of(name: str) -> Path:
        if name not in made:
            made[name] = families.complete(name, tmp_path_factory.mktemp(name) / name)
        return made[name]

    return of


def changed(folder: Path, place: Path, **keys) -> Path:
    """A copy with other keys in its config.json; None takes one out."""
    shutil.copytree(folder, place)
    values = json.loads((place / "config.json").read_text()) | keys
    kept = {key: value for key, value in values.items() if value is not None}
    (place / "config.json").write_text(json.dumps(kept))
    return place


@pytest.mark.parametrize("name", slow_but(KINDS, "gemma", "bert-tags", "marian", "vit-wide"))
def test_every_row_of_verify_holds_on_an_imported_model(name, folder, tmp_path, cli):
    imported = cli("import", folder(name), "--run", tmp_path / "run", "--json")
    assert (imported.code, imported.json["task"]) == (0, gf.load(folder(name)).task.recipe.task)
    said = cli("verify", tmp_path / "run")
    assert said.code == 0, said.out
    assert "rows passed" in said.out


@pytest.mark.parametrize("name", slow_but(KINDS, "gpt2", "bert-tags", "marian", "deit-teacher"))
def test_a_folder_opens_as_it_is_and_after_import(name, folder, tmp_path):
    """Nothing is written beside it, and both read an input alike."""
    before = sorted(folder(name).iterdir())
    there, here = gf.load(folder(name)), import_published(folder(name), tmp_path / "run")
    assert sorted(folder(name).iterdir()) == before
    given = there.task.first_input()
    batches = [run.encode(given).batch for run in (there, here)]
    assert torch.equal(batches[0].elements, batches[1].elements)
    for one, other in zip(there.model.parameters(), here.model.parameters(), strict=True):
        assert torch.equal(one, other)
    assert there.options() == here.options()
    assert here.task.recipe.processor == there.task.recipe.processor
    with pytest.raises(ConfigError, match="already holds a model; choose another --run"):
        import_published(folder(name), tmp_path / "run")


def test_sentence_embeddings_are_those_that_their_folder_describes(folder, tmp_path, cli):
    place = changed(folder("bert"), tmp_path / "sentences")
    modules = [("", "models.Transformer"), ("1_Pooling", "models.Pooling"),
               ("2_Normalize", "models.Normalize")]  # fmt: skip
    rows = [{"path": path, "type": f"sentence_transformers.{kind}"} for path, kind in modules]
    (place / "modules.json").write_text(json.dumps(rows))
    (place / "1_Pooling").mkdir()
    texts = ["the cat sat", "a dog ran on the mat"]
    oracle = families.oracle("bert", place)
    for key, take in {
        "pooling_mode_mean_tokens": lambda states: states.mean(0),
        "pooling_mode_cls_token": lambda states: states[0],
    }.items():
        (place / "1_Pooling" / "config.json").write_text(json.dumps({key: True}))
        run = gf.load(place)
        ids = [torch.tensor([run.reader.windows(text)[0].tolist()]) for text in texts]
        with torch.no_grad():
            expected = [take(oracle(one).last_hidden_state[0]) for one in ids]
        unit = torch.nn.functional.normalize(torch.stack(expected), dim=1)
        assert_close(torch.from_numpy(run.embed(texts)), unit, rtol=0, atol=1e-6)
    for name, values in {
        "sentence_bert_config.json": {"max_seq_length": 5, "do_lower_case": True},
        "config_sentence_transformers.json": {
            "prompts": {"query": "a dog ", "plain": ""}, "default_prompt_name": "plain",
        },
    }.items():  # fmt: skip
        (place / name).write_text(json.dumps(values))
    (place / "modules.json").write_text(json.dumps(rows[:2]))  # without a normalization
    cut = run.reader.framed(run.tokenizer.encode("the mat on"))
    import_published(place, tmp_path / "run")
    for run in (gf.load(place), gf.load(tmp_path / "run")):
        with torch.no_grad():
            expected = oracle(torch.tensor([cut.tolist()])).last_hidden_state[0, 0].numpy()
        np.testing.assert_allclose(run.embed("THE mat on a dog ran"), expected, atol=1e-5)
        longer = run.embed("the cat", prompt="query")
        assert np.array_equal(longer, run.embed("a dog the cat"))
        assert np.array_equal(longer, run.embed("a dog the mat"))  # which is cut off
        with pytest.raises(ConfigError, match="no prompt 'querry'; did you mean 'query'"):
            run.embed("the cat", prompt="querry")
    said = cli("embed", place, "--prompt", "query", stdin=b"the cat\n")
    assert json.loads(said.out)["vector"] == pytest.approx(longer.tolist(), abs=1e-6)
    (place / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": "long"}))
    with pytest.raises(CheckpointError, match="max_seq_length='long' is no number of tokens"):
        gf.load(place)
    (place / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_max_tokens": True}))
    with pytest.raises(CheckpointError, match="describes no embedding that is known here"):
        gf.load(place)


def test_a_tokenizer_may_have_special_symbols_that_the_model_has_no_row_for(folder, tmp_path):
    """As <mask> of bart-large-cnn: no text has it, and ids that do are refused."""
    whole, place = gf.load(folder("bart")), changed(folder("bart"), tmp_path / "surplus")
    whole.tokenizer.with_symbols(["<last>"]).save(place / "tokenizer.json")
    run = gf.load(place)
    assert run.tokenizer.vocab_size == run.model.config.vocab_size + 1 == 14
    text = "the cat <last> sat"
    assert run.translate(text) == whole.translate(text)
    for given in ([3, 13], ([3], [13])):
        with pytest.raises(ConfigError, match="holds token id 13; this model's ids run from 0 to"):
            run.look(given)
    definition = json.loads((place / "tokenizer.json").read_text())
    definition["model"]["vocab"] |= {"cow": 9, "hen": 10, "pig": 11}  # before <eos> and others
    (place / "tokenizer.json").write_text(json.dumps(definition))
    with pytest.raises(
        CheckpointError,
        match="has 17 tokens and its model rows for 13",
    ):
        gf.load(place)


def test_tensors_may_be_spread_over_files(folder, tmp_path):
    place = changed(folder("llama"), tmp_path / "sharded")
    tensors = load_file(place / "model.safetensors")
    (place / "model.safetensors").unlink()
    names, files = sorted(tensors), [f"model-0000{n + 1}-of-00003.safetensors" for n in range(3)]
    for number, file in enumerate(files):
        save_file({name: tensors[name] for name in names[number::3]}, place / file)
    whole, spread = gf.load(folder("llama")).model, gf.load(place).model
    for (name, one), other in zip(whole.named_parameters(), spread.parameters(), strict=True):
        assert torch.equal(one, other), name
    more = {name: tensors[name] for name in names[1::3]}
    for name, sentence in {
        "model.extra": r"holds the tensor model\.extra, which models of type llama do not have",
        names[0]: f"{files[1]} holds {names[0]}, and {files[0]} holds the same tensor",
    }.items():
        save_file(more | {name: torch.ones(3)}, place / files[1])
        with pytest.raises(CheckpointError, match=sentence):
            gf.load(place)
    (place / files[1]).unlink()
    with pytest.raises(CheckpointError, match=r"has 2 files of weights, and .* is one of 3"):
        gf.load(place)


@pytest.mark.parametrize(
    ("name", "keys", "sentence"),
    [
        (
            "gpt2",
            {"model_type": "gpt22"},
            "model_type 'gpt22', which is not known; known are gpt2,",
        ),
        ("gpt2", {"architectures": ["GPT2DoubleHeadsModel"]}, "class GPT2DoubleHeadsModel are not"),
        (
            "gpt2",
            {"scale_attn_weights": False},
            "scale_attn_weights=False, and models of type gpt2",
        ),
        ("gpt2", {"activation_function": "mish"}, "activation_function='mish'; known are gelu"),
        ("gpt2", {"n_embd": None}, "lacks the key 'n_embd'"),
        ("gpt2", {"n_embd": "wide"}, "describes no model of glassformer: .*d_model"),
        ("gpt2", {"n_layer": 3}, r"lacks the tensor h\.2\.ln_1\.weight, from which"),
        ("gpt2", {"n_layer": 1}, r"holds the tensor transformer\.h\.1\..*; it would be lost"),
        ("gpt2", {"n_layer": 9000}, "tensors, too few for n_layers=9000"),
        ("gpt2", {"n_positions": 1 << 24}, r"wpe\.weight has shape \(80, 8\), from which"),
        ("gpt2", {"vocab_size": 1 << 24, "n_embd": 1 << 20, "n_head": 1}, "GB of memory"),
        ("llama", {"rope_parameters": {"rope_type": "yarn"}}, "angles scaled as 'yarn'"),
        ("qwen3", {"use_sliding_window": True}, "use_sliding_window=True"),
        ("bert", {"position_embedding_type": "relative_key"}, "position_embedding_type="),
        ("bert-classes", {"problem_type": "regression"}, "problem_type='regression', a number in"),
        ("bert-classes", {"num_labels": 1, "id2label": None}, "num_labels=1, a number in"),
        ("bert-classes", {"id2label": {"0": "x"}}, "id2label={'0': 'x'}, a number in"),
        ("llama", {"partial_rotary_factor": 0.5}, "angles for a part of each head"),
        ("bart", {"encoder_ffn_dim": 8}, "encoder_ffn_dim=8 and decoder_ffn_dim=12"),
        ("t5-1.1", {"feed_forward_proj": "gated-mish"}, "describes|lacks the key"),
    ],
)
def test_a_model_that_is_not_known_is_one_sentence(folder, tmp_path, name, keys, sentence):
    with pytest.raises(CheckpointError, match=sentence):
        gf.load(changed(folder(name), tmp_path / "changed", **keys))


def test_weights_in_a_pickle_are_refused_unopened(folder, tmp_path):
    place = changed(folder("gpt2"), tmp_path / "pickled")
    (place / "model.safetensors").rename(place / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="which may run code when it is opened; convert it"):
        gf.load(place)


def test_numbers_that_are_not_finite_are_refused(folder, tmp_path):
    place = changed(folder("gpt2"), tmp_path / "infinite")
    for value in (np.nan, np.inf, -np.inf):
        tensors = load_file(place / "model.safetensors")
        tensors["transformer.ln_f.bias"][3] = value
        save_file(tensors, place / "model.safetensors")
        with pytest.raises(CheckpointError, match=r"ln_f\.bias holds values that are not finite"):
            gf.load(place)


def test_half_precision_is_read_as_float32(folder, tmp_path):
    place = changed(folder("gpt2"), tmp_path / "half")
    tensors = load_file(place / "model.safetensors")
    halves = {name: one.bfloat16() for name, one in tensors.items()}
    save_file(halves, place / "model.safetensors")
    model = gf.load(place).model
    assert model.embed.element.weight.dtype == torch.float32
    assert torch.equal(model.embed.element.weight, halves["transformer.wte.weight"].float())


@pytest.mark.parametrize(
    "name",
    slow_but(
        ["gpt2", "qwen3", "bert-tags", "roberta-classes", "t5", "vit-wide", "deit"],
        *("gpt2", "bert-tags", "vit-wide"),
    ),
)
def test_an_exported_run_reads_and_computes_the_same_there(name, folder, tmp_path, monkeypatch):
    """Tokenizer, class names and numbers, through transformers' own loading."""
    run = import_published(folder(name), tmp_path / "run")
    exported = export_run(tmp_path / "run", out=tmp_path / "out")
    assert exported.parity is not None
    assert exported.parity.same == 1
    assert exported.parity.same_tokens == exported.parity.tokens
    assert (exported.parity.tokens > 0) == run.model.config.predicts_next
    card = (tmp_path / "out" / "README.md").read_text()
    assert f"{exported.parity}." in card
    monkeypatch.chdir(tmp_path / "out")
    exec(card.split("```python")[1].split("```")[0], loaded := {})
    assert type(loaded["model"]).__name__ == exported.name
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert card.count("library_name") == card.count("## The original") == 1
    assert "imported from the published model" in card.partition("## The original")[2]
    again = gf.load(tmp_path / "out")
    assert again.classes == run.classes
    if run.model.config.reads_patches:
        assert again.processor.reader.config == run.processor.reader.config
        return
    theirs = families.transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    for text in ("the cat sat on a mat", "A dog", ""):
        assert (
            theirs(text)["input_ids"]
            == run.processor.reader.frame.one(run.tokenizer.encode(text)).tolist()
        )
    with pytest.raises(ConfigError, match="is there already; give a new folder"):
        export_run(tmp_path / "run", out=tmp_path / "out")


@pytest.mark.parametrize("name", slow_but(["gpt2", "bert-classes", "bart", "vit-wide"], "gpt2"))
def test_mutated_files_are_told_or_harmless(name, folder, tmp_path):
    mutated_files(folder(name), tmp_path, 12, found := Outcomes())
    assert found.problems == []
    assert found.cases >= 12 * 3
    assert found.seconds < 5


@pytest.mark.parametrize(("name", "command"), [("bert-tags", "tag"), ("bert-classes", "classify")])
def test_commands_work_on_a_published_folder_itself(name, command, folder, tmp_path, cli):
    place, out = folder(name), tmp_path / "out.jsonl"
    (tmp_path / "in.jsonl").write_text('{"text": "the cat sat", "words": ["a", "dog"]}\n')
    before = {path: path.read_bytes() for path in place.iterdir()}
    assert cli(command, place, stdin=b"the cat sat on a mat\n").code == 0
    assert cli(command, place, "--in", tmp_path / "in.jsonl", "--out", out).code == 0
    assert json.loads(out.read_text())["text"] == "the cat sat"
    assert cli("verify", place).code == 0
    assert {path: path.read_bytes() for path in place.iterdir()} == before


def test_older_and_other_names_of_a_class_are_known(folder, tmp_path):
    """As in files of before 2021, in bart-base, and the first one where no class is named."""
    for number, (name, classes) in enumerate(
        [
            ("t5", ["T5WithLMHeadModel"]),
            ("bart", ["BartModel"]),
            ("gpt2", None),
        ]
    ):
        place = changed(folder(name), tmp_path / str(number), architectures=classes)
        whole, found = gf.load(folder(name)), gf.load(place)
        assert found.task.recipe.task == whole.task.recipe.task
        for one, other in zip(whole.model.parameters(), found.model.parameters(), strict=True):
            assert torch.equal(one, other)


@pytest.mark.parametrize(
    "settings",
    [
        {"size": {"height": 12, "width": 16}, "do_center_crop": True, "crop_size": CUT},
        {"size": 16, "do_center_crop": True, "crop_size": CUT},
        {"size": {"shortest_edge": 16}, "do_center_crop": True, "crop_size": CUT},
        {"size": CUT, "crop_size": {"height": 20, "width": 20}},
    ],
    ids=["stretched", "square", "shorter side", "not cut"],
)
def test_images_are_read_as_the_published_processor_reads_them(settings, folder, tmp_path):
    """As those of DeiT (256 and 224): resized to one size, cut to another."""
    place = changed(folder("vit-wide"), tmp_path / "vit")
    path = place / "preprocessor_config.json"
    own = json.loads(path.read_text()) | {"resample": 3, **settings}
    path.write_text(json.dumps(own))
    theirs = families.transformers.ViTImageProcessorPil(**own)
    run = gf.load(place)
    reader = run.processor.reader
    export = export_run(place, out=tmp_path / "out")
    assert export.parity is not None
    assert gf.load(tmp_path / "out").processor.reader.config == reader.config
    for shape in ((40, 30), (9, 31), (8, 12)):
        pixels = np.random.default_rng(0).integers(0, 256, (*shape, 3), np.uint8)
        wanted = theirs(Image.fromarray(pixels), return_tensors="pt")["pixel_values"]
        found = reader.normalize(reader.fit(pixels)[None])
        # the same bytes; (x / 255 - mean) / std is rounded in float32
        assert_close(found.permute(0, 3, 1, 2), wanted, rtol=0, atol=1e-6)


def test_names_of_classes_that_occur_twice_get_their_number(folder, tmp_path):
    names = {"0": "crane", "1": "heron", "2": "crane"}
    place = changed(folder("bert-classes"), tmp_path / "twice", id2label=names)
    assert gf.load(place).classes == ("crane", "heron", "crane (2)")


def test_a_file_in_place_of_a_folder_and_a_pickle_are_refused(folder, tmp_path):
    (file := tmp_path / "model.gguf").write_bytes(b"GGUF")
    with pytest.raises(CheckpointError, match=r"model\.gguf is a file, and a model is opened by"):
        gf.load(file)
    (place := tmp_path / "out").mkdir()
    (place / "ckpt.pt").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"in ckpt\.pt, which may run code .* nanoGPT"):
        gf.load(place)


def hub(place: Path, commit: str) -> type[BaseHTTPRequestHandler]:
    """What stands in for the Hub: one model, whose files are those of a folder."""

    class Hub(BaseHTTPRequestHandler):
        asked: ClassVar[list[str]] = []

        def do_GET(self, body: bool = True) -> None:
            self.asked.append(self.path)
            api, file = (
                "/api/models/some/model",
                self.path.removeprefix(f"/some/model/resolve/{commit}/"),
            )
            if self.path.startswith(api):
                names = [path.relative_to(place).as_posix() for path in place.rglob("*")]
                values = {"id": "some/model", "sha": commit}
                content = json.dumps(
                    values | {"siblings": [{"rfilename": n} for n in names]}
                ).encode()
            elif (place / file).is_file():
                content = (place / file).read_bytes()
            else:
                self.send_response(404)
                self.send_header("X-Error-Code", "RepoNotFound")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("ETag", f'"{hash(content)}"')
            self.send_header("X-Repo-Commit", commit)
            self.end_headers()
            self.wfile.write(content if body else b"")

        def do_HEAD(self) -> None:
            self.do_GET(body=False)

        def log_message(self, *arguments) -> None:
            pass

    return Hub


def test_a_model_of_the_hub_is_downloaded_when_a_command_names_it(
    folder, tmp_path, cli, monkeypatch
):
    place, commit = changed(folder("gpt2"), tmp_path / "there"), "0123abc" * 5 + "01234"
    (place / "pytorch_model.bin").write_bytes(b"a pickle")
    (place / "onnx").mkdir()
    (place / "onnx" / "config.json").write_text("{}")
    handler = hub(place, commit)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.chdir(tmp_path)
    try:
        assert cli("import", "some/model", "--run", "run").code == 0
        missing = cli("import", "some/other", "--run", "run-2")
    finally:
        server.shutdown()
        server.server_close()
    assert commit in (tmp_path / "run" / "README.md").read_text()
    asked = {path.rpartition("/")[2] for path in handler.asked if "/resolve/" in path}
    assert asked == {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json"}
    whole, found = gf.load(folder("gpt2")).model, gf.load(tmp_path / "run").model
    for one, other in zip(whole.parameters(), found.parameters(), strict=True):
        assert torch.equal(one, other)
    assert "the Hub has no such model" in missing.err
    assert not (tmp_path / "run-2").exists()
    away = cli("import", "some/model", "--run", "run-2")  # the server is gone
    assert away.code == 1
    assert "some/model is no folder here, and cannot be downloaded from the Hub" in away.err


def test_a_path_opens_no_socket(folder, tmp_path, cli, monkeypatch):
    """Nor does a path that is mistyped below a folder that is there."""

    tried = []

    def refuse(*arguments, **named):
        tried.append(arguments)
        raise OSError("no network")

    for name in ("socket", "getaddrinfo"):
        monkeypatch.setattr(socket, name, refuse)
    monkeypatch.chdir(folder("gpt2").parent)
    assert cli("import", "gpt2", "--run", tmp_path / "run").code == 0
    for mistyped in ("gpt2/model", folder("gpt2").parent / "some/model", "some", "a/b/c"):
        assert cli("import", mistyped, "--run", tmp_path / "run-2").code == 1
    with pytest.raises(CheckpointError, match="is not a folder"):
        gf.load("some/model")
    assert not tried
    assert cli("import", "some/model", "--run", tmp_path / "run-2").code == 1
    assert tried  # so that the test would see it


def test_what_a_stranger_writes_is_our_error(folder, tmp_path):
    for number, keys in enumerate(
        [
            {"architectures": [["x"]]},
            {"architectures": [{}]},
            {"id2label": None, "num_labels": 10**12},
            {"id2label": None, "num_labels": "many"},
        ]
    ):
        with pytest.raises(CheckpointError):
            gf.load(changed(folder("bert-classes"), tmp_path / str(number), **keys))
    place = changed(folder("bert"), tmp_path / "outside")
    rows = [{"path": "..", "type": "x.Pooling"}, {"path": "", "type": "x.Transformer"}]
    (place / "modules.json").write_text(json.dumps(rows))
    (tmp_path / "config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))
    with pytest.raises(CheckpointError, match="describes no embedding"):
        gf.load(place)


def test_a_matrix_that_is_said_to_be_shared_and_is_not_is_not_lost(folder, tmp_path):
    place = changed(folder("t5"), tmp_path / "untied")
    tensors = load_file(place / "model.safetensors")
    tensors["encoder.embed_tokens.weight"] = tensors["shared.weight"].clone()
    save_file(tensors, place / "model.safetensors")
    assert gf.load(place).model.n_parameters == gf.load(folder("t5")).model.n_parameters
    tensors["encoder.embed_tokens.weight"][0, 0] += 1
    save_file(tensors, place / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"holds the tensor encoder\.embed_tokens\.weight"):
        gf.load(place)


TIED = {
    "gpt2": "gpt2",
    "nanogpt": "nanogpt",
    "llama": "llama-tied",
    "mistral": "mistral",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "gemma": "gemma",
    "bert": "bert-masked",
    "roberta": "roberta-masked",
    "xlm-roberta": "xlm-roberta",
    "camembert": "camembert-masked",
    "distilbert": "distilbert-masked",
    "t5": "t5",
    "bart": "bart",
    "marian": "marian",
}
"""By family, a model whose head is tied."""
EMBEDDING = re.compile(r"(shared|wte|embed_tokens|word_embeddings)\.")


def test_every_family_that_can_be_tied_is_tried():
    assert TIED.keys() == {name for name, family in FAMILIES.items() if family.tied}


@pytest.mark.parametrize("kind", slow_but(TIED, "gpt2", "nanogpt", "bert", "t5", "bart"))
def test_a_head_is_what_the_tensors_hold(kind, tmp_path):
    """Tied in config.json: the head without an embedding, beside an equal one, and another than
    it."""
    place = families.complete(TIED[kind], tmp_path / kind, tie_word_embeddings=True)
    tensors, whole = load_file(place / "model.safetensors"), gf.load(place).model
    assert whole.config.tied
    first = next(one for one in tensors if EMBEDDING.search(one))
    of = FAMILIES[kind]
    head = next(own for own in of.tied if first.endswith(of.tied[own]) and "embed" not in own)
    head = f"_orig_mod.{head}" if kind == "nanogpt" else head
    tensors.pop(head, None)
    embedding = tensors.pop(first)

    def stored(**given):
        save_file({**tensors, **given}, place / "model.safetensors")
        return gf.load(place).model

    for given in ({head: embedding}, {head: embedding.clone(), first: embedding}):
        model = stored(**given)
        assert model.config.tied
        for one, other in zip(model.parameters(), whole.parameters(), strict=True):
            assert torch.equal(one, other)
    model = stored(**{head: embedding + 1, first: embedding})
    assert not model.config.tied
    own = getattr(model.head, "unembed", model.head).weight
    assert torch.equal(own.float(), embedding.float() + 1)


@pytest.mark.parametrize(
    "name",
    slow_but(
        ["gpt2", "gpt2-untied", "qwen3", "bert-masked", "t5", "bart", "nanogpt"],
        *("gpt2-untied", "bert-masked", "t5", "nanogpt"),
    ),
)
def test_rows_without_a_token_are_left_out(name, tmp_path):
    """Padded to 20 rows: what is computed of the others stays."""
    place = families.complete(name, tmp_path / name, vocab_size=20)
    of = read_published(place, published_keys(place) or {})
    whole, run = fill(of, tensors_of(place, of.family.prefix)), gf.load(place)
    assert whole.config.vocab_size == 20
    assert run.model.config.vocab_size == run.tokenizer.vocab_size == 13
    batch = run.encode(run.task.first_input()).batch
    with torch.no_grad():
        assert_close(run.model(batch).logits, whole(batch).logits[..., :13], rtol=0, atol=0)
    assert import_published(place, tmp_path / "run").model.config == run.model.config


def test_an_id_without_a_token_is_text_of_no_length(tmp_path):
    place = families.complete("gpt2", tmp_path / "gap", vocab_size=24)
    definition = json.loads((place / "tokenizer.json").read_text())
    definition["model"]["vocab"]["zebra"] = 20
    (place / "tokenizer.json").write_text(json.dumps(definition))
    run = gf.load(place)
    tokenizer = run.tokenizer
    assert tokenizer.vocab_size == run.model.config.vocab_size == 21
    assert tokenizer.decode([20, 16, 20]).split() == ["zebra", "zebra"]
    assert (tokenizer.token_bytes(16), tokenizer.skips(16)) == (b"", True)
    assert tokenizer.piece(16) == "<unused id 16>"
    assert 16 not in tokenizer.encode("the <unused id 16> mat").tolist()
    for seed in range(4):
        run.generate("the cat", max_new_tokens=30, temperature=5.0, seed=seed)


def test_a_single_file_is_taken_before_others(folder, tmp_path):
    place = changed(folder("gpt2"), tmp_path / "both")
    (place / "model-00001-of-00002.safetensors").write_text("x")
    assert gf.load(place).model.n_parameters == gf.load(folder("gpt2")).model.n_parameters


@pytest.mark.usefixtures("no_grad")
def test_parity_sees_outputs_that_are_no_numbers(folder):
    run = gf.load(folder("bert-classes"))

    def found(*factors):
        left = iter(factors)
        outputs = lambda batch: run.model(batch).logits * next(left, 1.0)
        return compare_outputs("x", run.model, run.task, outputs, lambda _batch, _n: [])

    assert found(1.0).agrees
    assert not found(float("nan")).agrees


def test_parity_sees_other_tokens(folder, monkeypatch):
    """A target with the same logits that generates something else."""
    monkeypatch.setattr("glassformer.interop.parity.INPUTS", 1)
    run = gf.load(folder("gpt2"))

    def found(continued):
        return compare_outputs(
            "x", run.model, run.task, lambda batch: run.model(batch).logits, continued
        )

    with torch.no_grad():
        other, short = found(lambda _batch, n: [5] * n), found(lambda _batch, n: [])
    assert other.tokens > 0
    assert (other.agrees, short.agrees) == (False, False)
    assert other.difference == short.difference == 0


def test_generation_defaults_come_along(folder, tmp_path, cli):
    place = changed(folder("gpt2"), tmp_path / "sampled")
    own = {
        "do_sample": True,
        "temperature": 0.6,
        "top_p": 0.9,
        "typical_p": 0.8,
        "bad_words_ids": [[3]],
    }
    (place / "generation_config.json").write_text(json.dumps(own))
    how = gf.load(place).options()
    assert (how.temperature, how.top_p, how.top_k) == (0.6, 0.9, 50)  # transformers' own default
    assert how.bad_words_ids == ((3,),)
    said = cli("import", place, "--run", tmp_path / "run")
    assert "not taken over from the generation settings: typical_p" in said.out
    assert gf.load(folder("gpt2")).options().temperature == 0
    assert gf.load(folder("bart")).options().beams == 1


@pytest.mark.parametrize("name", ["gpt2", "llama-3", "run"])
def test_files_that_are_overwritten_change_no_opened_model(name, folder, tmp_path):
    """Also where a tensor of the file could be the parameter as it lies there."""
    place = tmp_path / name
    if name == "run":
        import_published(folder("gpt2"), place)
    else:
        shutil.copytree(folder(name), place)
    model, file = gf.load(place).model, place / "model.safetensors"
    before = {name: one.detach().clone() for name, one in model.named_parameters()}
    with file.open("r+b") as stream:
        stream.write(bytes(file.stat().st_size))
    assert all(torch.equal(one, before[name]) for name, one in model.named_parameters())


def test_a_tokenizer_with_more_words_than_rows_names_its_folder(folder, tmp_path):
    place = changed(folder("gpt2"), tmp_path / "grown")
    own = json.loads((place / "tokenizer.json").read_text(encoding="utf-8"))
    rows = json.loads((place / "config.json").read_text())["vocab_size"]
    added = {"id": rows + 3, "content": "zzword", "special": False, "single_word": False}
    own["added_tokens"].append({**added, "lstrip": False, "rstrip": False, "normalized": False})
    (place / "tokenizer.json").write_text(json.dumps(own), encoding="utf-8")
    with pytest.raises(CheckpointError) as caught:
        gf.load(place)
    assert str(place) in str(caught.value)
    assert f"rows for {rows};" in str(caught.value)


@pytest.mark.parametrize("kind", ["gemma2", "opt", "modernbert", "mt5"])
def test_no_other_family_is_offered(folder, tmp_path, kind):
    place = changed(folder("gpt2"), tmp_path / kind, model_type=kind)
    with pytest.raises(CheckpointError, match=f"'{kind}', which is not known; known are "):
        gf.load(place)


def test_quantized_folders_are_named(folder, tmp_path):
    own = {"quant_method": "gptq", "bits": 4}
    place = changed(folder("llama"), tmp_path / "gptq", quantization_config=own)
    with pytest.raises(CheckpointError, match=r"quantization_config \(quant_method='gptq'\)"):
        gf.load(place)
    place = changed(folder("llama"), tmp_path / "older")
    (place / "quantize_config.json").write_text("{}")
    with pytest.raises(
        CheckpointError, match=r"quantize_config\.json is there: the weights are of few"
    ):
        gf.load(place)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"PK\3\4", True),
        (b"\x80\2\x8a\n", True),
        (b"\x80\4\x95\0", True),
        (bytes(64), False),
    ],
)
def test_only_a_pickle_may_run_code(folder, tmp_path, content, code):
    place = changed(folder("gpt2"), tmp_path / "bin")
    (place / "model.safetensors").unlink()
    (place / "model.bin").write_bytes(content)
    with pytest.raises(CheckpointError) as caught:
        gf.load(place)
    assert ("may run code" in str(caught.value)) == code
    (place / "config.json").unlink()
    with pytest.raises(CheckpointError, match="may run code" if code else "holds no config"):
        gf.load(place)


def test_an_adapter_is_imported_with_its_model(folder, tmp_path, cli):
    run, adapter = gf.load(folder("llama")), tmp_path / "adapter"
    gf.finetune.add_adapters(run.model, rank=2, alpha=6, targets=["q_proj"])
    stir(run.model)
    gf.finetune.save_adapter(run.model, adapter)
    said = cli("import", folder("llama"), "--adapter", adapter, "--run", tmp_path / "run")
    assert said.code == 0
    batch = run.encode(run.task.first_input()).batch
    with torch.no_grad():
        merged = gf.load(tmp_path / "run").model(batch).logits
        assert_close(merged, run.model(batch).logits, rtol=0, atol=1e-4)
    said = cli("import", adapter, "--run", tmp_path / "other")
    assert said.code == 1
    assert f"glassformer import MODEL --adapter {adapter} --run runs/mine" in said.err
    said = cli("import", folder("gpt2"), "--adapter", adapter, "--run", tmp_path / "other")
    assert said.code == 1
    assert "no linear map of this model; it is of another model" in said.err
    assert not (tmp_path / "other").exists()


def test_a_vocabulary_without_latin_letters_is_exported(tmp_path):
    """It has no token for the example sentences."""
    place = families.complete("llama", tmp_path / "kana", vocab_size=16)
    letters = [*"いろはにほへとちりぬる"]
    model = {"type": "BPE", "vocab": {c: i for i, c in enumerate(letters)}, "merges": []}
    definition = {"version": "1.0", "added_tokens": [], "model": model}
    for part in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
        definition[part] = None
    (place / "tokenizer.json").write_text(json.dumps(definition), encoding="utf-8")
    exported = export_run(place, to="transformers", out=tmp_path / "out")
    assert exported.parity is not None
    assert exported.parity.inputs == 1
    assert exported.parity.agrees
    export_run(place, to="transformers", out=tmp_path / "unchecked", check=False)
