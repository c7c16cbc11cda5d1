"""A server in this process: an application over tiny runs, and clients of it."""

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

BASE = "http://localhost"


class Api:
    """The application, asked without a network; `service` is its state."""

    def __init__(
        self,
        folders: dict[str, Path],
        rows: int = 16,
        quantize: str | None = None,
        drafts: tuple[str, ...] = (),
        pace: float = 0.0,
        **how: Any,
    ):
        from glassformer.serve.api.engine_thread import EngineThread
        from glassformer.serve.api.envelope import Log
        from glassformer.serve.api.server import application, open_models
        from glassformer.serve.api.service import Service

        engine = EngineThread(1, rows, pace=pace)
        options = "cpu", quantize, drafts, False
        models = engine.call(open_models, [*folders.values()], [*folders], *options)
        self.service = Service(models, engine, **{"log": Log(None), **how})
        self.app = application(self.service)
        self.runs = {one.id: one.run for one in models.values()}
        self.replies = dict(reply_kinds(self.app))

    def ask(self, method: str, path: str, **what: Any) -> httpx2.Response:
        async def asked() -> httpx2.Response:
            transport = httpx2.ASGITransport(self.app)
            async with httpx2.AsyncClient(transport=transport, base_url=BASE) as client:
                return await client.request(method, path, **what)

        return asyncio.run(asked())

    def post(self, path: str, **fields: Any) -> Any:
        """The JSON of a reply, which must be one of success and have its documented form."""
        reply = self.ask("POST", path, json=fields)
        assert reply.status_code == 200, reply.text
        self.replies[path].model_validate(value := reply.json())
        return value

    def stream(self, path: str, **fields: Any) -> list[Any]:
        """The events of a stream, which must end as clients expect it."""
        reply = self.ask("POST", path, json=fields | {"stream": True})
        assert reply.status_code == 200, reply.text
        assert reply.headers["content-type"].startswith("text/event-stream")
        *events, last, rest = reply.text.split("\n\n")
        assert (last, rest) == ("data: [DONE]", "")
        return [json.loads(event.removeprefix("data: ")) for event in events]

    async def loads(self) -> int:
        """Texts in the thread that computes, when all commands so far are done."""
        engine = self.service.engine
        count = engine.batch(object(), lambda _: [len(engine.texts)], [None])
        return (await asyncio.wrap_future(count))[0]


def reply_kinds(app: Any) -> Iterator[tuple[str, Any]]:
    """The documented paths and the kinds of their replies."""
    from glassformer.serve.api import replies

    for path, operations in app.openapi()["paths"].items():
        for one in operations.values():
            content = one["responses"]["200"]["content"]
            name = content.get("application/json", {}).get("schema", {}).get("$ref", "")
            yield path, getattr(replies, name.rpartition("/")[2], None)


class Connection:
    """A client that reads as it likes and may leave."""

    def __init__(self, api: Api, path: str, fields: dict[str, Any]):
        self.body, self.messages = json.dumps(fields).encode(), list[Any]()
        self.left, self.came = asyncio.Event(), asyncio.Condition()
        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        self.scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": headers,
        }
        self.task = asyncio.ensure_future(api.app(self.scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        if self.body:
            body, self.body = self.body, b""
            return {"type": "http.request", "body": body, "more_body": False}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        async with self.came:
            self.messages.append(message)
            self.came.notify_all()

    async def until(self, n: int) -> None:
        """Wait for so many messages."""
        async with self.came:
            await self.came.wait_for(lambda: len(self.messages) >= n)

    @property
    def text(self) -> str:
        return b"".join(one.get("body", b"") for one in self.messages).decode()

    @property
    def status(self) -> int:
        return self.messages[0]["status"]


@pytest.fixture(scope="session")
def folders(tmp_path_factory, talker) -> dict[str, Path]:
    """Tiny runs of all kinds that a route answers."""
    from small_kinds import run_of

    place = tmp_path_factory.mktemp("served")
    kinds = {
        "lm": "text",
        "pairs": "pairs",
        "classes": "classes",
        "tags": "tags",
        "masked": "masked",
    }
    kinds |= {"pictures": "pictures", "sounds": "sounds", "parts": "parts"}
    return {name: run_of(kind, place / kind) for name, kind in kinds.items()} | {"chat": talker}


@pytest.fixture(scope="session")
def api(folders) -> Iterator[Api]:
    """A server of all of them."""
    made = Api(folders)
    yield made
    made.service.engine.close()


@pytest.fixture
def api_of(folders) -> Any:
    """Make a server of some runs with settings of its own."""
    made: list[Api] = []

    def make(*names: str, **how: Any) -> Api:
        made.append(Api({name: folders[name] for name in names or ("lm",)}, **how))
        return made[-1]

    yield make
    for one in made:
        one.service.engine.close()


@pytest.fixture
def gate(monkeypatch) -> Iterator[threading.Semaphore]:
    """Steps of an engine that may be computed: each waits for one."""
    from glassformer.serve.api.engine_thread import Engine

    permits, step = threading.Semaphore(0), Engine.step

    def gated(engine: Any) -> Any:
        permits.acquire()
        return step(engine)

    monkeypatch.setattr(Engine, "step", gated)
    yield permits
    permits.release(1000)
