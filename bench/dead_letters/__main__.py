"""Runs the measurements in turns, prints a table and verdicts, and exits non-zero when a target is missed."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.dead_letters.plan import DATABASES, GROUPS, planned
from bench.dead_letters.runner import Runner
from bench.dead_letters.tables import print_table
from bench.dead_letters.targets import Targets
from bench.work.machine import Stopwatch
from bench.work.runner import Results
from bench.work.servers import places
from bench.work.tables import print_end


def main(arguments: Sequence[str]) -> bool:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the servers must not outlive it
    options = _options(arguments)
    plan = planned(
        options.only, quick=options.quick, repetitions=options.repetitions, letters=options.letters
    )
    results, stopwatch = Results(), Stopwatch()
    with places(set(options.database)) as there:
        for database in options.database:
            Runner(plan, database, there, results, options.beside).run()
    targets = Targets(results, options.beside)
    print_table(results)
    print_end(results, targets.verdicts, stopwatch.circumstances())
    return bool(targets.missed or results.left_out)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.dead_letters", description=__doc__)
    parser.add_argument("--only", type=_words_of(GROUPS), default=list(GROUPS), help=", ".join(GROUPS))
    parser.add_argument(
        "--database", type=_words_of(DATABASES), default=list(DATABASES), help=", ".join(DATABASES)
    )
    parser.add_argument("--letters", type=int, default=None, help="how many dead letters there are")
    parser.add_argument("--repetitions", type=int, default=None)
    parser.add_argument(
        "--beside", type=Path, help="the checkout of an earlier version, which replays in turns with this one"
    )
    parser.add_argument("--quick", action="store_true", help="once, and with few dead letters")
    return parser.parse_args(arguments)


def _words_of(known: Sequence[str]) -> Callable[[str], list[str]]:
    def read(text: str) -> list[str]:
        words = text.split(",")
        for word in words:
            if word not in known:
                raise argparse.ArgumentTypeError(f"{word!r} is none of {', '.join(known)}")
        return words

    return read


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
