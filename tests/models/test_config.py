"""Every choice of the configuration builds, runs and learns; what cannot be is refused in one
helpful sentence."""

import types
from typing import Annotated, Literal, Union, get_args, get_origin

import pytest
import torch

import tiny
from glassformer.core.batch import Batch
from glassformer.core.errors import ConfigError
from glassformer.models import ModelConfig, Transformer
from learning import learn

# The value that each field takes beside its default; Literal fields take all of theirs.
OTHER = {
    "vocab_size": 5,
    "max_length": 7,
    "d_model": 12,
    "n_layers": 1,
    "n_encoder_layers": 3,
    "n_heads": 2,
    "n_kv_heads": 1,
    "d_head": 6,
    "d_ff": 3,
    "gated": True,
    "epsilon": 0.0,
    "max_distance": 9,
    "n_buckets": 4,
    "rotary_base": 100.0,
    "rotary_factor": 4.0,
    "rotary_wavelengths": (7.0, 20.0),
    "window": 2,
    "qk_norm": True,
    "attention_bias": False,
    "bias": False,
    "embedding_scale": True,
    "embedding_norm": True,
    "n_token_types": 2,
    "tied": False,
    "head_bias": True,
    "head_scale": True,
    "pooler": True,
    "dropout": 0.5,
    "attention_dropout": 0.5,
    "n_classes": 3,
    "classes": ("no", "yes", "maybe"),
    "multi_label": True,
    "patch_width": 6,
    "source_vocab_size": 13,
    "own_source_positions": True,
    "grid": (3, 2),
    "patch": (2, 3),
    "stem": (4, 5),
    "n_registers": 2,
    "distilled": True,
    "parts": {"image": 5, "audio": 4},
    "part_patches": {"image": 2},
    "modality_order": ("text",),
    "residual": False,
    "position_width": 3,
}
PATCHES = {
    "elements": "patches",
    "architecture": "encoder",
    "head": "none",
    "patch_width": 6,
    "max_length": 6,
}
CONCATENATED = {"position_combination": "concatenate", "tied": False}
NEEDS = {  # what a value needs beside itself to make a difference
    "n_classes": {"head": "classify"},
    "classes": {"head": "classify"},
    "multi_label": {"head": "classify", "n_classes": 3},
    "pooler": {"head": "classify", "n_classes": 3},
    "pool": {"head": "classify", "n_classes": 3},
    ("pool", "first"): {
        "head": "classify",
        "n_classes": 3,
        "architecture": "encoder",
    },  # alone, the first sees itself
    ("head", "tag"): {"n_classes": 3},
    ("head", "classify"): {"n_classes": 3},
    ("elements", "patches"): {
        "architecture": "encoder",
        "head": "classify",
        "n_classes": 3,
        "patch_width": 6,
    },
    "n_encoder_layers": {"architecture": "encoder_decoder"},
    "source_vocab_size": {"architecture": "encoder_decoder"},
    "own_source_positions": {"architecture": "encoder_decoder"},
    "head_activation": {"head": "classify", "n_classes": 3, "pooler": True},
    "patch_width": PATCHES,
    "grid": PATCHES | {"position": "sinusoidal_2d"},
    "patch": PATCHES,
    "stem": PATCHES | {"grid": (2, 3), "patch": (2, 1)},
    "n_registers": PATCHES,
    "distilled": PATCHES | {"head": "classify", "n_classes": 3, "pool": "first", "n_registers": 1},
    ("position", "sinusoidal_2d"): PATCHES | {"grid": (2, 3)},
    ("position", "rotary_2d"): PATCHES | {"grid": (2, 3), "d_head": 4},
    "part_patches": {"parts": {"image": 5, "audio": 4}},
    "max_distance": {"position": "relative"},
    "n_buckets": {"position": "buckets"},
    "rotary_base": {
        "position": "rotary",
        "d_head": 4,
    },  # the first pair turns by 1 whatever the base
    "rotary_factor": {"position": "rotary", "d_head": 4},
    "rotary_wavelengths": {"position": "rotary", "d_head": 4, "rotary_factor": 4.0},
    "bias_placement": {"position": "relative"},
    "first_position": {"position": "sinusoidal"},
    "position_combination": {"tied": False},
    "position_width": {"tied": False, "position_combination": "concatenate"},
}


def literals(annotation):
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    if get_origin(annotation) in (Annotated, Union, types.UnionType):
        return [value for part in get_args(annotation) for value in literals(part)]
    return []


