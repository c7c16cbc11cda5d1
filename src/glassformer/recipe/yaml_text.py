"""YAML as recipes use it: plain values, no key twice, and no small text that grows large."""

from typing import Any

import yaml
from yaml.constructor import ConstructorError
from yaml.nodes import MappingNode, Node, SequenceNode

BOOL = "tag:yaml.org,2002:bool"
MOST_CHARACTERS, MOST_VALUES = 1_000_000, 20_000
"""A resolved recipe has some 10,000 characters and 300 values."""


class _Loader(yaml.SafeLoader):
    """Only true and false are truth values, as in YAML 1.2: the class `no` is a text."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - as of yaml's own loaders
        first: [one for one in known if one[0] != BOOL or first in "tTfF"]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key, _ in node.value:
            if key.value in seen:
                raise _problem(f"the key {key.value!r} is there twice", key)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


class _TextLoader(_Loader):
    """Every value is a text, except null."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - as of yaml's own loaders
        first: [one for one in known if one[0] == "tag:yaml.org,2002:null"]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


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
