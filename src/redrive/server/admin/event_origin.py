"""Where failed or running work came from: the event that a projector processes, or an entry of a stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from redrive.engine.runs import Runs
from redrive.errors import NotFoundError
from redrive.events.service import Events
from redrive.model.dead_letter import DeadLetter
from redrive.model.id import ID_LENGTH, prefix_of
from redrive.server.admin.page import Page

STORE_ENTRY = ": store entry"
"""The end of the name of the task that stores an entry of a dead letter again."""


class EventOrigin(NamedTuple):
    """
    message_id  the id of the Redis entry; None if the application recorded the event itself
    event_id    None if the entry has not become an event
    type        of the event
    """

    stream: str
    message_id: str | None
    event_id: str | None = None
    type: str = ""


async def origin_of_run(page: Page, task: str, correlation_id: str) -> EventOrigin | None:
    """Return the event that a run projects; None if it projects none.

    The correlation id of the run of a projector is the id of its event.
    """
    prefix = prefix_of(correlation_id)
    if prefix is None or len(prefix) != ID_LENGTH:
        return None
    return await _origin_of_event(page.visit.events, correlation_id, task)


async def origin_of_letter(page: Page, letter: DeadLetter) -> EventOrigin | None:
    """Return the event that its run projects, or the entry that could not be stored."""
    metadata = letter.metadata
    if letter.task.endswith(STORE_ENTRY) and isinstance(metadata, Mapping):
        origin = EventOrigin(letter.task.removesuffix(STORE_ENTRY), metadata.get("source_message_id"))
        return await _with_event(origin, page.visit.runs, page.visit.events, letter.run_id)
    return await origin_of_run(page, letter.task, letter.correlation_id)


async def _origin_of_event(events: Events, event_id: str, task: str) -> EventOrigin | None:
    try:
        event, projections = await events.get(event_id)
    except NotFoundError:
        return None
    tasks = {f"{event.stream}:{record.projector}:v{record.version}" for record in projections}
    return EventOrigin(event.stream, event.message_id, event.id, event.type) if task in tasks else None


async def _with_event(origin: EventOrigin, runs: Runs, events: Events, run_id: str) -> EventOrigin:
    """Add the event that a replay of the entry has stored."""
    try:
        result = (await runs.view(run_id)).result
        event_id = result.get("event_id") if isinstance(result, Mapping) else None
        event = None if event_id is None else (await events.get(event_id)).event
    except NotFoundError:
        return origin
    return origin if event is None else origin._replace(event_id=event.id, type=event.type)
