"""`glassformer inspect`: prints where it is, answers, and ends at Ctrl-C."""

import html
import os
import signal
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from glassformer.serve.explorer.routes import Server
from processes import started


def inspecting(*arguments: object) -> Any:
    command = [sys.executable, "-m", "glassformer", "inspect", *map(str, arguments)]
    return started(command, text=True, env=os.environ | {"BROWSER": "false"})


def test_it_answers_until_ctrl_c(run_folder):
    with inspecting(run_folder("lm"), "--no-browser", "--port", 0) as process:
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        assert "/?token=" in address
        request = urllib.request.Request(
            address.partition("?")[0] + "api", b"{}", {"Content-Type": "application/json"}
        )
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=20)
        assert refused.value.code == 403
        refused.value.close()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "Ctrl-C ends the explorer" in said
    assert said.endswith("the explorer has ended\n")
    assert "Traceback" not in said


def page_of(address: str) -> tuple[Path, str, int]:
    """The page of a file's address, its content, and who may read its folder."""
    place = Path(address.removeprefix("file://"))
    return place, html.unescape(place.read_text()), place.parent.stat().st_mode & 0o777


def test_the_browser_is_opened_at_the_address(run_folder, monkeypatch, capsys):
    import threading
    import webbrowser

    from glassformer.cli.serve import inspect

    opened, seen = threading.Event(), []

    monkeypatch.setattr(Server, "answer", lambda server: opened.wait(20))
    pages = []
    monkeypatch.setattr(
        webbrowser,
        "open",
        lambda address: (seen.append(address), pages.append(page_of(address)), opened.set()),
    )
    inspect(run_folder("lm"), 0)
    said = capsys.readouterr()
    ((place, content, mode),) = pages
    assert "token" not in seen[0], "every user can read a browser's command line"
    assert f'url={said.out.strip()}"' in content
    assert mode == 0o700, "the folder of the page is the user's own"
    assert not place.exists(), "it is gone with the explorer"
    opened.set()
    inspect(run_folder("lm"), 0, no_browser=True)
    assert len(seen) == 1


def test_what_is_no_run_is_said_so(tmp_path):
    with inspecting(tmp_path / "no", "--no-browser") as process:
        out, said = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert said.startswith("glassformer: ")
    assert "is not a folder; give the folder of a run" in said
