"""`redrive worker` and `redrive workers`: execute the work of an application, and list who does."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from redrive.cli.application import application, reload_option, run_reloading, set_up_log
from redrive.cli.client import Client
from redrive.cli.connection import api_options
from redrive.cli.options import GlobalOptions, output_option, settings_options
from redrive.cli.output import chosen, show_rows
from redrive.cli.table import Row, TableColumn, ago
from redrive.cli.terminal import notice
from redrive.parts import parts_of
from redrive.words.number import plural
from redrive.words.time import age

if TYPE_CHECKING:
    from redrive.app import Redrive

STYLES = {"✓": "good", "✗": "bad", "↻": "warn", "‖": "warn", "!": "warn", "?": "warn"}
LATE = ("worker_",)
"""Prefixes of the settings that are read when a worker starts; the rest is read with the application."""

PATH = "/api/v1/workers"
START = "redrive worker MODULE:ATTRIBUTE"
SILENT_SECONDS = 60.0
"""A worker without a heartbeat for so long is dead, whatever its state says."""
HEARD_SECONDS = 25.0
"""A worker that has missed two heartbeats may be dead."""

ORDER = ("silent", "running", "stopping", "stopped")
COLUMNS = (
    TableColumn("place", "worker"),
    TableColumn("state", whole=True),
    TableColumn("seconds_silent", "last heard", lambda seconds: f"{age(seconds)} ago"),
    "busy",
    TableColumn("code_version", "version"),
    "queues",
    TableColumn("started_at", "started", ago),
)
FIELDS = (
    "id",
    "state",
    "seconds_silent",
    "in_flight",
    "concurrency",
    "code_version",
    "queues",
    "host",
    "process",
    "started_at",
)


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
    tasks = [task for task in parts_of(app).registry.tasks.values() if not queues or task.queue in queues]
    which = f" of {', '.join(queues)}" if queues else ""
    notice(f"Working on {plural(len(tasks), 'task')}{which}; Ctrl-C ends it.")
    only: dict[str, Any] = {"queues": queues, "workflows": workflows}
    app.run_worker(**{name: names for name, names in only.items() if names})


@click.command()
@click.option("--all", "everything", is_flag=True, help="Also those that have stopped.")
@output_option
@api_options
def workers(client: Client, everything: bool, output: str | None) -> None:
    """List the workers; those that have fallen silent come first.

    A worker says every few seconds that it is there. One that is silent for a minute is dead or cut off;
    its work is given to others. Those that have stopped are shown with --all.
    """
    found = [worker for worker in client.get(PATH)["items"] if everything or worker["state"] != "stopped"]
    found.sort(key=lambda worker: (ORDER.index(worker_state(worker)), worker["started_at"]))
    form = chosen(output)
    none = f"No worker is at work: `{START}` starts one."
    show_rows(found, COLUMNS if form == "table" else FIELDS, form, flat=_flat, empty=none)
    if silent := sum(worker_state(worker) == "silent" for worker in found):
        notice(f"{silent:,} fell silent without stopping: look at their processes and logs.")


def worker_state(worker: Row) -> str:
    """Its state, or "silent" where it should be at work."""
    state = str(worker["state"])
    if state != "stopped" and worker["seconds_silent"] > SILENT_SECONDS:
        return "silent"
    return state if state in ORDER else "running"


def is_at_work(worker: Row) -> bool:
    return worker_state(worker) == "running"


def is_heard(worker: Row) -> bool:
    return is_at_work(worker) and worker["seconds_silent"] <= HEARD_SECONDS


def is_served(workers: Sequence[Row], queue: str | None) -> bool:
    """Whether a worker serves this queue, or any queue. A worker that names no queues serves all."""
    return any(
        is_heard(worker) and (queue is None or not worker["queues"] or queue in worker["queues"])
        for worker in workers
    )


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


def _flat(worker: Row) -> Row:
    """The API tells host and process to the organization that owns the installation."""
    place = worker["id"] if worker["host"] is None else f"{worker['host']}:{worker['process']}"
    busy = f"{worker['in_flight']:,} of {worker['concurrency']:,}"
    return {**worker, "state": worker_state(worker), "place": place, "busy": busy}
