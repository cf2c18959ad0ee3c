"""One history: the processes of a script on one database, its faults, and the judgement at the end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import replace
from random import Random
from typing import Any

from tests.simulation.catalogue import app_on, registry_of
from tests.simulation.client import Client
from tests.simulation.clock import ProcessClock
from tests.simulation.event_counts import EventCounts
from tests.simulation.external_systems import ExternalSystems
from tests.simulation.final_check import BLOCKED, failure_handler, sql
from tests.simulation.generate import FAULTS_UNTIL
from tests.simulation.history import History
from tests.simulation.loop import Process
from tests.simulation.operator import Operator, sweep
from tests.simulation.scheduled_faults import ScheduledFaults
from tests.simulation.script import WorkerPlan
from tests.simulation.seam import Seam
from tests.simulation.stage import Stage
from tests.simulation.watcher import Blind

from redrive.app import Redrive
from redrive.engine.worker import Worker
from redrive.errors import StoreError
from redrive.failures.redrive_processor import Processor
from redrive.store.database import Database, Row

MAX_LENGTH = 1000.0
"""Seconds of virtual time after the faults in which everything must have ended."""

REPLACED_AFTER = 2.0
OPERATOR_PAUSE = 1.0
REDRIVE_INTERVAL = 3.5
"""Seconds between two looks of a redrive processor."""

REDRIVABLE = """
SELECT count(*) FROM redrive.dead_letters AS letter
WHERE letter.state = 'OPEN' AND letter.next_redrive_at IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM redrive.dead_letter_dependencies AS link
    JOIN redrive.dead_letters AS other ON other.id = link.depends_on
    WHERE link.letter_id = letter.id AND other.state <> 'RESOLVED')
"""
UNENDED = f"""
SELECT (SELECT count(*) FROM redrive.runs WHERE place <> 'ended' AND id NOT IN ({BLOCKED}))
    + (SELECT count(*) FROM redrive.replay_operations WHERE state IN ('RUNNING', 'PAUSED')) + ({REDRIVABLE})