CHOICES = [
    (name, value)
    for name, field in ModelConfig.model_fields.items()
    for value in (literals(field.annotation) or [OTHER[name]])
]


@pytest.mark.parametrize(
    ("name", "value"), CHOICES, ids=[f"{name}={value}" for name, value in CHOICES]
)
def test_every_choice_builds_runs_and_learns(name, value):
    needs = NEEDS.get((name, value) if isinstance(value, str) else name, NEEDS.get(name, {}))
    gradients = learn(tiny.config(**{name: value} | needs))
    for parameter, gradient in gradients.items():
        # a key's bias adds the same to all scores of a row; softmax does not see it
        if not parameter.endswith("k_proj.bias"):
            assert gradient.abs().sum() > 0, parameter


# Those that change shapes, only what is drawn, or only what logits are taken for, are covered
# elsewhere.
SHAPES = (
    "vocab_size",
    "max_length",
    "elements",
    "patch_width",
    "head",
    "n_classes",
    "classes",
    "init",
    "multi_label",
)
# tests of layers; of data that are held against it
ELSEWHERE = ("grid", "patch", "stem", "parts", "part_patches", "modality_order")


@pytest.mark.parametrize(
    "name", [name for name in ModelConfig.model_fields if name not in (*SHAPES, *ELSEWHERE)]
)
def test_no_choice_is_silently_ignored(name):
    """Each field changes the numbers (same seed, same input)."""
    field = ModelConfig.model_fields[name]
    choices = [
        choice for choice in literals(field.annotation) if not str(choice).endswith("_2d")
    ]  # of patches alone
    needs = next((NEEDS[k] for k in (name, *((name, v) for v in choices)) if k in NEEDS), {})
    seen = []
    for value in choices or [field.default, OTHER[name]]:
        if name == "epsilon":  # 0 and 1e-5 differ by less than this test's rounding; 0.1 does not
            value = 0.1 if value == 0 else value
        torch.manual_seed(0)
        model = tiny.stir(
            Transformer(tiny.config(**{"qk_norm": name == "epsilon"} | {name: value} | needs))
        )
        ids = tiny.tokens(2, 6)
        if model.config.reads_patches:
            ids = ids[..., None] * torch.linspace(0.1, 1, model.config.patch_width)
        source = Batch(ids) if model.config.architecture == "encoder_decoder" else None
        seen.append(model(Batch(ids, source=source)).logits)
    for i, one in enumerate(seen):
        for other in seen[:i]:
            assert one.shape != other.shape or not torch.allclose(one, other), name


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"d_modle": 8}, r"Unknown key model\.d_modle; did you mean 'd_model'\?"),
        ({"n_heads": 3}, r"n_heads=3 does not divide d_model=8; choose a divisor or set d_head"),
        ({"n_kv_heads": 3}, r"n_kv_heads=3 does not divide n_heads=4"),
        ({"position": "rotary", "d_head": 3}, "even head width, not 3"),
        ({"position": "rotory"}, r"model\.position.*'rotory'"),
        ({"norm": "batch"}, r"model\.norm.*'layer' or 'rms'.*'batch'"),
        ({"n_encoder_layers": 3}, r"n_encoder_layers=3 needs architecture='encoder_decoder'"),
        ({"n_layers": 0}, r"model\.n_layers.*greater than 0.*0"),
        ({"d_model": "wide"}, r"model\.d_model.*integer.*'wide'"),
        ({"dropout": 1.0}, r"model\.dropout.*less than 1"),
        ({"epsilon": -1e-5}, r"model\.epsilon.*greater than or equal to 0"),
        (
            {"head": "tag", "n_classes": 3, "classes": ["a", "b"]},
            r"n_classes=3 but classes names 2",
        ),
        ({"head": "tag", "classes": ["a", "a"]}, r"classes has a name twice"),
        (
            {"head": "tag", "n_classes": 2, "multi_label": True},
            r"multi_label needs head='classify', not 'tag'",
        ),
        ({"elements": "patches"}, r"elements='patches' needs architecture='encoder'"),
        ({"elements": "patches", "architecture": "encoder"}, r"head='lm' needs elements='tokens'"),
        (
            {"elements": "patches", "architecture": "encoder", "head": "none", "n_token_types": 2},
            r"n_token_types=2 needs elements='tokens'",
        ),
        ({"grid": (4, 8)}, r"grid=\(4, 8\) needs elements='patches'"),
        (
            PATCHES | {"grid": (2, 2)},
            r"grid=2x2 has 4 patches and max_length is 6; make them equal",
        ),
        (
            PATCHES | {"position": "sinusoidal_2d", "d_model": 9, "n_heads": 3},
            r"needs elements='patches' and an even d_model",
        ),
        ({"position": "sinusoidal_2d"}, r"needs elements='patches'"),
        ({"stem": (4,)}, r"stem=\[4\] needs elements='patches'"),
        ({"n_registers": 2}, r"n_registers=2 needs elements='patches'"),
        (
            PATCHES | {"head": "classify", "n_classes": 3, "pool": "first", "distilled": True},
            r"distilled needs head='classify', .* and n_registers above 0",
        ),
        (
            PATCHES | {"patch": (4, 1)},
            r"patch_width=6 must be a multiple of patch height times width, 4 x 1",
        ),
        (
            {"position": "rotary_2d", "d_head": 4},
            r"needs elements='patches' and heads of a multiple of 4",
        ),
        (PATCHES | {"position": "rotary_2d", "d_head": 6}, "heads of a multiple of 4"),
        ({"parts": {"image": 0}}, r"model\.parts.*greater than 0"),
        ({"parts": {"text": 5}}, r"'text' cannot name a part; take a short name in small letters"),
        ({"parts": {"train": 5}}, r"'train' cannot name a part"),
        ({"parts": {"an image": 5}}, r"'an image' cannot name a part"),
        (
            PATCHES | {"parts": {"image": 5}},
            r"parts=.* stand among tokens and need elements='tokens'",
        ),
        (
            {"modality_order": ["image"]},
            r"modality_order=\('image',\) must be some of text, each once",
        ),
        (
            {"parts": {"image": 5}, "modality_order": ["image", "image"]},
            r"must be some of text, image, each once",
        ),
        (
            {"part_patches": {"image": 4}},
            r"part_patches has 'image', which is not in parts; parts is empty",
        ),
        (
            {"parts": {"image": 5}, "part_patches": {"imgae": 4}},
            r"part_patches has 'imgae', which is not in parts; did you mean 'image'\?",
        ),
        ({"position_width": 3}, r"position_width=3 needs position_combination='concatenate'"),
        (CONCATENATED | {"position": "rotary"}, r"needs position learned, sinusoidal"),
        (CONCATENATED | {"position_width": 8}, r"a position_width below d_model=8"),
        (CONCATENATED | {"tied": True}, r"narrower than the stream .*; set tied=false"),
        (
            PATCHES | CONCATENATED | {"position": "sinusoidal_2d", "position_width": 3},
            r"an even d_model \(or position_width\)",
        ),
        ({"residual": False, "init": "modern"}, r"init='modern' starts every branch at 0"),
        ({"position": "buckets", "n_buckets": 2}, r"n_buckets=2 is too few"),
        (
            {"position": "buckets", "n_buckets": 64, "max_distance": 32},
            r"max_distance=32 must exceed n_buckets/2=32",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(values, sentence):
    with pytest.raises(ConfigError, match=sentence) as caught:
        tiny.config(**values)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_vocabulary_is_needed():
    with pytest.raises(ConfigError, match=r"model\.vocab_size is 0; set it"):
        Transformer(tiny.config(vocab_size=0))


def test_every_field_is_documented():
    for name, field in ModelConfig.model_fields.items():
        assert field.description, name
        assert field.description.endswith("."), name


def test_equal_configurations_have_one_hash():
    parts = {"image": 5, "audio": 4}
    one, other = tiny.config(parts=parts), tiny.config(parts=dict(reversed(parts.items())))
    assert one == other
    assert hash(one) == hash(other)
    assert len({one, other, tiny.config(parts={"image": 5}), tiny.config()}) == 3


@pytest.mark.parametrize(
    "changes", [{"position": "sinusoidal_2d"}, {"position": "rotary_2d"}, {"stem": (4,)}]
)
def test_what_needs_a_grid_waits_for_the_data_and_is_refused_without(changes):
    made = tiny.config(**PATCHES | {"d_head": 4} | changes)
    (name,) = changes
    with pytest.raises(
        ConfigError, match=rf"model\.{name}=.* needs model\.grid and model\.patch, or images"
    ):
        Transformer(made)
    Transformer(tiny.config(**PATCHES | {"d_head": 4, "grid": (2, 3), "patch": (2, 1)} | changes))
