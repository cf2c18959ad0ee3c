"""Prove that every guard is needed: switch each one off in turn and check that its tests fail.

python -m tests.guards [--only NAME …] [--jobs 2]
python -m tests.guards --write                          only write docs/internals/guards.md
python -m tests.guards --simulate 100 [--only NAME …]   use the simulation, with 100 seeds
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tests.guards.catchers import Catch, caught, run
from tests.guards.guard import Guard
from tests.guards.page import PAGE, page
from tests.guards.simulation import NONE, simulated
from tests.guards.table import GUARDS, SIMULATED
from tests.servers import POSTGRES_URL, postgresql


def main() -> int:
    arguments = _arguments()
    if arguments.write:
        PAGE.write_text(page(GUARDS.values()), encoding="utf-8")
        return 0
    if arguments.simulate:
        guards = [GUARDS[name] for name in arguments.only or SIMULATED]
        return _simulate(guards, arguments.simulate, arguments.jobs)
    guards = [GUARDS[name] for name in arguments.only or GUARDS]
    with postgresql() as server, ThreadPoolExecutor(arguments.jobs) as threads:
        environment = {POSTGRES_URL: server.url}
        complaints = _complaints_with_all_guards(guards, environment)
        for catch in threads.map(partial(caught, environment=environment), guards):
            print(_line(catch), flush=True)
            complaints += [f"{catch.guard.name}: {catch.problem}"] if catch.problem else []
    print("\n".join(["", *complaints, _summary(guards, complaints)]))
    return 1 if complaints else 0


def _simulate(guards: Sequence[Guard], seeds: int, jobs: int) -> int:
    """Run the simulation without each guard. With all guards on it must find nothing."""
    missed = [] if simulated(NONE, seeds).problem else ["the simulation finds a violation with all guards on"]
    with ThreadPoolExecutor(jobs) as threads:
        for catch in threads.map(partial(simulated, seeds=seeds), guards):
            found = catch.noticed or catch.problem[-200:]
            print(f"{catch.guard.name:32}  {catch.seconds:5.1f} s  {found}", flush=True)
            missed += (
                [f"the simulation does not notice that {catch.guard.name} is off"] if catch.problem else []
            )
    print("\n".join(["", *missed]))
    return 1 if missed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.guards", description=__doc__)
    parser.add_argument("--only", action="append", choices=list(GUARDS), metavar="NAME")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--simulate", type=int, default=0, metavar="SEEDS")
    parser.add_argument("--write", action="store_true", help="only write docs/internals/guards.md")
    return parser.parse_args()


def _complaints_with_all_guards(guards: Sequence[Guard], environment: dict[str, str]) -> list[str]:
    """A catcher that fails with all guards on proves nothing."""
    tests = sorted({test for guard in guards for test in guard.catchers})
    outcomes = run(tests, environment)
    if not outcomes.passed:
        return [f"cannot run the catchers: {outcomes.output[-2_000:]}"]
    return [f"{name} fails with all guards on: {message}" for name, message in outcomes.failed.items()]


def _line(catch: Catch) -> str:
    if catch.guard.doubled_by:
        return f"{catch.guard.name:32}  backed up {catch.guard.doubled_by}"
    verdict = "MISSED" if catch.problem else "noticed"
    return f"{catch.guard.name:32}  {verdict:8} {catch.seconds:5.1f} s  {catch.noticed[:100]}"


def _summary(guards: Sequence[Guard], complaints: Sequence[str]) -> str:
    doubled = sum(bool(guard.doubled_by) for guard in guards)
    return f"{len(guards)} guards, {doubled} of them backed up by others; {len(complaints)} problems"


if __name__ == "__main__":
    sys.exit(main())
