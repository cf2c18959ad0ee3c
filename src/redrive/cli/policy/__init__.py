"""`redrive policy`: list, explain and simulate retry policies."""

from __future__ import annotations

import click

from redrive.cli.commands import CommandGroup
from redrive.cli.options import GlobalOptions, output_option, settings_options
from redrive.cli.output import show_rows
from redrive.cli.policy.explain import explain
from redrive.cli.policy.policies import of_application, of_database
from redrive.cli.policy.simulate import simulate
from redrive.cli.table import Row, TableColumn
from redrive.model.identity import HOME
from redrive.policy.presets import PRESETS
from redrive.policy.retry import RetryPolicy
from redrive.words.time import duration

COLUMNS = (
    TableColumn("policy"),
    TableColumn("used_by"),
    TableColumn("max_attempts", "attempts"),
    TableColumn("waits"),
    TableColumn("last_attempt_after", "last attempt after", short=duration),
)


@click.group(cls=CommandGroup)
def policy() -> None:
    """List, explain and simulate retry policies.

    A retry policy defines how often a failed step is retried, the waits in between, and which errors are
    retried.
    """


@policy.command("list")
@click.argument("target", required=False, metavar="[MODULE:ATTRIBUTE]")
@click.option("--stored", is_flag=True, help="List the policies of workflows that have runs in the database.")
@click.option("--org", default=HOME, show_default=True, metavar="NAME", help="Organization for --stored.")
@output_option
@settings_options
@click.pass_obj
def list_policies(
    given: GlobalOptions, target: str | None, stored: bool, org: str, output: str | None
) -> None:
    """List the preset policies, or the policies in use.

    With MODULE:ATTRIBUTE, lists the policies of your application, such as shop.work:app, one line per step.
    """
    if target is None and not stored:
        rows = [_row(policy, None) for policy in PRESETS.values()]
        columns = [column for column in COLUMNS if column.name != "used_by"]
    else:
        used = [] if target is None else of_application(target)
        used += of_database(given, org) if stored else []
        rows = [
            {**_row(step.policy, step.name), "workflow": step.workflow, "step": step.step, "task": step.task}
            for step in used
        ]
        columns = list(COLUMNS)
    show_rows(rows, columns, output, empty="No policies: no runs yet.")


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
policy.add_command(simulate)
