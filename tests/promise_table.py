"""A table at the end of a run: each promise that was tested, and what was counted.

A line belongs to the report of its test, which is also how xdist's workers send it.
"""

import pytest

KEY = "promise"


@pytest.fixture
def table(request):
    """Add a line to the table: a promise, and what was counted."""

    def add(promise: str, counted: str) -> None:
        request.node.user_properties.append((KEY, f"{promise:<4} {counted}"))

    return add


def pytest_terminal_summary(terminalreporter):
    reports = [
        report
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, [])
        if report.when == "call"
    ]
    lines = [line for report in reports for key, line in report.user_properties if key == KEY]
    if lines:
        terminalreporter.section("promises")
        for line in sorted(lines, key=_order):
            terminalreporter.write_line(line)


def _order(line: str) -> tuple[str, int]:
    """D9 before D10."""
    name = line.split()[0]
    return name[:1], int(name[1:])
