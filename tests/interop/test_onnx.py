"""ONNX graphs in onnxruntime compute what the models do: every configuration, padding on either
side, the cache in pieces; and the program in an export's README.md runs it without this package."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from PIL import Image, ImageOps

import glassformer as gf
import tiny
from every import slow_but
from glassformer.core.batch import Batch, Positions
from glassformer.core.errors import ConfigError
from glassformer.finetune.adapters import add_adapters, quantize
from glassformer.interop.onnx.graphs import features, graphs
from glassformer.interop.targets.onnx import differences, program, write
from glassformer.media.audio import AudioConfig, AudioReader
from glassformer.media.image import ImageConfig, ImageReader
from glassformer.models import ModelConfig, Transformer
from glassformer.models.presets import TABLE
from small_kinds import MAKERS
from small_runs import go
from small_senses import half
from small_tasks import LEARNING

# float32 rounds at 6e-8; outputs here are about 10, of sums of up to 32 such terms in two layers.
CLOSE = 2e-5
LENGTHS = 7, 4, 1

ENCODER = {"architecture": "encoder", "head": "tag", "n_classes": 3}
CROSSED = {"architecture": "encoder_decoder"}
CLASSES = {"head": "classify", "n_classes": 3}
PATCHES = {
    **{"architecture": "encoder", "elements": "patches", "tied": False, "grid": (2, 4)},
    **{"patch": (2, 2), "patch_width": 12, "max_length": 8, **CLASSES},
}
MODERN = {"norm": "rms", "position": "rotary", "qk_norm": True, "activation": "relu_squared"}
ONE = {"n_layers": 1}
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "t5": CROSSED
    | ONE
    | {"position": "buckets", "norm": "rms", "scale": "none", "head_scale": True},
    "vit": PATCHES | ONE | {"pool": "first"},
}
"""An encoder, a decoder with a cache and a source, patches with a head."""
MORE: dict[str, dict[str, Any]] = {
    "modern": MODERN | {"bias": False, "attention_bias": False, "n_kv_heads": 2},
    "classes": {**CLASSES, "architecture": "encoder", "position": "sinusoidal", "pooler": True},
    "alibi": {"position": "alibi", "n_kv_heads": 1, "window": 4, "n_token_types": 2},
    "llama 3": {
        **{"position": "rotary", "rotary_factor": 4.0, "rotary_wavelengths": (2.0, 20.0)},
        **{"activation": "silu", "gated": True, "window": 3, "tied": False},
    },
    "concatenated": {
        **{"position_combination": "concatenate", "position": "sinusoidal_printed"},
        **{"tied": False, "head_bias": True, "activation": "gelu_tanh", "first_position": 1},
    },
    "bias inside": {
        **{"position": "relative", "bias_placement": "inside", "scale": "model", "d_head": 6},
        **{"residual": False, "norm_placement": "post"},
    },
    "scaled": {"embedding_scale": True, "embedding_norm": True, "activation": "identity"},
    "bert": ENCODER
    | {"norm_placement": "post", "embedding_norm": True, "n_token_types": 2, "tied": False},
    "masked words": {"architecture": "encoder", "head": "masked_lm", "position": "learned"},
    "vectors": {"architecture": "encoder", "head": "pool", "pool": "mean", "position": "relative"},
    "stream": {"architecture": "encoder", "head": "none", "position": "buckets"},
    "tags of a decoder": {
        **ENCODER,
        **{"architecture": "decoder", "position": "none", "activation": "tanh", "gated": True},
    },
    "last of a decoder": CLASSES
    | {"architecture": "decoder", "pool": "last", "position": "sinusoidal_halves"},
    "marian": CROSSED
    | {
        **{"norm_placement": "post", "n_kv_heads": 2, "window": 4, "source_vocab_size": 15},
        **{"n_token_types": 2, "embedding_norm": True, "activation": "relu"},
    },
    "own source positions": CROSSED | {"own_source_positions": True, "position": "learned"},
    "deit": PATCHES | {"pool": "first", "n_registers": 2, "distilled": True},
    "registers": PATCHES
    | {"pool": "mean", "n_registers": 2, "position_combination": "concatenate"},
    "rotary_2d": PATCHES | {"position": "rotary_2d", "pool": "last", "window": 3},
    "stem": PATCHES | {"position": "sinusoidal_2d", "stem": (6, 5), "pool": "first"},
    "stream of patches": PATCHES | {"position": "buckets", "head": "none", "n_classes": None},
}
"""One of each kind of position, norm, activation, mask, head and pooling."""


def session(graph, folder: Path, name: str = "model") -> onnxruntime.InferenceSession:
    file = folder / f"{name}.onnx"
    graph.save(file)
    onnx.checker.check_model(str(file), full_check=True)
    return onnxruntime.InferenceSession(str(file))


def run(graph, **given: Any) -> dict[str, np.ndarray]:
    taken = {one.name for one in graph.get_inputs()}
    given = {name: np.asarray(values) for name, values in given.items() if name in taken}
    names = [one.name for one in graph.get_outputs()]
    return dict(zip(names, graph.run(None, given), strict=True))


def pieces(graph, config: ModelConfig, **given: Any) -> np.ndarray:
    """Logits of 3, 1 and 3 elements, each read after the cache of those before."""
    empty = np.zeros((len(LENGTHS), config.kv_heads, 0, config.head_width), np.float32)
    names = [one.name for one in graph.get_inputs() if one.name.startswith("past_")]
    past, found = dict.fromkeys(names, empty), []
    for begin, end in ((0, 3), (3, 4), (4, 7)):
        new = {name: given[name][:, begin:end] for name in ("input_ids", "token_type_ids")}
        mask = given["attention_mask"][:, :end]
        logits, *caches = run(graph, **(given | new | past | {"attention_mask": mask})).values()
        past = dict(zip(names, caches, strict=True))
        found.append(logits)
    return np.concatenate(found, 1)


def of_tokens(
    model: Transformer, opened: dict[str, onnxruntime.InferenceSession], left: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Outputs of three padded rows in onnxruntime, and of each alone here, at the real elements."""
    config = model.config
    where = Positions.pad(LENGTHS, "left" if left else "right")
    ids, kinds = tiny.tokens(3, 7), tiny.tokens(3, 7, seed=2) % 2
    mask = where.valid.long().numpy()
    given = {"input_ids": ids.numpy(), "token_type_ids": kinds.numpy(), "attention_mask": mask}
    sources: list[Batch | None] = [None] * 3
    if "encoder" in opened:
        source = tiny.tokens(3, 7, seed=1)
        given |= run(opened["encoder"], **(given | {"input_ids": source.numpy()}))
        given |= {"encoder_attention_mask": mask}
        for row, real in enumerate(where.valid):
            own = kinds[None, row, real] if config.n_token_types else None
            sources[row] = Batch(source[None, row, real], token_type_ids=own)
    graph = opened.get("decoder") or opened["model"]
    if config.predicts_next:
        got = pieces(graph, config, **given)
    else:
        (got,) = run(graph, **given).values()
    ours, theirs = [], []
    typed = config.n_token_types and "encoder" not in opened
    for row, real in enumerate(where.valid):
        own = kinds[None, row, real] if typed else None
        batch = Batch(ids[None, row, real], token_type_ids=own, source=sources[row])
        ours.append(model(batch).logits[0].numpy())
        theirs.append(got[row] if config.one_output else got[row][real.numpy()])
    return np.concatenate(theirs), np.concatenate(ours)


