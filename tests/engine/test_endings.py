"""Random histories of random policies: budgets hold, no run is lost, states add up (I1 I3 I7 I10 I16)."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.workbench import check_ended, lose_lease, new_app, seamed, settle

from redrive import Backoff, RetryPolicy
from redrive.engine.context import Context
from redrive.errors import FinalError, RateLimitedError, RetryableError
from redrive.policy import Exponential, Proportional
from redrive.policy.retry import Ending


class Does(Enum):
    SUCCEED = "succeed"
    FAIL = "fail"
    LIMITED = "rate limited"
    HINTED = "rate limited with a hint"
    FINAL = "final"
    DEFER = "defer"
    CRASH = "its lease is lost"
    CRASH_LATE = "its lease is lost, and it raises all the same"


POLICIES = st.builds(
    RetryPolicy,
    max_attempts=st.integers(1, 4),
    backoff=st.sampled_from([Backoff(Exponential(1.0)), Backoff(Exponential(5.0), jitter=Proportional(0.5))]),
    max_rate_limit_waits=st.integers(0, 3),
    max_holds=st.integers(0, 12),
    ending=st.sampled_from(Ending),
)
SCRIPTS = st.lists(st.sampled_from(Does), min_size=1, max_size=12)


@dataclass
class RunRecord:
    """The attempts and the end of one run."""

    script: list[Does]
    done: list[Does] = field(default_factory=list)
    moments: list[float] = field(default_factory=list)

    def next(self) -> Does:
        what = self.script[len(self.done)] if len(self.done) < len(self.script) else Does.SUCCEED
        self.done.append(what)
        return what


@settings(max_examples=60)
@given(POLICIES, st.lists(SCRIPTS, min_size=1, max_size=4), st.integers(1, 2), st.integers(0, 1000))
def test_whatever_happens_the_promises_hold(
    policy: RetryPolicy, scripts: list[list[Does]], steps: int, seed: int
) -> None:
    asyncio.run(play(policy, scripts, steps, seed))


async def play(policy: RetryPolicy, scripts: list[list[Does]], steps: int, seed: int) -> None:
    app = new_app()
    told: dict[tuple[str, int], RunRecord] = {}
    given_scripts: dict[str, list[Does]] = {}

    @app.task(retry=policy, concurrency=2)
    async def act(context: Context) -> Any:
        own = told.setdefault(
            (context.run_id, context.step_index),
            RunRecord(given_scripts[context.run_id][context.step_index :]),
        )
        own.moments.append(test.clock.time)
        what = own.next()
        if what is Does.FAIL:
            raise RetryableError("again")
        if what is Does.LIMITED:
            raise RateLimitedError("later")
        if what is Does.HINTED:
            raise RateLimitedError("later", retry_after=7.0)
        if what is Does.FINAL:
            raise FinalError("no")
        if what is Does.DEFER:
            context.defer(3.0)
        if what in (Does.CRASH, Does.CRASH_LATE):
            await lose_lease(app, context.run_id)
        if what is Does.CRASH_LATE:
            raise RetryableError("too late")
        return None

    app.workflow("flow", [act.step(f"step {index}") for index in range(steps)])
    async with seamed(app, seed=seed, watch=True) as (test, _):
        for script in scripts:
            run = await app.start("flow")
            given_scripts[run.id] = script
        await settle(test, app, step=3600.0)
        for run_row in await check_ended(app, len(scripts)):
            for index in range(run_row.step_index + 1):
                check_step(told[run_row.id, index], policy)
            last = told[run_row.id, run_row.step_index]
            assert (run_row.state == "SUCCESS") == (last.done[-1] is Does.SUCCEED)


def check_step(told: RunRecord, policy: RetryPolicy) -> None:
    counts = Counter(told.done)
    assert counts[Does.FAIL] + counts[Does.LIMITED] + counts[Does.FINAL] <= policy.max_attempts
    assert counts[Does.HINTED] <= policy.max_rate_limit_waits + 1
    assert counts[Does.DEFER] + counts[Does.CRASH] + counts[Does.CRASH_LATE] <= policy.max_holds + 1
    assert counts[Does.CRASH] + counts[Does.CRASH_LATE] <= 5
    for what, before, after in zip(told.done, told.moments, told.moments[1:], strict=False):
        if what is Does.HINTED:
            assert after - before >= 7.0
        elif what is Does.DEFER:
            assert after - before >= 3.0
        elif what in (Does.FAIL, Does.LIMITED):
            assert after - before >= 1.0
