"""`redrive policy simulate`: a changed policy against the recorded attempts of the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from redrive.cli.options import GlobalOptions, settings_options
from redrive.cli.output import output_option
from redrive.cli.parameters import DURATION
from redrive.cli.policy.options import alteration_options
from redrive.cli.policy.policies import run_on_database
from redrive.cli.progress import progress
from redrive.model.identity import HOME
from redrive.policy.alteration import Alteration, preset

if TYPE_CHECKING:
    from redrive.app import Redrive
    from redrive.failures.what_if import WhatIf


@click.command()
@click.argument("name", required=False, metavar="[NAME]")
@click.option("--workflow", metavar="NAME", help="Only failures of this workflow.")
@click.option("--step", metavar="NAME", help="Only failures of steps of this name.")
@click.option("--task", metavar="NAME", help="Only failures of this task.")
@click.option("--queue", metavar="NAME", help="Only failures in this queue.")
@click.option(
    "--since", type=DURATION, default="7d", show_default=True, help="Runs that were started no longer ago."
)
@click.option("--org", default=HOME, show_default=True, metavar="NAME", help="Whose runs.")
@alteration_options
@output_option
@settings_options
@click.pass_obj
def simulate(
    given: GlobalOptions,
    name: str | None,
    workflow: str | None,
    step: str | None,
    task: str | None,
    queue: str | None,
    since: float,
    org: str,
    alteration: Alteration,
    output: str | None,
) -> None:
    """Tell what would have become of everything that failed, under a changed policy.

    NAME is a preset to take the place of the recorded policies; without it, each step keeps its own, and the
    options change it: `redrive policy simulate --step charge --attempts 6`. Nothing is written.

    An attempt is taken to succeed from the first sign on that the step worked again: itself, or for others.
    Without a sign it is counted as not avoided.
    """
    if name is not None:
        preset(name)
    alteration = alteration._replace(preset=name)
    if alteration.changes_nothing:
        raise click.UsageError("Say what to change: a preset, or an option such as --attempts 6.")

    async def ask(app: Redrive) -> WhatIf:
        from redrive.failures.what_if import FailureSelection, rows_to_read, what_if

        wanted = FailureSelection(org, app.clock.now() - since, workflow, step, task, queue)
        with progress("Reading attempts", await rows_to_read(app.store, wanted)) as tell:
            return await what_if(app.store, app.definitions, wanted, alteration, tell)

    from redrive.cli.policy.report import show_report

    show_report(run_on_database(given, org, ask), output)
