"""glassformer chat: from a pipe, as JSON, typed at a terminal; a stopped answer, a full context."""

import signal
import sys

import pytest

from glassformer.cli import chat as command
from glassformer.cli.predict import predict
from glassformer.cli.verbs import Shared
from small_chat import OPPOSITES


class Terminal:
    def isatty(self) -> bool:
        return True


@pytest.fixture
def typed(monkeypatch):
    """Run the command at a terminal where a person types these lines; an exception is a key."""

    def sit(run, *lines):
        rest = iter(lines)

        def read(prompt: str) -> str:
            line = next(rest, EOFError)
            if isinstance(line, type):
                raise line
            return line

        monkeypatch.setattr("builtins.input", read)
        monkeypatch.setattr(command, "on_terminal", lambda: True)
        monkeypatch.setattr(sys, "stdin", Terminal())
        predict("chat", Shared(run), {})

    return sit


def test_each_line_of_a_pipe_is_answered_in_a_line(talker, cli):
    said = cli("chat", talker, stdin=b"hot up\n\nnight dry\n \n")
    assert (said.code, said.out) == (0, "cold\n\nday\n\n")


def test_the_answers_as_json_know_the_history(talker, cli):
    said = cli(
        "chat", talker, "--json", "--system", "be", stdin=b"hot up\nbig dry\nold up\nup old\n"
    )
    assert [row["text"] for row in said.lines] == ["cold", "small", "young", "down"]
    assert said.lines[0] == {
        "message": "hot up",
        "text": "cold",
        "finish": "end",
        "tokens": 2,
        "left_out": 0,
    }
    assert sum(row["left_out"] for row in said.lines) > 0
    assert "(the oldest 2 messages left out: the context of the model is 24 tokens)" in said.err


def test_one_message(talker, cli):
    said = cli("chat", talker, "--prompt", "wet hot", "--max-new-tokens", "1")
    assert said.out == f"{OPPOSITES['wet']}\n"
    assert cli("chat", talker, "--prompt", "wet hot", "--stop", "d").out == "\n"
    assert cli("generate", talker, "--prompt", "wet hot").out == "dry\n"


def test_a_person_is_answered_until_the_end(talker, typed, capsys):
    handler = signal.getsignal(signal.SIGINT)
    lines = ["hot up", "", "/what", "/system be", "big up", "/reset", KeyboardInterrupt, "day hot"]
    typed(talker, *lines)
    said = capsys.readouterr()
    assert said.out.split() == ["cold", "small", "night"]
    assert "there is no command /what; use /reset, /system TEXT, /quit" in said.err
    assert signal.getsignal(signal.SIGINT) is handler
    typed(talker, "/quit", "hot up")
    assert capsys.readouterr().out == ""


def test_ctrl_c_stops_an_answer_and_not_the_program(talker, typed, capsys, monkeypatch):
    """What was said so far stays in the history; the next message is answered."""
    from glassformer.tasks.predictors.chat import Chat

    stream, histories = Chat.stream, []

    def stopped(self, one, options):
        histories.append([dict(message) for message in one.given])
        for delta in stream(self, one, options):
            yield delta
            if len(histories) == 1:
                signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Chat, "stream", stopped)
    typed(talker, "hot up", "old dry")
    assert capsys.readouterr().out == "cold ...\nyoung\n\n"
    assert histories[1] == [
        {"role": "user", "content": "hot up"},
        {"role": "assistant", "content": "cold"},
        {"role": "user", "content": "old dry"},
    ]


def test_a_message_that_is_too_long_does_not_end_the_conversation(talker, typed, capsys):
    typed(talker, "hot " * 40, "hot up")
    assert capsys.readouterr().out.split("\n")[-3:] == ["cold", "", ""]


def test_a_run_that_does_not_chat_is_refused(trained, refused):
    said = refused("chat", trained, code=2, keep=trained, stdin=b"hi\n")
    assert "no chat template" in said
    assert "glassformer train chat data.train.path=FILE train.init_from=" in said
