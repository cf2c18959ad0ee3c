"""Follow a run until it finishes."""

from __future__ import annotations

import json
from typing import Any

from redrive.cli.checks import explain_ids
from redrive.cli.client import Client, segment
from redrive.cli.outcome import CommandExit, Exit
from redrive.cli.output import JSON, screen
from redrive.cli.progress import Poller
from redrive.cli.run_view import LIVE, PATH, draw_event, event_text
from redrive.cli.table import Row, clock, took
from redrive.cli.terminal import notice, out, styled_status


def follow(client: Client, run_id: str, timeout: float | None, form: str) -> None:
    """Show the events of a run until it finishes."""
    path = f"{PATH}/{segment(run_id)}"
    poller, shown = Poller(client, timeout), set[tuple[Any, ...]]()
    while True:
        with explain_ids("run", [run_id], "redrive run list"):
            run = client.get(path)
        for event in client.get(f"{path}/events")["items"]:
            # An attempt starts and ends once; its times may still change while it is executed.
            at = event["at"] if event["attempt"] is None else None
            if (key := (event["what"], event["step_index"], event["attempt"], at)) not in shown:
                _show_event(event, run["submitted_at"], form)
                shown.add(key)
        if run["state"] not in LIVE:
            break
        poller.wait(f"Run {run['id']}", run["queue"], waits=run["place"] != "leased")
    after = took(run["submitted_at"], run["ended_at"])
    notice(f"Run {run['id']} finished after {after}: ", styled_status(run), ".")
    if run["state"] != "SUCCESS":
        notice(f"See why with `redrive run view {run['id']}`.")
        raise CommandExit(Exit.FAILURES)


def _show_event(event: Row, day: str, form: str) -> None:
    if form in JSON:
        out(json.dumps(event))
    elif form == "table":
        draw_event(screen(), event, day)
    else:
        out(f"  {clock(event['at'], day)}  {event_text(event)}")
