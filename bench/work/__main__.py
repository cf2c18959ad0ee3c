"""Runs the measurements in turns, prints tables and verdicts, and exits non-zero when a target is missed."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Collection, Sequence

from bench.work import growth, runner
from bench.work.contender import NAMES, entries
from bench.work.machine import Stopwatch
from bench.work.plan import DATABASES, GROUPS, ON_REQUEST, planned
from bench.work.runner import Results
from bench.work.servers import places
from bench.work.tables import print_end, print_tables
from bench.work.targets import Targets


def main(arguments: Sequence[str]) -> bool:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the servers must not outlive it
    options = _options(arguments)
    plan = planned(
        options.only,
        quick=options.quick,
        repetitions=options.repetitions,
        jobs=options.jobs,
        backlog=options.backlog,
        hold=options.hold,
    )
    chosen = entries(options.peers, options.database)
    results, stopwatch = Results(), Stopwatch()
    with places({entry.database for entry in chosen}) as there:
        server = there.describe()
        if server:
            print("PostgreSQL:", ", ".join(f"{name} {value}" for name, value in server.items()), flush=True)
        runner.compare(plan, chosen, there, results)
        if "growth" in plan.groups:
            growth.measure(plan, chosen, there, results)
    targets = Targets(results)
    print_tables(results)
    print_end(results, targets.verdicts, stopwatch.circumstances() | server)
    return bool(targets.missed)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.work", description=__doc__)
    usual = [group for group in GROUPS if group not in ON_REQUEST]
    parser.add_argument(
        "--only", type=_words_of(GROUPS), default=usual, help=f"{', '.join(GROUPS)}; all but {ON_REQUEST}"
    )
    parser.add_argument(
        "--peers", type=_words_of(NAMES), default=None, help="names of peers; all unless given"
    )
    parser.add_argument(
        "--database", type=_words_of(DATABASES), default=list(DATABASES), help=", ".join(DATABASES)
    )
    parser.add_argument("--repetitions", type=int, help="of every measurement; 5 unless given")
    parser.add_argument("--jobs", type=int, help="in a short backlog, and in a round under a snapshot")
    parser.add_argument("--backlog", type=int, help="jobs in a long backlog")
    parser.add_argument("--hold", type=float, help="seconds for which a snapshot is held")
    parser.add_argument("--quick", action="store_true", help="once, and with few jobs")
    return parser.parse_args(arguments)


def _words_of(known: Collection[str]):  # type: ignore[no-untyped-def]
    def read(text: str) -> list[str]:
        words = text.split(",")
        for word in words:
            if word not in known:
                raise argparse.ArgumentTypeError(f"{word!r} is none of {', '.join(known)}")
        return words

    return read


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
