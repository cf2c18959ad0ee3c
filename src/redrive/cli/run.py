"""`redrive run`: start, list, view, watch, cancel and retry runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

from redrive.cli.checks import confirm, explain_ids, require_state
from redrive.cli.client import Client, segment
from redrive.cli.commands import CommandGroup, QueryCommand, query_argument
from redrive.cli.connection import api_options
from redrive.cli.options import (
    add_options,
    dry_run_option,
    ids_argument,
    limit_option,
    output_option,
    reason_option,
    timeout_option,
    yes_option,
)
from redrive.cli.outcome import CommandExit, Exit, exit_of
from redrive.cli.output import Listing, chosen
from redrive.cli.run_follow import follow
from redrive.cli.run_start import start
from redrive.cli.run_view import PATH, view
from redrive.cli.table import Row, TableColumn, since
from redrive.cli.terminal import notice, one_line
from redrive.errors import RedriveError
from redrive.model.run import RUN_TRANSITIONS
from redrive.words.failure import headline
from redrive.words.timeline import unknown_work


def _flat(run: Row) -> Row:
    if reason := unknown_work(run["held_by"] or ""):
        return run | {"error": reason}
    error_type = run.get("error_type")
    return run | {"error": headline(run["error_line"], error_type, error_type) if error_type else None}


RUNS = Listing(
    PATH,
    (
        TableColumn("id", whole=True),
        TableColumn("state", whole=True, shown="status"),
        TableColumn("submitted_at", "age", since),
        TableColumn("workflow"),
        TableColumn("step"),
        TableColumn("attempt"),
        TableColumn("idempotency_key", "key"),
        TableColumn("error"),
    ),
    "runs",
    _flat,
    min_width={"workflow": 76, "step": 100, "attempt": 120, "idempotency_key": 90, "error": 70},
)


@click.group(cls=CommandGroup)
def run() -> None:
    """Manage runs: start, list, view, watch, cancel, retry."""


@run.command("list", cls=QueryCommand)
@query_argument
@limit_option
@output_option
@api_options
def list_runs(client: Client, query: str, limit: int | None, output: str | None) -> None:
    """List runs, newest first.

    QUERY uses the query language: is:failed workflow:checkout since:2h. Without it, all runs are listed.
    """
    RUNS.show(client, query, limit, output)


run.add_command(start)
run.add_command(view)


@run.command()
@click.argument("run_id", metavar="ID")
@timeout_option
@output_option
@api_options
def watch(client: Client, run_id: str, timeout: float | None, output: str | None) -> None:
    """Follow a run until it finishes.

    Exits with 0 if the run succeeds, with 7 if it doesn't, and with 9 if it takes longer than --timeout. With
    `-o ndjson`, each event is a line of JSON.
    """
    follow(client, run_id, timeout, chosen(output))


_change_options = add_options(ids_argument, reason_option, dry_run_option, yes_option, api_options)


@run.command()
@_change_options
def cancel(client: Client, ids: tuple[str, ...], reason: str, dry_run: bool, yes: bool) -> None:
    """Cancel runs.

    If a worker is executing a run, the worker is asked to stop it, and the run ends shortly after.
    """

    def cancel_one(run_id: str) -> None:
        answer = client.post(f"{PATH}/{segment(run_id)}/cancel", {"reason": reason})
        if answer["outcome"] == "cancelled":
            notice(f"Cancelled run {run_id}.")
        else:
            notice(f"Asked the worker to stop run {run_id}. It ends shortly.")

    found, what = _look_up(client, ids, "cancelled", "cancelled")
    if confirm(f"cancel {what}", client.where, dry_run=dry_run, yes=yes):
        _change(found, cancel_one)


@run.command()
@_change_options
def retry(client: Client, ids: tuple[str, ...], reason: str, dry_run: bool, yes: bool) -> None:
    """Retry failed runs from the step where they stopped.

    To retry a run with a dead letter, use `redrive dlq replay`: it records the replay and its outcome.
    """

    def retry_one(run_id: str) -> None:
        client.post(f"{PATH}/{segment(run_id)}/retry", {"reason": reason})
        notice(f"Queued run {run_id} again.")

    found, what = _look_up(client, ids, "replayed", "retried")
    if confirm(f"retry {what}", client.where, dry_run=dry_run, yes=yes):
        _change(found, retry_one)


def _look_up(client: Client, ids: Sequence[str], cause: str, done: str) -> tuple[list[str], str]:
    """Look up each run, so that a wrong id is reported before anything is changed.

    Return the whole ids, and a description for the confirmation.
    """
    with explain_ids("run", ids, "redrive run list"):
        runs = [client.get(f"{PATH}/{segment(run_id)}") for run_id in ids]
    found = list(dict.fromkeys(run["id"] for run in runs))
    if len(found) > 1:
        return found, f"{len(found):,} runs"
    run = runs[0]
    what = f"run {run['id']}"
    require_state(RUN_TRANSITIONS, cause, run["state"], what, done)
    return found, f"{what} of {run['workflow']} ({run['status']})"


def _change(ids: Sequence[str], change: Callable[[str], None]) -> None:
    """Change each run. If one of several is rejected, report it and continue."""
    if len(ids) == 1:
        change(ids[0])
        return
    failed: list[Exit] = []
    for run_id in ids:
        try:
            change(run_id)
        except RedriveError as error:
            failed.append(exit_of(error))
            notice(f"Error: {one_line(error)}")
    if failed:
        all_alike = len(failed) == len(ids) and len(set(failed)) == 1
        raise CommandExit(failed[0] if all_alike else Exit.FAILURES)
