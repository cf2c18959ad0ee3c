"""Records of people and programs: audit, bulk replays, breakers, paused queues, workers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from random import Random

from bench.dead_letters.fill_database import SPAN
from bench.pages.work import HOLDERS
from bench.work.statements import fetch

from redrive import Redrive
from redrive.engine.enqueue import DEFAULT_ORG
from redrive.model.audit import Action, Entry
from redrive.model.replay import OperationState
from redrive.parts import parts_of
from redrive.policy.audit_chain import chained
from redrive.policy.codec import encode
from redrive.store.statement import compose

OF_AUDIT = 10
"""The number of dead letters per audit entry."""
BATCH = 10_000
WORKERS = 12
PEOPLE = ("ana", "ben", "cleo", "redrive")
PLANS = (
    ("queue:queue-1 category:timeout is:open", OperationState.DONE),
    ("workflow:workflow-3 is:exhausted", OperationState.RUNNING),
    ("workflow:workflow-5 category:network is:open", OperationState.PAUSED),
    ("workflow:workflow-7 is:open since:3d", OperationState.CANCELLED),
    ("queue:queue-2 is:open since:1d", OperationState.PLANNED),
)
_UNDER_WAY = "started_by = 'ana', started_at = planned_at"
_OVER = "ended_at = planned_at + 600"
_BEGUN = {
    OperationState.DONE: f"{_UNDER_WAY}, {_OVER}",
    OperationState.RUNNING: _UNDER_WAY,
    OperationState.PAUSED: _UNDER_WAY,
    OperationState.CANCELLED: _OVER,
    OperationState.PLANNED: "released = 0",
}
_INSERT = compose(
    "insert",
    f"INSERT INTO redrive.audit ({', '.join(Entry._fields)})"
    f" VALUES ({', '.join(f':{name}' for name in Entry._fields)})",
)


async def chain(app: Redrive, letters: int) -> None:
    """Append a valid chain over 30 days to the existing one."""
    head = (await parts_of(app).store.audit.end(DEFAULT_ORG)).head
    entries = list(chained(head, _entries(letters // OF_AUDIT)))
    for first in range(0, len(entries), BATCH):
        await parts_of(app).database.fetch_many(_INSERT, entries[first : first + BATCH])
    last = entries[-1]
    await fetch(
        app,
        f"UPDATE redrive.audit_heads SET sequence = {last.sequence}, hash = '{last.hash}'"
        f" WHERE org = '{DEFAULT_ORG}'",
    )


def _entries(number: int) -> Iterator[Entry]:
    dice, actions, now = Random(11), list(Action), time.time()
    for index in range(number):
        subjects = [f"0192f3a4b5c67d8e9f00{10**11 + dice.randrange(number * OF_AUDIT)}" for _ in range(3)]
        alone = dice.random() < 0.9
        yield Entry(
            org=DEFAULT_ORG,
            sequence=0,
            at=now - SPAN + SPAN / number * index,
            actor=dice.choice(PEOPLE),
            action=str(Action.DEAD_LETTER_MOVED if dice.random() < 0.8 else dice.choice(actions)),
            subject=subjects[0] if alone else "",
            subjects=None if alone else encode(subjects),
            detail=encode({"reason": "the provider is back", "workflow": f"workflow-{index % 40}"}),
            hash="",
        )


async def breakers(app: Redrive, letters: int) -> None:
    for name in HOLDERS:
        await app.breakers(by="ana").force(name, "OPEN", reason="the provider is down", seconds=86_400.0)


async def queues(app: Redrive, letters: int) -> None:
    await app.queues(by="ana").pause("queue-3", reason="the provider asked for it")


async def workers(app: Redrive, letters: int) -> None:
    for number in range(WORKERS):
        served = encode([f"queue-{number % 8}", "default"])
        values = f"'host-{number}:1', {{now}} - 86400, {{now}}, '2026.{number % 3}', '{served}', 100,"
        text = (
            "INSERT INTO redrive.workers (id, started_at, seen_at, code_version, queues, concurrency,"
            f" in_flight, state, host, process) VALUES ({values} {number}, 'running', 'host-{number}', 1)"
        )
        now = ("unixepoch('subsec')", "extract(epoch FROM now())")
        await fetch(app, *(text.replace("{now}", each) for each in now))


async def operations(app: Redrive, letters: int) -> None:
    """Plan operations as people do; their results are artificial."""
    failures = app.failures(by="ana")
    for query, state in PLANS:
        plan = await failures.plans.create(query=query, reason="the provider is back")
        await fetch(
            app,
            f"UPDATE redrive.replay_operations SET state = '{state}', {_BEGUN[state]}"
            f" WHERE id = '{plan.operation_id}'",
        )
        if state in (OperationState.DONE, OperationState.PAUSED):
            await _work_off(app, plan.operation_id, 1 if state is OperationState.DONE else 2)


async def _work_off(app: Redrive, operation_id: str, part: int) -> None:
    """End this share of the items; one in seven of them has failed."""
    await fetch(
        app,
        "UPDATE redrive.replays SET started_at = requested_at, ended_at = requested_at + position,"
        " state = CASE WHEN position % 7 = 0 THEN 'FAILED' ELSE 'SUCCEEDED' END,"
        " fingerprint_after = CASE WHEN position % 7 = 0 THEN fingerprint END"
        f" WHERE operation_id = '{operation_id}' AND position % {part} = 0",
    )
