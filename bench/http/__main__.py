"""Runs the measurements in turns, prints tables and verdicts, and exits non-zero when a target is missed."""  # noqa: A005

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Sequence

from bench.http.plan import DATABASES, GROUPS, planned
from bench.http.runner import Runner
from bench.http.tables import print_tables
from bench.http.targets import Targets
from bench.work.machine import Stopwatch
from bench.work.runner import Results
from bench.work.servers import places
from bench.work.tables import print_end


def main(arguments: Sequence[str]) -> bool:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the servers must not outlive it
    options = _options(arguments)
    plan = planned(
        options.only,
        quick=options.quick,
        connections=options.connections,
        rounds=options.rounds,
        letters=options.letters,
    )
    results, stopwatch = Results(), Stopwatch()
    with places(set(options.database)) as there:
        for database in options.database:
            Runner(plan, database, there, results).run()
    targets = Targets(results)
    print_tables(results, plan, options.database)
    print_end(results, targets.verdicts, stopwatch.circumstances())
    return bool(targets.missed or results.left_out)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.http", description=__doc__)
    parser.add_argument("--only", type=_words_of(GROUPS), default=list(GROUPS), help=", ".join(GROUPS))
    parser.add_argument(
        "--database", type=_words_of(DATABASES), default=list(DATABASES), help=", ".join(DATABASES)
    )
    parser.add_argument("--connections", type=_numbers, default=None, help="such as 1,64")
    parser.add_argument("--rounds", type=int, default=None)
    parser.add_argument("--letters", type=int, default=None, help="how many dead letters there are")
    parser.add_argument("--quick", action="store_true", help="few and short rounds, and few dead letters")
    return parser.parse_args(arguments)


def _words_of(known: Sequence[str] | dict[str, tuple[str, ...]]) -> Callable[[str], list[str]]:
    def read(text: str) -> list[str]:
        words = text.split(",")
        for word in words:
            if word not in known:
                raise argparse.ArgumentTypeError(f"{word!r} is none of {', '.join(known)}")
        return words

    return read


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
