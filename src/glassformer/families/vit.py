"""Vision Transformers (Dosovitskiy et al. 2021), and DeiT (Touvron et al. 2021), whose distillation
token is a register; DeiT without distillation is published as ViT."""

import math
from dataclasses import replace

from glassformer.core.files import Values
from glassformer.families.family import Computed, Family, Head
from glassformer.models.config import ModelConfig


def read_patches(keys: Values) -> Values:
    """The grid of patches of an image of `image_size`."""
    (height, width), (p, q) = (
        own if isinstance(own := keys[name], list) else [own, own]
        for name in ("image_size", "patch_size")
    )
    rows, columns = height // p, width // q
    return {
        "grid": [rows, columns],
        "patch": [p, q],
        "patch_width": p * q * keys.get("num_channels", 3),
        "max_length": rows * columns,
    }


def write_patches(model: ModelConfig) -> Values:
    """Sizes of image and patch, as one number where they are square."""
    if model.grid is None or model.patch is None:
        raise ValueError("grid and patch, which are not known")
    size = [n * p for n, p in zip(model.grid, model.patch, strict=True)]
    image, patch = (one[0] if one[0] == one[1] else [*one] for one in (size, model.patch))
    channels = model.patch_width // math.prod(model.patch)
    return {"image_size": image, "patch_size": patch, "num_channels": channels}


VIT = Family(
    model_type="vit",
    prefix="vit",
    fixed={
        "architecture": "encoder",
        "elements": "patches",
        "position": "learned",
        "pool": "first",
        "init": "bert",
    },
    fields="""
    d_model            hidden_size
    n_layers           num_hidden_layers
    n_heads            num_attention_heads
    d_ff               intermediate_size
    activation         hidden_act
    epsilon            layer_norm_eps
    dropout            hidden_dropout_prob
    attention_dropout  attention_probs_dropout_prob
    attention_bias     qkv_bias
    """,
    computed=(Computed(read_patches, write_patches),),
    defaults={"hidden_act": "gelu", "layer_norm_eps": 1e-12, "qkv_bias": True},
    only={"pooler_act": ("tanh",)},
    tensors="""
    embed.element.class_token               embeddings.cls_token                whole
    embed.element.proj                      embeddings.patch_embeddings.projection  kernel
    embed.position.weight                   embeddings.position_embeddings      whole row
    encoder.blocks.#.attention_norm         encoder.layer.#.layernorm_before
    encoder.blocks.#.attention.q_proj       encoder.layer.#.attention.attention.query
    encoder.blocks.#.attention.k_proj       encoder.layer.#.attention.attention.key
    encoder.blocks.#.attention.v_proj       encoder.layer.#.attention.attention.value
    encoder.blocks.#.attention.out_proj     encoder.layer.#.attention.output.dense
    encoder.blocks.#.feedforward_norm       encoder.layer.#.layernorm_after
    encoder.blocks.#.feedforward.up_proj    encoder.layer.#.intermediate.dense
    encoder.blocks.#.feedforward.down_proj  encoder.layer.#.output.dense
    encoder.norm                            layernorm
    """,
    heads={
        "ViTForImageClassification": Head(
            "image-classification",
            "image",
            {"head": "classify"},
            "head.proj  classifier",
            unused=r"pooler\..*",
        ),
        "ViTModel": Head(
            "feature-extraction",
            "image",
            {"head": "pool", "pooler": True},
            "head.dense  .pooler.dense",
            without={"pooler.dense.weight": {"pooler": False}},
        ),
    },
    renamed={
        "attention.attention.query": "attention.q_proj",
        "attention.attention.key": "attention.k_proj",
        "attention.attention.value": "attention.v_proj",
        "attention.output.dense": "attention.o_proj",
        "intermediate.dense": "mlp.fc1",
        "output.dense": "mlp.fc2",
        "encoder.layer": "layers",
    },
)

DEIT = replace(
    VIT,
    model_type="deit",
    prefix="deit",
    fixed={**VIT.fixed, "n_registers": 1},
    tensors=f"{VIT.tensors} embed.element.registers  embeddings.distillation_token  whole",
    heads={
        **{name.replace("ViT", "DeiT"): head for name, head in VIT.heads.items()},
        "DeiTForImageClassificationWithTeacher": replace(
            VIT.heads["ViTForImageClassification"],
            fields={"head": "classify", "distilled": True},
            tensors="""
            head.proj            cls_classifier
            head.distilled_proj  distillation_classifier
            """,
        ),
    },
)
