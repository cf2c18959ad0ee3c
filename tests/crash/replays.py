"""The checker of replays: each acknowledged replay exists, was started once, and has ended."""

from __future__ import annotations

from collections import Counter

from tests.crash.backlog import look
from tests.crash.site import Site
from tests.crash.work import ORGS

from redrive.model.step import step_key
from redrive.parts import parts_of

_QUESTIONS = {
    "I1: replay {} of run {} has not ended: it is {}": """
        SELECT id, run_id, state FROM redrive.replays WHERE state IN ('PLANNED', 'RUNNING')""",
    "I1: operation {} has not ended: it is {}": """
        SELECT id, state FROM redrive.replay_operations WHERE state NOT IN ('DONE', 'CANCELLED')""",
    "I4: run {} was begun again {} times, but has {} replays, with {} numbers up to {}": """
        SELECT run.id, run.replays, begun.replays, begun.numbers, begun.highest FROM redrive.runs AS run
        JOIN (
            SELECT run_id, count(*) AS replays, count(DISTINCT number) AS numbers, max(number) AS highest
            FROM redrive.replays WHERE number IS NOT NULL GROUP BY run_id
        ) AS begun ON begun.run_id = run.id
        WHERE run.replays <> begun.replays OR run.replays <> begun.numbers OR run.replays <> begun.highest""",
    "I4: run {} was begun again {} times, but no replay tells of it": """
        SELECT id, replays FROM redrive.runs AS run WHERE replays > 0 AND NOT EXISTS (
            SELECT 1 FROM redrive.replays AS replay
            WHERE replay.run_id = run.id AND replay.number IS NOT NULL)""",
    "I16: operation {} says that {} were begun, but {} were": """
        SELECT id, released, found FROM (
            SELECT id, released, (SELECT count(*) FROM redrive.replays AS item
                WHERE item.operation_id = operation.id AND item.number IS NOT NULL) AS found
            FROM redrive.replay_operations AS operation
        ) AS counted WHERE released <> found""",
}


async def check_replays(site: Site) -> list[str]:
    findings = [
        sentence.format(*row)
        for sentence, text in _QUESTIONS.items()
        for row in await look(parts_of(site.app).database, text)
    ]
    return findings + await _missing(site) + await _repeated(site) + await _audited(site)


async def _missing(site: Site) -> list[str]:
    """Check that acknowledged replays and operations exist."""
    replays = {row[0] for row in await look(parts_of(site.app).database, "SELECT id FROM redrive.replays")}
    operations = {
        row[0] for row in await look(parts_of(site.app).database, "SELECT id FROM redrive.replay_operations")
    }
    lost = [note["id"] for note in site.sink.of("replayed") if note["id"] not in replays]
    lost += [note["id"] for note in site.sink.of("started") if note["id"] not in operations]
    return [f"I1: {each} was acknowledged, and is not there" for each in lost]


async def _repeated(site: Site) -> list[str]:
    """Check that within a replay, an effect repeats only after an attempt without a recorded success."""
    effects = Counter((note["key"], note["replay"]) for note in site.sink.of("effect"))
    ways = Counter(
        (step_key(org, run_id, key, index), replay)
        for run_id, org, key, index, replay in await look(parts_of(site.app).database, _ATTEMPTS)
    )
    return [
        f"I2: {key} had {times} effects in replay {replay}, in {1 + ways[key, replay]} attempts at most"
        for (key, replay), times in effects.items()
        if times > 1 + ways[key, replay]
    ]


async def _audited(site: Site) -> list[str]:
    audits = [await site.app.failures(org=org).audit.verify() for org in ORGS]
    return [
        f"I13: the audit of {org}: {each}" for org, each in zip(ORGS, audits, strict=True) if not each.sound
    ]


_ATTEMPTS = """
    SELECT run.id, run.org, run.idempotency_key, past.step_index, past.replay
    FROM redrive.attempts AS past JOIN redrive.runs AS run ON run.id = past.run_id
"""
