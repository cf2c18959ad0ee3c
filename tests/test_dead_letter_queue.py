"""The stand-alone dead-letter queue (M2, M5, M6, M7, M9, M12): as simple as a dict, and durable."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from tests.cases import loop_over
from tests.servers import PostgresServer
from tests.threads import background_threads

from redrive.dead_letter_queue import tasks
from redrive.dead_letter_queue.queue import DeadLetterQueue
from redrive.errors import (
    InvalidValueError,
    NotFoundError,
    QueueFullError,
    ReplayRefusedError,
    TransitionError,
)
from redrive.model.event import AlertRaised, DeadLetterChanged, Event, ReplayEnded, StepDied
from redrive.model.failed_task import FailedTask
from redrive.model.failure import Category
from redrive.parts import parts_of
from redrive.policy import Backoff, Immediate, RetryPolicy
from redrive.policy.classify import Classifier, Rule
from redrive.policy.codec import JsonLimits
from redrive.policy.monitor import Thresholds
from redrive.policy.redact import Redactor
from redrive.policy.template import Template
from redrive.settings import Settings, new_encryption_key
from redrive.store.statement import SqlQuery, Statement
from redrive.testing import in_memory
from redrive.verify import verify

PATIENCE = 30.0


class Mailer:
    """A callback of another system; it fails while `error` is set."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.sent: list[tuple[Any, Any]] = []

    async def resend(self, task: Any, context: Any) -> str:
        self.sent.append((task, context))
        if self.error is not None:
            raise self.error
        return f"sent to {task['to']}"


class Place:
    """A database that outlives its queues."""

    def __init__(self, url: str, schema: str) -> None:
        self.url = url
        self.settings = Settings(schema=schema)

    def queue(self, execute: Any = None, **options: Any) -> DeadLetterQueue:
        return DeadLetterQueue(self.url, execute, settings=self.settings, log=False, **options)


