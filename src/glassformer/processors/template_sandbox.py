"""Rendering of chat templates in a process of their own, which ends with what takes too long.

`template_worker` is the process: it starts at the first rendering, stays for the next ones, and is
started anew after a template that it did not survive.
"""

import atexit
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from glassformer.errors import ConfigError, DataError
from glassformer.files import WINDOWS

WORKER = Path(__file__).with_name("template_worker.py")
PATIENCE = 0.2 if WINDOWS else 10.0
"""Seconds until the process is ended from here: where it cannot end itself by its processor time,
else as the last resort, since other programs may keep it waiting."""
SHOWN = 200


class TemplateError(DataError):
    """A template that cannot be rendered, or refuses the messages."""


class Sandbox:
    """The process and its one request at a time; safe for threads, and after a fork."""

    def __init__(self) -> None:
        self._lock, self._process, self._owner = threading.Lock(), None, 0

    def render(self, template: str, values: Mapping[str, Any]) -> tuple[str, list[tuple[int, int]]]:
        """The text of a template, and the spans of characters that it marks as answers.

        TemplateError: it fails, takes more than 0.1 s of processor time, more than 256 MiB, or
        writes more than 4 Mi characters. ConfigError: Jinja is not installed, or does not read it.
        """
        request = json.dumps({"template": template, "values": dict(values)})
        with self._lock:
            reply = self._asked(request)
        if reply is None:
            raise TemplateError("the chat template takes too much time or memory; use another one")
        said = " ".join(str(reply.get("error") or reply.get("syntax")).split())[:SHOWN]
        if "syntax" in reply:
            raise ConfigError(f"The chat template is no template of Jinja ({said}); correct it.")
        if "error" in reply:
            raise TemplateError(
                f"the chat template does not render these messages: {said}; change them, or the "
                "template"
            )
        return reply["text"], [(begin, end) for begin, end in reply["answers"]]

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None and self._owner == os.getpid():
            process.kill()
            process.communicate()

    def _asked(self, request: str) -> dict[str, Any] | None:
        """The reply; None: the process did not survive the request."""
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        late = threading.Timer(PATIENCE, process.kill)
        late.daemon = True
        try:
            late.start()
            process.stdin.write(f"{request}\n".encode())
            process.stdin.flush()
            line = process.stdout.readline()
        except OSError:
            line = b""
        except BaseException:  # Ctrl-C: its reply would be taken for the next one's
            self.close()
            raise
        finally:
            late.cancel()
        if not line.endswith(b"\n"):
            self.close()
            return None
        return json.loads(line)

    def _started(self) -> subprocess.Popen[bytes]:
        process = self._process
        if process is not None and self._owner == os.getpid() and process.poll() is None:
            return process
        _check_jinja()
        self._owner = os.getpid()
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdout is not None
        if not self._process.stdout.readline():  # the time of its start is not the template's
            self.close()
            raise TemplateError(
                f"the process that renders chat templates does not start; run {sys.executable} "
                f"{WORKER} to see why"
            )
        return self._process


def _check_jinja() -> None:
    try:
        import_module("jinja2")
    except ImportError:
        raise ConfigError(
            "The chat templates of published models need Jinja; run pip install "
            "'glassformer[chat]'."
        ) from None


SANDBOX = Sandbox()
atexit.register(SANDBOX.close)
