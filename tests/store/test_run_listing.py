"""Lists of runs: both databases return the right runs, page by page and in order."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from tests.store.build import ask
from tests.store.rows import BURIED, ENDED, HELD, LEASED, SUCCESS, put_runs, run_row

from redrive.errors import InvalidValueError, StoreError
from redrive.model.query import Order
from redrive.model.run import ListedRun
from redrive.policy.query import parse
from redrive.policy.query_language import RUN_WORDS, RUNS
from redrive.store.cursor import Cursor
from redrive.store.database import Database
from redrive.store.postgres import PostgresDatabase
from redrive.store.run_filter import RunFilter
from redrive.store.run_listing import _HELD, _SQL, Depth, RunListing, _statement
from redrive.store.statement import SqlQuery, Statement

RETRYING = {"state": "RUNNING", "place": "waiting", "step_state": "RETRYING", "due_at": 9e9}


@pytest.fixture
def lists(database: Database) -> RunListing:
    return RunListing(database)


async def found(lists: RunListing, text: str, org: str = "default") -> list[str]:
    page = await lists.page(parse(text, RUNS), org, 500)
    assert page.next_cursor is None
    return [line.id for line in page.lines]


# One key at a time


CASES: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
    ("is:pending", {}, RETRYING),
    ("is:idle", {}, LEASED),
    ("is:running", RETRYING, {}),
    ("is:running", LEASED, SUCCESS),
    ("is:success,dlq", BURIED, {**ENDED, "state": "FAILED"}),
    ("is:failed", {**ENDED, "state": "PARTIAL"}, SUCCESS),
    ("is:live", HELD, SUCCESS),
    ("is:ended", {**ENDED, "state": "CANCELLED"}, LEASED),
    ("-is:ended", LEASED, SUCCESS),
    ("-is:failed", SUCCESS, BURIED),
    ("is:ready", {"place": "alone"}, HELD),
    ("is:waiting", RETRYING, {}),
    ("is:held", HELD, {}),
    ("is:executing", LEASED, RETRYING),
    ("is:retrying", RETRYING, {"state": "RUNNING", "place": "waiting"}),
    ("is:retrying", {**RETRYING, "place": "ready"}, LEASED),
    ("-is:retry_wait", {"state": "RUNNING", "place": "waiting"}, RETRYING),
    ("is:replaying", {**RETRYING, "replays": 1}, {**BURIED, "replays": 1}),
    ("is:blocked", {**BURIED, "step_state": "BLOCKED"}, BURIED),
    ("-is:blocked", BURIED, {**BURIED, "step_state": "BLOCKED"}),
    ("is:blocked,held", HELD, BURIED),
    ("workflow:greet", {}, {"workflow": "Greet"}),
    ("workflow:a,b", {**SUCCESS, "workflow": "b"}, {**SUCCESS, "workflow": "c"}),
    ("-workflow:a", {**LEASED, "workflow": "b"}, {**LEASED, "workflow": "a"}),
    ("queue:mail", {"queue": "mail"}, {"queue": "post"}),
    ("queue:mail", {**SUCCESS, "queue": "mail"}, {**SUCCESS, "queue": "post"}),
    ("-queue:mail", {**LEASED, "queue": "post"}, {**LEASED, "queue": "mail"}),
    ("id:r1,r9", {"id": "r1"}, {"id": "r2"}),
    ("-id:r4", {"id": "r3"}, {"id": "r4"}),
    ("key:order-7", {"idempotency_key": "order-7"}, {"idempotency_key": "order-8"}),
    ("-key:order-7", {}, {"idempotency_key": "order-7"}),
    ("correlation:c1", {"correlation_id": "c1"}, {"correlation_id": "c2"}),
    ("correlation:r5", {"id": "r5", "correlation_id": "r5"}, {"id": "r6", "correlation_id": "r6"}),
    ("-correlation:c1", {}, {"correlation_id": "c1"}),
    ("tag:vip", {"tags": '["a","vip"]'}, {"tags": '["vip2"]'}),
    ("-tag:vip", {}, {"tags": '["vip"]'}),
    ("version:v2", {**SUCCESS, "code_version": "v2"}, {**SUCCESS, "code_version": "v1"}),
    ("priority:>3", {"priority": 4}, {"priority": 3}),
    ("attempts:2..3", {**SUCCESS, "attempt": 3}, {**SUCCESS, "attempt": 4}),
    ("since:2026-11-01", {"submitted_at": 1_793_491_200.0}, {"submitted_at": 1_793_491_199.9}),
    ("until:2026-11-01", {"submitted_at": 1_793_491_199.9}, {"submitted_at": 1_793_491_200.0}),
)


async def test_the_rows_that_a_term_finds(lists: RunListing, database: Database) -> None:
    for number, (text, matching, other) in enumerate(CASES):
        org = f"org {number}"
        [wanted, _] = await put_runs(database, [run_row(org=org, **matching), run_row(org=org, **other)])

        assert await found(lists, text, org) == [wanted], text
        assert (await lists.count(parse(text, RUNS), org)).number == 1, text


def test_every_key_is_tested_above() -> None:
    tested = {match[1] for case in CASES if (match := re.match(r"-?([a-z]+):", case[0]))}

    assert tested == set(RUNS.readers)


async def test_every_word_about_states_is_a_filter(lists: RunListing, database: Database) -> None:
    """Each word selects a part of the runs, and its negation with a minus selects the rest."""
    kinds: list[dict[str, Any]] = [
        {},
        RETRYING,
        HELD,
        LEASED,
        SUCCESS,
        BURIED,
        {**ENDED, "state": "CANCELLED"},
    ]
    kinds += [
        {**ENDED, "state": "FAILED"},
        {**ENDED, "state": "PARTIAL"},
        {**BURIED, "step_state": "BLOCKED"},
    ]
    ids = await put_runs(database, [run_row(**kind) for kind in kinds])

    for word in RUN_WORDS:
        with_it, without = await found(lists, f"is:{word}"), await found(lists, f"-is:{word.upper()}")
        assert sorted(with_it + without) == sorted(ids), word


async def test_an_age_is_counted_from_the_moment_of_asking(lists: RunListing, database: Database) -> None:
    now = (await ask(database, "SELECT :now + :zero", zero=0.0))[0][0]
    rows = [run_row(submitted_at=now - 7_000, **SUCCESS), run_row(submitted_at=now - 3_000)]
    [old, new] = await put_runs(database, rows)

    assert await found(lists, "since:1h") == [new]
    assert await found(lists, "until:1h") == [old]


async def test_terms_that_exclude_each_other_find_nothing(lists: RunListing, database: Database) -> None:
    await put_runs(database, [run_row(), run_row(**SUCCESS)])

    for text in ("is:success is:failed", "is:held is:success", "is:live -is:live", "workflow:a workflow:b"):
        assert await found(lists, text) == []
        assert (await lists.count(parse(text, RUNS), "default")).number == 0


async def test_data_of_another_org_does_not_exist_w13(lists: RunListing, database: Database) -> None:
    shared = {"correlation_id": "c", "tags": '["t"]', "workflow": "w", "queue": "q"}
    kinds: list[dict[str, Any]] = [{}, HELD, LEASED, SUCCESS, BURIED]
    theirs = await put_runs(database, [run_row(org="acme", **shared, **kind) for kind in kinds])

    texts = ["", "is:any", "is:live", "is:failed", "workflow:w", "queue:q", "correlation:c", "tag:t"]
    for text in [*texts, f"id:{theirs[0]}", f"correlation:{theirs[0]}", "-workflow:x", "-is:pending"]:
        assert await found(lists, text) == [], text
        assert (await lists.count(parse(text, RUNS), "default")).number == 0, text
    assert len(await found(lists, "", "acme")) == len(theirs)
    assert await lists.depths("default") == []


async def test_two_orgs_with_the_same_work_see_only_their_own_w13(
    lists: RunListing, database: Database
) -> None:
    """Both organizations have the same work, so only the rows themselves differ."""
    kinds: list[dict[str, Any]] = [{}, HELD, LEASED, SUCCESS]
    rows = [run_row(org=org, correlation_id="c", **kind) for org in ("default", "acme") for kind in kinds]
    ids = await put_runs(database, rows)
    mine, theirs = ids[: len(kinds)], ids[len(kinds) :]

    for text in ("", "is:any", "correlation:c", "-workflow:x"):
        assert sorted(await found(lists, text)) == sorted(mine), text
        assert sorted(await found(lists, text, "acme")) == sorted(theirs), text
    for number, text in enumerate(("is:ready", "is:held", "is:executing", "is:success")):
        assert await found(lists, text) == [mine[number]], text
    assert await found(lists, f"id:{theirs[0]}") == []
    assert (await lists.held("default")).numbers == {"breaker mail": 1}
    assert sum(each.number for each in await lists.depths("default")) == 3


async def test_hostile_values_are_only_values(lists: RunListing, database: Database) -> None:
    for value in ("'; DROP TABLE runs; --", "%", "{rows}", "{keys}", ":org", "$1", "?1", "{branches}"):
        [run_id] = await put_runs(database, [run_row(workflow=value, queue=value, **SUCCESS)])
        quoted = '"' + value + '"'

        assert await found(lists, f"workflow:{quoted} queue:{quoted}") == [run_id]
        assert await found(lists, f"id:{quoted}") == await found(lists, f"tag:{quoted}") == []


# Pages

Oracle = Callable[[dict[str, Any]], bool]

PIECES: tuple[tuple[str, Oracle], ...] = (
    ("is:live", lambda run: run["place"] != "ended"),
    ("-is:live", lambda run: run["place"] == "ended"),
    ("is:failed", lambda run: run["state"] in ("FAILED", "PARTIAL", "DLQ_PENDING")),
    ("is:pending", lambda run: run["state"] == "PENDING"),
    ("is:success,retrying", lambda run: run["state"] == "SUCCESS" or run["step_state"] == "RETRYING"),
    ("-is:retrying", lambda run: run["step_state"] != "RETRYING"),
    ("is:held,executing", lambda run: run["place"] in ("held", "leased")),
    ("-is:held", lambda run: run["place"] != "held"),
    ("is:blocked,ready", lambda run: run["step_state"] == "BLOCKED" or run["place"] in ("ready", "alone")),
    ("workflow:a", lambda run: run["workflow"] == "a"),
    ("workflow:a,b", lambda run: run["workflow"] in "ab"),
    ("-workflow:a", lambda run: run["workflow"] != "a"),
    ("queue:q1", lambda run: run["queue"] == "q1"),
    ("-queue:q1", lambda run: run["queue"] != "q1"),
    ("correlation:c1", lambda run: run["correlation_id"] == "c1"),
    ("key:1,2,3,4,5,6,7,8,9", lambda run: run["idempotency_key"] in list("123456789")),
    ("tag:vip", lambda run: "vip" in (run["tags"] or "")),
    ("priority:>0", lambda run: run["priority"] > 0),
    ("since:2023-11-14T22:14:00Z", lambda run: run["submitted_at"] >= 1_700_000_040),
    ("until:2023-11-14T22:14:00Z", lambda run: run["submitted_at"] < 1_700_000_040),
)


def some_run(random: Random, number: int) -> dict[str, Any]:
    kinds: list[dict[str, Any]] = [{}, {"place": "alone"}, RETRYING, HELD, LEASED, SUCCESS, BURIED]
    kinds += [{**BURIED, "step_state": "BLOCKED"}, {**ENDED, "state": random.choice(["FAILED", "PARTIAL"])}]
    given = {"correlation_id": "c1"} if random.random() < 0.3 else {}
    return run_row(
        submitted_at=1_700_000_000.0 + random.randrange(80),  # several runs with the same time
        workflow=random.choice("aabc"),
        queue=random.choice(["q1", "q2"]),
        priority=random.choice([0, 0, 5]),
        tags=random.choice([None, '["vip"]']),
        idempotency_key=str(number) if number < 40 else None,
        **given,
        **random.choice(kinds),
    )


async def walked(lists: RunListing, text: str, size: int) -> list[str]:
    ids: list[str] = []
    cursor, more = None, True
    while more:
        page = await lists.page(parse(text, RUNS), "default", size, cursor)
        ids += [line.id for line in page.lines]
        cursor, more = page.next_cursor, page.next_cursor is not None
        assert not more or len(page.lines) == size
    return ids


async def test_any_query_finds_the_right_rows_page_by_page(lists: RunListing, database: Database) -> None:
    random = Random(6)
    rows = [some_run(random, number) for number in range(120)]
    await put_runs(database, rows)
    await put_runs(database, [some_run(random, 99) | {"org": "acme"} for _ in range(20)])
    newest = sorted(rows, key=lambda run: (run["submitted_at"], run["id"]), reverse=True)
    sizes = set()

    for _ in range(40):
        pieces = random.sample(PIECES, random.randrange(4))
        text = " ".join(piece for piece, _ in pieces)
        expected = [run["id"] for run in newest if all(holds(run) for _, holds in pieces)]
        sizes.add(len(expected))

        assert await walked(lists, text, random.choice([9, 50])) == expected, text
        assert (await lists.count(parse(text, RUNS), "default")).number == len(expected), text

    assert len(sizes) > 15, "the queries are too much alike"


async def test_values_in_no_index_are_found_at_any_age(lists: RunListing, database: Database) -> None:
    """The query searches the last hour and the last day first."""
    now = (await ask(database, "SELECT :now + :zero", zero=0.0))[0][0]
    ages = (0.0, 60.0, 3_599.0, 3_700.0, 7_200.0, 86_500.0, 90_000.0, 9e6)
    rows = [
        run_row(submitted_at=now - age, priority=5, **kind) for age in ages for kind in (SUCCESS, {}, LEASED)
    ]
    await put_runs(database, [*rows, *(run_row(submitted_at=now - age) for age in ages)])
    newest = sorted(rows, key=lambda run: (run["submitted_at"], run["id"]), reverse=True)

    for size in (1, 3, 10, 100):
        assert await walked(lists, "priority:5", size) == [run["id"] for run in newest]


async def test_pages_continue_where_they_were_while_runs_move(lists: RunListing, database: Database) -> None:
    ids = await put_runs(database, [run_row() for _ in range(6)])
    first = await lists.page(parse("", RUNS), "default", 3)

    await put_runs(database, [run_row()])
    ended = "UPDATE redrive.runs SET place = 'ended', ended_at = 1.0, state = 'SUCCESS' WHERE id = :id"
    await ask(database, ended, id=ids[2])
    second = await lists.page(parse("", RUNS), "default", 3, first.next_cursor)

    assert [line.id for line in first.lines] == ids[:2:-1]
    assert [line.id for line in second.lines] == ids[2::-1]
    assert second.next_cursor is None


async def test_counting_stops_at_the_limit(lists: RunListing, database: Database) -> None:
    await put_runs(database, [run_row(workflow=f"w{number % 3}", **SUCCESS) for number in range(7)])

    assert str(await lists.count(parse("", RUNS), "default", most=5)) == "5+"
    assert str(await lists.count(parse("", RUNS), "default", most=7)) == "7"


@pytest.mark.parametrize("cursor", ["", "x", "AAAA", "e30=", "W10=", "x" * 10_000])
async def test_a_cursor_of_another_ones_making_is_refused(lists: RunListing, cursor: str) -> None:
    with pytest.raises(InvalidValueError, match="start from the first page, without a cursor"):
        await lists.page(parse("", RUNS), "default", 5, cursor)


async def test_a_cursor_of_the_other_order_is_refused(lists: RunListing) -> None:
    with pytest.raises(InvalidValueError, match="oldest first"):
        await lists.page(parse("", RUNS), "default", 5, str(Cursor(Order.OLDEST, 1.0, "x")))


def test_a_list_reads_no_payload() -> None:
    assert not {"input", "step_input", "result", "metadata", "progress"} & set(ListedRun.__struct_fields__)


# The depth of the queues


def summed(depths: list[Depth]) -> dict[tuple[str, str], int]:
    sums: dict[tuple[str, str], int] = {}
    for each in depths:
        sums[each.queue, each.place] = sums.get((each.queue, each.place), 0) + each.number
    return sums


async def test_the_depth_of_the_queues_of_one_org_and_of_all(lists: RunListing, database: Database) -> None:
    mine = [run_row(queue="q1", workflow=each) for each in "aab"]
    mine += [run_row(queue="q1", **LEASED), run_row(queue="q1", **SUCCESS), run_row(queue="q2", **HELD)]
    await put_runs(database, [*mine, run_row(queue="q2", **RETRYING), run_row(queue="q2", place="alone")])
    await put_runs(database, [run_row(org="acme", queue="q1") for _ in range(4)])

    own = {
        ("q1", "ready"): 3,
        ("q1", "leased"): 1,
        ("q2", "held"): 1,
        ("q2", "waiting"): 1,
        ("q2", "alone"): 1,
    }
    assert summed(await lists.depths("default")) == own
    assert summed(await lists.depths("acme")) == {("q1", "ready"): 4}
    assert summed(await lists.overall_depths()) == own | {("q1", "ready"): 7}
    ready = [each for each in await lists.depths("default") if each[:2] == ("q1", "ready")]
    assert min(each.oldest or 0.0 for each in ready) == mine[0]["submitted_at"]


async def test_the_oldest_of_a_queue_may_have_any_priority(lists: RunListing, database: Database) -> None:
    for queue, times in (("q1", (7.0, 5.0, 6.0)), ("q2", (9.0,))):
        rows = [run_row(queue=queue, priority=each, submitted_at=at) for each, at in enumerate(times)]
        await put_runs(database, [*rows, run_row(queue=queue, submitted_at=8.0, org="acme", priority=5)])
    await put_runs(database, [run_row(queue="q2", place="alone", submitted_at=3.0)])

    found = {each[:2]: each.oldest for each in await lists.overall_depths()}
    assert found == {("q1", "ready"): 5.0, ("q2", "ready"): 8.0, ("q2", "alone"): 3.0}


async def test_depths_are_counted_up_to_a_limit(lists: RunListing, database: Database) -> None:
    await put_runs(database, [run_row() for _ in range(5)])
    await put_runs(database, [run_row(**kind) for kind in (HELD, LEASED) for _ in range(5)])

    assert set(summed(await lists.depths("default", most=3)).values()) == {4}
    assert set(summed(await lists.overall_depths(most=3)).values()) == {4}


# Query plans

MANY = """
    INSERT INTO redrive.runs (id, org, workflow, definition, queue, priority, state, place, submitted_at,
        step_index, step_state, input, attempt, epoch, failures, rate_limit_waits, holds, losses,
        isolated_crashes, isolation, ended_at, sort_key)
    WITH RECURSIVE numbers (number) AS (
        SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < 4000
    )
    SELECT 'r' || CAST(10000 + number AS text), CASE WHEN number % 500 = 0 THEN 'acme' ELSE 'default' END,
        'w' || CAST(number % 5 AS text), 'digest', 'q', 0,
        CASE WHEN number % 4 = 0 THEN 'PENDING' WHEN number % 50 = 1 THEN 'FAILED' ELSE 'SUCCESS' END,
        CASE WHEN number % 4 = 0 THEN 'ready' ELSE 'ended' END,
        number, 0, 'PENDING', '{}', 0, 0, 0, 0, 0, 0, 0, 0, number, number
    FROM numbers
