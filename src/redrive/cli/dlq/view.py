"""`redrive dlq view`: a dead letter, for somebody who has to decide what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from redrive.cli.client import Client, segment
from redrive.cli.connection import api_options
from redrive.cli.dlq.history import deeds
from redrive.cli.dlq.stack import frames_of
from redrive.cli.output import chosen, output_option, show_fields, show_json
from redrive.cli.preconditions import explain_ids
from redrive.cli.screen import (
    aside,
    beside,
    coloured,
    document,
    entry,
    grid,
    heading,
    headline,
    item,
    next_steps,
    paragraph,
    wrapped,
)
from redrive.cli.terminal import dim, short, visible
from redrive.cli.times import clock, length, stamp, took

PREFIX = "/api/v1/dead-letters"
COLUMNS = ("id", "state", "workflow", "step", "category", "error_type", "message", "attempts", "created_at")
CLOSED = ("RESOLVED", "IGNORED", "ARCHIVED")
LIKELY = {
    "likely": "a replay is likely to succeed",
    "unlikely": "a replay is likely to fail again",
    "unknown": "",
}


@click.command()
@click.argument("id")
@click.option("--stack", is_flag=True, help="With the whole traceback.")
@output_option
@api_options
def view(client: Client, id: str, stack: bool, output: str | None) -> None:  # noqa: A002 - its name there
    """Show a dead letter: why it stopped, what may help.

    And what has changed since. JSON has the dead letter with its verdict, payload, attempts, history and
    notes.
    """
    with explain_ids("dead letter", [id], "redrive dlq list"):
        letter = whole_letter(client, id)
    form = chosen(output)
    if form in ("json", "ndjson"):
        show_json(letter, indent=2 if form == "json" else None)
    elif form == "csv":
        show_fields(letter, COLUMNS, form)
    else:
        _tell(letter, stack)


def whole_letter(client: Client, letter_id: str) -> dict[str, Any]:
    path = f"{PREFIX}/{segment(letter_id)}"
    letter: dict[str, Any] = client.get(path)
    letter |= client.get(f"{path}/payload")
    letter["verdict"] = client.get(f"{path}/verdict")
    letter["attempt_list"] = client.get(f"{path}/attempts")["items"]
    letter["history"] = client.get(f"{path}/history")
    letter["notes"] = client.get(f"{path}/notes")["items"]
    return letter


def _tell(letter: dict[str, Any], stack: bool) -> None:
    headline(place(letter), letter["state"])
    aside([letter["id"], f"failed {stamp(letter['last_failed_at'])}", *_marks(letter)])
    tell_verdict(letter["verdict"])
    _tell_error(letter, stack)
    _tell_attempts(letter)
    heading("Payload")
    document(letter["payload"], f"redrive dlq view {letter['id']} -o json")
    _tell_history(letter)
    next_steps(_next(letter))


def _marks(letter: dict[str, Any]) -> Iterator[str]:
    yield f"group {short(letter['fingerprint'])}"
    yield f"queue {letter['queue']}"
    if letter["correlation_id"] != letter["run_id"]:
        yield f"correlation {letter['correlation_id']}"
    if letter["assignee"]:
        yield f"assigned to {letter['assignee']}"
    if letter["tags"]:
        yield f"tags {', '.join(letter['tags'])}"
    if letter["code_version"] and letter["code_version"] != "unversioned":
        yield f"version {letter['code_version']}"


def tell_verdict(verdict: dict[str, Any]) -> None:
    heading("Why it stopped")
    paragraph(verdict["why"])
    if verdict["changed"]:
        heading("Since then")
        for each in verdict["changed"]:
            item(each)
    heading("What to do", coloured(verdict["likely"], LIKELY[verdict["likely"]]))
    paragraph(verdict["advice"])


def _tell_error(letter: dict[str, Any], stack: bool) -> None:
    status = "" if letter["http_status"] is None else f", HTTP {letter['http_status']}"
    heading("Error", dim(visible(f"{letter['category']}, {letter['error_class']}{status}")))
    paragraph(f"{letter['error_type']}: {letter['message']}")
    for frame in frames_of(letter["stack"]):
        paragraph(f"at {frame}")
    if letter["runbook"]:
        paragraph(f"Runbook: {letter['runbook']}")
    if stack:
        heading("Traceback")
        for line in letter["stack"].splitlines():
            paragraph(line)


def _tell_attempts(letter: dict[str, Any]) -> None:
    heading("Attempts")
    day = letter["first_failed_at"]
    rows = [
        (
            str(each["number"]),
            clock(each["started_at"], day),
            took(each["started_at"], each["ended_at"]),
            (each["error_type"] or each["outcome"])
            + (f" (replay {each['replay']})" if each["replay"] else ""),
            _then(each),
        )
        for each in letter["attempt_list"]
    ]
    grid(("#", "at", "took", "what", "then"), rows)


def _then(attempt: dict[str, Any]) -> str:
    """What was decided, in a few words."""
    reason = str(attempt["reason"]).replace("_", " ")
    return reason if attempt["delay"] is None else f"{reason}, again after {length(attempt['delay'])}"


def _tell_history(letter: dict[str, Any]) -> None:
    told = deeds(letter)
    if told:
        heading("History")
    for each in told:
        at = stamp(each.at)
        entry(at, wrapped(each.text, beside(at)))


def _next(letter: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if letter["state"] in CLOSED:
        yield f"redrive dlq reopen {letter['id']}", "undo closing it"
    elif letter["state"] != "REPLAYING":
        yield f"redrive dlq replay {letter['id']}", "execute it again"
        yield f"redrive dlq resolve {letter['id']}", "close it"
    yield f"redrive dlq groups {short(letter['fingerprint'])}", "all like this one"
    yield f"redrive run view {letter['run_id']}", "its whole run"


def place(row: dict[str, Any]) -> str:
    """Where in the work it failed; of a job, workflow and step are the same."""
    workflow, step = str(row["workflow"]), str(row["step"])
    return workflow if workflow == step else f"{workflow} › {step}"
