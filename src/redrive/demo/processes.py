"""The child processes of a demo: workers, the server, a database. None of them outlives the demo.

Each child reads from a pipe that stays empty. The pipe closes when the demo's process ends for any reason,
and then the child stops.
"""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from redrive.demo.folder import DemoFolder
from redrive.errors import RedriveError
from redrive.settings import ALIASES, FILE_VARIABLE, PREFIX

STOP_SECONDS = 15.0
"""How long a child may take to stop before it is killed."""

Listen = Callable[[str], None]


class ChildProcess:
    def __init__(self, name: str, process: Process, log: Path) -> None:
        self.name = name
        self.process = process
        self._log = log

    def last_log_line(self) -> str:
        """Return the last line of its log if it exited with an error, else ""."""
        with suppress(OSError):
            lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            return lines[-1] if lines and (self.process.returncode or 0) > 0 else ""
        return ""


class Processes:
    """Starts and stops child processes. `outside` holds environment variables for Acme's services."""

    def __init__(self, folder: DemoFolder, outside: Mapping[str, str]) -> None:
        self._folder = folder
        self._outside = outside
        self.children: list[ChildProcess] = []
        self.required: list[Processes] = []
        """Other processes that these depend on, such as the database."""
        self._listeners: list[asyncio.Task[None]] = []

    async def start(self, name: str, *arguments: str, listen: Listen | None = None) -> ChildProcess:
        """Start `python -m redrive.demo` with these arguments. `listen` receives each line of its output."""
        log = self._folder.log_of(name)
        with log.open("ab") as file:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "redrive.demo",
                *arguments,
                stdin=PIPE,
                stdout=DEVNULL if listen is None else PIPE,
                stderr=file,
                env=self._environment(),
                cwd=self._folder.path,
                start_new_session=True,  # Ctrl-C reaches only the demo, which stops them in order
            )
        child = ChildProcess(name, process, log)
        self.children.append(child)
        if listen is not None:
            self._listeners.append(asyncio.create_task(_listen(process, listen)))
        return child

    def _environment(self) -> dict[str, str]:
        """Copy the environment without the variables that configure the user's own installation."""
        clean = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(PREFIX) and name not in ALIASES and not name.startswith("PG")
        }
        return {**clean, FILE_VARIABLE: str(self._folder.settings), **self._outside}

    def require_running(self) -> None:
        """Raise RedriveError if a child has exited unexpectedly."""
        for child in (*self.children, *(child for needed in self.required for child in needed.children)):
            if child.process.returncode is not None:
                line = child.last_log_line()
                raise RedriveError(
                    f"the demo's {child.name} exited unexpectedly with code {child.process.returncode}"
                    + (f": {line}" if line else "")
                )

    async def stop(self) -> None:
        """Stop all children concurrently. Each may finish its work in progress."""
        await asyncio.gather(*map(_stop, self.children))
        for task in self._listeners:
            task.cancel()


async def _stop(child: ChildProcess) -> None:
    process = child.process
    with suppress(ProcessLookupError):
        if process.returncode is None:
            process.terminate()
    try:
        await asyncio.wait_for(process.wait(), STOP_SECONDS)
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _listen(process: Process, listen: Listen) -> None:
    assert process.stdout is not None  # noqa: S101 - the caller requested a pipe
    while line := await process.stdout.readline():
        listen(line.decode(errors="replace").rstrip("\n"))
