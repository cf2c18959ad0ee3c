"""`redrive worker`: executes the work of an application."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any

import click

from redrive.cli.application import application, reload_option, run_reloading, set_up_log
from redrive.cli.options import GlobalOptions, settings_options
from redrive.cli.terminal import notice
from redrive.words.number import plural

if TYPE_CHECKING:
    from redrive.app import Redrive

STYLES = {"✓": "good", "✗": "bad", "↻": "warn", "‖": "warn", "!": "warn", "?": "warn"}
LATE = ("worker_",)
"""Prefixes of the settings that are read when a worker starts; the others are read with the application."""


@click.command()
@click.argument("target", metavar="MODULE:ATTRIBUTE")
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="Only this queue; can be repeated.")
@click.option(
    "--workflow", "workflows", multiple=True, metavar="NAME", help="Only this workflow; can be repeated."
)
@click.option("--concurrency", metavar="NUMBER", help="How many steps it executes at once; 100 if not given.")
@reload_option
@settings_options
@click.pass_obj
def worker(
    given: GlobalOptions,
    target: str,
    queues: tuple[str, ...],
    workflows: tuple[str, ...],
    concurrency: str | None,
    reload: bool,
) -> None:
    """Execute work until SIGTERM or Ctrl-C; what is in flight is finished.

    MODULE:ATTRIBUTE is your application, such as shop.work:app, imported from this directory. On a terminal
    it tells in short lines what it does; elsewhere it writes a log, of what is out of the ordinary.
    """
    if run_reloading(reload):
        return
    given.give("worker_concurrency", concurrency, "--concurrency")
    app = application(target, given, LATE)
    _set_up_console(app)
    notice(f"Working on {_works(app, queues)}; Ctrl-C ends it.")
    only: dict[str, Any] = {"queues": queues, "workflows": workflows}
    app.run_worker(**{name: names for name, names in only.items() if names})


def _set_up_console(app: Redrive) -> None:
    """Short lines on a terminal, unless the application has configured logging."""
    if not sys.stderr.isatty() or logging.getLogger().handlers:
        set_up_log()
        return
    from redrive.observe.console import ConsoleListener
    from redrive.observe.log import LOGGER

    LOGGER.disabled = True  # the console tells the same, in short
    set_up_log()
    app.listen(ConsoleListener(lambda sign, line: notice((line, STYLES.get(sign, "")))))


def _works(app: Redrive, queues: tuple[str, ...]) -> str:
    tasks = [task for task in app.registry.tasks.values() if not queues or task.queue in queues]
    return plural(len(tasks), "task") + (f" of {', '.join(queues)}" if queues else "")
