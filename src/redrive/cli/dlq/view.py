"""`redrive dlq view` and `reveal`: show a dead letter to an operator who decides what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from redrive.cli.checks import require_reason
from redrive.cli.client import Client, segment
from redrive.cli.connection import api_options
from redrive.cli.dlq.selection import PATH, explain_letter_ids, read_letter
from redrive.cli.options import output_option, reason_option
from redrive.cli.output import show_json, show_one
from redrive.cli.table import Row, clock, short_fingerprint, stamp, took
from redrive.cli.terminal import styled_state, styled_status
from redrive.model.dead_letter import CLOSED
from redrive.policy.stack import stack_of
from redrive.words.failure import list_fields
from redrive.words.history import LISTED_ELSEWHERE, describe_action, describe_replay
from redrive.words.number import plural
from redrive.words.time import duration

if TYPE_CHECKING:
    from redrive.cli.screen import Screen

COLUMNS = ("id", "state", "workflow", "step", "category", "error_type", "message", "attempts", "created_at")
PARTS = ("details", "payload", "verdict", "attempts", "history", "notes")
MAX_FRAMES = 5
LIKELY = {
    "likely": "a replay is likely to succeed",
    "unlikely": "a replay is likely to fail again",
    "unknown": "",
}


@click.command()
@click.argument("letter_id", metavar="ID")
@click.option("--stack", is_flag=True, help="Show the full traceback.")
@output_option
@api_options
def view(client: Client, letter_id: str, stack: bool, output: str | None) -> None:
    """Show a dead letter, and what to do about it.

    Shows why it stopped, what has changed since, and whether a replay is likely to succeed. The JSON output
    has the dead letter with its verdict, payload, attempts, history and notes.
    """
    with explain_letter_ids([letter_id]):
        letter = read_letter(client, letter_id, PARTS)
    show_one(letter, COLUMNS, output, lambda screen: _draw(screen, letter, stack), piped=True)


@click.command()
@click.argument("letter_id", metavar="ID")
@reason_option
@api_options
def reveal(client: Client, letter_id: str, reason: str) -> None:
    """Print the payload of a dead letter with its secrets, as JSON.

    The audit log records your name and the reason.
    """
    why = require_reason(reason, "reveal a payload")
    with explain_letter_ids([letter_id]):
        found = client.post(f"{PATH}/{segment(letter_id)}/reveal", {"reason": why})
    show_json(found["payload"])


def _draw(screen: Screen, letter: Row, stack: bool) -> None:
    screen.headline(place(letter), styled_status(letter))
    screen.aside([letter["id"], f"failed {stamp(letter['last_failed_at'])}", *_marks(letter)])
    _draw_verdict(screen, letter["verdict"])
    _draw_error(screen, letter, stack)
    _draw_attempts(screen, letter)
    screen.heading("Payload")
    screen.document(letter["payload"], f"redrive dlq view {letter['id']} -o json")
    if history := sorted(_history(letter)):
        screen.heading("History")
        screen.columns(((stamp(at), "dim"), text) for at, text in history)
    screen.next_steps(_next(letter))


def _marks(letter: Row) -> Iterator[str]:
    yield f"group {short_fingerprint(letter['fingerprint'])}"
    yield f"queue {letter['queue']}"
    if letter["correlation_id"] != letter["run_id"]:
        yield f"correlation {letter['correlation_id']}"
    if letter["assignee"]:
        yield f"assigned to {letter['assignee']}"
    if letter["tags"]:
        yield f"tags {', '.join(letter['tags'])}"
    if letter["code_version"] and letter["code_version"] != "unversioned":
        yield f"version {letter['code_version']}"


def _draw_verdict(screen: Screen, verdict: Row) -> None:
    screen.heading("Why it stopped")
    screen.paragraph(verdict["why"]["text"])
    if verdict["changed"]:
        screen.heading("Since then")
        for change in verdict["changed"]:
            screen.columns([("-", change["text"])], gap=1)
    screen.heading("What to do", styled_state(verdict["likely"], LIKELY[verdict["likely"]]))
    screen.paragraph(advice_of(verdict))


def advice_of(verdict: Row) -> str:
    return " ".join(fact["text"] for fact in verdict["advice"])


def _draw_error(screen: Screen, letter: Row, stack: bool) -> None:
    status = "" if letter["http_status"] is None else f", HTTP {letter['http_status']}"
    screen.heading("Error", (f"{letter['category']}, {letter['error_class']}{status}", "dim"))
    screen.paragraph(f"{letter['error_type']}: {letter['message']}")
    draw_origin(screen, letter)
    if mismatch := letter["decision"]["mismatch"]:
        screen.paragraph(f"Expected fields: {list_fields(mismatch['expected'])}")
        screen.paragraph(f"Given fields: {list_fields(mismatch['given'])}")
    if letter["runbook"]:
        screen.paragraph(f"Runbook: {letter['runbook']}")
    if stack:
        screen.heading("Traceback")
        for line in letter["stack"].splitlines():
            screen.paragraph(line)


def _draw_attempts(screen: Screen, letter: Row) -> None:
    screen.heading("Attempts")
    day = letter["first_failed_at"]
    rows = [
        (
            str(attempt["number"]),
            clock(attempt["started_at"], day),
            took(attempt["started_at"], attempt["ended_at"]),
            (attempt["error_type"] or attempt["outcome"])
            + (f" (replay {attempt['replay']})" if attempt["replay"] else ""),
            attempt["reason"].replace("_", " ")
            + ("" if attempt["delay"] is None else f", retry after {duration(attempt['delay'])}"),
        )
        for attempt in letter["attempt_list"]
    ]
    screen.columns(rows, heads=("#", "STARTED", "TOOK", "RESULT", "DECISION"), cut=True)


def draw_origin(screen: Screen, letter: Row, limit: int = MAX_FRAMES) -> None:
    """Draw where the error was raised: the frames of the application, if there are any."""
    for frame in stack_of(letter["stack"]).origin[:limit]:
        screen.paragraph(f"at {frame.file}:{frame.line} in {frame.function}")


def _history(letter: Row) -> Iterator[tuple[str, str]]:
    """Yield the time and the description of each action, replay and note."""
    for entry in letter["history"]["entries"]:
        if entry["action"] not in LISTED_ELSEWHERE:
            what, text = describe_action(entry["action"], entry["detail"], entry["actor"])
            others = len(entry["subjects"]) - 1
            what += f" and {plural(others, 'other dead letter')}" if others > 0 else ""
            yield entry["at"], f"{entry['actor']} {what}{f': {text}' if text else ''}"
    for replay in letter["history"]["replays"]:
        what, text = describe_replay(
            replay["mode"],
            replay["state"],
            automatic=replay["automatic"],
            changed=[change["path"] for change in replay["edit"] or ()],
            reason=replay["reason"],
            note=replay["note"]["text"] if replay["note"] else None,
            started=replay["started_at"] is not None,
        )
        state = "" if replay["state"] == "PLANNED" else f": {replay['status']}"
        yield replay["requested_at"], f"{replay['requested_by']} {what}{state}{f' ({text})' if text else ''}"
    for note in letter["notes"]:
        yield note["at"], f"{note['author']} noted: {note['text']}"


def _next(letter: Row) -> Iterator[tuple[str, str]]:
    if letter["state"] in CLOSED:
        yield f"redrive dlq reopen {letter['id']}", "reopen it"
    elif letter["state"] != "REPLAYING":
        yield f"redrive dlq replay {letter['id']}", "replay it"
        yield f"redrive dlq resolve {letter['id']}", "close it without a replay"
    yield (
        f"redrive dlq groups {short_fingerprint(letter['fingerprint'])}",
        "all dead letters with this failure",
    )
    yield f"redrive run view {letter['run_id']}", "the run"


def place(row: Row) -> str:
    """Name the workflow and the step, or the job, whose workflow and step have the same name."""
    workflow, step = str(row["workflow"]), str(row["step"])
    return workflow if workflow == step else f"{workflow} › {step}"
