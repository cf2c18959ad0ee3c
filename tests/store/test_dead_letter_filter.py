"""Queries as SQL: both databases return the right rows, page by page and in order."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from tests.cases import loop_over
from tests.store.build import ask
from tests.store.letters import letter, put

from redrive.errors import InvalidValueError
from redrive.model.dead_letter import CLOSED, LIVE, DeadLetterState
from redrive.model.query import Order, Query
from redrive.policy.query import parse
from redrive.policy.query_language import KEYS
from redrive.store.cursor import Cursor
from redrive.store.database import Database
from redrive.store.dead_letter_filter import MAX_BRANCHES, Filter
from redrive.store.dead_letters import DeadLetterStore

BASE = 1_700_000_000.0


@pytest.fixture
def letters(database: Database) -> DeadLetterStore:
    return DeadLetterStore(database)


async def found(letters: DeadLetterStore, text: str, org: str = "default") -> list[str]:
    page = await letters.page(parse(text).asked_by("ana"), org, 500)
    assert page.next_cursor is None
    return [line.id for line in page.lines]


# One key at a time


SINGLE_TERMS: list[tuple[str, str, Any, Any]] = [
    ("is:open", "state", "OPEN", "EXHAUSTED"),
    ("is:live", "state", "REPLAYING", "RESOLVED"),
    ("-is:closed", "state", "OPEN", "ARCHIVED"),
    ("category:network", "category", "network", "timeout"),
    ("class:final", "error_class", "final", "retryable"),
    ("step:charge", "step", "charge", "Charge"),
    ("task:charge", "task", "charge", "charge2"),
    ("workflow:check-out", "workflow", "check-out", "check"),
    ("queue:payments", "queue", "payments", "default"),
    ("fp:v1:" + "a" * 40, "fingerprint", "v1:" + "a" * 40, "v1:" + "a" * 39 + "b"),
    ("fp:aaaaaa", "fingerprint", "v1:" + "a" * 40, "v1:" + "a" * 5 + "b" * 35),
    ("fp:fffff9", "fingerprint", "v1:fffff9" + "0" * 34, "v1:fffffa" + "0" * 34),
    ("error:ValueError", "error_type", "ValueError", "builtins.ValueError"),
    ("code:DENIED", "public_code", "DENIED", "TIMEOUT"),
    ("status:503", "http_status", 503, None),
    ("status:>=500", "http_status", 500, 499),
    ("-status:503", "http_status", None, 503),
    ("run:r1", "run_id", "r1", "r2"),
    ("id:l1,l9", "id", "l1", "l2"),
    ("correlation:c1", "correlation_id", "c1", "c2"),
    ("tag:vip", "tags", '["a","vip"]', '["vip2"]'),
    ('tag:"a\\"b"', "tags", '["a\\"b"]', '["ab"]'),
    ("tag:100%", "tags", '["100%"]', '["1000"]'),
    ("-tag:vip", "tags", None, '["vip"]'),
    ("assignee:me", "assignee", "ana", None),
    ("assignee:none", "assignee", None, "ana"),
    ("assignee:none,bo", "assignee", "bo", "ana"),
    ("-assignee:me", "assignee", None, "ana"),
    ("template:t", "template", "t", None),
    ("-template:t", "template", None, "t"),
    ("breaker:mail", "breaker", "mail", None),
    ("version:v2", "code_version", "v2", "v1"),
    ("effect:unsafe", "effect", "unsafe", "idempotent"),
    ("redrive:custom:mine", "redrive", "custom:mine", "never"),
    ("attempts:>3", "attempts", 4, 3),
    ("attempts:1,5..6", "attempts", 6, 2),
    ("replays:<1", "replay_count", 0, 1),
    ("redrives:<=2", "redrives", 2, 3),
    ("priority:-5..-1", "priority", -5, 0),
    ("since:2026-11-01", "created_at", 1_793_491_200.0, 1_793_491_199.9),
    ("until:2026-11-01", "created_at", 1_793_491_199.9, 1_793_491_200.0),
    ("RESET", "message", "connection reset by peer", "connection refused"),
    ('"reset by"', "title", "Connection Reset by peer", "reset, by peer"),
    ("valueerr", "error_type", "ValueError", "TypeError"),
    ("-reset", "message", "refused", "reset"),
    ("50%", "message", "it is 50% full", "it is 50 full"),
    ("a_b", "message", "a_b", "axb"),
    ("'", "message", "it's", "it is"),
    ("ärger", "message", "Viel ÄRGER", "viel rger"),
    ("ÄRGER", "message", "ärger", "arger"),
    ("Ärger", "message", "kein Ärger", "arger"),
]


@loop_over(("text", "column", "matching", "other"), SINGLE_TERMS)
async def test_the_rows_that_a_term_finds(
    letters: DeadLetterStore, database: Database, text: str, column: str, matching: Any, other: Any
) -> None:
    await ask(database, "DELETE FROM redrive.dead_letters")
    [wanted, _] = await put(database, [letter(**{column: matching}), letter(**{column: other})])

    assert await found(letters, text) == [wanted]
    assert (await letters.count(parse(text).asked_by("ana"), "default")).number == 1
    assert await letters.ids(database, parse(text).asked_by("ana"), "default", 10) == [wanted]


def test_every_key_is_tested_above() -> None:
    tested = {match[1] for text, *_ in SINGLE_TERMS if (match := re.match(r"-?([a-z]+):", text))}

    assert tested == set(KEYS)


async def test_an_age_is_counted_from_the_moment_of_asking(
    letters: DeadLetterStore, database: Database
) -> None:
    now = (await ask(database, "SELECT :now + :zero", zero=0.0))[0][0]
    [old, new] = await put(database, [letter(created_at=now - 7_000), letter(created_at=now - 3_000)])

    assert await found(letters, "since:1h") == [new]
    assert await found(letters, "until:1h") == [old]
    assert await found(letters, "since:2h until:1h") == [old]


async def test_states_that_exclude_each_other_find_nothing(
    letters: DeadLetterStore, database: Database
) -> None:
    await put(database, [letter(), letter(state="RESOLVED")])

    assert await found(letters, "is:open is:closed") == []
    assert (await letters.count(parse("is:open -is:live"), "default")).number == 0


async def test_hostile_values_are_only_values(letters: DeadLetterStore, database: Database) -> None:
    hostile = "x' OR 1=1; DROP TABLE dead_letters; -- :org ?1 $1"
    [mine, _] = await put(database, [letter(step=hostile, message=hostile), letter()])

    assert await found(letters, f'step:"{hostile}"') == [mine]
    assert await found(letters, f'"{hostile}"') == [mine]
    assert await found(letters, 'step:"{where}"') == []


@pytest.mark.parametrize(
    "text", ["", "is:open", "step:first", "id:same,b", "run:r", "correlation:c", "no answer"]
)
async def test_data_of_another_org_does_not_exist_w13(
    letters: DeadLetterStore, database: Database, text: str
) -> None:
    common = {"run_id": "r", "correlation_id": "c"}
    await put(
        database, [letter(id="b", org="b", **common), letter(id="same", org="a", step_index=1, **common)]
    )

    assert await found(letters, text, "a") == ["same"]
    assert await found(letters, text, "b") == ["b"]
    assert await found(letters, text, "c") == []
    assert (await letters.count(parse(text), "a")).number == 1
    assert await letters.ids(database, parse(text), "b", 10) == ["b"]


# Random queries, compared with an evaluation in Python

CHOICES: dict[str, list[Any]] = {
    "state": [str(each) for each in DeadLetterState],
    "category": ["timeout", "network", "validation"],
    "step": ["charge", "ship"],
    "workflow": ["checkout", "refund"],
    "queue": ["default", "payments"],
    "fingerprint": ["v1:" + digit * 40 for digit in "ab"],
    "attempts": [1, 2, 3],
    "assignee": [None, "ana", "bo"],
    "tags": [None, '["vip"]', '["vip","eu"]'],
    "http_status": [None, 500, 503],
    "message": ["no answer", "connection reset", "Reset by peer"],
    "created_at": [BASE + number for number in range(6)],
    "run_id": ["r1", "r2"],
}
Oracle = Callable[[dict[str, Any]], bool]
TERMS: list[tuple[str, Oracle]] = [
    ("is:open", lambda row: row["state"] == "OPEN"),
    ("is:live", lambda row: row["state"] in LIVE),
    ("is:closed,exhausted", lambda row: row["state"] in (*CLOSED, "EXHAUSTED")),
    ("category:timeout", lambda row: row["category"] == "timeout"),
    ("category:timeout,network", lambda row: row["category"] != "validation"),
    ("step:charge", lambda row: row["step"] == "charge"),
    ("workflow:checkout,refund", lambda row: True),
    ("queue:payments", lambda row: row["queue"] == "payments"),
    ("fp:aaaaaa", lambda row: row["fingerprint"][3] == "a"),
    (f"fp:{'b' * 40}", lambda row: row["fingerprint"][3] == "b"),
    ("attempts:>1", lambda row: row["attempts"] > 1),
    ("assignee:me", lambda row: row["assignee"] == "ana"),
    ("assignee:none,bo", lambda row: row["assignee"] in (None, "bo")),
    ("tag:eu", lambda row: "eu" in str(row["tags"])),
    ("status:503", lambda row: row["http_status"] == 503),
    ("reset", lambda row: "reset" in row["message"].lower()),
    ("run:r1", lambda row: row["run_id"] == "r1"),
]
PLAIN_ONLY: list[tuple[str, Oracle]] = [
    ("since:2023-11-14T22:13:22Z", lambda row: row["created_at"] >= BASE + 2),
    ("until:2023-11-14T22:13:24Z", lambda row: row["created_at"] < BASE + 4),
]


def chosen(random: Random) -> tuple[str, Oracle]:
    picked: list[tuple[str, Oracle]] = []
    for text, oracle in random.sample(TERMS, random.randint(0, 3)):
        negated = random.random() < 0.3
        picked.append((f"-{text}", lambda row, ask=oracle: not ask(row)) if negated else (text, oracle))  # type: ignore[misc]
    picked += random.sample(PLAIN_ONLY, random.choice([0, 0, 1]))
    return " ".join(text for text, _ in picked), lambda row: all(oracle(row) for _, oracle in picked)


async def walked(letters: DeadLetterStore, query: Query, order: Order, size: int) -> list[str]:
    """Return the ids of all pages."""
    ids: list[str] = []
    cursor = None
    while True:
        page = await letters.page(query, "default", size, cursor, order)
        ids += [line.id for line in page.lines]
        cursor = page.next_cursor
        if cursor is None:
            return ids
        assert len(page.lines) == size


async def test_any_query_finds_the_right_rows_page_by_page(
    letters: DeadLetterStore, database: Database
) -> None:
    random = Random(5)
    rows = [
        letter(step_index=number, **{name: random.choice(values) for name, values in CHOICES.items()})
        for number in range(150)
    ]
    await put(database, rows)
    await put(
        database,
        [row | {"id": row["id"] + "x", "org": "other", "step_index": -1 - n} for n, row in enumerate(rows)],
    )
    some = 0
    for _ in range(150):
        text, oracle = chosen(random)
        query, order = parse(text).asked_by("ana"), random.choice(list(Order))
        matching = sorted((row["created_at"], row["id"]) for row in rows if oracle(row))
        expected = [each for _, each in (matching if order is Order.OLDEST else reversed(matching))]

        assert await walked(letters, query, order, random.choice([1, 7, 50, 500])) == expected, text
        assert await letters.count(query, "default") == (len(expected), False), text
        assert await letters.ids(database, query, "default", 5) == [each for _, each in matching[:5]], text
        whole = Filter.of(query, "default")
        text_of_all = f"SELECT count(*) FROM redrive.dead_letters WHERE {whole.where}"
        [[number]] = await ask(database, text_of_all, **whole.parameters)
        assert number == len(expected), text
        some += 0 < len(expected) < len(rows)
    assert some > 60


# Pages


async def test_pages_continue_where_they_were_while_letters_come_and_go(
    letters: DeadLetterStore, database: Database
) -> None:
    """No page repeats a letter, and no letter that existed all the time is missing."""
    made = [letter(created_at=BASE + number // 2) for number in range(10)]
    ids = await put(database, made)
    first = await letters.page(Query(), "default", 4)
    await put(database, [letter(created_at=BASE + 100)])
    await ask(database, "DELETE FROM redrive.dead_letters WHERE id = :id", id=first.lines[-1].id)

    second = await letters.page(Query(), "default", 500, first.next_cursor)

    assert [line.id for line in (*first.lines, *second.lines)] == ids[::-1]
    assert second.next_cursor is None


async def test_a_page_that_is_exactly_full_is_the_last(letters: DeadLetterStore, database: Database) -> None:
    await put(database, [letter(), letter()])

    assert (await letters.page(Query(), "default", 2)).next_cursor is None
    assert (await letters.page(Query(), "default", 1)).next_cursor is not None


async def test_counting_stops_at_the_limit(letters: DeadLetterStore, database: Database) -> None:
    await put(database, [letter(state=state) for state in ("OPEN", "OPEN", "EXHAUSTED", "RESOLVED")])

    assert str(await letters.count(Query(), "default", 3)) == "3+"
    assert str(await letters.count(Query(), "default", 4)) == "4"
    assert await letters.count(parse("is:live"), "default", 2) == (2, True)


async def test_a_list_reads_no_payload(letters: DeadLetterStore, database: Database) -> None:
    await put(database, [letter(message="m" * 4_000)])

    [line] = (await letters.page(Query(), "default", 1)).lines

    assert "canary" not in repr(line)
    assert "Traceback" not in repr(line)
    assert len(line.message) == 300


@pytest.mark.parametrize(
    "cursor",
    ["", "x", "äöü", "eyJhIjoxfQ==", "WzEsMiwzXQ==", "bnVsbA==", "A" * 600, "////", None.__class__.__name__],
)
async def test_a_cursor_of_another_ones_making_is_refused(letters: DeadLetterStore, cursor: str) -> None:
    with pytest.raises(InvalidValueError, match="the cursor is not valid"):
        await letters.page(Query(), "default", 1, cursor)


async def test_a_cursor_is_bound_to_its_order(letters: DeadLetterStore) -> None:
    cursor = str(Cursor(Order.NEWEST, BASE, "l"))

    assert Cursor.read(cursor, Order.NEWEST) == (Order.NEWEST, BASE, "l")
    with pytest.raises(InvalidValueError, match="sorted newest first, but this list is sorted oldest first"):
        await letters.page(Query(), "default", 1, cursor, Order.OLDEST)


@pytest.mark.parametrize("part", [[["newest"], 1.0, "l"], ["newest", "1", "l"], ["newest", 1.0, "a\x00b"]])
def test_a_cursor_with_odd_content_is_refused(part: list[Any]) -> None:
    with pytest.raises(InvalidValueError, match="the cursor is not valid"):
        Cursor.read(str(Cursor(*part)), Order.NEWEST)


# The shape of the SQL


def test_a_list_is_walked_state_by_state() -> None:
    branches = Filter.of(parse("category:timeout,network is:open,exhausted attempts:3"), "a").branches

    assert len(branches) == 2
    assert all(re.match(r"org = :org AND state = '\w+' AND \(category IN", each) for each in branches)


@pytest.mark.parametrize("text", ["", "is:any", "-step:x", "since:1d queue:a", "fp:abcdef"])
def test_a_list_of_all_states_is_walked_in_each_of_them(text: str) -> None:
    assert len(Filter.of(parse(text), "a").branches) == len(DeadLetterState)


@pytest.mark.parametrize("text", ["attempts:3", "reset", "tag:vip queue:a"])
def test_values_in_no_index_are_read_by_time(text: str) -> None:
    wanted = Filter.of(parse(text), "a")

    assert wanted.branches == (wanted.where,)
    assert len(Filter.of(parse(f"{text} is:live"), "a").branches) == 3


def test_a_fingerprint_is_walked_state_by_state() -> None:
    one, other = "v1:" + "a" * 40, "v1:" + "b" * 40
    branches = Filter.of(parse(f"fp:{one},{other} is:open,exhausted attempts:3"), "a").branches

    assert len(branches) == 4
    assert all(
        re.search(r"org = :org AND \(fingerprint IN \(:\w+\)\) AND state = '\w+' AND", each)
        for each in branches
    )


def test_too_many_branches_are_none() -> None:
    many = ",".join(f"v1:{number:040x}" for number in range(MAX_BRANCHES))
    assert len(Filter.of(parse(f"fp:{many} is:open"), "a").branches) == MAX_BRANCHES
    assert len(Filter.of(parse(f"fp:{many},v1:{'f' * 40} is:open"), "a").branches) == 1


@pytest.mark.parametrize(
    "text", ["id:x is:open", "run:x is:open", "correlation:x is:open", "assignee:x is:open"]
)
def test_rare_values_are_looked_up(text: str) -> None:
    branches = Filter.of(parse(text), "a").branches

    assert all("CAST(state AS text) IN ('OPEN')" in each for each in branches)
    assert len(branches) == (2 if "correlation" in text else 1)


async def test_a_correlation_id_is_the_given_one_or_that_of_the_run(
    letters: DeadLetterStore, database: Database
) -> None:
    both = [letter(run_id="r1", correlation_id="r1"), letter(run_id="r2", correlation_id="r1")]
    [own, given, _] = await put(database, [*both, letter(run_id="r3", correlation_id="r3")])

    assert await found(letters, "correlation:r1") == [given, own]
    assert await found(letters, "correlation:r2") == []


def test_me_must_have_a_name_before_anything_is_asked() -> None:
    with pytest.raises(ValueError, match="me of 'assignee' must be resolved"):
        Filter.of(parse("assignee:me"), "a")
