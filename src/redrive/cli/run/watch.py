"""`redrive run watch`: each thing that happens to a run, when it happens."""

from __future__ import annotations

import json
from typing import Any

import click

from redrive.cli.client import Client, segment
from redrive.cli.following import Follower, timeout_option
from redrive.cli.near import ids_of
from redrive.cli.outcome import Ended, Exit
from redrive.cli.reach import reach_options
from redrive.cli.run.view import LIVE, tell_event
from redrive.cli.section import coloured
from redrive.cli.table import chosen, output_option
from redrive.cli.text import notice, out
from redrive.cli.times import took


@click.command()
@click.argument("id")
@timeout_option
@output_option
@reach_options
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
    follower, told = Follower(client, timeout), set[tuple[Any, ...]]()
    while True:
        with ids_of("run", [id], "redrive run list"):
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
