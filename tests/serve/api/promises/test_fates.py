"""E1, E5, E8: clients that leave, a request that fails, an engine that dies."""

import asyncio
import random
import signal
from collections import defaultdict

import pytest

from .client import COMPLETIONS, Connection, Cut, ask, ended_in_error, run, stream

pytestmark = [pytest.mark.slow, pytest.mark.serving]
N_CALLS = 400
PHASES = (0, 1, 40, 400)
"""Events of all streams that have come when the engine dies."""


class Progress:
    """Events that all streams have got; moments are counted in them."""

    def __init__(self) -> None:
        self.n, self._waiting = 0, defaultdict(list)

    def tick(self) -> None:
        self.n += 1
        for future in self._waiting.pop(self.n, ()):
            future.set_result(None)

    async def at(self, n: int) -> None:
        """Wait for the n-th event."""
        if n > self.n:
            self._waiting[n].append(future := asyncio.get_running_loop().create_future())
            await future


async def followed(one: Connection, fields, progress: Progress):
    """The reply to a request, each event counted."""
    one.send("POST", COMPLETIONS, fields)
    reply = await one.head()
    try:
        async for piece in one.pieces(reply):
            reply.body += piece
            progress.tick()
        reply.whole = True
    except Cut:
        pass
    return reply


def text_of(reply, fields) -> str:
    if fields.get("stream"):
        return stream(reply)[0][0]
    assert (reply.status, reply.whole) == (200, True), reply.body
    return reply.json["choices"][0]["text"]


async def leaving(server, how: str, moment: int, fields, progress: Progress) -> None:
    """Ask, and leave at a moment."""
    one = await Connection.open(server.port)
    task = asyncio.ensure_future(followed(one, fields, progress))
    await asyncio.wait(
        {task, asyncio.ensure_future(progress.at(moment))}, return_when="FIRST_COMPLETED"
    )
    if how == "reset":
        one.reset()
    elif how == "half" and one.writer.can_write_eof():
        one.writer.write_eof()
    one.close()
    await asyncio.gather(task, return_exceptions=True)


def test_calls_that_are_dropped_leave_nothing(serve, table):
    """E1; quick: test_life.py, test_a_client_that_leaves_frees_the_thread_and_nobody_else_notices,
    and tests/runtime/test_engine.py, test_aborted_requests_give_their_pages_back_at_once."""
    draw, progress = random.Random(0), Progress()

    async def all_of(server):
        before, tasks, kept = await server.idle(), [], []
        for i in range(N_CALLS):
            prompt = "the cat " * draw.choice([1, 10, 30])
            fields = {**server.long, "prompt": prompt, "max_tokens": draw.choice([1, 20, 60])}
            fields |= {"seed": i, "stream": i % 2 == 0}
            if i % 4 < 2:
                kept.append(fields)
                one = await Connection.open(server.port)
                tasks.append(followed(one, fields, progress))
            else:
                how, moment = draw.choice(["reset", "close", "half"]), draw.randrange(N_CALLS * 8)
                tasks.append(leaving(server, how, moment, fields, progress))
        replies = [one for one in await asyncio.gather(*tasks) if one is not None]
        began = asyncio.get_running_loop().time()
        after = await server.idle()
        seconds = asyncio.get_running_loop().time() - began
        changed = 0
        for reply, fields in zip(replies, kept, strict=True):
            alone = await ask(server.port, "POST", COMPLETIONS, fields)
            changed += text_of(reply, fields) != text_of(alone, fields)
        last = await server.idle()
        held = [one.get("cache_pages", 0) - one.get("cache_pages_free", 0) for one in (after, last)]
        return before, after, held, changed, seconds

    with serve("--threads", 1, limits={"queue": 2 * N_CALLS}) as server:
        before, after, held, changed, seconds = run(all_of(server))
    left = int(after["cancelled_total"])
    table(
        "E1",
        f"{N_CALLS} calls, {N_CALLS // 2} dropped ({left} seen to leave): all back "
        f"{1000 * seconds:.0f} ms after the last reply, {changed} texts of others changed",
    )
    assert changed == 0
    assert before["queue_depth"] == after["queue_depth"] == 0
    assert held[0] <= held[1]  # pages of prefixes that are kept for others, and of padding
    assert left > N_CALLS // 8
    assert seconds < 5


