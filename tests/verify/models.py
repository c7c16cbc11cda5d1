"""Small models of every preset, and the rows of the notes, computed once."""

from functools import cache

from glassformer import verify
from glassformer.models import presets

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
    "vit, turned, without a class token": presets.vit(
        **SMALL | {"max_length": 8},
        patch_width=12,
        n_classes=5,
        grid=(4, 2),
        position="rotary_2d",
        pool="mean",
        n_registers=2,
    ),
    "parts": presets.gpt2(**WORDS, parts={"image": 12, "audio": 5}, part_patches={"image": 4}),
    "parts in the source": presets.note("E", source_vocab_size=17, parts={"image": 12}, **WORDS),
    "modern": presets.modern(**WORDS),
    **{f"note {name}": presets.note(name, **WORDS) for name in "ABCDE"},
    "two vocabularies": presets.note("E", source_vocab_size=17, position="learned", **WORDS),
}


@cache
def noted():
    """The rows of the notes."""
    return tuple(verify.notes_rows())
