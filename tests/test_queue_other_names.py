"""The stand-alone queue under the names that other dead-letter queues use (M2, M6; issue 21, 14)."""

from __future__ import annotations

from typing import Any

import pytest

from redrive.dead_letter_queue.operations import QueueOperations
from redrive.dead_letter_queue.queue import DeadLetterQueue
from redrive.errors import InvalidValueError
from redrive.testing import in_memory

DOWN = ConnectionError("the host is down")


def queue(executed: list[Any], **options: Any) -> DeadLetterQueue:
    async def execute(task: Any, context: Any) -> str:
        executed.append((task, context))
        return "done"

    return DeadLetterQueue("sqlite://:memory:", execute, log=False, **options)


async def test_14_m2_a_task_is_added_with_other_names_and_answers_keep_ours() -> None:
    async with queue([]) as dlq:
        failed = await dlq.enqueue(
            "wf_1",
            {"type": "sweep"},
            error=DOWN,
            repos=["/a", "/b"],
            retry_policy="linear",
            error_category="resource",
            max_retries=5,
        )
    assert (failed.context, failed.retry_policy, failed.error_category) == (
        ["/a", "/b"],
        "linear",
        "resource",
    )
    assert failed.max_retries == 5
    assert not hasattr(failed, "repos")


async def test_14_m2_offers_and_captures_take_them_too() -> None:
    async with queue([]) as dlq:
        offered = await dlq.offer("one", {}, error=DOWN, retry_policy="linear")
        assert offered is not None
        assert offered.retry_policy == "linear"
        with pytest.raises(ConnectionError):
            async with dlq.capturing("two", {}, repos=["/a"]):
                raise DOWN
        found = await dlq.get("two")
        assert found is not None
        assert found.context == ["/a"]


@pytest.mark.parametrize(
    "fields",
    [
        {"repos": [], "context": []},
        {"retry_policy": "never", "policy": "never"},
        {"error_category": "network", "category": "network"},
    ],
)
async def test_14_m2_both_names_of_one_field_are_a_mistake(fields: dict[str, Any]) -> None:
    async with queue([]) as dlq:
        with pytest.raises(InvalidValueError, match="are two spellings of"):
            await dlq.enqueue("one", {}, error=DOWN, **fields)
        assert await dlq.size() == 0


async def test_14_m6_the_operations_have_other_names() -> None:
    executed: list[Any] = []
    dlq = queue(executed, name="mails")
    async with in_memory(dlq.app):
        await dlq.enqueue("one", {"to": "ana"}, error=DOWN)
        await dlq.enqueue("two", {"to": "ben"}, error=DOWN)
        found = await dlq.get_task("one")
        assert found is not None
        assert [task.task_id for task in await dlq.list_tasks(status="pending", limit=10)] == ["one", "two"]
        assert (await dlq.retry_task("one")).success
        assert (await dlq.archive_task("two")).status == "archived"
        assert (await dlq.get_statistics()).lifetime_stats.archived == 1
        assert await dlq.clear_all(confirm="mails") == 2
    assert executed == [({"to": "ana"}, None)]


async def test_14_m3_the_processor_starts_and_stops_under_other_names() -> None:
    async with queue([]) as dlq:
        await dlq.start_retry_processor()
        assert dlq.state == "running"
        await dlq.stop_retry_processor()
        assert dlq.state == "stopped"


def test_14_the_blocking_queue_has_the_same_names() -> None:
    dlq = queue([])
    with dlq.sync as blocking:
        blocking.enqueue("one", {}, error=DOWN, repos=["/a"])
        found = blocking.get_task("one")
        assert found is not None
        assert len(blocking.list_tasks()) == 1
        assert blocking.retry_task("one").success
        blocking.enqueue("two", {}, error=DOWN)
        assert blocking.archive_task("two").status == "archived"
        assert blocking.get_statistics().queue_size == 0
        blocking.start_retry_processor()
        assert blocking.state == "running"
        blocking.stop_retry_processor()
        assert blocking.clear_all(confirm="default") == 2


def test_14_m6_the_blocking_queue_has_every_method() -> None:
    dlq = DeadLetterQueue("sqlite://:memory:", lambda task: task, log=False)
    names = {name for name in dir(QueueOperations) if not name.startswith("_")}
    assert names <= set(dir(dlq.sync))
    with dlq.sync as blocking:
        blocking.enqueue("one", {}, error="x")
        assert (blocking.size(), blocking.contains("one"), blocking.contains("two")) == (1, True, False)


async def test_18_m5_the_strategy_can_be_changed_at_run_time_and_the_audit_records_it() -> None:
    async with queue([]) as dlq:
        assert await dlq.offer("one", {}, error=ValueError("wrong")) is not None
        await dlq.set_strategy("selective")
        assert await dlq.offer("two", {}, error=ValueError("wrong")) is None
        assert await dlq.offer("three", {}, error=DOWN) is not None
        with pytest.raises(InvalidValueError, match="strategy must be one of"):
            await dlq.set_strategy("some")
        await dlq.set_strategy("disabled")
        with pytest.raises(InvalidValueError, match="disabled"):
            await dlq.enqueue("four", {}, error=DOWN)
        entries = (await dlq.app.failures(org=dlq.org).audit.list(subject="dlq:default")).entries
        assert [(entry.action, entry.detail) for entry in entries] == [
            ("queue.strategy_changed", {"before": "selective", "after": "disabled"}),
            ("queue.strategy_changed", {"before": "automatic", "after": "selective"}),
        ]
