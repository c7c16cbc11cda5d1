"""Small models of every preset with moved weights, a batch for each; and the rows of the notes,
computed once."""

from dataclasses import replace
from functools import cache

import torch

from glassformer import verify
from glassformer.batch import IGNORE, Batch, Part, Positions
from glassformer.models import Transformer, presets

SMALL = {"d_model": 32, "n_layers": 2, "n_heads": 4, "max_length": 16}
WORDS = {"vocab_size": 17, **SMALL}
CONFIGS = {
    "original-2017": presets.original_2017(**WORDS, d_ff=48),
    "gpt2": presets.gpt2(**WORDS),
    "bert": presets.bert(**WORDS),
    "bert, masked words": presets.bert(head="masked_lm", **WORDS),
    "bert, tags": presets.bert(head="tag", n_classes=5, **WORDS),
    "t5": presets.t5(**WORDS | {"d_ff": 48, "d_head": 6, "n_encoder_layers": 1}),
    "vit": presets.vit(**SMALL, patch_width=12, n_classes=5),
    "deit": presets.vit(**SMALL, patch_width=12, n_classes=5, n_registers=2, distilled=True),
    "vit, rows and columns": presets.vit(
        **SMALL | {"max_length": 9},
        patch_width=12,
        n_classes=5,
        grid=(3, 3),
        position="sinusoidal_2d",
        n_registers=1,
    ),
    "vit, turned by rows and columns": presets.vit(
        **SMALL | {"max_length": 8},
        patch_width=12,
        n_classes=5,
        grid=(2, 4),
        position="rotary_2d",
        rotary_base=100.0,
    ),
    "vit, turned, without a class token": presets.vit(
        **SMALL | {"max_length": 8},
        patch_width=12,
        n_classes=5,
        grid=(4, 2),
        position="rotary_2d",
        pool="mean",
        n_registers=2,
    ),
    "vit, convolutions": presets.vit(
        **SMALL | {"max_length": 9},
        patch_width=12,
        patch=(1, 4),
        grid=(3, 3),
        stem=(5, 6),
        n_classes=5,
    ),
    "parts": presets.gpt2(**WORDS, parts={"image": 12, "audio": 5}, part_patches={"image": 4}),
    "parts in the source": presets.note("E", source_vocab_size=17, parts={"image": 12}, **WORDS),
    "modern": presets.modern(**WORDS),
    **{f"note {name}": presets.note(name, **WORDS) for name in "ABCDE"},
    "alibi, window, multi-query": presets.gpt2(position="alibi", window=4, n_kv_heads=1, **WORDS),
    "relative, inside": presets.gpt2(
        position="relative", max_distance=3, bias_placement="inside", n_kv_heads=2, **WORDS
    ),
    "gated": presets.modern(gated=True, activation="silu", **WORDS),
    "two vocabularies": presets.note("E", source_vocab_size=17, position="learned", **WORDS),
    "concatenated positions": presets.gpt2(
        position_combination="concatenate", position_width=8, tied=False, **WORDS
    ),
    "no residual connections": presets.note("C", residual=False, init="xavier", **WORDS),
    "no positions": presets.bert(position="none", head="none", **WORDS),
}


def moved(config, seed=0):
    """A model whose every weight has left its initial value: zeros and ones would hide mistakes."""
    model = Transformer(config, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return model


def batch_for(config, *, padded=True):
    """Two rows, the second shorter, and a source padded on the left where there is one."""
    generator = torch.Generator().manual_seed(1)
    draw = lambda *shape: torch.randint(0, 17, shape, generator=generator)
    if config.elements == "patches":
        return Batch(torch.randn(2, 9, 12, generator=generator), targets=torch.tensor([1, 4]))
    parts = tuple(
        Part(
            name,
            torch.tensor([1, 2, 8 + i]),
            torch.randn(3, width, generator=generator),
            torch.tensor([0, 1, 3]),
        )
        for i, (name, width) in enumerate(config.parts.items())
    )
    crossed = config.architecture == "encoder_decoder"
    source = Batch(draw(2, 7), Positions.padded([5, 7], "left"), parts=parts) if crossed else None
    targets = draw(2, 9) % (config.n_classes or 17)
    targets[1, 6:] = IGNORE
    kinds = draw(2, 9) % config.n_token_types if config.n_token_types else None
    parts = (
        () if crossed else tuple(replace(part, at=part.at + 2 * i) for i, part in enumerate(parts))
    )
    return Batch(
        draw(2, 9),
        Positions.padded([9, 6]) if padded else None,
        targets,
        kinds,
        source,
        parts=parts,
    )


@cache
def noted():
    """The rows of the notes."""
    return tuple(verify.notes_rows())
