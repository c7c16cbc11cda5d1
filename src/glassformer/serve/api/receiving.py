"""Work for a client, which ends when the client leaves."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.types import Receive

from glassformer.serve.api.problems import ClientGone

Answer = TypeVar("Answer")


async def until_gone(receive: Receive, work: Coroutine[Any, Any, Answer]) -> Answer:
    """The result of `work`, which is cancelled when the client leaves: then ClientGone."""
    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(_gone(receive, task))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if task.cancelled() or not task.done():
            raise ClientGone
        return task.result()
    finally:
        for one in (task, watch):
            one.cancel()
        await asyncio.gather(task, watch, return_exceptions=True)


async def _gone(receive: Receive, work: asyncio.Future[Any]) -> None:
    """Cancel work when its client leaves, before it goes on sending to nobody."""
    while (await receive())["type"] != "http.disconnect":
        pass
    work.cancel()
