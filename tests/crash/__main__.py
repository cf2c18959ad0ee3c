"""The long form of the crash tests: `python -m tests.crash --minutes 10 --database both`."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from random import SystemRandom

from tests.crash.campaign import campaign
from tests.crash.faults import FAULTS, TOGETHER, sets_of
from tests.crash.report import Report


def main() -> int:
    options = _options()
    print(f"seed {options.seed}", flush=True)
    databases = list(TOGETHER) if options.database == "both" else [options.database]
    wanted = options.faults.split(",")
    campaigns = [(database, faults) for database in databases for faults in sets_of(database, wanted)]
    seconds = 60.0 * options.minutes / len(campaigns)
    reports = [_fought(*each, options.seed, seconds, options.lease) for each in campaigns]
    print(f"\n{_total(reports)}\n{json.dumps([report.as_json() for report in reports])}")
    return 0 if all(report.sound for report in reports) else 1


def _fought(database: str, faults: tuple[str, ...], seed: int, seconds: float, lease: float) -> Report:
    report = asyncio.run(campaign(database, faults, seed=seed, seconds=seconds, lease=lease))
    print(f"\n{report}", flush=True)
    return report


def _total(reports: list[Report]) -> str:
    runs = sum(report.figures.runs for report in reports)
    kills = sum(report.figures.kills for report in reports)
    findings = sum(len(report.findings) for report in reports)
    return f"{findings} violations in {kills:,} kills over {runs:,} runs"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description="Real processes, real kills.")
    parser.add_argument("--minutes", type=float, default=10.0, help="under fire in all, default 10")
    parser.add_argument("--database", choices=(*TOGETHER, "both"), default="both")
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(1_000_000))
    parser.add_argument("--faults", default=",".join(FAULTS), help="some of %(default)s")
    parser.add_argument("--lease", type=float, default=1.0, help="seconds, default 1")
    options = parser.parse_args()
    unknown = set(options.faults.split(",")) - set(FAULTS)
    if unknown:
        parser.error(f"there are no such faults: {', '.join(sorted(unknown))}")
    return options


if __name__ == "__main__":
    sys.exit(main())
