"""`redrive policy`: what a retry policy does, and what another one would have done."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from redrive.cli.commands import CommandGroup
from redrive.cli.options import GlobalOptions, settings_options
from redrive.cli.output import Row, TableColumn, output_option, show_rows
from redrive.cli.parameters import DURATION
from redrive.cli.policy.explain import explain
from redrive.cli.policy.options import alteration_options
from redrive.cli.policy.policies import PolicyInUse, of_application, of_database, run_on_database
from redrive.cli.progress import progress
from redrive.model.identity import HOME
from redrive.policy.alteration import Alteration
from redrive.policy.presets import PRESETS, preset
from redrive.policy.retry import RetryPolicy
from redrive.words.time import duration

if TYPE_CHECKING:
    from redrive.app import Redrive
    from redrive.failures.what_if import WhatIf

COLUMNS = (
    TableColumn("policy"),
    TableColumn("used_by"),
    TableColumn("max_attempts", "attempts"),
    TableColumn("waits"),
    TableColumn("last_attempt_after", "last after", short=duration),
)


@click.group(cls=CommandGroup)
def policy() -> None:
    """Retry policies: list, explain, simulate a changed one.

    A policy says how often a failed step is executed again, how long apart, and after which errors.
    """


@policy.command("list")
@click.argument("target", required=False, metavar="[MODULE:ATTRIBUTE]")
@click.option("--stored", is_flag=True, help="Those of the workflows that the database has runs of.")
@click.option("--org", default=HOME, show_default=True, metavar="NAME", help="Whose runs, with --stored.")
@output_option
@settings_options
@click.pass_obj
def list_policies(
    given: GlobalOptions, target: str | None, stored: bool, org: str, output: str | None
) -> None:
    """List the named policies, or those in use.

    With MODULE:ATTRIBUTE, those of your application, such as shop.work:app, one line for each step.
    """
    if target is None and not stored:
        rows = [_row(policy, None) for policy in PRESETS.values()]
        columns = [column for column in COLUMNS if column.name != "used_by"]
    else:
        used = [] if target is None else of_application(target)
        used += of_database(given, org) if stored else []
        rows, columns = list(map(_used_row, used)), list(COLUMNS)
    show_rows(rows, columns, output, empty="no run has a policy yet")


def _used_row(used: PolicyInUse) -> Row:
    return {**_row(used.policy, used.name), "workflow": used.workflow, "step": used.step, "task": used.task}


def _row(policy: RetryPolicy, used_by: str | None) -> Row:
    schedule = policy.explain()
    retries = len(schedule.attempts) > 1
    return {
        "policy": policy.name,
        "used_by": used_by,
        "max_attempts": policy.max_attempts,
        "waits": schedule.formula if retries else "no retries",
        "last_attempt_after": schedule.attempts[-1].start[1],
    }


policy.add_command(explain)


@policy.command()
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
