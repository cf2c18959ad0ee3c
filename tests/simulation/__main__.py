"""Simulate many histories, or one with its trace: `python -m tests.simulation`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed

from tests.simulation.agreement import DATABASES, compare
from tests.simulation.campaign import Campaign, Violation, run, without
from tests.simulation.seed import script_of
from tests.simulation.shrink import shrunk
from tests.simulation.simulate import play

PIECE = 50
MAX_REPORTED = 5


def main() -> int:
    options = _options()
    if options.seed is not None:
        return _replay(options.seed, options.without, options.shrink)
    if options.database != "memory":
        return compare(options.database, range(options.first, options.first + options.seeds))
    return _run(options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many histories")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="processes")
    parser.add_argument(
        "--database", choices=DATABASES, default="memory", help="compare its endings with memory's"
    )
    parser.add_argument("--seed", type=int, help="replay one history, with its trace")
    parser.add_argument("--shrink", action="store_true", help="shrink what --seed, or the run, has found")
    parser.add_argument("--without", metavar="GUARD", help="switch a guard of tests/guards off")
    return parser.parse_args()


def _replay(seed: int, guard: str | None, shrink: bool) -> int:
    with without(guard):
        script = script_of(seed)
        history = play(script)
        if shrink and history.findings:
            script = shrunk(script, history.invariants)
            history = play(script)
    print(script)
    print(history.transcript())
    for finding in history.findings:
        print(finding)
    print(
        "sound" if not history.findings else f"seed {seed} violates {', '.join(sorted(history.invariants))}"
    )
    return 1 if history.findings else 0


def _run(options: argparse.Namespace) -> int:
    began = time.monotonic()
    campaign = _in_processes(
        range(options.first, options.first + options.seeds), options.jobs, options.without
    )
    for violation in sorted(campaign.violations, key=lambda each: each.seed)[:MAX_REPORTED]:
        _tell(violation, options.shrink)
    for name, count in sorted(campaign.occurrences.items(), key=lambda each: (-each[1], each[0])):
        print(f"{count:>10}  {name}")
    print(
        f"{campaign.histories} histories, {campaign.seconds / 3600.0:.1f} virtual hours, "
        f"{time.monotonic() - began:.0f} s; {len(campaign.violations)} violated a promise"
    )
    if campaign.vacuous:
        print(f"never happened: {', '.join(campaign.vacuous)}")
    return 1 if campaign.violations or campaign.vacuous else 0


def _in_processes(seeds: range, jobs: int, guard: str | None) -> Campaign:
    pieces = [seeds[start : start + PIECE] for start in range(0, len(seeds), PIECE)]
    if jobs <= 1 or len(pieces) == 1:
        return _added(run(piece, guard) for piece in pieces)
    with ProcessPoolExecutor(jobs) as pool:
        return _added(
            each.result() for each in as_completed([pool.submit(run, piece, guard) for piece in pieces])
        )


def _added(campaigns: Iterable[Campaign]) -> Campaign:
    total = Campaign()
    for campaign in campaigns:
        total.add(campaign)
    return total


def _tell(violation: Violation, shrink: bool) -> None:
    print(violation)
    if shrink:
        with without(violation.guard):
            print(shrunk(violation.history.script, violation.history.invariants))


if __name__ == "__main__":
    sys.exit(main())
