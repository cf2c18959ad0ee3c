"""Import, configure and reload the application MODULE:ATTRIBUTE for a worker or a server."""

from __future__ import annotations

import logging
import os
import shlex
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import click

from redrive.cli.options import GlobalOptions
from redrive.cli.outcome import missing_extra
from redrive.cli.terminal import notice, one_line
from redrive.errors import InvalidValueError, RedriveError
from redrive.parts import parts_of
from redrive.settings import FILE_VARIABLE, Settings
from redrive.words.number import names
from redrive.words.suggestion import closest

if TYPE_CHECKING:
    from redrive.app import Redrive

RELOAD = "--reload"
GRACE_SECONDS = 10

reload_option = click.option(
    RELOAD, is_flag=True, help="Restart when a Python file in this directory changes; for development."
)


log_format_option = click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    help="Log short lines of text, or one JSON object per line, unless the application configures logging.",
)


def application(target: str, given: GlobalOptions, late: tuple[str, ...]) -> Redrive:
    """Import the application and override its settings.

    `late` are the prefixes of the settings that still take effect once the application exists.
    """
    given.settings()  # report a wrong setting before importing anything
    for name, argument in given.arguments.items():
        if not name.startswith(late):
            raise InvalidValueError(
                f"{argument.option} has no effect: {target} reads this setting when it is imported; set "
                f"REDRIVE_{name.upper()} in the environment or use --config"
            )
    if given.config is not None:
        os.environ[FILE_VARIABLE] = given.config  # an application that loads its settings reads it
    app = application_at(target)
    if given.config is not None and parts_of(app).settings != Settings.load():
        notice(f"{target} ignores part of --config: its code sets some settings itself.")
    parts_of(app).declared.settings = parts_of(app).settings.override(given.arguments)
    return app


def application_at(target: str) -> Redrive:
    """Import MODULE:ATTRIBUTE; the working directory is on the path."""
    from redrive.app import Redrive  # slow to import, so only where it is needed

    name, colon, attribute = target.partition(":")
    if not colon or not attribute.isidentifier() or not all(map(str.isidentifier, name.split("."))):
        raise InvalidValueError(f"{target!r} is not MODULE:ATTRIBUTE, such as shop.work:app")
    module = _import(name)
    known = [name for name, value in vars(module).items() if isinstance(value, Redrive)]
    if not hasattr(module, attribute):
        raise InvalidValueError(
            f"module {name!r} has no attribute {attribute!r}{_suggestion(name, attribute, known)}"
        )
    app = getattr(module, attribute)
    if not isinstance(app, Redrive):
        kind = type(app).__name__
        raise InvalidValueError(
            f"{target} is of type {kind}, not Redrive{_suggestion(name, attribute, known)}"
        )
    return app


def set_up_log(log_format: str | None) -> None:
    """Log to stderr, unless the application has configured logging."""
    if logging.getLogger().handlers:
        return
    from redrive.observe.log_format import FORMATS

    handler = logging.StreamHandler()
    handler.setFormatter(FORMATS[log_format or "text"]())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    for library in ("uvicorn", "httpx2", "asyncio"):
        logging.getLogger(library).setLevel(logging.WARNING)


def _import(name: str) -> ModuleType:
    directory = str(Path.cwd())
    if directory not in sys.path:
        sys.path.insert(0, directory)
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if not f"{name}.".startswith(f"{missing}."):
            raise RedriveError(
                f"can't import module {name!r}: it needs {missing}, which is not installed"
            ) from error
        raise InvalidValueError(
            f"no module {missing!r} in this directory or among the installed packages. Run the command where "
            f"`import {missing}` works"
        ) from error
    except (Exception, SystemExit) as error:
        problem = f"{type(error).__name__}: {one_line(error)}"
        raise RedriveError(f"can't import module {name!r}: {problem}") from error


def _suggestion(module: str, attribute: str, known: list[str]) -> str:
    if not known:
        return f" and no application; create one, such as {attribute} = Redrive()"
    return f"; did you mean {module}:{closest(attribute, known) or known[0]}?"


def run_reloading(reload: bool) -> bool:
    """Run the command in other processes until Ctrl-C, and return True; or return False without --reload."""
    if not reload:
        return False
    try:
        from watchfiles import PythonFilter, run_process
    except ModuleNotFoundError as error:
        raise missing_extra(RELOAD, error, "reload") from None
    arguments = [word for word in sys.argv[1:] if word != RELOAD]
    command = shlex.join([sys.executable, "-m", "redrive.cli", *arguments])
    notice(f"Watching {Path.cwd()}. Press Ctrl-C to stop.")
    os.environ["PYTHONUNBUFFERED"] = "1"
    run_process(
        Path.cwd(),
        target=command,
        target_type="command",
        watch_filter=PythonFilter(),
        callback=_report_changes,
        sigint_timeout=GRACE_SECONDS,
        sigkill_timeout=1,
    )
    return True


def _report_changes(changes: Iterable[tuple[object, str]]) -> None:
    files = names(sorted({Path(path).name for _, path in changes}), 1)
    notice(f"{files} changed. Restarting.")
