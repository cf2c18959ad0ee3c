"""Replays under attack (W9, W10, M1-M4, M12, I3, I7, I10): races, limits, wrong moments, both databases.

However operators, workers and the processor meet at one dead letter: it executes once for each replay that
has started, at most one live letter exists, and the checker and the audit find nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import asyncpg
import pytest
from tests.engine.workbench import Seam, bench, new_app, sql
from tests.servers import PostgresServer
from tests.store.build import TABLES, ask
from tests.store.schemas import Schemas

from redrive import Context, FinalError, RetryPolicy
from redrive.app import Redrive
from redrive.errors import (
    DriftError,
    InvalidValueError,
    NotFoundError,
    NotStorableError,
    RedriveError,
    ReplayRefusedError,
    TransitionError,
)
from redrive.failures.service import Failures
from redrive.model.replay import OPERATION_TRANSITIONS, OperationState
from redrive.model.run import Cancellation
from redrive.parts import parts_of, rewire
from redrive.policy import Backoff
from redrive.policy.curve import Immediate
from redrive.settings import Settings
from redrive.testing import Harness
from redrive.verify import verify

MINUTE = 60.0
PATIENCE = 120.0
VOLATILE = {"workers", "processors", "limits", "breakers", "queues"}
KEPT = tuple(table for table in TABLES if table not in VOLATILE)


class Site:
    """A database, and the applications that share it."""

    def __init__(self, url: str, schema: str) -> None:
        self.url, self.schema = url, schema
        self.executed: Counter[int] = Counter()
        self.apps: list[Redrive] = []
        self.broken = True
        self.random = Random(0)

    def app(self, **settings: Any) -> Redrive:
        app = Redrive(
            self.url,
            settings=Settings(schema=self.schema, **settings),
            queues=["default"],
            log=False,
            durable=False,
        )
        app.task(self._charge, name="charge", max_attempts=1, redrive="immediate", max_redrives=2)  # type: ignore[call-overload]
        app.task(self._charge, name="plain", max_attempts=1)  # type: ignore[call-overload]
        self.apps.append(app)
        return app

    async def _charge(self, order: int) -> str:
        self.executed[order] += 1
        await asyncio.sleep(0)
        if self.broken or self.random.random() < 0.4:
            raise TimeoutError("declined")
        return "paid"

    async def everything(self) -> dict[str, list[str]]:
        rows = {
            table: await ask(parts_of(self.apps[0]).database, f"SELECT * FROM redrive.{table}")
            for table in KEPT
        }
        return {table: sorted(map(repr, several)) for table, several in rows.items()}


@pytest.fixture(params=["sqlite", "postgres"])
async def site(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Site]:
    if request.param == "sqlite":
        async with closed_at_last(Site(f"sqlite:///{tmp_path / 'work.db'}", "redrive")) as site:
            yield site
    else:
        server: PostgresServer = request.getfixturevalue("live_postgres")
        async with postgres_site(server, request.getfixturevalue("schemas")) as site:
            yield site


@pytest.fixture
async def busy_site(live_postgres: PostgresServer, schemas: Schemas) -> AsyncIterator[Site]:
    """A site on PostgreSQL, where transactions overlap; SQLite has one writer at a time."""
    async with postgres_site(live_postgres, schemas) as site:
        yield site


@asynccontextmanager
async def postgres_site(server: PostgresServer, schemas: Schemas) -> AsyncIterator[Site]:
    async with schemas.lent() as schema, closed_at_last(Site(server.url, schema)) as site:
        yield site


@asynccontextmanager
async def closed_at_last(site: Site) -> AsyncIterator[Site]:
    try:
        yield site
    finally:
        for app in site.apps:
            await app.close()


async def sound(app: Redrive, org: str = "default") -> None:
    verdict = await verify(parts_of(app).database)
    assert verdict.sound, str(verdict)
    audit = await app.failures(org=org).audit.verify()
    assert audit.sound, str(audit)


async def failed(app: Redrive, task: str, payloads: list[Any], **options: Any) -> list[tuple[str, str]]:
    """Create failed runs without redrives, and return each run with its dead letter."""
    runs = await app.start_many(task, payloads, **options)
    await app.worker(redrive=False).work_off()
    letters = [await run.dead_letter() for run in runs]
    return [(run.id, letter.id) for run, letter in zip(runs, letters, strict=True) if letter is not None]


async def replayed_and_cancelled(failures: Failures, app: Redrive, run_id: str, letter_id: str) -> None:
    await failures.replay(letter_id)
    assert await app.run(run_id).cancel(by="eve") is Cancellation.CANCELLED


# Races


class Scramble:
    """Operators, workers and processors at the same few dead letters, in an order that a seed decides."""

    def __init__(self, site: Site, seed: int) -> None:
        self.site, self.seed = site, seed
        self.random = Random(seed)
        self.apps = [site.app(), site.app()]
        self.members: list[tuple[str, str]] = []
        self.desks: list[Failures] = []

    async def run(self) -> None:
        self.site.random, self.site.broken = self.random, True
        orders = [self.seed * 10 + number for number in range(self.random.randint(1, 3))]
        self.members = await failed(self.apps[0], "charge", list(orders))
        self.desks = [app.failures(by=name) for app, name in zip(self.apps, ("ana", "bob"), strict=True)]
        self.site.broken = False
        deeds = [self._deed() for _ in range(self.random.randint(6, 12))]
        answers = await asyncio.gather(*map(self._done, deeds), return_exceptions=True)
        strange = [each for each in answers if isinstance(each, BaseException)]
        assert not [each for each in strange if not isinstance(each, RedriveError)], strange
        for _ in range(4):
            await asyncio.gather(*(parts_of(app).worker_in_test().work_off() for app in self.apps))
        for order, (run_id, _) in zip(orders, self.members, strict=True):
            await self._check(order, run_id)
        await sound(self.apps[0])

    async def _done(self, deed: Callable[[], Awaitable[Any]]) -> Any:
        for _ in range(self.random.randint(0, 40)):
            await asyncio.sleep(0)
        return await deed()

    def _deed(self) -> Callable[[], Awaitable[Any]]:
        app, failures = self.random.choice(self.apps), self.random.choice(self.desks)
        run_id, letter = self.random.choice(self.members)
        letters = [each for _, each in self.members]
        return self.random.choice(
            [
                lambda: failures.replay(letter),
                lambda: failures.replay(letter, mode="STEP_ONLY"),
                lambda: failures.resolve(letters, "r"),
                lambda: failures.ignore(letter, "r"),
                lambda: failures.archive(letter, "r"),
                lambda: failures.reopen(letter, "r"),
                lambda: failures.reopen(letters, "r"),
                lambda: failures.tag(letters, ["t"]),
                lambda: app.run(run_id).cancel(by="eve"),
                lambda: failures.replay_run(run_id),
                lambda: failures.add(run_id),
                lambda: self._operate(failures, letters),
                lambda: parts_of(app).processor().run_once(),
                lambda: parts_of(app).worker_in_test().work_off(),
                lambda: app.worker(redrive=False).work_off(),
            ]
        )

    async def _operate(self, failures: Failures, letters: list[str]) -> None:
        canary = self.random.choice([0, 1, 10])
        plan = await failures.plans.create(ids=letters, canary=canary, failure_rate=1.0, same_failures=None)
        await failures.plans.start(plan.operation_id, accept_drift=self.random.random() < 0.5)
        if self.random.random() < 0.3:
            await failures.plans.pause(plan.operation_id)
            await failures.plans.resume(plan.operation_id)
        if self.random.random() < 0.3:
            await failures.plans.cancel(plan.operation_id)

    async def _check(self, order: int, run_id: str) -> None:
        database = parts_of(self.apps[0]).database
        replays = await ask(
            database,
            "SELECT state FROM redrive.replays WHERE run_id = :run AND started_at IS NOT NULL",
            run=run_id,
        )
        assert {state for [state] in replays} <= {"SUCCEEDED", "FAILED", "CANCELLED"}
        assert self.site.executed[order] <= 1 + len(replays), "executed at most once for each begun replay"
        states = await ask(database, "SELECT state FROM redrive.dead_letters WHERE run_id = :run", run=run_id)
        live = [state for [state] in states if state in ("OPEN", "REPLAYING", "EXHAUSTED")]
        assert len(live) <= 1
        assert "REPLAYING" not in live
        [[state, place]] = await ask(
            database, "SELECT state, place FROM redrive.runs WHERE id = :run", run=run_id
        )
        assert place == "ended"
        assert not live or state in ("DLQ_PENDING", "FAILED")


@pytest.mark.parametrize("seed", range(12))
async def test_however_they_meet_every_started_replay_is_executed_once_and_one_letter_is_live(
    site: Site, seed: int
) -> None:
    """I3, I7, I10, I14: two applications, two operators, workers, processors, operations."""
    async with asyncio.timeout(PATIENCE):
        await Scramble(site, seed).run()


async def test_a_run_that_is_retried_while_it_is_entered_leaves_no_letter_of_a_success_i7() -> None:
    """`enter` reads the run first; before it writes, the run may have continued."""
    app = new_app()
    broken = True

    @app.task(max_attempts=1)
    async def charge(order: int) -> str:
        if broken:
            raise FinalError("declined")
        return "paid"

    async with bench(app) as test:
        run = await app.start(charge, 1)
        await run.wait()
        letter = await run.dead_letter()
        assert letter is not None
        await app.failures().ignore(letter.id, "not needed")
        seam = Seam(parts_of(app).database)  # type: ignore[arg-type]
        waiters = parts_of(app).waiters
        rewire(app, seam, test.clock, parts_of(app).random)
        parts_of(app).waiters.help = waiters.help
        failures = app.failures(by="ana")
        broken = False

        async def retried() -> None:
            await app.failures(by="bob").replay_run(run.id)
            await test.drain()

        seam.after("attempts", retried)
        with pytest.raises(ReplayRefusedError):
            await failures.add(run.id)
        live = await sql(
            app, "SELECT state FROM dead_letters WHERE state IN ('OPEN', 'REPLAYING', 'EXHAUSTED')"
        )
        assert live == []
        await sound(app)


async def waiting_for_locks(connection: asyncpg.Connection, tasks: list[asyncio.Task[Any]]) -> None:
    """Wait until all of them wait for a lock.

    pg_stat_activity would not work: a transaction sees no connection there that is newer than its first read.
    """
    while await connection.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted") < len(tasks):
        ended = [task for task in tasks if task.done()]
        assert not ended, f"ended, and should have had to wait: {ended}"
        await asyncio.sleep(0.01)


async def test_a_letter_that_is_reopened_while_its_run_is_retried_is_not_left_open_i7(
    busy_site: Site,
) -> None:
    """The retry waits for the run that the reopening has locked; then it must see the current letter."""
    site, app = busy_site, busy_site.app()
    [(run_id, letter_id)] = await failed(app, "plain", [1])
    ana, bob = app.failures(by="ana"), app.failures(by="bob")
    await ana.ignore(letter_id, "not needed")
    site.broken, site.random.random = False, lambda: 1.0  # type: ignore[method-assign]
    connection = await asyncpg.connect(site.url)
    async with asyncio.timeout(PATIENCE):
        tasks: list[asyncio.Task[Any]] = []
        try:
            async with connection.transaction():
                await connection.fetch(f'SELECT * FROM "{site.schema}".audit_heads FOR UPDATE')
                tasks.append(asyncio.create_task(ana.reopen(letter_id, "it is")))
                await waiting_for_locks(connection, tasks)
                tasks.append(asyncio.create_task(bob.replay_run(run_id)))
                await waiting_for_locks(connection, tasks)
        finally:
            await connection.close()
            await asyncio.gather(*tasks, return_exceptions=True)
        await parts_of(app).worker_in_test().work_off()
    letter = await ana.view(letter_id)
    assert (letter.state, await app.run(run_id).state()) in {
        ("OPEN", "DLQ_PENDING"),
        ("RESOLVED", "SUCCESS"),
    }
    await sound(app)


async def test_two_hundred_replays_of_one_letter_at_once_are_one(site: Site) -> None:
    apps = [site.app(), site.app()]
    [(run_id, letter_id)] = await failed(apps[0], "plain", [7])
    desks = [app.failures(by="ana") for app in apps]
    answers = await asyncio.gather(
        *(desks[number % 2].replay(letter_id) for number in range(200)), return_exceptions=True
    )
    begun = [each for each in answers if not isinstance(each, BaseException)]
    assert len(begun) == 1
    assert all(isinstance(each, ReplayRefusedError) for each in answers if isinstance(each, BaseException))
    await asyncio.gather(*(parts_of(app).worker_in_test().work_off() for app in apps))
    assert site.executed[7] == 2
    assert (await apps[0].run(run_id).view()).replays == 1
    await sound(apps[0])


# Counting (M1)


async def instants_of_redrives(policy: Any, redrives: int) -> list[float]:
    """Return the minutes between the failures of a task with this redrive policy."""
    app = new_app()
    at: list[float] = []

    @app.task(max_attempts=1, redrive=policy, max_redrives=redrives)
    async def fetch(page: int) -> None:
        at.append(parts_of(app).clock.now())
        raise TimeoutError("no answer")

    async with bench(app) as test:
        run = await app.start(fetch, 1)
        await run.wait()
        await test.advance(3 * 86_400.0)
        letter = await run.dead_letter()
        assert letter is not None
        assert (letter.state, letter.redrives, letter.attempts) == ("EXHAUSTED", redrives, redrives + 1)
        await test.advance(86_400.0)
        assert len(at) == redrives + 1, "nothing runs after the last one"
        await sound(app)
    return [round((later - earlier) / MINUTE, 6) for earlier, later in pairwise(at)]


@pytest.mark.parametrize(
    ("policy", "waits"),
    [
        ("exponential", [1, 2, 4, 8, 16, 32, 60, 60, 60]),
        ("linear", [5, 10, 15, 20, 25, 30]),
        ("immediate", [0, 0, 0]),
        ("by_category", [1, 2, 4]),
    ],
)
async def test_the_intervals_of_redrives_are_exactly_those_of_the_policy_m1(
    policy: str, waits: list[float]
) -> None:
    assert await instants_of_redrives(policy, len(waits)) == waits


async def test_a_custom_function_receives_the_number_of_redrives_m1() -> None:
    app = new_app()
    told: list[int] = []
    at: list[float] = []

    def wait(redrives: int) -> float | None:
        told.append(redrives)
        return 7.0 * (redrives + 1) if redrives < 3 else None

    parts_of(app).declared.add_redrive_function("sevens", wait)

    @app.task(max_attempts=1, redrive="custom:sevens", max_redrives=10)
    async def fetch(page: int) -> None:
        at.append(parts_of(app).clock.now())
        raise TimeoutError("no answer")

    async with bench(app) as test:
        await app.start(fetch, 1)
        await test.advance(86_400.0)
        assert [later - earlier for earlier, later in pairwise(at)] == pytest.approx([7.0, 14.0, 21.0])
        assert told == [0, 1, 2, 3]
        await sound(app)


async def test_replays_by_hand_use_up_no_redrives_and_redrives_no_retries_i3() -> None:
    app = new_app()
    attempts: list[int] = []
    twice = RetryPolicy(name="twice", max_attempts=2, backoff=Backoff(Immediate()))

    @app.task(retry=twice, redrive="linear", max_redrives=2)
    async def fetch(page: int, context: Context) -> None:
        attempts.append(context.attempt)
        raise TimeoutError("no answer")

    async with bench(app) as test:
        run = await app.start(fetch, 1)
        await test.drain()
        letter = await run.dead_letter()
        assert letter is not None
        failures = app.failures(by="ana")
        for _ in range(3):
            await failures.replay(letter.id)
            await test.drain()
        assert (await failures.view(letter.id)).redrives == 0
        await test.advance(86_400.0)
        ended = await failures.view(letter.id)
        assert (ended.state, ended.redrives, ended.replay_count) == ("EXHAUSTED", 2, 5)
        assert attempts == list(range(1, 13)), "six rounds of two, numbered on"
        await sound(app)


async def test_a_letter_without_redrives_left_from_the_beginning_is_never_redriven() -> None:
    app = new_app()
    executed: list[int] = []

    @app.task(max_attempts=1, redrive="immediate", max_redrives=0)
    async def fetch(page: int) -> None:
        executed.append(page)
        raise TimeoutError("no answer")

    async with bench(app) as test:
        await app.start(fetch, 1)
        await test.advance(30 * 86_400.0)
        assert executed == [1]
        await sound(app)


async def test_unsafe_work_that_may_have_been_executed_is_never_redriven_automatically_m12() -> None:
    app = new_app()
    executed: list[int] = []

    @app.task(max_attempts=1, redrive="immediate", max_redrives=3, effect="unsafe")
    async def pay(order: int) -> None:
        executed.append(order)
        raise TimeoutError("no answer")

    async with bench(app) as test:
        run = await app.start(pay, 1)
        await test.advance(30 * 86_400.0)
        assert executed == [1]
        letter = await run.dead_letter()
        assert letter is not None
        failures = app.failures(by="ana")
        plan = await failures.plans.create(ids=[letter.id])
        assert (plan.will_run, plan.may_repeat_effects) == (1, 1)
        careful = await failures.plans.create(ids=[letter.id], exclude_unsafe=True)
        assert (careful.will_run, careful.skipped) == (0, 1)
        await failures.plans.start(careful.operation_id)
        await test.advance(60)
        assert executed == [1]
        assert (await failures.plans.view(careful.operation_id)).state == "DONE"
        await failures.replay(letter.id)
        await test.drain()
        assert executed == [1, 1], "a person may decide so"
        await sound(app)


# One replay


async def test_the_idempotency_key_is_the_same_on_every_way_back(site: Site) -> None:
    app = site.app()
    keys: list[str] = []

    async def fail(order: int, context: Context) -> None:
        keys.append(context.idempotency_key)
        raise FinalError("no")

    app.task(fail, name="fail")  # type: ignore[call-overload]
    [(run_id, letter_id)] = await failed(app, "fail", [1], keys=["order-1"])
    failures = app.failures(by="ana")
    worker = parts_of(app).worker_in_test()
    policy = RetryPolicy(name="once", max_attempts=1, backoff=Backoff(Immediate()))
    for options in (
        {},
        {"mode": "STEP_ONLY"},
        {"retry": policy},
        {"payload": 2, "reason": "r"},
        {"from_step": 0},
    ):
        await failures.replay(letter_id, **options)
        await worker.work_off()
    await failures.replay_run(run_id)
    await worker.work_off()
    await failures.ignore(letter_id, "r")
    await failures.replay_run(run_id)
    await worker.work_off()
    assert len(keys) == 8
    assert len(set(keys)) == 1
    with pytest.raises(RedriveError):
        await app.start("fail", 2, key="order-1")
    await sound(app)


async def test_an_override_is_for_one_replay_and_shows_in_the_record(site: Site) -> None:
    app = site.app()
    [(run_id, letter_id)] = await failed(app, "plain", [1])
    failures = app.failures(by="ana")
    worker = app.worker(redrive=False)
    four = RetryPolicy(name="four", max_attempts=4, backoff=Backoff(Immediate()))
    for retry, executions in ((four, 4), (None, 1), (four, 4), (None, 1)):
        before = site.executed[1]
        await failures.replay(letter_id, retry=retry)
        for _ in range(5):
            await worker.work_off()
        assert site.executed[1] - before == executions
    overrides = [
        each.policy_override is not None for each in reversed(await failures.replays.list(letter_id))
    ]
    assert overrides == [True, False, True, False]
    assert len((await app.run(run_id).history()).attempts) == 11, "every attempt stays"
    await sound(app)


HOSTILE_EDITS = [
    {"$sealed": "540ddb8c:gAAAA"},
    '{"$sealed":"540ddb8c:gAAAA"}',
    "a\x00b",
    "a\ud800b",
    {"\ud800\x00": ["'; DROP TABLE runs; --"]},
    10**40,
    None,
    [],
    {"␛": "␛0000"},
    "x" * 1_000_000,
]


async def test_whatever_the_edit_is_it_arrives_and_the_original_stays(site: Site) -> None:
    app = site.app()
    received: list[Any] = []

    async def take(value: Any) -> None:
        received.append(value)
        raise FinalError("no")

    app.task(take, name="take", max_attempts=1)  # type: ignore[call-overload]
    [(run_id, letter_id)] = await failed(app, "take", [{"original": True}])
    failures = app.failures(by="ana")
    worker = app.worker(redrive=False)
    original = (await app.run(run_id).view()).input
    for edit in HOSTILE_EDITS:
        replay = await failures.replay(letter_id, payload=edit, reason="because")
        await worker.work_off()
        assert received[-1] == edit
        assert replay.edit is not None
    assert (await app.run(run_id).view()).input == original
    assert len(await failures.replays.list(letter_id)) == len(HOSTILE_EDITS)
    before = await site.everything()
    deep: Any = []
    for _ in range(5_000):
        deep = [deep]
    for edit in (float("nan"), float("inf"), object(), deep, "x" * 2_000_000, {5: "key"}):
        with pytest.raises(InvalidValueError):
            await failures.replay(letter_id, payload=edit, reason="because")
    with pytest.raises(InvalidValueError, match="reason"):
        await failures.replay(letter_id, payload=1)
    assert await site.everything() == before
    await sound(app)


async def test_a_secret_in_an_edit_is_shown_nowhere_i9(site: Site) -> None:
    app = site.app()
    secret, word = "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc", "correct-horse-canary"
    told: list[Any] = []
    app.listen(told.append)

    async def take(value: Any) -> None:
        raise FinalError(f"denied: {value}")

    app.task(take, name="take", max_attempts=1)  # type: ignore[call-overload]
    secrets = {"password": word, "note": f"use {secret}", "nested": {"api_key": word}}
    [(_, letter_id)] = await failed(app, "take", [secrets], metadata={"token": word})
    failures = app.failures(by="ana")
    edit = {
        **secrets,
        "password": word + "2",
        "nested": [{"token": word}],
        "more": f'{{"password": "{word}"}}',
    }
    await failures.replay(letter_id, payload=edit, reason="r")
    await app.worker(redrive=False).work_off()
    stored = await site.everything()
    del stored["runs"]
    for canary in (secret, word):
        assert [table for table, rows in stored.items() if canary in repr(rows)] == []
        assert canary not in repr(told)
        assert canary not in repr(await failures.verdict(letter_id))


async def test_a_refused_replay_changes_nothing_and_is_not_audited(site: Site) -> None:
    app = site.app()
    members = await failed(app, "plain", [1, 2, 3])
    failures = app.failures(by="ana")
    await failures.replay(members[0][1])
    await failures.archive(members[1][1], "r")
    await replayed_and_cancelled(failures, app, *members[2])
    before = await site.everything()
    for letter_id in (*(letter for _, letter in members), "no such letter"):
        for mode in ("STEP_ONLY", "FROM_STEP"):
            with pytest.raises(RedriveError):
                await failures.replay(letter_id, mode=mode)
    for wrong in (
        {"from_step": 1},
        {"from_step": -1},
        {"from_step": True},
        {"from_step": "nowhere"},
        {"mode": ""},
    ):
        with pytest.raises(RedriveError):
            await failures.replay(members[0][1], **wrong)
    assert await site.everything() == before


async def test_a_worker_that_does_not_know_the_task_leaves_the_replay_to_one_that_does(site: Site) -> None:
    """An older code version: work that it can't execute is neither lost nor failed."""
    app = site.app()
    [(run_id, letter_id)] = await failed(app, "plain", [1])
    await app.failures(by="ana").replay(letter_id)
    old = Redrive(
        site.url, settings=Settings(schema=site.schema), queues=["default"], log=False, durable=False
    )
    site.apps.append(old)
    old.task(site._charge, name="something else")  # type: ignore[call-overload]
    await parts_of(old).worker_in_test().work_off()
    assert site.executed[1] == 1
    assert (await old.failures().view(letter_id)).state == "REPLAYING"
    assert (await app.run(run_id).view()).failures in (0, 1)
    await sound(app)


