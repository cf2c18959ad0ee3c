"""A demo in a separate process, started as in a terminal, and its output."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

SECONDS = 90.0
"""The time limit of a test, in seconds."""

REDRIVE = f"{sys.executable} -m redrive.cli"


class Demo:
    def __init__(self, home: Path, *options: str) -> None:
        self.home = home
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith("REDRIVE_")
        }
        self.environment |= {
            "XDG_RUNTIME_DIR": str(home),
            "TMPDIR": str(home),
            "DATABASE_URL": "sqlite:///not-this-one.db",
            "PATH": os.defpath,
        }
        self.environment.pop("VIRTUAL_ENV", None)
        self._lines: list[str] = []
        self.process = subprocess.Popen(
            [*shlex.split(REDRIVE), "demo", "--port", "0", *options],
            cwd=home,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self._lines.extend(self.process.stdout)

    @property
    def output(self) -> str:
        return "".join(list(self._lines))

    def wait_for(self, pattern: str) -> str:
        """Wait for output that matches the pattern, and return the match."""
        found = until(lambda: self._found(pattern), lambda: f"{pattern!r} in {self.output}")
        return str(found[1] if found.groups() else found[0])

    def _found(self, pattern: str) -> re.Match[str] | None:
        found = re.search(pattern, self.output)
        if found is None:
            assert self.process.poll() is None, (
                f"it has ended before {pattern!r}: {self.output} {self._errors()}"
            )
        return found

    @property
    def link(self) -> str:
        return self.wait_for(r"(http://127\.0\.0\.1:\d+/app/sign-in#\S+)")

    @property
    def outside(self) -> str:
        return self.wait_for(r"\n(http://127\.0\.0\.1:\d+)\n")

    @property
    def database_url(self) -> str:
        """Return the address in the file that other terminals load."""
        [*_, address] = shlex.split(Path(shlex.split(self.preparation)[1]).read_text())
        return address.removeprefix("REDRIVE_DATABASE_URL=")

    @property
    def preparation(self) -> str:
        return self.wait_for(r"\n(\. .+)\n")

    def type(self, command: str) -> str:
        """Execute a command in another terminal, after the preparation that the demo prints."""
        done = subprocess.run(
            f"{self.preparation}\n{command}",
            shell=True,
            env=self.environment,
            cwd=self.home,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def drill(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*shlex.split(REDRIVE), "drill", *arguments]
        return subprocess.run(
            command, env=self.environment, cwd=self.home, capture_output=True, text=True, check=False
        )

    def control(self, **wish: Any) -> dict[str, Any]:
        answer = httpx2.post(f"{self.outside}/control", json=wish, trust_env=False)
        assert answer.status_code == 200, answer.text
        told: dict[str, Any] = answer.json()
        return told

    def state(self) -> dict[str, Any]:
        told: dict[str, Any] = httpx2.get(f"{self.outside}/control", trust_env=False).json()
        return told

    def children(self) -> set[int]:
        return set(_descendants(self.process.pid))

    def end(self, number: signal.Signals = signal.SIGINT) -> tuple[int, str]:
        """Stop the demo, and return its exit code and stderr."""
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> tuple[int, str]:
        code = self.process.wait(SECONDS)
        self._reader.join(SECONDS)
        return code, self._errors()

    def _errors(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read()

    def folders(self) -> list[str]:
        """List the temporary folders that it has left behind."""
        return [each.name for each in self.home.iterdir() if each.name.startswith("redrive-demo-")]


@contextmanager
def demo(home: Path, *options: str) -> Iterator[Demo]:
    started = Demo(home, *options)
    try:
        yield started
    finally:
        children = started.children()
        if started.process.poll() is None:
            started.process.kill()
        started.process.wait(SECONDS)
        for pid in children:
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)
        for stream in (started.process.stdout, started.process.stderr):
            assert stream is not None
            stream.close()


def until(ask: Callable[[], Any], what: Callable[[], str] = lambda: "it") -> Any:
    """Repeat the call until it returns a value."""
    deadline = time.monotonic() + SECONDS
    while not (answer := ask()):
        assert time.monotonic() < deadline, f"waited in vain for {what()}"
        time.sleep(0.05)
    return answer


def is_alive(pid: int) -> bool:
    """Tell whether a process is alive. A zombie is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _descendants(pid: int) -> Iterator[int]:
    parents = {}
    for each in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(each.parent.name)] = int(each.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    yield from found - {pid}
