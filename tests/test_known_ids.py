"""Item 10 (M6): a failed task under a known id. Redrive never overwrites a payload."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from tests.servers import PostgresServer
from tests.store.build import ask

from redrive.dead_letter_queue.queue import DeadLetterQueue
from redrive.doctor.failures import judge_letters
from redrive.doctor.finding import DoctorLimits, Finding
from redrive.errors import ConflictError
from redrive.model.event import Event, TaskStoredSeparately
from redrive.model.fact import fact
from redrive.parts import parts_of
from redrive.settings import Settings
from redrive.store.inspection import Inspection
from redrive.testing import in_memory
from redrive.verify import verify
from redrive.words.fact import text_of
from redrive.words.state import letter_state

Sent = list[Any]


@pytest.fixture
def sent() -> Sent:
    return []


@pytest.fixture(params=["sqlite", "postgres"])
async def dlq(request: pytest.FixtureRequest, tmp_path: Path, sent: Sent) -> AsyncIterator[DeadLetterQueue]:
    async def resend(task: Any, context: Any) -> str:
        sent.append((task, context))
        return "sent"

    schema = f"test_{uuid.uuid4().hex}"
    server: PostgresServer | None = (
        request.getfixturevalue("live_postgres") if request.param == "postgres" else None
    )
    url = f"sqlite:///{tmp_path / 'failed.db'}" if server is None else server.url
    async with (
        asyncio.timeout(60),
        DeadLetterQueue(url, resend, settings=Settings(schema=schema), log=False) as queue,
    ):
        yield queue
        verdict = await verify(parts_of(queue.app).database)
        assert verdict.sound, str(verdict)
    if server is not None:
        connection = await asyncpg.connect(server.url)
        await connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        await connection.close()


async def payloads(queue: DeadLetterQueue) -> list[tuple[str, Any, str]]:
    return [(item.task_id, item.task, item.status) for item in await queue.list()]


async def test_10_a_live_task_and_another_payload_is_a_conflict(dlq: DeadLetterQueue, sent: Sent) -> None:
    first = await dlq.enqueue("order-7", {"cents": 1200, "to": "ana"}, error=TimeoutError("a"))
    with pytest.raises(ConflictError, match="'order-7' has failed before with another payload") as no:
        await dlq.enqueue("order-7", {"cents": 99, "to": "bob"}, error=TimeoutError("b"))
    assert no.value.run_id == first.run_id
    assert await dlq.get("order-7") == first
    assert await dlq.retry("order-7")
    assert sent == [({"cents": 1200, "to": "ana"}, None)]


async def test_10_another_context_is_another_task(dlq: DeadLetterQueue) -> None:
    """The function receives the context, too, so another context is another task."""
    await dlq.enqueue("sweep", {"n": 1}, error="a", context=["repo-a"])
    with pytest.raises(ConflictError):
        await dlq.enqueue("sweep", {"n": 1}, error="b", context=["repo-b"])


async def test_10_the_same_payload_is_another_failure_of_the_task(dlq: DeadLetterQueue) -> None:
    """The newest error, policy and metadata apply; without new metadata, the old ones stay."""
    first = await dlq.enqueue("a", {"b": 1, "a": 2}, error=TimeoutError("one"), metadata={"team": "mail"})
    second = await dlq.enqueue("a", {"a": 2, "b": 1}, error=ValueError("two"), policy="linear")
    assert (second.id, second.run_id, second.total_attempts) == (first.id, first.run_id, 2)
    assert (second.error, second.last_error, second.retry_policy) == ("one", "two", "linear")
    assert second.metadata == {"team": "mail"}
    third = await dlq.enqueue("a", {"a": 2, "b": 1}, error="three", metadata={"team": "post"})
    assert (third.id, third.metadata) == (first.id, {"team": "post"})


@pytest.mark.parametrize("ending", ["archived", "discarded", "completed", "exhausted"])
async def test_10_a_finished_task_stays_and_a_new_one_has_its_own_budget(
    dlq: DeadLetterQueue, ending: str
) -> None:
    first = await dlq.enqueue("job", {"day": 0}, error=TimeoutError("a"), max_retries=2)
    letters = dlq.app.failures(by="ana")
    if ending == "archived":
        await letters.archive(first.id, "old")
    elif ending == "discarded":
        await letters.ignore(first.id, "not needed")
    elif ending == "completed":
        await letters.resolve(first.id, "by hand")
    else:
        await exhaust(dlq, first.id)
    again = await dlq.enqueue("job", {"day": 1}, error=TimeoutError("b"), max_retries=2)
    assert again.id != first.id
    assert (again.status, again.retry_count, again.max_retries) == ("pending", 0, 2)
    assert again.next_retry_at is not None
    assert await dlq.get("job") == again
    assert await payloads(dlq) == [("job", {"day": 0}, ending), ("job", {"day": 1}, "pending")]


async def exhaust(dlq: DeadLetterQueue, letter_id: str) -> None:
    """Set the state as after the last automatic redrive."""
    database = parts_of(dlq.app).database
    await ask(
        database,
        "UPDATE redrive.dead_letters SET state = 'EXHAUSTED', exhausted_at = updated_at, "
        f"next_redrive_at = NULL WHERE id = '{letter_id}'",
    )


async def test_10_gap_6_a_nightly_job_gets_its_redrives_every_day() -> None:
    async def fail(task: Any) -> None:
        raise ConnectionError("down")

    dlq = DeadLetterQueue("sqlite://:memory:", fail, log=False)
    async with in_memory(dlq.app) as test:
        for day in range(3):
            await dlq.enqueue("nightly-sync", {"day": day}, error=ConnectionError("down"))
            await test.advance(86_400)
        items = await dlq.list()
        assert [(item.task["day"], item.retry_count, item.status) for item in items] == [
            (0, 3, "exhausted"),
            (1, 3, "exhausted"),
            (2, 3, "exhausted"),
        ]
        await test.advance(10 * 86_400)
        assert {item.status for item in await dlq.list()} == {"archived"}


async def test_10_captured_failures_are_stored_separately_with_a_warning(dlq: DeadLetterQueue) -> None:
    heard: list[Event] = []
    dlq.app.listen(heard.append)

    @dlq.capture(lambda order: "receipt", quiet=True)
    async def receipt(order: int) -> None:
        raise TimeoutError("no answer")

    for order in (1, 2, 3, 2, 1):
        await receipt(order)
    stored = [(item.task_id, item.task["args"], item.total_attempts) for item in await dlq.list()]
    assert stored == [("receipt", [1], 2), ("receipt~2", [2], 2), ("receipt~3", [3], 1)]
    warnings = [event for event in heard if isinstance(event, TaskStoredSeparately)]
    assert [(event.task_id, event.stored_as) for event in warnings] == [
        ("receipt", "receipt~2"),
        ("receipt", "receipt~3"),
        ("receipt", "receipt~2"),
    ]
    assert await dlq.retry("receipt~2")
    await receipt(3)
    await receipt(4)
    states = [(item.task_id, item.task["args"], item.status) for item in await dlq.list()]
    assert states == [
        ("receipt", [1], "pending"),
        ("receipt~2", [2], "completed"),
        ("receipt~3", [3], "pending"),
        ("receipt~2", [4], "pending"),
    ]


async def test_10_a_long_id_keeps_room_for_its_number(dlq: DeadLetterQueue) -> None:
    task_id = "x" * 255
    await dlq.offer(task_id, 1, error="a")
    other = await dlq.offer(task_id, 2, error="b")
    assert other is not None
    assert (len(other.task_id), other.task_id[-2:]) == (251, "~2")
    assert await dlq.get(other.task_id) == other


async def test_10_a_task_being_retried_is_not_replaced(dlq: DeadLetterQueue) -> None:
    """It is live: the retry in progress decides."""
    first = await dlq.enqueue("a", {"n": 1}, error=TimeoutError("a"))
    await dlq.app.failures(by="ana").replay(first.id)
    with pytest.raises(ConflictError):
        await dlq.enqueue("a", {"n": 2}, error=TimeoutError("b"))
    same = await dlq.enqueue("a", {"n": 1}, error=TimeoutError("b"))
    assert (same.id, same.status) == (first.id, "retrying")


async def test_10_concurrent_reports_of_many_payloads_lose_none(dlq: DeadLetterQueue) -> None:
    await asyncio.gather(*(dlq.offer("same", {"n": n % 8}, error=TimeoutError("x")) for n in range(24)))
    items = await dlq.list()
    assert sorted(json.dumps(item.task) for item in items) == sorted(json.dumps({"n": n}) for n in range(8))
    assert sum(item.total_attempts for item in items) == 24


@pytest.mark.parametrize("ending", ["exhausted", "archived", "discarded"])
async def test_12_gap_9_tasks_that_wait_for_a_task_without_a_redrive_are_reported(
    dlq: DeadLetterQueue, ending: str
) -> None:
    a = await dlq.enqueue("a", 1, error="x", category="network", max_retries=1)
    b = await dlq.enqueue("b", 1, error="x", category="network", after=["a"])
    assert (a.next_retry_at is None, b.next_retry_at) == (False, None)
    letters = dlq.app.failures(by="ana")
    healthy = await verdict_on(dlq, b.id)
    assert (healthy.advice[0].code, healthy.heals_itself) == ("resolve_first", False)
    assert await stuck(dlq) == []
    seen = await letters.view(b.id)
    assert (letter_state(seen), seen.next_redrive_at, seen.waits) == ("SCHEDULED", None, True)
    assert not (await dlq.app.runs(by="ana").view(seen.run_id)).needs_you
    before = await letters.totals()
    assert (before.needs_you.total, before.heals_itself.scheduled) == (0, 2)
    if ending == "exhausted":
        await exhaust(dlq, a.id)
    else:
        await (letters.archive if ending == "archived" else letters.ignore)(a.id, "old")
    verdict = await verdict_on(dlq, b.id)
    assert verdict.advice[0] == fact("stuck_behind", dead_letters=[a.id])
    assert a.id in text_of(verdict.advice[0])
    [finding] = await stuck(dlq)
    assert (finding.state, finding.command) == ("warn", f"redrive dlq view {b.id}")
    await assert_it_needs_you(dlq, b.id)
    await dlq.unlink("b", "a")
    assert await stuck(dlq) == []
    assert (await letters.totals()).heals_itself.scheduled == 1
    assert (await letters.view(b.id)).next_redrive_at is not None
    waiting = await dlq.get("b")
    assert waiting is not None
    assert waiting.next_retry_at is not None


async def assert_it_needs_you(dlq: DeadLetterQueue, letter_id: str) -> None:
    """Check that counts, lists and views agree."""
    letters, runs = dlq.app.failures(by="ana"), dlq.app.runs(by="ana")
    totals = await letters.totals()
    assert totals.heals_itself.scheduled == 0
    assert totals.needs_you == await letters.needs_you()
    assert letter_id in {line.id for line in (await letters.list("is:needs-you")).lines}
    assert (await letters.count("is:needs-you")).number == totals.needs_you.total
    assert (await letters.list("is:scheduled")).lines == []
    seen = await letters.view(letter_id)
    assert letter_state(seen) == "OPEN"
    [listed] = (await runs.list(f"id:{seen.run_id}")).runs
    assert (listed.needs_you, (await runs.view(seen.run_id)).needs_you) == (True, True)


async def verdict_on(dlq: DeadLetterQueue, letter_id: str) -> Any:
    return await dlq.app.failures(by="ana").verdict(letter_id)


async def stuck(dlq: DeadLetterQueue) -> list[Finding]:
    inspected = await Inspection(parts_of(dlq.app).database).letters()
    findings = judge_letters(inspected, None, DoctorLimits())
    return [finding for finding in findings if "for another one" in finding.seen]
