"""`redrive run`: what was started, how far it is, and why."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import click

from redrive.cli.client import Client, segment
from redrive.cli.commands import CommandGroup, QueryCommand, query_argument
from redrive.cli.confirmation import confirm, dry_run_option, reason_option, yes_option
from redrive.cli.connection import api_options
from redrive.cli.listing import Listing
from redrive.cli.outcome import Ended, Exit, exit_of
from redrive.cli.output import Column, chosen, limit_option, output_option
from redrive.cli.polling import Poller, timeout_option
from redrive.cli.preconditions import explain_ids, require_state
from redrive.cli.run_view import LIVE, tell_event, view
from redrive.cli.screen import coloured
from redrive.cli.terminal import notice, one_line, out
from redrive.cli.times import since, took
from redrive.errors import RedriveError
from redrive.model.run import RUN_TRANSITIONS

RUNS = Listing(
    "/api/v1/runs",
    (
        Column("id", whole=True),
        "state",
        Column("submitted_at", "age", since),
        "workflow",
        "step",
        Column("attempt", "step tries"),
    ),
    "runs",
    spare={"workflow": 76, "attempt": 84},
)


@click.group(cls=CommandGroup)
def run() -> None:
    """Runs: list them, read the story of one, watch, cancel, retry."""


@run.command("list", cls=QueryCommand)
@query_argument
@limit_option
@output_option
@api_options
def list_runs(client: Client, query: str, limit: int | None, output: str | None) -> None:
    """List runs, the newest first.

    QUERY is in the query language: is:failed workflow:checkout since:2h. Without one it is every run.
    """
    RUNS.show(client, query, limit, output)


PREFIX = "/api/v1/runs"


def _options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (yes_option, dry_run_option, reason_option):
        function = option(function)
    return click.argument("ids", nargs=-1, required=True, metavar="ID...")(function)


@click.command()
@_options
@api_options
def cancel(client: Client, ids: tuple[str, ...], reason: str, dry_run: bool, yes: bool) -> None:
    """End runs before their time.

    A worker that executes one just now is told, and has a moment to stop.
    """
    named = _named(client, ids, "cancelled", "cancelled")
    if confirm(f"cancel {named} on {client.where}", dry_run=dry_run, yes=yes):
        each_of(ids, lambda run_id: _cancel(client, run_id, reason))


@click.command()
@_options
@api_options
def retry(client: Client, ids: tuple[str, ...], reason: str, dry_run: bool, yes: bool) -> None:
    """Queue failed runs again where they stopped.

    A run with a dead letter is replayed with `redrive dlq replay`, which keeps track of it.
    """
    named = _named(client, ids, "replayed", "retried")
    if confirm(f"retry {named} on {client.where}", dry_run=dry_run, yes=yes):
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
    with explain_ids("run", ids, "redrive run list"):
        found = [client.get(f"{PREFIX}/{segment(each)}") for each in ids]
    if len(found) == 1:
        what = f"the run {found[0]['id']}"
        require_state(RUN_TRANSITIONS, cause, found[0]["state"], what, done)
        return f"{what} of {found[0]['workflow']}, {found[0]['state'].lower()},"
    return f"{len(found):,} runs"


@click.command()
@click.argument("id")
@timeout_option
@output_option
@api_options
def watch(
    client: Client,
    id: str,  # noqa: A002 - its name on the command line
    timeout: float | None,
    output: str | None,
) -> None:
    """Follow a run until it ends.

    Exits with 0 if it has succeeded, with 7 if it has not, with 9 if it takes longer than --timeout. With
    `-o ndjson`, each event is a line of JSON.
    """
    path = f"/api/v1/runs/{segment(id)}"
    follower, told = Poller(client, timeout), set[tuple[Any, ...]]()
    while True:
        with explain_ids("run", [id], "redrive run list"):
            run = client.get(path)
        for event in client.get(f"{path}/events")["items"]:
            if (key := _key(event)) not in told:
                _tell(event, run["submitted_at"], chosen(output))
                told.add(key)
        if run["state"] not in LIVE:
            break
        follower.wait(f"the run {run['id']}", run["queue"], waits=run["place"] != "leased")
    _end(run)


def _key(event: dict[str, Any]) -> tuple[Any, ...]:
    """An attempt begins and ends once, however its times are told while it is executed."""
    attempt = event["attempt"]
    return event["what"], event["step_index"], attempt, event["at"] if attempt is None else None


def _tell(event: dict[str, Any], day: str, form: str) -> None:
    if form in ("json", "ndjson"):
        out(json.dumps(event))
    else:
        tell_event(event, day)


def _end(run: dict[str, Any]) -> None:
    after = took(run["submitted_at"], run["ended_at"])
    notice(f"The run {run['id']} has ended after {after}: {coloured(run['state'])}.")
    if run["state"] != "SUCCESS":
        notice(f"`redrive run view {run['id']}` tells why.")
        raise Ended(Exit.FAILURES)


def each_of(ids: Sequence[str], do: Callable[[str], None]) -> None:
    """Of one alone, its error is that of the command; of several, each is told."""
    if len(ids) == 1:
        do(ids[0])
        return
    failed: list[Exit] = []
    for each in ids:
        try:
            do(each)
        except RedriveError as error:
            failed.append(exit_of(error))
            notice(f"Error: {one_line(error)}")
    if failed:
        all_alike = len(failed) == len(ids) and len(set(failed)) == 1
        raise Ended(failed[0] if all_alike else Exit.FAILURES)


for command in (view, watch, cancel, retry):
    run.add_command(command)
