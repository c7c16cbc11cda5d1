"""`glassformer inspect`: the explorer of a run, in the browser, until Ctrl-C."""

import sys

from glassformer.cli.options import Device, OptionalIndex, RunFolder
from glassformer.errors import counted


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
    import threading
    import webbrowser

    from glassformer.run import load
    from glassformer.serve.explorer.auth import LOCAL
    from glassformer.serve.explorer.handler import Explorer
    from glassformer.serve.explorer.server import Server, one_hand

    hand = one_hand()  # opens the run, too
    opened = hand.submit(load, run, device).result()
    with Server(Explorer(opened), host, port, hand) as server:
        parameters = counted(opened.model.n_parameters, "parameter")
        sys.stderr.write(f"{run}: {parameters}; Ctrl-C ends the explorer\n")
        if host not in LOCAL:
            sys.stderr.write(
                f"others in the network reach {host} too; whoever has the address can look at "
                "this model\n"
            )
        print(server.address, flush=True)
        if not no_browser:  # a browser in the terminal returns only when it is closed
            threading.Thread(target=webbrowser.open, args=(server.address,), daemon=True).start()
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            sys.stderr.write("the explorer has ended\n")
