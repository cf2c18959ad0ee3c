"""Work for test_process, without a store."""

from __future__ import annotations

from typing import Any

from redrive.clock import SYSTEM_CLOCK
from redrive.engine.context import Context
from redrive.engine.definition import Definition
from redrive.engine.process import run_in_process
from redrive.engine.task import AnyTask
from redrive.engine.work import Work
from redrive.model.claim import Claim, Isolation
from redrive.policy.codec import JsonValue, encode

FIRST = "first"
RESULTS: dict[str, JsonValue] = {FIRST: {"deep": [1, None, 2**70, "nul \x00 and ␛"]}}


def claim(payload: str, run_input: str) -> Claim:
    """Build a claim of the second step of a run, with the result of the first step as its payload."""
    return Claim(
        id="run-1",
        org="acme",
        workflow="flow",
        definition="0" * 32,
        queue="default",
        priority=0,
        submitted_at=1_700_000_000.5,
        step_index=1,
        input=run_input,
        step_input=payload,
        attempt=3,
        epoch=5,
        failures=2,
        rate_limit_waits=0,
        holds=0,
        losses=0,
        isolated_crashes=0,
        previous_delay=1.5,
        attempt_started_at=1_700_000_001.0,
        token=2**62,
        worker="worker-1",
        code_version="1",
        idempotency_key="order-7",
        correlation_id="correlation-1",
        tags='["a"]',
        metadata=None,
        slots=None,
        policy_override=None,
        isolation=Isolation.NONE,
        cancel_requested_at=None,
    )


def work_of(task: AnyTask, payload: object, timeout: float = 20.0) -> Work:
    steps = (task.step(FIRST), task.step("second", config={"limit": 3}, timeout=timeout))
    return Work(claim(encode(payload), encode({"the": "input"})), Definition("flow", steps), task)


async def executed(task: AnyTask, payload: object, *, timeout: float = 20.0, report: Any = None) -> Any:
    work = work_of(task, payload, timeout)
    work.outputs = {step: encode(result) for step, result in RESULTS.items()}
    context = Context(work.claim, work.step, SYSTEM_CLOCK, outputs=work.outputs, report=report)
    return await run_in_process(task, work, context)
