"""The second half of the demo: failed work is found by its cause, judged, planned, and replayed with care."""

from __future__ import annotations

import asyncio

from redrive import Desk, Redrive
from redrive.model.operation import OperationReport, Plan
from redrive.model.replay import OperationState, ReplayState
from screen import BOLD, DIM, GREEN, RED, YELLOW, draw, field, heading, paint, say, tell
from shop import Warehouse

WHO = "ana"
CANARY, RATE = 3, 5.0
FRAME = 0.2


async def repair(app: Redrive, warehouse: Warehouse) -> None:
    desk = await app.desk(by=WHO)
    fingerprint = await show_groups(desk)
    await show_verdict(desk, fingerprint)
    plan = await show_plan(desk, fingerprint)
    heading("9  The floor plan is put right, and the work is done after all")
    warehouse.missing = frozenset()
    await replay(desk, plan)
    await close(desk, fingerprint)


async def show_groups(desk: Desk) -> str:
    heading("7  Equal failures are one group; somebody looks at the largest")
    lines = (await desk.groups.list("OPEN", sort="occurrences")).lines
    for group, letters in lines:
        count = paint(RED, f"{letters.live:>4} dead letters")
        say(f"{count}  {group.workflow} › {group.step:<7}  {group.title[:60]}")
    return lines[0].group.fingerprint


async def show_verdict(desk: Desk, fingerprint: str) -> None:
    page = await desk.dead_letters.list(f"is:open fp:{fingerprint}", size=1)
    verdict = await desk.verdict(page.lines[0].id)
    print()
    field("why", verdict.why)
    field("advice", verdict.advice, YELLOW)


async def show_plan(desk: Desk, fingerprint: str) -> Plan:
    heading("8  The replay is planned before anything is done")
    plan = await desk.operations.plan(
        group=fingerprint, canary=CANARY, rate=RATE, reason="the floor plan is complete again"
    )
    field("plan", f"{plan.will_run} runs go on from where they stopped: {_executions(plan)}")
    field("reused", f"{plan.results_reused} results of steps before; no card is charged again")
    field("speed", f"{CANARY} first; when these went well, {RATE:g} a second; it stops itself if they fail")
    return plan


def _executions(plan: Plan) -> str:
    return ", ".join(f"{number} × {step}" for step, number in plan.steps.items())


async def replay(desk: Desk, plan: Plan) -> None:
    """Workers carry it out; here it is only watched."""
    await desk.operations.start(plan.operation_id)
    canary_shown = False
    while (
        report := await desk.operations.report(plan.operation_id)
    ).operation.state == OperationState.RUNNING:
        ramping = report.operation.ramped_at is not None
        draw(_progress("canary" if not ramping else "replay", report), keep=ramping and not canary_shown)
        canary_shown = ramping
        await asyncio.sleep(FRAME)
    draw(_progress(report.operation.state.lower(), report), keep=True)


def _progress(stage: str, report: OperationReport) -> str:
    items = report.items
    succeeded = items[ReplayState.SUCCEEDED]
    numbers = f"{items[ReplayState.PLANNED]:>3} planned  {succeeded:>3} succeeded  {items[ReplayState.FAILED]} failed"
    return f"{paint(BOLD, f'{stage:<7}')}  {numbers}  {paint(GREEN, '■' * succeeded)}"


async def close(desk: Desk, fingerprint: str) -> None:
    resolved = await desk.groups.resolve(fingerprint, "the floor plan was incomplete")
    print()
    field(
        "group",
        f"{resolved.group.state}, {resolved.left} dead letters left; if it returns, it is a regression",
        GREEN,
    )
    entries = (await desk.audit.list(actor=WHO, size=5)).entries
    field("audit", " · ".join(f"{entry.actor} {entry.action}" for entry in reversed(entries)), DIM)
    tell("")