@pytest.mark.parametrize("fault", [1, 2, 3], ids=["ValueError", "MemoryError", "BaseException"])
def test_a_request_that_fails_ends_alone(serve, table, fault):
    """E5; quick: test_life.py, test_an_error_in_the_middle_of_a_stream_is_an_event_and_no_end, and
    tests/runtime/test_engine.py, test_a_failing_request_ends_alone."""
    progress = Progress()

    async def all_of(server):
        wanted = [
            {**server.long, "prompt": f"the cat {i}", "max_tokens": 100, "seed": i, "stream": True}
            for i in range(15)
        ]
        tasks = [
            asyncio.ensure_future(followed(await Connection.open(server.port), one, progress))
            for one in wanted
        ]
        await progress.at(60)
        poison = {**server.long, "prompt": [fault] * 3, "max_tokens": 9}
        failed = [
            await ask(server.port, "POST", COMPLETIONS, poison | {"stream": s})
            for s in (False, True)
        ]
        together = await asyncio.gather(*tasks)
        alone = [await ask(server.port, "POST", COMPLETIONS, one) for one in wanted]
        return failed, [stream(one)[0] for one in together], [stream(one)[0] for one in alone]

    with serve("--threads", 1) as server:
        failed, together, alone = run(all_of(server))
        live = run(ask(server.port, "GET", "/readyz")).status
        log = server.log.read_text(encoding="ascii")
    changed = sum(a != b for a, b in zip(together, alone, strict=True))
    table("E5", f"{type_of(fault)} in one of 16: it alone fails, {changed} of 15 others changed")
    assert (changed, live) == (0, 200)
    plain, streamed = failed
    assert (plain.status, plain.headers["x-should-retry"]) == (500, "false")
    assert ended_in_error(streamed)
    assert "poison" not in plain.body.decode() + streamed.body.decode() + log


def type_of(fault: int) -> str:
    return ["", "ValueError", "MemoryError", "a BaseException"][fault]


DEATHS = {"thread": signal.SIGUSR1, "hang": signal.SIGUSR2, "process": signal.SIGKILL}


@pytest.mark.parametrize("death", DEATHS)
def test_a_text_that_was_cut_never_looks_whole(serve, table, death):
    """E8; quick: test_life.py, test_an_error_in_the_middle_of_a_stream_is_an_event_and_no_end and
    test_a_request_beyond_its_deadline_ends."""
    silent = cut = 0

    async def one_death(server, phase):
        progress, tasks = Progress(), []
        for i in range(40):  # more than run at once: some are queued, some read, some written
            fields = {**server.long, "prompt": "the cat " * (1 + i), "max_tokens": 150, "seed": i}
            one = await Connection.open(server.port)
            tasks.append(
                asyncio.ensure_future(followed(one, fields | {"stream": i % 4 > 0}, progress))
            )
        await progress.at(phase)
        server.process.send_signal(DEATHS[death])
        return await asyncio.gather(*tasks, return_exceptions=True)

    for phase in PHASES:
        with serve("--threads", 1, "--deadline", 3) as server:
            for reply in run(one_death(server, phase)):
                failed = isinstance(reply, Cut) or ended_in_error(reply)
                cut += failed
                if not failed and b"data:" in reply.body:
                    stream(reply)  # it has its finish
                elif not failed:
                    silent += reply.json["choices"][0]["finish_reason"] != "length"
            if death == "thread":
                assert run(ask(server.port, "GET", "/livez")).status == 503
    table(
        "E8", f"{death} dies in {len(PHASES)} phases: {cut} of 160 texts cut, {silent} look whole"
    )
    assert silent == 0
    assert cut > 100