def stirred(**changes: Any) -> Transformer:
    values = {"d_model": 16, "max_distance": 5, "d_ff": 24}
    return tiny.stir(Transformer(tiny.config(**(values | changes)))).eval()


@torch.no_grad()
def check(changes: dict[str, Any], folder: Path) -> None:
    model = stirred(**changes)
    if model.config.reads_patches:
        patches = torch.randn(3, 8, 12, generator=torch.Generator().manual_seed(1))
        (got,) = run(session(graphs(model)["model"], folder), patches=patches).values()
        np.testing.assert_allclose(got, model(Batch(patches)).logits, rtol=0, atol=CLOSE)
        return
    opened = {name: session(g, folder, name) for name, g in graphs(model).items()}
    for left in (False, True):
        np.testing.assert_allclose(*of_tokens(model, opened, left), rtol=0, atol=CLOSE)


@pytest.mark.parametrize("name", slow_but(CONFIGURATIONS, "t5"))
def test_a_graph_computes_what_the_model_does(name, tmp_path):
    assert differences(stirred(**CONFIGURATIONS[name]).config) == []
    check(CONFIGURATIONS[name], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", MORE)
def test_every_configuration(name, tmp_path):
    check(MORE[name], tmp_path)


def test_features_of_audio_are_those_of_the_reader(tmp_path):
    values = {"rate": 8000, "seconds": 0.2, "n_mels": 16, "patch": (5, 8)}
    mean, std = [-8.0 + i / 4 for i in range(16)], [1.5 + i / 8 for i in range(16)]
    reader = AudioReader(AudioConfig.parse(values | {"mean": mean, "std": std}))
    clips = np.random.default_rng(0).standard_normal((3, 1600)).astype(np.float32)
    (got,) = run(session(features(reader), tmp_path), samples=clips).values()
    # both transforms round sums of 200 products; logarithms of powers of about 1
    np.testing.assert_allclose(
        got, reader.patches(reader.spectrogram(clips)).numpy(), rtol=0, atol=1e-4
    )


@pytest.mark.parametrize(
    "how",
    [
        {"resize": "stretch"},
        {"resize": "stretch", "resize_to": (14, 17)},
        {"resize": "crop", "resize_to": 15},
    ],
    ids=["stretched", "cut", "cut from the shorter side"],
)
def test_the_program_prepares_a_photograph_as_the_reader_does(how, tmp_path, monkeypatch):
    values = {"size": (8, 12), "channels": 3, "patch": 4, "interpolation": "bicubic"}
    reader = ImageReader(ImageConfig.parse(values | how))
    model = SimpleNamespace(model=tiny.config(**PATCHES))
    code = program(SimpleNamespace(recipe=model, processor=SimpleNamespace(reader=reader)))
    code = code[code.index("image = Image.open") : code.index("model = InferenceSession")]
    for shape in ((40, 31, 3), (17, 30, 3)):
        pixels = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
        Image.fromarray(pixels).save(tmp_path / "photo.png")
        monkeypatch.chdir(tmp_path)
        exec(code, done := {"Image": Image, "ImageOps": ImageOps, "np": np})
        assert np.array_equal(done["given"]["pixels"][0], reader.fit(pixels))


def test_what_has_no_graph_is_told_with_the_field(tmp_path):
    mixed = tiny.config(parts={"image": 5})
    assert differences(mixed) == ["parts={'image': 5}, patches among tokens"]
    crossed = differences(tiny.config(**CROSSED, **CLASSES))
    assert crossed == ["head='classify' of an encoder-decoder"]
    with pytest.raises(ConfigError, match=r"no ONNX graph: parts=\{'image'"):
        write(Transformer(mixed), None, tmp_path)


def test_a_weight_that_the_configuration_does_not_have_is_refused_by_name():
    model = stirred()
    model.decoder.register_parameter("temperature", torch.nn.Parameter(torch.ones(1)))
    with pytest.raises(ConfigError, match=r"would ignore the weight decoder\.temperature"):
        graphs(model)


@torch.no_grad()
def test_adapters_are_merged_and_integers_become_what_they_stand_for():
    model, ids = stirred(), tiny.tokens(2, 5)
    quantize(model)
    add_adapters(model, rank=2)
    tiny.stir(model)
    plain = graphs(model)["model"].module
    assert isinstance(plain, Transformer)
    assert plain.state_dict().keys() == stirred().state_dict().keys()
    torch.testing.assert_close(plain(ids).logits, model(ids).logits, rtol=0, atol=CLOSE)


def printed(folder: Path) -> list[str]:
    """The lines that the program in a folder's README.md prints, without this package or torch."""
    code = (folder / "README.md").read_text("utf-8").split("```python\n")[1].split("```")[0]
    code += "\nimport sys\nassert not {'glassformer', 'torch'} & sys.modules.keys()\n"
    places = [str(Path(one.__file__).parents[1]) for one in (onnxruntime, np)]
    said = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(places)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    return said.stdout.splitlines()


def preset(name: str, **changes: Any) -> dict[str, Any]:
    """Fields of a preset at a small size."""
    own = {
        key: value
        for key, value in TABLE[name].items()
        if key not in ("size", "sizes", "vocab_size")
    }
    small = {"d_model": 16, "n_heads": 2, "n_layers": 2, "max_length": 48, "dropout": 0.0}
    return {"position": "learned"} | own | small | {"attention_dropout": 0.0} | changes


BERT = preset("bert", pool="first")
KINDS: dict[str, dict[str, Any]] = {
    "text": preset("qwen3"),
    "classes": BERT | {"head": "classify"},
    "tags": BERT | {"head": "tag", "pooler": False},
    "pairs": preset("t5", d_head=8),
    "pictures": preset("vit", grid=None, n_classes=None) | {"patch_width": 4, "max_length": 16},
}
"""A language model, classifier, tagger, translator and ViT, whose configurations have a published
class."""


def expected(run: gf.Run, kind: str) -> list[str]:
    """What the program of such a run prints."""
    greedy = {"temperature": 0, "max_new_tokens": 20}
    match kind:
        case "text":
            return [run.generate("The", **greedy)]
        case "pairs":
            return [run.translate("A dog runs.", **greedy)]
        case "tags":
            return [str(run.tag(words)) for words in (["The", "cat", "sleeps"], ["Dogs", "run"])]
        case "classes":
            return [run.classify("A dog runs.")]
        case "sounds":
            return [run.classify((np.zeros(800, np.float32), 8000))]
    return [run.classify(half("left", np.random.default_rng(9)))]


def exported(kind: str, folder: Path, cli, **changes: Any) -> gf.Run:
    """A trained run after its export, which agrees."""
    folder.mkdir()
    go(MAKERS[kind](folder, **changes), folder / "run")
    said = cli("export", folder / "run", "--to", "onnx", "--out", folder / "onnx", "--json")
    assert said.code == 0, said.err
    run, parity = gf.load(folder / "run"), said.json["parity"]
    assert parity["difference"] < 1e-4
    assert parity["same"] == 1
    assert parity["same_tokens"] == parity["tokens"]
    assert (parity["tokens"] > 0) == run.model.config.predicts_next
    picture = half("left", np.random.default_rng(9))[..., 0]
    Image.fromarray(picture).save(folder / "onnx" / "photo.png")
    return run


@pytest.mark.slow  # quick: the graph of t5, and what a program prepares
def test_the_program_beside_a_language_model_writes_what_the_run_writes(tmp_path, cli):
    run = exported("text", tmp_path / "lm", cli, model={"max_length": 32})
    assert printed(tmp_path / "lm" / "onnx") == expected(run, "text")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*KINDS, "sounds"])
def test_what_is_trained_here_is_exported_to_transformers_and_onnx(kind, tmp_path, cli):
    model = {"model": KINDS[kind]} if kind in KINDS else {}
    run = exported(kind, tmp_path / kind, cli, train=LEARNING, **model)
    assert printed(tmp_path / kind / "onnx") == expected(run, kind)
    if model:
        out = tmp_path / kind / "transformers"
        said = cli(
            "export", tmp_path / kind / "run", "--to", "transformers", "--out", out, "--json"
        )
        assert said.code == 0, said.err
        assert said.json["parity"]["difference"] < 1e-4
