"""YAML as recipes use it: texts, which fields read by their own types, no key twice, and no small
text that grows large."""

from typing import Any

import yaml
from yaml.constructor import ConstructorError
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

NULL = ("", "~", "null", "Null", "NULL")
MOST_CHARACTERS, MOST_VALUES = 1_000_000, 20_000
"""A resolved recipe has some 10,000 characters and 300 values."""


class _Loader(yaml.BaseLoader):
    """Every value is a text or null: the class `no` and the time 1:30 are texts too."""

    def construct_scalar(self, node: ScalarNode) -> Any:
        plain = node.style is None and node.value in NULL
        return None if plain else super().construct_scalar(node)

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key, _ in node.value:
            if key.value in seen:
                raise _problem(f"the key {key.value!r} is there twice", key)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def parse(text: str) -> Any:
    """The value of a YAML text; YAMLError: it is not valid, has a key twice, or grows too large."""
    if len(text) > MOST_CHARACTERS:
        raise yaml.YAMLError(f"it has more than {MOST_CHARACTERS:,} characters")
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _check_size(node)
        return loader.construct_document(node)
    except RecursionError:
        raise yaml.YAMLError("its values are nested too deeply") from None
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
