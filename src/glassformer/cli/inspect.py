"""`glassformer inspect`: the explorer of a run, in the browser, until Ctrl-C."""

import sys
import threading
import webbrowser
from pathlib import Path

from glassformer.errors import counted
from glassformer.run import load
from glassformer.serve.explorer.auth import LOCAL
from glassformer.serve.explorer.handler import Explorer
from glassformer.serve.explorer.server import Server, one_hand


def inspect(folder: Path, port: int | None, host: str, browser: bool, device: str) -> None:
    """Open a run, print where it can be seen, and answer until somebody ends it."""
    hand = one_hand()  # opens the run, too
    run = hand.submit(load, folder, device).result()
    with Server(Explorer(run), host, port, hand) as server:
        sys.stderr.write(
            f"{folder}: {counted(run.model.n_parameters, 'parameter')}; Ctrl-C ends the explorer\n"
        )
        if host not in LOCAL:
            sys.stderr.write(
                f"others in the network reach {host} too; whoever has the address can look at "
                f"this model\n"
            )
        print(server.address, flush=True)
        if browser:  # a browser of the terminal would not come back before it is closed
            threading.Thread(target=webbrowser.open, args=(server.address,), daemon=True).start()
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            sys.stderr.write("the explorer has ended\n")