async def test_the_group_shows_the_version_of_the_worker_that_failed(site: Site) -> None:
    old, new = site.app(code_version="1.0"), site.app(code_version="2.0")
    [(_, letter_id)] = await failed(new, "plain", [1])
    failures = new.failures(by="ana")
    assert (await failures.view(letter_id)).code_version == "2.0"
    fingerprint = (await failures.view(letter_id)).fingerprint
    await failures.groups.ignore(fingerprint, "known in 2.0", version="2.0")
    await failures.replay(letter_id)
    await new.worker(redrive=False).work_off()
    assert (await failures.groups.view(fingerprint)).group.state == "IGNORED"
    await failures.replay(letter_id)
    await old.worker(redrive=False).work_off()
    detail = await failures.groups.view(fingerprint)
    assert detail.group.state == "OPEN"
    assert {each.code_version for each in detail.versions} == {"1.0", "2.0"}
    await sound(new)


# Operations


class Plant:
    """Tasks of which chosen numbers fail, in memory."""

    def __init__(self, **options: Any) -> None:
        self.app = new_app()
        self.wrong: set[int] = set()
        self.other: set[int] = set()
        self.all = True
        self.executed: Counter[int] = Counter()
        self.app.task(self._make, name="make", max_attempts=1, **options)  # type: ignore[call-overload]

    async def _make(self, number: int) -> int:
        self.executed[number] += 1
        if self.all or number in self.wrong:
            raise FinalError("no steam")
        if number in self.other:
            raise ValueError("something else altogether")
        return number

    async def fail(self, test: Harness, number: int) -> list[str]:
        runs = await self.app.start_many("make", range(number))
        await test.drain()
        self.all = False
        self.executed.clear()
        letters = [await run.dead_letter() for run in runs]
        return [letter.id for letter in letters if letter is not None]


