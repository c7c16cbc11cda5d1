"""`glassformer inspect`: the explorer of a run, in the browser, until Ctrl-C."""

import sys
from contextlib import ExitStack, suppress
from html import escape
from pathlib import Path

from glassformer.cli.options import Device, OptionalIndex, RunFolder
from glassformer.core.errors import amount


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
