"""The tasks, workflows and breakers of a script, registered as a program would."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from random import Random
from typing import Any, cast

from tests.simulation.clock import ProcessClock
from tests.simulation.generate import BREAKERS, QUEUES
from tests.simulation.script import Script, TaskPlan

from redrive.app import Redrive
from redrive.engine.context import Context
from redrive.engine.registry import Registry
from redrive.engine.task import AnyTask, Task, TaskStarter
from redrive.parts import parts_of, rewire
from redrive.policy.backoff import Backoff
from redrive.policy.breaker_policy import BreakerPolicy, Ramp
from redrive.policy.curve import Curve, Exponential, Immediate, Linear
from redrive.policy.jitter import Additive, Decorrelated, Equal, Full, Jitter, NoJitter, Proportional
from redrive.policy.retry import RetryPolicy
from redrive.settings import Settings
from redrive.store.database import Database

Perform = Callable[[TaskPlan, Any, Context], Awaitable[Any]]

BREAKER_POLICY = BreakerPolicy(
    window_calls=3,
    window_seconds=None,
    minimum_calls=2,
    cool_down=3.0,
    longest_open=6.0,
    probe_slots=2,
    probe_seconds=15.0,
    successes_to_close=2,
)
RAMP = Ramp(first=1, factor=2.0, every=1.0)

OTHERWISE = RetryPolicy(name="otherwise", max_attempts=2, backoff=Backoff(Immediate()))
"""The policy of replays that override the policy."""

_JITTERS: dict[str, Jitter] = {
    "none": NoJitter(),
    "full": Full(),
    "equal": Equal(),
    "proportional": Proportional(0.5),
    "additive": Additive(1.0),
    "decorrelated": Decorrelated(),
}


def registry_of(script: Script, perform: Perform) -> Registry:
    registry = Registry()
    registry.queues |= set(QUEUES)
    for plan in script.tasks:
        registry.add_task(_task(plan, perform))
    for name, tasks in script.workflows:
        steps = [registry.tasks[task].step(f"s{index}") for index, task in enumerate(tasks)]
        registry.add_workflow(name, steps)
    return registry


def app_on(
    database: Database, clock: ProcessClock, random: Random, registry: Registry, org_concurrency: int | None
) -> Redrive:
    app = Redrive(
        "sqlite://:memory:",
        settings=_settings(org_concurrency),
        log=False,
        clock=clock,
        random=random,
    )
    parts_of(app).declared.registry = registry
    for name in BREAKERS:
        app.breaker(name, BREAKER_POLICY, ramp=RAMP)
    rewire(app, database, clock, random)
    return app


NOBODY = cast("TaskStarter", None)
"""A history starts its tasks by name, so they need no starter."""


@cache
def _settings(org_concurrency: int | None) -> Settings:
    return Settings(org_concurrency=org_concurrency)


def _task(plan: TaskPlan, perform: Perform) -> AnyTask:
    async def function(payload: Any, context: Context) -> Any:
        return await perform(plan, payload, context)

    options: dict[str, Any] = {
        "name": plan.name,
        "retry": _policy(plan),
        "timeout": plan.timeout,
        "queue": plan.queue,
        "breaker": plan.breaker,
        "effect": "unsafe" if plan.unsafe else "idempotent",
        "concurrency": plan.concurrency,
        "redrive": _redrive(plan),
        "max_redrives": plan.max_redrives if plan.redrive else None,
    }
    if plan.by_key and plan.concurrency is not None:
        options["concurrency_key"] = lambda payload: str(payload["run"] % 2)
    return Task.of(function, options, NOBODY)


def _redrive(plan: TaskPlan) -> str | RetryPolicy | None:
    if plan.redrive != "exponential":
        return plan.redrive
    backoff = Backoff(Exponential(0.5, 2.0), cap=2.0)
    return RetryPolicy(name="soon", max_attempts=plan.max_redrives + 1, backoff=backoff)


def _policy(plan: TaskPlan) -> RetryPolicy:
    curves: dict[str, Curve] = {
        "exponential": Exponential(plan.base, 2.0),
        "linear": Linear(plan.base, plan.base),
        "immediate": Immediate(),
    }
    backoff = Backoff(curves[plan.curve], cap=plan.cap, jitter=_JITTERS[plan.jitter])
    return RetryPolicy(
        max_attempts=plan.max_attempts,
        backoff=backoff,
        max_rate_limit_waits=plan.rate_limit_waits,
        ending=plan.ending,  # type: ignore[arg-type]  # as a word
    )
