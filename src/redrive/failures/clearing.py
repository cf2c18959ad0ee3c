"""Clearing a stand-alone dead-letter queue: everything in it is removed for ever (M6).

Only such a queue can be cleared. What failed in a run of this application is part of its history, which is
closed, archived, and forgotten after a while, but not removed by hand.
"""

from __future__ import annotations

from redrive.errors import DriftError, InvalidValueError
from redrive.model.audit import Action, NewEntry
from redrive.model.caller import Caller
from redrive.store.external_failures import ExternalFailures
from redrive.store.store import Store

PREFIX = "dlq:"
"""What the names of stand-alone queues begin with."""
DEFAULT_MAX_SIZE = 10_000


def is_stand_alone(queue: str) -> bool:
    return queue.startswith(PREFIX)


async def clear_queue(
    store: Store, caller: Caller, queue: str, max_size: int | None, *, expect: int | None = None
) -> int:
    """Remove all but what is being executed; how many it were: as many as expected, or none."""
    if not is_stand_alone(queue) or not queue.isprintable():
        raise InvalidValueError(
            f"only stand-alone dead-letter queues can be cleared, whose names begin with {PREFIX!r}, got "
            f"{queue[:100]!r}; resolve, ignore or archive other dead letters instead"
        )
    org, name = caller
    failures = ExternalFailures(store.database, store.limits)
    async with store.database.transaction() as session:
        removed = await failures.clear(session, org, queue, max_size or DEFAULT_MAX_SIZE)
        if expect is not None and removed != expect:
            raise _unexpected(removed, expect)
        entry = NewEntry(org, name, Action.QUEUE_CLEARED, (queue,), {"removed": removed})
        await store.audit.append(session, [entry])
    return removed


def _unexpected(found: int, expect: int) -> DriftError:
    return DriftError(
        f"{found:,} dead letters would be removed, {expect:,} were expected; nothing was removed. Look at "
        f"them again, then say the new number",
        number=found,
    )
