"""`redrive run view`: show the steps and events of a run."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote
from typing import TYPE_CHECKING

import click

from redrive.cli.checks import explain_ids
from redrive.cli.client import Client, segment
from redrive.cli.connection import api_options
from redrive.cli.options import output_option
from redrive.cli.output import show_one
from redrive.cli.table import Row, clock, stamp, took
from redrive.cli.terminal import Part, out, styled_status
from redrive.model.query import Count
from redrive.model.run import is_parked
from redrive.words.number import plural
from redrive.words.run_order import describe_order
from redrive.words.timeline import holder_name, unknown_work

if TYPE_CHECKING:
    from redrive.cli.screen import Line, Screen

PATH = "/api/v1/runs"
COLUMNS = ("id", "workflow", "state", "step", "attempt", "submitted_at", "started_at", "ended_at")
FAILED = ("FAILED", "PARTIAL", "DLQ_PENDING")
LIVE = ("PENDING", "RUNNING")
EVENTS = {"retry": "failed and will be retried"}
BREAKER = "breaker:"


@click.command()
@click.argument("run_id", metavar="ID")
@output_option
@api_options
def view(client: Client, run_id: str, output: str | None) -> None:
    """Show a run: its steps, what happened, and why.

    The JSON output has the run with its steps, attempts and events.
    """
    path = f"{PATH}/{segment(run_id)}"
    with explain_ids("run", [run_id], "redrive run list"):
        run = client.get(path)
    for part in ("steps", "attempts", "events"):
        run[part] = client.get(f"{path}/{part}")["items"]
    show_one(run, COLUMNS, output, lambda screen: _draw(screen, run), piped=True)


def _draw(screen: Screen, run: Row) -> None:
    screen.headline(run["workflow"], styled_status(run))
    screen.aside([run["id"], f"queue {run['queue']}", *_marks(run)])
    out("")
    screen.facts(_facts(run))
    screen.heading("Steps")
    screen.columns(map(_step, run["steps"]), right=(0,))
    screen.heading("Events")
    _draw_events(screen, run)
    more = f"redrive run view {run['id']} -o json"
    screen.heading("Input")
    screen.document(run["input"], more)
    if run["state"] == "SUCCESS":
        screen.heading("Result")
        screen.document(run["result"], more)
    if commands := list(_next(run)):
        screen.next_steps(commands)


def _marks(run: Row) -> Iterator[str]:
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


def _facts(run: Row) -> Iterator[tuple[str, str | None]]:
    yield "submitted", stamp(run["submitted_at"])
    if run["queued_at"] != run["submitted_at"]:
        yield "queued again", stamp(run["queued_at"])
    if run["owner"]:
        yield "owner", run["owner"]
    if run["ended_at"]:
        yield "finished", f"{stamp(run['ended_at'])}, after {took(run['submitted_at'], run['ended_at'])}"
    if order := run["order"]:
        before, behind = (Count(**order[side]) for side in ("before", "behind"))
        text = describe_order(order["waits_for"], before, behind)
        yield "order key", f"{order['key']}: {text}" if text else order["key"]
    if reason := unknown_work(run["held_by"] or ""):
        yield "waiting", f"{reason}: deploy a worker that has it, or add an alias"
    elif run["held_by"] and not is_parked(run["held_by"]):
        yield "held by", holder_name(run["held_by"])
    if run["next_retry_at"]:
        yield "next retry", stamp(run["next_retry_at"])
    elif run["due_at"] and run["state"] in LIVE:
        yield "due", stamp(run["due_at"])
    if run["cancel_requested_at"]:
        yield "cancel requested", stamp(run["cancel_requested_at"])
    if run["replays"]:
        yield "replays", str(run["replays"])
    if error := run["error"]:
        yield "error", f"{error['error_type']}: {error['message']}"
        yield "why", error["decision"]["text"]
    if letter := run["dead_letter"]:
        yield "dead letter", f"{letter['id']}, {letter['status']}"


def _step(step: Row) -> tuple[Line, ...]:
    times = [plural(step["attempt_count"], "attempt")] if step["attempt_count"] else []
    if step["started_at"] and step["ended_at"]:
        times.append(took(step["started_at"], step["ended_at"]))
    return str(step["step_index"] + 1), step["name"], styled_status(step), (", ".join(times), "dim")


def _draw_events(screen: Screen, run: Row) -> None:
    """Draw each event, with the error of its attempt unless the previous attempt had the same one."""
    errors = {
        (attempt["step_index"], attempt["number"]): f"{attempt['error_type']}: {attempt['message']}"
        for attempt in run["attempts"]
        if attempt["error_type"]
    }
    last = None
    for event in run["events"]:
        error = None if event["what"] == "started" else errors.get((event["step_index"], event["attempt"]))
        draw_event(screen, event, run["submitted_at"], error if error != last else None)
        last = error or last


def draw_event(screen: Screen, event: Row, day: str | None, error: str | None = None) -> None:
    at: Part = (clock(event["at"], day), "dim")
    screen.columns([(at, event_text(event))])
    if error is not None:
        screen.columns([(" " * len(at[0]), (error, "bad"))], cut=True)


def event_text(event: Row) -> str:
    what = str(EVENTS.get(event["what"], event["what"]))
    text: str = what if event["step"] is None else f"{event['step']} {what}"
    if event["attempt"] is not None and event["attempt"] > 1:
        text += f", attempt {event['attempt']}"
    detail = event["detail"]
    if detail is None or detail.get("decision", {}).get("code") == "succeeded":
        return text
    return f"{text}: {detail['text']}"


def _next(run: Row) -> Iterator[tuple[str, str]]:
    letter = run["dead_letter"]
    if run["state"] in LIVE:
        yield f"redrive run watch {run['id']}", "follow the run"
        yield f"redrive run cancel {run['id']}", "cancel the run"
        if (run["held_by"] or "").startswith(BREAKER):
            yield (
                f"redrive breaker view {quote(run['held_by'].removeprefix(BREAKER))}",
                "what the run waits for",
            )
    elif run["state"] in FAILED and letter is not None:
        yield f"redrive dlq view {letter['id']}", "why it failed and what to do"
        yield f"redrive dlq replay {letter['id']}", "replay the failed step"
    elif run["state"] in FAILED:
        yield f"redrive run retry {run['id']}", "retry the run"
