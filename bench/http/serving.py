"""The two servers, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

OURS, BARE = "redrive", "bare"
_MODULES = {OURS: "bench.http.ours", BARE: "bench.http.bare"}
_SAYS = " is at "


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
    with log.open("ab") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        yield Server(_port(process, log), process.pid)
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _port(process: subprocess.Popen[str], log: Path) -> int:
    assert process.stdout is not None
    for line in process.stdout:
        if _SAYS in line:
            return int(line.strip().rpartition(":")[2])
    raise RuntimeError(f"the server does not start: {log.read_text()[-2000:]}")
