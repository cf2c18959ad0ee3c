"""make demo: a shop whose payment gateway goes down in the middle of business.

A real worker, a real SQLite file, a real HTTP server; about 30 seconds.
"""

from __future__ import annotations

import asyncio
import logging
import re
import sys
import tempfile
from pathlib import Path

from business import Business, show_columns
from flaky_service import running
from redrive import RunHandle
from redrive.engine.history import Happening, History
from redrive.model.dead_letter import DeadLetter
from repair import repair
from screen import (
    BOLD,
    DIM,
    GREEN,
    RED,
    YELLOW,
    field,
    heading,
    paint,
    prepare,
    say,
    tell,
)
from shop import PATIENT, Gateway, Warehouse, client_of, shop

HAPPENINGS = {"succeeded": GREEN, "finished": GREEN, "retry": RED, "held": YELLOW, "released": YELLOW}


def introduce() -> None:
    print(paint(BOLD, "Redrive: no failed work is ever lost") + "\n")
    tell(
        "A shop takes orders. Each is a run of three steps: reserve, charge, ship. To charge, it asks a "
        "payment gateway over HTTP. A worker does the work; all of it is kept in one SQLite file."
    )


async def do_business(business: Business) -> None:
    heading("1  All is well")
    show_columns()
    await business.go_on(4, ordering=True)

    heading("2  The gateway goes down; orders keep coming")
    tell(
        "The first charges fail and are retried, each after a wait of its own. Then the breaker opens: "
        "what comes now is held before it is tried, and loses none of its attempts."
    )
    print()
    show_columns()
    business.gateway.down = True
    await business.go_on(9, ordering=True)

    heading("3  The gateway is back")
    tell("Probes find out by themselves. Held work is let go in growing portions.")
    print()
    show_columns()
    business.gateway.down = False
    await business.finish(within=30)


async def make_a_mistake(business: Business, warehouse: Warehouse) -> None:
    heading("6  A mistake of our own: somebody loads a floor plan that lacks half of the aisles")
    tell("What cannot be shipped is kept at once: nothing says that trying again would help.")
    print()
    show_columns()
    warehouse.missing = frozenset("12345")
    await business.go_on(4, ordering=True)
    await business.finish(within=5)


def show_patience(histories: list[History]) -> None:
    heading("4  One of the orders that had to wait")
    found = max(histories, key=lambda each: (each.run.state == "SUCCESS", len(each.events)))
    for each in found.events:
        attempt = f"{each.step}, attempt {each.attempt}" if each.attempt else each.step or ""
        what = paint(HAPPENINGS.get(each.what, ""), f"{each.what:<9}")
        say(f"{each.at - found.run.submitted_at:>6.2f} s  {what}  {attempt:<18}  {_reason(each)}")
    print()
    for line in str(PATIENT.explain()).splitlines()[:2]:
        say(line, DIM)


def _reason(each: Happening) -> str:
    if each.what == "retry":
        # wait min(8, 0.5 · 2^(1 - 1)) = 0.5 s, jitter ±25% [0.375 … 0.625], draw 0.3 → 0.45 s
        computed = re.search(r"= (\S+ s), jitter (\S+) .* → (\S+) s", each.detail)
        return f"again in {computed[1]} {computed[2]} → {float(computed[3]):.2f} s" if computed else ""
    return each.detail if each.what in ("held", "released", "finished", "queued") else ""


def show_dead_letter(letter: DeadLetter, history: History) -> None:
    heading("5  The order that cannot be charged is a dead letter, with its whole story")
    field("run", f"{letter.run_id}, step {letter.step} of {letter.workflow}")
    field("what", f"{letter.error_type.rpartition('.')[2]}: {letter.message}", RED)
    field("where", _own_frame(letter.stack))
    field("meaning", f"{letter.category}, {letter.error_class}; the public is told {letter.public_code}")
    field("decision", letter.explanation)
    field("payload", letter.payload.replace(",", ", "))
    field("group", f"{letter.fingerprint[:15]}  {letter.title}")
    field("key", f"{letter.idempotency_key}, the same on every attempt")
    label = "attempts"
    for each in history.attempts:
        spent = 1000 * ((each.ended_at or 0.0) - (each.started_at or 0.0))
        field(
            label, f"{history.steps[each.step_index].name} {each.number}: {each.outcome} after {spent:.0f} ms"
        )
        label = ""


def _own_frame(stack: str) -> str:
    frames = re.findall(r'File ".*?(\w+\.py)", line (\d+), in (\w+)', stack)
    return next((f"{file}, line {line}, in {name}" for file, line, name in frames if file == "shop.py"), "")


def show_sum(states: dict[str, int], gateway: Gateway) -> bool:
    heading("10  Nothing is lost")
    started, shipped, dead = sum(states.values()), states.get("SUCCESS", 0), states.get("DLQ_PENDING", 0)
    asked = sum(request == "POST /charges" for request in gateway.requests)
    for name, number, colour, remark in (
        ("orders taken", started, BOLD, ""),
        ("shipped", shipped, GREEN, ""),
        ("dead letters", dead, RED, "waiting for somebody to fix the cause"),
        ("lost", started - shipped - dead, BOLD, ""),
        ("", None, "", ""),
        ("requests to charge", asked, "", "failed ones and repeated ones among them"),
        ("cards charged", len(gateway.charged), "", "each once, by its idempotency key"),
    ):
        shown = "" if number is None else paint(colour, f"{number:>5}")
        say(f"{name:<20}{shown}  {paint(DIM, remark)}")
    return started == shipped + dead and shipped == len(gateway.charged)


def invite(file: Path) -> None:
    heading("Look at it yourself")
    say(f".venv/bin/python examples/look.py {file}")
    print()
    say("the shop             examples/shop.py", DIM)
    say("how to write one     docs/guides/running-work.md", DIM)
    say("dead letters         docs/guides/dead-letters.md", DIM)
    say("outbound calls       .venv/bin/python examples/calls_demo.py", DIM)


async def play(file: Path) -> bool:
    warehouse = Warehouse()
    with running(Gateway()) as gateway:
        async with client_of(gateway) as client, shop(f"sqlite:///{file}", client, warehouse) as app:
            business = Business(app, gateway)
            async with app.worker(poll_seconds=0.5):
                await do_business(business)
                await show_stories(business.runs)
                await make_a_mistake(business, warehouse)
                await repair(app, warehouse)
            return show_sum(await app.counts(), gateway)


async def show_stories(runs: list[RunHandle]) -> None:
    histories = [await run.history() for run in runs]
    show_patience(histories)
    for run, history in zip(runs, histories, strict=True):
        if (letter := await run.dead_letter()) is not None:
            show_dead_letter(letter, history)


def main() -> None:
    prepare()
    logging.getLogger("redrive").setLevel(logging.CRITICAL)  # the demo does the talking
    introduce()
    file = Path(tempfile.mkdtemp(prefix="redrive-demo-")) / "shop.db"
    try:
        fine = asyncio.run(play(file))
    except KeyboardInterrupt:
        sys.exit("\n")
    invite(file)
    sys.exit(0 if fine else "\nthe sums do not agree: that is a bug, please report it")


if __name__ == "__main__":
    main()
