"""Studies that do not wait for a disk: no test pulls the plug, and half of the time went there."""

import sqlite3

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine


@pytest.fixture(autouse=True)
def _no_disk():
    def opened(connection: sqlite3.Connection, record: object) -> None:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA journal_mode = MEMORY")

    event.listen(Engine, "connect", opened)
    yield
    event.remove(Engine, "connect", opened)
