"""`glassformer serve`: predictions of runs over HTTP, until SIGTERM or Ctrl-C."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from glassformer.cli.options import Count, Device, OptionalCount, OptionalSize, Size
from glassformer.errors import ConfigError, counted

if TYPE_CHECKING:
    from socket import socket

    from glassformer.serve.api.access import Rules
    from glassformer.serve.api.engine_thread import EngineThread
    from glassformer.serve.api.limits import Limits
    from glassformer.serve.api.models import Registry

Runs = Annotated[list[Path], Argument(help="Run folders.", metavar="RUN...")]
Several = Annotated[list[str] | None, Option()]
Port = Annotated[int, Option(min=0, max=65535)]
Seconds = Annotated[float, Option(min=0)]


def serve(
    run: Runs,
    name: Several = None,
    host: str = "127.0.0.1",
    port: Port = 8000,
    api_key_file: Path | None = None,
    insecure: bool = False,
    cors_origin: Several = None,
    allow_host: Several = None,
    max_body: Size = 1 << 20,
    deadline: Seconds = 300.0,
    drain: Seconds = 30.0,
    max_rows: Count = 16,
    cache: OptionalSize = None,
    quantize: str | None = None,
    compile: bool | None = None,
    draft: Several = None,
    threads: OptionalCount = None,
    device: Device = "cpu",
) -> None:
    """Serve runs over HTTP: the routes of OpenAI's API, and those of tasks.

    Prints its address when the models are loaded. SIGTERM and Ctrl-C let requests in progress end.

    name: Name of a run in requests, in the order of the runs; default: its folder's.
    host: Address to listen at.
    port: Port; 0: any that is free.
    api_key_file: File with an API key on each line, or sha256:HEX; else GLASSFORMER_API_KEY is one.
    insecure: Listen to other machines without a key.
    cors_origin: Origin whose pages may ask, such as https://example.org; may be repeated.
    allow_host: Name of this server in requests, such as a proxy's; may be repeated.
    max_body: Largest request; raise it for images and audio; default: 1MB.
    deadline: Seconds that a request may take.
    drain: Seconds that requests in progress get after SIGTERM.
    max_rows: Texts that a model writes at the same time; others wait.
    cache: Memory for keys and values of each model, as 512MB; default: as needed, at most 1GB.
    quantize: Keep large matrices as fp16, bf16, int8 or int4.
    compile: Compile the decoding step with the system's C compiler; default: if there is one.
    draft: NAME=RUN or NAME=ngram, which proposes the tokens of the run NAME; may be repeated.
    threads: Threads of a computation; default: torch's.
    """
    rules = _rules(host, api_key_file, insecure, cors_origin or [], allow_host or [])
    from glassformer.serve.api.limits import Limits
    from glassformer.serve.api.listener import listening
    from glassformer.serve.api.server import opened

    with listening(host, port) as listener:
        engine = _engine(threads, max_rows, cache)  # opens the runs, too
        registry = opened(run, name or [], device, quantize, engine, draft or [], compile)
        _answer(registry, engine, Limits(max_body, deadline=deadline, drain=drain), rules, listener)


def _engine(threads: int | None, max_rows: int, cache: int | None) -> "EngineThread":
    from glassformer.serve.api.engine_thread import EngineThread
    from glassformer.serve.api.engines import Engines

    return EngineThread(threads, Engines(max_rows, cache))


def _rules(
    host: str, file: Path | None, insecure: bool, origins: list[str], hosts: list[str]
) -> "Rules":
    """Who may ask; ConfigError: the server is open to others without a key."""
    from glassformer.serve.api.access import VARIABLE, Rules, keys_of

    rules = Rules(host, keys_of(file, os.environ.get(VARIABLE)), tuple(origins), tuple(hosts))
    if not (rules.keys or insecure or rules.local):
        raise ConfigError(
            f"Other machines reach --host {host}, and there is no API key; give --api-key-file or "
            f"{VARIABLE}, or --insecure to serve without one."
        )
    return rules


def _answer(
    registry: "Registry",
    engine: "EngineThread",
    limits: "Limits",
    rules: "Rules",
    listener: "socket",
) -> None:
    """Print the models and the address, and answer until the end."""
    from glassformer.serve.api.listener import address_of
    from glassformer.serve.api.server import answer
    from glassformer.serve.api.service import Service

    for one in registry.values():
        parameters = counted(one.n_parameters, "parameter")
        precision = f" in {one.run.bits}" if one.run.bits else ""
        routes = ", ".join(f"/v1/{route}" for route in one.routes)
        sys.stderr.write(f"{one.id}: {parameters}{precision}; {routes}\n")
    if not (rules.keys or rules.local):
        sys.stderr.write(f"everyone who reaches {rules.host} can use these models\n")
    print(address_of(*listener.getsockname()[:2]), flush=True)
    answer(Service(registry, engine, limits, rules), listener)
    sys.stderr.write("the server has ended\n")
