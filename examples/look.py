"""Look into a database: all runs, or one with its whole story.

python examples/look.py work.db [run …]
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from pathlib import Path

from redrive import Redrive
from screen import BOLD, DIM, GREEN, RED, paint, prepare

COLOURS = {"SUCCESS": GREEN, "DLQ_PENDING": RED, "FAILED": RED}


async def show_all(app: Redrive) -> None:
    runs = await app.store.runs.all()
    for run in runs:
        state = paint(COLOURS.get(run.state, ""), f"{run.state:<12}")
        print(f"{run.id}  {run.workflow}  {state}  {run.idempotency_key or ''}")
    print()
    for state, number in Counter(run.state for run in runs).most_common():
        print(f"{number:>5}  {paint(COLOURS.get(state, ''), state)}")
    print(paint(DIM, "\nname a run to see its story"))


async def show_one(app: Redrive, run_id: str) -> None:
    run = app.run(run_id)
    history = await run.history()
    print(paint(BOLD, f"{history.run.workflow} {history.run.id}: {history.run.state}"))
    for each in history.events:
        where = f"{each.step or ''} {each.attempt or ''}".strip()
        print(f"{each.at - history.run.submitted_at:>8.3f} s  {each.what:<10}  {where:<12}  {each.detail}")
    for step in history.steps:
        print(f"{step.name} has given: {step.output}")
    if (letter := await run.dead_letter()) is not None:
        print()
        for name, value in letter._asdict().items():
            print(paint(DIM, f"{name:<19}"), value)


async def look(file: str, *runs: str) -> None:
    async with Redrive(f"sqlite:///{file}") as app:
        if not runs:
            await show_all(app)
        for run in runs:
            await show_one(app, run)


def main() -> None:
    prepare()
    if len(sys.argv) < 2 or not Path(sys.argv[1]).exists():
        sys.exit(__doc__)
    asyncio.run(look(*sys.argv[1:]))


if __name__ == "__main__":
    main()
