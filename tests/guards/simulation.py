"""Uses the simulation as a second catcher: does it find a violation without the guard, and with which seed?

python -m tests.guards --simulate 100
"""

from __future__ import annotations

import sys
import time

from tests.guards.catchers import Catch, output_of
from tests.guards.guard import Guard
from tests.guards.switch import VARIABLE, switch_off_from_environment

MAX_LENGTH = 600.0
NONE = Guard("", "nothing", ())


def simulated(guard: Guard, seeds: int) -> Catch:
    """Run the simulation in a separate process. `noticed` holds the first failing seed and the violations."""
    began = time.monotonic()
    command = [sys.executable, "-m", "tests.guards.simulation", str(seeds)]
    output = output_of(command, {VARIABLE: guard.name}, MAX_LENGTH).strip()
    found = output if output.startswith("seed ") else ""
    return Catch(
        guard, time.monotonic() - began, found, "" if found else output or "the simulation found no violation"
    )


def _main() -> None:
    from tests.simulation import find_violation  # large, and needed only here

    switch_off_from_environment()
    violation = find_violation(range(int(sys.argv[1])))
    if violation is not None:
        print(f"seed {violation.seed} violates {', '.join(sorted(violation.history.invariants))}")


if __name__ == "__main__":
    _main()