async def outcome(
    number: int, *, wrong: int = 0, other: int = 0, waiting: float = 120.0, **options: Any
) -> tuple[str, Counter[str], Plant]:
    """Run an operation whose first items fail again, and return its outcome."""
    plant = Plant()
    async with bench(plant.app) as test:
        ids = await plant.fail(test, number)
        plant.wrong, plant.other = set(range(wrong)), set(range(wrong, wrong + other))
        operations = plant.app.failures(by="ana").plans
        plan = await operations.create(ids=ids, **options)
        await operations.start(plan.operation_id)
        await test.advance(waiting)
        report = await operations.report(plan.operation_id)
        await sound(plant.app)
        return report.operation.state, Counter(dict(report.items)), plant


@pytest.mark.parametrize(("wrong", "stops"), [(1, False), (2, False), (3, True)])
async def test_a_canary_is_judged_whole_and_nothing_else_is_started_before(wrong: int, stops: bool) -> None:
    ended, items, plant = await outcome(40, other=wrong, canary=10, failure_rate=0.2, same_failures=None)
    if stops:
        assert (ended, items["PLANNED"], sum(plant.executed.values())) == ("STOPPED", 30, 10)
    else:
        assert (ended, items["SUCCEEDED"], items["FAILED"]) == ("DONE", 40 - wrong, wrong)


