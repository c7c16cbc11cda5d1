"""Rules of the fields of a model's configuration."""

import re
from collections.abc import Iterator
from math import prod

from torch import nn

from glassformer.core.errors import suggest
from glassformer.layers.position.kinds import ADDED
from glassformer.models.fields import ModelFields


def misfits(config: ModelFields) -> Iterator[str]:
    """A sentence for each rule that the configuration breaks."""
    yield from _classes(config)
    yield from _parts(config)
    yield from _patches(config) if config.reads_patches else _no_patches(config)
    yield from _position_vectors(config)
    yield from _stack(config)
    yield from _attention_positions(config)


def _classes(config: ModelFields) -> Iterator[str]:
    names = config.classes
    if names and config.n_classes not in (None, len(names)):
        yield f"n_classes={config.n_classes} but classes names {len(names)}; leave out one of them"
    if len(set(names)) != len(names):
        yield "classes has a name twice; give each once"
    if config.multi_label and config.head != "classify":
        yield f"multi_label needs head='classify', not {config.head!r}"
    two = config.class_token and config.n_registers and not config.pooler
    if config.distilled and not (config.head == "classify" and two):
        yield "distilled needs head='classify', pool='first', pooler=false and n_registers above 0"


def _parts(config: ModelFields) -> Iterator[str]:
    parts, order = config.parts, config.modality_order
    for name in parts:
        # A part is a module of this name, which must not hide an attribute of every module.
        hides = name == "text" or hasattr(nn.ModuleDict, name)
        if hides or not re.fullmatch("[a-z][a-z0-9_]*", name):
            yield f"{name!r} cannot name a part; take a short name in small letters, such as image"
    for name in config.part_patches:
        if name not in parts:
            known = suggest(name, parts) if parts else "parts is empty"
            yield f"part_patches has {name!r}, which is not in parts; {known}"
    known = ("text", *parts)
    if len(set(order)) != len(order) or not set(order) <= set(known):
        yield f"modality_order={order} must be some of {', '.join(known)}, each once"
    if parts and config.reads_patches:
        yield f"parts={parts} stand among tokens and need elements='tokens'"


def _no_patches(config: ModelFields) -> Iterator[str]:
    for name in ("grid", "stem", "n_registers"):
        if value := getattr(config, name):
            value = list(value) if name == "stem" else value
            yield f"{name}={value} needs elements='patches'"


def _patches(config: ModelFields) -> Iterator[str]:
    grid, patch = config.grid, config.patch
    if config.architecture != "encoder":
        yield "elements='patches' needs architecture='encoder'"
    if config.predicts_words:
        yield f"head={config.head!r} needs elements='tokens'"
    if config.n_token_types:
        yield f"n_token_types={config.n_token_types} needs elements='tokens'"
    if grid and prod(grid) != config.max_length:
        has = f"{prod(grid)} patches and max_length is {config.max_length}"
        yield f"grid={grid[0]}x{grid[1]} has {has}; make them equal"
    if patch and config.patch_width % prod(patch):
        size = f"patch height times width, {patch[0]} x {patch[1]}"
        yield f"patch_width={config.patch_width} must be a multiple of {size}"


def _position_vectors(config: ModelFields) -> Iterator[str]:
    width = config.d_model - config.element_width
    if config.position_width is not None and not width:
        yield f"position_width={config.position_width} needs position_combination='concatenate'"
    if width and (config.position not in ADDED or config.element_width <= 0):
        yield (
            f"position_combination='concatenate' needs position {', '.join(ADDED[:-1])} or "
            f"{ADDED[-1]} and a position_width below d_model={config.d_model}"
        )
    if width and config.tied and config.predicts_words:
        yield (
            "position_combination='concatenate' makes the embedding narrower than the stream "
            "that the head reads; set tied=false"
        )
    odd = (width or config.d_model) % 2
    if config.position == "sinusoidal_2d" and (odd or not config.reads_patches):
        even = "an even d_model (or position_width)"
        yield f"position='sinusoidal_2d' needs elements='patches' and {even}"


def _stack(config: ModelFields) -> Iterator[str]:
    if config.d_head is None and config.d_model % config.n_heads:
        yield (
            f"n_heads={config.n_heads} does not divide d_model={config.d_model}; choose a divisor "
            f"or set d_head"
        )
    if config.n_heads % config.kv_heads:
        yield f"n_kv_heads={config.kv_heads} does not divide n_heads={config.n_heads}"
    for name in ("source_vocab_size", "own_source_positions", "n_encoder_layers"):
        if (value := getattr(config, name)) and not config.is_encoder_decoder:
            yield f"{name}={value} needs architecture='encoder_decoder'"
    if not config.residual and config.init == "modern":
        yield "init='modern' starts every branch at 0; with residual=false use 'xavier' or 'gpt2'"


def _attention_positions(config: ModelFields) -> Iterator[str]:
    kind, width, half = config.position, config.head_width, config.n_buckets // 2
    if kind == "rotary_2d" and (width % 4 or not config.reads_patches):
        yield "position='rotary_2d' needs elements='patches' and heads of a multiple of 4"
    wavelengths = config.rotary_wavelengths
    if kind != "rotary" and config.rotary_factor != 1:
        yield f"rotary_factor={config.rotary_factor} needs position='rotary'"
    if wavelengths and not (0 < wavelengths[0] < wavelengths[1] and config.rotary_factor > 1):
        yield (
            f"rotary_wavelengths={list(wavelengths)} must rise from above 0, beside a "
            "rotary_factor above 1"
        )
    if kind == "rotary" and width % 2:
        yield f"rotary positions need an even head width, not {width}"
    if kind == "buckets" and config.n_buckets < 4:
        yield f"n_buckets={config.n_buckets} is too few; at least 4 are needed"
    if kind == "buckets" and config.max_distance <= half:
        yield f"max_distance={config.max_distance} must exceed n_buckets/2={half}"
