"""Redrive's server in a process of its own, and how to sign in to it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

_SIGN_IN = re.compile(r":(\d+)/app/sign-in#(\S+)")


class Server(NamedTuple):
    port: int
    token: str
    process: int


@contextmanager
def server(url: str) -> Iterator[Server]:
    with TemporaryDirectory(prefix="redrive-bench-") as folder:
        log = Path(folder) / "log"
        with log.open("ab") as errors:
            command = [sys.executable, "-m", "bench.http.ours", url]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            yield _started(process, log)
        finally:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def _started(process: subprocess.Popen[str], log: Path) -> Server:
    assert process.stdout is not None
    for line in process.stdout:
        if found := _SIGN_IN.search(line):
            return Server(int(found[1]), found[2], process.pid)
    raise RuntimeError(f"the server does not start: {log.read_text()[-2000:]}")
