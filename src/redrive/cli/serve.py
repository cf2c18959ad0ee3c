"""`redrive serve`: the HTTP API of an application."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

import click

from redrive.cli.given import Given, settings_options
from redrive.cli.text import notice
from redrive.config import Settings
from redrive.errors import InvalidValueError, RedriveError
from redrive.sourcing import FILE_VARIABLE

if TYPE_CHECKING:
    from redrive.app import Redrive

LATE = ("server_", "oidc_", "session_")
"""Settings that begin so are read when the server starts; the others, when an application is made."""


@click.command()
@click.argument("target", required=False, metavar="[MODULE:ATTRIBUTE]")
@click.option("--host", help="The address to listen on.")
@click.option("--port", help="The port to listen on; 0 is any free one.")
@click.option("--worker/--no-worker", default=None, help="Execute work in the same process.")
@click.option("--url", help="Where people find it, such as https://redrive.example.com.")
@settings_options
@click.pass_obj
def serve(
    given: Given, target: str | None, host: str | None, port: str | None, worker: bool | None, url: str | None
) -> None:
    """Serve the HTTP API.

    MODULE:ATTRIBUTE is your application, such as shop.work:app, imported from this directory; it is needed to
    start runs and to have a worker. Without it, the database of the settings is served.
    """
    given.give("server_host", host, "--host")
    given.give("server_port", port, "--port")
    given.give("server_worker", worker, "--worker" if worker else "--no-worker")
    given.give("server_url", url, "--url")
    _run(_bare(given) if target is None else _application(target, given))


def _bare(given: Given) -> Redrive:
    from redrive.app import Redrive  # takes longer than all the rest to load, so only where it is needed

    return Redrive(settings=given.settings())


def _application(target: str, given: Given) -> Redrive:
    from redrive.cli.target import application_at

    _refuse_late_arguments(target, given)
    if given.config is not None:
        os.environ[FILE_VARIABLE] = given.config  # where an application that loads its settings looks
    app = application_at(target)
    if given.config is not None and app.settings != Settings.load():
        notice(f"{target} does not take all its settings from --config: its code says otherwise.")
    app.settings = app.settings.overridden(given.arguments)
    return app


def _refuse_late_arguments(target: str, given: Given) -> None:
    given.settings()  # what is wrong with them is told before anything is imported
    for name, argument in given.arguments.items():
        if not name.startswith(LATE):
            raise InvalidValueError(
                f"{argument.option} comes too late for {target}, which has its settings before it is served; "
                f"use the environment (REDRIVE_{name.upper()}) or --config"
            )


def _run(app: Redrive) -> None:
    try:
        from redrive.server.serve import run
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("redrive"):
            raise
        raise RedriveError(
            f"the server needs {error.name}, which is not installed: pip install 'redrive[server]'"
        ) from None
    _log()
    run(app, announce=notice)


def _log() -> None:
    """To the standard error, unless the application has set up a log of its own."""
    if logging.getLogger().handlers:
        return
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    for chatty in ("uvicorn", "httpx", "asyncio"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
