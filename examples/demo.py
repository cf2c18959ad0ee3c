"""make demo: a shop whose payment gateway goes down in the middle of business.

A real worker, a real SQLite file, a real HTTP server; about 25 seconds.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import tempfile
from contextlib import suppress
from itertools import count
from pathlib import Path
from textwrap import shorten
from typing import Any

from flaky_service import running
from redrive import Redrive, RunHandle
from redrive.clock import SYSTEM_CLOCK
from redrive.engine.enqueue import DEFAULT_ORG
from redrive.engine.history import History
from redrive.model.dead_letter import DeadLetter
from redrive.model.event import BreakerChanged, Event, HeldReleased
from screen import BOLD, DIM, GREEN, RED, YELLOW, draw, field, heading, paint, prepare, say, tell
from shop import PATIENT, Gateway, Order, client_of, shop

ORDERS_A_SECOND = 7
POISON = 6
CARD = "4242 4242 4242 4242"
FRAME = 0.1
HEADER = f"{'time':>6}  {'gateway':<7}  {'breaker':<9}  {'retrying':>8}  {'shipped':>7}  held"
STATES = {"CLOSED": GREEN, "HALF_OPEN": YELLOW, "OPEN": RED}


class Business:
    """The shop at work: takes orders, and shows a line about itself every second."""

    def __init__(self, app: Redrive, gateway: Gateway) -> None:
        self.app = app
        self.gateway = gateway
        self.runs: list[RunHandle] = []
        self._began = SYSTEM_CLOCK.monotonic()
        self._numbers = count(1)
        self._notes: list[str] = []
        app.listen(self._hear)

    async def go_on(self, seconds: float, *, ordering: bool) -> None:
        """Let so much time pass, with new orders or without."""
        end = SYSTEM_CLOCK.monotonic() + seconds
        while (left := end - SYSTEM_CLOCK.monotonic()) > 0.0:
            await self._second(min(1.0, left), ordering)

    async def finish(self, within: float) -> None:
        """Until every order has ended."""
        end = SYSTEM_CLOCK.monotonic() + within
        while await self._unfinished() and SYSTEM_CLOCK.monotonic() < end:
            await self._second(1.0, ordering=False)

    async def _second(self, seconds: float, ordering: bool) -> None:
        end = SYSTEM_CLOCK.monotonic() + seconds
        orders = ORDERS_A_SECOND if ordering else 0
        while (left := end - SYSTEM_CLOCK.monotonic()) > FRAME:
            if orders:
                orders -= 1
                await self._order()
            draw(await self._line(), keep=False)
            await asyncio.sleep(min(FRAME, left))
        for _ in range(orders):
            await self._order()
        await asyncio.sleep(max(0.0, end - SYSTEM_CLOCK.monotonic()))
        draw(await self._line(), keep=True)
        self._notes.clear()

    async def _order(self) -> None:
        number = next(self._numbers)
        card = Gateway.EXPIRED if number == POISON else CARD
        order = Order(number, cents=900 + 37 * number, card=card)
        self.runs.append(await self.app.start("checkout", order, key=f"order-{number}", tags=["demo"]))

    async def _line(self) -> str:
        places = await self.app.store.runs.count_by_place(DEFAULT_ORG)
        states = await self.app.store.runs.count_by_state(DEFAULT_ORG)
        held = places.get("held", 0)
        gateway, colour = ("down", RED) if self.gateway.down else ("up", GREEN)
        breaker = await self._breaker()
        bar = f"{held:>3} {'■' * min(held, 30)}" if held else f"{held:>3}"
        note = f"  {' · '.join(self._notes)}" if self._notes else ""
        return "  ".join(
            [
                f"{SYSTEM_CLOCK.monotonic() - self._began:>4.0f} s",
                paint(colour, f"{gateway:<7}"),
                paint(STATES[breaker], f"{breaker.lower().replace('_', '-'):<9}"),
                f"{places.get('waiting', 0):>8}",
                f"{states.get('SUCCESS', 0):>7}",
                paint(YELLOW, bar) + paint(DIM, note),
            ]
        )

    async def _breaker(self) -> str:
        return next((str(each.state) for each in await self.app.breaker_states()), "CLOSED")

    async def _unfinished(self) -> int:
        states = await self.app.store.runs.count_by_state(DEFAULT_ORG)
        return states.get("PENDING", 0) + states.get("RUNNING", 0)

    def _hear(self, event: Event) -> None:
        if isinstance(event, BreakerChanged) and event.after == "OPEN":
            self._notes.append("breaker opens" if event.before == "CLOSED" else "a probe failed")
        elif isinstance(event, BreakerChanged) and event.after == "CLOSED":
            self._notes.append("probes succeed")
        elif isinstance(event, HeldReleased):
            self._notes.append(f"released {event.runs}")


def introduce() -> None:
    print(paint(BOLD, "Redrive: no failed work is ever lost"))
    print()
    tell(
        "A shop takes orders. Each is a run of three steps: reserve, charge, ship. To charge, it asks a "
        "payment gateway over HTTP. One worker does the work; everything is kept in one SQLite file."
    )


async def do_business(business: Business) -> None:
    heading("1  All is well")
    say(HEADER, DIM)
    await business.go_on(3.0, ordering=True)

    heading("2  The gateway goes down; orders keep coming")
    tell(
        "The first charges fail and are retried, each after a wait of its own. Then the breaker opens: what "
        "comes now is held before it is tried, and loses none of its attempts."
    )
    print()
    say(HEADER, DIM)
    business.gateway.down = True
    await business.go_on(8.0, ordering=True)

    heading("3  The gateway is back; nobody has to do anything")
    tell(
        "Probes find out. Held work is let go in growing portions, so that it does not knock the gateway over."
    )
    print()
    say(HEADER, DIM)
    business.gateway.down = False
    await business.finish(within=30.0)


async def show_patience(histories: list[History]) -> None:
    heading("4  One of the orders that had to wait")
    found = max(histories, key=lambda each: (each.run.state == "SUCCESS", len(each.events)))
    begin = found.run.submitted_at
    for each in found.events:
        what = f"{each.step or ''}{f', attempt {each.attempt}' if each.attempt else ''}"
        colour = {"succeeded": GREEN, "finished": GREEN, "retry": RED, "held": YELLOW}.get(each.what, "")
        say(f"{each.at - begin:>7.3f} s  {paint(colour, f'{each.what:<10}')}  {what:<18}  {_why(each.detail)}")
    print()
    tell(f"Its policy: {str(PATIENT.explain()).splitlines()[0]}, {str(PATIENT.explain()).splitlines()[1]}.")


def _why(detail: str) -> str:
    """Of the explanation of a wait, the computation."""
    wait = next((part for part in detail.split("; ") if part.startswith("wait ")), None)
    if wait is None:
        return paint(DIM, "" if detail.startswith("by 0") else shorten(detail, 44, placeholder=" …"))
    return f"again in {wait.rpartition('→ ')[2]}"


def show_dead_letter(letter: DeadLetter, history: History) -> None:
    heading("5  The order that cannot be charged is a dead letter, with its whole story")
    field("step", f"{letter.step} of {letter.workflow}, run {letter.run_id}")
    field("what", f"{letter.error_type.rpartition('.')[2]}: {letter.message}", RED)
    field("meaning", f"{letter.category}, {letter.error_class}; told to the public as {letter.public_code}")
    field("decision", letter.explanation)
    field("payload", letter.payload)
    field("group", f"{letter.fingerprint[:15]}  {letter.title}")
    field("same key", letter.idempotency_key)
    for each in history.attempts:
        spent = ((each.ended_at or 0.0) - (each.started_at or 0.0)) * 1000
        name = history.steps[each.step_index].name
        field("attempts" if each is history.attempts[0] else "", f"{name} {each.number}: {each.outcome} after {spent:.0f} ms")
    field("where", letter.stack.strip().splitlines()[-3].strip() if letter.stack else "")


def show_sum(states: dict[str, int], gateway: Gateway) -> bool:
    heading("6  Nothing is lost")
    started = sum(states.values())
    shipped, dead = states.get("SUCCESS", 0), states.get("DLQ_PENDING", 0)
    rows = [
        ("orders taken", started, ""),
        ("shipped", shipped, GREEN),
        ("dead letters", dead, RED),
        ("lost", started - shipped - dead, BOLD),
    ]
    for name, number, colour in rows:
        say(f"{name:<26}{paint(colour, f'{number:>5}')}")
    print()
    asked = sum(request == "POST /charges" for request in gateway.requests)
    say(f"{'requests to charge':<26}{asked:>5}")
    say(f"{'cards charged':<26}{len(gateway.charged):>5}   each once, by its idempotency key")
    return started == shipped + dead == len(gateway.charged) + dead


def invite(file: Path) -> None:
    heading("Look at it yourself")
    say(f"{'.venv/bin/python examples/look.py ' + str(file)}")
    say("the code of the shop: examples/shop.py; how it works: docs/guides/running-work.md", DIM)
    say("outbound calls alone: .venv/bin/python examples/calls_demo.py", DIM)


async def play(file: Path) -> bool:
    with running(Gateway()) as gateway:
        async with client_of(gateway) as client, shop(f"sqlite:///{file}", client) as app:
            worker = app.worker(poll_seconds=0.5)
            working = asyncio.create_task(worker.run())
            business = Business(app, gateway)
            await do_business(business)
            worker.stop()
            await working
            histories = [await run.history() for run in business.runs]
            await show_patience(histories)
            for run, history in zip(business.runs, histories, strict=True):
                if (letter := await run.dead_letter()) is not None:
                    show_dead_letter(letter, history)
            return show_sum(await app.store.runs.count_by_state(DEFAULT_ORG), gateway)


def main() -> None:
    prepare()
    logging.getLogger("redrive").setLevel(logging.CRITICAL)  # the demo does the talking
    introduce()
    file = Path(tempfile.mkdtemp(prefix="redrive-demo-")) / "shop.db"
    with suppress(KeyboardInterrupt):
        fine = asyncio.run(play(file))
        invite(file)
        sys.exit(0 if fine else "something was lost: please report it")


if __name__ == "__main__":
    main()
