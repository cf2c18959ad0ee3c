"""Redrive's server in a separate process, and how to sign in to it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from bench.http.servers import announced

_SIGN_IN = re.compile(r":(\d+)/app/sign-in#(\S+)")


class Server(NamedTuple):
    port: int
    token: str
    process: int


@contextmanager
def server(url: str) -> Iterator[Server]:
    command = [sys.executable, "-m", "bench.http.redrive_server", url]
    with (
        TemporaryDirectory(prefix="redrive-bench-") as folder,
        announced(command, Path(folder) / "log", _SIGN_IN) as (found, process),
    ):
        yield Server(int(found[1]), found[2], process)