@pytest.mark.parametrize(("wrong", "stops"), [(4, False), (5, True), (6, True)])
async def test_it_stops_at_the_fifth_same_failure_and_not_at_the_fourth(wrong: int, stops: bool) -> None:
    ended, items, plant = await outcome(60, wrong=wrong, canary=20, failure_rate=1.0, same_failures=5)
    assert (ended == "STOPPED") is stops
    assert sum(plant.executed.values()) == (20 if stops else 60)
    assert items["FAILED"] == wrong


@pytest.mark.parametrize("canary", [0, 1, 9, 10, 11])
async def test_a_canary_of_any_size_replays_each_item_once(canary: int) -> None:
    ended, items, plant = await outcome(10, canary=canary)
    assert (ended, items["SUCCEEDED"]) == ("DONE", 10)
    assert plant.executed == Counter(range(10))


@pytest.mark.parametrize(
    "wrong",
    [
        {"canary": -1},
        {"canary": 100_001},
        {"canary": True},
        {"rate": 0.0},
        {"rate": -1.0},
        {"rate": float("nan")},
        {"rate": float("inf")},
        {"failure_rate": -0.01},
        {"failure_rate": 1.01},
        {"failure_rate": float("nan")},
        {"minimum": 0},
        {"same_failures": 0},
        {"expect": 4},
        {"expect": -1},
        {"mode": "EVERYTHING"},
        {"override": "often"},
        {"reason": "x" * 2_001},
        {"reason": "a\x00b"},
        {"canry": 5},
        {"query": "is:open"},
        {"stop_on_breaker": "yes"},
    ],
    ids=str,
)
async def test_a_request_beyond_its_bounds_is_refused_and_nothing_is_planned(wrong: dict[str, Any]) -> None:
    plant = Plant()
    async with bench(plant.app) as test:
        ids = await plant.fail(test, 3)
        failures = plant.app.failures(by="ana")
        head = await failures.audit.head()
        with pytest.raises((InvalidValueError, DriftError)):
            await failures.plans.create(**{"ids": ids, **wrong})
        assert [tuple(row) for row in await sql(plant.app, "SELECT count(*) FROM replay_operations")] == [
            (0,)
        ]
        assert await failures.audit.head() == head


