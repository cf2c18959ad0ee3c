"""The control: workers without fences, so that results of zombies count."""

from __future__ import annotations

from contextlib import ExitStack

from tests.guards.lease_guards import EPOCH, PLACE, SQLITE, TOKEN
from tests.guards.patch import Code, Sql

_FENCES = (
    Sql("records.complete", TOKEN),
    Sql("records.complete", EPOCH),
    Sql("records.complete", PLACE, sides=SQLITE),
    Code(
        "redrive.engine.in_flight:InFlight._lost", "self.interrupt(run_id, token, Interruption.LOST)", "pass"
    ),
)
_FOR_GOOD = ExitStack()


def without_fences() -> None:
    """Switch the fences off until this process ends."""
    for patch in _FENCES:
        _FOR_GOOD.enter_context(patch.applied())
