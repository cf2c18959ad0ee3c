"""Runs the store tests and the journeys on every supported version of PostgreSQL.

python -m tests.postgres_versions [--versions 14,16]
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psycopg
from tests.postgres_versions.outcome import Outcome, outcome, table
from tests.postgres_versions.release import RELEASES, Release, UnavailableError
from tests.servers import POSTGRES_INSTALLATION, POSTGRES_URL, own_postgresql

ROOT = Path(__file__).parents[2]
TESTS = ("-n", "2", "-k", "not sqlite", "-p", "no:cacheprovider", "tests/store", "tests/journeys")


def main() -> int:
    releases = _releases()
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit("stopped by a signal")
    )  # so that the server is stopped too
    try:
        installations = [release.installation() for release in releases]
    except UnavailableError as error:
        sys.exit(str(error))
    outcomes = [_test(installation) for installation in installations]
    print(f"\n{table(outcomes)}")
    return 0 if all(outcome.is_success for outcome in outcomes) else 1


def _releases() -> list[Release]:
    parser = argparse.ArgumentParser(prog="python -m tests.postgres_versions", description=__doc__)
    known = ",".join(map(str, RELEASES))
    parser.add_argument("--versions", default=known, help="some of %(default)s")
    wanted = parser.parse_args().versions.split(",")
    unknown = sorted(set(wanted) - set(map(str, RELEASES)))
    if unknown:
        parser.error(f"unknown versions: {', '.join(unknown)}; known are {known}")
    return [RELEASES[int(major)] for major in wanted]


def _test(installation: Path) -> Outcome:
    with own_postgresql(installation) as server, tempfile.TemporaryDirectory() as folder:
        with psycopg.connect(server.url) as connection:
            version = connection.info.parameter_status("server_version") or ""
        print(f"\nPostgreSQL {version} …", flush=True)
        report = Path(folder) / "report.xml"
        began = time.monotonic()
        command = [sys.executable, "-m", "pytest", *TESTS, f"--junitxml={report}"]
        exit_code = _run(command, {POSTGRES_URL: server.url, POSTGRES_INSTALLATION: str(installation)})
        return outcome(version, report, exit_code, time.monotonic() - began)


def _run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **environment}, process_group=0)
    try:
        return process.wait()
    except BaseException:
        os.killpg(process.pid, signal.SIGINT)  # like Ctrl-C in a terminal
        process.wait()
        raise


if __name__ == "__main__":
    sys.exit(main())
