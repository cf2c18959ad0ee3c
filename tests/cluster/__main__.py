"""Failovers, partitions and poolers under load: `python -m tests.cluster [--failovers 20]`.

The short form: --failovers 4 --partitions 3 --faults 3. The exit code is 1 if a promise was broken, if a
recovery took too long, or if a fault never took effect.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from tests.cluster.behind_pooler import behind_pooler
from tests.cluster.failover import failover
from tests.cluster.partition import partition
from tests.cluster.report import Report

SCENARIOS: dict[str, Callable[[Report, int], None]] = {
    "failovers": failover,
    "partitions": partition,
    "pooler": behind_pooler,
}


def main() -> int:
    options = _options()
    counts = {"failovers": options.failovers, "partitions": options.partitions, "pooler": options.faults}
    reports = []
    for name, scenario in SCENARIOS.items():
        if counts[name]:
            print(f"\n{name} …", flush=True)
            reports.append(report := Report(name))
            scenario(report, counts[name])
    print("", *reports, sep="\n")
    return 1 if any(report.findings for report in reports) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    parser.add_argument("--failovers", type=int, default=20, help="of PostgreSQL, default %(default)s")
    parser.add_argument("--partitions", type=int, default=9, help="of workers, default %(default)s")
    parser.add_argument("--faults", type=int, default=6, help="of poolers, default %(default)s")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
