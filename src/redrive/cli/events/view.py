"""`redrive events view`: show a stored event and the state of each projection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from redrive.cli.checks import explain_ids
from redrive.cli.client import Client, segment
from redrive.cli.connection import api_options
from redrive.cli.events.listing import PATH, summary
from redrive.cli.options import output_option
from redrive.cli.output import show_one
from redrive.cli.table import Row, stamp
from redrive.cli.terminal import out, styled_state

if TYPE_CHECKING:
    from redrive.cli.screen import Line, Screen

FIELDS = ("id", "stream", "type", "source", "user", "dedupe_key", "message_id", "stored_at", "projections")
FAILED = ("dead", "failed")


def read_event(client: Client, event_id: str) -> Row:
    with explain_ids("event", [event_id], "redrive events list"):
        event: Row = client.get(f"{PATH}/{segment(event_id)}")
    return event


@click.command()
@click.argument("event_id", metavar="ID")
@output_option
@api_options
def view(client: Client, event_id: str, output: str | None) -> None:
    """Show a stored event: its payload, redacted, and how each projector has fared."""
    event = read_event(client, event_id)
    show_one(event, FIELDS, output, lambda screen: _draw(screen, event), flat=_flat, piped=True)


def _flat(event: Row) -> Row:
    return event | {"projections": summary(event["projections"])}


def _draw(screen: Screen, event: Row) -> None:
    screen.headline(event["type"])
    screen.aside([event["id"], f"stream {event['stream']}", f"key {event['dedupe_key']}"])
    out("")
    screen.facts(_facts(event))
    screen.heading("Projections")
    screen.columns(map(_projection, event["projections"]), cut=True)
    screen.heading("Payload")
    screen.document(event["payload"], f"redrive events view {event['id']} -o json")
    screen.next_steps(_next(event))


def _facts(event: Row) -> Iterator[tuple[str, str | None]]:
    yield "source", event["source"]
    yield "user", event["user"]
    yield "Redis entry", event["message_id"]
    yield "occurred", stamp(event["occurred_at"]) if event["occurred_at"] else None
    yield "stored", stamp(event["stored_at"])


def _projection(projection: Row) -> tuple[Line, ...]:
    name = f"{projection['projector']} v{projection['version']}"
    detail = projection["error"] or ""
    return name, styled_state(projection["status"]), (projection["run_id"], "dim"), (detail, "bad")


def _next(event: Row) -> Iterator[tuple[str, str]]:
    failed = [found["projector"] for found in event["projections"] if found["status"] in FAILED]
    chosen = f" --projectors {','.join(dict.fromkeys(failed))}" if failed else ""
    yield f"redrive events replay --event-id {event['id']}{chosen}", "execute projectors again"
    for projection in event["projections"]:
        if projection["status"] in FAILED:
            yield f"redrive run view {projection['run_id']}", f"see why {projection['projector']} failed"
