"""The two servers, each in a separate process."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

OURS, BARE = "redrive", "bare"
_MODULES = {OURS: "bench.http.redrive_server", BARE: "bench.http.bare"}
_ADDRESS = re.compile(r" is at \S*:(\d+)")


class Server(NamedTuple):
    port: int
    process: int


@contextmanager
def servers(url: str) -> Iterator[dict[str, Server]]:
    with TemporaryDirectory(prefix="redrive-bench-") as folder, ExitStack() as running:
        log = Path(folder) / "log"
        yield {
            name: running.enter_context(_running([sys.executable, "-m", module, url], log))
            for name, module in _MODULES.items()
        }


@contextmanager
def _running(command: list[str], log: Path) -> Iterator[Server]:
    with announced(command, log, _ADDRESS) as (found, process):
        yield Server(int(found[1]), process)


@contextmanager
def announced(command: list[str], log: Path, pattern: re.Pattern[str]) -> Iterator[tuple[re.Match[str], int]]:
    """Start a server, and yield the match of its announcement, and its process."""
    with log.open("ab") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        yield _said(process, log, pattern), process.pid
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _said(process: subprocess.Popen[str], log: Path, pattern: re.Pattern[str]) -> re.Match[str]:
    assert process.stdout is not None
    for line in process.stdout:
        if found := pattern.search(line):
            return found
    raise RuntimeError(f"the server does not start: {log.read_text()[-2000:]}")
