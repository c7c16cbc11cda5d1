"""SIGTERM while an explorer has many answers to give."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from urllib.request import urlopen


def drain(run: Path, streams: int) -> tuple[Counter[str], float, list[str]]:
    """How streams ended of which a fifth had begun; seconds until the process was gone."""
    command = [sys.executable, "-m", "glassformer", "inspect", str(run), "--no-browser"]
    found, problems, sent, began = (
        Counter[str](),
        list[str](),
        threading.Semaphore(0),
        threading.Semaphore(0),
    )
    one = os.environ | {"OMP_NUM_THREADS": "1"}  # a small model; threads wait where cores are busy
    with subprocess.Popen(
        [*command, "--port", "0"],
        text=True,
        env=one,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        address = process.stdout.readline().strip()
        port, token = re.findall(r":(\d+)/\?token=(.*)", address)[0]
        headers = {"Cookie": f"glassformer-{port}={token}", "Content-Type": "application/json"}
        urlopen(address, timeout=20).close()

        def stream() -> None:
            connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=60)
            request = {"op": "sweep", "look": {"input": "the cat sat"}, "target": 1}
            try:
                connection.request("POST", "/stream", json.dumps(request), headers)
                sent.release()
                answer = connection.getresponse()
                began.release()
                lines = answer.read().decode().splitlines()
                whole = answer.status == 200 and json.loads(lines[-1]) == {"done": True}
                found["whole" if whole else f"status {answer.status}"] += 1
            except (OSError, http.client.HTTPException):
                found["cut"] += 1
            finally:
                connection.close()

        threads = [threading.Thread(target=stream) for _ in range(streams)]
        for thread in threads:
            thread.start()
        for _ in threads:
            sent.acquire(timeout=60)
        for _ in range(streams // 5):  # the others wait, or their requests arrive later
            began.acquire(timeout=60)
        begin = time.perf_counter()
        process.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join()
        process.wait(60)
        took, said = time.perf_counter() - begin, process.stderr.read()
    if process.returncode or "Traceback" in said:
        problems.append(f"exit code {process.returncode}: {said[-300:]}")
    if found["whole"] + found["status 503"] != streams or found["whole"] < streams // 5:
        problems.append(f"of {streams} streams: {dict(found)}")
    return found, took, problems
