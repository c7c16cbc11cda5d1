"""A rule for many files as one test: a test for each file takes longer than what it checks."""

from collections.abc import Callable, Iterable

import pytest


def of_every(names: Iterable[str]) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Check all names in one test, which names each that breaks the rule and says how."""

    def decorate(rule: Callable[..., None]) -> Callable[[], None]:
        def test() -> None:
            wrong = []
            for name in names:
                try:
                    rule(name)
                except AssertionError as error:
                    wrong.append(f"{name}: {error}")
            if wrong:
                pytest.fail("\n".join(wrong), pytrace=False)

        test.__name__, test.__doc__, test.__module__ = rule.__name__, rule.__doc__, rule.__module__
        return test

    return decorate
