"""`redrive worker` and `redrive workers`: run a worker, and list the workers."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from redrive.cli.application import (
    application,
    log_format_option,
    reload_option,
    run_reloading,
    set_up_log,
)
from redrive.cli.client import Client
from redrive.cli.connection import api_options
from redrive.cli.options import GlobalOptions, output_option, settings_options
from redrive.cli.output import chosen, show_rows
from redrive.cli.table import Row, TableColumn, ago
from redrive.cli.terminal import notice
from redrive.model.worker import BlockingStep, worker_condition
from redrive.parts import parts_of
from redrive.words.number import plural
from redrive.words.time import age
from redrive.words.worker import blocked_text

if TYPE_CHECKING:
    from redrive.app import Redrive

STYLES = {"✓": "good", "✗": "bad", "↻": "warn", "‖": "warn", "!": "warn", "?": "warn"}
LATE = ("worker_",)
"""Prefixes of the settings that are read when a worker starts, not when the application is imported."""

PATH = "/api/v1/workers"
START = "redrive worker MODULE:ATTRIBUTE"
RESPONDING_SECONDS = 25.0
"""A worker without a heartbeat for this long has missed two and may be dead."""

ORDER = ("silent", "blocked", "running", "stopping", "stopped")
COLUMNS = (
    TableColumn("place", "worker"),
    TableColumn("state", whole=True, shown="status"),
    TableColumn("seconds_silent", "heartbeat", lambda seconds: f"{age(seconds)} ago"),
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
    "seconds_blocked",
)


@click.command()
@click.argument("target", metavar="MODULE:ATTRIBUTE")
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="Only serve this queue; repeatable.")
@click.option(
    "--workflow", "workflows", multiple=True, metavar="NAME", help="Only execute this workflow; repeatable."
)
@click.option("--streams", is_flag=True, help="Also read the Redis streams of the application.")
@click.option("--concurrency", metavar="N", help="Execute up to N steps at once. Default: 100.")
@log_format_option
@reload_option
@settings_options
@click.pass_obj
def worker(
    given: GlobalOptions,
    target: str,
    queues: tuple[str, ...],
    workflows: tuple[str, ...],
    streams: bool,
    concurrency: str | None,
    log_format: str | None,
    reload: bool,
) -> None:
    """Run a worker until SIGTERM or Ctrl-C; work in progress finishes first.

    MODULE:ATTRIBUTE is your application, such as shop.work:app, imported from this directory. On a terminal,
    the worker prints a short line for each event. Otherwise, or with --log-format, it logs only what is out
    of the ordinary.
    """
    if run_reloading(reload):
        return
    given.give("worker_concurrency", concurrency, "--concurrency")
    app = application(target, given, LATE)
    _set_up_console(app, log_format)
    tasks = [task for task in parts_of(app).registry.tasks.values() if not queues or task.queue in queues]
    which = f" in queue {', '.join(queues)}" if queues else ""
    notice(f"Worker started with {plural(len(tasks), 'task')}{which}. Press Ctrl-C to stop.")
    only: dict[str, Any] = {"queues": queues, "workflows": workflows}
    options = {name: names for name, names in only.items() if names}
    if not streams:
        app.run_worker(**options)
        return
    from redrive.streams.serve import run_worker_with_streams

    run_worker_with_streams(app, **options)


@click.command()
@click.option("--all", "everything", is_flag=True, help="Include stopped workers.")
@output_option
@api_options
def workers(client: Client, everything: bool, output: str | None) -> None:
    """List workers, silent ones first.

    A worker sends a heartbeat every few seconds. A worker that is silent for a minute is dead or cut off, and
    other workers take over its work.
    """
    found = [worker for worker in client.get(PATH)["items"] if everything or worker["state"] != "stopped"]
    found.sort(key=lambda worker: (ORDER.index(worker_state(worker)), worker["started_at"]))
    form = chosen(output)
    none = f"No worker is running. Start one with `{START}`."
    show_rows(found, COLUMNS if form == "table" else FIELDS, form, flat=_flat, empty=none)
    if silent := sum(worker_state(worker) == "silent" for worker in found):
        which = "its process and log" if silent == 1 else "their processes and logs"
        notice(f"{plural(silent, 'worker')} stopped reporting without shutting down. Check {which}.")
    for worker in found:
        if worker_state(worker) == "blocked":
            notice(f"{worker['id']}: {worker_trouble(worker)}.")


def worker_state(worker: Row) -> str:
    """Return the state, "silent" for a worker that has stopped reporting, or "blocked"."""
    state = worker_condition(worker["state"], worker["seconds_silent"], worker.get("seconds_blocked"))
    return state if state in ORDER else "running"


def worker_trouble(worker: Row) -> str:
    """Say for how long the event loop of a blocked worker has not answered, and which step blocks it."""
    step = worker.get("blocking_step")
    return blocked_text(worker["seconds_blocked"], None if step is None else BlockingStep(**step))


def is_at_work(worker: Row) -> bool:
    return worker_state(worker) == "running"


def is_responding(worker: Row) -> bool:
    return is_at_work(worker) and worker["seconds_silent"] <= RESPONDING_SECONDS


def is_served(workers: Sequence[Row], queue: str | None) -> bool:
    """Return whether a worker serves this queue (None: any). Without queue names, it serves all."""
    return any(
        is_responding(worker) and (queue is None or not worker["queues"] or queue in worker["queues"])
        for worker in workers
    )


def _set_up_console(app: Redrive, log_format: str | None) -> None:
    """Print short lines on a terminal, without --log-format and if the application configures no logging."""
    if log_format is not None or not sys.stderr.isatty() or logging.getLogger().handlers:
        set_up_log(log_format)
        return
    from redrive.observe.console import ConsoleListener
    from redrive.observe.log import LOGGER

    LOGGER.disabled = True  # the console prints the same in short lines
    set_up_log(log_format)
    app.listen(ConsoleListener(lambda sign, line: notice((line, STYLES.get(sign, "")))))


def _flat(worker: Row) -> Row:
    """Name the worker by host and process, which the API returns only to the owning organization."""
    place = worker["id"] if worker["host"] is None else f"{worker['host']}:{worker['process']}"
    busy = f"{worker['in_flight']:,} of {worker['concurrency']:,}"
    return {**worker, "state": worker_state(worker), "place": place, "busy": busy}
