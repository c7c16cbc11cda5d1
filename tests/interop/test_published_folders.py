"""Folders of published models as their users have them: opened, imported, exported, damaged."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

import glassformer as gf
import published_families as families
from glassformer.errors import CheckpointError, ConfigError
from glassformer.interop.parity import _parity
from glassformer.run.export import export_run
from glassformer.run.folder import import_published
from properties.mutated_files import Outcomes, mutated_files

KINDS = [
    *("gpt2", "llama-3", "mistral", "qwen3", "gemma", "bert-masked", "bert-tags"),
    *("roberta-classes", "distilbert-classes", "t5-1.1", "bart", "marian", "vit-wide"),
]


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


@pytest.mark.parametrize("name", KINDS)
def test_every_row_of_verify_holds_on_an_imported_model(name, folder, tmp_path, cli):
    imported = cli("import", folder(name), "--run", tmp_path / "run", "--json")
    assert (imported.code, imported.json["task"]) == (0, gf.load(folder(name)).task.recipe.task)
    said = cli("verify", tmp_path / "run")
    assert said.code == 0, said.out
    assert "rows passed" in said.out


@pytest.mark.parametrize("name", KINDS)
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
    with pytest.raises(CheckpointError, match="has 17 tokens and its model 13; they are of diff"):
        gf.load(place)


def test_tensors_may_be_spread_over_files_with_an_index(folder, tmp_path):
    place = changed(folder("llama"), tmp_path / "sharded")
    tensors = load_file(place / "model.safetensors")
    (place / "model.safetensors").unlink()
    names, index = sorted(tensors), {}
    for number in range(3):
        own = names[number::3]
        file = f"model-0000{number + 1}-of-00003.safetensors"
        save_file({name: tensors[name] for name in own}, place / file)
        index |= dict.fromkeys(own, file)
    file = place / "model.safetensors.index.json"
    file.write_text(json.dumps({"weight_map": index}))
    whole, spread = gf.load(folder("llama")).model, gf.load(place).model
    for (name, one), other in zip(whole.named_parameters(), spread.parameters(), strict=True):
        assert torch.equal(one, other), name
    for bad, sentence in {
        "../model.safetensors": "names the file '../model.safetensors', which is no safetensors",
        "other.safetensors": "lacks other.safetensors, which its index names",
        index[names[1]]: f"says that {index[names[1]]} holds {names[0]}, which it does not",
    }.items():
        file.write_text(json.dumps({"weight_map": index | {names[0]: bad}}))
        with pytest.raises(CheckpointError, match=sentence):
            gf.load(place)


@pytest.mark.parametrize(
    ("name", "keys", "sentence"),
    [
        ("gpt2", {"model_type": "gpt22"}, "model_type 'gpt22', which is not known; did you mean"),
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
        ("bert-classes", {"problem_type": "regression"}, "a number in place of classes"),
        ("bart", {"encoder_layers": 1}, "encoder_layers=1 and decoder_layers=2"),
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
    "name", ["gpt2", "qwen3", "bert-tags", "roberta-classes", "t5", "vit-wide"]
)
def test_an_exported_run_reads_and_computes_the_same_there(name, folder, tmp_path):
    """Tokenizer, class names and numbers, through transformers' own loading."""
    run = import_published(folder(name), tmp_path / "run")
    exported = export_run(tmp_path / "run", out=tmp_path / "out")
    assert exported.parity is not None
    assert exported.parity.same == 1
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


@pytest.mark.parametrize("name", ["gpt2", "bert-classes", "bart", "vit-wide"])
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
    """As in files of before 2021, in bart-base, and where no class is named."""
    for number, (name, classes) in enumerate(
        [
            ("t5", ["T5WithLMHeadModel"]),
            ("bart", ["BartModel"]),
            ("bert-pretraining", None),
            ("bert-classes", None),
            ("distilbert", None),
            ("gpt2", None),
        ]
    ):
        place = changed(folder(name), tmp_path / str(number), architectures=classes)
        whole, found = gf.load(folder(name)), gf.load(place)
        assert found.task.recipe.task == whole.task.recipe.task
        for one, other in zip(whole.model.parameters(), found.model.parameters(), strict=True):
            assert torch.equal(one, other)


def test_names_of_classes_that_occur_twice_get_their_number(folder, tmp_path):
    names = {"0": "crane", "1": "heron", "2": "crane"}
    place = changed(folder("bert-classes"), tmp_path / "twice", id2label=names)
    assert gf.load(place).classes == ("crane", "heron", "crane (2)")


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


def test_a_single_file_is_taken_before_an_index(folder, tmp_path):
    place = changed(folder("gpt2"), tmp_path / "both")
    (place / "model.safetensors.index.json").write_text('{"weight_map": {"a": "b.safetensors"}}')
    assert gf.load(place).model.n_parameters == gf.load(folder("gpt2")).model.n_parameters


def test_parity_sees_outputs_that_are_no_numbers():
    ones, nothing = torch.ones(2, 3), torch.full((2, 3), float("nan"))
    assert _parity("x", [(ones, ones)]).agrees
    assert not _parity("x", [(ones, ones), (ones, nothing)]).agrees


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
