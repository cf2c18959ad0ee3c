"""A cluster under load: real processes, the sink that receives their effects, and the final check."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.postgres import eventually
from tests.cluster.report import Report
from tests.crash.backlog import unfinished
from tests.crash.sink import Note, Sink

from redrive.app import Redrive
from redrive.errors import StoreError
from redrive.parts import parts_of
from redrive.verify import Witness, verify

CLOCKS = (300.0, -300.0, 0.0)
"""The errors of the workers' clocks, in seconds."""
FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
LEASE = 15.0
PATIENCE = 120.0
MUST_BE_CHECKED = ("I1", "I2", "I3", "I4", "I5", "I6", "I7", "I16")


@dataclass
class Member:
    number: int
    role: str
    process: subprocess.Popen[bytes]


class Site:
    def __init__(self, folder: Path, report: Report, *, pooler: bool = False) -> None:
        self.report = report
        self.sink = Sink(folder)
        self._folder = folder
        self._pooler = pooler
        self.members: list[Member] = []

    @property
    def workers(self) -> list[Member]:
        return [member for member in self.members if member.role == "worker"]

    def hire(self, role: str, url: str, *, clock: float = 0.0, prefix: Sequence[str] = ()) -> Member:
        """Start a process. Without libfaketime its clock is right, and the report says so."""
        number = len(self.members)
        spec = {
            "role": role,
            "url": url,
            "sink": self.sink.path,
            "child": number,
            "name": f"{role}{number}",
            "pooler": self._pooler,
            "lease": LEASE,
        }
        environment = dict(os.environ)
        if clock and FAKETIME is not None:
            environment |= {"LD_PRELOAD": str(FAKETIME), "FAKETIME": f"{clock:+.0f}s"}
            environment["FAKETIME_DONT_FAKE_MONOTONIC"] = "1"
        command = [*prefix, sys.executable, "-m", "tests.cluster.program", json.dumps(spec)]
        with (self._folder / "log").open("ab") as log:
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        member = Member(number, role, process)
        self.members.append(member)
        return member

    def first(self, what: str, after: float, member: Member | None = None) -> Note | None:
        """Return the first note after this time, from any process or from one."""
        for note in self.sink.of(what):
            if note.arrived >= after and member in (None, self.members[note.child]):
                return note
        return None

    def count(self, what: str, after: float, member: Member | None = None) -> int:
        return sum(
            note.arrived >= after and member in (None, self.members[note.child])
            for note in self.sink.of(what)
        )

    def seconds_until(self, what: str, after: float, member: Member | None = None) -> float:
        """Wait for such a note, and return how many seconds after that time it arrived."""
        with contextlib.suppress(TimeoutError):
            eventually(lambda: self._alive() and self.first(what, after, member), PATIENCE)
        found = self.first(what, after, member)
        return PATIENCE if found is None else found.arrived - after

    def until_all_work(self, after: float) -> list[float]:
        return [self.seconds_until("effect", after, worker) for worker in self.workers]

    def tell_clocks(self) -> None:
        """Report the errors of the workers' clocks, as their notes show them."""
        for worker in self.workers:
            note = self.first("effect", 0.0, worker)
            if note is not None:
                self.report.tell(
                    f"the clock of worker {worker.number} is {note.at - note.arrived:+.1f} s wrong"
                )
        wrong = sum(abs(note.at - note.arrived) > 200 for note in self.sink.of("started"))
        if FAKETIME is None:
            self.report.tell("libfaketime is not installed: all clocks are right")
        elif not wrong:
            self.report.find("wrong clocks never took effect")

    def settle(self, url: str) -> None:
        """Let the workers finish everything, then compare the database with the notes of the processes."""
        for member in self.members:
            if member.role == "enqueuer":
                member.process.kill()
        app = Redrive(url, log=False, pooler=self._pooler)
        try:
            eventually(lambda: self._alive() and self._is_finished(app), PATIENCE)
        except TimeoutError:
            self.report.find("the workers did not finish")
        for worker in self.workers:
            worker.process.send_signal(signal.SIGTERM)
        for worker in self.workers:
            status = worker.process.wait(60)
            if status:
                self.report.find(f"worker {worker.number} ended with {status}: {self._last_words()}")
        self._check(app)
        app.sync.close()

    def close(self) -> None:
        for member in self.members:
            member.process.kill()
            member.process.wait()
        self.sink.close()

    def _alive(self) -> bool:
        for worker in self.workers:
            if worker.process.poll() is not None:
                raise RuntimeError(f"worker {worker.number} ended: {self._last_words()}")
        return True

    def _last_words(self) -> str:
        return (self._folder / "log").read_text()[-2000:]

    def _is_finished(self, app: Redrive) -> bool:
        try:
            return not app.sync.wait_for(unfinished(parts_of(app).database))
        except StoreError:
            return False

    def _check(self, app: Redrive) -> None:
        acknowledged = {run_id for note in self.sink.of("acknowledged") for run_id in note["ids"]}
        witness = Witness(
            acknowledged=acknowledged, refused=set(), effects=dict.fromkeys(self.sink.effects, 1)
        )
        verdict = app.sync.wait_for(
            verify(parts_of(app).database, witness=witness, settled=True, most=10, tolerance=0.05)
        )
        for finding in verdict.findings:
            self.report.find(f"{finding.invariant}: {finding.subject}: {finding.text}")
        for each in MUST_BE_CHECKED:
            if not verdict.checked[each]:
                self.report.find(f"{each}: nothing was checked")
        self.report.acknowledged += len(acknowledged)
        self.report.effects += len(self.sink.effects)
        self.report.repeated += self.sink.duplicates


@contextlib.contextmanager
def site(report: Report, *, pooler: bool = False) -> Iterator[Site]:
    with tempfile.TemporaryDirectory(prefix="redrive-cluster-") as folder:
        opened = Site(Path(folder), report, pooler=pooler)
        try:
            yield opened
        finally:
            opened.close()


def now() -> float:
    return time.time()
