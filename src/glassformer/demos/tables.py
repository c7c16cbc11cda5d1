"""Constants of the demos, kept as JSON files in `tables`."""

import json
from pathlib import Path
from typing import Any


def constants(name: str) -> Any:
    """The values of tables/NAME.json."""
    path = Path(__file__).with_name("tables") / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))
