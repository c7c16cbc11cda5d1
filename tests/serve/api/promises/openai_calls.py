"""Calls of OpenAI's own client, as a program: python openai_calls.py ADDRESS FIELDS.

Prints JSON: the client's version, and for each case what it saw, plain, streamed and asynchronous.
"""

import asyncio
import json
import sys

import openai
from openai import AsyncOpenAI, OpenAI


def whole(pieces):
    """Text and finish of streamed pieces."""
    text, finish = "", None
    for piece in pieces:
        for choice in piece.choices:
            text += (
                getattr(choice, "text", None)
                or getattr(getattr(choice, "delta", None), "content", "")
                or ""
            )
            finish = choice.finish_reason or finish
    return [text, finish]


def completion(reply):
    (choice,) = reply.choices
    return [
        choice.text if hasattr(choice, "text") else choice.message.content,
        choice.finish_reason,
    ]


async def asynchronous(own, calls):
    found = []
    for _, fields in calls:
        create = (own.chat.completions if "messages" in fields else own.completions).create
        plain = completion(await create(**fields))
        pieces = [piece async for piece in await create(**fields, stream=True)]
        found.append([plain, whole(pieces)])
    await own.close()
    return found


def main(address, calls):
    how = {"base_url": f"{address}/v1", "api_key": "none", "max_retries": 0}
    with OpenAI(**how) as own:
        found = []
        for _, fields in calls:
            create = (own.chat.completions if "messages" in fields else own.completions).create
            plain = completion(create(**fields))
            found.append([plain, whole(create(**fields, stream=True))])
        errors = []
        for fields in ({"max_tokens": -1}, {"model": "gpt"}, {"prompt": [1, 1, 1]}):
            try:
                own.completions.create(**{**calls[0][1], **fields})
            except openai.APIStatusError as error:
                errors.append([error.status_code, error.type])
            try:
                list(own.completions.create(**{**calls[0][1], **fields}, stream=True))
            except openai.APIError as error:
                errors.append(["event", error.type])
    later = asyncio.run(asynchronous(AsyncOpenAI(**how), calls))
    print(
        json.dumps({"version": openai.__version__, "sync": found, "async": later, "errors": errors})
    )


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
