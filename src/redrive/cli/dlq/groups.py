"""`redrive dlq groups`: list groups of dead letters with the same failure, or show one group."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from redrive.cli.client import ApiError, Client, segment
from redrive.cli.commands import QueryCommand, query_argument
from redrive.cli.connection import api_options
from redrive.cli.dlq.view import LIKELY, advice_of, draw_origin, place
from redrive.cli.options import limit_option, output_option
from redrive.cli.output import Listing, show_one
from redrive.cli.table import Row, TableColumn, ago, clock, short_fingerprint, since, stamp
from redrive.cli.terminal import out, styled_state, styled_status
from redrive.errors import NotFoundError
from redrive.model.dead_letter import CLOSED
from redrive.words.state import status

if TYPE_CHECKING:
    from redrive.cli.screen import Screen

PATH = "/api/v1/groups"
COLUMNS = ("fingerprint", "state", "workflow", "step", "category", "error_type", "occurrences", "title")
BARS = "·▁▂▃▄▅▆▇█"
HOURS = 24

_FINGERPRINT = re.compile(r"(?:fp:)?((?:v\d+:)?[0-9a-f]{6,64})")
_TOO_SHORT = re.compile(r"(?:fp:(?:v\d+:)?|v\d+:)[0-9a-f]{1,5}|(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{4,5}")
"""Digits only, such as 500, may be a search term."""


GROUPS = Listing(
    PATH,
    (
        TableColumn("fingerprint", "group", short_fingerprint, whole=True),
        TableColumn("live"),
        TableColumn("occurrences", "count"),
        TableColumn("last_seen", "age", since),
        TableColumn("state", whole=True, shown="status"),
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
    help="Sort by last occurrence or by number of occurrences.",
)
@limit_option
@output_option
@api_options
def groups(client: Client, query: str, sort: str, limit: int | None, output: str | None) -> None:
    """List failure groups, or show one group.

    A group contains the dead letters with the same failure. Without a QUERY, lists groups with dead letters
    that are not closed. With the first 6 or more digits of a fingerprint, shows that group.
    """
    if _TOO_SHORT.fullmatch(query):
        raise click.UsageError(
            f"{query!r} is too short; use at least 6 digits of the fingerprint of the group."
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
    screen.headline(group["title"] or group["error_type"], styled_status(group))
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
    yield "dead letters", ", ".join(numbers) or "none"
    yield "occurred", f"{group['occurrences']:,} times" if group["occurrences"] != 1 else "once"
    yield "first seen", f"{stamp(group['first_seen'])}, {ago(group['first_seen'])}"
    yield "last seen", f"{stamp(group['last_seen'])}, {ago(group['last_seen'])}"
    if group["regressed_at"]:
        yield "regressed", f"{stamp(group['regressed_at'])}, after it was resolved"
    versions = [f"{version['code_version']} ({version['occurrences']:,})" for version in group["versions"]]
    if versions and not versions[0].startswith("unversioned"):
        yield "versions", ", ".join(versions)
    yield "replays", ", ".join(f"{number:,} {status(state)}" for state, number in group["replays"].items())
    if group["changed_by"]:
        reason = f": {group['change_reason']}" if group["change_reason"] else ""
        yield group["status"], f"by {group['changed_by']}, {ago(group['changed_at'])}{reason}"
    yield "grouped by", group["reason"]["text"]


def _draw_timeline(screen: Screen, timeline: Row) -> None:
    """Draw the number of occurrences in each hour."""
    numbers = timeline["numbers"]
    top = max(numbers, default=0)
    if not top:
        return
    bars = "".join(BARS[-(-number * (len(BARS) - 1) // top)] for number in numbers)
    screen.heading(f"Last {HOURS} hours", (f"maximum {top:,} per hour", "dim"))
    out(f"  {clock(timeline['start'], timeline['start'])[:5]} {bars} now")


def _draw_sample(screen: Screen, client: Client, letter_id: str | None) -> None:
    if letter_id is None:
        return
    path = f"/api/v1/dead-letters/{segment(letter_id)}"
    try:
        letter = client.get(path)
    except (ApiError, NotFoundError):  # removed in the meantime
        return
    screen.heading("Newest dead letter", (letter["id"], "dim"))
    screen.paragraph(f"{letter['error_type']}: {letter['message']}")
    draw_origin(screen, letter, 2)
    if letter["state"] in CLOSED:
        screen.heading("What to do")
        screen.paragraph("Nothing: this dead letter is closed.")
        return
    verdict = client.get(f"{path}/verdict")
    screen.heading("What to do", styled_state(verdict["likely"], LIKELY[verdict["likely"]]))
    screen.paragraph(advice_of(verdict))


def _next(group: Row) -> Iterator[tuple[str, str]]:
    name = short_fingerprint(group["fingerprint"])
    if group["sample"]:
        yield f"redrive dlq view {group['sample']}", "the newest dead letter"
    yield f"redrive dlq list fp:{name}", "all dead letters of the group"
    if group["dead_letters"]["live"]:
        yield f"redrive replay plan --group {name}", "plan a replay"
    if group["state"] in ("RESOLVED", "IGNORED"):
        yield f"redrive dlq group reopen {name}", "reopen the group"
    else:
        yield f"redrive dlq group resolve {name}", "once the cause is fixed"
