"""Item 21: times of a run, its dead letter, access to a queue, calls in a step (P3, P8, M11, W4, W7, G7)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from tests.engine.workbench import bench, new_app
from tests.misbehaving import MisbehavingServer, answer
from tests.server.house import House

from redrive import AsyncHttpClient, Backoff, DeadLetterQueue, HttpClient, RetryPolicy
from redrive.app import Redrive
from redrive.calls.dependency import DEPENDENCIES, Dependencies
from redrive.engine.context import Context
from redrive.errors import AccessDeniedError, FinalError, HttpStatusError
from redrive.policy import Exponential, Immediate
from redrive.testing import EPOCH, in_memory

RUNS = "/api/v1/runs"
NO_WAIT = RetryPolicy(max_attempts=3, backoff=Backoff(Immediate()))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[MisbehavingServer]:
    for name, unused in vars(Dependencies()).items():
        monkeypatch.setattr(DEPENDENCIES, name, unused)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with MisbehavingServer() as running:
        yield running


# Times of a run


def failing(app: Redrive) -> Any:
    @app.task(max_attempts=1)
    async def work() -> None:
        raise FinalError("no")

    return work


async def test_21_a_new_run_was_queued_when_it_was_submitted_p3() -> None:
    app = new_app()
    work = failing(app)
    async with bench(app) as test:
        run = await app.start(work, delay=5.0)
        view = await run.view()
        assert (view.submitted_at, view.queued_at, view.updated_at) == (EPOCH, EPOCH, EPOCH)
        await test.advance(5)
        view = await run.view()
        assert (view.queued_at, view.updated_at) == (EPOCH, EPOCH + 5)


async def test_21_a_manual_retry_moves_both_times_p8() -> None:
    app = new_app()
    work = failing(app)
    async with bench(app) as test:
        run, other = await app.start(work), await app.start(work)
        await test.drain()
        test.clock.advance(100)
        await run.replay(by="ana")
        view, untouched = await run.view(), await other.view()
        assert (view.submitted_at, view.queued_at, view.updated_at) == (EPOCH, EPOCH + 100, EPOCH + 100)
        assert (untouched.queued_at, untouched.updated_at) == (EPOCH, EPOCH)
        listed = {line.id: (line.queued_at, line.updated_at) for line in (await app.runs().list()).runs}
        assert listed == {run.id: (EPOCH + 100, EPOCH + 100), other.id: (EPOCH, EPOCH)}


async def test_21_a_retry_without_a_dead_letter_moves_both_times_p8() -> None:
    app = new_app()
    work = failing(app)
    async with bench(app) as test:
        run = await app.start(work)
        await test.drain()
        letter = await run.dead_letter()
        assert letter is not None
        await app.failures().resolve(letter.id, reason="by hand")
        test.clock.advance(100)
        await app.failures().replay_run(run.id)
        assert [line.queued_at for line in (await app.runs().list()).runs] == [EPOCH + 100]
        assert (await run.view()).queued_at == EPOCH + 100


async def test_21_times_and_names_over_http(house: House) -> None:
    client = await house.keyed()
    letter_id = await house.dead_letter()
    [listed] = (await client.get(RUNS)).json()["items"]
    run = (await client.get(f"{RUNS}/{listed['id']}")).json()
    assert listed["queued_at"] == listed["submitted_at"] == run["queued_at"]
    assert listed["updated_at"] == run["updated_at"] == run["ended_at"]
    assert run["dead_letter"]["id"] == letter_id
    assert (run["dlq_enqueued"], run["dlq_task_id"]) == (True, letter_id)
    await client.post(f"/api/jobs/{run['id']}/retry")
    [again] = (await client.get(RUNS)).json()["items"]
    assert again["queued_at"] == again["updated_at"] > run["updated_at"]
    assert again["submitted_at"] == run["submitted_at"]


async def test_21_a_run_without_a_dead_letter_says_so_m(small_house: House) -> None:
    client = await small_house.keyed()
    started = (await client.post(RUNS, json={"work": "greet"})).json()
    await small_house.work()
    run = (await client.get(f"{RUNS}/{started['id']}")).json()
    assert (run["dlq_enqueued"], run["dlq_task_id"], run["dead_letter"]) == (False, None, None)


# Access to a stand-alone queue


async def test_21_the_queue_asks_for_each_operation_m11() -> None:
    asked: list[tuple[str, str]] = []
    allowed = True

    def access(by: str, operation: str) -> bool:
        asked.append((by, operation))
        return allowed

    dlq = DeadLetterQueue("sqlite://:memory:", lambda task: task, access=access, by="cron", log=False)
    async with in_memory(dlq.app):
        ana = dlq.on_behalf_of("ana")
        await dlq.enqueue("a", 1, error="x", category="network")
        operations: dict[str, Callable[[], Awaitable[object]]] = {
            "enqueue": lambda: ana.enqueue("b", 1, error="x", category="network"),
            "get": lambda: ana.get("a"),
            "list": ana.list,
            "statistics": ana.statistics,
            "unlink": lambda: ana.unlink("b", "a"),
            "retry": lambda: ana.retry("a"),
            "archive": lambda: ana.archive("b"),
            "clear": lambda: ana.clear(confirm="default"),
            "set_strategy": lambda: ana.set_strategy("selective"),
        }
        asked.clear()
        for call in operations.values():
            await call()
        assert asked == [("ana", operation) for operation in operations]

        allowed = False
        denied: dict[str, Callable[[], Awaitable[object]]] = {
            **operations,
            "enqueue ": lambda: ana.offer("c", 1, error=ConnectionError("x")),
        }
        for operation, call in denied.items():
            with pytest.raises(AccessDeniedError, match=f"'ana' may not {operation.strip()}"):
                await call()
        assert (await dlq.app.failures().strategies.view("dlq:default")).strategy == "selective"
        with pytest.raises(AccessDeniedError, match="may not set_strategy"):
            await ana.set_strategy("disabled")
        assert (await dlq.app.failures().strategies.view("dlq:default")).strategy == "selective"
        with pytest.raises(AccessDeniedError, match="may not list"):
            [task_id async for task_id in ana]
        with pytest.raises(AccessDeniedError, match="may not get"):
            await ana.contains("a")
        with pytest.raises(AccessDeniedError, match="may not statistics"):
            await ana.size()


async def test_21_access_may_be_async_and_decide_by_operation_m11() -> None:
    async def access(by: str, operation: str) -> bool:
        return operation != "archive" or by == "ana"

    dlq = DeadLetterQueue("sqlite://:memory:", lambda task: task, access=access, log=False)
    async with in_memory(dlq.app):
        await dlq.enqueue("a", 1, error="x", category="network")
        with pytest.raises(AccessDeniedError):
            await dlq.archive("a")
        kept = await dlq.get("a")
        assert kept is not None
        assert kept.status == "pending"
        archived = await dlq.on_behalf_of("ana").archive("a", reason="done")
        assert archived.status == "archived"
        [entry, *_] = (await dlq.app.failures().audit.list()).entries
        assert entry.actor == "ana"


# Calls inside a step


async def test_21_inside_a_step_a_request_makes_one_attempt_w4(server: MisbehavingServer) -> None:
    app = new_app()

    @app.task(max_attempts=1)
    async def fetch() -> None:
        async with AsyncHttpClient(server.url) as client:
            await client.request("GET", "/things")

    @app.task(max_attempts=1)
    def fetch_sync() -> None:
        with HttpClient(server.url, backoff=Backoff(Immediate())) as client:
            client.request("GET", "/things")

    @app.task(max_attempts=1)
    async def fetch_as_told() -> None:
        async with AsyncHttpClient(server.url, max_attempts=2, backoff=Backoff(Immediate())) as client:
            await client.request("GET", "/things")

    @app.task(max_attempts=1)
    async def fetch_by_policy() -> None:
        async with AsyncHttpClient(server.url, policy=NO_WAIT, dependency="things") as client:
            await client.request("GET", "/things")

    server.otherwise(answer(503))
    async with bench(app) as test:
        for task, expected in ((fetch, 1), (fetch_sync, 1), (fetch_as_told, 2), (fetch_by_policy, 3)):
            before = len(server.requests)
            await app.start(task)
            await test.drain()
            assert len(server.requests) - before == expected, task


async def test_21_outside_of_a_step_a_request_is_retried(server: MisbehavingServer) -> None:
    server.otherwise(answer(503))
    async with AsyncHttpClient(server.url, backoff=Backoff(Immediate())) as client:
        with pytest.raises(HttpStatusError):
            await client.request("GET", "/things")
    assert len(server.requests) == 3


async def test_21_a_request_names_the_step_and_the_run_w7_g7(server: MisbehavingServer) -> None:
    app = new_app()
    keys: list[str] = []

    @app.task(retry=RetryPolicy(max_attempts=2, backoff=Backoff(Exponential(1.0))))
    async def charge(context: Context, order: int) -> None:
        keys.append(context.idempotency_key)
        async with AsyncHttpClient(server.url) as client:
            await client.request("POST", "/charges", json={"order": order})
            await client.request("POST", "/receipts", json={"order": order})
            await client.request("GET", "/charges")
            await client.request("PUT", "/mine", json=1, idempotency_key="own")
            if context.attempt == 1:
                raise ConnectionError("reset")

    async with bench(app) as test:
        run = await app.start(charge, 7, correlation_id="trace-ä")
        await test.advance(60)
        assert await run.state() == "SUCCESS"
    first, second = server.requests[:4], server.requests[4:]
    for request in server.requests:
        assert request.headers["x-run-id"] == run.id
        assert request.headers["x-correlation-id"] == "trace-%C3%A4"
    sent = [[request.headers.get("idempotency-key") for request in attempt] for attempt in (first, second)]
    assert sent[0] == sent[1], "every attempt of the step sends the same keys"
    charge_key, receipt_key, read_key, own_key = sent[0]
    assert charge_key is not None
    assert receipt_key is not None
    assert keys[0] == keys[1]
    assert charge_key.startswith(f"{keys[0]}:")
    assert receipt_key.startswith(f"{keys[0]}:")
    assert charge_key != receipt_key, "a server would take the receipt for a repetition of the charge"
    assert (read_key, own_key) == (None, "own")


async def test_21_a_request_of_a_thread_names_the_run(server: MisbehavingServer) -> None:
    app = new_app()

    @app.task
    def note() -> None:
        with HttpClient(server.url) as client:
            client.request("POST", "/notes", headers={"X-Correlation-Id": "mine"})

    async with app, app.worker(poll_seconds=0.05):
        run = await app.start(note)
        assert await run.wait(30) == "SUCCESS"
    [request] = server.requests
    assert request.headers["x-run-id"] == run.id
    assert request.headers["x-correlation-id"] == "mine", "a header of the caller stays"


async def test_21_outside_of_a_step_nothing_is_added(server: MisbehavingServer) -> None:
    async with AsyncHttpClient(server.url) as client:
        await client.request("POST", "/charges", json={})
    assert {"x-run-id", "x-correlation-id", "idempotency-key"}.isdisjoint(server.requests[0].headers)


# Ids in logs


async def test_21_an_answer_is_logged_with_the_ids_of_its_request_g7(
    server: MisbehavingServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "redrive.calls")
    app = new_app()

    @app.task
    async def fetch() -> None:
        async with AsyncHttpClient(server.url) as client:
            await client.request("GET", "/things")

    async with bench(app) as test:
        run = await app.start(fetch)
        await test.drain()
    [fields] = [record.__dict__["fields"] for record in caplog.records]
    assert fields["event"] == "http.answered"
    assert (fields["run_id"], fields["correlation_id"]) == (run.id, run.id)
    assert fields["request_id"] == server.requests[0].headers["x-request-id"]


async def test_21_a_request_line_names_the_run_or_the_dead_letter_g14(
    small_house: House, caplog: pytest.LogCaptureFixture
) -> None:
    client, letter_id = await small_house.keyed(), await small_house.dead_letter()
    [run] = (await client.get(RUNS)).json()["items"]
    caplog.set_level(logging.INFO, "redrive.server")
    for path in (f"{RUNS}/{run['id']}", f"/api/jobs/{run['id']}/retry", f"/app/admin/runs/{run['id']}"):
        await (client.post if "jobs" in path else client.get)(path)
    for path in (f"/api/v1/dead-letters/{letter_id}", f"/app/admin/dlq/{letter_id}"):
        await client.get(path)
    await client.get(RUNS)
    found = [record.__dict__["fields"] for record in caplog.records]
    named = [(fields.get("run_id"), fields.get("dlq_id")) for fields in found]
    assert named == [(run["id"], None)] * 3 + [(None, letter_id)] * 2 + [(None, None)]
