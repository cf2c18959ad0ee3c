"""The second half of the demo: failed work is found by its cause, judged, planned, and replayed with care."""

from __future__ import annotations

import asyncio

from redrive import Desk, Redrive
from redrive.model.operation import OperationReport, Plan
from redrive.model.replay import ReplayState
from screen import DIM, GREEN, RED, YELLOW, draw, field, heading, paint, say
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
    print()
    await close(desk, plan, fingerprint)


async def show_groups(desk: Desk) -> str:
    heading("7  Equal failures are one group; somebody looks at the largest")
    lines = (await desk.groups.search("group:open", sort="occurrences")).lines
    for group, letters in lines:
        count = paint(RED, f"{letters.live:>3} ×")
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
    canary_over = False
    while (report := await desk.operations.report(plan.operation_id)).operation.state == "RUNNING":
        if canary_over or report.operation.ramped_at is None:
            draw(_progress("replay" if canary_over else "canary", report), keep=False)
        else:
            draw(_progress("canary", report), keep=True)
            canary_over = True
        await asyncio.sleep(FRAME)
    draw(_progress(report.operation.state.lower(), report), keep=True)


def _progress(stage: str, report: OperationReport) -> str:
    states = (ReplayState.PLANNED, ReplayState.SUCCEEDED, ReplayState.FAILED)
    planned, succeeded, failed = (report.items[state] for state in states)
    numbers = f"{planned:>3} planned  {succeeded:>3} succeeded  {failed:>3} failed"
    return f"{paint(DIM, f'{stage:<10}')}{numbers}   {paint(GREEN, '■' * succeeded)}"


async def close(desk: Desk, plan: Plan, fingerprint: str) -> None:
    resolved = await desk.groups.resolve(fingerprint, "the floor plan was incomplete")
    field("group", f"{resolved.group.state.lower()}; if it returns, that is a regression", GREEN)
    for subject in (plan.operation_id, fingerprint):
        for entry in reversed((await desk.audit.list(subject=subject)).entries):
            field("audit", f"{entry.sequence:>3}  {entry.action}, by {entry.actor}", DIM)
