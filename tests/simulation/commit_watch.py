"""The witness: looks at every commit, and says what must not have happened.

It sees the rows before and after, who has changed them, and with which statement; and every call of a step.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import apsw
from tests.simulation.breaker_watch import MOMENT, BreakerWatch
from tests.simulation.catalogue import OTHERWISE
from tests.simulation.letter_watch import GroupRow, LetterRow, LetterWatch, entries
from tests.simulation.loop import Process
from tests.simulation.order_watch import OrderWatch
from tests.simulation.replay_watch import OperationRow, ReplayRow, ReplayWatch
from tests.simulation.script import TaskPlan
from tests.simulation.seam import Executed
from tests.simulation.stage import Stage
from tests.simulation.watcher import Blind

from redrive.engine.context import Context
from redrive.model.run import RUN_TRANSITIONS, RunState
from redrive.model.step import STEP_TRANSITIONS, StepState
from redrive.policy.codec import decode
from redrive.store.sqlite import SqliteDatabase
from redrive.testing import EPOCH


class RunRow(NamedTuple):
    id: str
    state: str
    place: str
    queue: str
    step_index: int
    step_state: str
    attempt: int
    epoch: int
    failures: int
    token: int | None
    worker: str | None
    leased_until: float | None
    due_at: float | None
    cancel_requested_at: float | None
    slots: str | None
    definition: str
    policy_override: str | None
    replays: int
    org: str
    order_key: str | None
    held_by: str | None


_LISTED = {
    "runs": ("rowid", *RunRow._fields),
    "audit": ("action", "subject", "subjects"),
    "dead_letters": LetterRow._fields,
    "failure_groups": GroupRow._fields,
    "replay_operations": OperationRow._fields,
    "replays": ReplayRow._fields,
}
_AWAITED = """
SELECT other.id, other.state FROM dead_letter_dependencies AS link
JOIN dead_letters AS other ON other.id = link.depends_on
WHERE link.letter_id = ?
"""


class CommitWatch(Blind):
    sees = True

    def __init__(self, stage: Stage, database: SqliteDatabase) -> None:
        super().__init__(stage)
        self._connection: apsw.Connection = database._open()
        self._connection.set_update_hook(self._touched)
        self._dirty: dict[str, set[int]] = {}
        self._rows: dict[int, RunRow] = {}
        self.runs: dict[str, RunRow] = {}
        self._holders: dict[str, Process] = {}
        self._outcomes: set[tuple[str, int]] = set()
        self._executed: set[tuple[str, int]] = set()
        self._due: dict[str, float] = {}
        self._claimed_at: dict[tuple[str, int], float] = {}
        self._paused: set[str] = set()
        self._looked_at: dict[asyncio.Task[Any] | None, float] = {}
        self.breakers = BreakerWatch(self)
        self.letters = LetterWatch(self)
        self.replays = ReplayWatch(self, self.breakers, self._awaited)
        self.orders = OrderWatch(self, self.runs, self.letters)

    def _touched(self, _kind: int, _database: str, table: str, rowid: int) -> None:
        self._dirty.setdefault(table, set()).add(rowid)

    def rolled_back(self) -> None:
        self._dirty.clear()

    def committed(self, process: Process, executed: Sequence[Executed]) -> None:
        self._count(process, executed)
        dirty, self._dirty = self._dirty, {}
        if "queues" in dirty:
            paused = self._connection.execute("SELECT name FROM queues WHERE paused_at IS NOT NULL")
            self._paused = {row[0] for row in paused}
        if "breakers" in dirty:
            self.breakers.changed(self._connection.execute("SELECT name, body, updated_at FROM breakers"))
        for rowid, *columns in self._read(dirty, "runs"):
            row = RunRow._make(columns)
            before = self._rows.get(rowid)
            self._rows[rowid] = self.runs[row.id] = row
            self._compare(process, executed, before, row)
            self.orders.changed(before, row)
        if "runs" in dirty or "limits" in dirty:
            self._check_limits()
        if not dirty.keys().isdisjoint(_LISTED):
            self._look_at_triage(dirty)
        if "runs" in dirty or "dead_letters" in dirty:
            self.orders.look()

    def _look_at_triage(self, dirty: dict[str, set[int]]) -> None:
        told = entries(self._read(dirty, "audit"))
        self.replays.operations_changed(self._read(dirty, "replay_operations"), told)
        self.letters.changed(self._read(dirty, "dead_letters"), told)
        self.letters.groups_changed(self._read(dirty, "failure_groups"), told)
        looked_at = self._looked_at.get(asyncio.current_task(), 0.0)
        self.replays.changed(self._read(dirty, "replays"), looked_at)

    def _read(self, dirty: dict[str, set[int]], table: str) -> list[Any]:
        if table not in dirty:
            return []
        listed = ", ".join(map(str, sorted(dirty[table])))
        return list(
            self._connection.execute(
                f"SELECT {', '.join(_LISTED[table])} FROM {table} WHERE rowid IN ({listed})"
            )
        )

    def _awaited(self, letter_id: str) -> dict[str, str]:
        return dict(self._connection.execute(_AWAITED, (letter_id,)))

    def _count(self, process: Process, executed: Sequence[Executed]) -> None:
        for each in executed:
            if each.name in _FENCED and len(each.rows) < len(each.given):
                self._stage.bitten["fenced write rejected"] += len(each.given) - len(each.rows)
                self._stage.note(process, f"! fenced {each.name}")
            if each.name == "breakers":
                self._looked_at[asyncio.current_task()] = each.asked_at
            if each.rows and each.name in _COUNTED:
                self._stage.bitten[_COUNTED[each.name]] += len(each.rows)

    def held_by(self, process: Process) -> list[str]:
        return [
            row.id
            for row in self.runs.values()
            if row.place == "leased" and self._holders.get(row.id) is process
        ]

    # Rows

    def _compare(
        self, process: Process, executed: Sequence[Executed], before: RunRow | None, after: RunRow
    ) -> None:
        if before is None:
            if (after.state, after.epoch, after.attempt) != ("PENDING", 0, 0):
                self.find("I10", after.id, f"a new run begins as {after.state}, epoch {after.epoch}")
            return
        self._check_states(before, after)
        if after.replays != before.replays:
            self._check_replayed(before, after)
            return
        if before.place == "ended":
            self.find("I10", after.id, f"changed by {executed[-1].name} after its end")
        if before.place == "leased":
            self._check_leased(process, executed, before, after)
        elif after.place == "leased":
            self._check_claim(process, executed, before, after)
        elif after.epoch != before.epoch:
            self.find("I4", after.id, f"its epoch went from {before.epoch} to {after.epoch} without a claim")
        self._check_failures(before, after)
        if after.due_at is not None:
            self._due[after.id] = after.due_at

    def _check_states(self, before: RunRow, after: RunRow) -> None:
        if before.state != after.state and not RUN_TRANSITIONS.allows(
            RunState(before.state), RunState(after.state)
        ):
            self.find("I10", after.id, f"the run went from {before.state} to {after.state}")
        replayed = before.replays != after.replays
        if before.step_index == after.step_index:
            changed = before.step_state != after.step_state
            if changed and not STEP_TRANSITIONS.allows(
                StepState(before.step_state), StepState(after.step_state)
            ):
                self.find("I10", after.id, f"its step went from {before.step_state} to {after.step_state}")
        elif not replayed and (after.step_index != before.step_index + 1 or before.step_state != "RUNNING"):
            self.find("I10", after.id, f"from step {before.step_index} to {after.step_index}")

    def _check_replayed(self, before: RunRow, after: RunRow) -> None:
        """What has ended goes on by a replay only: where it stood, further back, or behind what was done."""
        self._due.pop(after.id, None)
        if before.place != "ended" or after.place != "ready" or after.replays != before.replays + 1:
            self.find("I10", after.id, f"replayed while it was {before.place}; it is {after.place} now")
        further = before.step_index + (1 if before.state == "PARTIAL" else 0)
        if not 0 <= after.step_index <= further or after.failures:
            text = f"a replay goes from step {before.step_index} to {after.step_index}"
            self.find("I10", after.id, f"{text} with {after.failures} failures")
        if after.epoch != before.epoch:
            self.find("I4", after.id, f"its epoch went from {before.epoch} to {after.epoch} by a replay")

    def _check_claim(
        self, process: Process, executed: Sequence[Executed], before: RunRow, after: RunRow
    ) -> None:
        if before.place not in ("ready", "alone"):
            self.find("I10", after.id, f"was claimed although it was {before.place}")
        if after.epoch != before.epoch + 1 or after.token == before.token:
            self.find("I4", after.id, f"was claimed, but its epoch is {after.epoch} after {before.epoch}")
        if before.queue in self._paused:
            self.find("queue", after.id, f"was claimed from the paused queue {before.queue}")
        due = self._due.pop(after.id, None)
        if due is not None and due > EPOCH + self.now + MOMENT and before.cancel_requested_at is None:
            self.find("I5", after.id, f"was claimed {due - EPOCH - self.now:.3f} s before it was due")
        stopped = self._stage.stopped_at.get(process)
        if stopped is not None and executed[0].asked_at > stopped:
            self.find("I15", after.id, f"was claimed by {process}, which had been told to stop")
        self._holders[after.id] = process
        self._claimed_at[after.id, after.epoch] = self.now

    def _check_leased(
        self, process: Process, executed: Sequence[Executed], before: RunRow, after: RunRow
    ) -> None:
        if after.place == "leased" and after.token != before.token:
            self._check_reclaim(process, before, after)
            return
        if before._replace(cancel_requested_at=None) == after._replace(cancel_requested_at=None):
            return  # somebody has asked to cancel it
        self._check_fence(process, executed, before)
        moved = after.step_index != before.step_index
        if after.place != "leased" or moved:
            if (before.id, before.epoch) in self._outcomes:
                self.find("I4", before.id, f"epoch {before.epoch} has a second outcome")
            self._outcomes.add((before.id, before.epoch))
        rises = 1 if moved and after.place == "leased" else 0
        if after.epoch != before.epoch + rises:
            self.find("I4", before.id, f"its epoch went from {before.epoch} to {after.epoch}")
        if rises:
            self._claimed_at[after.id, after.epoch] = self.now

    def _check_fence(self, process: Process, executed: Sequence[Executed], before: RunRow) -> None:
        holder = self._holders.get(before.id)
        if holder is not process:
            text = f"changed by {process} ({executed[-1].name}), but {holder} has the lease"
            self.find("I4", before.id, text)
        fences = [fence for each in executed for given in each.given if (fence := _fence(given, before.id))]
        if fences and not any(_fits(fence, before) for fence in fences):
            self.find("I4", before.id, f"changed with another token than that of epoch {before.epoch}")

    def _check_reclaim(self, process: Process, before: RunRow, after: RunRow) -> None:
        self.reclaims[after.id] += 1
        self._stage.bitten["reclaim"] += 1
        if before.leased_until is None or before.leased_until > EPOCH + self.now + MOMENT:
            self.find("I4", after.id, f"was taken over by {process} although its lease had not expired")
        if after.epoch != before.epoch:
            self.find("I4", after.id, f"was taken over, and its epoch rose to {after.epoch}")
        self._holders[after.id] = process

    def _check_failures(self, before: RunRow, after: RunRow) -> None:
        goes_on = before.step_index == after.step_index and after.state not in ("SUCCESS", "PARTIAL")
        if goes_on and after.failures not in (before.failures, before.failures + 1):
            self.find("I3", after.id, f"its failures went from {before.failures} to {after.failures}")

    def _check_limits(self) -> None:
        noted: Counter[str] = Counter()
        for row in self.runs.values():
            if row.slots is not None:
                noted.update(decode(row.slots))  # type: ignore[arg-type]
        used = {
            row[0]: row[1:] for row in self._connection.execute("SELECT name, in_use, maximum FROM limits")
        }
        for name in sorted(noted.keys() | used.keys()):
            in_use, maximum = used.get(name, (0, 0))
            if in_use != noted[name] or in_use > maximum:
                self.find("I16", name, f"{in_use} of {maximum} slots in use, {noted[name]} noted on runs")

    # Calls

    def begun(self, process: Process, context: Context, task: TaskPlan) -> None:
        run_id, epoch, token = context.run_id, context.fence, context._claim.token
        row = self.runs[run_id]
        self._stage.note(
            process, f"> {task.name} {run_id[-4:]}.{context.step_index} attempt {context.attempt}"
        )
        if (row.place, row.epoch, row.token) != ("leased", epoch, token):
            self.find(
                "I4", run_id, f"{process} begins epoch {epoch}, but it is {row.place}, epoch {row.epoch}"
            )
        if (run_id, epoch) in self._executed:
            self.find("I4", run_id, f"epoch {epoch} is executed a second time")
        self._executed.add((run_id, epoch))
        most = task.max_attempts if row.policy_override is None else OTHERWISE.max_attempts
        if context.failures >= most:
            self.find("I3", run_id, f"attempt after {context.failures} failures of {most}")
        if task.breaker is not None:
            claimed_at = self._claimed_at.get((run_id, epoch), 0.0)
            self.breakers.dispatched(task.breaker, process, run_id, epoch, claimed_at)

    def ended(self, process: Process, context: Context, task: TaskPlan) -> None:
        if task.breaker is not None:
            self.breakers.landed(task.breaker, context.run_id, context.fence)


_FENCED = ("complete", "advance", "reschedule", "stop", "park", "occupy", "renew", "begin_alone")
_COUNTED = {
    "adopt": "adopted claim",
    "settled": "unknown commit",
    "known": "repeated start",
    "promote": "promotion",
    "begin_alone": "executed alone",
    "insert_dead_letter": "dead letter",
    "renew": "renewal",
    "cancel_leased": "cancelled while executed",
    "cancel_idle": "cancelled while idle",
    "release": "released",
}


def _fence(given: Any, run_id: str) -> tuple[int, int | None] | None:
    """The token and the epoch that a statement was given for this run."""
    values = given if isinstance(given, dict) else given._asdict() if hasattr(given, "_asdict") else {}
    if values.get("id") != run_id or "token" not in values:
        return None
    return values["token"], values.get("epoch")


def _fits(fence: tuple[int, int | None], row: RunRow) -> bool:
    token, epoch = fence
    return token == row.token and epoch in (None, row.epoch)
