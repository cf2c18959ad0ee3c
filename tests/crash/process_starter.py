"""Processes, started in a few milliseconds and killed at will.

The starter (`python -m tests.crash.process_starter`) is one process that has imported everything already and
forks. It is the parent of all other processes and sends their signals too: until it has reaped a process, the
system cannot give the process id to another one. It reads orders, one JSON object per line, and reports
starts and exits in the same way. When its input ends, all end.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import select
import signal
import sys
import traceback
from pathlib import Path
from typing import Any, NoReturn

from tests.crash.program import Spec, main

ROOT = Path(__file__).parents[2]
KILLED = -int(signal.SIGKILL)
PAUSE = 0.01


class Child:
    """A process of the starter."""

    def __init__(self, starter: ProcessStarter, number: int, spec: Spec) -> None:
        self._nursery = starter
        self.number = number
        self.spec = spec
        self.process: int | None = None
        self.exit_code: int | None = None
        self.ended = asyncio.Event()

    def send(self, signal_number: signal.Signals) -> None:
        self._nursery.order(signal=int(signal_number), number=self.number)

    def end(self, exit_code: int) -> None:
        self.exit_code = exit_code
        self.ended.set()


class ProcessStarter:
    """The test's side of the starter: `async with ProcessStarter(log) as starter`."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self.children: dict[int, Child] = {}

    async def __aenter__(self) -> ProcessStarter:
        pipe = asyncio.subprocess.PIPE
        command = (sys.executable, "-m", "tests.crash.process_starter", str(self._log))
        self._process = await asyncio.create_subprocess_exec(
            *command, cwd=ROOT, stdin=pipe, stdout=pipe, start_new_session=True
        )
        self._reader = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()
        await self._reader

    def start(self, spec: Spec) -> Child:
        number = len(self.children)
        self.children[number] = Child(self, number, spec)
        self.order(start={**spec, "child": number}, number=number)
        return self.children[number]

    def order(self, **order: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            news = json.loads(line)
            child = self.children[news["number"]]
            if "process" in news:
                child.process = news["process"]
            else:
                child.end(news["exit_code"])


class _Home:
    """The starter itself."""

    def __init__(self, log: str) -> None:
        self._log = log
        self._numbers: dict[int, int] = {}

    def run(self) -> None:
        gc.freeze()
        rest = b""
        while True:
            readable, _, _ = select.select([0], [], [], PAUSE)
            if readable:
                arrived = os.read(0, 65536)
                if not arrived:
                    break
                *orders, rest = (rest + arrived).split(b"\n")
                for order in orders:
                    self._obey(json.loads(order))
            self._bury()
        for process in self._numbers:
            os.kill(process, signal.SIGKILL)

    def _obey(self, order: dict[str, Any]) -> None:
        if "start" in order:
            process = os.fork()
            if process == 0:
                self._live(order["start"])
            self._numbers[process] = order["number"]
            _tell(number=order["number"], process=process)
        else:
            for process, number in self._numbers.items():
                if number == order["number"]:
                    os.kill(process, order["signal"])

    def _bury(self) -> None:
        while self._numbers:
            process, status = os.waitpid(-1, os.WNOHANG)
            if process == 0:
                return
            _tell(number=self._numbers.pop(process), exit_code=os.waitstatus_to_exitcode(status))

    def _live(self, spec: Spec) -> NoReturn:
        """Run in the child: it keeps nothing of the starter but the imported modules."""
        log = os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        exit_code = 1
        try:
            main(spec)
            exit_code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(exit_code)


def _tell(**news: int) -> None:
    os.write(1, json.dumps(news).encode() + b"\n")


if __name__ == "__main__":
    _Home(sys.argv[1]).run()
