"""Checks the types of the peers' programs, runs each, and compares what it prints with the page."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from bench.snippets.page import PEERS, Program, peer_programs
from bench.work.servers import Places, places

TEMPORAL_PROGRAMS = {
    "failures_temporal.py": "TEMPORAL_ADDRESS",
    "tests_temporal.py": "TEMPORAL_TEST_SERVER",
    "workflow_temporal.py": "TEMPORAL_ADDRESS",
}
"""The variable that names the server that each of them needs."""

TEMPORAL_LOG = "temporalio_sdk_core"
"""A mark of the warnings that Temporal's SDK writes to the standard output."""

TEMPORAL_CRASH = "Fatal Python error: PyGILState_Release"
"""Temporal's SDK may crash when its process exits: https://github.com/temporalio/sdk-python/issues/300"""

NAMESPACE = Path(__file__).with_name("namespace.py")
"""Makes a namespace, in a process that may crash when it exits."""

MAX_SECONDS = 300.0
"""A guard against hanging."""


class ProgramError(Exception):
    """A program failed, or did not print what the page shows."""


def main() -> bool:
    """Check everything, and return whether any check has failed."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the database server must not outlive it
    check = [sys.executable, "-m", "mypy", "--strict", "--config-file=", str(PEERS)]
    failed = subprocess.run(check, check=False).returncode != 0
    with places({"postgresql"}) as there:
        for program in peer_programs():
            try:
                print(f"{program.file.name}: {report_on(program, there)}")
            except ProgramError as error:
                failed = True
                print(f"{program.file.name}: failed: {error}")
    return failed


def report_on(program: Program, there: Places) -> str:
    """Run a program on an empty database and in an empty namespace of the Temporal server."""
    variable = TEMPORAL_PROGRAMS.get(program.file.name)
    if variable is not None and variable not in os.environ:
        return f"not run, because {variable} is not set"
    environment = {**os.environ, "DATABASE_URL": there.fresh("postgresql")}
    if variable == "TEMPORAL_ADDRESS":
        [environment["TEMPORAL_NAMESPACE"]] = lines_of(NAMESPACE, environment)
    printed = lines_of(program.file, environment)
    if printed != program.output.splitlines():
        raise ProgramError("printed something else than the page shows:\n" + "\n".join(printed))
    return "ran, and printed what the page shows"


def lines_of(file: Path, environment: dict[str, str]) -> list[str]:
    """Run a file in a separate process, and return the lines that it prints."""
    command = [sys.executable, str(file)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=MAX_SECONDS, check=False
    )
    if done.returncode != 0 and TEMPORAL_CRASH not in done.stderr:
        raise ProgramError(f"exit code {done.returncode}:\n{done.stdout}{done.stderr}")
    return [line for line in done.stdout.splitlines() if TEMPORAL_LOG not in line]


if __name__ == "__main__":
    sys.exit(main())