@pytest.fixture(params=["sqlite", "postgres"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    if request.param == "sqlite":
        yield Place(f"sqlite:///{tmp_path / 'failed.db'}", "redrive")
        return
    server: PostgresServer = request.getfixturevalue("live_postgres")
    schema = f"test_{uuid.uuid4().hex}"
    yield Place(server.url, schema)
    connection = await asyncpg.connect(server.url)
    await connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
    await connection.close()


@pytest.fixture
def mailer() -> Mailer:
    return Mailer()


@pytest.fixture
async def dlq(place: Place, mailer: Mailer) -> AsyncIterator[DeadLetterQueue]:
    async with asyncio.timeout(PATIENCE), place.queue(mailer.resend) as queue:
        yield queue


@pytest.fixture
async def small(mailer: Mailer, tmp_path: Path) -> AsyncIterator[DeadLetterQueue]:
    """A queue on SQLite, for tests that do not depend on the database."""
    place = Place(f"sqlite:///{tmp_path / 'failed.db'}", "redrive")
    async with asyncio.timeout(PATIENCE), place.queue(mailer.resend) as queue:
        yield queue


async def by_hand(queue: DeadLetterQueue, text: str) -> list[Any]:
    queries = (SqlQuery("by hand", text.replace("redrive.", ""), ()), SqlQuery("by hand", text, ()))
    return list(await parts_of(queue.app).database.fetch(Statement(*queries), {}))


async def found(queue: DeadLetterQueue, task_id: str) -> FailedTask:
    item = await queue.get(task_id)
    assert item is not None
    return item


async def sound(queue: DeadLetterQueue) -> None:
    verdict = await verify(parts_of(queue.app).database)
    assert verdict.sound, str(verdict)


class Ended:
    """A listener. `event` is set when this many retries have ended."""

    def __init__(self, queue: DeadLetterQueue, number: int) -> None:
        self.event = asyncio.Event()
        self._left = number
        queue.app.listen(self.hear)

    def hear(self, event: Event) -> None:
        self._left -= isinstance(event, ReplayEnded)
        if self._left == 0:
            self.event.set()


def raised(error: Exception) -> Exception:
    """Return the error with a traceback, as if it had been caught."""
    try:
        raise error
    except Exception as caught:
        return caught


class TestStory:
    """The tests of this class run on both databases."""

    async def test_added_tasks_can_be_looked_up(self, dlq: DeadLetterQueue) -> None:
        error = raised(ConnectionResetError("the line was cut"))
        given = await dlq.enqueue(
            "wf-1",
            {"type": "sweep", "to": "ana"},
            error=error,
            context={"repos": ["a", "b"]},
            policy="exponential",
            max_retries=5,
            metadata={"team": "mail"},
            priority=7,
        )
        item = await found(dlq, "wf-1")
        assert item == given
        assert (item.task, item.context) == ({"type": "sweep", "to": "ana"}, {"repos": ["a", "b"]})
        assert (item.error, item.last_error) == ("the line was cut", "the line was cut")
        assert (item.error_category, item.retry_policy) == ("network", "exponential")
        assert (item.retry_count, item.max_retries, item.total_attempts) == (0, 5, 1)
        assert (item.status, item.metadata, item.priority) == ("pending", {"team": "mail"}, 7)
        assert item.next_retry_at is not None
        assert item.next_retry_at - item.failed_at == pytest.approx(60.0)
        assert await dlq.contains("wf-1")
        assert not await dlq.contains("wf-2")
        assert await dlq.get("wf-2") is None
        assert await dlq.size() == 1
        await sound(dlq)

    async def test_retrying_one_now(self, dlq: DeadLetterQueue, mailer: Mailer) -> None:
        """M6."""
        await dlq.enqueue("wf-1", {"to": "ana"}, error=raised(TimeoutError("slow")), context=[1])
        mailer.error = TimeoutError("slower")
        failed = await dlq.retry("wf-1")
        assert not failed
        assert (failed.success, failed.error, failed.result) == (False, "slower", None)
        item = failed.item
        assert (item.status, item.error, item.last_error) == ("pending", "slow", "slower")
        assert (item.total_attempts, item.retry_count) == (2, 0)
        mailer.error = None
        succeeded = await dlq.retry("wf-1", reason="the server is back")
        assert succeeded
        assert (succeeded.error, succeeded.result) == (None, "sent to ana")
        assert succeeded.item.status == "completed"
        assert mailer.sent == [({"to": "ana"}, [1])] * 2
        assert await dlq.size() == 0
        await sound(dlq)

    async def test_lifetime_figures_survive_a_restart(self, place: Place, mailer: Mailer) -> None:
        """M7."""
        async with place.queue(mailer.resend) as dlq:
            await dlq.enqueue("a", {"to": "ana"}, error=raised(TimeoutError()))
            await dlq.enqueue("b", {"to": "bob"}, error="it broke")
            await dlq.enqueue("c", {"to": "cy"}, error="no space", category="resource")
            await dlq.retry("a")
            await dlq.archive("b", reason="not worth it")
        async with place.queue(mailer.resend) as dlq:
            statistics = (await dlq.statistics()).as_dict()
            assert statistics == {
                "queue_size": 1,
                "max_size": 10_000,
                "utilization_percent": 0.01,
                "status_breakdown": {
                    "pending": 1,
                    "retrying": 0,
                    "exhausted": 0,
                    "completed": 1,
                    "discarded": 0,
                    "archived": 1,
                },
                "error_categories": {"resource": 1},
                "retry_policies": {"linear": 1},
                "is_processor_running": False,
                "retry_interval_seconds": 60.0,
                "lifetime_stats": {
                    "enqueued_total": 3,
                    "retry_success": 1,
                    "retry_failed": 0,
                    "exhausted": 0,
                    "manually_retried": 1,
                    "archived": 1,
                    "refused": 0,
                },
            }
            assert (await found(dlq, "c")).task == {"to": "cy"}
            assert [item.task_id for item in await dlq.list()] == ["a", "b", "c"]

    async def test_12_gap_7_statistics_have_zeros_and_two_digits(self, dlq: DeadLetterQueue) -> None:
        """M7: a monitor indexes every status."""
        zeros = dict.fromkeys(["pending", "retrying", "exhausted", "completed", "discarded", "archived"], 0)
        assert (await dlq.statistics()).status_breakdown == zeros
        for number in range(15):
            await dlq.enqueue(str(number), number, error="x")
        assert (await dlq.statistics()).utilization_percent == 0.15

    async def test_due_tasks_are_executed_in_the_background(
        self, dlq: DeadLetterQueue, mailer: Mailer
    ) -> None:
        """M3: the processor executes due tasks in the background."""
        for number in range(5):
            task = {"to": str(number)}
            await dlq.enqueue(str(number), task, error=raised(TimeoutError()), policy="immediate")
        ended = Ended(dlq, 5)
        async with dlq.processing():
            assert dlq.state == "running"
            await ended.event.wait()
            assert (await dlq.statistics()).is_processor_running
        assert dlq.state == "stopped"
        assert sorted(task["to"] for task, _ in mailer.sent) == ["0", "1", "2", "3", "4"]
        assert {item.status for item in await dlq.list()} == {"completed"}
        assert (await found(dlq, "3")).retry_count == 1
        await sound(dlq)

    async def test_the_same_task_again_is_the_same_letter_with_the_newer_error(
        self, dlq: DeadLetterQueue
    ) -> None:
        first = await dlq.enqueue("wf-1", {"to": "ana"}, error=raised(TimeoutError("first")))
        second = await dlq.enqueue(
            "wf-1", {"to": "ana"}, error=raised(ValueError("second")), policy="linear", max_retries=1
        )
        assert (second.id, second.run_id) == (first.id, first.run_id)
        assert (second.task, second.error, second.last_error) == ({"to": "ana"}, "first", "second")
        assert (second.error_category, second.retry_policy, second.max_retries) == ("validation", "linear", 1)
        assert second.total_attempts == 2
        assert await dlq.size() == 1
        assert (await dlq.statistics()).lifetime_stats.enqueued_total == 1
        await sound(dlq)

    async def test_the_same_task_after_it_was_done_is_a_new_one(
        self, dlq: DeadLetterQueue, mailer: Mailer
    ) -> None:
        first = await dlq.enqueue("wf-1", {"to": "ana"}, error=raised(TimeoutError("first")))
        assert await dlq.retry("wf-1")
        second = await dlq.enqueue("wf-1", {"to": "ana"}, error=raised(TimeoutError("second")))
        assert second.id != first.id
        assert (second.status, second.error, second.total_attempts) == ("pending", "second", 1)
        assert [item.status for item in await dlq.list()] == ["completed", "pending"]
        await sound(dlq)

    async def test_many_at_once(self, dlq: DeadLetterQueue) -> None:
        error = raised(TimeoutError())
        names = [str(number % 10) for number in range(40)]
        await asyncio.gather(*(dlq.enqueue(name, name, error=error) for name in names))
        assert await dlq.size() == 10
        assert sum(item.total_attempts for item in await dlq.list()) == 40
        await sound(dlq)

    async def test_clearing_removes_this_queue_only(self, place: Place, mailer: Mailer) -> None:
        """M6: destructive, and guarded."""
        async with place.queue(mailer.resend) as dlq, place.queue(mailer.resend, name="other") as other:
            for queue in (dlq, other):
                await queue.enqueue("a", {"to": "ana"}, error=raised(TimeoutError()))
                await queue.enqueue("b", {"to": "bob"}, error=raised(TimeoutError()), after=["a"])
                await queue.retry("a")
            for confirm in ("", "other", "yes"):
                with pytest.raises(InvalidValueError, match=r"call clear\(confirm='default'\)"):
                    await dlq.clear(confirm=confirm)
            assert await dlq.size() == 1
            assert await dlq.clear(confirm="default") == 2
            assert (await dlq.size(), await dlq.list(), await dlq.get("a")) == (0, [], None)
            assert (await dlq.statistics()).lifetime_stats.enqueued_total == 2
            assert len(await other.list()) == 2
            for table in ("attempts", "replays", "dead_letter_dependencies"):
                [[left]] = await by_hand(dlq, f"SELECT count(*) FROM redrive.{table}")
                assert left == {"attempts": 2, "replays": 1, "dead_letter_dependencies": 1}[table]
            [entry] = await by_hand(
                dlq, "SELECT actor, subject, detail FROM redrive.audit WHERE action = 'queue.cleared'"
            )
            assert tuple(entry) == ("application", "dlq:default", '{"removed":2}')
            assert (await dlq.enqueue("a", 1, error="again")).status == "pending"
            await sound(dlq)

    async def test_a_full_queue_refuses_loudly_and_loses_nothing(self, place: Place, mailer: Mailer) -> None:
        """M6."""
        async with place.queue(mailer.resend, max_size=100) as dlq:
            error = raised(TimeoutError())
            for number in range(100):
                await dlq.enqueue(str(number), number, error=error)
            with pytest.raises(
                QueueFullError, match="the queue is full: it holds 100 dead letters, and max_size is 100"
            ) as no:
                await dlq.enqueue("one more", 1, error=error)
            assert no.value.max_size == 100
            assert await dlq.get("one more") is None
            assert await dlq.size() == 100
            assert (await dlq.enqueue("7", 7, error=error)).total_attempts == 2
            await dlq.archive("0")
            assert (await dlq.enqueue("one more", 1, error=error)).status == "pending"


class TestPolicies:
    @pytest.mark.parametrize(
        ("category", "policy"),
        [
            ("transient", "exponential"),
            ("NETWORK", "exponential"),
            ("resource", "linear"),
            ("permission", "never"),
            ("validation", "never"),
            ("permanent", "never"),
        ],
    )
    async def test_by_category_unless_given(self, small: DeadLetterQueue, category: str, policy: str) -> None:
        """M4."""
        item = await small.enqueue("a", 1, error="it broke", category=category)
        assert (item.error_category, item.retry_policy) == (category.lower(), policy)
        assert (item.next_retry_at is None) is (policy == "never")

    async def test_an_unknown_error_is_left_to_a_person(self, small: DeadLetterQueue) -> None:
        item = await small.enqueue("a", 1, error="it broke")
        assert (item.error_category, item.retry_policy, item.next_retry_at) == ("permanent", "never", None)

    @pytest.mark.parametrize(
        ("text", "category", "policy"),
        [
            ("Connection timeout", "network", "exponential"),
            ("503 Service Unavailable", "transient", "exponential"),
            ("rate limit exceeded", "transient", "exponential"),
            ("out of memory", "resource", "linear"),
            ("permission denied", "permission", "never"),
            ("validation failed", "validation", "never"),
            ("it broke", "permanent", "never"),
        ],
    )
    async def test_13_a_text_is_classified_by_its_words(
        self, small: DeadLetterQueue, text: str, category: str, policy: str
    ) -> None:
        """M4, gap 5."""
        item = await small.enqueue("a", 1, error=text)
        assert (item.error_category, item.retry_policy) == (category, policy)
        assert (item.next_retry_at is None) is (policy == "never")
        assert (item.error, item.last_error) == (text, text)

    async def test_13_the_classifier_of_a_queue_is_asked_with_the_text(self, tmp_path: Path) -> None:
        rule = Rule.when("bank", lambda error: "bank" in str(error), Category.RESOURCE)
        url = f"sqlite:///{tmp_path / 'x.db'}"
        async with DeadLetterQueue(url, classifier=Classifier([rule]), log=False) as dlq:
            item = await dlq.enqueue("a", 1, error="timeout of the bank")
            assert (item.error_category, item.retry_policy) == ("resource", "linear")
            other = await dlq.enqueue("b", 1, error="timeout of the post")
            assert (other.error_category, other.retry_policy) == ("network", "exponential")

    @pytest.mark.parametrize("default", ["exponential", "linear"])
    async def test_13_an_explicit_number_of_retries_is_a_wish_to_be_redriven(
        self, tmp_path: Path, default: str
    ) -> None:
        """M1: by the default policy, if the category has none."""
        url = f"sqlite:///{tmp_path / 'x.db'}"
        async with DeadLetterQueue(url, default_policy=default, log=False) as dlq:
            for task_id, error in (("a", "it broke"), ("b", "permission denied")):
                item = await dlq.enqueue(task_id, 1, error=error, max_retries=5)
                assert (item.retry_policy, item.max_retries) == (default, 5)
                assert item.next_retry_at is not None
            none = await dlq.enqueue("c", 1, error="timeout", max_retries=0)
            assert (none.max_retries, none.next_retry_at) == (0, None)
            never = await dlq.enqueue("d", 1, error="timeout", max_retries=5, policy="never")
            assert (never.retry_policy, never.next_retry_at) == ("never", None)

    async def test_13_selective_keeps_texts_that_a_retry_may_fix(self, tmp_path: Path) -> None:
        """M5."""
        url = f"sqlite:///{tmp_path / 'x.db'}"
        async with DeadLetterQueue(url, strategy="selective", log=False) as dlq:
            assert await dlq.offer("a", 1, error="Connection timeout") is not None
            assert await dlq.offer("b", 1, error="503 Service Unavailable") is not None
            assert await dlq.offer("c", 1, error="permission denied") is None
            assert await dlq.offer("d", 1, error="it broke") is None

    async def test_a_category_that_is_given_wins_over_the_error(self, small: DeadLetterQueue) -> None:
        item = await small.enqueue("a", 1, error=raised(ValueError("x")), category="transient")
        assert (item.error_category, item.retry_policy) == ("transient", "exponential")

    async def test_the_default_may_be_another(self, tmp_path: Path) -> None:
        """M9."""
        settings = Settings(dlq_default_policy="immediate", dlq_default_max_retries=9)
        async with DeadLetterQueue(f"sqlite:///{tmp_path / 'x.db'}", settings=settings, log=False) as dlq:
            item = await dlq.enqueue("a", 1, error="x", category="network")
            assert (item.retry_policy, item.max_retries, item.next_retry_at) == (
                "immediate",
                9,
                item.failed_at,
            )

    async def test_every_task_keeps_its_own(self, mailer: Mailer) -> None:
        """After a redrive fails, the next one follows by the same policy, until none is left."""
        own = RetryPolicy(name="own", max_attempts=3, backoff=Backoff(Immediate()))
        dlq = DeadLetterQueue(
            "sqlite://:memory:", mailer.resend, log=False, policies={"soon": lambda n: 5.0 * (n + 1)}
        )
        async with in_memory(dlq.app) as test:
            mailer.error = TimeoutError("still")
            await dlq.enqueue("own", {"to": "a"}, error="x", policy=own, max_retries=2)
            await dlq.enqueue("custom", {"to": "b"}, error="x", policy="custom:soon", max_retries=1)
            await dlq.enqueue("never", {"to": "c"}, error="x", policy="never")
            await test.drain()
            item = await found(dlq, "own")
            assert (item.status, item.retry_policy, item.retry_count) == ("exhausted", "own", 2)
            custom = await found(dlq, "custom")
            assert (custom.status, custom.retry_policy, custom.retry_count) == ("pending", "custom:soon", 0)
            await test.advance(6.0)
            assert await parts_of(dlq.app).worker_in_test().processor.run_once()
            await test.drain()
            custom = await found(dlq, "custom")
            assert (custom.status, custom.retry_count) == ("exhausted", 1)
            assert (await found(dlq, "never")).status == "pending"
            lifetime = (await dlq.statistics()).lifetime_stats
            assert (lifetime.exhausted, lifetime.retry_failed, lifetime.manually_retried) == (2, 3, 0)

    async def test_templates(self, mailer: Mailer, tmp_path: Path) -> None:
        """M12."""
        bank = Template("bank", message_contains="bank", redrive="linear", owner="payments", tags=["bank"])
        url = f"sqlite:///{tmp_path / 'x.db'}"
        async with DeadLetterQueue(url, mailer.resend, log=False, templates=[bank]) as dlq:
            item = await dlq.enqueue("a", 1, error="the bank is closed")
            assert item.retry_policy == "linear"
            assert (await dlq.enqueue("b", 1, error="the bank", policy="never")).retry_policy == "never"
            letter = await parts_of(dlq.app).store.dead_letters.get(item.id, "default")
            assert (letter.template, letter.assignee, letter.tags) == ("bank", "payments", ("bank",))

    async def test_a_template_keeps_explicit_options_of_a_task(self, tmp_path: Path) -> None:
        """M12: the policy and the number, each separately."""
        templates = [
            Template("tagged", message_contains="tagged", tags=["known"]),
            Template("numbered", message_contains="numbered", max_redrives=5),
            Template("slow", message_contains="slow", redrive="linear"),
            Template("both", message_contains="both", redrive="linear", max_redrives=5),
        ]
        own: dict[str, Any] = {"policy": "immediate", "max_retries": 9}
        expected = {
            "tagged": [("exponential", 3), ("exponential", 9), ("immediate", 9)],
            "numbered": [("exponential", 5), ("exponential", 9), ("immediate", 9)],
            "slow": [("linear", 3), ("linear", 9), ("immediate", 9)],
            "both": [("linear", 5), ("linear", 9), ("immediate", 9)],
        }
        url = f"sqlite:///{tmp_path / 'x.db'}"
        async with DeadLetterQueue(url, log=False, templates=templates) as dlq:
            for said, wanted in expected.items():
                for fields, result in zip(({}, {"max_retries": 9}, own), wanted, strict=True):
                    named = f"{said} {sorted(fields)}"
                    item = await dlq.enqueue(named, 1, error=said, category="transient", **fields)
                    assert (item.retry_policy, item.max_retries) == result, named
                    letter = await parts_of(dlq.app).store.dead_letters.get(item.id, "default")
                    assert letter.template == said

    async def test_an_unknown_custom_policy_is_rejected(self, tmp_path: Path) -> None:
        """M1: Redrive would never redrive it."""
        url = f"sqlite:///{tmp_path / 'x.db'}"
        async with DeadLetterQueue(url, log=False, policies={"night": lambda n: 5.0}) as dlq:
            with pytest.raises(
                InvalidValueError,
                match=r"has no policy 'custom:nite'. Known custom policies: custom:night. To add it",
            ):
                await dlq.enqueue("a", 1, error="x", policy="custom:nite")
            assert await dlq.size() == 0
            assert (
                await dlq.enqueue("a", 1, error="x", policy="custom:night")
            ).retry_policy == "custom:night"

    async def test_unsafe_work_is_not_redriven(self, mailer: Mailer, tmp_path: Path) -> None:
        url = f"sqlite:///{tmp_path / 'x.db'}"
        async with DeadLetterQueue(url, mailer.resend, log=False, effect="unsafe") as dlq:
            item = await dlq.enqueue("a", 1, error=raised(TimeoutError()), policy="immediate")
            assert (item.retry_policy, item.next_retry_at) == ("never", None)


class TestDependencies:
    async def test_one_task_waits_for_another(self, mailer: Mailer) -> None:
        """M12."""
        dlq = DeadLetterQueue("sqlite://:memory:", mailer.resend, log=False)
        async with in_memory(dlq.app) as test:
            mailer.error = TimeoutError("still")
            await dlq.enqueue("a", {"to": "a"}, error="x", policy="immediate", max_retries=1)
            await dlq.enqueue("b", {"to": "b"}, error="x", policy="immediate", after=["a"])
            await test.drain()
            assert [task["to"] for task, _ in mailer.sent] == ["a"]
            mailer.error = None
            assert await dlq.retry("a")
            await test.drain()
            assert [task["to"] for task, _ in mailer.sent] == ["a", "a", "b"]

    async def test_a_waiting_task_names_its_dependency_and_can_be_released(
        self, small: DeadLetterQueue, mailer: Mailer
    ) -> None:
        await small.enqueue("a", {"to": "a"}, error="x")
        await small.enqueue("b", {"to": "b"}, error="x", after=["a"])
        with pytest.raises(ReplayRefusedError) as refused:
            await small.retry("b")
        assert str(refused.value) == (
            "the task 'b' can't be retried: it waits for the task 'a', which is pending. Resolve that task "
            "first, or remove the dependency with dlq.unlink('b', 'a')"
        )
        await small.archive("a")
        await small.enqueue("a", {"to": "a"}, error="again")
        with pytest.raises(
            ReplayRefusedError, match=r"'a', which is archived. Remove the dependency with dlq.unlink"
        ):
            await small.retry("b")
        assert mailer.sent == []
        assert not await small.unlink("a", "b")
        assert await small.unlink("b", "a")
        assert not await small.unlink("b", "a")
        assert await small.retry("b")
        await sound(small)

    async def test_a_task_that_waits_for_something_else_says_so(self, small: DeadLetterQueue) -> None:
        mine = await small.enqueue("a", 1, error="x")
        url = parts_of(small.app).database.path  # type: ignore[attr-defined]
        async with DeadLetterQueue(f"sqlite:///{url}", log=False, name="other") as other:
            theirs = await other.enqueue("b", 1, error="x")
            await other.app.failures().link(mine.id, theirs.id)
        with pytest.raises(
            ReplayRefusedError, match=f"for the dead letter {theirs.id} of another queue, which"
        ) as refused:
            await small.retry("a")
        assert str(refused.value).endswith("remove the dependency with dlq.app.failures().unlink")
        assert await small.app.failures().unlink(mine.id, theirs.id)

    @pytest.mark.parametrize("after", ["a", b"a", 5, None])
    async def test_its_dependencies_are_a_list(self, small: DeadLetterQueue, after: Any) -> None:
        await small.enqueue("a", 1, error="x")
        with pytest.raises(InvalidValueError, match="after must be a list of task ids, got "):
            await small.enqueue("b", 1, error="x", after=after)
        assert not await small.contains("b")

    async def test_invalid_arguments(self, small: DeadLetterQueue) -> None:
        with pytest.raises(NotFoundError, match="can't wait for 'nowhere': the queue has no such task"):
            await small.enqueue("a", 1, error="x", after=["nowhere"])
        assert await small.get("a") is None
        await small.enqueue("a", 1, error="x")
        with pytest.raises(InvalidValueError, match="can't wait for 'a', which already waits for it"):
            await small.enqueue("a", 1, error="x", after=["a"])
        await small.enqueue("b", 1, error="x", after=["a"])
        with pytest.raises(InvalidValueError, match="can't wait for 'b', which already waits for it"):
            await small.enqueue("a", 1, error="x", after=["b"])


class TestExecuting:
    @pytest.mark.parametrize("kind", ["async one", "async two", "sync one", "sync two", "lambda", "method"])
    async def test_any_function_of_a_task(self, tmp_path: Path, kind: str) -> None:
        seen: list[Any] = []

        async def async_one(task: Any) -> None:
            seen.append(task)

        async def async_two(task: Any, context: Any) -> None:
            seen.append((task, context))

        def sync_two(task: Any, context: Any) -> None:
            seen.append((task, context))

        functions: dict[str, Callable[..., Any]] = {
            "async one": async_one,
            "async two": async_two,
            "sync one": lambda task: seen.append(task),
            "sync two": sync_two,
            "lambda": lambda *given: seen.append(given),
            "method": seen.append,
        }
        async with DeadLetterQueue(f"sqlite:///{tmp_path / 'x.db'}", functions[kind], log=False) as dlq:
            await dlq.enqueue("a", [1, 2], error="x", context="c")
            assert await dlq.retry("a")
        assert seen == [[1, 2] if kind in ("async one", "sync one", "method") else ([1, 2], "c")]

    @pytest.mark.parametrize("execute", [5, lambda: None, lambda a, b, c: None])
    def test_objects_that_are_not_callbacks(self, execute: Any) -> None:
        with pytest.raises(InvalidValueError, match="execute must"):
            DeadLetterQueue("sqlite://:memory:", execute, log=False)

    async def test_without_a_function_it_only_keeps(self, tmp_path: Path) -> None:
        async with DeadLetterQueue(f"sqlite:///{tmp_path / 'x.db'}", log=False) as dlq:
            await dlq.enqueue("a", 1, error="x", policy="immediate")
            with pytest.raises(InvalidValueError, match="this queue can't execute tasks"):
                await dlq.retry("a")
            with pytest.raises(InvalidValueError, match="this queue can't execute tasks"):
                dlq.start()
            assert (await found(dlq, "a")).status == "pending"

    async def test_starting_twice_is_reported(self, small: DeadLetterQueue) -> None:
        small.start()
        with pytest.raises(TransitionError, match="'default' is already running"):
            small.start()
        await small.stop()
        await small.stop()
        assert small.state == "stopped"

    async def test_retrying_while_it_runs_in_the_background(
        self, small: DeadLetterQueue, mailer: Mailer
    ) -> None:
        await small.enqueue("a", {"to": "ana"}, error="x")
        async with small.processing():
            assert await small.retry("a")
        assert len(mailer.sent) == 1

    async def test_a_completed_task_cannot_be_retried(self, small: DeadLetterQueue) -> None:
        await small.enqueue("a", {"to": "ana"}, error="x")
        await small.archive("a")
        for call in (small.retry, small.archive, small.unlink):
            arguments = ("b", "a") if call == small.unlink else ("b",)
            with pytest.raises(NotFoundError, match="the queue 'default' has no task 'b'"):
                await call(*arguments)
        with pytest.raises(
            ReplayRefusedError, match=r"^the task 'a' can't be retried: it is archived; .* with enqueue$"
        ):
            await small.retry("a")
        with pytest.raises(
            TransitionError,
            match=r"^the task 'a' can't be archived: it is archived; only pending and exhausted",
        ):
            await small.archive("a")

    async def test_a_task_that_is_being_retried_is_left_alone(self, small: DeadLetterQueue) -> None:
        item = await small.enqueue("a", {"to": "ana"}, error="x")
        await small.app.failures().replays.start(item.id)
        with pytest.raises(ReplayRefusedError, match=r"^the task 'a' can't be retried: a retry is already"):
            await small.retry("a")
        with pytest.raises(TransitionError, match=r"^the task 'a' can't be archived: a retry is in progress"):
            await small.archive("a")

    async def test_waiting_for_an_outcome_has_an_end_and_the_retry_continues(self, tmp_path: Path) -> None:
        """M6: a slow function or an open breaker does not block the caller forever."""
        let_go, done = asyncio.Event(), asyncio.Event()

        async def slow(task: Any) -> str:
            await let_go.wait()
            return "done"

        url = f"sqlite:///{tmp_path / 'x.db'}"
        async with asyncio.timeout(PATIENCE), DeadLetterQueue(url, slow, log=False) as dlq:
            dlq.app.listen(lambda event: done.set() if isinstance(event, ReplayEnded) else None)
            await dlq.enqueue("a", 1, error="x")
            with pytest.raises(
                TimeoutError, match=r"^the task 'a' has not finished within 0.01 s. The retry con"
            ):
                await dlq.retry("a", timeout=timedelta(milliseconds=10))
            assert (await found(dlq, "a")).status == "retrying"
            let_go.set()
            await done.wait()
            assert (await found(dlq, "a")).status == "completed"
            with pytest.raises(InvalidValueError, match="timeout must be a number of seconds from 0"):
                await dlq.retry("a", timeout=-1.0)
            with pytest.raises(
                InvalidValueError, match=r"timeout must be a number of seconds from 0 to .*, got -1\.0"
            ):
                await dlq.retry("a", timeout=timedelta(seconds=-1))

    async def test_a_breaker_that_is_open_does_not_keep_the_caller(
        self, tmp_path: Path, mailer: Mailer
    ) -> None:
        url = f"sqlite:///{tmp_path / 'x.db'}"
        async with (
            asyncio.timeout(PATIENCE),
            DeadLetterQueue(url, mailer.resend, breaker="mail", log=False) as dlq,
        ):
            await dlq.app.breakers().force("mail", "open", reason="maintenance")
            await dlq.enqueue("a", {"to": "ana"}, error="x")
            with pytest.raises(TimeoutError, match=r"'a' has not finished within 0.05 s"):
                await dlq.retry("a", timeout=0.05)
            assert mailer.sent == []
            ended = Ended(dlq, 1)
            await dlq.app.breakers().release("mail")
            await dlq.app.breakers().force("mail", "closed", reason="it is back")
            await ended.event.wait()
            assert (await found(dlq, "a")).status == "completed"
            await sound(dlq)

    async def test_a_queue_that_is_closed_leaves_nothing_behind_of_a_retry_that_took_too_long(
        self, tmp_path: Path
    ) -> None:
        begun = asyncio.Event()

        async def endless(task: Any) -> None:
            begun.set()
            await asyncio.Event().wait()

        settings = Settings(worker_grace_sec=0.0)
        url = f"sqlite:///{tmp_path / 'x.db'}"
        before = asyncio.all_tasks()
        async with (
            asyncio.timeout(PATIENCE),
            DeadLetterQueue(url, endless, settings=settings, log=False) as dlq,
        ):
            await dlq.enqueue("a", 1, error="x")
            with pytest.raises(TimeoutError):
                await dlq.retry("a", timeout=0.01)
            await begun.wait()
        assert asyncio.all_tasks() == before
        async with asyncio.timeout(PATIENCE), DeadLetterQueue(url, lambda task: "done", log=False) as dlq:
            ended = Ended(dlq, 1)
            async with dlq.processing():
                await ended.event.wait()
            assert (await found(dlq, "a")).status == "completed"

    def test_starting_without_an_event_loop_says_what_to_use(self) -> None:
        dlq = DeadLetterQueue("sqlite://:memory:", print, log=False)
        with pytest.raises(InvalidValueError, match=r"needs a running event loop.* use dlq\.sync\.start\(\)"):
            dlq.start()
        assert dlq.state == "stopped"

    async def test_only_pending_tasks_have_a_due_time(self, small: DeadLetterQueue) -> None:
        item = await small.enqueue("a", {"to": "ana"}, error="x", policy="linear")
        assert item.next_retry_at is not None
        assert (await small.archive("a")).next_retry_at is None

    async def test_a_failure_that_is_reported_while_it_is_retried_changes_nothing(
        self, small: DeadLetterQueue, mailer: Mailer
    ) -> None:
        await small.enqueue("a", {"to": "ana"}, error="first")
        item = await found(small, "a")
        await small.app.failures().replays.start(item.id)
        again = await small.enqueue("a", {"to": "ana"}, error="second")
        assert (again.status, again.last_error, again.task) == ("retrying", "first", {"to": "ana"})
        ended = Ended(small, 1)
        async with small.processing():
            await ended.event.wait()
        assert mailer.sent == [({"to": "ana"}, None)]
        await sound(small)


class TestStrategies:
    """M5."""

    @pytest.mark.parametrize(
        ("strategy", "kept"),
        [("automatic", {"slow", "wrong"}), ("selective", {"slow"}), ("manual", set()), ("disabled", set())],
    )
    async def test_captured_failures(self, tmp_path: Path, strategy: str, kept: set[str]) -> None:
        errors = {"slow": TimeoutError("slow"), "wrong": ValueError("wrong")}
        async with DeadLetterQueue(f"sqlite:///{tmp_path / 'x.db'}", strategy=strategy, log=False) as dlq:
            for name, error in errors.items():
                with pytest.raises(type(error), match=name):
                    async with dlq.capturing(name, {"name": name}):
                        raise error
            assert {item.task_id for item in await dlq.list()} == kept

    async def test_manual_accepts_added_tasks(self, tmp_path: Path) -> None:
        async with DeadLetterQueue(f"sqlite:///{tmp_path / 'x.db'}", strategy="manual", log=False) as dlq:
            assert (await dlq.enqueue("a", 1, error="x")).status == "pending"

    async def test_disabled_reports_that_it_keeps_nothing(self, tmp_path: Path) -> None:
        settings = Settings(dlq_enabled=False)
        async with DeadLetterQueue(f"sqlite:///{tmp_path / 'x.db'}", settings=settings, log=False) as dlq:
            with pytest.raises(
                InvalidValueError,
                match="the queue rejected the task 'a': the strategy 'disabled' writes no dead letters",
            ):
                await dlq.enqueue("a", 1, error="x")
            assert await dlq.size() == 0


class TestCapturing:
    async def test_a_decorated_function(self, small: DeadLetterQueue) -> None:
        @small.capture(policy="linear")
        async def charge(order: int, *, fast: bool = False) -> int:
            if order < 0:
                raise TimeoutError("no answer")
            return order

        assert await charge(5) == 5
        assert await small.size() == 0
        for _ in range(2):
            with pytest.raises(TimeoutError, match="no answer"):
                await charge(-1, fast=True)
        [item] = await small.list()
        assert item.task == {"args": [-1], "kwargs": {"fast": True}}
        assert item.task_id.startswith("charge:")
        assert (item.total_attempts, item.retry_policy) == (2, "linear")

    async def test_a_custom_id(self, small: DeadLetterQueue) -> None:
        @small.capture(lambda order: f"order-{order}", quiet=True)
        async def charge(order: int) -> int:
            raise TimeoutError

        assert await charge(7) is None
        assert await small.contains("order-7")

    async def test_values_that_cannot_be_stored_are_never_hidden(self, small: DeadLetterQueue) -> None:
        with pytest.raises(TimeoutError) as caught:
            async with small.capturing("a", object(), quiet=True):
                raise TimeoutError("first")
        assert caught.value.__notes__[0].startswith("this failure was not stored in the dead-letter queue: ")

    async def test_a_database_that_is_away_does_not_hide_the_error(self, tmp_path: Path) -> None:
        dlq = DeadLetterQueue(f"sqlite:///{tmp_path / 'nowhere' / 'x.db'}", log=False)
        with pytest.raises(ValueError, match="first") as caught:
            async with dlq.capturing("a", 1, quiet=True):
                raise ValueError("first")
        assert caught.value.__notes__[0].startswith("this failure was not stored in the dead-letter queue: ")
        await dlq.close()

    async def test_stopping_is_no_failure(self, small: DeadLetterQueue) -> None:
        with pytest.raises(asyncio.CancelledError):
            async with small.capturing("a", 1):
                raise asyncio.CancelledError
        assert await small.size() == 0


class TestSync:
    def test_a_program_without_an_event_loop(self, tmp_path: Path) -> None:
        sent: list[Any] = []
        dlq = DeadLetterQueue(f"sqlite:///{tmp_path / 'x.db'}", sent.append, log=False)
        queue = dlq.sync
        assert dlq.sync is queue
        queue.enqueue("a", {"to": "ana"}, error=raised(TimeoutError("slow")))

        @dlq.capture(lambda to: to)
        def send(to: str) -> None:
            raise TimeoutError("slow")

        with pytest.raises(TimeoutError, match="slow"):
            send("b")
        assert ("a" in queue, "b" in queue, "c" in queue, len(queue)) == (True, True, False, 2)
        assert queue["a"].task == {"to": "ana"}
        with pytest.raises(KeyError):
            queue["c"]
        assert queue.get("c") is None
        assert queue.retry("a")
        assert sent == [{"to": "ana"}]
        assert [item.task_id for item in queue.list("pending")] == ["b"]
        assert queue.archive("b").status == "archived"
        assert queue.statistics().lifetime_stats.archived == 1
        queue.start()
        assert queue.state == "running"
        queue.stop()
        assert queue.clear(confirm="default") == 2
        assert bool(queue)
        queue.close()

    def test_almost_like_a_dict(self, tmp_path: Path) -> None:
        """Ids that look like secrets are still the given ids."""
        before = background_threads()
        names = ["a", "AKIAIOSFODNN7EXAMPLE", "password=hunter2-of-ana", "b"]
        with DeadLetterQueue(f"sqlite:///{tmp_path / 'x.db'}", lambda task: task, log=False).sync as queue:
            for name in names:
                queue.enqueue(name, {"name": name}, error="x")
            queue.enqueue("done", 1, error="x")
            queue.archive("done")
            assert list(queue) == names
            assert len(queue) == len(names)
            assert [queue[task_id].task["name"] for task_id in queue] == names
            for task_id in queue:
                assert queue.retry(task_id, timeout=PATIENCE)
            assert list(queue) == []
        assert background_threads() <= before

    def test_capturing_and_processing_without_an_event_loop(self, tmp_path: Path) -> None:
        sent = threading.Semaphore(0)
        url = f"sqlite:///{tmp_path / 'x.db'}"
        options: Any = {"strategy": "selective", "log": False}
        with DeadLetterQueue(url, lambda task: sent.release(), **options).sync as queue:

            @queue.capture(lambda to: f"mail-{to}", quiet=True, policy="immediate")
            def send(to: str) -> None:
                raise TimeoutError("slow")

            send("ana")
            with pytest.raises(TimeoutError), queue.capturing("b", {"to": "bob"}, policy="immediate"):
                raise TimeoutError("slow")
            assert queue.offer("c", 1, error=ValueError("wrong")) is None
            kept = queue.offer("d", 1, error=TimeoutError("slow"), after=["b"])
            assert kept is not None
            assert list(queue) == ["mail-ana", "b", "d"]
            assert queue.unlink("d", "b")
            with queue.processing() as running:
                assert (running, queue.state) == (queue, "running")
                assert [sent.acquire(timeout=PATIENCE) for _ in range(2)] == [True, True]
            assert queue.state == "stopped"
            assert list(queue) == ["d"]

    def test_more_than_a_page_of_them(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tasks, "PAGE_SIZE", 3)
        with DeadLetterQueue(f"sqlite:///{tmp_path / 'x.db'}", log=False).sync as queue:
            names = [str(number) for number in range(7)]
            for name in names:
                queue.enqueue(name, 1, error="x")
            assert list(queue) == names


class TestChecks:
    @pytest.mark.parametrize("task_id", ["", "x" * 256, "a\nb", None, 5])
    async def test_the_id(self, small: DeadLetterQueue, task_id: Any) -> None:
        with pytest.raises(InvalidValueError, match="a task id must be a string of 1 to 255"):
            await small.enqueue(task_id, 1, error="x")

    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"policy": "sometimes"}, "a redrive policy must be never"),
            ({"max_retries": -1}, "max_retries must be a whole number from 0 to 1,000"),
            ({"category": "bad"}, "category must be one of transient"),
            ({"metadata": [1]}, "metadata must be of type Mapping"),
            ({"priority": 101}, "priority must be a whole number from -100 to 100"),
            ({"contxt": 1}, "a failed task has no field 'contxt'; did you mean 'context'"),
            ({"context": object()}, "object"),
        ],
    )
    async def test_the_fields(self, small: DeadLetterQueue, fields: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidValueError, match=message):
            await small.enqueue("a", 1, error="x", **fields)
        assert await small.size() == 0

    @loop_over(
        ("options", "message"),
        [
            ({"max_size": 99}, "dlq_max_size must be a whole number from 100 to 100,000"),
            ({"max_retries": 11}, "dlq_default_max_retries must be a whole number from 0 to 10"),
            ({"interval": 9}, "dlq_interval_sec must be a number from 10 to 3,600"),
            (
                {"interval": timedelta(seconds=9)},
                "dlq_interval_sec must be a number from 10 to 3,600, got 9.0",
            ),
            (
                {"timeout": timedelta(0)},
                "timeout must be a number of seconds from 0.001 to 31,536,000, got 0.0",
            ),
            ({"strategy": "some"}, "dlq_strategy must be one of automatic"),
            ({"by": "redrive"}, "the name 'redrive' is reserved for Redrive"),
            ({"name": ""}, "the name of a dead-letter queue"),
            ({"timeot": 5}, "a dead-letter queue has no option 'timeot'; did you mean 'timeout'"),
            ({"max_sise": 500}, "a dead-letter queue has no option 'max_sise'; did you mean 'max_size'"),
            (
                {"zzz": 1},
                "use one of: access, archive_days, breaker, by, .*interval, .*org, .*templates, .*url",
            ),
            ({"default_policy": "sometimes"}, "dlq_default_policy must be one of"),
            ({"archive_days": 0}, "dlq_archive_days must be a number from 0.01"),
            ({"templates": ["bank"]}, "template must be of type Template"),
        ],
    )
    def test_the_options(self, options: dict[str, Any], message: str) -> None:
        """M9: the message names the limits."""
        with pytest.raises(InvalidValueError, match=message):
            DeadLetterQueue("sqlite://:memory:", log=False, **options)

    async def test_options_reach_their_parts(self, tmp_path: Path) -> None:
        """M9, M10."""
        thresholds = Thresholds(exhausted=0)
        options: Any = {"thresholds": thresholds, "redactor": Redactor(extra_keys=["flavour"])}
        options |= {"limits": JsonLimits(size=2_000), "default_policy": "immediate", "archive_days": None}
        url = f"sqlite:///{tmp_path / 'x.db'}"
        async with DeadLetterQueue(
            url, log=False, max_size=500, interval=timedelta(seconds=30), **options
        ) as dlq:
            found = parts_of(dlq.app).processor().options
            assert (found.thresholds, found.archive_seconds) == (thresholds, None)
            assert (found.queue, found.max_size, found.interval_seconds) == ("dlq:default", 500, 30)
            item = await dlq.enqueue("a", 1, error="flavour=vanilla-canary", category="network")
            assert item.retry_policy == "immediate"
            assert "vanilla-canary" not in item.error
            with pytest.raises(InvalidValueError):
                await dlq.enqueue("b", "x" * 3_000, error="x")
        by_default = parts_of(DeadLetterQueue(url, log=False).app).processor().options
        assert (by_default.archive_seconds, by_default.thresholds) == (7 * 86_400.0, Thresholds())

    async def test_an_alert_by_a_custom_threshold(self, mailer: Mailer) -> None:
        """M10."""
        told: list[Event] = []
        thresholds = Thresholds(exhausted=0)
        dlq = DeadLetterQueue("sqlite://:memory:", mailer.resend, log=False, thresholds=thresholds)
        dlq.app.listen(told.append)
        async with in_memory(dlq.app) as test:
            mailer.error = TimeoutError("still")
            await dlq.enqueue("a", {"to": "a"}, error="x", policy="immediate", max_retries=1)
            await test.drain()
            await parts_of(dlq.app).worker_in_test().processor.run_once()
        assert "many_exhausted" in {each.alert for each in told if isinstance(each, AlertRaised)}

    def test_its_representation_has_its_name_and_no_address(self) -> None:
        dlq = DeadLetterQueue("postgresql://ana:hunter2@db/x", log=False, name="mail", org="acme")
        assert repr(dlq) == "<DeadLetterQueue 'mail' of 'acme', stopped>"
        assert repr(dlq.sync) == "<blocking <DeadLetterQueue 'mail' of 'acme', stopped>>"
        assert repr(DeadLetterQueue("sqlite://:memory:", log=False)) == "<DeadLetterQueue 'default', stopped>"

    @pytest.mark.parametrize("limit", [0, 1001])
    async def test_the_limit(self, small: DeadLetterQueue, limit: int) -> None:
        with pytest.raises(InvalidValueError, match="limit must be a whole number from 1 to 1,000"):
            await small.list(limit=limit)

    async def test_the_status(self, small: DeadLetterQueue) -> None:
        for name in ("a", "b", "c"):
            await small.enqueue(name, 1, error="x")
        await small.archive("b")
        assert [item.task_id for item in await small.list("pending", limit=1)] == ["a"]
        assert [item.task_id for item in await small.list("archived")] == ["b"]
        assert await small.list("exhausted") == []
        with pytest.raises(
            InvalidValueError, match="unknown state 'open-ish'; use one of: pending, retrying"
        ):
            await small.list("open-ish")

    async def test_an_error_is_an_exception_or_a_text(self, small: DeadLetterQueue) -> None:
        error: Any = 5
        with pytest.raises(InvalidValueError, match="error must be of type BaseException or str"):
            await small.enqueue("a", 1, error=error)


