"""What came of a bulk replay: how far it is, what has failed and why, and what to do then."""

from __future__ import annotations

from collections.abc import Iterator

from redrive.cli.client import AnswerError, Client, segment
from redrive.cli.listing import JSON
from redrive.cli.outcome import Exit
from redrive.cli.replay.words import MODES, careful, plural, policy_words, selected
from redrive.cli.section import aside, facts, heading, headline, next_steps, paragraph
from redrive.cli.table import Row, chosen, show_fields, show_json
from redrive.cli.text import out, visible
from redrive.cli.times import length, since, stamp
from redrive.errors import NotFoundError

MOST_FAILURES = 5
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


def read_report(client: Client, operation_id: str) -> Row:
    report: Row = client.get(f"/api/v1/operations/{segment(operation_id)}/report")
    return report


def show_report(client: Client, report: Row, output: str | None) -> None:
    form = chosen(output)
    if form in JSON:
        show_json(report, indent=2 if form == "json" else None)
    elif form != "table":
        show_fields(_flat(report), FIELDS, form)
    else:
        _tell(client, report)


def exit_of(report: Row) -> Exit:
    """Of one that has ended: 7 unless all that was to be replayed has succeeded."""
    well = report["operation"]["state"] == "DONE" and not report["items"].get("FAILED")
    return Exit.OK if well else Exit.FAILURES


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
        for fingerprint, number in list(failures.items())[:MOST_FAILURES]:
            paragraph(f"{number:,}  {_title(client, fingerprint)}")
            aside([f"     fp:{fingerprint}" if fingerprint else None])
    if report["notes"]:
        heading("Not replayed")
        for why, number in report["notes"].items():
            paragraph(f"{number:,}  {why or 'no reason is stored'}")
    heading("How it went")
    facts(_history(report))
    next_steps(_next(report))


def _standing(report: Row) -> Iterator[str]:
    operation, items = report["operation"], report["items"]
    counts = ", ".join(f"{number:,} {state.lower()}" for state, number in items.items() if number)
    yield f"{ended(report):,} of {replayed(report):,} have ended: {counts or 'it has no items'}."
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


def _next(report: Row) -> Iterator[tuple[str, str]]:
    operation, failures = report["operation"], [each for each in report["failures"] if each]
    which = operation["id"]
    if operation["state"] == "RUNNING":
        yield f"redrive replay watch {which}", "see how it goes on"
        yield f"redrive replay pause {which}", "begin nothing more for now"
    if operation["state"] in ("PAUSED", "STOPPED"):
        yield f"redrive replay resume {which}", "go on, carefully"
        yield f"redrive replay cancel {which}", "begin nothing more, for good"
    if failures:
        yield f"redrive dlq list is:open fp:{','.join(failures[:MOST_FAILURES])}", "what has failed"
    elif operation["state"] in ("DONE", "CANCELLED"):
        yield "redrive status", "what else there is"


def _title(client: Client, fingerprint: str) -> str:
    if not fingerprint:
        return "in a way that is not known"
    try:
        return visible(client.get(f"/api/v1/groups/{segment(fingerprint)}")["title"])
    except (AnswerError, NotFoundError):  # removed since
        return "failures that are not known any more"


def _flat(report: Row) -> Row:
    operation, items = report["operation"], report["items"]
    counts = {state: items.get(state.upper(), 0) for state in ("succeeded", "failed", "running", "planned")}
    named = {name: operation[name] for name in ("id", "state", "stopped_because")}
    not_run = sum(items.get(state, 0) for state in ("CANCELLED", "REFUSED", "SKIPPED"))
    return {**counts, **named, "not_run": not_run, "selected": operation["plan"]["selected"]}
