"""The shop of the demo at work, with a line about itself every second."""

from __future__ import annotations

import asyncio
import time
from itertools import count

from redrive import Redrive, RunHandle
from redrive.engine.enqueue import DEFAULT_ORG
from redrive.model.event import BreakerChanged, Event, HeldReleased, StepDied
from screen import COLUMNS, DIM, GREEN, RED, YELLOW, draw, paint, say
from shop import Gateway, Order

ORDERS_A_SECOND = 7
POISON = 6
CARD = "4242 4242 4242 4242"
FRAME = 0.1
LONGEST_BAR = max(10, min(24, COLUMNS - 70))
A_FULL_BAR = 75
COLOURS = {"CLOSED": GREEN, "HALF_OPEN": YELLOW, "OPEN": RED}


class Business:
    """The shop at work: takes orders, and shows a line about itself every second."""

    def __init__(self, app: Redrive, gateway: Gateway) -> None:
        self.app = app
        self.gateway = gateway
        self.runs: list[RunHandle] = []
        self._began = time.monotonic()
        self._numbers = count(1)
        self._note = ""
        self._released = self._failed = 0
        app.listen(self._hear)

    async def go_on(self, seconds: int, *, ordering: bool) -> None:
        for _ in range(seconds):
            await self._second(ORDERS_A_SECOND if ordering else 0)

    async def finish(self, within: int) -> None:
        """Until every order has ended."""
        for _ in range(within):
            await self._second(0)
            states = await self.app.store.runs.count_by_state(DEFAULT_ORG)
            if not states.get("PENDING", 0) + states.get("RUNNING", 0):
                return

    async def _second(self, orders: int) -> None:
        self._note, self._released, self._failed = "", 0, 0
        end = time.monotonic() + 1.0
        while time.monotonic() < end - FRAME:
            if orders:
                orders -= 1
                await self._order()
            draw(await self._line(), keep=False)
            await asyncio.sleep(FRAME)
        await asyncio.sleep(max(0.0, end - time.monotonic()))
        draw(await self._line(), keep=True)

    async def _order(self) -> None:
        number = next(self._numbers)
        card = Gateway.EXPIRED if number == POISON else CARD
        order = Order(number, cents=900 + 37 * number, card=card)
        self.runs.append(await self.app.start("checkout", order, key=f"order-{number}"))

    async def _line(self) -> str:
        places = await self.app.store.runs.count_by_place(DEFAULT_ORG)
        states = await self.app.store.runs.count_by_state(DEFAULT_ORG)
        breakers = await self.app.breaker_states()
        breaker = breakers[0].state if breakers else "CLOSED"
        gateway, colour = ("down", RED) if self.gateway.down else ("up", GREEN)
        held = places.get("held", 0)
        columns = [
            f"{time.monotonic() - self._began:>3.0f} s",
            paint(colour, f"{gateway:<7}"),
            paint(COLOURS[breaker], f"{breaker.lower().replace('_', '-'):<9}"),
            f"{states.get('SUCCESS', 0):>7}",
            f"{places.get('waiting', 0):>8}",
            paint(YELLOW, f"{held:>4} {_bar(held)}") if held else f"{held:>4} {_bar(held)}",
            self._remark(),
        ]
        return "  ".join(columns)

    def _remark(self) -> str:
        if self._failed:
            return paint(RED, f"failed {self._failed}")
        return paint(DIM, f"released {self._released}" if self._released else self._note)

    def _hear(self, event: Event) -> None:
        if isinstance(event, StepDied):
            self._failed += 1
        elif isinstance(event, HeldReleased):
            self._released += event.runs
        elif isinstance(event, BreakerChanged):
            self._note = {
                ("CLOSED", "OPEN"): "breaker opens",
                ("HALF_OPEN", "OPEN"): "probe failed",
                ("HALF_OPEN", "CLOSED"): "probes succeed",
            }.get((event.before, event.after), "")


def _bar(number: int) -> str:
    blocks = min(LONGEST_BAR, -(-number * LONGEST_BAR // A_FULL_BAR))
    return f"{'■' * blocks:<{LONGEST_BAR}}"


def show_columns() -> None:
    say(f"{'time':>5}  {'gateway':<7}  {'breaker':<9}  {'shipped':>7}  {'retrying':>8}  held", DIM)