VERBS = {
    "start": OperationState.RUNNING,
    "pause": OperationState.PAUSED,
    "resume": OperationState.RUNNING,
    "cancel": OperationState.CANCELLED,
}
FROM = {"start": {OperationState.PLANNED}, "resume": {OperationState.PAUSED, OperationState.STOPPED}}


async def operation_in(site: Site, app: Redrive, state: OperationState) -> str:
    """Bring an operation into this state by real events."""
    members = await failed(app, "plain", [1, 2])
    operations = app.failures(by="zoe").plans
    plan = await operations.create(ids=[letter for _, letter in members], canary=1, same_failures=1)
    if state is not OperationState.PLANNED:
        await operations.start(plan.operation_id)
    if state is OperationState.PAUSED:
        await operations.pause(plan.operation_id)
    if state is OperationState.CANCELLED:
        await operations.cancel(plan.operation_id)
    if state in (OperationState.STOPPED, OperationState.DONE):
        site.broken = state is OperationState.STOPPED
        site.random.random = lambda: 1.0  # type: ignore[method-assign]
        worker = app.worker(redrive=False)
        while (await operations.view(plan.operation_id)).state == OperationState.RUNNING:
            await worker.work_off()
    assert (await operations.view(plan.operation_id)).state == state
    return plan.operation_id


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("state", OperationState)
async def test_an_operation_moves_as_the_table_allows_or_not_at_all_i10(
    site: Site, state: OperationState, verb: str
) -> None:
    app = site.app()
    operation_id = await operation_in(site, app, state)
    failures = app.failures(by="ana")
    before, number = await site.everything(), (await failures.audit.head()).sequence
    call = getattr(failures.plans, verb)
    allowed = OPERATION_TRANSITIONS.allows(state, VERBS[verb]) and state in FROM.get(verb, {state})
    if allowed:
        await call(operation_id)
        assert (await failures.plans.view(operation_id)).state == VERBS[verb]
        assert (await failures.audit.head()).sequence == number + 1
    else:
        with pytest.raises(TransitionError):
            await call(operation_id)
        assert await site.everything() == before
    await sound(app)


