"""The figures of a demo: totals for the status line, and the summary at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from redrive.app import Redrive
from redrive.demo.world import UP, World
from redrive.engine.enqueue import DEFAULT_ORG
from redrive.model.breaker import BreakerState
from redrive.parts import parts_of
from redrive.verify import Witness, verify


class DemoTotals(NamedTuple):
    """Totals for the status line.

    held  runs on hold
    down  services with a fault
    open  breakers that are not closed
    """

    runs: int
    done: int
    in_progress: int
    held: int
    letters: int
    groups: int
    down: tuple[str, ...]
    open: tuple[str, ...]


class DemoSummary(NamedTuple):
    """The outcome of a demo.

    lost   acknowledged runs that are missing from the database
    wrong  all broken promises
    """

    started: int
    done: int
    letters: int
    unfinished: int
    lost: int
    wrong: int
    charged: int
    charged_twice: int


async def read_totals(app: Redrive, world: World) -> DemoTotals:
    counts = await parts_of(app).store.runs.count_by_state(DEFAULT_ORG)
    places = await parts_of(app).store.runs.count_by_place(DEFAULT_ORG)
    failures = app.failures(by="demo")
    breakers = await parts_of(app).breakers.all()
    return DemoTotals(
        runs=sum(counts.values()),
        done=counts.get("SUCCESS", 0),
        in_progress=counts.get("PENDING", 0) + counts.get("RUNNING", 0),
        held=places.get("held", 0),
        letters=counts.get("DLQ_PENDING", 0),
        groups=(await failures.groups.count("is:open")).number,
        down=tuple(name for name, state in world.states().items() if state != UP),
        open=tuple(breaker.row.name for breaker in breakers if breaker.state != BreakerState.CLOSED),
    )


async def check_summary(app: Redrive, world: World, started: Sequence[str]) -> DemoSummary:
    """Verify the database against what this process saw: every acknowledged start and every charged card."""
    counts = await parts_of(app).store.runs.count_by_state(DEFAULT_ORG)
    verdict = await verify(parts_of(app).database, witness=Witness(acknowledged=started), leeway=3600.0)
    charged, twice = world.charges()
    return DemoSummary(
        started=sum(counts.values()),
        done=counts.get("SUCCESS", 0),
        letters=counts.get("DLQ_PENDING", 0),
        unfinished=counts.get("PENDING", 0) + counts.get("RUNNING", 0),
        lost=sum(finding.invariant == "I1" for finding in verdict.findings),
        wrong=len(verdict.findings),
        charged=charged,
        charged_twice=twice,
    )
