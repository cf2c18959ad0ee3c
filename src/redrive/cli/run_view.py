"""`redrive run view`: the story of a run."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote
from typing import Any

import click

from redrive.cli.cell import cut
from redrive.cli.client import Client, segment
from redrive.cli.connection import api_options
from redrive.cli.output import chosen, output_option, show_fields, show_json
from redrive.cli.preconditions import explain_ids
from redrive.cli.screen import (
    aside,
    beside,
    coloured,
    document,
    entry,
    facts,
    heading,
    headline,
    next_steps,
    wrapped,
)
from redrive.cli.terminal import bad, dim, out, visible
from redrive.cli.times import clock, stamp, took

COLUMNS = ("id", "workflow", "state", "step", "attempt", "submitted_at", "started_at", "ended_at")
FAILED = ("FAILED", "PARTIAL", "DLQ_PENDING")
LIVE = ("PENDING", "RUNNING")
WORDS = {"retry": "has failed, and is retried"}
STATES = 10
BREAKER = "breaker:"
SAID_ALREADY = "the attempt succeeded"


@click.command()
@click.argument("id")
@output_option
@api_options
def view(client: Client, id: str, output: str | None) -> None:  # noqa: A002 - its name on the command line
    """Show a run: its steps, everything that has happened, and why.

    JSON has the run with its steps, attempts and events.
    """
    path = f"/api/v1/runs/{segment(id)}"
    with explain_ids("run", [id], "redrive run list"):
        story = client.get(path)
    for part in ("steps", "attempts", "events"):
        story[part] = client.get(f"{path}/{part}")["items"]
    form = chosen(output)
    if form in ("json", "ndjson"):
        show_json(story, indent=2 if form == "json" else None)
    elif form == "csv":
        show_fields(story, COLUMNS, form)
    else:
        _tell(story)


def _tell(run: dict[str, Any]) -> None:
    headline(run["workflow"], run["state"])
    aside([run["id"], f"queue {run['queue']}", *_marks(run)])
    out("")
    facts(_facts(run))
    heading("Steps")
    for step in run["steps"]:
        _tell_step(step, max(len(each["name"]) for each in run["steps"]))
    heading("What has happened")
    _tell_events(run)
    more = f"redrive run view {run['id']} -o json"
    heading("Given")
    document(run["input"], more)
    if run["state"] == "SUCCESS":
        heading("Result")
        document(run["result"], more)
    if steps := list(_next(run)):
        next_steps(steps)


def _marks(run: dict[str, Any]) -> Iterator[str]:
    if run["idempotency_key"]:
        yield f"key {run['idempotency_key']}"
    if run["correlation_id"] != run["id"]:
        yield f"correlation {run['correlation_id']}"
    if run["priority"]:
        yield f"priority {run['priority']}"
    if run["tags"]:
        yield f"tags {', '.join(run['tags'])}"
    if run["code_version"] and run["code_version"] != "unversioned":
        yield f"version {run['code_version']}"


def _facts(run: dict[str, Any]) -> Iterator[tuple[str, str | None]]:
    yield "submitted", stamp(run["submitted_at"])
    if run["ended_at"]:
        yield "ended", f"{stamp(run['ended_at'])}, after {took(run['submitted_at'], run['ended_at'])}"
    if run["held_by"]:
        yield "held by", run["held_by"]
    if run["next_retry_at"]:
        yield "next retry", stamp(run["next_retry_at"])
    elif run["due_at"] and run["state"] in LIVE:
        yield "due", stamp(run["due_at"])
    if run["cancel_requested_at"]:
        yield "to be cancelled since", stamp(run["cancel_requested_at"])
    if run["replays"]:
        yield "replays", str(run["replays"])
    if error := run["error"]:
        yield "error", f"{error['error_type']}: {error['message']}"
        yield "why", error["explanation"]
    if letter := run["dead_letter"]:
        yield "dead letter", f"{letter['id']}, {letter['state'].lower()}"


def _tell_step(step: dict[str, Any], names: int) -> None:
    before = f"  {step['step_index']}  {visible(step['name']):{names}}  {coloured(step['state'])}"
    if times := ", ".join(_times(step)):
        before += " " * max(1, STATES - len(step["state"])) + dim(times)
    out(before)


def _times(step: dict[str, Any]) -> Iterator[str]:
    if number := step["attempt_count"]:
        yield f"{number:,} attempt{'s' * (number != 1)}"
    if step["started_at"] and step["ended_at"]:
        yield took(step["started_at"], step["ended_at"])


def _tell_events(run: dict[str, Any]) -> None:
    """What an attempt has failed of is told with it, unless it is the same as before."""
    errors = {(each["step_index"], each["number"]): _error(each) for each in run["attempts"]}
    last = None
    for event in run["events"]:
        error = None if event["what"] == "started" else errors.get((event["step_index"], event["attempt"]))
        tell_event(event, run["submitted_at"], error if error != last else None)
        last = error or last


def _error(attempt: dict[str, Any]) -> str | None:
    return f"{attempt['error_type']}: {attempt['message']}" if attempt["error_type"] else None


def tell_event(event: dict[str, Any], day: str | None, error: str | None = None) -> None:
    """One line, and more of them where there is much to say."""
    at = clock(event["at"], day)
    lines = wrapped(_sentence(event), beside(at))
    if error is not None:
        lines.append(bad(cut(visible(error), beside(at))))
    entry(at, lines)


def _sentence(event: dict[str, Any]) -> str:
    what = WORDS.get(event["what"], event["what"])
    text = what if event["step"] is None else f"{event['step']} {what}"
    if event["attempt"] is not None and event["attempt"] > 1:
        text += f", attempt {event['attempt']}"
    return text if event["detail"] in ("", SAID_ALREADY) else f"{text}: {event['detail']}"


def _next(run: dict[str, Any]) -> Iterator[tuple[str, str]]:
    letter = run["dead_letter"]
    if run["state"] in LIVE:
        yield f"redrive run watch {run['id']}", "follow it to its end"
        yield f"redrive run cancel {run['id']}", "end it early"
        if (run["held_by"] or "").startswith(BREAKER):
            yield f"redrive breaker view {quote(run['held_by'].removeprefix(BREAKER))}", "what holds it"
    elif run["state"] in FAILED and letter is not None:
        yield f"redrive dlq view {letter['id']}", "why, and what may help"
        yield f"redrive dlq replay {letter['id']}", "let it go on"
    elif run["state"] in FAILED:
        yield f"redrive run retry {run['id']}", "queue it again"
