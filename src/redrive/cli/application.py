"""The application that a command runs: imported, and given the settings of the command line."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from redrive.cli.given import Given
from redrive.cli.text import notice
from redrive.errors import InvalidValueError
from redrive.settings import FILE_VARIABLE, Settings

if TYPE_CHECKING:
    from redrive.app import Redrive


def application(target: str, given: Given, late: tuple[str, ...]) -> Redrive:
    """`late` is how the settings begin that may still be given now; the others are read when it is made."""
    from redrive.cli.target import application_at

    _refuse_late_arguments(target, given, late)
    if given.config is not None:
        os.environ[FILE_VARIABLE] = given.config  # where an application that loads its settings looks
    app = application_at(target)
    if given.config is not None and app.settings != Settings.load():
        notice(f"{target} does not take all its settings from --config: its code says otherwise.")
    app.settings = app.settings.override(given.arguments)
    return app


def set_up_log() -> None:
    """To the standard error, unless the application has set up a log of its own."""
    if logging.getLogger().handlers:
        return
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    for chatty in ("uvicorn", "httpx", "asyncio"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


def _refuse_late_arguments(target: str, given: Given, late: tuple[str, ...]) -> None:
    given.settings()  # what is wrong with them is told before anything is imported
    for name, argument in given.arguments.items():
        if not name.startswith(late):
            raise InvalidValueError(
                f"{argument.option} comes too late for {target}, which has its settings before it starts; "
                f"use the environment (REDRIVE_{name.upper()}) or --config"
            )
