"""Runs the measurements in turns, prints tables and verdicts, and exits non-zero when a target is missed."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence

from bench.streams.contender import LABELS, entries
from bench.streams.plan import GROUPS, planned
from bench.streams.runner import Runner
from bench.streams.targets import verdicts
from bench.work.machine import Stopwatch
from bench.work.runner import Results
from bench.work.servers import places
from bench.work.tables import print_end, print_tables


def main(arguments: Sequence[str]) -> bool:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the servers must not outlive it
    options = _options(arguments)
    plan = planned(
        quick=options.quick,
        repetitions=options.repetitions,
        seconds=options.seconds,
        pending=options.pending,
    )
    results, stopwatch = Results(), Stopwatch()
    with places({"postgresql", "redis"}) as there:
        server = there.describe()
        print("PostgreSQL:", ", ".join(f"{name} {value}" for name, value in server.items()), flush=True)
        Runner(plan, there, results).run(options.only, entries(options.peers))
    judged = list(verdicts(results))
    print_tables(results, unit="entries per second")
    print_end(results, judged, stopwatch.circumstances() | server)
    return any(not verdict.met for verdict in judged)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.streams", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--peers", nargs="*", choices=LABELS, default=None, help="all unless given")
    parser.add_argument("--repetitions", type=int, help="of every measurement; 5 unless given")
    parser.add_argument("--seconds", type=float, help="how long a measurement takes, about")
    parser.add_argument("--pending", type=int, help="entries that are pending for a consumer that is gone")
    parser.add_argument("--quick", action="store_true", help="once, and with few entries")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
