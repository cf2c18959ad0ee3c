"""What every contender can do, and which ones there are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol

from bench.streams.entries import GROUP, STREAM
from bench.work.jobs import Jobs


class Contender(Protocol):
    """One system, at one database and one Redis.

    prepare  make what it needs in both, which are empty
    publish  put so many entries into its stream
    consume  read, store and acknowledge entries until killed
    """

    def prepare(self) -> None: ...

    def publish(self, count: int) -> None: ...

    def consume(self, jobs: Jobs) -> None: ...


@dataclass(frozen=True)
class Entry:
    """
    pace    entries per second, about: decides how many it is given
    table   where it stores events
    stream  the key of its stream in Redis, with the group that reads it
    """

    label: str
    module: str
    pace: int
    table: str = "events"
    stream: str = STREAM
    group: str = GROUP

    def at(self, database: str, redis: str) -> Contender:
        made: Contender = import_module(f"bench.streams.contenders.{self.module}").Contender(database, redis)
        return made


OURS = "redrive"
PROJECTING = "redrive, one projector"
ORDERED = "redrive, one ordered projector"
BARE = "bare loop"

_OURS = "redrive.events"

ENTRIES = (
    Entry(OURS, "of_redrive", 10_000, _OURS),
    Entry(PROJECTING, "of_redrive_projecting", 5_000, _OURS),
    Entry(ORDERED, "of_redrive_ordered", 3_000, _OURS),
    Entry(BARE, "bare", 20_000),
    Entry("faststream", "of_faststream", 8_000),
    Entry("taskiq", "of_taskiq", 1_000, stream="taskiq", group="taskiq"),
)

LABELS = tuple(entry.label for entry in ENTRIES)


def entry(label: str) -> Entry:
    return next(entry for entry in ENTRIES if entry.label == label)


def entries(labels: Iterable[str] | None) -> list[Entry]:
    """Redrive and the bare loop always, of the others those that are named; all unless given."""
    if labels is None:
        return list(ENTRIES)
    wanted = {OURS, PROJECTING, BARE, *labels}
    return [entry for entry in ENTRIES if entry.label in wanted]
