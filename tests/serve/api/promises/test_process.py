"""E11, E12: the end by SIGTERM, kill -9, a damaged model."""

import asyncio
import shutil
import signal
import time

import pytest

from .client import COMPLETIONS, Connection, Cut, ask, ended_in_error, run, stream
from .test_fates import Progress, followed

pytestmark = [pytest.mark.slow, pytest.mark.serving]
N_STREAMS, N_ROUNDS, N_KILLS = 50, 2, 5
DRAINS = {"finish": 60, "expire": 1, "twice": 60}


@pytest.mark.parametrize("how", DRAINS)
def test_sigterm_ends_each_stream_with_its_finish_or_an_error(serve, table, how):
    """E11; quick: tests/serve/api/test_life.py, test_a_drain_waits_and_then_ends_with_an_error, and
    test_process.py."""
    whole = errors = 0
    seconds = []

    async def drained(server):
        progress, tasks = Progress(), []
        new = 100 if how == "finish" else 450
        fields = {**server.long, "prompt": "the cat", "max_tokens": new, "stream": True}
        for i in range(N_STREAMS):
            one = await Connection.open(server.port)
            tasks.append(asyncio.ensure_future(followed(one, fields | {"seed": i}, progress)))
        await progress.at(N_STREAMS)
        server.process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        refused = await ask(server.port, "POST", COMPLETIONS, fields)
        while refused.status == 200:  # the signal was not seen yet
            refused = await ask(server.port, "POST", COMPLETIONS, fields)
        if how == "twice":
            server.process.send_signal(signal.SIGTERM)
        return refused, await asyncio.gather(*tasks, return_exceptions=True), began

    for _ in range(N_ROUNDS):
        with serve("--threads", 1, "--drain", DRAINS[how]) as server:
            refused, replies, began = run(drained(server))
            code = server.process.wait(timeout=90)
            seconds.append(time.monotonic() - began)
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        for reply in replies:
            if isinstance(reply, Cut) or ended_in_error(reply):
                errors += 1
            else:
                stream(reply)
                whole += 1
        assert code == 0
    n = N_ROUNDS * N_STREAMS
    table(
        "E11",
        f"SIGTERM, {how}: {whole} of {n} streams whole, {errors} ended by an error, the rest none; "
        f"gone within {max(seconds):.1f} s, exit code 0",
    )
    assert whole + errors == n
    assert how != "finish" or whole == n
    assert how == "finish" or max(seconds) < DRAINS["expire"] + 15


def test_a_killed_server_comes_back_and_a_damaged_model_does_not(
    serve, table, run_folder, tmp_path
):
    """E12; quick: tests/training/test_model_files.py for damage, tests/serve/api/test_access.py,
    test_a_server_that_cannot_be_says_why."""
    seconds, port = [], "0"

    async def busy(server):
        fields = {**server.long, "prompt": "a", "max_tokens": 400, "stream": True}
        one = await Connection.open(server.port)
        one.send("POST", COMPLETIONS, fields)
        await one.head()
        server.process.send_signal(signal.SIGKILL)

    for _ in range(N_KILLS):
        began = time.monotonic()
        with serve("--threads", 1, "--port", port) as server:
            assert run(ask(server.port, "GET", "/readyz")).status == 200
            seconds.append(time.monotonic() - began)
            port = str(server.port)
            run(busy(server))
            assert server.process.wait(timeout=60) == -signal.SIGKILL
    folder = shutil.copytree(run_folder, tmp_path / "damaged")
    weights = folder / "model.safetensors"
    raw = bytearray(weights.read_bytes())
    raw[-1] ^= 1
    weights.write_bytes(raw)
    with pytest.raises(AssertionError) as failed, serve(runs={"lm": folder}):
        pass
    said = str(failed.value)
    table(
        "E12",
        f"{N_KILLS} kills: the same port answers after {max(seconds):.1f} s at most; a "
        "changed bit in the weights is a sentence",
    )
    assert "model.safetensors" in said
    assert "Traceback" not in said
