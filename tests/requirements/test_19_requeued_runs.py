"""Item 19: fields of a requeued run, words of a job queue, separate waits (P3, P6, P7, P9, W6)."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.engine.workbench import app_at, bench, new_app
from tests.lines import written_to
from tests.server.house import House

from redrive import Backoff, RetryPolicy
from redrive.app import Redrive
from redrive.engine.run_view import RunSummary, RunView
from redrive.errors import FinalError, InvalidValueError
from redrive.log_line import write_log_line
from redrive.model.fact import fact
from redrive.model.run import FAILED_RUNS
from redrive.observe.log_format import FORMATS
from redrive.parts import parts_of
from redrive.policy import STEP, Exponential, Table
from redrive.policy.codec import decode, encode
from redrive.policy.policy_change import Alteration
from redrive.policy.policy_json import policy_from_json, policy_to_json
from redrive.testing import EPOCH

TWICE = RetryPolicy(max_attempts=2, backoff=Backoff(Exponential(60.0)))
PATIENCE = 30.0


async def shown(app: Redrive, run_id: str) -> list[RunSummary | RunView]:
    """Return everything that shows a run: its view and the list."""
    return [await app.run(run_id).view(), *(await app.runs().list()).runs]


async def names_no_worker(app: Redrive, run_id: str, place: str) -> None:
    for view in await shown(app, run_id):
        assert (view.place, view.worker) == (place, None)
    assert (await app.run(run_id).history()).run.worker is None


@asynccontextmanager
async def stopped_in_the_middle(app: Redrive) -> AsyncIterator[str]:
    """A run that a worker has returned, because its grace was shorter than the task."""
    begun = asyncio.Event()

    @app.task
    async def work() -> None:
        begun.set()
        await asyncio.Event().wait()

    async with app, asyncio.timeout(PATIENCE):
        worker = app.worker(poll_seconds=0.05, grace_seconds=0.01)
        running = asyncio.create_task(worker.run())
        run = await app.start(work)
        await begun.wait()
        assert all(view.worker is not None for view in await shown(app, run.id)), "while it is executed"
        worker.stop()
        await running
        yield run.id


async def test_19_a_run_given_back_names_no_worker_p7(tmp_path: Path) -> None:
    app = app_at(tmp_path / "work.db")
    async with stopped_in_the_middle(app) as run_id:
        await names_no_worker(app, run_id, "ready")
        stored = await parts_of(app).store.runs.get(run_id, "default")
        assert stored.worker is not None, "the row keeps the token of the last lease, see decision 6"
        [attempt] = await app.runs().attempts(run_id)
        assert (attempt.outcome, attempt.worker) == ("released", stored.worker)


async def test_19_a_run_that_waits_for_its_retry_names_no_worker_p3() -> None:
    app = new_app()

    @app.task(retry=TWICE)
    async def work() -> None:
        raise ConnectionError("reset")

    async with bench(app) as test:
        run = await app.start(work)
        await test.drain()
        await names_no_worker(app, run.id, "waiting")
        assert (await run.view()).next_retry_at == EPOCH + 60
        await test.advance(60)
        assert (await run.view()).worker is not None, "the worker that finished it"


async def test_19_a_held_run_has_not_started_and_names_no_worker_p3() -> None:
    app = new_app()

    @app.task(breaker="bank")
    async def pay() -> int:
        return 7

    async with bench(app) as test:
        await app.breakers().force("bank", "OPEN", reason="maintenance")
        run = await app.start(pay)
        await test.drain()
        await names_no_worker(app, run.id, "held")
        for view in await shown(app, run.id):
            assert (view.attempt, view.started_at, view.attempt_started_at) == (0, None, None)
        await app.breakers().force("bank", "CLOSED", reason="over")
        await test.advance(60)
        assert (await run.view()).started_at is not None


async def test_19_a_run_retried_by_hand_names_no_worker_p3() -> None:
    app = new_app()

    @app.task
    async def work() -> None:
        raise FinalError("no")

    async with bench(app) as test:
        run = await app.start(work)
        await test.drain()
        assert (await run.view()).worker is not None
        await run.replay(by="ana")
        await names_no_worker(app, run.id, "ready")


async def test_19_only_a_failure_gives_a_retry_time_w6() -> None:
    """A run that is only delayed has a start time."""
    app = new_app()

    @app.task(retry=TWICE)
    async def work() -> None:
        raise ConnectionError("reset")

    async with bench(app) as test:
        run = await app.start(work, delay=30.0)
        [step] = (await run.history()).steps
        assert (step.state, step.next_retry_at, step.first_failed_at) == ("PENDING", None, None)
        for view in await shown(app, run.id):
            assert (view.next_retry_at, view.due_at) == (None, EPOCH + 30)
        await test.advance(30)
        [step] = (await run.history()).steps
        assert (step.state, step.next_retry_at) == ("RETRYING", EPOCH + 90)
        await test.advance(60)
        assert (await run.history()).steps[0].next_retry_at is None


async def test_19_events_have_the_words_of_a_job_queue_p9(small_house: House) -> None:
    app = small_house.app
    is_fixed = False

    @app.task
    async def convert() -> None:
        if not is_fixed:
            raise FinalError("no")

    client = await small_house.keyed()
    run_id = (await client.post("/api/v1/runs", json={"work": "convert"})).json()["id"]
    await small_house.work()
    is_fixed = True
    await client.post(f"/api/jobs/{run_id}/retry")
    await small_house.work()
    events = (await client.get(f"/api/v1/runs/{run_id}/events")).json()["items"]
    assert [(event["what"], event["job_event"]) for event in events] == [
        ("queued", "queued"),
        ("started", "processing"),
        ("failed", "failed"),
        ("replayed", "queued"),
        ("started", "processing"),
        ("succeeded", None),
        ("finished", "complete"),
    ]


async def test_19_a_failed_run_ends_as_failed_p9() -> None:
    app = new_app()

    @app.task(retry=TWICE)
    async def work() -> None:
        raise ConnectionError("reset")

    async with bench(app) as test:
        run = await app.start(work)
        await test.advance(60)
        events = (await run.history()).events
    words = [event.job_event for event in events]
    assert words == ["queued", "processing", "retry", "processing", None, "failed"]
    ends = {
        events[-1]._replace(detail=fact("run_ended", state=str(state))).job_event for state in FAILED_RUNS
    }
    assert ends == {"failed"}


def test_19_json_lines_have_job_id_and_gateway_status_p9() -> None:
    logger = logging.getLogger("redrive.test_p9")
    with written_to(logger, logging.DEBUG) as lines:
        fields = {"event": "step.died", "run_id": "r7", "http_status": 502}
        write_log_line(logger, logging.ERROR, fields)
        write_log_line(logger, logging.ERROR, {"event": "worker.started"})
        first, second = (json.loads(FORMATS["json"]().format(record)) for record in lines.records)
        assert (first["job_id"], first["gateway_status"]) == ("r7", 502)
        assert {"job_id", "gateway_status"}.isdisjoint(second)
        assert "job_id" not in FORMATS["text"]().format(lines.records[0])


async def test_19_a_task_waits_as_its_table_says() -> None:
    app = new_app()
    waits: list[float] = []

    @app.task(
        retry=RetryPolicy(name="in hours", max_attempts=6, backoff=Backoff(Table([20, 300, 1800, 7200])))
    )
    async def work() -> None:
        waits.append(test.clock.now())
        raise ConnectionError("reset")

    async with bench(app) as test:
        run = await app.start(work)
        await test.advance(100_000)
        assert (await run.state()) == "DLQ_PENDING"
    differences = [later - earlier for earlier, later in pairwise(waits)]
    assert differences == [20, 300, 1800, 7200, 7200]


def test_19_a_table_is_stored_and_read_again() -> None:
    policy = RetryPolicy(max_attempts=4, backoff=Backoff(Table([20, 300.5])))
    stored = policy_to_json(policy)
    assert stored["backoff"]["curve"] == {"kind": "table", "delays": [20.0, 300.5]}  # type: ignore[index,call-overload]
    assert policy_from_json(decode(encode(stored))) == policy
    assert hash(Table([20])) == hash(Table((20.0,)))


@pytest.mark.parametrize("delays", [[], [-1], ["soon"], [float("nan")], [float("inf")], 20, "20", [1] * 101])
def test_19_a_table_takes_only_waits(delays: Any) -> None:
    with pytest.raises((InvalidValueError, TypeError)):
        Table(delays)


def test_19_a_table_can_be_tried_at_the_command_line() -> None:
    changed = Alteration(delays=(20.0, 7200.0)).of(STEP)
    assert changed.backoff.curve == Table([20.0, 7200.0])
    assert changed.backoff.cap == 7200.0, "the cap of the policy must not cut a wait that was asked for"
    with pytest.raises(InvalidValueError, match="delays"):
        Alteration(curve="table").of(STEP)
