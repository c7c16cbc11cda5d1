"""The server: uvicorn around the application, and its end.

SIGTERM, Ctrl-C   ─> not ready, no new requests ─> running ones finish, or end with an error at
                     the end of the drain ─> exit code 0
a second signal   ─> at once
"""

import asyncio
import gc
import logging
import os
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from glassformer.errors import ConfigError
from glassformer.run import load
from glassformer.serve.api.access import VARIABLE, Rules, keys_of
from glassformer.serve.api.application import application
from glassformer.serve.api.engine_thread import EngineThread
from glassformer.serve.api.engines import Engines
from glassformer.serve.api.envelope import Log
from glassformer.serve.api.limits import Limits
from glassformer.serve.api.models import Registry, Served, name_of
from glassformer.serve.api.protocol import protocol
from glassformer.serve.api.service import Service

CLOSING = 2
"""Seconds that uvicorn waits for connections when all calls have ended."""


class Server(uvicorn.Server):
    """uvicorn with the drain of a service."""

    def __init__(self, service: Service):
        self.service = service
        limits = service.limits
        super().__init__(
            uvicorn.Config(
                application(service),
                http=protocol(limits),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                limit_concurrency=limits.connections,
                timeout_keep_alive=limits.keep_alive,
                timeout_graceful_shutdown=CLOSING,
            )
        )

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Drain at the first signal, end at the second."""
        if self.service.calls.draining:
            self.should_exit = self.force_exit = True
        else:
            self.service.calls.draining = True
            asyncio.run_coroutine_threadsafe(self._drained(), self._running)

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """See `uvicorn.Server`."""
        self._running = asyncio.get_running_loop()
        await super().serve(sockets)

    async def _drained(self) -> None:
        self.service.log.write(event="draining", requests=len(self.service.calls))
        await self.service.calls.drain(self.service.limits.drain)
        self.should_exit = True


class _JsonLines(logging.Handler):
    """uvicorn's warnings as lines of our log."""

    def __init__(self, log: Log):
        super().__init__(logging.WARNING)
        self.log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record without its traceback, which may hold a prompt."""
        error = record.exc_info[0] if record.exc_info else None
        more = {} if error is None else {"error": error.__name__}
        self.log.write(level=record.levelname, event=record.getMessage().splitlines()[0], **more)


def opened(
    folders: list[Path], names: list[str], device: str, quantize: str | None, engine: EngineThread
) -> Registry:
    """The runs of these folders under their names; ConfigError: more names than runs, one twice,
    or a cache without room for one. Errors of `load`."""
    if len(names) > len(folders):
        raise ConfigError(
            f"--name was given {len(names)} times for {len(folders)} runs; give one for each run."
        )
    given = [*names, *[None] * (len(folders) - len(names))]
    ids = [name_of(folder, name) for folder, name in zip(folders, given, strict=True)]
    now, served = int(time.time()), list[Served]()
    for name, folder in zip(ids, folders, strict=True):
        run = engine.call(load, folder, device)
        engine.engines.check(run.model)
        n = run.model.n_parameters  # quantized matrices are none
        run = run if quantize is None else engine.call(run.quantized, quantize)
        served.append(Served(name, run, now, n))
    return Registry(served)


def replica(
    folders: Sequence[str | Path],
    names: Sequence[str] = (),
    *,
    device: str = "cpu",
    quantize: str | None = None,
    threads: int | None = None,
    max_rows: int = 16,
    cache_bytes: int | None = None,
    rules: Rules | None = None,
    limits: Limits | None = None,
) -> ASGIApp:
    """The application for another server of ASGI: uvicorn's workers, a replica of Ray Serve.

    Without `rules`, keys are read from GLASSFORMER_API_KEY; without keys it answers requests to
    this machine's names alone. Errors of `opened`.
    """
    engine = EngineThread(threads, Engines(max_rows, cache_bytes))
    registry = opened([*map(Path, folders)], [*names], device, quantize, engine)
    _settle()
    rules = rules or Rules(keys=keys_of(None, os.environ.get(VARIABLE)))
    return application(Service(registry, engine, limits or Limits(), rules))


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens; ConfigError: the address is taken, or not this machine's."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, reuse_port=False, backlog=2048)
    except (OSError, OverflowError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            f"The server cannot listen at {host}, port {port} ({said}); choose another --port or "
            "--host."
        ) from None


def answer(service: Service, listener: socket.socket) -> None:
    """Answer at a socket until a signal has drained the server."""
    logger = logging.getLogger("uvicorn")
    logger.handlers, logger.propagate = [_JsonLines(service.log)], False
    _settle()
    try:
        Server(service).run(sockets=[listener])
    finally:
        service.engine.close()


def _settle() -> None:
    """Leave what is there now out of collections, which would look at all modules for a tenth of a
    second, in which nobody is answered."""
    gc.collect()
    gc.freeze()


def address_of(listener: socket.socket) -> str:
    """Where a socket is reached."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
