"""The stand-alone queue under attack (M1-M7, M9, M11, W13): texts, full queues, other tenants, restarts.

No accepted task is lost, no rejected task exists, and no queue touches another.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from tests.servers import PostgresServer
from tests.store.build import TABLES, ask
from tests.store.schemas import Schemas

from redrive.dead_letter_queue.queue import DeadLetterQueue
from redrive.errors import (
    InvalidValueError,
    NotFoundError,
    QueueFullError,
    RedriveError,
    ReplayRefusedError,
    TransitionError,
)
from redrive.model.failed_task import FailedTask
from redrive.parts import parts_of
from redrive.settings import Settings
from redrive.testing import in_memory
from redrive.verify import verify

PATIENCE = 60.0
SECRET = "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc"
WORD = "correct-horse-canary"
CARD = "4111111111111111"

HOSTILE = {
    "NUL": "a\x00b",
    "lone surrogate": "a\ud800b",
    "escape": "\x1b[31mred",
    "right to left": "abc\u202egpj.exe",
    "quote": "'; DROP TABLE runs; --",
    "wildcards": "%_%",
    "dollar": "$1 ?1 :org {org} %(org)s",
    "backslash": "\\' \\u0000",
    "sealed": '{"$sealed":"540ddb8c:gAAAA"}',
    "astral": "\U0001f4a5",
    "newline": "a\nINFO forged",
    "blank": "   ",
    "empty": "",
    "long": "x" * 3_000_000,
}


class Callback:
    """A callback that fails while `error` is set, and remembers its arguments."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.given: list[tuple[Any, Any]] = []

    async def __call__(self, task: Any, context: Any) -> str:
        self.given.append((task, context))
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        return "done"


class Place:
    def __init__(self, url: str, schema: str) -> None:
        self.url, self.schema = url, schema
        self.queues: list[DeadLetterQueue] = []

    def queue(
        self, execute: Any = None, *, keys: tuple[str, ...] | None = None, **options: Any
    ) -> DeadLetterQueue:
        settings = Settings(schema=self.schema, encryption_keys=keys)
        queue = DeadLetterQueue(self.url, execute, settings=settings, log=False, **options)
        self.queues.append(queue)
        return queue

    async def everything(self) -> dict[str, list[str]]:
        kept = [table for table in TABLES if table not in {"workers", "processors", "limits"}]
        database = parts_of(self.queues[0].app).database
        rows = {table: await ask(database, f"SELECT * FROM redrive.{table}") for table in kept}
        return {table: sorted(map(repr, several)) for table, several in rows.items()}


