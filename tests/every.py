"""Many cases as one test, and those of them that stand for a class in `make test`."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def slow_but(cases: Iterable[Any], *quick: Any) -> list[Any]:
    """Parameters of a test; `make test` has the quick ones, which stand for the others."""
    found = list(cases)
    assert all(one in found for one in quick), "a quick case is no case"
    return [one if one in quick else _slow(one) for one in found]


def _slow(case: Any) -> Any:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.slow)


def of_every(names: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Check all names in one test, which names each that breaks the rule and says how: a test for
    each takes longer than what it checks."""

    cases = list(names)
    assert cases, "a rule of nothing cannot fail"

    def decorate(rule: Callable[..., None]) -> Callable[[], None]:
        def test() -> None:
            wrong = []
            for name in cases:
                try:
                    rule(name)
                except Exception as error:  # noqa: BLE001 - each is named
                    wrong.append(f"{name}: {error or repr(error)}")
            if wrong:
                pytest.fail("\n".join(wrong), pytrace=False)

        test.__name__, test.__doc__, test.__module__ = rule.__name__, rule.__doc__, rule.__module__
        return test

    return decorate