"""


INDEXES = {
    "": ("runs_over", "runs_idle"),
    "is:failed": ("runs_over",),
    "is:live": ("runs_idle",),
    "workflow:w1": ("runs_over", "runs_idle"),
    "is:success since:1h": ("runs_over",),
    "queue:q": ("runs_over", "runs_idle"),
    "correlation:c": ("runs_correlated",),
    "key:k": ("runs_idempotency",),
}
POSTGRES_INDEXES = {
    "runs_over": ("ended_lists",),
    "runs_idle": ("ready_lists", "idle_lists"),
    "runs_correlated": ("run_inputs_correlated",),
    "runs_idempotency": ("run_inputs_idempotency",),
}
"""Each place is a table with an index for lists; leases are few, and are all read."""

MANY_INPUTS = """
    INSERT INTO redrive.run_inputs (id, org, definition, input, correlation_id, idempotency_key)
    SELECT CAST(lpad(CAST(number AS text), 32, '0') AS uuid),
        CASE WHEN number % 500 = 0 THEN 'acme' ELSE 'default' END, 'd', '{}',
        CASE WHEN number % 10 = 2 THEN 'c' || number END, CASE WHEN number % 10 = 3 THEN 'k' || number END
    FROM generate_series(1, 20000) AS number
"""
MANY_OF_ONE_PLACE = """
    INSERT INTO redrive.{table} ({more}, submitted_at, epoch, attempt, step_index, priority, failures,
        rate_limit_waits, holds, losses, isolated_crashes, isolation, replays, redrives, step_only,
        has_letter, id, org, workflow, queue)
    SELECT {values}, number, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        CAST(lpad(CAST(number AS text), 32, '0') AS uuid),
        CASE WHEN number % 500 = 0 THEN 'acme' ELSE 'default' END, 'w' || number % 5, 'q'
    FROM generate_series(1, 20000) AS number WHERE {condition}
