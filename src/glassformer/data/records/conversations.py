"""Conversations to learn from: messages of a user and an assistant, in the usual shapes of a row.

    {"messages": [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]}
    {"conversations": [{"from": "human", "value": "2 + 2?"}, {"from": "gpt", "value": "4"}]}
    {"instruction": "Add the numbers.", "input": "2 and 2", "output": "4"}
    {"prompt": "2 + 2?", "completion": "4"}

Errors name the file and the line.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from glassformer.core.errors import DataError
from glassformer.data.config import DataConfig, SplitName
from glassformer.data.formats.lines import checked_text
from glassformer.data.formats.records import check_used, records
from glassformer.data.sources import Source
from glassformer.data.splits import in_splits, rows_of
from glassformer.data.usual_columns import columns_of

ASSISTANT = "assistant"
ROLES = ("system", "user", ASSISTANT, "tool")
"""Who can speak; a template may know fewer."""
NAMED = {"human": "user", "gpt": ASSISTANT, "developer": "system"} | {name: name for name in ROLES}
"""The role of each name that data give it."""
PAIRS = (("instruction", "output"), ("prompt", "completion"))
"""Columns of a question and its answer."""
BESIDE = ("input", "system")
"""Columns beside them: the object of the instruction, and the system message."""


@dataclass(frozen=True)
class Message:
    """One message."""

    role: str
    content: str


Messages = tuple[Message, ...]


@dataclass(frozen=True)
class Conversation:
    """Messages in their order, and their origin."""

    split: SplitName
    messages: Messages
    where: str


def conversations(config: DataConfig) -> Iterator[Conversation]:
    """Every conversation of every split; splits without files are held out from train.

    DataError: a row of another shape, a role that is not known, a message without text, or no
    message of the assistant.
    """
    read, remedy = rows_of(config, _rows), "give messages, one list a row"
    for split, row in in_splits(config, read, "conversations", remedy):
        yield Conversation(split, *row)


def messages_of(given: Any, where: str) -> Messages:
    """Messages as a list of objects with role and content (or from and value), or of `Message`;
    a text is one of the user. DataError: something else."""
    if isinstance(given, str):
        return (Message("user", checked_text(given, "content", where, "give a text")),)
    if not isinstance(given, Iterable) or isinstance(given, bytes | dict):
        raise DataError(
            f"{where} is {given!r:.60}, no messages; give a list of objects with role and content"
        )
    found = tuple(_message(one, where) for one in given)
    if not found:
        raise DataError(f"{where} has no message; give at least one of the user")
    return found


def _rows(source: Source) -> Iterator[tuple[Messages, str]]:
    config, columns = source.config, columns_of(source)
    names = [config.messages_field]
    pair = next((pair for pair in PAIRS if {*pair} <= columns.keys()), None)
    if pair is not None and names[0] not in columns:
        names = [*pair, *(name for name in BESIDE if name in columns)]
    for row, where in records(source, dict.fromkeys(names, "messages_field")):
        yield _read(row, where, config), where


def _read(row: Any, where: str, config: DataConfig) -> Messages:
    field = config.messages_field
    if not isinstance(row, dict):
        raise DataError(f"{where} is not an object but {row!r:.40}; give one with {field!r}")
    pair = next((pair for pair in PAIRS if {*pair} <= row.keys()), None)
    if field in row:
        given = row[field]
        if isinstance(given, str):  # the cell of a table
            try:
                given = json.loads(given)
            except (ValueError, RecursionError):
                raise DataError(
                    f"{where} has {given!r:.40} in place of messages; give them as a JSON list"
                ) from None
        messages = messages_of(given, where)
    elif pair is not None:
        check_used(config, ["messages_field"], used=False, path=where)
        messages = _pair(row, pair, where)
    else:
        known = " or ".join(f"{one!r} and {other!r}" for one, other in PAIRS)
        raise DataError(
            f"{where} has no field {field!r}, nor {known}; set data.messages_field to the field "
            "with the messages"
        )
    if not any(one.role == ASSISTANT and one.content.strip() for one in messages):
        raise DataError(f"{where} has no message of the assistant, the answer to learn; remove it")
    return messages


def _pair(row: dict[str, Any], pair: tuple[str, str], where: str) -> Messages:
    """A question and its answer, each a text or messages; the instruction's input follows it."""
    asked, answer = (row[name] for name in pair)
    system = row.get("system") or ""
    about = row.get("input") or "" if pair == PAIRS[0] else ""
    if isinstance(asked, str) and about:
        asked = f"{asked}\n\n{checked_text(about, 'input', where, 'give a text')}"
    if isinstance(answer, str):
        answer = [Message(ASSISTANT, checked_text(answer, pair[1], where, "give a text"))]
    first = [Message("system", checked_text(system, "system", where, "give a text"))]
    return (*(first if system else ()), *messages_of(asked, where), *messages_of(answer, where))


def _message(given: Any, where: str) -> Message:
    if isinstance(given, Message):
        return given
    if not isinstance(given, dict):
        raise DataError(f"{where} has the message {given!r:.40}; give an object with role, content")
    role, content = given.get("role", given.get("from")), given.get("content", given.get("value"))
    if not isinstance(role, str) or role not in NAMED:
        raise DataError(f"{where} has a message of the role {role!r:.40}; use {', '.join(ROLES)}")
    if isinstance(content, list):  # parts of several kinds, of which only text is read
        for part in content:
            if not (isinstance(part, dict) and isinstance(part.get("text"), str)):
                raise DataError(
                    f"{where} has the part {part!r:.40} in a message; only text is read"
                )
        content = "".join(part["text"] for part in content)
    return Message(NAMED[role], checked_text(content, "content", where, "give a text"))
