"""--reload: the same command again, in a process of its own, whenever a file of the code has changed."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path

import click

from redrive.cli.terminal import notice
from redrive.errors import RedriveError

OPTION = "--reload"
GRACE = 10

reload_option = click.option(
    OPTION, is_flag=True, help="Start anew whenever a Python file here changes; for development."
)


def reloading(reload: bool) -> bool:
    """Is this the process that watches? Then the command has been executed by others, and is over."""
    if not reload:
        return False
    try:
        from watchfiles import PythonFilter, run_process
    except ModuleNotFoundError:
        raise RedriveError(
            "--reload needs watchfiles, which is not installed: pip install 'redrive[reload]'"
        ) from None
    arguments = [word for word in sys.argv[1:] if word != OPTION]
    command = shlex.join([sys.executable, "-m", "redrive.cli", *arguments])
    notice(f"Watching {Path.cwd()}; Ctrl-C ends it.")
    os.environ["PYTHONUNBUFFERED"] = "1"
    run_process(
        Path.cwd(),
        target=command,
        target_type="command",
        watch_filter=PythonFilter(),
        callback=lambda changes: notice(f"{_named(changes)} changed: starting anew."),
        sigint_timeout=GRACE,
        sigkill_timeout=1,
    )
    return True


def _named(changes: Iterable[tuple[object, str]]) -> str:
    names = sorted({Path(path).name for _, path in changes})
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
