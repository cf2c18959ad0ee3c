"""`redrive run cancel` and `redrive run retry`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from redrive.cli.asking import agreed, dry_run_option, reason_option, yes_option
from redrive.cli.client import Client, segment
from redrive.cli.many import each_of
from redrive.cli.near import ids_of
from redrive.cli.reach import reach_options
from redrive.cli.standing import require_standing
from redrive.cli.text import notice
from redrive.model.run import RUN_TRANSITIONS

PREFIX = "/api/v1/runs"


def _options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (yes_option, dry_run_option, reason_option):
        function = option(function)
    return click.argument("ids", nargs=-1, required=True, metavar="ID...")(function)


@click.command()
@_options
@reach_options
def cancel(client: Client, ids: tuple[str, ...], reason: str, dry_run: bool, yes: bool) -> None:
    """End runs before their time.

    A worker that executes one just now is told, and has a moment to stop.
    """
    named = _named(client, ids, "cancelled", "cancelled")
    if agreed(f"cancel {named} on {client.where}", dry_run=dry_run, yes=yes):
        each_of(ids, lambda run_id: _cancel(client, run_id, reason))


@click.command()
@_options
@reach_options
def retry(client: Client, ids: tuple[str, ...], reason: str, dry_run: bool, yes: bool) -> None:
    """Queue failed runs again where they stopped.

    A run with a dead letter is replayed with `redrive dlq replay`, which keeps track of it.
    """
    named = _named(client, ids, "replayed", "retried")
    if agreed(f"retry {named} on {client.where}", dry_run=dry_run, yes=yes):
        each_of(ids, lambda run_id: _retry(client, run_id, reason))


def _cancel(client: Client, run_id: str, reason: str) -> None:
    answer = client.post(f"{PREFIX}/{segment(run_id)}/cancel", {"reason": reason})
    told = "is cancelled" if answer["outcome"] == "cancelled" else "is told to stop, and ends soon"
    notice(f"The run {run_id} {told}.")


def _retry(client: Client, run_id: str, reason: str) -> None:
    client.post(f"{PREFIX}/{segment(run_id)}/retry", {"reason": reason})
    notice(f"The run {run_id} is queued again.")


def _named(client: Client, ids: tuple[str, ...], cause: str, done: str) -> str:
    """Each is looked up, so that a wrong one is told before anything is done."""
    with ids_of("run", ids, "redrive run list"):
        found = [client.get(f"{PREFIX}/{segment(each)}") for each in ids]
    if len(found) == 1:
        what = f"the run {found[0]['id']}"
        require_standing(RUN_TRANSITIONS, cause, found[0]["state"], what, done)
        return f"{what} of {found[0]['workflow']}, {found[0]['state'].lower()},"
    return f"{len(found):,} runs"
