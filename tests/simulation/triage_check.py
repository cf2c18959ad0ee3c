"""The end of triage: every replay and operation has ended, audits verify, statistics are exact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tests.simulation.generate import ORGS
from tests.simulation.watcher import Finding

from redrive.engine.enqueue import DEFAULT_ORG
from redrive.failures.audit import Audit
from redrive.model.caller import SELF, Caller
from redrive.policy.codec import decode
from redrive.store.store import Store

if TYPE_CHECKING:
    from tests.simulation.world import World

LEFT = """
SELECT 'I6', id, 'the dead letter is still being replayed' FROM redrive.dead_letters WHERE state = 'REPLAYING'
UNION ALL SELECT 'I6', id, 'the replay has not ended' FROM redrive.replays WHERE state = 'RUNNING'
UNION ALL SELECT 'I6', id, 'the dead letter is to be redriven, and nobody has done it' FROM (
    SELECT letter.id FROM redrive.dead_letters AS letter
    WHERE letter.state = 'OPEN' AND letter.next_redrive_at IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM redrive.dead_letter_dependencies AS link
        JOIN redrive.dead_letters AS other ON other.id = link.depends_on
        WHERE link.letter_id = letter.id AND other.state <> 'RESOLVED')
) AS forgotten
UNION ALL SELECT 'I3', letter.id, 'it was redriven more often than its policy allows'
FROM redrive.dead_letters AS letter
WHERE letter.max_redrives > 0 AND letter.max_redrives < (
    SELECT count(*) FROM redrive.replays AS again WHERE again.letter_id = letter.id AND again.automatic = 1)
"""
OPERATIONS = "SELECT id, state, plan, released FROM redrive.replay_operations ORDER BY id"
ITEMS = """
SELECT operation_id, state, CASE WHEN number IS NULL THEN 0 ELSE 1 END, count(*) FROM redrive.replays
WHERE operation_id IS NOT NULL GROUP BY 1, 2, 3
"""
FIGURES = "SELECT org, queue, figure, number FROM redrive.dead_letter_figures WHERE number <> 0"

Items = Counter[tuple[str, int]]
"""The number of items by state, and by whether they were started."""

_LEFT_OVER = {
    "PLANNED": ("PLANNED", "REFUSED", "SKIPPED"),
    "STOPPED": ("PLANNED", "SUCCEEDED", "FAILED", "CANCELLED", "REFUSED", "SKIPPED"),
    "DONE": ("SUCCEEDED", "FAILED", "CANCELLED", "REFUSED", "SKIPPED"),
    "CANCELLED": ("SUCCEEDED", "FAILED", "CANCELLED", "REFUSED", "SKIPPED"),
}


async def check_triage(world: World) -> list[Finding]:
    findings = [Finding(*row) for row in await world.ask(LEFT)]
    findings += await _operations(world)
    findings += await world.perform(lambda: _audits(world))
    if world.watcher.sees:
        findings += _miscounted(world.watcher.figures, await world.ask(FIGURES))
    return findings


async def _operations(world: World) -> list[Finding]:
    items: dict[str, Items] = {}
    for operation_id, state, begun, number in await world.ask(ITEMS):
        items.setdefault(operation_id, Counter())[state, begun] = number
    found: list[Finding] = []
    for operation_id, state, plan, released in await world.ask(OPERATIONS):
        selected: Any = decode(plan)
        own = items.get(operation_id, Counter())
        found += _items(operation_id, state, own, selected["selected"], released)
        if state == "DONE" and operation_id in world.stage.interrupted:
            world.stage.occurrences["operation survived a crash"] += 1
    return found


def _items(operation_id: str, state: str, items: Items, selected: int, released: int) -> Iterator[Finding]:
    told = dict(items)
    if state not in _LEFT_OVER:
        yield Finding("I6", operation_id, f"the operation is still {state}: {told}")
        return
    if any(each not in _LEFT_OVER[state] for each, _ in items):
        yield Finding("operation", operation_id, f"the operation is {state}, its items are {told}")
    if items.total() != selected:
        yield Finding("I16", operation_id, f"{selected} items were planned, there are {told}")
    begun = sum(number for (_, was_begun), number in items.items() if was_begun)
    if begun != released:
        yield Finding("I16", operation_id, f"{released} items were released, {begun} were begun: {told}")


async def _audits(world: World) -> list[Finding]:
    store = Store(world.database)
    found = []
    for org in (*ORGS, DEFAULT_ORG):
        verdict = await Audit(store, Caller(org, SELF)).verify()
        if not verdict.sound:
            found.append(Finding("I14", org, str(verdict)))
    return found


def _miscounted(seen: Counter[tuple[str, str, str]], rows: list[Any]) -> Iterator[Finding]:
    counted = {(org, queue, figure): number for org, queue, figure, number in rows}
    for key in sorted(seen.keys() | counted.keys()):
        if seen[key] != counted.get(key, 0):
            text = f"{key[2]} of queue {key[1]} is {counted.get(key, 0)}, but was seen {seen[key]} times"
            yield Finding("I16", key[0], text)
