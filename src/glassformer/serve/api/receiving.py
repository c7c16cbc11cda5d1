"""What comes from a client: the body of a request, and that it leaves."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping
from typing import Any, Final, TypeVar

from glassformer.serve.api.limits import Limits
from glassformer.serve.api.problems import ApiError, ClientGone

Answer = TypeVar("Answer")
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
JSON: Final = "application/json"


def check_body(headers: Mapping[str, str], limits: Limits) -> None:
    """Raise ApiError 415 for a body that is not said to be JSON, 413 for too many bytes."""
    if headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        raise ApiError(415, f"A request is sent as Content-Type: {JSON}.")
    size = headers.get("content-length", "")
    if size.isdecimal() and (len(size) > 15 or int(size) > limits.body):
        raise _too_large(limits)


async def received(receive: Receive, limits: Limits) -> bytes:
    """The bytes of a request; ApiError 413: too many, 408: too slow."""
    body = bytearray()
    try:
        async with asyncio.timeout(limits.receive):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                body += message.get("body", b"")
                if len(body) > limits.body:
                    raise _too_large(limits)
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        raise ApiError(
            408, f"The request did not come within {limits.receive:g} seconds."
        ) from None


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


def _too_large(limits: Limits) -> ApiError:
    return ApiError(413, f"The request is larger than {limits.body:,} bytes; {limits.remedy}.")
