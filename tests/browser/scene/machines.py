"""The machines that work in the scene: they are deployed, come and go, and one of them has died."""

from __future__ import annotations

from typing import NamedTuple

from tests.browser.scene import streams

from redrive.app import Redrive
from redrive.engine.worker import Worker
from redrive.parts import parts_of
from redrive.policy.codec import encode
from redrive.settings import Settings
from redrive.store.leases import Holder

DEPLOYMENTS = {72.0: "2026.11.1", 40.0: "2026.11.2", 8.0: "2026.11.3"}
"""Hours before the end → the version of the code from then on."""

HOSTS = ("worker-a.fra1", "worker-b.fra1", "worker-c.ams3")
FALLEN = "worker-d.ams3"


class Machine(NamedTuple):
    host: str
    version: str
    worker: Worker
    process: int


class Machines:
    def __init__(self, app: Redrive) -> None:
        self._app = app
        self._turn = 0
        self.alive: list[Machine] = []

    async def deploy(self, version: str) -> None:
        for machine in self.alive:
            await self.beat(machine, "stopped")
        parts_of(self._app).declared.settings = parts_of(self._app).settings.override({})
        object.__setattr__(parts_of(self._app).settings, "code_version", version)
        self.alive = [
            Machine(host, version, parts_of(self._app).worker_in_test(), 2_000 + 17 * number)
            for number, host in enumerate(HOSTS)
        ]

    async def work_off(self) -> int:
        """Each of them in turn."""
        self._turn += 1
        return await self.alive[self._turn % len(self.alive)].worker.work_off()

    async def beat(self, machine: Machine, state: str = "running", in_flight: int = 0) -> None:
        queues = encode(list(machine.worker.options.queues))
        name, concurrency = machine.worker.id, machine.worker.options.concurrency
        await parts_of(self._app).store.limits.heartbeat(
            name, machine.version, queues, concurrency, in_flight, state, machine.host, machine.process
        )

    async def fall(self) -> None:
        """One says for the last time that all is well."""
        version = self.alive[0].version
        await self.beat(Machine(FALLEN, version, parts_of(self._app).worker_in_test(), 2_391), in_flight=4)

    async def hold(self, queue: str, number: int) -> None:
        """Begin some work that does not end any more: what is being executed at this moment."""
        machine = self.alive[-1]
        holder = Holder(parts_of(self._app).ids.token(), machine.worker.id, machine.version, 3_600.0)
        await parts_of(self._app).store.leases.claim(queue, number, holder)


async def pulse(url: str) -> None:
    """A sign of life of those that had given one at the end of the scene."""
    app = Redrive(url, settings=Settings(), log=False, durable=False)
    try:
        await app.open()
        holds = parts_of(app).store.limits
        for row in await holds.workers():
            if row.state == "running" and row.host in HOSTS:
                kept = (row.queues, row.concurrency, row.in_flight, row.state, row.host, row.process)
                await holds.heartbeat(row.id, row.code_version, *kept)
        await streams.pulse(app)
    finally:
        await app.close()
