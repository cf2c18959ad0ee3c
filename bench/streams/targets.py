"""The targets: ratios within one run, met or missed. What was not measured is not judged."""

from __future__ import annotations

from collections.abc import Iterator

from bench.streams.contender import BARE, OURS, PROJECTING
from bench.work.runner import Results
from bench.work.targets import Verdict

INGEST = "ingest"
PROJECT = "project"
DRAIN = "plain drain"
PENDING = "ingest, many pending"


def verdicts(results: Results) -> Iterator[Verdict]:
    ours, bare = results.median(INGEST, OURS), results.median(INGEST, BARE)
    if ours and bare:
        yield Verdict(f"ingest: {OURS} / {BARE}", ours / bare, 0.5, at_most=False)
    projected, drained = results.median(PROJECT, PROJECTING), results.median(PROJECT, DRAIN)
    if projected and drained:
        yield Verdict(f"projected events: {PROJECTING} / {DRAIN}", projected / drained, 0.6, at_most=False)
    many = results.median(PENDING, OURS)
    if ours and many:
        yield Verdict(f"ingest: none pending / {PENDING}", ours / many, 1.3, at_most=True)
