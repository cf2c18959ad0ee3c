"""Lists of failure groups: both databases return the right groups, in pages, with exact numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations
from random import Random
from typing import Any

import pytest
from tests.cases import loop_over
from tests.store.build import ask
from tests.store.by_hand import letters
from tests.store.test_groups import occur, occurrence

from redrive.errors import InvalidValueError
from redrive.model.dead_letter import CLOSED, LIVE, DeadLetterState
from redrive.model.failure_group import GroupLine, GroupSort, LetterCounts
from redrive.model.query import Count, Query
from redrive.policy.query import parse
from redrive.policy.query_language import GROUPS
from redrive.store.database import Database
from redrive.store.dead_letters import DeadLetterStore
from redrive.store.group_listing import Position
from redrive.store.groups import Groups

FINGERPRINT = "v1:" + "abcdef" + "0" * 34
OTHER = "v1:" + "abcdee" + "0" * 34
LATEST = GroupSort.LAST_SEEN
BASE = 946_684_800.0
"""The start of the year 2000."""


@pytest.fixture
def groups(database: Database) -> Groups:
    return Groups(database)


async def lines(groups: Groups, text: str = "", sort: GroupSort = LATEST) -> list[GroupLine]:
    page = await groups.page(parse(text, GROUPS), "acme", 500, sort=sort)
    assert page.next_cursor is None
    return list(page.lines)


async def listed(groups: Groups, text: str = "", sort: GroupSort = LATEST) -> list[str]:
    found = [line.group.fingerprint for line in await lines(groups, text, sort)]
    assert await groups.count(parse(text, GROUPS), "acme") == Count(len(found), False)
    return found


async def put(database: Database, fingerprint: str, **columns: Any) -> None:
    """Insert a group with these columns."""
    await occur(database, occurrence(fingerprint=fingerprint))
    changes = ", ".join(f"{name} = :{name}" for name in columns) or "state = 'OPEN'"
    text = f"UPDATE redrive.failure_groups SET {changes} WHERE org = 'acme' AND fingerprint = :group_named"
    await ask(database, text, group_named=fingerprint, **columns)


async def three_groups(database: Database) -> None:
    """Insert groups last seen in the order a, c, b (b and c tied), most frequent in the order a, c, b."""
    for name, number, seen in (("a", 9, 100.0), ("b", 4, 200.0), ("c", 4, 200.0)):
        await put(database, name, title=f"failure {name}", occurrences=number, last_seen=seen)
    await occur(database, occurrence(org="other", fingerprint="x"))


# One key at a time


@loop_over(
    ("text", "column", "matching", "other"),
    [
        ("category:network", "category", "network", "timeout"),
        ("category:NETWORK,cancelled", "category", "network", "timeout"),
        ("workflow:check-out", "workflow", "check-out", "check"),
        ("step:charge", "step", "charge", "Charge"),
        ("task:charge", "task", "charge", "charge2"),
        ("error:ValueError", "error_type", "ValueError", "builtins.ValueError"),
        ("-error:ValueError", "error_type", "KeyError", "ValueError"),
        ("occurrences:>3", "occurrences", 4, 3),
        ("occurrences:2..3,7", "occurrences", 7, 4),
        ("since:2023-01-01", "last_seen", 1_800_000_000.0, 1_600_000_000.0),
        ("until:2023-01-01", "last_seen", 1_600_000_000.0, 1_800_000_000.0),
        ("since:1h", "last_seen", 1e11, 1.0),
        ("until:1h", "last_seen", 1.0, 1e11),
        ("ANSWER", "title", "no answer", "nothing"),
        ("key", "error_type", "KeyError", "ValueError"),
        ('"no answer"', "title", "there is NO answer", "no  answer"),
        ("-answer", "title", "nothing", "no answer"),
        ("100%", "title", "100% full", "1000"),
        ("a_b", "title", "a_b", "axb"),
        ('"it\'s"', "title", "it's", "its"),
        ("STRASSE", "title", "Strasse", "Straße"),
        ("ärger", "title", "Ärger", "arger"),
        ("group:acknowledged", "state", "ACKNOWLEDGED", "OPEN"),
        ("group:resolved", "state", "RESOLVED", "ACKNOWLEDGED"),
        ("-group:resolved", "state", "OPEN", "RESOLVED"),
        ("group:open,ignored", "state", "IGNORED", "RESOLVED"),
    ],
)
async def test_a_term_finds_the_right_groups(
    database: Database, groups: Groups, text: str, column: str, matching: object, other: object
) -> None:
    await ask(database, "DELETE FROM redrive.failure_groups")
    await put(database, "mine", **{column: matching})
    await put(database, "not mine", **{column: other})
    await occur(database, occurrence(org="other", fingerprint="mine"))
    assert await listed(groups, text) == ["mine"]
    assert await listed(groups, text, GroupSort.OCCURRENCES) == ["mine"]


@pytest.mark.parametrize("text", [f"fp:{FINGERPRINT}", "fp:abcdef", "fp:v1:abcdef0,123456"])
async def test_a_group_is_found_by_its_fingerprint_or_its_beginning(
    database: Database, groups: Groups, text: str
) -> None:
    await occur(database, occurrence(fingerprint=FINGERPRINT), occurrence(fingerprint=OTHER))
    assert await listed(groups, text) == [FINGERPRINT]
    assert await listed(groups, f"-{text}") == [OTHER]


# States of the group itself


@pytest.mark.parametrize("sort", list(GroupSort))
async def test_groups_are_listed_by_the_state_that_they_have_now(
    database: Database, groups: Groups, sort: GroupSort
) -> None:
    for name, state, until, regressed in (
        ("open", "OPEN", None, None),
        ("again", "OPEN", None, 5.0),
        ("acknowledged", "ACKNOWLEDGED", None, 5.0),
        ("resolved", "RESOLVED", None, None),
        ("for ever", "IGNORED", None, 5.0),
        ("until", "IGNORED", 1e12, None),
        ("over", "IGNORED", 1.0, None),
        ("over again", "IGNORED", 1.0, 5.0),
    ):
        await put(database, name, state=state, ignored_until=until, regressed_at=regressed)
    words = ("open", "acknowledged", "resolved", "ignored", "regressed")
    found = {word: set(await listed(groups, f"group:{word}", sort)) for word in words}
    assert found == {
        "open": {"open", "again", "over", "over again"},
        "acknowledged": {"acknowledged"},
        "resolved": {"resolved"},
        "ignored": {"for ever", "until"},
        "regressed": {"again", "over again"},
    }
    everything = set(await listed(groups, "", sort))
    for word in words:
        assert set(await listed(groups, f"-group:{word}", sort)) == everything - found[word], word
    assert set(await listed(groups, "group:open -group:regressed", sort)) == {"open", "over"}
    assert await listed(groups, "group:open group:resolved", sort) == []
    [over] = [each.group for each in await lines(groups, sort=sort) if each.group.fingerprint == "over"]
    standing = (over.state, over.ignored_until, over.changed_by, over.changed_at)
    assert standing == ("OPEN", None, "redrive", 1.0)


async def test_a_state_is_paged_in_one_order_including_groups_no_longer_ignored(
    database: Database, groups: Groups
) -> None:
    await three_groups(database)
    await ask(
        database,
        "UPDATE redrive.failure_groups SET state = 'IGNORED', ignored_until = 1.0 WHERE fingerprint = 'b'",
    )
    opened = parse("group:open", GROUPS)
    first = await groups.page(opened, "acme", 2)
    assert [each.group.fingerprint for each in first.lines] == ["c", "b"]
    second = await groups.page(opened, "acme", 2, first.next_cursor)
    assert ([each.group.fingerprint for each in second.lines], second.next_cursor) == (["a"], None)


# States of their dead letters


async def in_every_state(database: Database) -> None:
    """Insert a group per state, with only such letters; also one with all states, and an empty one."""
    for state in DeadLetterState:
        await put(database, state.lower())
        await letters(database, 2, fingerprint=state.lower(), state=state)
        await letters(database, 1, fingerprint="all", state=state)
        await letters(database, 1, fingerprint="none", state=state, org="other")
    await put(database, "all")
    await put(database, "none")


@pytest.fixture
async def groups_in_every_state(database: Database, groups: Groups) -> Groups:
    await in_every_state(database)
    return groups


@loop_over("sort", list(GroupSort))
@loop_over(
    ("text", "states"),
    [
        ("is:open", ("OPEN",)),
        ("is:pending", ("OPEN",)),
        ("is:replaying,exhausted", ("REPLAYING", "EXHAUSTED")),
        ("is:live", LIVE),
        ("is:closed", CLOSED),
        ("is:any", tuple(DeadLetterState)),
        ("-is:open", tuple(set(DeadLetterState) - {DeadLetterState.OPEN})),
        ("-is:closed -is:open", ("REPLAYING", "EXHAUSTED")),
        ("is:live -is:replaying", ("OPEN", "EXHAUSTED")),
        ("is:open is:resolved", ()),
    ],
)
async def test_one_dead_letter_in_the_state_is_enough(
    groups_in_every_state: Groups, text: str, states: tuple[str, ...], sort: GroupSort
) -> None:
    wanted = {state.lower() for state in states} | ({"all"} if states else set())
    assert set(await listed(groups_in_every_state, text, sort)) == wanted
    assert set(await listed(groups_in_every_state, f"{text} group:open charge", sort)) == wanted


async def test_letters_that_have_moved_on_count_no_more(database: Database, groups: Groups) -> None:
    await put(database, "f1")
    await letters(database, 3)
    move = "UPDATE redrive.dead_letters SET state = :state WHERE state = 'OPEN'"
    await ask(database, move, state="RESOLVED")
    assert (await listed(groups, "is:open"), await listed(groups, "is:resolved")) == ([], ["f1"])
    await ask(database, "DELETE FROM redrive.dead_letters")
    assert (await listed(groups, "is:any"), await listed(groups)) == ([], ["f1"])


async def test_every_line_has_the_exact_numbers_of_its_dead_letters(
    database: Database, groups: Groups
) -> None:
    await occur(database, occurrence(), occurrence(fingerprint="f2"))
    for number, state in enumerate(("OPEN", "REPLAYING", "EXHAUSTED", "RESOLVED", "IGNORED", "ARCHIVED"), 1):
        await letters(database, number, state=state)
        await letters(database, number, state=state, org="other")
    await letters(database, 2, category="network")

    found = {each.group.fingerprint: each.letters for each in await lines(groups)}
    assert found == {"f1": LetterCounts(open=3, replaying=2, exhausted=3, closed=15), "f2": LetterCounts()}
    assert found["f1"].live == 8
    [line] = await lines(groups, "is:closed")
    assert line.letters == found["f1"]


# Pages


@pytest.mark.parametrize(
    ("sort", "order"), [(LATEST, ["c", "b", "a"]), (GroupSort.OCCURRENCES, ["a", "c", "b"])]
)
async def test_groups_are_listed_by_time_or_by_number_and_page_by_page(
    database: Database, groups: Groups, sort: GroupSort, order: list[str]
) -> None:
    await three_groups(database)
    assert await listed(groups, "", sort) == order
    found, cursor = [], None
    for _ in order:
        page = await groups.page(Query(), "acme", 1, cursor, sort)
        found += [each.group.fingerprint for each in page.lines]
        cursor = page.next_cursor
    assert (found, cursor) == (order, None)


async def test_a_cursor_of_another_order_is_refused(database: Database, groups: Groups) -> None:
    cursor = str(Position(LATEST, 200.0, "c"))
    with pytest.raises(InvalidValueError, match="does not belong to a list sorted by occurrences"):
        await groups.page(Query(), "acme", 1, cursor, GroupSort.OCCURRENCES)


async def test_counts_stop_at_a_limit(database: Database, groups: Groups) -> None:
    await three_groups(database)
    assert str(await groups.count(Query(), "acme", 2)) == "2+"
    assert str(await groups.count(Query(), "acme", 3)) == "3"


# All filters together

_Asked = Callable[[Mapping[str, Any]], bool]
_TERMS: list[tuple[str, _Asked]] = [
    ("category:timeout", lambda row: row["category"] == "timeout"),
    ("-category:timeout", lambda row: row["category"] != "timeout"),
    ("workflow:w1,w2", lambda row: row["workflow"] in ("w1", "w2")),
    ("occurrences:>4", lambda row: row["occurrences"] > 4),
    ("since:2000-01-01T00:00:30Z", lambda row: row["last_seen"] >= BASE + 30.0),
    ("broken", lambda row: "broken" in row["title"]),
    ("group:open", lambda row: row["now"] == "OPEN"),
    ("group:ignored,resolved", lambda row: row["now"] in ("IGNORED", "RESOLVED")),
    ("-group:open", lambda row: row["now"] != "OPEN"),
    ("group:regressed", lambda row: row["now"] == "OPEN" and row["regressed_at"] is not None),
    ("is:open", lambda row: "OPEN" in row["letters"]),
    ("is:live", lambda row: bool(set(LIVE) & row["letters"])),
    ("-is:open", lambda row: bool(row["letters"] - {"OPEN"})),
]


async def test_any_two_terms_find_matching_groups_in_order_page_by_page(
    database: Database, groups: Groups
) -> None:
    rows = [await _made_up(database, number, Random(number)) for number in range(40)]
    for (first, holds), (second, also) in combinations(_TERMS, 2):
        if "is:" in first and "is:" in second:
            continue
        wanted = [row for row in rows if holds(row) and also(row)]
        for sort in GroupSort:
            order = sorted(wanted, key=lambda row: (row[sort.value], row["fingerprint"]), reverse=True)
            found = await _paged(groups, f"{first} {second}", sort)
            assert found == [row["fingerprint"] for row in order], (first, second, sort)
        counted = await groups.count(parse(f"{first} {second}", GROUPS), "acme")
        assert counted == Count(len(wanted), False)


async def _made_up(database: Database, number: int, dice: Random) -> dict[str, Any]:
    row = {
        "category": dice.choice(["timeout", "network"]),
        "workflow": f"w{dice.randrange(4)}",
        "title": dice.choice(["broken pipe", "no answer"]),
        "occurrences": dice.randrange(1, 9),
        "last_seen": BASE + dice.randrange(20, 40),
        "state": dice.choice(["OPEN", "ACKNOWLEDGED", "RESOLVED", "IGNORED"]),
        "ignored_until": dice.choice([None, 1.0, 1e12]),
        "regressed_at": dice.choice([None, 5.0]),
    }
    fingerprint, states = f"g{number:02}", dice.sample(list(DeadLetterState), dice.randrange(3))
    await put(database, fingerprint, **row)
    for state in states:
        await letters(database, fingerprint=fingerprint, state=state)
    over = row["state"] == "IGNORED" and row["ignored_until"] == 1.0
    now = "OPEN" if over else row["state"]
    return {**row, "fingerprint": fingerprint, "now": now, "letters": {str(state) for state in states}}


async def _paged(groups: Groups, text: str, sort: GroupSort) -> list[str]:
    found: list[str] = []
    cursor: str | None = None
    while not found or cursor is not None:
        page = await groups.page(parse(text, GROUPS), "acme", 7, cursor, sort)
        found += [line.group.fingerprint for line in page.lines]
        cursor = page.next_cursor
        if not page.lines:
            break
    return found


async def test_letters_in_every_state_are_found_by_the_beginning_of_their_fingerprint(
    database: Database,
) -> None:
    """The index of their numbers starts with the state, so the query must list every state."""
    for number, state in enumerate(DeadLetterState):
        await letters(database, state=state, fingerprint=f"v1:abcdef{number}")
    found = await DeadLetterStore(database).page(parse("fp:abcdef"), "acme", 10)
    assert {line.state for line in found.lines} == set(DeadLetterState)
