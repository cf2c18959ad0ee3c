"""What came of a bulk replay: how far it is, what has failed and why, and what to do then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager

from redrive.cli.client import ApiError, Client, segment
from redrive.cli.listing import JSON
from redrive.cli.outcome import Exit
from redrive.cli.output import Row, chosen, show_fields, show_json
from redrive.cli.preconditions import explain_ids
from redrive.cli.replay.words import MODES, careful, helpful, policy_words, selected
from redrive.cli.screen import aside, facts, heading, headline, next_steps, paragraph
from redrive.cli.terminal import out, plural, short, visible
from redrive.cli.times import length, since, stamp
from redrive.errors import NotFoundError

PATH = "/api/v1/operations"
AUDIT = "/api/v1/audit"
MAX_FAILURES, MAX_ENTRIES = 5, 50
STEERED = ("paused", "resumed", "cancelled", "stopped")
ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")
OVER = ("DONE", "CANCELLED", "STOPPED")
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


def found(client: Client, operation_id: str) -> Row:
    with _named(operation_id):
        operation: Row = client.get(f"{PATH}/{segment(operation_id)}")
    return operation


def read_report(client: Client, operation_id: str) -> Row:
    with _named(operation_id):
        report: Row = client.get(f"{PATH}/{segment(operation_id)}/report")
    return report


def _named(operation_id: str) -> AbstractContextManager[None]:
    return explain_ids("replay", [operation_id], "redrive replay list")


def show_report(client: Client, report: Row, output: str | None) -> None:
    form = chosen(output)
    if form in JSON:
        show_json(report, indent=2 if form == "json" else None)
    elif form != "table":
        show_fields(_flat(report), FIELDS, form)
    else:
        _tell(client, report)


def exit_of(report: Row) -> Exit:
    """7 if it has stopped or was cancelled, or if anything of it failed or could not be replayed."""
    if report["operation"]["state"] not in OVER:
        return Exit.OK
    bad = any(report["items"].get(state) for state in ("FAILED", "REFUSED"))
    return Exit.FAILURES if bad or report["operation"]["state"] != "DONE" else Exit.OK


def ended(report: Row) -> int:
    return sum(report["items"].get(state, 0) for state in ENDED)


def replayed(report: Row) -> int:
    """What runs, has run or will: all but what was refused or left out."""
    return sum(number for state, number in report["items"].items() if state not in ("REFUSED", "SKIPPED"))


def _tell(client: Client, report: Row) -> None:
    operation, failures = report["operation"], report["failures"]
    headline(f"Replay of {plural(operation['plan']['selected'], 'dead letter')}", operation["state"])
    aside([f"replay {operation['id']}", selected(operation), MODES[operation["mode"]]])
    out("")
    for sentence in _standing(report):
        paragraph(sentence, 0)
    if failures:
        heading("Failures")
        for fingerprint, number in list(failures.items())[:MAX_FAILURES]:
            paragraph(f"{number:,}  {_title(client, fingerprint)}")
            aside([f"     fp:{fingerprint}" if fingerprint else None])
    if report["notes"]:
        heading("Not replayed")
        for why, number in report["notes"].items():
            paragraph(f"{number:,}  {helpful(why) if why else 'no reason is stored'}")
    heading("How it went")
    facts([*_history(report), *_steered(client, operation)])
    next_steps(_next(report))


def _standing(report: Row) -> Iterator[str]:
    operation, items = report["operation"], report["items"]
    counts = ", ".join(f"{number:,} {state.lower()}" for state, number in items.items() if number)
    yield f"{ended(report):,} of {replayed(report):,} have ended. Items: {counts or 'none'}."
    if operation["state"] == "STOPPED":
        yield f"It stopped itself: {operation['stopped_because'] or 'no reason is stored'}."
        yield _left_behind(items.get("PLANNED", 0))
    elif operation["state"] == "PAUSED":
        yield "Nothing more is begun until somebody resumes it."
    elif operation["state"] == "RUNNING" and not operation["released"]:
        yield "Nothing was begun so far: a worker does that."
    if operation["state"] in OVER and items.get("FAILED"):
        yield "What failed has an open dead letter, of the step where it stopped."


def _left_behind(number: int) -> str:
    if number == 1:
        return "1 was not begun and stays a dead letter."
    return f"{number:,} were not begun and stay dead letters."


def _history(report: Row) -> Iterator[tuple[str, str | None]]:
    operation = report["operation"]
    yield "planned", f"{stamp(operation['planned_at'])} by {operation['planned_by']}"
    if operation["started_at"]:
        yield "started", f"{stamp(operation['started_at'])} by {operation['started_by']}"
    if operation["ended_at"]:
        yield "ended", f"{stamp(operation['ended_at'])}, {since(operation['ended_at'])} ago"
    yield "reason", operation["reason"]
    if report["seconds"] is not None:
        yield "first to last", length(report["seconds"])
    yield "carefully", " ".join(careful(operation["options"], operation["plan"]["will_run"]))
    yield "retry policy", policy_words(operation["override_retry_policy"])


def _steered(client: Client, operation: Row) -> Iterator[tuple[str, str | None]]:
    """Who has paused, resumed or cancelled it, and why: the audit has it."""
    try:
        entries = client.get(AUDIT, subject=operation["id"], size=MAX_ENTRIES)["items"]
    except ApiError:  # whoever may not read it is told the rest
        return
    for each in reversed(entries):
        verb = each["action"].removeprefix("operation.")
        if verb in STEERED:
            why = f": {each['detail']['reason']}" if each["detail"].get("reason") else ""
            yield verb, f"{stamp(each['at'])} by {each['actor']}{why}"


def _next(report: Row) -> Iterator[tuple[str, str]]:
    operation, failures = report["operation"], [each for each in report["failures"] if each]
    which = operation["id"]
    if operation["state"] == "RUNNING":
        yield f"redrive replay watch {which}", "see how it goes on"
        yield f"redrive replay pause {which}", "begin nothing more for now"
    if operation["state"] in ("PAUSED", "STOPPED"):
        yield f"redrive replay resume {which}", "go on, carefully"
        yield f"redrive replay cancel {which}", "begin nothing more, for good"
    for state, meaning in (("FAILED", "what of it failed"), ("REFUSED", "what could not be replayed")):
        if report["items"].get(state):
            yield f"redrive replay items {which} --state {state}", meaning
    if failures:
        yield f"redrive dlq groups {short(failures[0])}", "why most of these failed"
    elif operation["state"] in ("DONE", "CANCELLED"):
        yield "redrive status", "what else there is"


def _title(client: Client, fingerprint: str) -> str:
    if not fingerprint:
        return "in a way that is not known"
    try:
        return visible(client.get(f"/api/v1/groups/{segment(fingerprint)}")["title"])
    except (ApiError, NotFoundError):  # removed since
        return "failures that are not known any more"


def _flat(report: Row) -> Row:
    operation, items = report["operation"], report["items"]
    counts = {state: items.get(state.upper(), 0) for state in ("succeeded", "failed", "running", "planned")}
    named = {name: operation[name] for name in ("id", "state", "stopped_because")}
    not_run = sum(items.get(state, 0) for state in ("CANCELLED", "REFUSED", "SKIPPED"))
    return {**counts, **named, "not_run": not_run, "selected": operation["plan"]["selected"]}
