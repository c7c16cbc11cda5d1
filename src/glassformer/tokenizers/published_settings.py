"""What the small files beside a published vocabulary say: roles, added tokens, options.

tokenizer_config.json  special_tokens_map.json  added_tokens.json
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.errors import DataError
from glassformer.tokenizers.definition import LARGEST_ID
from glassformer.tokenizers.pieces import Definition, token
from glassformer.tokenizers.roles import content_of, read_object, roles_beside

MOST_SENTINELS = 1 << 12
"""Most sentinels of T5 that a file may ask for."""


@dataclass(frozen=True)
class Settings:
    """What the small files beside a vocabulary say."""

    config: Mapping[str, Any]
    roles: Mapping[str, str]
    added: Mapping[int, Mapping[str, Any]]
    """Flags and content of added tokens by id."""

    @classmethod
    def read(cls, folder: Path) -> "Settings":
        """The settings of a folder; DataError: a damaged file."""
        config = read_object(folder / "tokenizer_config.json")
        roles = roles_beside(folder / "tokenizer.json")
        added: dict[int, Mapping[str, Any]] = {}
        for content, index in read_object(folder / "added_tokens.json").items():
            added[index_in(index, content)] = {"content": content, "special": False}
        listed = config.get("added_tokens_decoder") or {}
        if not isinstance(listed, dict):
            raise DataError(f"added_tokens_decoder of {folder} is no object; restore the file")
        for index, flags in listed.items():
            where = f"added_tokens_decoder of {folder}"
            own = flags if isinstance(flags, dict) else {}
            number = index_in(int(index) if index.isdecimal() and len(index) < 10 else None, where)
            added[number] = {**own, "content": content_of(flags, where)}
        return cls(config, roles, added)

    def named(self, role: str, otherwise: str) -> str:
        """The symbol of a role."""
        return self.roles.get(role, otherwise)


def index_in(value: object, what: str) -> int:
    """The value, if it can be an id; DataError naming the piece or place `what` if not."""
    if type(value) is not int or not 0 <= value < LARGEST_ID:
        raise DataError(f"{what[:80]!r} has {value!r:.40} in place of an id; restore the file")
    return value


def ids_of(definition: Definition) -> dict[str, int]:
    """The id of every piece and added token."""
    vocab = definition["model"].get("vocab")
    ids = dict(vocab) if isinstance(vocab, dict) else {}
    if isinstance(vocab, list):
        ids = {entry[0]: index for index, entry in enumerate(vocab)}
    return ids | {one["content"]: one["id"] for one in definition.get("added_tokens") or []}


def with_added(definition: Definition, settings: Settings, sentinels: int, name: str) -> Definition:
    """The definition with the added tokens that the small files name; of T5 without such, with so
    many `sentinels`. DataError: they do not follow the vocabulary."""
    ids, wanted = ids_of(definition), dict(settings.added)
    size = 1 + max(ids.values(), default=-1)
    if "<extra_id_0>" not in ids and not wanted:
        names = [f"<extra_id_{i}>" for i in reversed(range(min(sentinels, MOST_SENTINELS)))]
        wanted = {size + i: {"content": name, "special": True} for i, name in enumerate(names)}
    own = {one["content"]: dict(one) for one in definition.get("added_tokens") or []}
    symbols = {*settings.roles.values()}
    for index, flags in sorted(wanted.items()):
        content = flags["content"]
        if content in ids and ids[content] != index:
            raise DataError(
                f"{name} gives {content[:40]!r} the ids {ids[content]} and {index}; restore the "
                f"files"
            )
        if content not in ids and index != size:
            raise DataError(
                f"{name} gives the added token {content[:40]!r} the id {index}, and the next one "
                f"is {size}; restore the files"
            )
        if content not in own:
            plain = {k: flags.get(k) is True for k in ("single_word", "lstrip", "rstrip")}
            special = flags.get("special") is True or content in symbols
            normalized = flags.get("normalized") is True and not special
            own[content] = token(index, content, special, **plain, normalized=normalized)
            ids[content], size = index, max(size, index + 1)
    return definition | {"added_tokens": sorted(own.values(), key=lambda one: one["id"])}
