"""A server in this process: an application over tiny runs, and clients of it."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

BASE = "http://localhost"


class Api:
    """The application, asked without a network; `service` is its state."""

    def __init__(self, folders: dict[str, Path], **how: Any):
        from glassformer.run import load
        from glassformer.serve.api.application import application
        from glassformer.serve.api.engine_thread import EngineThread
        from glassformer.serve.api.envelope import Log
        from glassformer.serve.api.models import Registry, Served
        from glassformer.serve.api.service import Service

        engine = EngineThread(threads=1)
        runs = [Served(name, engine.call(load, of), 1) for name, of in folders.items()]
        self.service = Service(Registry(runs), engine, **{"log": Log(None), **how})
        self.app = application(self.service)
        self.runs = {one.id: one.run for one in runs}

    def ask(self, method: str, path: str, **what: Any) -> httpx2.Response:
        async def asked() -> httpx2.Response:
            transport = httpx2.ASGITransport(self.app)
            async with httpx2.AsyncClient(transport=transport, base_url=BASE) as client:
                return await client.request(method, path, **what)

        return asyncio.run(asked())

    def post(self, path: str, **fields: Any) -> Any:
        """The JSON of a reply, which must be one of success."""
        reply = self.ask("POST", path, json=fields)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def stream(self, path: str, **fields: Any) -> list[Any]:
        """The events of a stream, which must end as clients expect it."""
        reply = self.ask("POST", path, json=fields | {"stream": True})
        assert reply.status_code == 200, reply.text
        assert reply.headers["content-type"].startswith("text/event-stream")
        *events, last, rest = reply.text.split("\n\n")
        assert (last, rest) == ("data: [DONE]", "")
        return [json.loads(event.removeprefix("data: ")) for event in events]

    def close(self) -> None:
        self.service.engine.close()


@pytest.fixture(scope="session")
def folders(tmp_path_factory, talker) -> dict[str, Path]:
    """Tiny runs of all kinds that a route answers."""
    from small_kinds import run_of

    place = tmp_path_factory.mktemp("served")
    kinds = {"lm": "text", "pairs": "pairs", "classes": "classes", "tags": "tags"}
    kinds |= {"pictures": "pictures", "sounds": "sounds", "parts": "parts"}
    return {name: run_of(kind, place / kind) for name, kind in kinds.items()} | {"chat": talker}


@pytest.fixture(scope="session")
def api(folders) -> Any:
    made = Api(folders)
    yield made
    made.close()


@pytest.fixture
def api_of(folders) -> Any:
    """Make a server of some runs with settings of its own."""
    made: list[Api] = []

    def make(*names: str, **how: Any) -> Api:
        made.append(Api({name: folders[name] for name in names or ("lm",)}, **how))
        return made[-1]

    yield make
    for one in made:
        one.close()


Maker = Callable[..., Api]
