"""Bulk replays: read one from the API, count its items, describe it, and report its result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING

from redrive.cli.checks import explain_ids
from redrive.cli.client import ApiError, Client, segment
from redrive.cli.outcome import Exit
from redrive.cli.output import show_one
from redrive.cli.table import Row, short_fingerprint, since, stamp
from redrive.cli.terminal import escape, out, styled_status
from redrive.errors import NotFoundError
from redrive.policy.description import describe_rollout
from redrive.policy.rollout import RolloutOptions
from redrive.words.number import noun, plural
from redrive.words.replay import MODES, selection_of
from redrive.words.state import status
from redrive.words.time import duration

if TYPE_CHECKING:
    from redrive.cli.screen import Screen

PATH = "/api/v1/operations"
OVER = ("DONE", "CANCELLED", "STOPPED")
ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")
NOT_REPLAYED = ("REFUSED", "SKIPPED")
AUDIT = "/api/v1/audit"
MAX_FAILURES, MAX_ENTRIES = 5, 50
INTERVENTIONS = ("paused", "resumed", "cancelled", "stopped")
FIELDS = (
    "id",
    "state",
    "selected",
    "succeeded",
    "failed",
    "running",
    "planned",
    "not_run",
    "stopped_because",
)


def read_operation(client: Client, operation_id: str, part: str = "") -> Row:
    """Read an operation, or a part of it such as "/report"."""
    with explain_ids("replay", [operation_id], "redrive replay list"):
        operation: Row = client.get(f"{PATH}/{segment(operation_id)}{part}")
    return operation


def count_ended(report: Row) -> int:
    return sum(report["items"].get(state, 0) for state in ENDED)


def count_replayed(report: Row) -> int:
    """Count all items except refused and skipped ones."""
    return sum(number for state, number in report["items"].items() if state not in NOT_REPLAYED)


def selection_text(operation: Row) -> str:
    selection = selection_of(operation["selection"])
    return f"group {selection.text}" if selection.kind == "group" else selection.text


def mode_text(mode: str) -> str:
    title, _ = MODES[mode]
    return title[:1].lower() + title[1:]


def rollout_sentences(operation: Row) -> Iterator[str]:
    """Describe how the replay starts, its speed, and when it stops."""
    options = operation["options"]
    rollout = RolloutOptions(**{field.name: options[field.name] for field in fields(RolloutOptions)})
    return describe_rollout(rollout, operation["plan"]["will_run"])


def policy_text(operation: Row) -> str | None:
    """Describe the retry policy override of the replay, if it has one."""
    policy = operation["override_retry_policy"]
    if not policy:
        return None
    if "max_attempts" in policy:
        return f"at most {plural(policy['max_attempts'], 'attempt')}"
    return ", ".join(f"{name} {value:g}" for name, value in policy.items())


def show_report(client: Client, report: Row, output: str | None) -> None:
    show_one(report, FIELDS, output, lambda screen: _draw(screen, client, report), flat=_flat)


def report_exit(report: Row) -> Exit:
    """Return `FAILURES` if the replay stopped, was cancelled, or has failed or refused items."""
    if report["operation"]["state"] not in OVER:
        return Exit.OK
    bad = any(report["items"].get(state) for state in ("FAILED", "REFUSED"))
    return Exit.FAILURES if bad or report["operation"]["state"] != "DONE" else Exit.OK


def _draw(screen: Screen, client: Client, report: Row) -> None:
    operation, failures = report["operation"], report["failures"]
    title = f"Replay of {plural(operation['plan']['selected'], 'dead letter')}"
    screen.headline(title, styled_status(operation))
    screen.aside([f"replay {operation['id']}", selection_text(operation), mode_text(operation["mode"])])
    out("")
    for sentence in _progress(report):
        screen.paragraph(sentence, indent=0)
    if failures:
        screen.heading("Failures")
        for fingerprint, number in list(failures.items())[:MAX_FAILURES]:
            rows = [(f"{number:,}", _title(client, fingerprint))]
            rows += [("", f"fp:{fingerprint}")] if fingerprint else []
            screen.columns(rows, right=(0,))
    if report["notes"]:
        screen.heading("Not replayed")
        notes = ((f"{note['items']:,}", note["text"] or "no reason was stored") for note in report["notes"])
        screen.columns(notes, right=(0,))
    screen.heading("Details")
    screen.facts([*_history(report), *_interventions(client, operation)])
    screen.next_steps(_next(report))


def _progress(report: Row) -> Iterator[str]:
    operation, items = report["operation"], report["items"]
    counts = ", ".join(f"{number:,} {status(state)}" for state, number in items.items() if number)
    yield f"{count_ended(report):,} of {count_replayed(report):,} finished. Items: {counts or 'none'}."
    if operation["state"] == "STOPPED":
        because = operation["stopped_because"]
        yield f"Stopped: {because['text'] if because else 'no reason was stored'}."
        left = items.get("PLANNED", 0)
        rest = noun(
            left, "was not started and remains a dead letter", "were not started and remain dead letters"
        )
        yield f"{left:,} {rest}."
    elif operation["state"] == "PAUSED":
        yield "No further items start until an operator resumes the replay."
    elif operation["state"] == "RUNNING" and not operation["released"]:
        yield "No items started yet; a worker starts them."
    if operation["state"] in OVER and items.get("FAILED"):
        yield "Items that failed again have an open dead letter for the step they stopped at."


def _history(report: Row) -> Iterator[tuple[str, str | None]]:
    operation = report["operation"]
    yield "planned", f"{stamp(operation['planned_at'])} by {operation['planned_by']}"
    if operation["started_at"]:
        yield "started", f"{stamp(operation['started_at'])} by {operation['started_by']}"
    if operation["ended_at"]:
        yield "finished", f"{stamp(operation['ended_at'])}, {since(operation['ended_at'])} ago"
    yield "reason", operation["reason"]
    if report["seconds"] is not None:
        yield "duration", duration(report["seconds"])
    yield "rollout", " ".join(rollout_sentences(operation))
    yield "retry policy", policy_text(operation)


def _interventions(client: Client, operation: Row) -> Iterator[tuple[str, str | None]]:
    """List who paused, resumed or cancelled the replay and why, from the audit log."""
    try:
        entries = client.get(AUDIT, subject=operation["id"], size=MAX_ENTRIES)["items"]
    except ApiError:  # the key may not read the audit
        return
    for entry in reversed(entries):
        verb = entry["action"].removeprefix("operation.")
        if verb in INTERVENTIONS:
            why = f": {entry['detail']['reason']}" if entry["detail"].get("reason") else ""
            yield verb, f"{stamp(entry['at'])} by {entry['actor']}{why}"


def _next(report: Row) -> Iterator[tuple[str, str]]:
    operation, failures = report["operation"], list(filter(None, report["failures"]))
    which = operation["id"]
    if operation["state"] == "RUNNING":
        yield f"redrive replay watch {which}", "follow the replay"
        yield f"redrive replay pause {which}", "pause the replay"
    if operation["state"] in ("PAUSED", "STOPPED"):
        yield f"redrive replay resume {which}", "resume the replay"
        yield f"redrive replay cancel {which}", "cancel the rest"
    for state, meaning in (("FAILED", "items that failed"), ("REFUSED", "items that were refused")):
        if report["items"].get(state):
            yield f"redrive replay items {which} --state {state}", meaning
    if failures:
        yield f"redrive dlq groups {short_fingerprint(failures[0])}", "see why most of these failed"
    elif operation["state"] in ("DONE", "CANCELLED"):
        yield "redrive status", "what else needs you"


def _title(client: Client, fingerprint: str) -> str:
    if not fingerprint:
        return "unknown failure"
    try:
        return escape(client.get(f"/api/v1/groups/{segment(fingerprint)}")["title"])
    except (ApiError, NotFoundError):  # removed since
        return "failure group no longer exists"


def _flat(report: Row) -> Row:
    operation, items = report["operation"], report["items"]
    counts = {state: items.get(state.upper(), 0) for state in ("succeeded", "failed", "running", "planned")}
    because = operation["stopped_because"]
    named = {"id": operation["id"], "state": operation["state"]}
    named["stopped_because"] = because["text"] if because else None
    not_run = sum(items.get(state, 0) for state in ("CANCELLED", "REFUSED", "SKIPPED"))
    return {**counts, **named, "not_run": not_run, "selected": operation["plan"]["selected"]}
