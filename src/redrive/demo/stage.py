"""The stage of a drill: a running demo, what is done to it, and what is expected of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple, TypeVar

import httpx

from redrive.app import Redrive
from redrive.demo.acme.outside import Outside
from redrive.demo.acme.work import made
from redrive.demo.folder import SETTINGS, Running
from redrive.demo.traffic import Traffic, TrafficWork
from redrive.engine.handle import RunHandle
from redrive.errors import RedriveError
from redrive.model.run import ENDED_RUNS
from redrive.settings import Settings

T = TypeVar("T")

PATIENCE = 60.0
"""Seconds until what is expected must have come."""

PAUSE = 0.1
MAX_FAULT_SECONDS = 180.0
"""Seconds after which a fault of a drill is gone, also when nobody is left to repair it."""

BY = "drill"


class Expectation(NamedTuple):
    """`found` is told where it was not met."""

    text: str
    met: bool
    found: str = ""


@dataclass
class Stage:
    """`told` hears what is done, `judged` each expectation."""

    app: Redrive
    outside: httpx.AsyncClient
    told: Callable[[str], None]
    judged: Callable[[Expectation], None]
    traffic: Traffic = field(default_factory=Traffic)
    mark: str = field(default_factory=lambda: f"drill-{token_hex(4)}")
    expectations: list[Expectation] = field(default_factory=list)

    def say(self, text: str) -> None:
        self.told(text)

    def expect(self, text: str, met: bool, found: object = "") -> None:
        expectation = Expectation(text, met, "" if met else str(found))
        self.expectations.append(expectation)
        self.judged(expectation)

    # Doing something to it

    async def start(self, work: TrafficWork, app: Redrive | None = None) -> RunHandle:
        return await (app or self.app).start(work.workflow, work.payload, key=work.key)

    async def break_(self, service: str, state: str, *, about: str = "", after: int = 0) -> None:
        wish = {"service": service, "state": state, "about": about, "after": after}
        await self._steer({**wish, "seconds": MAX_FAULT_SECONDS})

    async def repair(self, service: str, *, about: str = "") -> None:
        await self._steer({"service": service, "state": "up", "about": about})

    async def calm(self, seconds: float) -> None:
        """No outages but our own."""
        await self._steer({"calm": seconds})

    async def _steer(self, wish: dict[str, Any]) -> None:
        answer = await self.outside.post("/control", json=wish)
        if answer.status_code != 200:
            raise RedriveError(f"the outside world does not do that: {answer.text[:200]}")

    # Looking at it

    async def seen(self, reference: str) -> Seen:
        answer = await self.outside.get("/control", params={"about": reference})
        about = answer.json()["about"]
        return Seen(about["acted"], about["asked"], about["keys"])

    async def breaker(self, name: str) -> str:
        found = {each.row.name: str(each.state) for each in await self.app.breaker_states()}
        return found.get(name, "CLOSED")

    async def ended(self, runs: Iterable[RunHandle]) -> list[str]:
        """Their states, as soon as they have ended, or when nobody waits any longer."""
        several = list(runs)

        async def states() -> list[str]:
            return [str(await each.state()) for each in several]

        return await self.until(states, lambda found: all(state in ENDED_RUNS for state in found))

    async def until(self, ask: Callable[[], Awaitable[T]], fits: Callable[[T], bool]) -> T:
        """What it says when it fits, or else in the end."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE
        while not fits(found := await ask()) and loop.time() < deadline:  # noqa: ASYNC110 - it is elsewhere
            await asyncio.sleep(PAUSE)
        return found

    async def executions(self, run: RunHandle, step: str) -> int:
        history = await run.history()
        return sum(history.steps[each.step_index].name == step for each in history.attempts)


class Seen(NamedTuple):
    """What the outside world has seen of one reference, by path: acted, asked, different keys."""

    acted: dict[str, int]
    asked: dict[str, int]
    keys: dict[str, int]


@asynccontextmanager
async def another(running: Running) -> AsyncIterator[Redrive]:
    """The application of a running demo, as one more process has it; it executes nothing."""
    folder = Path(running.directory)
    settings = Settings.load(environment={}, file=folder / SETTINGS)
    async with made(settings, Outside(running.outside, ""), folder) as app:
        yield app


@asynccontextmanager
async def staged(
    running: Running, told: Callable[[str], None], judged: Callable[[Expectation], None]
) -> AsyncIterator[Stage]:
    async with (
        another(running) as app,
        httpx.AsyncClient(base_url=running.outside, trust_env=False, timeout=10.0) as outside,
    ):
        yield Stage(app, outside, told, judged)


def all_are(states: Sequence[str], wanted: str) -> bool:
    return bool(states) and all(state == wanted for state in states)
