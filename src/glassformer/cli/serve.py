"""`glassformer serve`: predictions of runs over HTTP, and `glassformer inspect`: the explorer of a
run in the browser; both until SIGTERM or Ctrl-C."""

import os
import sys
from contextlib import ExitStack, suppress
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from glassformer.cli.options import (
    Count,
    Device,
    OptionalCount,
    OptionalIndex,
    OptionalSize,
    RunFolder,
    Size,
)
from glassformer.core.errors import ConfigError, amount

if TYPE_CHECKING:
    from glassformer.serve.api.access import Rules

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
    compile: Annotated[bool | None, Option("--compile/--no-compile")] = None,
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
    limits = {"body": max_body, "deadline": deadline, "drain": drain}
    options: dict[str, Any] = {"device": device, "quantize": quantize, "compile": compile}
    options |= {"threads": threads, "max_rows": max_rows, "cache_bytes": cache}
    _answer(run, name or [], port, rules, limits, options | {"drafts": draft or []})


def _answer(
    folders: list[Path],
    names: list[str],
    port: int,
    rules: "Rules",
    limits: dict[str, Any],
    options: dict[str, Any],
) -> None:
    """Open the runs, print the models and the address, and answer until the end."""
    from glassformer.serve.api.admission import Limits
    from glassformer.serve.api.listener import address_of, listening
    from glassformer.serve.api.server import answer, open_service

    with listening(rules.host, port) as listener:
        service = open_service(folders, names, rules=rules, limits=Limits(**limits), **options)
        for one in service.models.values():
            routes = ", ".join(f"/v1/{route}" for route in one.routes)
            sys.stderr.write(f"{one.id}: {routes}\n")
        if not (rules.keys or rules.local):
            sys.stderr.write(f"everyone who reaches {rules.host} can use these models\n")
        print(address_of(*listener.getsockname()[:2]), flush=True)
        answer(service, listener)
        sys.stderr.write("the server has ended\n")


def _rules(
    host: str, file: Path | None, insecure: bool, origins: list[str], hosts: list[str]
) -> "Rules":
    """Return the rules of access; ConfigError: the server is open to others without a key."""
    from glassformer.serve.api.access import VARIABLE, Rules, keys_of

    rules = Rules(host, keys_of(file, os.environ.get(VARIABLE)), tuple(origins), tuple(hosts))
    if not (rules.keys or insecure or rules.local):
        raise ConfigError(
            f"Other machines reach --host {host}, and there is no API key; give --api-key-file or "
            f"{VARIABLE}, or --insecure to serve without one."
        )
    return rules


def inspect(
    run: RunFolder,
    port: OptionalIndex = None,
    host: str = "127.0.0.1",
    no_browser: bool = False,
    device: Device = "cpu",
) -> None:
    """Open the explorer of a run in the browser; Ctrl-C stops it.

    port: Port; default: the first free one from 8420.
    host: Address to listen at.
    no_browser: Only print the address.
    """
    from glassformer.core.files import scratch_folder
    from glassformer.run import load
    from glassformer.serve.api.access import is_local
    from glassformer.serve.api.engine_thread import EngineThread
    from glassformer.serve.explorer.handler import Explorer
    from glassformer.serve.explorer.routes import Server

    engine = EngineThread()
    opened = engine.call(load, run, device)
    with Server(Explorer(opened), host, port, engine) as server, ExitStack() as kept:
        parameters = amount(opened.model.n_parameters, "parameter")
        sys.stderr.write(f"{run}: {parameters}; Ctrl-C ends the explorer\n")
        if not is_local(host):
            sys.stderr.write(
                f"others in the network reach {host} too; whoever has the address can look at "
                "this model\n"
            )
        print(server.address, flush=True)
        if not no_browser:
            with suppress(OSError):  # then the printed address is enough
                place = kept.enter_context(scratch_folder())
                _open_in_browser(place / "explorer.html", server.address)
        server.answer()
        sys.stderr.write("the explorer has ended\n")


def _open_in_browser(page: Path, address: str) -> None:
    """Open an address by way of a page in a folder that only this user can read.

    A browser's command line can be read by every user of the machine, and the address has the
    token.
    """
    import threading
    import webbrowser

    from glassformer.core.files import write_text

    head = f'<meta charset="utf-8"><meta http-equiv="refresh" content="0; url={escape(address)}">'
    write_text(page, f"<!doctype html>{head}<title>glassformer</title>")
    # a browser in the terminal returns only when it is closed
    threading.Thread(target=webbrowser.open, args=(page.as_uri(),), daemon=True).start()
