"""`redrive worker`: executes the work of an application."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from redrive.cli.application import application, set_up_log
from redrive.cli.given import Given, settings_options
from redrive.cli.reload import reload_option, reloading
from redrive.cli.text import notice

if TYPE_CHECKING:
    from redrive.app import Redrive

LATE = ("worker_",)
"""Settings that begin so are read when a worker starts; the others, when an application is made."""


@click.command()
@click.argument("target", metavar="MODULE:ATTRIBUTE")
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="Only this queue; can be repeated.")
@click.option(
    "--workflow", "workflows", multiple=True, metavar="NAME", help="Only this workflow; can be repeated."
)
@click.option("--concurrency", help="How many steps it executes at once.")
@reload_option
@settings_options
@click.pass_obj
def worker(
    given: Given,
    target: str,
    queues: tuple[str, ...],
    workflows: tuple[str, ...],
    concurrency: str | None,
    reload: bool,
) -> None:
    """Execute work until SIGTERM or Ctrl-C; what is in flight is finished.

    MODULE:ATTRIBUTE is your application, such as shop.work:app, imported from this directory.
    """
    if reloading(reload):
        return
    given.give("worker_concurrency", concurrency, "--concurrency")
    app = application(target, given, LATE)
    set_up_log()
    notice(f"Working on {_works(app)}; Ctrl-C ends it.")
    only: dict[str, Any] = {"queues": queues, "workflows": workflows}
    app.run_worker(**{name: names for name, names in only.items() if names})


def _works(app: Redrive) -> str:
    tasks = len(app.registry.tasks)
    return f"{tasks} task{'' if tasks == 1 else 's'}"
