"""Server processes that start in a moment: forked from a process that has imported everything."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Mapping
from multiprocessing.context import ForkServerProcess
from pathlib import Path

ROOT = Path(__file__).parents[2]
_IMPORTED = ["redrive.server.serve", "redrive.cli.serve", "argon2", "asyncpg", "httpx", "uvloop", __name__]


def started(environment: Mapping[str, str], log: Path, port: str) -> ForkServerProcess:
    """Start `redrive serve` of the shop; its output goes to the log."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_IMPORTED)
    process = context.Process(target=_serve, args=(dict(environment), log, port), daemon=True)
    process.start()
    return process


def _serve(environment: Mapping[str, str], log: Path, port: str) -> None:
    from redrive.cli import main

    os.environ.clear()
    os.environ.update(environment)
    os.chdir(ROOT)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    sys.argv = ["redrive", "serve", "tests.browser.world:app", "--port", port]
    main()