"""
MAX_BACKOFF_LENGTH = 6.0
"""Seconds for which a worker may still be waiting after the database has refused it something."""

DRAIN_LEEWAY = 8.0
"""Seconds beyond its grace that a worker may take to give back, write and say good-bye."""


class World:
    def __init__(self, stage: Stage, database: Database, watcher: Blind) -> None:
        self.script = script = stage.script
        self.loop = stage.loop
        self.stage = stage
        self.watcher = watcher
        self.database = database
        self.outside = ExternalSystems(script, watcher, stage.crash)
        self.registry = registry_of(script, self.outside.perform)
        self.client = Client(self.stage, script)
        self.operator = Operator(self.stage, script)
        self.seams: list[Seam] = []
        self.processes: list[Process] = []
        self.workers: dict[str, tuple[Process, Worker]] = {}
        self.born: Counter[str] = Counter()
        self.working: set[Process] = set()
        self.ending = False
        self.operator_process = self._process("operator", "operator")

    async def play(self) -> History:
        self.stage.crashed = self._crashed
        for plan in self.script.workers:
            self._start_worker(plan)
        self._start_client()
        if self.script.chores:
            self._start_clerk()
        await ScheduledFaults(self).all()
        await asyncio.sleep(max(0.0, FAULTS_UNTIL - self.loop.time()))
        self.stage.disarm()
        await self._settle()
        for _ in range(self.script.sweeps):
            await self.operate(sweep)
            await self._settle()
        await self._stop_all()
        history = await failure_handler(self)
        await self._dispose()
        return history

    # Processes

    def _process(self, name: str, target: str, skew: float = 0.0) -> tuple[Process, Redrive]:
        self.born[name] += 1
        process = Process(name if self.born[name] == 1 else f"{name}.{self.born[name]}")
        self.processes.append(process)
        seam = Seam(self.stage, process, target, self.database, self.watcher)
        self.seams.append(seam)
        random = Random(f"{self.script.schedule} {process.name}")
        clock = ProcessClock(self.loop, skew)
        app = process.context.run(app_on, seam, clock, random, self.registry, self.script.org_concurrency)
        app.listen(EventCounts(self.stage, process))
        return process, app

    def _start_worker(self, plan: WorkerPlan) -> None:
        process, app = self._process(plan.name, plan.name, plan.skew)
        worker = process.context.run(
            lambda: app.worker(
                queues=plan.queues,
                concurrency=plan.concurrency,
                lease_seconds=plan.lease,
                poll_seconds=plan.poll,
                grace_seconds=plan.grace,
                redrive=plan.redrives,
            )
        )
        assert isinstance(worker.processor, Processor)
        worker.processor.options = replace(worker.processor.options, interval_seconds=REDRIVE_INTERVAL)
        self.workers[plan.name] = process, worker
        self.working.add(process)
        self.loop.start(process, self._work(process, plan, worker))

    def signal(self, name: str) -> None:
        """SIGTERM; the second one hurries."""
        process, worker = self.workers[name]
        self.stage.note(process, "SIGTERM")
        self.stage.stopped_at.setdefault(process, self.loop.time())
        process.context.run(worker.stop)

    async def _work(self, process: Process, plan: WorkerPlan, worker: Worker) -> None:
        await self._told(process, worker.run())
        self.loop.call_soon(self.loop.crash, process, context=self.loop.director.context)
        self.working.discard(process)
        self._check_drained(process, plan, worker)
        if not self.ending:
            self.loop.call_soon(self._replace, process, context=self.loop.director.context)

    def _start_client(self) -> None:
        process, app = self._process("client", "client")
        self.loop.start(process, self._told(process, self.client.live(process, app)))

    def _start_clerk(self) -> None:
        process, app = self._process("clerk", "clerk")
        self.loop.start(process, self._told(process, self.operator.live(process, app)))

    async def operate(self, action: Callable[[Redrive], Any]) -> None:
        """A person at a console, who tries again."""
        process, app = self.operator_process
        while True:
            try:
                await self.loop.start(process, action(app))
            except StoreError:
                await asyncio.sleep(OPERATOR_PAUSE)
            else:
                return

    async def _told(self, process: Process, life: Coroutine[Any, Any, None]) -> None:
        """No process of ours ends by a mistake of its own."""
        try:
            await life
        except Exception as error:
            self.watcher.find("error", process.name, repr(error))

    def _crashed(self, process: Process) -> None:
        self.working.discard(process)
        self._replace(process)

    def _check_drained(self, process: Process, plan: WorkerPlan, worker: Worker) -> None:
        """I15, unless something has kept it from leaving in good order.

        A worker keeps the lease of a function that does not stop: another one would execute it at once.
        """
        stopped = self.stage.stopped_at.get(process)
        if stopped is None:
            self.watcher.find("I15", plan.name, "the worker has ended although nobody has told it to")
        elif not self.stage.is_troubled(process, stopped - MAX_BACKOFF_LENGTH):
            taken = self.loop.time() - stopped
            if taken > plan.grace + DRAIN_LEEWAY:
                self.watcher.find(
                    "I15", plan.name, f"took {taken:.1f} s to stop, its grace is {plan.grace} s"
                )
            for run_id in self.watcher.held_by(process):
                if (process, run_id) not in self.outside.stubborn:
                    self.watcher.find("I15", run_id, f"{process} has stopped and left its lease behind")

    def _replace(self, process: Process) -> None:
        """Somebody starts a new one in its place, a while after it has ended."""
        self.loop.call_later(REPLACED_AFTER, self._start_again, process, context=self.loop.director.context)

    def _start_again(self, process: Process) -> None:
        name = process.name.partition(".")[0]
        if self.ending:
            return
        if name == "client":
            self._start_client()
        elif name == "clerk":
            self._start_clerk()
        else:
            self._start_worker(next(plan for plan in self.script.workers if plan.name == name))

    # The end

    async def perform(self, action: Callable[[], Any]) -> Any:
        """Ask the database, beside all processes."""
        visit = await self.stage.serial_database.enter(self.loop.director)
        try:
            return await self.seams[0].performed(action)
        finally:
            self.stage.serial_database.leave(visit)

    async def ask(self, text: str) -> list[Row]:
        rows: list[Row] = await self.perform(lambda: sql(self.database, text))
        return rows

    async def _settle(self) -> None:
        end = self.loop.time() + MAX_LENGTH
        while self.loop.time() < end:
            if self.client.finished and self.operator.finished and not await self._unended():
                return
            await asyncio.sleep(1.0)
        if not self.client.finished:
            self.watcher.find("I1", "client", "a start is not answered, although all faults are over")
        if not self.operator.finished:
            self.watcher.find("I6", "clerk", "a chore is not answered, although all faults are over")

    async def _unended(self) -> bool:
        [[count]] = await self.ask(UNENDED)
        return bool(count)

    async def _stop_all(self) -> None:
        self.ending = True
        for name, (process, _) in self.workers.items():
            if process in self.working:
                self.stage.thaw(process)
                self.signal(name)
        end = self.loop.time() + MAX_LENGTH
        while self.working and self.loop.time() < end:
            await asyncio.sleep(0.5)

    async def _dispose(self) -> None:
        """Cancel what is left, of the dead too, so that nothing is left behind for the next history."""
        for seam in self.seams:
            seam.closed = True
        for process in self.processes:
            self.loop.revive(process)
        for _ in range(50):
            left = [task for process in self.processes for task in process.tasks if not task.done()]
            if not left:
                return
            for task in left:
                task.cancel()
            await asyncio.sleep(1.0)
        raise RuntimeError(f"tasks that cannot be cancelled: {left}")
