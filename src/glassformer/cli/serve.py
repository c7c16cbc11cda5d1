"""`glassformer serve`: predictions of runs over HTTP, until SIGTERM or Ctrl-C."""

import os
import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from glassformer.cli.options import Device
from glassformer.errors import ConfigError, counted

PORT = 8000
VARIABLE = "GLASSFORMER_API_KEY"
"""The environment variable with a key."""
Runs = Annotated[list[Path], Argument(help="Run folders.", metavar="RUN...")]
Several = Annotated[list[str] | None, Option()]
PortNumber = Annotated[int, Option(min=0, max=65535)]
Seconds = Annotated[float, Option(min=0)]
Bytes = Annotated[int, Option(min=1 << 10)]


def serve(
    run: Runs,
    name: Several = None,
    host: str = "127.0.0.1",
    port: PortNumber = PORT,
    api_key_file: Path | None = None,
    insecure: bool = False,
    cors_origin: Several = None,
    allow_host: Several = None,
    max_body: Bytes = 1 << 20,
    max_queue: Annotated[int, Option(min=1)] = 256,
    deadline: Seconds = 300.0,
    drain: Seconds = 30.0,
    threads: Annotated[int | None, Option(min=1)] = None,
    device: Device = "cpu",
) -> None:
    """Serve runs over HTTP, as OpenAI's API does and by routes of their tasks.

    The address is printed when the models are loaded. SIGTERM and Ctrl-C end the server when the
    requests in progress are answered. Keys: GLASSFORMER_API_KEY, or a file of them.

    name: Name of a run in requests, in the order of the runs; default: its folder's.
    host: Address to listen at.
    port: Port; 0: any that is free.
    api_key_file: File with an API key on each line, or sha256:HEX of one.
    insecure: Listen to other machines without a key.
    cors_origin: Origin whose pages may ask, such as https://example.org; may be repeated.
    allow_host: Name of this server in requests, such as a proxy's; may be repeated.
    max_body: Largest request in bytes; raise it for images and audio.
    max_queue: Most texts that are accepted and not finished.
    deadline: Seconds that a request may take.
    drain: Seconds that requests in progress get after SIGTERM.
    threads: Threads of each computation; default: torch's.
    """
    try:
        import httptools  # noqa: F401 - uvicorn loads it by name
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise ConfigError(
            "The server is not installed; install it with pip install 'glassformer[serve]'."
        ) from None
    import time

    from glassformer.serve.api.access import Rules, is_local, keys_of
    from glassformer.serve.api.engine_thread import EngineThread
    from glassformer.serve.api.limits import Limits
    from glassformer.serve.api.server import address_of, listening, opened, served
    from glassformer.serve.api.service import Service

    keys = keys_of(api_key_file, os.environ.get(VARIABLE))
    if not (keys or insecure or is_local(host)):
        raise ConfigError(
            f"Other machines reach --host {host}, and there is no API key; give --api-key-file or "
            f"{VARIABLE}, or --insecure to serve without one."
        )
    rules = Rules(host, keys, tuple(cors_origin or ()), tuple(allow_host or ()))
    limits = Limits(body=max_body, queue=max_queue, deadline=deadline, drain=drain)
    with listening(host, port) as listener:
        engine = EngineThread(threads)
        registry = opened(run, name or [], device, engine, int(time.time()))
        for one in registry.values():
            parameters = counted(one.run.model.n_parameters, "parameter")
            routes = ", ".join(f"/v1/{route}" for route in one.routes)
            sys.stderr.write(f"{one.id}: {parameters}; {routes}\n")
        if not (keys or is_local(host)):
            sys.stderr.write(f"everyone who reaches {host} can use these models\n")
        print(address_of(listener), flush=True)
        served(Service(registry, engine, limits, rules), listener)
    sys.stderr.write("the server has ended\n")