class TestTenantsAndSecrets:
    async def test_another_org_sees_nothing(self, tmp_path: Path) -> None:
        """W13."""
        url = f"sqlite:///{tmp_path / 'x.db'}"
        async with (
            DeadLetterQueue(url, log=False, org="acme") as acme,
            DeadLetterQueue(url, log=False, org="other") as other,
        ):
            await acme.enqueue("a", 1, error="x")
            assert (await other.get("a"), await other.list(), await other.size()) == (None, [], 0)
            with pytest.raises(NotFoundError):
                await other.archive("a")
            await other.enqueue("a", 2, error="x")
            assert await other.clear(confirm="default") == 1
            assert (await found(acme, "a")).task == 1

    async def test_letters_and_audit_are_redacted(self, small: DeadLetterQueue) -> None:
        """W14: the input that the task needs to execute stays unredacted."""
        secret = "AKIAIOSFODNN7EXAMPLE"
        await small.enqueue(
            "a", {"password": secret}, error=f"denied for key {secret}", metadata={"k": secret}
        )
        assert (await found(small, "a")).task == {"password": secret}
        tables = ("dead_letters", "attempts", "audit", "failure_groups")
        for table in tables:
            rows = await by_hand(small, f"SELECT * FROM redrive.{table}")
            assert rows
            assert secret not in str([tuple(row) for row in rows])

    @pytest.mark.parametrize(
        ("said", "kept"),
        [
            ("a\x00b", "a␀b"),
            ("a\ud800b", None),
            ("", "no message"),
            ("x" * 3_985 + " AKIAIOSFODNN7EXAMPLE", None),
        ],
        ids=["NUL", "surrogate", "nothing", "cut"],
    )
    async def test_texts_about_an_error_are_stored_without_their_secrets(
        self, small: DeadLetterQueue, said: str, kept: str | None
    ) -> None:
        """W14: also where a long text is cut."""
        item = await small.enqueue("a", 1, error=said)
        assert kept is None or item.error == kept
        assert not {"\x00", "\ud800"} & set(item.error)
        assert "AKIA" not in item.error

    async def test_queues_whose_names_and_ids_run_together_are_different(self, tmp_path: Path) -> None:
        url = f"sqlite:///{tmp_path / 'x.db'}"
        async with (
            DeadLetterQueue(url, log=False, name="a") as first,
            DeadLetterQueue(url, log=False, name="a:b") as second,
        ):
            await first.enqueue("b:c", 1, error="x")
            await second.enqueue("c", 2, error="x")
            assert ((await found(first, "b:c")).task, (await found(second, "c")).task) == (1, 2)

    async def test_encrypted_values_are_nowhere_in_the_file(self, tmp_path: Path, mailer: Mailer) -> None:
        """M11, I9."""
        file, canary = tmp_path / "x.db", "canary-5dd1f1"
        settings = Settings(encryption_keys=(new_encryption_key(),))
        async with DeadLetterQueue(f"sqlite:///{file}", mailer.resend, settings=settings, log=False) as dlq:
            task = {"to": "ana", "password": canary}
            fields: Any = {"context": {"api_key": canary}, "metadata": {"token": canary}}
            await dlq.enqueue("a", task, error=raised(TimeoutError()), **fields)
            assert await dlq.retry("a")
            item = await found(dlq, "a")
            assert (item.task, item.metadata) == (task, {"token": canary})
            assert mailer.sent == [(task, {"api_key": canary})]
        for each in tmp_path.iterdir():
            assert canary.encode() not in each.read_bytes()

    async def test_it_is_told(self, small: DeadLetterQueue) -> None:
        told: list[Event] = []
        small.app.listen(told.append)
        item = await small.enqueue("a", 1, error="x")
        await small.archive("a", reason="old")
        [died] = [each for each in told if isinstance(each, StepDied)]
        assert (died.dlq_id, died.ref.correlation_id) == (item.id, "a")
        [changed] = [each for each in told if isinstance(each, DeadLetterChanged)]
        assert (changed.dlq_id, changed.after, changed.by) == (item.id, "ARCHIVED", "application")
