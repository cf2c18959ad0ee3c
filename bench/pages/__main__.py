"""Fills both databases, measures every page, and exits non-zero when one is over its budget."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.pages.plan import DATABASES, GROUPS, planned
from bench.pages.runner import Runner
from bench.work.machine import Stopwatch
from bench.work.servers import places


def main(arguments: Sequence[str]) -> bool:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the servers must not outlive it
    logging.disable(logging.CRITICAL)
    options = _options(arguments)
    plan = planned(options.only, quick=options.quick, letters=options.letters, times=options.times)
    stopwatch, missed = Stopwatch(), []
    with places(set(options.database), options.keep) as there:
        for database in options.database:
            judged = Runner(plan, database, there).run()
            missed += [f"{database}: {each.name}: {each.verdict}" for each in judged if each.verdict]
    print(f"\n{stopwatch.circumstances()}")
    print("\n".join(missed) or "every page is within its budget")
    return bool(missed)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.pages", description=__doc__)
    parser.add_argument("--only", type=_words_of(GROUPS), default=list(GROUPS), help=", ".join(GROUPS))
    parser.add_argument(
        "--database", type=_words_of(DATABASES), default=list(DATABASES), help=f"{', '.join(DATABASES)}, both"
    )
    parser.add_argument("--letters", type=int, default=None, help="how many dead letters there are")
    parser.add_argument("--times", type=int, default=None, help="how often a page is asked for")
    parser.add_argument("--keep", type=Path, default=None, help="a folder for databases, filled once")
    parser.add_argument("--quick", action="store_true", help="with few dead letters")
    return parser.parse_args(arguments)


def _words_of(known: Sequence[str]) -> Callable[[str], list[str]]:
    def read(text: str) -> list[str]:
        words = list(known) if text == "both" else text.split(",")
        for word in words:
            if word not in known:
                raise argparse.ArgumentTypeError(f"{word!r} is none of {', '.join(known)}")
        return words

    return read


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
