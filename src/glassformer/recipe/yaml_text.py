"""YAML as recipes use it: plain values, no key twice, and no small text that grows large."""

import re
from typing import Any

import yaml
from yaml.constructor import ConstructorError
from yaml.nodes import MappingNode, Node, SequenceNode

TAG = "tag:yaml.org,2002:"
PLAIN = {
    "bool": ("tTfF", r"true|True|TRUE|false|False|FALSE"),
    "int": ("-+0123456789", r"[-+]?(0|[1-9][0-9_]*|0x[0-9a-fA-F]+)"),
    "float": ("-+.0123456789", r"[-+]?([0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)([eE][-+]?[0-9]+)?"
              r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"),
    "merge": ("<", "<<"),
    "null": ("~nN", r"~|null|Null|NULL"),
}  # fmt: skip
"""Values that are no texts, by the characters that they begin with, as in YAML 1.2."""
MOST_CHARACTERS, MOST_VALUES = 1_000_000, 20_000
"""A resolved recipe has some 10,000 characters and 300 values."""


def _resolvers(*names: str) -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    found: dict[str, list[tuple[str, re.Pattern[str]]]] = {"": [_NOTHING]}
    for name in names:
        firsts, pattern = PLAIN[name]
        for first in firsts:
            found.setdefault(first, []).append((f"{TAG}{name}", re.compile(rf"(?:{pattern})$")))
    return found


_NOTHING = (f"{TAG}null", re.compile("$"))


class _Loader(yaml.SafeLoader):
    """The class `no`, the time 1:30 and the date 2026-01-01 are texts, as in YAML 1.2."""

    yaml_implicit_resolvers = _resolvers(*PLAIN)

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key, _ in node.value:
            if key.value in seen:
                raise _problem(f"the key {key.value!r} is there twice", key)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


class _TextLoader(_Loader):
    """Every value is a text, except null."""

    yaml_implicit_resolvers = _resolvers("null")


def parse(text: str, texts: bool = False) -> Any:
    """The value of a YAML text, with `texts` the texts of its numbers and the like.

    YAMLError: it is not valid, has a key twice, or grows too large.
    """
    if len(text) > MOST_CHARACTERS:
        raise yaml.YAMLError(f"it has more than {MOST_CHARACTERS:,} characters")
    loader = (_TextLoader if texts else _Loader)(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _check_size(node)
        return loader.construct_document(node)
    except RecursionError:
        raise yaml.YAMLError("its values are nested too deeply") from None
    except ValueError as error:  # of a number with thousands of digits
        raise yaml.YAMLError(f"{error}") from None
    finally:
        loader.dispose()


def _check_size(node: Node) -> None:
    """Count values as often as aliases repeat them: nine lines of aliases can mean a billion."""
    count, left = 0, [node]
    while left:
        found = left.pop()
        count += 1
        if count > MOST_VALUES:
            raise _problem(f"it has more than {MOST_VALUES:,} values, aliases written out", node)
        if isinstance(found, MappingNode):
            left += [value for _, value in found.value]
        elif isinstance(found, SequenceNode):
            left += found.value


def _problem(what: str, node: Node) -> yaml.YAMLError:
    return ConstructorError(None, None, what, node.start_mark)
