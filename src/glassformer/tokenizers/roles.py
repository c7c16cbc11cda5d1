"""The roles of special symbols as published folders name them, in `special_tokens_map.json` and
`tokenizer_config.json`.

    {"bos_token": "<s>", "eos_token": {"content": "</s>", ...}}  ->  {"bos": "<s>", "eos": "</s>"}
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glassformer.core.errors import DataError
from glassformer.core.files import read_bytes
from glassformer.tokenizers.definition import FOREIGN_ROLES
from glassformer.tokenizers.library import guard

ROLES_FILE = "special_tokens_map.json"
START = "decoder_start"
"""The role of the symbol that the decoder of an encoder-decoder begins with, where that is not bos:
<pad> of T5 and Marian, </s> of BART."""
ROLES = ("bos", "eos", "unk", "pad", "mask", "cls", "sep", START)
KEYS = {f"{role}_token": role for role in ROLES}
"""The role of each key."""
LARGEST = 4 << 20
STANDS_FOR = {"cls": "bos", "sep": "eos"}
"""The roles that these symbols also have where no other symbol has them (BERT)."""


def roles_file(path: Path) -> Path:
    """The file of roles beside a `tokenizer.json`, `source_tokenizer.json` or `NAME.json`."""
    stem = path.name.removesuffix("tokenizer.json")
    return path.with_name(f"{path.stem}." * (stem == path.name) + f"{stem}{ROLES_FILE}")


def read_object(file: Path) -> dict[str, Any]:
    """The object of a small JSON file; {} without the file. DataError: it is no object."""
    if not file.is_file():
        return {}
    raw = read_bytes(file, LARGEST, f"a {file.name}")
    with guard(f"read {file} as JSON"):
        values = json.loads(raw)
        json.dumps(values, ensure_ascii=False).encode("utf-8")  # no surrogate without its pair
    if not isinstance(values, dict):
        raise DataError(f"{file} is not a JSON object; restore it")
    return values


def roles_beside(file: Path) -> dict[str, str]:
    """The symbol of each role that the files beside a tokenizer name, a `tokenizer_config.json`
    before the `special_tokens_map.json`; null is no symbol. DataError: a damaged file."""
    files, found = [roles_file(file)], dict[str, str]()
    if file.name == "tokenizer.json":
        files.append(file.with_name("tokenizer_config.json"))
    for one in files:
        values = read_object(one)
        for key, role in KEYS.items():
            value = values.get(key)
            symbol = value.get("content") if isinstance(value, dict) else value
            if isinstance(symbol, str) and symbol:
                found[role] = symbol
            elif value is not None:
                raise DataError(f"{key} in {one} is not the name of a symbol; restore the file")
    return found


def roles_json(roles: Mapping[str, str]) -> str:
    """The text of such a file."""
    named = {key: roles[role] for key, role in KEYS.items() if role in roles}
    return json.dumps(named, ensure_ascii=False, indent=1) + "\n"


def ids_by_role(symbols: Mapping[str, int], given: Mapping[str, int]) -> dict[str, int]:
    """Ids by role: the `given` ones, else our own symbol for a role before other people's;
    symbols without a role under their own name."""
    names = ((role, name) for role, own in FOREIGN_ROLES.items() for name in reversed(own))
    roles = {role: symbols[name] for role, name in names if name in symbols}
    for role, other in STANDS_FOR.items():
        if (name := f"[{role.upper()}]") in symbols and other not in roles:
            roles[role] = symbols[name]
    roles |= given
    if roles.get("unk") in (roles.get("bos"), roles.get("eos")):  # GPT-2, which has no unknown
        roles.pop("unk", None)
    for role, other in STANDS_FOR.items():
        if role in roles:
            roles.setdefault(other, roles[role])
    return roles | {name: index for name, index in symbols.items() if index not in roles.values()}