@pytest.mark.parametrize(
    "change",
    [
        lambda failures, app, run, letter: failures.resolve(letter, "r"),
        lambda failures, app, run, letter: failures.ignore(letter, "r"),
        lambda failures, app, run, letter: failures.archive(letter, "r"),
        lambda failures, app, run, letter: failures.replay(letter),
        lambda failures, app, run, letter: failures.replay_run(run),
        lambda failures, app, run, letter: replayed_and_cancelled(failures, app, run, letter),
    ],
    ids=["resolve", "ignore", "archive", "replay", "retry", "cancel"],
)
async def test_whatever_has_changed_between_plan_and_start_is_a_conflict_with_a_diff(
    site: Site, change: Any
) -> None:
    app = site.app()
    members = await failed(app, "plain", [1, 2, 3])
    failures = app.failures(by="ana")
    plan = await failures.plans.create(ids=[letter for _, letter in members])
    await change(failures, app, *members[1])
    before = await site.everything()
    with pytest.raises(DriftError) as caught:
        await failures.plans.start(plan.operation_id)
    assert [each.letter_id for each in caught.value.changes] == [members[1][1]]
    assert caught.value.number == 1
    assert await site.everything() == before
    await failures.plans.start(plan.operation_id, accept_drift=True)
    items = (await failures.plans.items(plan.operation_id)).items
    assert Counter(each.state for each in items) == {"PLANNED": 2, "REFUSED": 1}
    await sound(app)


