"""The figures of failure: the cost of a campaign, and the time to recover."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.crash.backlog import look
from tests.crash.process_group import ProcessGroup
from tests.crash.site import Site

from redrive.parts import parts_of

_LOST = "SELECT worker, ended_at FROM redrive.attempts WHERE outcome = 'lost'"
_REPLAYS = """
SELECT
    COALESCE(sum(CASE WHEN operation_id IS NULL AND automatic = 0 THEN 1 ELSE 0 END), 0),
    COALESCE(sum(CASE WHEN operation_id IS NOT NULL THEN 1 ELSE 0 END), 0),
    COALESCE(sum(automatic), 0)
FROM redrive.replays WHERE number IS NOT NULL
"""
_LATENESS = """
SELECT COALESCE(following.started_at, step.started_at, run.attempt_started_at)
    - failed.ended_at - failed.delay
FROM redrive.attempts AS failed
LEFT JOIN redrive.attempts AS following
    ON following.run_id = failed.run_id AND following.step_index = failed.step_index
        AND following.number = failed.number + 1
LEFT JOIN redrive.steps AS step
    ON step.run_id = failed.run_id AND step.step_index = failed.step_index
        AND step.attempts = failed.number + 1
LEFT JOIN redrive.runs AS run
    ON run.id = failed.run_id AND run.step_index = failed.step_index AND run.attempt = failed.number + 1
WHERE failed.outcome = 'failed' AND failed.delay IS NOT NULL
"""


@dataclass(frozen=True)
class Spread:
    """The distribution of `count` measurements."""

    count: int
    p50: float | None
    p99: float | None


@dataclass(frozen=True)
class Figures:
    """The figures of a campaign.

    seconds           of faults under load
    in_flight         kills of workers with claims, which other workers had to take over
    lost              attempts whose lease expired, and which another worker took over
    fenced            results that came too late and were dropped
    duplicates        effects that arrived again for the same key, in the same replay
    replays           replays of dead letters that started: single, in bulk, automatic
    reclaimed_after   from a kill to the record of the lost attempt, in leases
    late_by           start of a retry after its planned time, in seconds
    """

    seconds: float
    runs: int
    kills: int
    in_flight: int
    lost: int
    fenced: int
    effects: int
    duplicates: int
    duplicates_per_1000_kills: float | None
    dead_letters: int
    dead_letters_per_second: float
    single_replays: int
    bulk_replays: int
    redrives: int
    reclaimed_after: Spread
    late_by: Spread

    def rows(self) -> list[tuple[str, object]]:
        return [(title, getattr(self, name)) for name, title in _TITLES.items()]


_TITLES = {
    "seconds": "seconds under fire",
    "runs": "runs",
    "kills": "kills",
    "in_flight": "kills with work in flight",
    "lost": "attempts taken over",
    "fenced": "late results dropped",
    "effects": "effects",
    "duplicates": "duplicate effects",
    "duplicates_per_1000_kills": "duplicates per 1,000 kills",
    "dead_letters": "dead letters",
    "dead_letters_per_second": "dead letters per second",
    "single_replays": "replayed one by one",
    "bulk_replays": "replayed in bulk",
    "redrives": "redriven automatically",
    "reclaimed_after": "taken over after, leases p50 / p99",
    "late_by": "retry later than planned, s p50 / p99",
}


async def figures_of(
    site: Site, group: ProcessGroup, seconds: float, lease: float, *, only_kills: bool
) -> Figures:
    database, sink = parts_of(site.app).database, site.sink
    [[runs]] = await look(database, "SELECT count(*) FROM redrive.runs")
    [[letters]] = await look(database, "SELECT count(*) FROM redrive.dead_letters")
    [replays] = await look(database, _REPLAYS)
    lost = await look(database, _LOST)
    worker_of = {note["worker"]: note.child for note in sink.of("worker.started")}
    killed = _killed(site, group)
    waits = [ended_at - killed[child] for worker, ended_at in lost if (child := worker_of[worker]) in killed]
    kills, effects = len(killed), sink.count("effect")
    duplicates = sink.duplicates
    lateness = [row[0] for row in await look(database, _LATENESS) if row[0] is not None]
    measurable = site.database == "postgresql" or group.errors == [0.0]
    return Figures(
        seconds=round(seconds, 1),
        runs=runs,
        kills=kills,
        in_flight=len({child for worker, _ in lost if (child := worker_of[worker]) in killed}),
        lost=len(lost),
        fenced=sink.count("step.lease_lost"),
        effects=effects,
        duplicates=duplicates,
        duplicates_per_1000_kills=round(1000.0 * duplicates / kills, 1) if only_kills else None,
        dead_letters=letters,
        dead_letters_per_second=round(letters / seconds, 1),
        single_replays=replays[0],
        bulk_replays=replays[1],
        redrives=replays[2],
        reclaimed_after=_spread([each / lease for each in waits if each >= 0.0] if measurable else []),
        late_by=_spread(lateness if measurable else []),
    )


def _killed(site: Site, group: ProcessGroup) -> dict[int, float]:
    """Return when each process was killed. A process that kills itself reports it right before."""
    return {**group.killed, **{note.child: note.at for note in site.sink.of("trap_hit")}}


def _spread(values: Sequence[float]) -> Spread:
    if not values:
        return Spread(0, None, None)
    ordered = sorted(values)
    return Spread(len(ordered), *(round(ordered[int(part * (len(ordered) - 1))], 3) for part in (0.5, 0.99)))
