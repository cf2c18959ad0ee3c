"""`redrive dlq groups`: failures that are the same, together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from redrive.cli.client import ApiError, Client, segment
from redrive.cli.commands import QueryCommand, query_argument
from redrive.cli.connection import api_options
from redrive.cli.dlq.view import LIKELY, draw_origin, place
from redrive.cli.options import limit_option, output_option
from redrive.cli.output import Listing, show_one
from redrive.cli.table import Row, TableColumn, ago, clock, short_fingerprint, since, stamp
from redrive.cli.terminal import out, styled_state
from redrive.errors import NotFoundError
from redrive.model.dead_letter import CLOSED

if TYPE_CHECKING:
    from redrive.cli.screen import Screen

PATH = "/api/v1/groups"
COLUMNS = ("fingerprint", "state", "workflow", "step", "category", "error_type", "occurrences", "title")
BARS = "·▁▂▃▄▅▆▇█"
HOURS = 24

_FINGERPRINT = re.compile(r"(?:fp:)?((?:v\d+:)?[0-9a-f]{6,64})")
_TOO_SHORT = re.compile(r"(?:fp:(?:v\d+:)?|v\d+:)[0-9a-f]{1,5}|(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{4,5}")
"""Figures alone, such as 500, may be looked for in the text."""


GROUPS = Listing(
    PATH,
    (
        TableColumn("fingerprint", "group", short_fingerprint, whole=True),
        TableColumn("live"),
        TableColumn("occurrences", "seen"),
        TableColumn("last_seen", "last", since),
        TableColumn("state"),
        TableColumn("step"),
        TableColumn("title", "error"),
    ),
    "failure groups",
    flat=lambda group: {**group, "live": group["dead_letters"]["live"]},
    default="is:live",
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


def show_group(client: Client, fingerprint: str, output: str | None) -> None:
    group = client.get(f"{PATH}/{segment(fingerprint)}")
    show_one(group, COLUMNS, output, lambda screen: _draw(screen, client, group), piped=True)


def _draw(screen: Screen, client: Client, group: Row) -> None:
    path = f"{PATH}/{segment(group['fingerprint'])}"
    name = short_fingerprint(group["fingerprint"])
    screen.headline(group["title"] or group["error_type"], styled_state(group["state"]))
    screen.aside([name, place(group), f"{group['error_type']} ({group['category']})"])
    out("")
    screen.facts(_facts(group))
    _draw_timeline(screen, client.get(f"{path}/occurrences", seconds=HOURS * 3600, buckets=HOURS))
    _draw_sample(screen, client, group["sample"])
    screen.next_steps(_next(group))


def _facts(group: Row) -> Iterator[tuple[str, str | None]]:
    letters = group["dead_letters"]
    numbers = [
        f"{letters[name]:,} {name}" for name in ("open", "exhausted", "replaying", "closed") if letters[name]
    ]
    yield "dead letters", ", ".join(numbers) or "none any more"
    yield "seen", f"{group['occurrences']:,} times" if group["occurrences"] != 1 else "once"
    yield "first", f"{stamp(group['first_seen'])}, {ago(group['first_seen'])}"
    yield "last", f"{stamp(group['last_seen'])}, {ago(group['last_seen'])}"
    if group["regressed_at"]:
        yield "came back", f"{stamp(group['regressed_at'])}, after it had been resolved"
    versions = [f"{version['code_version']} ({version['occurrences']:,})" for version in group["versions"]]
    if versions and not versions[0].startswith("unversioned"):
        yield "versions", ", ".join(versions)
    yield "replays", ", ".join(f"{number:,} {state.lower()}" for state, number in group["replays"].items())
    if group["changed_by"]:
        reason = f": {group['change_reason']}" if group["change_reason"] else ""
        yield group["state"].lower(), f"by {group['changed_by']}, {ago(group['changed_at'])}{reason}"
    yield "one group", group["reason"]


def _draw_timeline(screen: Screen, timeline: Row) -> None:
    """How many occurred in each hour."""
    numbers = timeline["numbers"]
    most = max(numbers, default=0)
    if not most:
        return
    bars = "".join(BARS[-(-number * (len(BARS) - 1) // most)] for number in numbers)
    screen.heading(f"The last {HOURS} hours", (f"at most {most:,} an hour", "dim"))
    out(f"  {clock(timeline['start'], timeline['start'])[:5]} {bars} now")


def _draw_sample(screen: Screen, client: Client, letter_id: str | None) -> None:
    if letter_id is None:
        return
    path = f"/api/v1/dead-letters/{segment(letter_id)}"
    try:
        letter = client.get(path)
    except (ApiError, NotFoundError):  # removed meanwhile
        return
    screen.heading("The newest", (letter["id"], "dim"))
    screen.paragraph(f"{letter['error_type']}: {letter['message']}")
    draw_origin(screen, letter, 2)
    if letter["state"] in CLOSED:
        screen.heading("What to do")
        screen.paragraph("Nothing about this one: it is closed.")
        return
    verdict = client.get(f"{path}/verdict")
    screen.heading("What to do", styled_state(verdict["likely"], LIKELY[verdict["likely"]]))
    screen.paragraph(verdict["advice"])


def _next(group: Row) -> Iterator[tuple[str, str]]:
    name = short_fingerprint(group["fingerprint"])
    if group["sample"]:
        yield f"redrive dlq view {group['sample']}", "the newest of them"
    yield f"redrive dlq list fp:{name}", "all of them"
    if group["dead_letters"]["live"]:
        yield f"redrive replay plan --group {name}", "what a replay would do"
    if group["state"] in ("RESOLVED", "IGNORED"):
        yield f"redrive dlq group reopen {name}", "take that back"
    else:
        yield f"redrive dlq group resolve {name}", "its cause is gone"
