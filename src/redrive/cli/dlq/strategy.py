"""Show and change which failures become dead letters."""

from __future__ import annotations

import click

from redrive.cli.checks import report_dry_run
from redrive.cli.client import Client
from redrive.cli.connection import api_options
from redrive.cli.options import dry_run_option, output_option, reason_option
from redrive.cli.output import show_rows
from redrive.cli.table import Row, TableColumn, ago
from redrive.cli.terminal import notice
from redrive.policy.triage import Strategy

PATH = "/api/v1/strategies"
DEFAULT = "default"

COLUMNS = (
    TableColumn("queue", "queue", shown="where"),
    TableColumn("strategy", whole=True),
    TableColumn("changed_by", "changed by", shown="by"),
    TableColumn("changed_at", "changed", ago),
    "reason",
)


@click.command()
@click.argument("strategy", required=False, type=click.Choice([*Strategy, DEFAULT], case_sensitive=False))
@click.option("--queue", metavar="NAME", help="Only this queue; by default, all without their own strategy.")
@reason_option
@dry_run_option
@output_option
@api_options
def strategy(
    client: Client, strategy: str | None, queue: str | None, reason: str, dry_run: bool, output: str | None
) -> None:
    """Show or change which failures become dead letters.

    \b
    automatic   every failure
    selective   failures that a later retry may fix
    manual      none, except on request
    disabled    none
    default     remove the stored strategy, so that the default applies again

    Workers follow a change within seconds.
    """
    if strategy is None:
        if queue is not None or reason or dry_run:
            raise click.UsageError("Name a strategy to change it, such as `redrive dlq strategy selective`.")
        show_rows(client.get(PATH)["items"], COLUMNS, output, flat=_flat)
        return
    where = "all queues without a strategy of their own" if queue is None else f"queue {queue!r}"
    if report_dry_run(f"change the strategy of {where} to {strategy!r}", dry_run, client.where):
        return
    wanted = None if strategy == DEFAULT else strategy
    changed = client.put(PATH, {"strategy": wanted, "queue": queue, "reason": reason})
    have = "have" if queue is None else "has"
    notice(f"{where[0].upper()}{where[1:]} now {have} the strategy {changed['strategy']!r}.")


def _flat(line: Row) -> Row:
    return {**line, "where": line["queue"] or "all others", "by": line["changed_by"] or "the settings"}