"""
SUCCEEDED_MOSTLY = "CASE WHEN number % 50 = 1 THEN 'FAILED' ELSE 'SUCCESS' END, 'SUCCESS', number"
PLACES = (
    ("ended", "state, step_state, ended_at", SUCCEEDED_MOSTLY, "number % 4 IN (1, 2)"),
    (
        "ready",
        "state, step_state, place, sort_key",
        "'PENDING', 'PENDING', 'ready', number",
        "number % 4 = 0",
    ),
    (
        "idle",
        "state, step_state, place, sort_key, held_by",
        "'RUNNING', 'PENDING', 'held', number, 'breaker mail'",
        "number % 4 = 3 AND number % 100 <> 3",
    ),
    ("leases", "sort_key, leased_until", "number, 9e9", "number % 100 = 3"),
)


MANY_ATTEMPTS = """
    INSERT INTO redrive.attempts
        (run_id, step_index, number, outcome, ended_at, error_type, message, reason, explanation)
    SELECT id, 0, number, 'failed', 1, 'ValueError', 'no', 'final', '{}' FROM redrive.ended
    CROSS JOIN generate_series(1, 2) AS number
"""


async def put_many(database: Database) -> None:
    if not isinstance(database, PostgresDatabase):
        await ask(database, MANY)
        return
    await ask(database, MANY_INPUTS)
    for table, more, values, condition in PLACES:
        text = MANY_OF_ONE_PLACE.format(table=table, more=more, values=values, condition=condition)
        await ask(database, text)
    await ask(database, MANY_ATTEMPTS)
    for table in ("attempts", "run_inputs", *(place[0] for place in PLACES)):
        await ask(database, f"VACUUM ANALYZE redrive.{table}")


def unindexed(plan: str) -> list[str]:
    """Return the tables, or parts of the statement, that the plan scans completely."""
    on_sqlite = re.findall(
        r"SCAN (runs|key|found|run|next|listed|failed|attempts)\b(?! USING INDEX runs_leased)", plan
    )
    return [*on_sqlite, *re.findall(r"Seq Scan on (run_inputs|ready|idle|ended|attempts)\b", plan)]


@pytest.mark.parametrize("org", ["default", "acme"])
async def test_a_list_is_read_along_indexes(lists: RunListing, database: Database, org: str) -> None:
    """No list scans a whole table of runs."""
    await put_many(database)
    for text, indexes in INDEXES.items():
        expected = set(indexes)
        if isinstance(database, PostgresDatabase):
            expected = {name for index in indexes for name in POSTGRES_INDEXES[index]}
        wanted = RunFilter.of(parse(text, RUNS), org)
        page = _statement("_page", wanted, onwards=False)
        asked = Statement(_explained(page.sqlite), _explained(page.postgres))
        rows = await database.fetch(asked, {**wanted.parameters, "most": 51})
        plan = "\n".join(str(row[-1]) for row in rows)

        walked_along = set(
            re.findall(
                r"(?:Scan Backward using|Scan using|Bitmap Index Scan on|SEARCH runs USING .*INDEX) (\w+)",
                plan,
            )
        )
        assert walked_along >= expected, f"{text!r}: {plan}"
        assert not unindexed(plan), f"{text!r}: {plan}"


async def test_a_condition_on_the_place_leaves_out_the_tables_of_other_places(
    postgres_database: PostgresDatabase,
) -> None:
    """Constraints let PostgreSQL exclude parts of the view, because all parts have the same types."""
    tables = {"ended": "ended", "ready": "ready", "held": "idle", "waiting": "idle", "leased": "leases"}
    for place, table in tables.items():
        text = f"EXPLAIN SELECT id, state FROM redrive.runs WHERE org = 'acme' AND place = '{place}'"
        plan = "\n".join(str(row[0]) for row in await ask(postgres_database, text))
        assert set(re.findall(r"\bon (\w+)", plan)) & {*tables.values(), "run_inputs"} == {table}, plan


async def test_no_row_lies_in_the_table_of_another_place(postgres_database: PostgresDatabase) -> None:
    await put_runs(postgres_database, [run_row(), run_row(**HELD)])
    for table, place in (("ready", "held"), ("ready", "ended"), ("idle", "ready"), ("idle", "leased")):
        with pytest.raises(StoreError, match=f"{table}_place"):
            await ask(postgres_database, f"UPDATE redrive.{table} SET place = '{place}'")


async def test_waiting_runs_are_counted_along_indexes(database: Database) -> None:
    await put_many(database)
    if isinstance(database, PostgresDatabase):
        depths = Statement(_SQL["depths"].sqlite, _explained(_SQL["depths"].postgres))
        rows = await database.fetch(depths, {"org": "acme", "most": 51})
        plan = "\n".join(str(row[-1]) for row in rows)
        assert not unindexed(plan), plan
        return
    for statement in (_SQL["depths"], _SQL["overall_depths"], _HELD):
        asked = Statement(_explained(statement.sqlite), statement.postgres)
        rows = await database.fetch(asked, {"org": "default", "most": 51})
        plan = "\n".join(str(row[-1]) for row in rows)
        assert not re.search(r"SCAN (runs|key)\b(?! USING (COVERING )?INDEX)", plan), plan
        assert plan.count("USING INDEX runs_idle") == 0, plan


def _explained(query: SqlQuery) -> SqlQuery:
    word = "EXPLAIN" if "LATERAL" in query.text or "$1" in query.text else "EXPLAIN QUERY PLAN"
    return replace(query, text=f"{word} {query.text}")
