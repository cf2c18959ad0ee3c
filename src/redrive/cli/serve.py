"""`redrive serve`: serve the HTTP API of an application and the admin pages."""

from __future__ import annotations

import sys

import click

from redrive.cli.application import (
    application,
    log_format_option,
    reload_option,
    run_reloading,
    set_up_log,
)
from redrive.cli.options import GlobalOptions, settings_options
from redrive.cli.outcome import missing_extra
from redrive.cli.terminal import notice

LATE = ("server_", "oidc_", "session_")
"""Prefixes of the settings that are read when the server starts, not when the application is imported."""


@click.command()
@click.argument("target", required=False, metavar="[MODULE:ATTRIBUTE]")
@click.option("--host", metavar="ADDRESS", help="Listen on this address. Default: this machine only.")
@click.option("--port", metavar="PORT", help="Listen on this port; 0 picks a free one. Default: 8400.")
@click.option("--worker/--no-worker", default=None, help="Run a worker in the same process.")
@click.option("--url", metavar="URL", help="Public URL, such as https://redrive.example.com.")
@log_format_option
@reload_option
@settings_options
@click.pass_obj
def serve(
    given: GlobalOptions,
    target: str | None,
    host: str | None,
    port: str | None,
    worker: bool | None,
    url: str | None,
    log_format: str | None,
    reload: bool,
) -> None:
    """Serve the HTTP API and the admin pages.

    MODULE:ATTRIBUTE is your application, such as shop.work:app, imported from this directory. Starting runs
    and running a worker require it. Without it, the server uses the configured database.
    """
    if run_reloading(reload):
        return
    given.give("server_host", host, "--host")
    given.give("server_port", port, "--port")
    given.give("server_worker", worker, "--worker" if worker else "--no-worker")
    given.give("server_url", url, "--url")
    from redrive.app import Redrive  # slow to import, so only where it is needed

    app = Redrive(settings=given.settings()) if target is None else application(target, given, LATE)
    try:
        from redrive.server.serve import run
    except ModuleNotFoundError as error:
        raise missing_extra("the server", error) from None
    set_up_log(log_format)
    watched = sys.stderr.isatty()
    if watched:
        notice("Press Ctrl-C to stop.")
    run(app, announce=notice, watched=watched)
