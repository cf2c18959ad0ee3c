"""The stage of a drill: acts on a running demo, reads its state, and records expectations."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple, TypeVar

import httpx2

from redrive.app import Redrive
from redrive.demo import redis_server
from redrive.demo.acme.app import create_app
from redrive.demo.acme.services import Services
from redrive.demo.folder import SETTINGS, Running
from redrive.demo.traffic import Traffic, TrafficWork
from redrive.engine.handle import RunHandle
from redrive.errors import RedriveError
from redrive.model.run import ENDED_RUNS
from redrive.parts import parts_of
from redrive.settings import Settings

T = TypeVar("T")

MAX_WAIT_SECONDS = 60.0
"""How long a drill waits for an expected state."""

POLL_SECONDS = 0.1
MAX_FAULT_SECONDS = 180.0
"""How long a fault lasts if the drill is killed before it repairs the fault."""

BY = "drill"


class Expectation(NamedTuple):
    """A checked expectation. `found` describes the actual state if it was not met."""

    text: str
    met: bool
    found: str = ""


@dataclass
class Stage:
    """`say` receives a line about each action, and `report` each expectation."""

    app: Redrive
    outside: httpx2.AsyncClient
    say: Callable[[str], None]
    report: Callable[[Expectation], None]
    traffic: Traffic = field(default_factory=Traffic)
    mark: str = field(default_factory=lambda: f"drill-{token_hex(4)}")
    expectations: list[Expectation] = field(default_factory=list)

    def expect(self, text: str, met: bool, found: object = "") -> None:
        expectation = Expectation(text, met, "" if met else str(found))
        self.expectations.append(expectation)
        self.report(expectation)

    # Actions

    async def start(self, work: TrafficWork, app: Redrive | None = None) -> RunHandle[Any]:
        return await (app or self.app).start(work.workflow, work.payload, key=work.key)

    async def break_(self, service: str, state: str, *, about: str = "", after: int = 0) -> None:
        command = {"service": service, "state": state, "about": about, "after": after}
        await self._control({**command, "seconds": MAX_FAULT_SECONDS})

    async def repair(self, service: str, *, about: str = "") -> None:
        await self._control({"service": service, "state": "up", "about": about})

    async def calm(self, seconds: float) -> None:
        """Suspend the demo's random outages."""
        await self._control({"calm": seconds})

    async def _control(self, command: dict[str, Any]) -> None:
        response = await self.outside.post("/control", json=command)
        if response.status_code != 200:
            raise RedriveError(f"the demo's services rejected the command {command}: {response.text[:200]}")

    # Observations

    async def seen(self, reference: str) -> ServiceRequests:
        response = await self.outside.get("/control", params={"about": reference})
        about = response.json()["about"]
        return ServiceRequests(about["acted"], about["asked"], about["keys"])

    async def breaker(self, name: str) -> str:
        found = {breaker.row.name: str(breaker.state) for breaker in await parts_of(self.app).breakers.all()}
        return found.get(name, "CLOSED")

    async def ended(self, runs: Sequence[RunHandle[Any]]) -> list[str]:
        """Wait until the runs have finished or the time is up, and return their states."""

        async def states() -> list[str]:
            return [str(await run.state()) for run in runs]

        return await self.until(states, lambda found: all(state in ENDED_RUNS for state in found))

    async def until(self, ask: Callable[[], Awaitable[T]], fits: Callable[[T], bool]) -> T:
        """Ask until the answer fits or the time is up; return the last answer."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + MAX_WAIT_SECONDS
        while not fits(found := await ask()) and loop.time() < deadline:  # noqa: ASYNC110 - another process changes it
            await asyncio.sleep(POLL_SECONDS)
        return found

    async def executions(self, run: RunHandle[Any], step: str) -> int:
        history = await run.history()
        return sum(history.steps[attempt.step_index].name == step for attempt in history.attempts)


class ServiceRequests(NamedTuple):
    """The requests about one reference, by path.

    acted  how often the service acted
    asked  how often it was asked
    keys   the number of idempotency keys
    """

    acted: dict[str, int]
    asked: dict[str, int]
    keys: dict[str, int]


@asynccontextmanager
async def open_app(running: Running) -> AsyncIterator[Redrive]:
    """Open a second application on the database of a running demo. It executes no runs."""
    folder = Path(running.directory)
    settings = Settings.load(environment={}, file=folder / SETTINGS)
    events = redis_server.url_of(folder)
    async with create_app(settings, Services(running.outside, ""), folder, events=events) as app:
        yield app


@asynccontextmanager
async def open_stage(
    running: Running, say: Callable[[str], None], report: Callable[[Expectation], None]
) -> AsyncIterator[Stage]:
    async with (
        open_app(running) as app,
        httpx2.AsyncClient(base_url=running.outside, trust_env=False, timeout=10.0) as outside,
    ):
        yield Stage(app, outside, say, report)


def all_are(states: Sequence[str], wanted: str) -> bool:
    return bool(states) and all(state == wanted for state in states)
