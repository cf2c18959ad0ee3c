"""The interface of a contender, and the list of all contenders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol

from bench.work.jobs import Jobs, Kind, Payload


class Contender(Protocol):
    """One system, at one address. The measuring process enqueues and watches, a worker process executes.

    prepare       create what it needs in the empty database
    enqueue_one   enqueue as its documentation shows for one job; awaited before the next
    enqueue_many  enqueue as it recommends for many jobs
    has_ended     tell whether the database has recorded the end of this many jobs, successful or failed
    work          execute jobs until killed
    """

    async def prepare(self) -> None: ...

    async def enqueue_one(self, kind: Kind, payload: Payload) -> None: ...

    async def enqueue_many(self, kind: Kind, payloads: Sequence[Payload]) -> None: ...

    async def has_ended(self, kind: Kind, count: int) -> bool: ...

    def work(self, jobs: Jobs) -> None: ...


@dataclass(frozen=True)
class Entry:
    """A contender on one database, with its abilities.

    pace       jobs per second that it finishes, approximately: determines the number of its jobs
    kinds      the kinds of jobs that it can execute
    bulk       whether it can enqueue many jobs at once
    workflows  workflows per second, if they are much slower than jobs
    """

    name: str
    database: str
    module: str
    pace: int
    kinds: frozenset[Kind]
    bulk: bool = True
    workflows: int | None = None

    @property
    def label(self) -> str:
        return f"{self.name} ({self.database})"

    def pace_of(self, kind: Kind) -> float:
        if kind is Kind.WORKFLOW and self.workflows is not None:
            return self.workflows
        return self.pace * _EFFORT.get(kind, 1.0)

    def at(self, url: str) -> Contender:
        made: Contender = import_module(f"bench.work.contenders.{self.module}").Contender(url)
        return made


_EFFORT = {Kind.FAIL_ONCE: 0.2, Kind.FAIL: 0.3, Kind.WORKFLOW: 0.3}
"""How many of each kind finish in the time of one job that does nothing, approximately."""

OURS = "redrive"
RAW = "raw"
MINIMAL = "minimal"
YARDSTICKS = (RAW, MINIMAL)
_JOBS = frozenset({Kind.NOTHING, Kind.PICK_UP, Kind.FAIL_ONCE, Kind.FAIL})
_WORKFLOWS = _JOBS | {Kind.WORKFLOW}
_LIMIT = frozenset({Kind.NOTHING, Kind.PICK_UP})

ENTRIES = (
    Entry("redrive", "postgresql", "of_redrive", 32_000, _WORKFLOWS | {Kind.SLEEP}),
    Entry("raw", "postgresql", "raw_postgresql", 25_000, _LIMIT),
    Entry("minimal", "postgresql", "minimal_engine", 45_000, _WORKFLOWS),
    Entry("pgqueuer", "postgresql", "of_pgqueuer", 16_000, _JOBS | {Kind.SLEEP}),
    Entry("awa", "postgresql", "of_awa", 1_500, _JOBS),
    Entry("chancy", "postgresql", "of_chancy", 3_000, _WORKFLOWS, workflows=35),
    Entry("procrastinate", "postgresql", "of_procrastinate", 400, _JOBS),
    Entry("saq", "postgresql", "of_saq", 400, _JOBS, bulk=False),
    Entry("dbos", "postgresql", "of_dbos", 300, _WORKFLOWS, bulk=False, workflows=60),
    Entry("repid", "redis", "of_repid", 4_000, _JOBS, bulk=False),
    Entry("dramatiq", "redis", "of_dramatiq", 2_000, _WORKFLOWS, bulk=False),
    Entry("huey", "redis", "of_huey", 4_000, _WORKFLOWS, bulk=False),
    Entry("taskiq", "redis", "of_taskiq", 1_600, _JOBS - {Kind.FAIL}, bulk=False),
    Entry("saq", "redis", "of_saq", 1_400, _JOBS, bulk=False),
    Entry("redrive", "sqlite", "of_redrive", 22_000, _WORKFLOWS | {Kind.SLEEP}),
    Entry("raw", "sqlite", "raw_sqlite", 40_000, frozenset({Kind.NOTHING})),
    Entry("huey", "sqlite", "of_huey", 2_500, _WORKFLOWS, bulk=False),
    Entry("dbos", "sqlite", "of_dbos", 250, _WORKFLOWS, bulk=False, workflows=60),
)

NAMES = tuple(sorted({entry.name for entry in ENTRIES}))


def entries(names: Iterable[str] | None, databases: Iterable[str]) -> list[Entry]:
    """Return Redrive and the yardsticks, and the named peers."""
    wanted = None if names is None else {OURS, *YARDSTICKS, *names}
    chosen = [entry for entry in ENTRIES if wanted is None or entry.name in wanted]
    return [entry for entry in chosen if entry.database in set(databases)]


def entry(label: str) -> Entry:
    return next(entry for entry in ENTRIES if entry.label == label)