@pytest.fixture(params=["sqlite", "postgres"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    async with contextlib.AsyncExitStack() as stack:
        if request.param == "sqlite":
            place = Place(f"sqlite:///{tmp_path / 'failed.db'}", "redrive")
        else:
            server: PostgresServer = request.getfixturevalue("live_postgres")
            schemas: Schemas = request.getfixturevalue("schemas")
            place = Place(server.url, await stack.enter_async_context(schemas.lent()))
        async with asyncio.timeout(PATIENCE):
            yield place
        for queue in place.queues:
            await queue.close()


@pytest.fixture
def callback() -> Callback:
    return Callback()


async def found(queue: DeadLetterQueue, task_id: str) -> FailedTask:
    item = await queue.get(task_id)
    assert item is not None
    return item


async def sound(queue: DeadLetterQueue, org: str = "default") -> None:
    verdict = await verify(parts_of(queue.app).database)
    assert verdict.sound, str(verdict)
    audit = await queue.app.failures(org=org).audit.verify()
    assert audit.sound, str(audit)


# Texts


async def test_hostile_ids_are_exactly_themselves_or_refused(place: Place, callback: Callback) -> None:
    dlq = place.queue(callback)
    kept = {}
    for name, text in HOSTILE.items():
        try:
            kept[text] = (await dlq.enqueue(text, {"name": name}, error="x")).id
        except InvalidValueError:
            assert not text.isprintable() or not text or len(text) > 255, name
            for call in (dlq.get, dlq.contains, dlq.retry, dlq.archive):
                with pytest.raises((InvalidValueError, NotFoundError)):
                    await call(text)
    assert len(kept) >= 6
    for text, letter_id in kept.items():
        assert (await found(dlq, text)).id == letter_id
        assert await dlq.retry(text)
        assert (await found(dlq, text)).status == "completed"
    assert await dlq.get("%") is None
    assert await dlq.get("_") is None
    assert await dlq.size() == 0
    await sound(dlq)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
async def test_storing_a_failure_never_fails_for_any_text(place: Place, text: str) -> None:
    """Decision 9: an error that a caller reports as text is stored like a raised one."""
    dlq = place.queue()
    reported = await dlq.enqueue("reported", 1, error=text)
    raised = await dlq.enqueue("raised", 1, error=ValueError(text))
    for item in (reported, raised):
        assert item.status == "pending"
        assert "\x00" not in item.error
        assert len(item.error) < 10_000
        assert await found(dlq, item.task_id) == item
    await sound(dlq)


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


class Endless(Exception):
    def __str__(self) -> str:
        return "x" * 50_000_000


@pytest.mark.parametrize(
    "error",
    [Unprintable(), Endless(), SystemExit(3), ExceptionGroup("several", [ValueError("a"), TimeoutError()])],
    ids=["unprintable", "endless", "exit", "group"],
)
async def test_errors_that_misbehave_are_kept_and_raised_ones_end_in_a_failure(
    place: Place, callback: Callback, error: BaseException
) -> None:
    dlq = place.queue(callback)
    await dlq.enqueue("a", 1, error=error)
    callback.error = error
    outcome = await dlq.retry("a")
    assert not outcome
    assert outcome.item.status == "pending"
    callback.error = None
    assert await dlq.retry("a")
    await sound(dlq)


async def test_payloads_arrive_unchanged(place: Place, callback: Callback) -> None:
    dlq = place.queue(callback)
    tasks: list[Any] = [
        *list(HOSTILE.values())[:-1],
        {"$sealed": "x"},
        {"\x00": ["\ud800"]},
        10**40,
        -0.0,
        None,
        [],
        {"␛": 1},
    ]
    for number, task in enumerate(tasks):
        item = await dlq.enqueue(str(number), task, error="x", context={"c": task}, metadata={"m": task})
        assert (item.task, item.context, item.metadata) == (task, {"c": task}, {"m": task})
        assert await dlq.retry(str(number))
        assert callback.given[-1] == (task, {"c": task})
    await sound(dlq)


async def test_values_that_cannot_be_stored_are_rejected_without_a_trace(place: Place) -> None:
    dlq = place.queue()
    await dlq.enqueue("a", 1, error="x")
    before = await place.everything()
    deep: Any = []
    for _ in range(5_000):
        deep = [deep]
    bad: Any
    for bad in (float("nan"), object(), {1: 2}, deep, "x" * 2_000_000):
        for task, fields in ((bad, {}), (1, {"context": bad}), (1, {"metadata": {"m": bad}})):
            for task_id in ("a", "b"):
                with pytest.raises(InvalidValueError):
                    await dlq.enqueue(task_id, task, error="x", **fields)
    assert await place.everything() == before


async def test_queues_whose_names_and_ids_run_together_are_still_different_queues(place: Place) -> None:
    """Queue "a" with the task "b:c", and queue "a:b" with the task "c"."""
    first, second = place.queue(name="a"), place.queue(name="a:b")
    one = await first.enqueue("b:c", {"of": "a"}, error="x")
    two = await second.enqueue("c", {"of": "a:b"}, error="y")
    assert one.id != two.id
    assert ((await found(first, "b:c")).task, (await found(second, "c")).task) == ({"of": "a"}, {"of": "a:b"})
    assert (await first.size(), await second.size()) == (1, 1)
    await sound(first)


async def test_a_run_with_the_key_of_a_task_is_unchanged_when_the_task_is_enqueued(place: Place) -> None:
    """G6, G8: the run keeps its own key; a duplicate command never causes a second execution."""
    dlq = place.queue()

    async def other(value: int) -> int:
        return value

    dlq.app.task(other, name="other")  # type: ignore[call-overload]
    item = await dlq.enqueue("a", 1, error="x")
    key = (await dlq.app.run(item.run_id).view()).idempotency_key
    assert key is not None
    await dlq.clear(confirm="default")
    try:
        run = await dlq.app.start("other", 5, key=key)
    except InvalidValueError:
        return  # runs can't have such keys
    with contextlib.suppress(RedriveError):
        assert (await dlq.enqueue("a", {"mine": True}, error="x")).run_id != run.id
    assert (await dlq.app.start("other", 5, key=key)).id == run.id
    await sound(dlq)


async def test_a_reported_error_is_redacted_before_it_is_cut_i9(place: Place) -> None:
    """Half a secret is not recognizable: wherever the text is cut, no piece of a card number remains."""
    dlq = place.queue()
    for length in (3_985, 3_990, 3_999):
        item = await dlq.enqueue(str(length), 1, error="x" * (length - 1) + " " + CARD)
        assert "4111" not in item.error
        letter = await dlq.app.failures().view(item.id)
        # Only in these: an id or a time may happen to contain the digits.
        assert "4111" not in " ".join((letter.message, letter.stack, letter.title, letter.public_message))


# A full queue (M6)


async def test_a_full_queue_accepts_exactly_its_limit_and_then_freed_places(
    place: Place, callback: Callback
) -> None:
    dlq = place.queue(callback, max_size=100)
    for number in range(99):
        await dlq.enqueue(str(number), number, error="x")
    assert (await dlq.statistics()).utilization_percent == 99.0
    assert (await dlq.enqueue("99", 99, error="x")).status == "pending"
    before = await place.everything()
    for _ in range(3):
        with pytest.raises(QueueFullError):
            await dlq.enqueue("100", 100, error="x")
    after = await place.everything()
    refused = {table for table in before if before[table] != after[table]}
    assert refused <= {"dead_letter_figures"}, "nothing but the count of what was refused"
    assert await dlq.retry("0")
    await dlq.enqueue("100", 100, error="x")
    with pytest.raises(QueueFullError):
        await dlq.enqueue("101", 101, error="x")
    assert (await dlq.enqueue("50", 50, error="y")).total_attempts == 2, "it has its place already"
    assert {item.task_id for item in await dlq.list("pending", limit=1000)} == {
        str(number) for number in range(1, 101)
    }
    await sound(dlq)


async def test_tasks_that_a_full_queue_rejects_are_counted_m6(place: Place) -> None:
    """A metric counts them."""
    dlq = place.queue(max_size=100)
    for number in range(100):
        await dlq.enqueue(str(number), number, error="x")
    for _ in range(3):
        with pytest.raises(QueueFullError):
            await dlq.enqueue("one more", 1, error="x")
    assert (await dlq.statistics()).lifetime_stats.refused == 3


async def test_the_last_places_are_given_once_however_many_ask_at_once(place: Place) -> None:
    queues = [place.queue(max_size=100), place.queue(max_size=100)]
    for number in range(95):
        await queues[0].enqueue(str(number), number, error="x")
    answers = await asyncio.gather(
        *(queues[number % 2].enqueue(f"new {number}", number, error="x") for number in range(30)),
        return_exceptions=True,
    )
    kept = [each.task_id for each in answers if isinstance(each, FailedTask)]
    assert len(kept) == 5
    assert all(isinstance(each, QueueFullError) for each in answers if not isinstance(each, FailedTask))
    assert await queues[0].size() == 100
    for number in range(30):
        assert await queues[0].contains(f"new {number}") is (f"new {number}" in kept)
    await sound(queues[0])


@pytest.mark.parametrize(
    ("option", "good", "bad"),
    [
        ("max_size", [100, 100_000], [99, 100_001, 0, -1, True, "100", 1e3]),
        ("max_retries", [0, 10], [-1, 11, True, "3"]),
        ("interval", [10, 3_600], [9.99, 3_600.01, float("nan"), "60", True]),
    ],
)
def test_settings_hold_at_their_bounds_and_not_one_beyond_m9(
    option: str, good: list[Any], bad: list[Any]
) -> None:
    for value in good:
        DeadLetterQueue("sqlite://:memory:", log=False, **{option: value})
    for value in bad:
        with pytest.raises(InvalidValueError, match=r"from .* to "):
            DeadLetterQueue("sqlite://:memory:", log=False, **{option: value})


async def test_limits_of_fields_and_lists(place: Place) -> None:
    dlq = place.queue()
    good: list[dict[str, Any]] = [
        {"max_retries": 0},
        {"max_retries": 1_000},
        {"priority": -100},
        {"priority": 100},
    ]
    for fields in good:
        await dlq.enqueue(str(fields), 1, error="x", **fields)
    before = await place.everything()
    wrong: list[dict[str, Any]] = [
        {"max_retries": -1},
        {"max_retries": 1_001},
        {"max_retries": True},
        {"priority": -101},
        {"priority": 101},
        {"policy": "sometimes"},
        {"policy": "custom:"},
        {"policy": 5},
        {"category": ""},
        {"metadata": "text"},
        {"after": ["nowhere"]},
    ]
    for fields in wrong:
        with pytest.raises((InvalidValueError, NotFoundError)):
            await dlq.enqueue("b", 1, error="x", **fields)
    assert await place.everything() == before
    for limit in (1, 1_000):
        assert await dlq.list(limit=limit)
    bad: list[Any] = [0, -1, 1_001, True, 1.5, "5", None]
    for each in bad:
        with pytest.raises(InvalidValueError):
            await dlq.list(limit=each)
    for status in ("", "OPEN'", "%", "pending ", "\x00"):
        with pytest.raises(InvalidValueError):
            await dlq.list(status)


@pytest.mark.parametrize(
    "name", ["a\x00b", "a\ud800b", "a\nb", "x" * 1_000_000], ids=["NUL", "surrogate", "line", "long"]
)
async def test_the_name_of_a_custom_policy_is_checked_before_it_is_kept(place: Place, name: str) -> None:
    dlq = place.queue()
    await dlq.enqueue("a", 1, error="x")
    before = await place.everything()
    with pytest.raises(InvalidValueError):
        await dlq.enqueue("b", 1, error="x", policy=f"custom:{name}")
    assert await place.everything() == before


# Every status, every verb

ALLOWED = {
    "pending": {"retry", "archive"},
    "retrying": set(),
    "exhausted": {"retry", "archive"},
    "completed": set(),
    "discarded": set(),
    "archived": set(),
}


async def item_in(place: Place, dlq: DeadLetterQueue, callback: Callback, status: str) -> str:
    failures = dlq.app.failures(by="zoe")
    item = await dlq.enqueue("it", 1, error=TimeoutError("x"), policy="immediate", max_retries=1)
    if status == "retrying":
        await failures.replay(item.id)
    elif status == "exhausted":
        callback.error = TimeoutError("still")
        await parts_of(dlq.app).worker_in_test().work_off()
        callback.error = None
    elif status == "completed":
        assert await dlq.retry("it")
    elif status == "discarded":
        await failures.ignore(item.id, "r")
    elif status == "archived":
        await dlq.archive("it")
    assert (await found(dlq, "it")).status == status
    return item.id


@pytest.mark.parametrize("status", ALLOWED)
@pytest.mark.parametrize("verb", ["retry", "archive"])
async def test_a_task_moves_as_the_table_allows_or_not_at_all(
    place: Place, callback: Callback, status: str, verb: str
) -> None:
    dlq = place.queue(callback)
    await item_in(place, dlq, callback, status)
    executed = len(callback.given)
    if verb in ALLOWED[status]:
        await getattr(dlq, verb)("it", reason="why")
        assert (await found(dlq, "it")).status == {"retry": "completed", "archive": "archived"}[verb]
    else:
        before = await place.everything()
        with pytest.raises((TransitionError, ReplayRefusedError)):
            await getattr(dlq, verb)("it", reason="why")
        assert await place.everything() == before
        assert len(callback.given) == executed
    await sound(dlq)


async def test_the_same_id_again_after_it_was_closed_is_a_new_task_and_the_old_one_stays(
    place: Place, callback: Callback
) -> None:
    dlq = place.queue(callback)
    ids = []
    for number in range(4):
        ids.append((await dlq.enqueue("it", number, error="x")).id)
        await (dlq.archive("it") if number % 2 else dlq.retry("it"))
    assert len(set(ids)) == 4
    assert [(item.task, item.status) for item in await dlq.list()] == [
        (0, "completed"),
        (1, "archived"),
        (2, "completed"),
        (3, "archived"),
    ]
    lifetime = (await dlq.statistics()).lifetime_stats
    assert (lifetime.enqueued_total, lifetime.retry_success, lifetime.archived) == (4, 2, 2)
    await sound(dlq)


# Clearing


async def test_clearing_is_guarded_and_leaves_executing_and_foreign_tasks(
    place: Place, callback: Callback
) -> None:
    dlq, other, foreign = (
        place.queue(callback),
        place.queue(callback, name="b"),
        place.queue(callback, org="acme"),
    )
    for queue in (dlq, other, foreign):
        for number in range(3):
            await queue.enqueue(str(number), number, error="x")
    await dlq.app.failures().replay((await found(dlq, "0")).id)
    before = await place.everything()
    confirmations: list[Any] = ["", "b", "DEFAULT", "default ", "yes", "%", None, True, 1]
    for confirm in confirmations:
        with pytest.raises(InvalidValueError):
            await dlq.clear(confirm=confirm)
    with pytest.raises(TypeError):
        await dlq.clear()  # type: ignore[call-arg]
    assert await place.everything() == before
    assert await dlq.clear(confirm="default") == 2
    assert [item.status for item in await dlq.list()] == ["retrying"]
    assert (await other.size(), await foreign.size()) == (3, 3)
    await parts_of(dlq.app).worker_in_test().work_off()
    assert (await found(dlq, "0")).status == "completed"
    await sound(dlq)
    await sound(dlq, "acme")


# Other tenants (W13)

ATTACKS: dict[str, Callable[[DeadLetterQueue], Awaitable[Any]]] = {
    "archive": lambda queue: queue.archive("it"),
    "contains": lambda queue: queue.contains("it"),
    "get": lambda queue: queue.get("it"),
    "list": lambda queue: queue.list(),
    "retry": lambda queue: queue.retry("it"),
    "size": lambda queue: queue.size(),
    "statistics": lambda queue: queue.statistics(),
    "clear": lambda queue: queue.clear(confirm="default"),
    "unlink": lambda queue: queue.unlink("it", "other"),
    "strategy": lambda queue: queue.strategy(),
    "set_strategy": lambda queue: queue.set_strategy("manual"),
    "get_task": lambda queue: queue.get_task("it"),
    "list_tasks": lambda queue: queue.list_tasks(),
    "retry_task": lambda queue: queue.retry_task("it"),
    "archive_task": lambda queue: queue.archive_task("it"),
    "get_statistics": lambda queue: queue.get_statistics(),
    "clear_all": lambda queue: queue.clear_all(confirm="default"),
}
OF_ITS_OWN = {
    *("capture", "capturing", "close", "enqueue", "offer", "on_behalf_of", "processing", "start", "stop"),
    *("start_retry_processor", "stop_retry_processor"),
}
"""Methods that name no task of another queue."""


async def test_a_queue_of_another_organization_shows_and_does_nothing_w13(
    place: Place, callback: Callback
) -> None:
    public = {name for name, _ in inspect.getmembers(DeadLetterQueue, callable) if not name.startswith("_")}
    assert public == ATTACKS.keys() | OF_ITS_OWN, "attack the new one, too"
    dlq, stranger = place.queue(callback, org="acme"), place.queue(callback, org="stranger")
    await dlq.enqueue("other", 1, error="x")
    await dlq.enqueue("it", {"canary": WORD}, error=WORD, metadata={"canary": WORD}, after=["other"])
    before = await place.everything()
    for name, attack in ATTACKS.items():
        try:
            told = repr(await attack(stranger))
        except RedriveError as error:
            told = str(error)
        assert WORD not in told, name
    after = await place.everything()
    mine = {table: [row for row in rows if "'stranger'" not in row] for table, rows in after.items()}
    assert mine == before
    assert (await found(dlq, "it")).status == "pending"
    assert callback.given == []
    await sound(dlq, "acme")


async def test_the_same_id_in_two_organizations_is_two_tasks(place: Place, callback: Callback) -> None:
    queues = [place.queue(callback, org=org) for org in ("acme", "other")]
    for number, queue in enumerate(queues):
        await queue.enqueue("it", number, error="x", after=[])
    assert await queues[0].retry("it")
    assert [(await found(queue, "it")).status for queue in queues] == ["completed", "pending"]
    with pytest.raises(NotFoundError):
        await queues[0].enqueue("b", 1, error="x", after=["only there"])


# Executing


async def test_two_programs_execute_every_due_task_once(place: Place, callback: Callback) -> None:
    """M3: several processors at once."""
    queues = [place.queue(callback), place.queue(callback)]
    for number in range(40):
        await queues[0].enqueue(str(number), number, error=TimeoutError(), policy="immediate")
    await asyncio.gather(
        *(parts_of(queue.app).worker_in_test().work_off() for queue in queues for _ in range(2))
    )
    for queue in queues:
        await parts_of(queue.app).worker_in_test().work_off()
    assert Counter(task for task, _ in callback.given) == Counter(range(40))
    statistics = await queues[1].statistics()
    assert {state: number for state, number in statistics.status_breakdown.items() if number} == {
        "completed": 40
    }
    assert statistics.lifetime_stats.retry_success == 40
    await sound(queues[0])


async def test_however_often_it_is_retried_at_once_it_is_executed_once(
    place: Place, callback: Callback
) -> None:
    queues = [place.queue(callback), place.queue(callback)]
    await queues[0].enqueue("it", 1, error="x")
    answers = await asyncio.gather(
        *(queues[number % 2].retry("it") for number in range(12)), return_exceptions=True
    )
    assert len(callback.given) == 1
    assert any(not isinstance(each, BaseException) and each.success for each in answers)
    refused = [each for each in answers if isinstance(each, BaseException)]
    assert all(isinstance(each, ReplayRefusedError | TransitionError) for each in refused), refused
    assert (await queues[0].statistics()).lifetime_stats.manually_retried == 1
    await sound(queues[0])


@pytest.mark.parametrize(
    ("category", "waits"), [("transient", [1, 2, 4, 8, 16, 32, 60, 60]), ("resource", [5, 10, 15, 20])]
)
async def test_waits_by_category_are_exactly_those_of_the_table_m1_m4(
    callback: Callback, category: str, waits: list[float]
) -> None:
    dlq = DeadLetterQueue("sqlite://:memory:", callback, log=False)
    at: list[float] = []

    async def noted(task: Any) -> None:
        at.append(parts_of(dlq.app).clock.now())
        # The same kind of error again, so that the category stays the same.
        raise TimeoutError("still") if category == "transient" else MemoryError("still")

    dlq = DeadLetterQueue("sqlite://:memory:", noted, log=False)
    async with in_memory(dlq.app) as test, asyncio.timeout(PATIENCE):
        item = await dlq.enqueue("it", 1, error="x", category=category, max_retries=len(waits))
        await test.advance(2 * 86_400.0)
        gaps = [(later - earlier) / 60.0 for earlier, later in pairwise([item.failed_at, *at])]
        assert gaps == pytest.approx(waits)
        ended = await found(dlq, "it")
        assert (ended.status, ended.retry_count, ended.max_retries) == ("exhausted", len(waits), len(waits))
        lifetime = (await dlq.statistics()).lifetime_stats
        assert (lifetime.retry_failed, lifetime.exhausted, lifetime.manually_retried) == (len(waits), 1, 0)
        await sound(dlq)


async def test_exhausted_tasks_are_archived_after_seven_days_and_not_before_m10(callback: Callback) -> None:
    dlq = DeadLetterQueue("sqlite://:memory:", callback, log=False)
    callback.error = TimeoutError("still")
    async with in_memory(dlq.app) as test, asyncio.timeout(PATIENCE):
        await dlq.enqueue("it", 1, error=TimeoutError(), policy="immediate", max_retries=1)
        await test.drain()
        assert (await found(dlq, "it")).status == "exhausted"
        await test.advance(7 * 86_400.0 - 60.0)
        assert (await found(dlq, "it")).status == "exhausted"
        await test.advance(120.0)
        assert (await found(dlq, "it")).status == "archived"
        await sound(dlq)


# Restarts and secrets


async def test_a_restart_forgets_nothing(place: Place, callback: Callback) -> None:
    """M7: and a closed queue can be used again."""
    dlq = place.queue(callback)
    for number in range(6):
        await dlq.enqueue(str(number), number, error=TimeoutError(), metadata={"n": number}, priority=number)
    await dlq.retry("0")
    callback.error = TimeoutError("no")
    await dlq.retry("1")
    await dlq.archive("2")
    before = ([await found(dlq, str(number)) for number in range(6)], await dlq.statistics())
    await dlq.close()
    for again in (dlq, place.queue(callback)):
        assert ([await found(again, str(number)) for number in range(6)], await again.statistics()) == before
    await dlq.clear(confirm="default")
    assert (await dlq.statistics()).lifetime_stats == before[1].lifetime_stats
    await sound(dlq)


async def test_secrets_appear_in_nothing_that_is_shown_or_kept_for_triage_i9(
    place: Place, callback: Callback
) -> None:
    dlq = place.queue(callback)
    told: list[Any] = []
    dlq.app.listen(told.append)
    task = {"password": WORD, "note": f"use {SECRET}"}
    said = f'denied for {SECRET} at https://ana:{WORD}@bank.example/?token={WORD} {{"password": "{WORD}"}}'
    await dlq.enqueue(
        "it", task, error=said, context={"api_key": WORD}, metadata={"token": WORD, "k": SECRET}
    )
    callback.error = TimeoutError(said)
    outcome = await dlq.retry("it", reason=said)
    await dlq.archive("it", reason=said)
    failures = dlq.app.failures()
    letter = outcome.item.id
    shown = [
        told,
        outcome.error,
        outcome.item.error,
        outcome.item.last_error,
        await failures.view(letter),
        await failures.verdict(letter),
        await failures.audit.list(size=100),
        await failures.replays.list(letter),
        await dlq.statistics(),
    ]
    stored = await place.everything()
    del stored["runs"]
    for canary in (SECRET, WORD):
        assert [number for number, each in enumerate(shown) if canary in repr(each)] == []
        assert [table for table, rows in stored.items() if canary in repr(rows)] == []


async def test_with_keys_a_secret_is_nowhere_on_disk_i9_m11(tmp_path: Path, callback: Callback) -> None:
    place = Place(f"sqlite:///{tmp_path / 'failed.db'}", "redrive")
    keys = (Fernet.generate_key().decode(),)
    dlq = place.queue(callback, keys=keys)
    task = {"password": WORD, "note": f"use {SECRET}", "plain": "tell-nobody-canary"}
    await dlq.enqueue(
        "it", task, error=f"denied for {SECRET}", context={"api_key": WORD}, metadata={"token": WORD}
    )
    callback.error = TimeoutError(f"password={WORD}")
    await dlq.retry("it")
    callback.error = None
    assert await dlq.retry("it")
    assert (await found(dlq, "it")).task == task
    for file in tmp_path.iterdir():
        content = file.read_bytes()
        assert content
        for canary in (SECRET, WORD):
            assert canary.encode() not in content, file.name
    await dlq.close()
    stranger = place.queue(callback, keys=(Fernet.generate_key().decode(),))
    with pytest.raises(RedriveError) as caught:
        await stranger.get("it")
    assert WORD not in str(caught.value)
    await stranger.close()
