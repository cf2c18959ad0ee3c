"""The processes of a demo: workers, the server, a database. None outlives the demo.

Each has a pipe as its standard input that stays empty. The pipe closes when this process ends, however it
ends, and then the child stops.
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

PATIENCE = 15.0
"""Seconds for a child to stop; then it is killed."""

Listen = Callable[[str], None]


class CrewMember:
    def __init__(self, name: str, process: Process, log: Path) -> None:
        self.name = name
        self.process = process
        self._log = log

    @property
    def is_gone(self) -> bool:
        return self.process.returncode is not None

    def last_line_of_log(self) -> str:
        """The last line that it logged before it failed."""
        with suppress(OSError):
            lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            return lines[-1] if lines and (self.process.returncode or 0) > 0 else ""
        return ""


class Processes:
    def __init__(self, place: DemoFolder, outside: Mapping[str, str]) -> None:
        self._place = place
        self._outside = outside
        self.children: list[CrewMember] = []
        self.required: list[Processes] = []
        """Processes that these need, such as the database."""
        self._listening: list[asyncio.Task[None]] = []

    async def start(self, name: str, *arguments: str, listen: Listen | None = None) -> CrewMember:
        """A child that does what `python -m redrive.demo` is told. `hear` gets the lines that it says."""
        log = self._place.log_of(name)
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
                cwd=self._place.folder,
                start_new_session=True,  # Ctrl-C is for the demo, which ends them in order
            )
        member = CrewMember(name, process, log)
        self.children.append(member)
        if listen is not None:
            self._listening.append(asyncio.create_task(_listen(process, listen)))
        return member

    def _environment(self) -> dict[str, str]:
        """Nothing that is meant for the user's own installation may reach the demo."""
        clean = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(PREFIX) and name not in ALIASES and not name.startswith("PG")
        }
        return {**clean, FILE_VARIABLE: str(self._place.settings), **self._outside}

    def missing(self) -> CrewMember | None:
        """A child that has ended without being stopped."""
        all_ = [*self.children, *(member for processes in self.required for member in processes.children)]
        return next((each for each in all_ if each.is_gone), None)

    def refuse_missing(self) -> None:
        if (gone := self.missing()) is not None:
            words = gone.last_line_of_log()
            raise RedriveError(
                f"the demo's {gone.name} has ended by itself, with code {gone.process.returncode}"
                + (f": {words}" if words else "")
            )

    async def stop(self) -> None:
        """All together; each may finish what it has begun."""
        await asyncio.gather(*map(_stop, self.children))
        for task in self._listening:
            task.cancel()


async def _stop(member: CrewMember) -> None:
    process = member.process
    with suppress(ProcessLookupError):
        if process.returncode is None:
            process.terminate()
    try:
        await asyncio.wait_for(process.wait(), PATIENCE)
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _listen(process: Process, listen: Listen) -> None:
    assert process.stdout is not None  # noqa: S101 - it was asked for
    while line := await process.stdout.readline():
        listen(line.decode(errors="replace").rstrip("\n"))
