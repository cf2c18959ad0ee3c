"""Lists and histories of runs, and queues: redacted, and of one organization only.

W6, W13, W14, I8, I9, M11, P9.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from random import Random
from typing import Any

import msgspec
import pytest
from tests.store.build import ask

from redrive.app import Redrive
from redrive.clock import SYSTEM_CLOCK
from redrive.engine.encryption import key_id
from redrive.engine.history import TimelineEvent
from redrive.engine.queues import QueueView
from redrive.engine.run_view import MAX_ERROR_LINE
from redrive.engine.runs import Runs
from redrive.errors import FinalError, InvalidValueError, NotFoundError, RetryableError
from redrive.model.query import MAX_COUNTED
from redrive.model.run import Cancellation
from redrive.parts import parts_of, rewire
from redrive.policy import STEP
from redrive.settings import Settings, new_encryption_key
from redrive.store.database import Database
from redrive.store.postgres import PostgresDatabase

SECRET = "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc"


def app_on(database: Database, **settings: Any) -> Redrive:
    """An application with a workflow whose second step fails as its payload says."""
    app = Redrive("sqlite://:memory:", settings=Settings(**settings), log=False)

    @app.task(name="reserve")
    async def reserve(order: dict[str, Any]) -> dict[str, Any]:
        return {**order, "token": SECRET}

    @app.task(name="charge")
    async def charge(order: dict[str, Any]) -> dict[str, Any]:
        if order["fails"]:
            raise {"for good": FinalError, "once": RetryableError}[order["fails"]](f"no: api_key={SECRET}")
        return order

    @app.task(name="ship", queue="post")
    async def ship(order: dict[str, Any]) -> str:
        return f"shipped {order['item']}"

    config = {"password": SECRET, "currency": "EUR"}
    app.workflow("checkout", [reserve, charge.step(config=config), ship])
    rewire(app, database, SYSTEM_CLOCK, Random(0))
    return app


class World:
    def __init__(self, app: Redrive) -> None:
        self.app = app

    async def book(self, org: str = "default", by: str = "ana") -> Runs:
        return self.app.runs(org=org, by=by)

    async def started(self, fails: str = "", **options: Any) -> str:
        order = {"item": "book", "password": SECRET, "fails": fails}
        return (await self.app.start("checkout", order, **options)).id

    async def worked_off(self, fails: str = "", **options: Any) -> str:
        run_id = await self.started(fails, **options)
        await parts_of(self.app).worker_in_test().work_off()
        return run_id


@pytest.fixture
async def world(database: Database) -> World:
    return World(app_on(database))


def shown(view: object) -> str:
    """Return the whole view as JSON, which must be possible."""
    return json.dumps(view, default=msgspec.to_builtins, allow_nan=False)


# Lists


async def test_a_list_shows_the_newest_first_without_payloads(world: World) -> None:
    told = {"key": f"key-{SECRET}", "correlation_id": f"c-{SECRET}", "tags": ["vip", SECRET]}
    first = await world.worked_off("for good", **told)
    second = await world.started(priority=3)
    await world.started(org="acme")

    page = await (await world.book()).list()

    assert [run.id for run in page.runs] == [second, first]
    assert page.next_cursor is None
    [new, old] = page.runs
    assert (new.workflow, new.state, new.place, new.step, new.priority) == (
        "checkout",
        "PENDING",
        "ready",
        "reserve",
        3,
    )
    assert (old.state, old.step_index, old.step, old.step_state) == ("DLQ_PENDING", 1, "charge", "DLQ")
    assert (old.attempt, old.failures, old.error_class) == (1, 1, "final")
    assert old.tags[0] == "vip"
    assert new.correlation_id == new.id
    assert SECRET not in shown(page)
    assert "book" not in shown(page), "a payload is in the list"


async def test_a_list_has_the_first_line_of_the_last_error_redacted(world: World, database: Database) -> None:
    """A run that succeeded after a failure has no such line, and neither has a run that never failed."""
    secret = f"no: api_key={SECRET}"
    failed, retrying = await world.worked_off("for good"), await world.worked_off("once")
    await world.worked_off()
    book = await world.book()
    lines = {run.id: (run.error_type, run.error_line) for run in (await book.list()).runs}
    assert sorted(filter(None, {kind for kind, _ in lines.values()})) == [
        "redrive.errors.FinalError",
        "redrive.errors.RetryableError",
    ]
    for run_id in (failed, retrying):
        line = lines[run_id][1]
        assert line is not None
        assert line.startswith("no: api_key=")
        assert line != secret
        assert (await book.view(run_id)).error_line == line
    assert [line for run_id, line in lines.items() if run_id not in (failed, retrying)] == [(None, None)]

    await ask(database, "UPDATE redrive.attempts SET message = :new", new="\n  one\ntwo")
    assert {run.error_line for run in (await book.list()).runs} == {"one", None}
    await ask(database, "UPDATE redrive.attempts SET message = :new", new="x" * 5_000)
    assert {len(run.error_line or "") for run in (await book.list()).runs} == {MAX_ERROR_LINE, 0}
    assert len((await book.view(failed)).error_line or "") == MAX_ERROR_LINE


async def test_a_list_continues_and_is_counted(world: World) -> None:
    ids = [await world.started() for _ in range(5)]
    book = await world.book()

    first = await book.list("is:pending", size=3)
    second = await book.list("is:pending", size=3, cursor=first.next_cursor)

    assert [run.id for run in (*first.runs, *second.runs)] == ids[::-1]
    assert second.next_cursor is None
    assert str(await book.count("workflow:checkout")) == "5"


async def test_a_list_is_shown_although_a_definition_is_damaged(world: World, database: Database) -> None:
    run_id = await world.started()
    for body in ("{}", "no json", '{"workflow":"checkout","steps":[{}]}'):
        await ask(database, "UPDATE redrive.definitions SET body = :body", body=body)

        [run] = (await (await World(app_on(database)).book()).list()).runs

        assert (run.id, run.step) == (run_id, "")


REFUSED = (
    ("wrkflow:a", "unknown key 'wrkflow' at position 1; did you mean 'workflow'"),
    ("category:timeout", "unknown key 'category' at position 1; use one of: is, id, workflow"),
    ("is:sucess", "did you mean 'success'"),
    ("checkout", "the term at position 1, 'checkout', has no key, and runs cannot be searched by text"),
    ('-"a b"', "put a key before it: is, id, workflow, queue"),
    ("is:open", "unknown value 'open' of 'is'"),
)


async def test_invalid_queries_are_rejected(world: World) -> None:
    book = await world.book()
    for query, message in REFUSED:
        with pytest.raises(InvalidValueError, match=message):
            await book.list(query)
    sizes: list[Any] = [0, 501, -1, True, "5", 2.0]
    for size in sizes:
        with pytest.raises(InvalidValueError, match="size must be a whole number from 1 to 500"):
            await book.list(size=size)


# One run


async def test_a_run_that_waits_for_a_retry(world: World) -> None:
    run_id = await world.worked_off("once", metadata={"team": "shop", "secret": SECRET}, tags=["vip"])

    run = await (await world.book()).view(run_id)

    assert (run.state, run.place, run.step_state, run.step) == ("RUNNING", "waiting", "RETRYING", "charge")
    assert run.next_retry_at == run.due_at
    assert run.due_at is not None
    assert run.due_at > run.submitted_at
    assert (run.attempt, run.failures, run.rate_limit_waits, run.holds) == (1, 1, 0, 0)
    assert [(step.name, step.task, step.queue) for step in run.steps] == [
        ("reserve", "reserve", "default"),
        ("charge", "charge", "default"),
        ("ship", "ship", "post"),
    ]
    assert run.error is not None
    assert (run.error.attempt, run.error.error_class) == (1, "retryable")
    assert run.error.error_type == "redrive.errors.RetryableError"
    assert run.dead_letter is None
    assert isinstance(run.input, dict)
    assert run.input["item"] == "book"
    assert isinstance(run.metadata, dict)
    assert run.metadata["team"] == "shop"
    assert SECRET not in shown(run)


async def test_a_run_that_has_succeeded(world: World) -> None:
    run_id = await world.worked_off()

    run = await (await world.book()).view(run_id)

    assert (run.state, run.result, run.error, run.dead_letter) == ("SUCCESS", "shipped book", None, None)
    assert run.started_at is not None
    assert run.ended_at is not None
    assert run.started_at <= run.ended_at


async def test_a_run_that_has_failed_names_its_dead_letter(world: World) -> None:
    run_id = await world.worked_off("for good")

    run = await (await world.book()).view(run_id)

    [letter] = await parts_of(world.app).store.dead_letters.of_run(run_id, "default")
    assert run.dead_letter == (letter.id, "OPEN")
    assert run.error is not None
    assert run.error.category == letter.category
    assert run.error.decision == letter.decision
    assert run.next_retry_at is None


async def test_the_steps_have_all_fields_w6(world: World) -> None:
    run_id = await world.worked_off("once", correlation_id="c-7")

    [reserve, charge, ship] = await (await world.book()).steps(run_id)

    assert [step.state for step in (reserve, charge, ship)] == ["SUCCESS", "RETRYING", "PENDING"]
    assert (charge.attempt_count, charge.max_retries) == (1, 3)
    assert charge.next_retry_at is not None
    assert charge.first_failed_at == charge.last_failed_at
    assert charge.first_failed_at is not None
    assert charge.error_stack is not None
    assert "RetryableError" in charge.error_stack
    assert charge.correlation_id == ship.correlation_id == "c-7"
    assert charge.retry_policy_override is None
    assert isinstance(charge.retry_policy, dict)
    assert charge.retry_policy["max_attempts"] == 4
    assert isinstance(charge.config, dict)
    assert charge.config["currency"] == "EUR"
    assert isinstance(reserve.output, dict)
    assert reserve.output["item"] == "book"
    assert ship.output is None
    assert SECRET not in shown([reserve, charge, ship])


async def test_the_override_of_a_replay_is_shown_w6(world: World) -> None:
    run_id = await world.worked_off("for good")
    book, failures = await world.book(), world.app.failures(by="ana")
    letter = (await book.view(run_id)).dead_letter
    assert letter is not None

    await failures.replay(letter.id, retry=replace(STEP, max_attempts=7))

    charge = (await book.steps(run_id))[1]
    assert isinstance(charge.retry_policy_override, dict)
    assert charge.retry_policy_override["max_attempts"] == 7
    assert [run.id for run in (await book.list("is:replaying")).runs] == [run_id]


async def test_attempts_and_events_make_up_the_history_p9(world: World) -> None:
    run_id = await world.worked_off("for good")
    book = await world.book()

    attempts, events = await book.attempts(run_id), await book.events(run_id)

    assert [(each.step, each.number, each.outcome) for each in attempts] == [
        ("reserve", 1, "succeeded"),
        ("charge", 1, "failed"),
    ]
    assert attempts[1].error_type == "redrive.errors.FinalError"
    assert [each.what for each in events][:2] == ["queued", "started"]
    assert events[-1].what == "finished"
    assert all(isinstance(each, TimelineEvent) for each in events)
    assert SECRET not in shown([attempts, events])


# Values that cannot be shown


async def test_encrypted_values_are_decrypted_and_redacted_or_shown_as_sealed_m11(database: Database) -> None:
    key = new_encryption_key()
    sealing = World(app_on(database, encryption_keys=key))
    run_id = await sealing.worked_off(metadata={"team": "shop"})
    keyless = World(app_on(database, encryption_keys=new_encryption_key()))

    opened, closed = await (await sealing.book()).view(run_id), await (await keyless.book()).view(run_id)
    steps = await (await keyless.book()).steps(run_id)

    assert opened.result == "shipped book"
    assert SECRET not in shown(opened)
    for value in (closed.input, closed.result, closed.metadata, steps[0].output):
        assert isinstance(value, dict)
        assert list(value) == ["$sealed"]
        assert key_id(key) in str(value)
    [stored] = await ask(database, "SELECT input FROM redrive.runs WHERE id = :id", id=run_id)
    assert stored[0][20:60] not in shown([closed, steps]), "the encrypted text was given out"
    assert (closed.state, closed.workflow) == ("SUCCESS", "checkout")


async def test_damaged_values_do_not_hide_the_rest(world: World, database: Database) -> None:
    run_id = await world.worked_off("for good")
    book = await world.book()
    for damaged in ("no json", '{"$sealed":"plain:!"}', '{"a":', '{"$sealed":"', '{"$sealed":"x:y"}'):
        damage = "UPDATE redrive.runs SET input = :value, metadata = :value, tags = :value"
        await ask(database, damage, value=damaged)
        await ask(database, "UPDATE redrive.steps SET output = :value", value=damaged)

        run, steps, page = await book.view(run_id), await book.steps(run_id), await book.list()

        for value in (run.input, run.metadata, steps[0].output):
            assert isinstance(value, dict)
            assert value.keys() & {"$unreadable", "$sealed"}
        assert run.error is not None
        assert page.runs[0].tags == ()


# Organizations


async def test_a_run_of_another_org_does_not_exist_i8(world: World) -> None:
    run_id = await world.started(org="acme")
    book = await world.book()
    asked: list[Callable[[str], Awaitable[object]]] = [book.view, book.steps, book.attempts, book.events]

    for ask_for in (*asked, book.story, book.cancel):
        for each in (run_id, "no such run", "", "a\x00b", "\ud800", "x" * 10_000):
            with pytest.raises(NotFoundError, match="found no run"):
                await ask_for(each)
    assert (await (await world.book("acme")).view(run_id)).state == "PENDING"


async def test_cancelling_has_the_name_of_the_caller_in_the_audit_i14(world: World) -> None:
    run_id = await world.started(org="acme")
    book = await world.book("acme", by="bo")

    assert await book.cancel(run_id) is Cancellation.CANCELLED
    assert await book.cancel(run_id) is Cancellation.ENDED

    [entry] = (await world.app.failures(org="acme").audit.list(action="run.cancelled")).entries
    assert (entry.actor, entry.subjects) == ("bo", (run_id,))
    assert (await book.view(run_id)).state == "CANCELLED"


# Queues and workers


async def queues_of(world: World, org: str) -> dict[str, QueueView]:
    return {each.name: each for each in await world.app.queues(org=org).list()}


async def test_a_queue_as_its_orgs_see_it(world: World) -> None:
    """An organization sees only its own waiting runs; the home organization sees the sum."""
    for org, number in (("default", 1), ("acme", 2)):
        for _ in range(number):
            await world.started(org=org)
    await world.worked_off("once", org="acme", priority=9)
    await world.started(org="acme", delay=3_600)

    home, acme, other = [await queues_of(world, org) for org in ("default", "acme", "globex")]

    assert sorted(home) == sorted(acme) == sorted(other) == ["default", "post"]
    assert acme["default"].own.waiting == (2, False)
    assert home["default"].own.waiting == other["default"].own.waiting == (0, False)
    assert home["default"].overall is not None
    assert home["default"].overall.waiting == (2, False)
    assert acme["default"].overall is other["default"].overall is None


async def test_the_age_of_ready_work(world: World) -> None:
    await world.started()
    await world.started()

    own = (await queues_of(world, "default"))["default"].own

    assert (own.ready, own.held, own.executing) == ((2, False), (0, False), (0, False))
    assert own.oldest_ready_seconds is not None
    assert own.oldest_ready_seconds >= 0.0


async def test_the_reason_of_a_pause_is_shown_to_home_only(world: World) -> None:
    await world.app.queues(by="ana").pause("post", reason="the customer Globex has not paid")

    home, acme = (await queues_of(world, "default"))["post"], (await queues_of(world, "acme"))["post"]

    assert (home.paused, home.paused_by) == (True, "ana")
    assert home.reason == "the customer Globex has not paid"
    assert (acme.paused, acme.paused_by, acme.reason) == (True, None, None)
    assert acme.paused_at == home.paused_at
    assert not (await queues_of(world, "acme"))["default"].paused


async def test_counts_of_a_queue_say_when_there_is_more(world: World, database: Database) -> None:
    await world.started()
    many = """INSERT INTO redrive.runs (id, org, workflow, definition, queue, priority, state, place,
            submitted_at, step_index, step_state, input, attempt, epoch, failures, rate_limit_waits, holds,
            losses, isolated_crashes, isolation, sort_key)
        WITH RECURSIVE numbers (number) AS (
            SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number <= :most)
        SELECT {run_id}, 'acme', 'w', 'd', 'post', 0, 'PENDING', 'held', 1.0, 0, 'PENDING',
            '{}', 0, 0, 0, 0, 0, 0, 0, 0, 1.0
        FROM numbers"""
    run_id = "gen_random_uuid()" if isinstance(database, PostgresDatabase) else "'r' || CAST(number AS text)"
    await ask(database, many.replace("{run_id}", run_id), most=MAX_COUNTED)

    acme, home = await queues_of(world, "acme"), await queues_of(world, "default")

    assert acme["post"].own.held == (MAX_COUNTED, True)
    assert acme["default"].own.held == (0, False)
    assert home["post"].overall is not None
    assert home["post"].overall.held == (MAX_COUNTED, True)
    assert home["default"].overall is not None
    assert home["default"].overall.held == (0, True), "it was not looked at, so it is not known"
    assert home["default"].overall.ready == (1, False)


async def test_the_host_of_a_worker_is_shown_to_home_only(world: World) -> None:
    await world.app.open()
    beat = ("w1", "v1", '["default","post"]', 10, 2, "running", "machine-7", 4711)
    await parts_of(world.app).store.limits.heartbeat(*beat)

    [home] = await world.app.workers().list()
    [acme] = await world.app.workers(org="acme").list()

    assert (home.host, home.process, home.queues) == ("machine-7", 4711, ("default", "post"))
    assert (acme.host, acme.process) == (None, None)
    assert acme._replace(host="machine-7", process=4711, seconds_silent=0.0) == home._replace(
        seconds_silent=0.0
    )


async def test_all_queries_work_with_row_level_security(world: World) -> None:
    theirs = await world.worked_off("for good", org="globex")
    run_id = await world.worked_off("for good", org="acme")
    await parts_of(world.app).enable_row_level_security()
    book = await world.book("acme")

    assert [run.id for run in (await book.list("is:failed")).runs] == [run_id]
    assert (await book.view(run_id)).dead_letter is not None
    assert len((await book.story(run_id)).attempts) == 2
    with pytest.raises(NotFoundError):
        await book.view(theirs)
    assert await book.cancel(await world.started(org="acme")) is Cancellation.CANCELLED
    assert sorted(await queues_of(world, "acme")) == sorted(await queues_of(world, "default"))
    async with aclosing(parts_of(world.app).changes.follow("acme", after=0)) as changes:
        told = [await anext(changes) for _ in range(3)]
    assert [each.sequence for each in told] == [0, 1, 2]
    assert told[0].counters == ({"OPEN": 1}, {})
