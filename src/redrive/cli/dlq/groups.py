"""`redrive dlq groups`: failures that are the same, together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import click

from redrive.cli.client import ApiError, Client, segment
from redrive.cli.commands import QueryCommand, query_argument
from redrive.cli.connection import api_options
from redrive.cli.dlq.stack import frames_of
from redrive.cli.dlq.view import LIKELY, place
from redrive.cli.listing import JSON, Listing
from redrive.cli.output import Column, chosen, limit_option, output_option, show_fields, show_json
from redrive.cli.screen import aside, coloured, facts, heading, headline, next_steps, paragraph
from redrive.cli.terminal import ago, dim, out, short
from redrive.cli.times import clock, since, stamp
from redrive.errors import NotFoundError
from redrive.model.dead_letter import CLOSED

_FINGERPRINT = re.compile(r"(?:fp:)?((?:v\d+:)?[0-9a-f]{6,64})")
_TOO_SHORT = re.compile(r"(?:fp:(?:v\d+:)?|v\d+:)[0-9a-f]{1,5}|(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{4,5}")
"""Figures alone, such as 500, may be looked for in the text."""


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "live": row["dead_letters"]["live"], "closed": row["dead_letters"]["closed"]}


GROUPS = Listing(
    "/api/v1/groups",
    (
        Column("fingerprint", "group", short, whole=True),
        "live",
        Column("occurrences", "seen"),
        Column("last_seen", "last", since),
        "state",
        "step",
        Column("title", "error"),
    ),
    "failure groups",
    _flat,
    usual="is:live",
)


@click.command(cls=QueryCommand)
@query_argument
@click.option(
    "--sort",
    type=click.Choice(("last_seen", "occurrences")),
    default="last_seen",
    show_default=True,
    help="What comes first.",
)
@limit_option
@output_option
@api_options
def groups(client: Client, query: str, sort: str, limit: int | None, output: str | None) -> None:
    """List groups of the same failure, or show one.

    Without a QUERY these are the ones with dead letters that are not closed. At least 6 digits of a
    fingerprint name a group.
    """
    if _TOO_SHORT.fullmatch(query):
        raise click.UsageError(
            f"{query!r} is too short for a group: at least 6 digits of its fingerprint name it."
        )
    if found := _FINGERPRINT.fullmatch(query):
        show_group(client, found[1], output)
    else:
        GROUPS.show(client, query, limit, output, sort=sort)


PREFIX = "/api/v1/groups"
COLUMNS = ("fingerprint", "state", "workflow", "step", "category", "error_type", "occurrences", "title")
BARS = " ▁▂▃▄▅▆▇█"
HOURS = 24


def show_group(client: Client, fingerprint: str, output: str | None) -> None:
    group = client.get(f"{PREFIX}/{segment(fingerprint)}")
    form = chosen(output)
    if form in JSON:
        show_json(group, indent=2 if form == "json" else None)
    elif form == "csv":
        show_fields(group, COLUMNS, form)
    else:
        _tell(client, group)


def _tell(client: Client, group: dict[str, Any]) -> None:
    path = f"{PREFIX}/{segment(group['fingerprint'])}"
    headline(group["title"] or group["error_type"], group["state"])
    aside([short(group["fingerprint"]), place(group), f"{group['error_type']} ({group['category']})"])
    out("")
    facts(_facts(group))
    _tell_timeline(client.get(f"{path}/occurrences", seconds=HOURS * 3600, buckets=HOURS))
    sample = _sample(client, group["sample"])
    if sample is not None:
        _tell_sample(client, sample)
    next_steps(_next(group))


def _facts(group: dict[str, Any]) -> Iterator[tuple[str, str | None]]:
    letters = group["dead_letters"]
    numbers = [f"{letters[name]:,} {name}" for name in ("open", "exhausted", "replaying", "closed")]
    yield "dead letters", ", ".join(each for each in numbers if not each.startswith("0 ")) or "none any more"
    yield "seen", f"{group['occurrences']:,} times" if group["occurrences"] != 1 else "once"
    yield "first", f"{stamp(group['first_seen'])}, {ago(group['first_seen'])}"
    yield "last", f"{stamp(group['last_seen'])}, {ago(group['last_seen'])}"
    if group["regressed_at"]:
        yield "came back", f"{stamp(group['regressed_at'])}, after it had been resolved"
    versions = [f"{each['code_version']} ({each['occurrences']:,})" for each in group["versions"]]
    if versions and not versions[0].startswith("unversioned"):
        yield "versions", ", ".join(versions)
    yield "replays", ", ".join(f"{number:,} {name.lower()}" for name, number in group["replays"].items())
    if group["changed_by"]:
        reason = f": {group['change_reason']}" if group["change_reason"] else ""
        yield group["state"].lower(), f"by {group['changed_by']}, {ago(group['changed_at'])}{reason}"
    yield "one group", group["reason"]


def _tell_timeline(timeline: dict[str, Any]) -> None:
    """How many came in each hour."""
    numbers = timeline["numbers"]
    most = max(numbers, default=0)
    if not most:
        return
    bars = "".join(BARS[-(-number * (len(BARS) - 1) // most)] for number in numbers)
    heading(f"The last {HOURS} hours", dim(f"at most {most:,} an hour"))
    out(f"  {clock(timeline['start'], timeline['start'])[:5]} {bars.replace(' ', '·')} now")


def _sample(client: Client, letter_id: str | None) -> dict[str, Any] | None:
    if letter_id is None:
        return None
    try:
        letter: dict[str, Any] = client.get(f"/api/v1/dead-letters/{segment(letter_id)}")
    except (ApiError, NotFoundError):  # it may be removed meanwhile
        return None
    return letter


def _tell_sample(client: Client, letter: dict[str, Any]) -> None:
    heading("The newest", dim(letter["id"]))
    paragraph(f"{letter['error_type']}: {letter['message']}")
    for frame in frames_of(letter["stack"])[:2]:
        paragraph(f"at {frame}")
    if letter["state"] in CLOSED:
        heading("What to do")
        paragraph("Nothing about this one: it is closed.")
        return
    verdict = client.get(f"/api/v1/dead-letters/{segment(letter['id'])}/verdict")
    heading("What to do", coloured(verdict["likely"], LIKELY[verdict["likely"]]))
    paragraph(verdict["advice"])


def _next(group: dict[str, Any]) -> Iterator[tuple[str, str]]:
    name = short(group["fingerprint"])
    if group["sample"]:
        yield f"redrive dlq view {group['sample']}", "the newest of them"
    yield f"redrive dlq list fp:{name}", "all of them"
    if group["dead_letters"]["live"]:
        yield f"redrive replay plan --group {name}", "what a replay would do"
    if group["state"] in ("RESOLVED", "IGNORED"):
        yield f"redrive dlq group reopen {name}", "take that back"
    else:
        yield f"redrive dlq group resolve {name}", "its cause is gone"
