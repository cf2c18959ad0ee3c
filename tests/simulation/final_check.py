"""The judgement at the end of a history: the database, the clients and the world outside must agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.simulation.history import Ending, History
from tests.simulation.prediction import Predicted, fits, predicted
from tests.simulation.script import RunPlan, Script
from tests.simulation.triage_check import check_triage
from tests.simulation.watcher import Finding

from redrive.model.step import step_key
from redrive.policy.codec import decode
from redrive.store.database import Database, Row
from redrive.store.statement import SqlQuery, Statement
from redrive.verify import Witness, verify

if TYPE_CHECKING:
    from tests.simulation.world import World

BLOCKED = """
SELECT own.run_id FROM redrive.run_order AS own
JOIN redrive.run_order AS earlier
    ON earlier.org = own.org AND earlier.order_key = own.order_key AND earlier.position < own.position
JOIN redrive.dead_letters AS letter ON letter.run_id = earlier.run_id
JOIN redrive.runs AS run ON run.id = earlier.run_id
WHERE run.place = 'ended' AND letter.state IN ('OPEN', 'EXHAUSTED')
"""
"""Runs that wait for the dead letter of another run with their order key."""
WITH_LETTER = ("FAILED", "DLQ_PENDING")
LIVE = """
SELECT run_id, state, reason FROM redrive.dead_letters WHERE state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')
ORDER BY step_index DESC
"""
BY_HAND = "SELECT run_id, from_step FROM redrive.replays WHERE automatic = 0 AND number IS NOT NULL"
LOSSES_BEFORE_BURIAL = 5
"""Two among others and three alone: only then a step may be buried for killing its worker."""


class Letter(NamedTuple):
    state: str
    reason: str

    def __str__(self) -> str:
        return f"{self.state}, {self.reason}"


class Ended(NamedTuple):
    id: str
    org: str
    workflow: str
    input: str
    state: str
    place: str
    step_index: int
    step_state: str
    failures: int
    error_class: str | None
    idempotency_key: str | None
    policy_override: str | None
    replays: int

    @property
    def number(self) -> int:
        value: Any = decode(self.input)
        return int(value["run"])

    @property
    def ending(self) -> Predicted:
        return Predicted(self.state, self.step_index, self.failures, self.replays)


async def sql(database: Database, text: str) -> list[Row]:
    """`text` names tables as the statements of the store do: redrive.runs."""
    return await database.fetch(
        Statement(SqlQuery("by hand", text.replace("redrive.", ""), ()), SqlQuery("by hand", text, ())), {}
    )


async def failure_handler(world: World) -> History:
    history = History(world.script, world.stage.trace, world.stage.bitten, seconds=world.loop.time())
    columns = ", ".join(Ended._fields)
    rows = [Ended._make(row) for row in await world.ask(f"SELECT {columns} FROM redrive.runs ORDER BY id")]
    letters = {row[0]: Letter(*row[1:]) for row in await world.ask(LIVE)}
    by_hand = [tuple(row) for row in await world.ask(BY_HAND)]
    endings = (
        Ending(
            row.number,
            row.state,
            row.step_index,
            row.step_state,
            row.failures,
            row.error_class,
            row.replays,
            str(letters[row.id]) if row.id in letters else None,
        )
        for row in rows
    )
    history.endings = sorted(endings, key=lambda ending: [*map(str, ending)])  # some of it may be None
    history.findings = [*world.watcher.findings]
    history.findings += _still_there(rows, {row[0] for row in await world.ask(BLOCKED)})
    history.findings += _known_to_clients(world, rows)
    history.findings += _effects(world, rows, by_hand)
    history.findings += _unexpected(world, rows, letters)
    history.findings += await _verified(world, rows)
    history.findings += await check_triage(world)
    return history


def _still_there(rows: list[Ended], blocked: set[str]) -> Iterator[Finding]:
    for row in rows:
        if row.place != "ended" and row.id not in blocked:
            yield Finding("I6", row.id, f"run {row.number} is still {row.place} ({row.step_state})")


def _known_to_clients(world: World, rows: list[Ended]) -> Iterator[Finding]:
    there = {row.id for row in rows}
    for number, ids in sorted(world.client.acknowledged.items()):
        for run_id in sorted(ids - there):
            yield Finding("I1", run_id, f"the start of run {number} was acknowledged, but it is not there")
    by_key: dict[str, list[Ended]] = {}
    for row in rows:
        if row.number in world.client.refused:
            yield Finding("I1", row.id, f"run {row.number} was refused, but it is there")
        if row.idempotency_key is not None:
            by_key.setdefault(row.idempotency_key, []).append(row)
    for key, several in sorted(by_key.items()):
        if len(several) > 1:
            yield Finding("I1", key, f"{len(several)} runs have the same key")


def _effects(world: World, rows: list[Ended], by_hand: list[tuple[str, int]]) -> Iterator[Finding]:
    """`by_hand`: the runs that somebody has replayed, and from which step: on their own account."""
    outside = world.outside
    allowed: Counter[str] = Counter()
    for row in rows:
        steps = len(world.script.task_names(row.workflow))
        starts = [from_step for run_id, from_step in by_hand if run_id == row.id]
        for index in range(steps):
            key = step_key(row.org, row.id, row.idempotency_key, index)
            allowed[key] = 1 + sum(from_step <= index for from_step in starts)
    plans = {plan.number: plan for plan in world.script.runs}
    for (number, index), keys in sorted(outside.keys.items()):
        several = sum(row.number == number for row in rows)
        if len(keys) > several:
            yield Finding("I2", str(number), f"step {index} was seen under {len(keys)} keys")
        task = world.script.task(world.script.task_names(plans[number].workflow)[index])
        for key in sorted(keys):
            if task.unsafe and outside.asked[key] > allowed[key]:
                yield Finding("I2", key, f"an unsafe step had its effect {outside.asked[key]} times")
    for row in rows:
        done = row.step_index + (1 if row.state in ("SUCCESS", "PARTIAL") else 0)
        for index in range(done):
            key = step_key(row.org, row.id, row.idempotency_key, index)
            if outside.accepted[key] != 1:
                yield Finding("I2", row.id, f"step {index} succeeded with {outside.accepted[key]} effects")


def _unexpected(world: World, rows: list[Ended], letters: dict[str, Letter]) -> Iterator[Finding]:
    plans = {plan.number: plan for plan in world.script.runs}
    for row in rows:
        letter = letters.get(row.id)
        closed = letter is None and world.script.chores  # by a person
        if (letter is not None) != (row.state in WITH_LETTER) and not closed:
            yield Finding("I7", row.id, f"run {row.number} is {row.state}, its dead letter: {letter}")
        if letter is not None and letter.reason == "worker_crashed":
            lost = world.watcher.reclaims[row.id]
            if world.watcher.sees and lost < LOSSES_BEFORE_BURIAL:
                yield Finding("I3", row.id, f"run {row.number} was buried after {lost} lost leases")
        elif row.place == "ended" and row.number not in world.outside.late and row.number in plans:
            yield from _other_than_planned(world.script, plans[row.number], row)


def _other_than_planned(script: Script, plan: RunPlan, row: Ended) -> Iterator[Finding]:
    if script.chores and row.replays:
        if row.policy_override is None and not fits(script, plan, row.ending):
            yield Finding("plan", row.id, f"run {row.number} cannot have ended as {row.ending}")
        return
    expected = predicted(script, plan, redriven=not script.chores)
    if expected is not None and expected != row.ending:
        text = f"run {row.number} ended as {tuple(row.ending)}, planned was {tuple(expected)}"
        yield Finding("plan", row.id, text)


async def _verified(world: World, rows: list[Ended]) -> list[Finding]:
    acknowledged = {run_id for ids in world.client.acknowledged.values() for run_id in ids}
    seen = Witness(acknowledged=acknowledged, refused=(), effects=dict(world.outside.accepted))
    verdict = await world.perform(lambda: verify(world.database, witness=seen, settled=True))
    return [Finding(found.invariant, found.subject, found.text) for found in verdict.findings]
