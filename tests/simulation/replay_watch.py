"""Replays and bulk operations: one replay of a run at a time, and none starts that must wait."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from tests.simulation.breaker_watch import BreakerWatch
from tests.simulation.letter_watch import RecordedAction
from tests.simulation.watcher import Blind

from redrive.model.replay import OPERATION_TRANSITIONS, REPLAY_TRANSITIONS, OperationState, ReplayState
from redrive.policy.codec import decode

BEGINNINGS = ("PLANNED", "RUNNING")
OPERATION_ACTIONS = {
    "RUNNING": {"operation.started", "operation.resumed"},
    "PAUSED": {"operation.paused"},
    "STOPPED": {"operation.stopped"},
    "DONE": {"operation.finished"},
    "CANCELLED": {"operation.cancelled"},
}


class ReplayRow(NamedTuple):
    id: str
    operation_id: str | None
    letter_id: str
    run_id: str
    state: str
    automatic: int
    breaker: str | None


class OperationRow(NamedTuple):
    id: str
    state: str
    options: str

    @property
    def stops_on_breaker(self) -> bool:
        options: Any = decode(self.options)
        return bool(options["stop_on_breaker"])


Awaited = Callable[[str], dict[str, str]]
"""Returns the dead letters that a letter waits for, and their states."""


class ReplayWatch:
    def __init__(self, watcher: Blind, breakers: BreakerWatch, awaited: Awaited) -> None:
        self._watcher = watcher
        self._occurrences = watcher.occurrences
        self._breakers = breakers
        self._awaited = awaited
        self._replays: dict[str, ReplayRow] = {}
        self._running: dict[str, str] = {}
        self._operations: dict[str, OperationRow] = {}

    def operations_changed(self, rows: Iterable[Sequence[Any]], recorded: set[RecordedAction]) -> None:
        for row in rows:
            after = OperationRow._make(row)
            before = self._operations.get(after.id)
            self._operations[after.id] = after
            if before is None or before.state != after.state:
                self._check_operation(None if before is None else before.state, after, recorded)

    def changed(self, rows: Iterable[Sequence[Any]], looked_at: float) -> None:
        """Check changed replays. `looked_at` is when the process that starts them read the breakers."""
        changes = [(self._replays.get(row[0]), ReplayRow._make(row)) for row in rows]
        self._replays |= {after.id: after for _, after in changes}
        for _, after in changes:
            if after.state != "RUNNING" and self._running.get(after.run_id) == after.id:
                del self._running[after.run_id]
        for before, after in changes:
            if before is None or before.state != after.state:
                self._check_replay(None if before is None else before.state, after, looked_at)

    def _check_operation(
        self, before: str | None, after: OperationRow, recorded: set[RecordedAction]
    ) -> None:
        resumed = before in ("PAUSED", "STOPPED") and after.state == "RUNNING"
        self._occurrences["operation resumed" if resumed else f"operation {after.state.lower()}"] += 1
        said = {each.action for each in recorded if each.subject == after.id}
        if before is None:
            expected, sound = {"operation.planned"}, after.state == "PLANNED"
        else:
            states = OperationState(before), OperationState(after.state)
            expected, sound = OPERATION_ACTIONS[after.state], OPERATION_TRANSITIONS.allows(*states)
            # An operation with nothing left to do is done as soon as it starts.
            sound = sound or ((before, after.state) == ("PLANNED", "DONE") and "operation.started" in said)
        if not sound:
            self._watcher.find("I10", after.id, f"the operation went from {before} to {after.state}")
        if not said & expected:
            self._watcher.find("I14", after.id, f"no entry tells that it went from {before} to {after.state}")

    def _check_replay(self, before: str | None, after: ReplayRow, looked_at: float) -> None:
        kind = "item" if after.operation_id else "redrive" if after.automatic else "replay"
        self._occurrences[f"{kind} {after.state.lower()}"] += 1
        if before is None and after.state not in BEGINNINGS:
            allowed = after.operation_id is not None  # rejected in the same transaction that planned it
        else:
            states = ReplayState(before or after.state), ReplayState(after.state)
            allowed = before is None or REPLAY_TRANSITIONS.allows(*states)
        if not allowed:
            self._watcher.find("I10", after.id, f"the replay went from {before} to {after.state}")
        if after.state == "RUNNING":
            self._check_beginning(after, looked_at)

    def _check_beginning(self, replay: ReplayRow, looked_at: float) -> None:
        other = self._running.setdefault(replay.run_id, replay.id)
        if other != replay.id:
            self._watcher.find("I4", replay.run_id, f"is replayed by {replay.id} while {other} is under way")
        if replay.operation_id is None and not replay.automatic:
            return  # a person may replay a letter that waits for another
        awaited = self._awaited(replay.letter_id)
        self._occurrences["waited for another letter"] += bool(awaited)
        if set(awaited.values()) - {"RESOLVED"}:
            self._watcher.find("M12", replay.letter_id, f"is redriven before {awaited} are resolved")
        for name in sorted(self._dependencies(replay)):
            if self._breakers.has_been_open_since(name, looked_at):
                self._watcher.find("I11", replay.id, f"is begun although the breaker {name} is open")
        if replay.operation_id is not None:
            self._check_operation_runs(replay, replay.operation_id)

    def _check_operation_runs(self, replay: ReplayRow, operation_id: str) -> None:
        operation = self._operations.get(operation_id)
        if operation is None or operation.state != "RUNNING":
            state = None if operation is None else operation.state
            self._watcher.find("operation", replay.id, f"is begun while its operation is {state}")

    def _dependencies(self, replay: ReplayRow) -> set[str]:
        """Return the breakers that must not be open: its own, or those of the rest of its operation."""
        if replay.operation_id is None:
            return {replay.breaker} if replay.breaker else set()
        if not self._operations[replay.operation_id].stops_on_breaker:
            return set()
        left = [each for each in self._replays.values() if each.operation_id == replay.operation_id]
        names = [each.breaker for each in left if each.state == "PLANNED" or each.id == replay.id]
        return {name for name in names if name}