async def test_a_change_that_was_undone_is_drift_too_or_runs_as_planned(site: Site) -> None:
    """The items are frozen by ids: never more than planned."""
    app = site.app()
    members = await failed(app, "plain", [1, 2])
    failures = app.failures(by="ana")
    plan = await failures.plans.create(query="is:open")
    await failed(app, "plain", [3])
    await failures.plans.start(plan.operation_id)
    site.broken, site.random.random = False, lambda: 1.0  # type: ignore[method-assign]
    worker = app.worker(redrive=False)
    while (await failures.plans.view(plan.operation_id)).state == "RUNNING":
        await worker.work_off()
    assert [site.executed[order] for order in (1, 2, 3)] == [2, 2, 1]
    assert len(members) == (await failures.plans.report(plan.operation_id)).items["SUCCEEDED"]
    await sound(app)


async def test_a_paused_operation_survives_everyone_and_continues_when_it_is_resumed(site: Site) -> None:
    app = site.app()
    members = await failed(app, "plain", list(range(6)))
    failures = app.failures(by="ana")
    plan = await failures.plans.create(ids=[letter for _, letter in members], canary=0)
    await failures.plans.start(plan.operation_id)
    await failures.plans.pause(plan.operation_id, "lunch")
    await app.close()
    site.broken, site.random.random = False, lambda: 1.0  # type: ignore[method-assign]
    other = site.app()
    worker = parts_of(other).worker_in_test()
    await worker.work_off()
    assert sum(site.executed.values()) == 6, "nothing is begun while it is paused"
    failures = other.failures(by="bob")
    assert (await failures.plans.view(plan.operation_id)).state == "PAUSED"
    await failures.plans.resume(plan.operation_id, "back")
    while (await failures.plans.view(plan.operation_id)).state == "RUNNING":
        await worker.work_off()
    assert site.executed == Counter(dict.fromkeys(range(6), 2))
    assert (await failures.plans.report(plan.operation_id)).items["SUCCEEDED"] == 6
    await sound(other)


