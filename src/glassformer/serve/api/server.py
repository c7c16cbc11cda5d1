"""The server: runs by their names, answered at a socket, or by another server of ASGI."""

import gc
import os
import time
from collections.abc import Sequence
from pathlib import Path
from socket import socket
from typing import Any

from starlette.types import ASGIApp

from glassformer.errors import ConfigError
from glassformer.native import compiler, fits
from glassformer.run import Run, load
from glassformer.run.drafting import NGRAM, drafts_in
from glassformer.serve.api.access import VARIABLE, Rules, keys_of
from glassformer.serve.api.application import application
from glassformer.serve.api.engine_thread import EngineThread
from glassformer.serve.api.engines import Engines
from glassformer.serve.api.limits import Limits
from glassformer.serve.api.listener import Server
from glassformer.serve.api.models import COMPLETIONS, Registry, Served, name_of
from glassformer.serve.api.service import Service


def opened(
    folders: list[Path],
    names: list[str],
    device: str,
    quantize: str | None,
    engine: EngineThread,
    drafts: Sequence[str] = (),
    compile: bool | None = False,
) -> Registry:
    """The runs of these folders under their names, some with a draft, NAME=RUN or NAME=ngram.

    `compile`: those that write decode by a compiled step; None: if there is a C compiler.
    ConfigError: more names than runs, one twice, a draft of none of them, or with another
    vocabulary, or a cache without room for one; no compiler, if it was asked for. Errors of `load`.
    """
    if len(names) > len(folders):
        raise ConfigError(
            f"--name was given {len(names)} times for {len(folders)} runs; give one for each run."
        )
    given = [*names, *[None] * (len(folders) - len(names))]
    ids = [name_of(folder, name) for folder, name in zip(folders, given, strict=True)]
    now, served, drafted = int(time.time()), list[Served](), _drafts(drafts, ids)
    for name, folder in zip(ids, folders, strict=True):
        run = engine.call(load, folder, device)
        engine.engines.check(run.model)
        n = run.model.n_parameters  # quantized matrices are none
        run = run if quantize is None else engine.call(run.quantized, quantize)
        draft: Any = drafted.get(name)
        if draft and COMPLETIONS not in run.task.routes:
            raise ConfigError(
                f"--draft {name}={draft} is for a run that answers /v1/{COMPLETIONS}, unlike this "
                "one; leave it out."
            )
        if draft not in (None, NGRAM):
            draft = engine.call(load, Path(draft), device)
        if compile or (compile is None and compiler() is not None):
            for one in (run, draft):
                if isinstance(one, Run) and fits(one.model):
                    engine.call(one.compiled)
        served.append(Served(name, run, now, n, drafts_in({"draft": draft}, run)))
    return Registry(served)


def _drafts(given: Sequence[str], ids: Sequence[str]) -> dict[str, str]:
    """The draft of each model that has one; ConfigError: another form, or no such model."""
    found: dict[str, str] = {}
    for text in given:
        name, _, draft = text.partition("=")
        if not draft or name not in ids:
            raise ConfigError(
                f"--draft {text!r} is no NAME=RUN or NAME=ngram with the name of a served run "
                f"({', '.join(ids)}); write it so, or leave it out."
            )
        found[name] = draft
    return found


def replica(
    folders: Sequence[str | Path],
    names: Sequence[str] = (),
    *,
    device: str = "cpu",
    quantize: str | None = None,
    compile: bool | None = None,
    threads: int | None = None,
    max_rows: int = 16,
    cache_bytes: int | None = None,
    drafts: Sequence[str] = (),
    rules: Rules | None = None,
    limits: Limits | None = None,
) -> ASGIApp:
    """The application for another server of ASGI: uvicorn's workers, a replica of Ray Serve.

    Without `rules`, keys are read from GLASSFORMER_API_KEY; without keys it answers requests to
    this machine's names alone. Errors of `opened`.
    """
    engine = EngineThread(threads, Engines(max_rows, cache_bytes))
    registry = opened([*map(Path, folders)], [*names], device, quantize, engine, drafts, compile)
    _settle()
    rules = rules or Rules(keys=keys_of(None, os.environ.get(VARIABLE)))
    return application(Service(registry, engine, limits or Limits(), rules))


def answer(service: Service, listener: socket) -> None:
    """Answer at a socket until a signal has drained the server."""
    _settle()
    try:
        app = application(service)
        Server(app, listener, service.limits, service.calls, service.log).answer()
    finally:
        service.engine.close()


def _settle() -> None:
    """Leave what is there now out of collections, which would look at all modules for a tenth of a
    second, in which nobody is answered."""
    gc.collect()
    gc.freeze()