async def test_the_numbers_of_the_report_add_up_to_those_of_the_plan(site: Site) -> None:
    """UI rule 3: the number shown is the number affected."""
    app = site.app()
    members = await failed(app, "plain", list(range(8)))
    failures = app.failures(by="ana")
    letters = [letter for _, letter in members]
    await failures.resolve(letters[0], "r")
    await failures.replay(letters[1])
    plan = await failures.plans.create(ids=letters, canary=2, failure_rate=1.0, same_failures=None)
    assert plan.selected == 8 == plan.will_run + sum(refused.items for refused in plan.refused) + plan.skipped
    assert plan.will_run == 6
    await failures.plans.start(plan.operation_id)
    worker = app.worker(redrive=False)
    while (await failures.plans.view(plan.operation_id)).state == "RUNNING":
        await worker.work_off()
    report = await failures.plans.report(plan.operation_id)
    assert sum(report.items.values()) == 8
    assert report.items["SUCCEEDED"] + report.items["FAILED"] == 6
    seen, cursor = [], None
    while True:
        page = await failures.plans.items(plan.operation_id, size=3, cursor=cursor)
        seen += [each.letter_id for each in page.items]
        if (cursor := page.next_cursor) is None:
            break
    assert sorted(seen) == sorted(letters)
    await sound(app)


# Retention


async def test_retention_never_removes_live_letters() -> None:
    app = new_app()
    broken = True

    @app.task(max_attempts=1, redrive="immediate", max_redrives=1)
    async def auto(order: int) -> None:
        raise TimeoutError("no")

    @app.task(max_attempts=1)
    async def plain(order: int) -> None:
        if broken:
            raise FinalError("no")

    async with bench(app) as test:
        parts_of(app).declared.settings = Settings(dlq_archive_days=None, retention_days=1.0)
        runs = [
            await app.start(plain, 1),
            await app.start(auto, 2),
            await app.start(plain, 3),
            await app.start(plain, 4),
        ]
        await test.advance(60)
        letters = [await run.dead_letter() for run in runs]
        opened, exhausted, closed, waiting = [letter for letter in letters if letter is not None]
        failures = app.failures(by="ana")
        assert (await failures.view(exhausted.id)).state == "EXHAUSTED"
        await failures.note(opened.id, "keep me")
        await failures.link(waiting.id, opened.id)
        await failures.ignore(closed.id, "r")
        head = await failures.audit.head()
        upkeep = parts_of(app).worker_in_test().maintenance
        for _ in range(60):
            await test.advance(86_400.0)
            await upkeep.remove_expired()
        with pytest.raises(NotFoundError):
            await failures.view(closed.id)
        assert (await failures.view(opened.id)).payload == opened.payload
        assert (await failures.view(exhausted.id)).state == "EXHAUSTED"
        assert [note.body for note in await failures.notes(opened.id)] == ["keep me"]
        assert [line.id for line in await failures.dependencies(waiting.id)] == [opened.id]
        assert (await failures.audit.verify(head)).sound
        broken = False
        await failures.replay(opened.id)
        await test.drain()
        assert (await failures.view(opened.id)).state == "RESOLVED"
        await sound(app)


async def test_an_edit_that_cannot_be_stored_is_rejected_with_its_place() -> None:
    plant = Plant()
    async with bench(plant.app) as test:
        [letter_id] = await plant.fail(test, 1)
        failures = plant.app.failures(by="ana")
        with pytest.raises(NotStorableError, match="nan"):
            await failures.replay(letter_id, payload=float("nan"), reason="r")
