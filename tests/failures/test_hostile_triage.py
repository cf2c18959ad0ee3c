"""Triage under attack (W8, W13, W14, W16): hostile texts, other tenants, wrong states, both databases.

Every text is stored as given or rejected with a reason; a rejected change has changed nothing.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from cryptography.fernet import Fernet
from tests.engine.workbench import EventCollector
from tests.lines import written_to
from tests.servers import PostgresServer
from tests.store.build import TABLES, ask
from tests.store.schemas import Schemas

from redrive.app import Redrive
from redrive.errors import (
    DriftError,
    FinalError,
    InvalidValueError,
    NotFoundError,
    RedriveError,
    ReplayRefusedError,
    TransitionError,
)
from redrive.failures.audit import Audit
from redrive.failures.bulk_replays import BulkReplays
from redrive.failures.groups import FailureGroups
from redrive.failures.replays import Replays
from redrive.failures.saved_views import SavedViews
from redrive.failures.service import Failures
from redrive.failures.strategies import LetterStrategies
from redrive.model.dead_letter import DEAD_LETTER_TRANSITIONS, DeadLetterState
from redrive.model.failure_group import GROUP_TRANSITIONS, GroupState
from redrive.model.operation import Plan, ReplayOperation
from redrive.observe.log import LOGGER
from redrive.parts import parts_of
from redrive.policy import Backoff, Immediate, RetryPolicy
from redrive.policy.policy_change import Alteration
from redrive.settings import Settings
from redrive.store.rows import read_row
from redrive.verify import verify

VOLATILE = {"workers", "processors", "limits", "breakers", "queues"}
KEPT = tuple(table for table in TABLES if table not in VOLATILE)

HOSTILE = {
    "NUL": "a\x00b",
    "lone surrogate": "a\ud800b",
    "low surrogate": "\udfff",
    "escape": "\x1b[31mred\x1b[0m",
    "right to left": "abc\u202egpj.exe",
    "zero width": "a\u200bb",
    "byte order mark": "\ufeffabc",
    "noncharacter": "a\uffffb",
    "astral": "\U0001f4a5\U0010ffff",
    "combining": "e" + "\u0301" * 50,
    "quote": "'; DROP TABLE dead_letters; --",
    "double quote": '" OR 1=1 --',
    "dollar": "$1 $$ ?1 :org @p",
    "braces": "{org} %(org)s {0}",
    "wildcards": "%_%",
    "backslash": "\\' \\\\ \\u0000",
    "sealed": '{"$sealed":"k:gAAAA"}',
    "json": '[{"a":null}]',
    "null word": "null",
    "html": "<script>alert(1)</script>",
    "newline": "a\nb",
    "carriage return": "a\rINFO forged",
    "line separator": "a\u2028b",
    "blank": "   ",
    "empty": "",
    "number": "1e999",
    "long": "x" * 1_000_000,
}
SECRET = "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc"
WORD = "correct-horse-canary"
CARD = "4111111111111111"
CANARIES = (SECRET, WORD, CARD)


class Ground:
    """An application with failed work of two organizations; it executes work when the test says so."""

    def __init__(self, url: str, schema: str, **settings: Any) -> None:
        self.app = Redrive(
            url, settings=Settings(schema=schema, **settings), queues=["default"], log=False, durable=False
        )
        self.broken = True
        for name, options in {"charge": {}, "hopeless": {"redrive": "immediate", "max_redrives": 1}}.items():
            self.app.task(self._charge, name=name, max_attempts=1, **options)  # type: ignore[call-overload]

    async def _charge(self, order: dict[str, Any]) -> str:
        if self.broken:
            raise FinalError(order.get("say", "declined"))
        return "paid"

    async def work(self) -> int:
        return await parts_of(self.app).worker_in_test().work_off()

    async def fail(self, *says: str, task: str = "charge", **options: Any) -> list[str]:
        """Create a failed run for each message, and return the ids of their letters."""
        runs = await self.app.start_many(task, [{"say": say} for say in says], **options)
        await self.work()
        letters = [await run.dead_letter() for run in runs]
        return [letter.id for letter in letters if letter is not None]

    async def everything(self) -> dict[str, list[str]]:
        """Everything that a rejected call must not alter."""
        database = parts_of(self.app).database
        return {
            table: sorted(map(repr, await ask(database, f"SELECT * FROM redrive.{table}"))) for table in KEPT
        }

    async def check(self, *orgs: str) -> None:
        verdict = await verify(parts_of(self.app).database)
        assert verdict.sound, str(verdict)
        for org in orgs or ("default",):
            audit = await self.app.failures(org=org).audit.verify()
            assert audit.sound, str(audit)


@pytest.fixture(params=["sqlite", "postgres"])
async def ground(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ground]:
    if request.param == "sqlite":
        ground = Ground(f"sqlite:///{tmp_path / 'work.db'}", "redrive")
        yield ground
        await ground.app.close()
        return
    server: PostgresServer = request.getfixturevalue("live_postgres")
    schemas: Schemas = request.getfixturevalue("schemas")
    async with schemas.lent() as schema:
        ground = Ground(server.url, schema)
        yield ground
        await ground.app.close()


async def refused_or_done(ground: Ground, call: Callable[..., Awaitable[Any]], *values: Any) -> Any:
    """Return the result, or None after one of our errors, which must leave everything unchanged."""
    before = await ground.everything()
    try:
        return await call(*values)
    except RedriveError as error:
        told = str(error)
    assert 0 < len(told) < 2_000, "the message is an answer, not an echo"
    assert told.isprintable(), repr(told)
    assert await ground.everything() == before
    return None


# Texts of operators


async def test_hostile_texts_are_stored_as_given_or_rejected(ground: Ground) -> None:
    [letter_id] = await ground.fail("x")
    letters = ground.app.failures(by="ana")
    for name, text in HOSTILE.items():
        said = text.strip()
        if await refused_or_done(ground, letters.note, letter_id, text):
            assert (await letters.notes(letter_id))[-1].body == said, name
        if await refused_or_done(ground, letters.tag, letter_id, [text]):
            assert (await letters.view(letter_id)).tags == (said,), name
            assert await letters.tag(letter_id, [], [text])
            assert (await letters.view(letter_id)).tags == (), name
        if await refused_or_done(ground, letters.assign, letter_id, text):
            assert (await letters.view(letter_id)).assignee == said, name
        if await refused_or_done(ground, letters.resolve, letter_id, text):
            assert (await letters.view(letter_id)).resolution == said, name
            await letters.reopen(letter_id, text)
    await ground.check()


async def test_tags_and_assignees_are_found_by_exactly_that_word(ground: Ground) -> None:
    """UI rule 5: quotes take everything literally."""
    words = [
        text
        for text in HOSTILE.values()
        if text.isprintable() and text.strip() == text and 0 < len(text) < 99
    ]
    ids = await ground.fail(*words)
    letters = ground.app.failures(by="ana")
    for letter_id, word in zip(ids, words, strict=True):
        await letters.tag(letter_id, [word])
        await letters.assign(letter_id, word)
    for letter_id, word in zip(ids, words, strict=True):
        for key in ("tag", "assignee"):
            found = [line.id for line in (await letters.list(f"{key}:{quoted(word)}")).lines]
            assert found == [letter_id], (key, word)


@pytest.mark.parametrize(
    ("verb", "shortest", "longest"), [("note", 1, 10_000), ("resolve", 0, 2_000), ("assign", 1, 100)]
)
async def test_texts_have_the_documented_maximum_length(
    ground: Ground, verb: str, shortest: int, longest: int
) -> None:
    ids = await ground.fail("a", "b")
    call = getattr(ground.app.failures(by="ana"), verb)
    assert await call(ids[0], "\u00e9" * longest)
    assert await refused_or_done(ground, call, ids[1], "\u00e9" * (longest + 1)) is None
    if shortest:
        assert await refused_or_done(ground, call, ids[1], "") is None
    assert await call(ids[1], "x" * shortest)


async def test_fifty_tags_and_not_one_more(ground: Ground) -> None:
    [letter_id] = await ground.fail("x")
    letters = ground.app.failures(by="ana")
    await letters.tag(letter_id, [f"t{number}" for number in range(50)])
    assert await refused_or_done(ground, letters.tag, letter_id, ["one more"]) is None
    assert await letters.tag(letter_id, ["one more"], ["t0"])
    await ground.check()


async def test_the_name_and_the_org_of_a_caller_are_bounded(ground: Ground) -> None:
    for name in ("a", "a" * 200):
        assert ground.app.failures(by=name).caller.name == name
    for org in ("a", "a" * 100):
        assert ground.app.failures(org=org).caller.org == org
    bad = [text for text in HOSTILE.values() if not text.isprintable() or not text or len(text) > 200]
    names: list[Any] = [*bad, "a" * 201, "ana\n", "redrive", "ReDrive", None, 5, b"ana"]
    for wrong in names:
        with pytest.raises(InvalidValueError):
            ground.app.failures(by=wrong)
    orgs: list[Any] = [*bad, "a" * 101, "acme\n", "%", "a'b", None, 5]
    for wrong in orgs:
        with pytest.raises(InvalidValueError):
            ground.app.failures(org=wrong)


async def test_hostile_ids_cursors_and_choices_are_refused_and_change_nothing(ground: Ground) -> None:
    ids = await ground.fail("x", "y")
    failures = ground.app.failures(by="ana")
    plan = await failures.plans.create(ids=ids)
    fingerprint = (await failures.view(ids[0])).fingerprint
    calls: list[Callable[[str], Awaitable[Any]]] = [
        failures.view,
        lambda text: failures.list(cursor=text),
        lambda text: failures.list(order=text),
        lambda text: failures.link(ids[0], text),
        lambda text: failures.link(text, ids[0]),
        lambda text: failures.unlink(ids[0], text),
        failures.dependencies,
        failures.notes,
        lambda text: failures.note(text, "x"),
        lambda text: failures.resolve([ids[0], text]),
        lambda text: failures.tag([ids[0], text], ["x"]),
        lambda text: failures.assign([ids[0], text], "bob"),
        failures.reopen,
        failures.groups.view,
        failures.groups.acknowledge,
        failures.groups.occurrences,
        lambda text: failures.groups.resolve(text, "x"),
        failures.related,
        failures.views.remove,
        failures.views.list,
        failures.strategies.change,
        lambda text: failures.strategies.change("automatic", queue=text + "\x00"),
        lambda text: failures.views.create(text, "nowhere"),
        lambda text: failures.groups.list(sort=text),
        lambda text: failures.groups.list(cursor=text),
        failures.plans.view,
        failures.plans.report,
        failures.plans.drift,
        failures.plans.start,
        failures.plans.pause,
        failures.plans.resume,
        failures.plans.cancel,
        failures.plans.items,
        lambda text: failures.plans.items(plan.operation_id, cursor=text),
        lambda text: failures.plans.items(plan.operation_id, state=text),
        lambda text: failures.plans.create(ids=[ids[0], text]),
        lambda text: failures.plans.create(ids=ids, mode=text),
        lambda text: failures.audit.list(action=text),
        lambda text: failures.audit.list(cursor=text),
        failures.replays.view,
        failures.replays.start,
        lambda text: failures.replays.start(ids[0], text),
        lambda text: failures.replays.start(ids[0], from_step=text),
        failures.add,
        failures.replay_run,
        failures.verdict,
        lambda text: failures.reveal(text, reason="x"),
    ]
    assert fingerprint
    before = await ground.everything()
    for name, text in HOSTILE.items():
        for number, call in enumerate(calls):
            with pytest.raises((NotFoundError, InvalidValueError)) as caught:
                await call(text)
            assert str(caught.value).isprintable(), (name, number)
    assert await ground.everything() == before
    assert await failures.replays.list(HOSTILE["quote"]) == []
    assert (await failures.list(cursor=None)).lines


async def test_instants_that_are_no_instants_are_refused(ground: Ground) -> None:
    """Limits of dates: the same result on both databases."""
    await ground.fail("x")
    audit = ground.app.failures(by="ana").audit
    moments: tuple[Any, ...] = (float("nan"), "yesterday", True)
    for moment in moments:
        for name in ("since", "until"):
            with pytest.raises(InvalidValueError):
                await audit.list(**{name: moment})


async def test_a_plan_of_a_group_that_does_not_exist_is_refused(ground: Ground) -> None:
    """W13: as for ids. An invalid fingerprint is neither stored nor audited (W14)."""
    await ground.fail("x")
    operations = ground.app.failures(by="ana").plans
    before = await ground.everything()
    for group in ("", "   ", "x" * 100_000, f"password={WORD}", SECRET, "v1:" + "0" * 40):
        with pytest.raises((NotFoundError, InvalidValueError)):
            await operations.create(group=group)
    assert await ground.everything() == before


# Queries


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


NEEDLES = (
    "%",
    "_",
    "\\",
    "100%",
    "a_b",
    "'",
    '"',
    "DROP",
    "drop",
    "é",
    "É",
    "ß",
    "null",
    "\U0001f4a5",
    "[0]",
    "*",
    "?",
    "$1",
    "",
)


async def test_free_text_finds_texts_that_contain_it_and_ignores_wildcards(ground: Ground) -> None:
    says = [
        "100% sure",
        "100 sure",
        "a_b",
        "axb",
        "back\\slash",
        "it's",
        'say "x"',
        "DROP it",
        "null",
        "$1",
        "*",
        "?",
    ]
    ids = dict(zip(await ground.fail(*says), says, strict=True))
    letters = ground.app.failures(by="ana")
    for needle in (each for each in NEEDLES if each):
        found = {ids[line.id] for line in (await letters.list(quoted(needle), size=100)).lines}
        in_type = needle.lower() in "redrive.errors.finalerror"
        wanted = {say for say in says if needle.lower() in say.lower() or in_type}
        assert found >= wanted, needle
        titles = {line.title for line in (await letters.list(size=100)).lines}
        assert found == wanted or any(needle.lower() in title.lower() for title in titles), needle
        assert (await letters.count(quoted(needle))).number == len(found)
        assert (await letters.count("-" + quoted(needle))).number == len(says) - len(found)


KEYS = (
    "is",
    "category",
    "class",
    "step",
    "task",
    "workflow",
    "queue",
    "fp",
    "error",
    "code",
    "status",
    "run",
    "id",
    "correlation",
    "assignee",
    "tag",
    "template",
    "breaker",
    "version",
    "effect",
    "redrive",
    "attempts",
    "replays",
    "redrives",
    "priority",
    "since",
    "until",
    "nonsense",
)
VALUES = (
    "open",
    "live",
    "closed",
    "any",
    "resolved",
    "timeout",
    "unknown",
    "final",
    "charge",
    "default",
    "me",
    "none",
    "ana",
    ">0",
    "<=3",
    "1..2",
    "0",
    "2h",
    "2020-01-01",
    "idempotent",
    "never",
    "custom:x",
    "000000",
    "a,b",
    '"x y"',
    "%",
    "'",
    "*",
    "",
    "-1",
    "9" * 30,
)


def random_query(random: Random) -> str:
    terms = []
    for _ in range(random.randint(0, 4)):
        sign = random.choice(["", "", "", "-"])
        value = random.choice(VALUES)
        key = random.choice(KEYS)
        terms.append(
            random.choice(
                [f"{sign}{key}:{value}", f"{sign}{value}", random.choice(list(HOSTILE.values())[:-1])]
            )
        )
    return " ".join(terms)


async def test_any_query_is_answered_or_refused_and_pages_agree_with_counts(ground: Ground) -> None:
    """Both databases get the same queries, and neither fails."""
    ids = await ground.fail("one", "two", "three", correlation_id="c")
    letters = ground.app.failures(by="ana")
    await letters.assign(ids[0], "ana")
    await letters.resolve(ids[1], "done")
    random, answered = Random(5), 0
    for _ in range(400):
        query = random_query(random)
        try:
            number = (await letters.count(query)).number
        except InvalidValueError:
            continue
        answered += 1
        assert len((await letters.list(query)).lines) == number, query
        assert len((await letters.list(query, order="oldest")).lines) == number, query
    assert answered > 50


@pytest.mark.parametrize("order", ["newest", "oldest"])
async def test_pages_show_everything_once_although_all_came_in_the_same_moment(
    ground: Ground, order: str
) -> None:
    ids = await ground.fail(*(f"say {number}" for number in range(11)))
    letters = ground.app.failures(by="ana")
    for query in ("", "is:open", "is:live step:charge", "is:any"):
        for size in (1, 2, 3, 10, 11, 12):
            seen, cursor = [], None
            while True:
                page = await letters.list(query, size=size, cursor=cursor, order=order)
                seen += [line.id for line in page.lines]
                assert len(page.lines) <= size
                if (cursor := page.next_cursor) is None:
                    break
            assert sorted(seen) == sorted(ids), (query, size)


async def test_closing_shown_letters_skips_none_on_the_next_page(ground: Ground) -> None:
    """UI rules 2 and 3: the list does not move while an operator reads it."""
    ids = await ground.fail(*(f"say {number}" for number in range(9)))
    letters = ground.app.failures(by="ana")
    seen, cursor = [], None
    while True:
        page = await letters.list("is:open", size=2, cursor=cursor)
        seen += [line.id for line in page.lines]
        await letters.resolve([line.id for line in page.lines], "seen")
        if (cursor := page.next_cursor) is None:
            break
    assert sorted(seen) == sorted(ids)


async def test_queries_have_the_documented_maximum_length(ground: Ground) -> None:
    letters = ground.app.failures(by="ana")
    fine = ["x" * 4_000, " ".join(["is:open"] * 32), "step:" + ",".join("abc" for _ in range(100))]
    for query in fine:
        assert (await letters.count(query)).number == 0
    for query in ("x" * 4_001, " ".join(["is:open"] * 33), "step:" + ",".join("abc" for _ in range(101))):
        with pytest.raises(InvalidValueError):
            await letters.count(query)
    for size in (-1, 0, 501, True, 1.5, "5", None):
        with pytest.raises(InvalidValueError):
            await letters.list(size=size)  # type: ignore[arg-type]
    assert not (await letters.list(size=500)).lines


# Every state, every verb (I10)

PEOPLE = {
    "resolve": DeadLetterState.RESOLVED,
    "ignore": DeadLetterState.IGNORED,
    "archive": DeadLetterState.ARCHIVED,
    "reopen": DeadLetterState.OPEN,
    "replay": DeadLetterState.REPLAYING,
}


async def letter_in(ground: Ground, state: DeadLetterState) -> str:
    """Bring a letter into this state by real events."""
    failures = ground.app.failures(by="zoe")
    if state is DeadLetterState.EXHAUSTED:
        [letter_id] = await ground.fail("x", task="hopeless")
        await ground.work()
    else:
        [letter_id] = await ground.fail("x")
        verb = {end: name for name, end in PEOPLE.items()}[state]
        if state is DeadLetterState.REPLAYING:
            await failures.replay(letter_id)
        elif state is not DeadLetterState.OPEN:
            await getattr(failures, verb)(letter_id, "so")
    assert (await failures.view(letter_id)).state == state
    return letter_id


@pytest.mark.parametrize("verb", PEOPLE)
@pytest.mark.parametrize("state", DeadLetterState)
async def test_a_letter_moves_as_the_table_allows_or_not_at_all_i10(
    ground: Ground, state: DeadLetterState, verb: str
) -> None:
    letter_id = await letter_in(ground, state)
    failures = ground.app.failures(by="ana")
    call = failures.replay if verb == "replay" else getattr(failures, verb)
    after = PEOPLE[verb]
    by_people = state is not DeadLetterState.REPLAYING and DEAD_LETTER_TRANSITIONS.allows(state, after)
    number = (await failures.audit.head()).sequence
    if by_people:
        await call(letter_id, reason="why")
        assert (await failures.view(letter_id)).state == after
        assert (await failures.audit.head()).sequence == number + 1
        [entry] = (await failures.audit.list(actor="ana")).entries
        assert entry.detail["reason"] == "why"
    else:
        before = await ground.everything()
        with pytest.raises((TransitionError, ReplayRefusedError), match=r"\w+ \w+"):
            await call(letter_id, reason="why")
        assert await ground.everything() == before
    await ground.check()


@pytest.mark.parametrize("state", DeadLetterState)
async def test_words_are_added_to_a_letter_in_any_state_and_do_not_move_it(
    ground: Ground, state: DeadLetterState
) -> None:
    letter_id = await letter_in(ground, state)
    failures = ground.app.failures(by="ana")
    number = (await failures.audit.head()).sequence
    await failures.note(letter_id, "looked at it")
    await failures.tag(letter_id, ["seen"])
    await failures.assign(letter_id, "bob")
    assert (await failures.view(letter_id)).state == state
    assert (await failures.audit.head()).sequence == number + 3
    await ground.check()


GROUP_VERBS = {
    "acknowledge": GroupState.ACKNOWLEDGED,
    "resolve": GroupState.RESOLVED,
    "ignore": GroupState.IGNORED,
    "reopen": GroupState.OPEN,
}


@pytest.mark.parametrize("verb", GROUP_VERBS)
@pytest.mark.parametrize("state", GroupState)
async def test_a_group_moves_as_the_table_allows_or_not_at_all(
    ground: Ground, state: GroupState, verb: str
) -> None:
    [letter_id] = await ground.fail("x")
    failures = ground.app.failures(by="ana")
    fingerprint = (await failures.view(letter_id)).fingerprint
    if state is not GroupState.OPEN:
        name = {end: name for name, end in GROUP_VERBS.items()}[state]
        await getattr(failures.groups, name)(fingerprint, "so")
    before, number = await ground.everything(), (await failures.audit.head()).sequence
    call = getattr(failures.groups, verb)
    if GROUP_TRANSITIONS.allows(state, GROUP_VERBS[verb]):
        await call(fingerprint, "why")
        assert (await failures.groups.view(fingerprint)).group.state == GROUP_VERBS[verb]
        assert (await failures.audit.head()).sequence == number + 1
    else:
        with pytest.raises(TransitionError):
            await call(fingerprint, "why")
        assert await ground.everything() == before
    assert (await failures.view(letter_id)).state == "OPEN"
    await ground.check()


async def test_closing_several_of_which_one_cannot_be_closed_closes_none(ground: Ground) -> None:
    ids = [*await ground.fail("a", "b"), await letter_in(ground, DeadLetterState.REPLAYING)]
    letters = ground.app.failures(by="ana")
    for verb in ("resolve", "ignore", "archive", "reopen"):
        assert await refused_or_done(ground, getattr(letters, verb), ids, "why") is None
        assert (
            await refused_or_done(ground, getattr(letters, verb), [*ids[:2], "no such letter"], "why") is None
        )
    for expect in (1, 2, 4):
        assert (
            await refused_or_done(
                ground, lambda expect=expect: letters.resolve_matching("is:live", "why", expect=expect)
            )
            is None
        )


# Other tenants (W13)

CANARY = "canary-of-acme"


class Estate:
    """The rows of acme; every text contains the canary."""

    def __init__(
        self,
        letters: list[str],
        run: str,
        fingerprint: str,
        operation: str,
        replay: str,
        head: Any,
        view: str = "ghost",
    ) -> None:
        self.letters, self.run, self.fingerprint, self.view = letters, run, fingerprint, view
        self.operation, self.replay, self.head = operation, replay, head


async def estate(ground: Ground) -> Estate:
    ids = await ground.fail(
        CANARY, CANARY, CANARY, org="acme", correlation_id=CANARY, metadata={"of": CANARY}
    )
    failures = ground.app.failures(org="acme", by=CANARY)
    await failures.note(ids[0], CANARY)
    await failures.tag(ids, [CANARY])
    await failures.assign(ids, CANARY)
    await failures.link(ids[0], ids[1])
    await failures.resolve(ids[2], CANARY)
    replay = await failures.replay(ids[1], reason=CANARY)
    await ground.work()
    plan = await failures.plans.create(query="is:open", reason=CANARY)
    letter = await failures.view(ids[0])
    await failures.groups.acknowledge(letter.fingerprint, CANARY)
    view = await failures.views.create(CANARY, "dlq", CANARY)
    await failures.strategies.change("automatic", queue="mail", reason=CANARY)
    head = await failures.audit.head()
    return Estate(ids, letter.run_id, letter.fingerprint, plan.operation_id, replay.id, head, view.id)


# Calls of another tenant with the ids of acme: they get NotFoundError or an empty result.
Ask = Callable[[Any, Estate], Awaitable[Any]]


def _alike(operation_id: str) -> ReplayOperation:
    """Return a plan of another organization with the same id, and no content."""
    nothing = Plan(
        operation_id=operation_id,
        digest="",
        mode="FROM_STEP",
        selected=0,
        will_run=0,
        steps={},
        results_reused=0,
        waits=(),
        refused=(),
        skipped=0,
        may_repeat_effects=0,
        repeat_under_key=0,
        breakers=(),
    )
    blank = read_row(ReplayOperation, [None] * len(ReplayOperation.__struct_fields__))
    return blank.replace(id=operation_id, plan=nothing.to_json())


ATTACKS: dict[tuple[type, str], Ask] = {
    (Failures, "archive"): lambda part, it: part.archive(it.letters, "x"),
    (Failures, "archive_matching"): lambda part, it: part.archive_matching("is:any", "x", expect=1),
    (Failures, "assign"): lambda part, it: part.assign(it.letters[0], "mallory"),
    (Failures, "close_matching"): lambda part, it: part.close_matching(
        f"id:{it.letters[0]}", "RESOLVED", "x", expect=1
    ),
    (Failures, "count"): lambda part, it: part.count("is:any"),
    (Failures, "dependencies"): lambda part, it: part.dependencies(it.letters[0]),
    (Failures, "view"): lambda part, it: part.view(it.letters[0]),
    (Failures, "ignore"): lambda part, it: part.ignore(it.letters[0], "x"),
    (Failures, "ignore_matching"): lambda part, it: part.ignore_matching(
        f"id:{it.letters[0]}", "x", expect=1
    ),
    (Failures, "lines"): lambda part, it: part.lines(it.letters),
    (Failures, "link"): lambda part, it: part.link(it.letters[1], it.letters[0]),
    (Failures, "list"): lambda part, it: part.list(f"is:any id:{it.letters[0]}"),
    (Failures, "note"): lambda part, it: part.note(it.letters[0], "x"),
    (Failures, "notes"): lambda part, it: part.notes(it.letters[0]),
    (Failures, "reopen"): lambda part, it: part.reopen(it.letters[2], "x"),
    (Failures, "related"): lambda part, it: part.related(it.letters[0]),
    (Failures, "resolve"): lambda part, it: part.resolve(it.letters[0], "x"),
    (Failures, "resolve_matching"): lambda part, it: part.resolve_matching("is:open", "x", expect=1),
    (Failures, "statistics"): lambda part, it: part.statistics("default"),
    (Failures, "tag"): lambda part, it: part.tag(it.letters[0], ["x"]),
    (Failures, "unlink"): lambda part, it: part.unlink(it.letters[0], it.letters[1]),
    (FailureGroups, "acknowledge"): lambda part, it: part.acknowledge(it.fingerprint, "x"),
    (FailureGroups, "view"): lambda part, it: part.view(it.fingerprint),
    (FailureGroups, "ignore"): lambda part, it: part.ignore(it.fingerprint, "x"),
    (FailureGroups, "list"): lambda part, it: part.list(CANARY),
    (FailureGroups, "count"): lambda part, it: part.count(),
    (FailureGroups, "occurrences"): lambda part, it: part.occurrences(it.fingerprint),
    (FailureGroups, "records"): lambda part, it: part.records([it.fingerprint]),
    (FailureGroups, "sparklines"): lambda part, it: part.sparklines([it.fingerprint]),
    (FailureGroups, "spread"): lambda part, it: part.spread(it.fingerprint),
    (FailureGroups, "reopen"): lambda part, it: part.reopen(it.fingerprint, "x"),
    (FailureGroups, "resolve"): lambda part, it: part.resolve(it.fingerprint, "x", letters=True),
    (SavedViews, "list"): lambda part, it: part.list(),
    (SavedViews, "remove"): lambda part, it: part.remove(it.view),
    (LetterStrategies, "list"): lambda part, it: part.list(),
    (LetterStrategies, "view"): lambda part, it: part.view("mail"),
    (LetterStrategies, "change"): lambda part, it: part.change(None, queue="mail"),
    (Replays, "view"): lambda part, it: part.view(it.replay),
    (Replays, "list"): lambda part, it: part.list(it.letters[1]),
    (Replays, "start"): lambda part, it: part.start(it.letters[0]),
    (Replays, "input"): lambda part, it: part.input(it.letters[0]),
    (Replays, "preview"): lambda part, it: part.preview(it.letters[0]),
    (BulkReplays, "cancel"): lambda part, it: part.cancel(it.operation),
    (BulkReplays, "failures"): lambda part, it: part.failures(it.operation),
    (BulkReplays, "progress"): lambda part, it: part.progress([_alike(it.operation)]),
    (BulkReplays, "reaching"): lambda part, it: part.reaching(it.fingerprint),
    (BulkReplays, "active"): lambda part, it: part.active(),
    (BulkReplays, "view"): lambda part, it: part.view(it.operation),
    (BulkReplays, "items"): lambda part, it: part.items(it.operation),
    (BulkReplays, "list"): lambda part, it: part.list(cursor=it.operation),
    (BulkReplays, "pause"): lambda part, it: part.pause(it.operation),
    (BulkReplays, "create"): lambda part, it: part.create(ids=it.letters),
    (BulkReplays, "report"): lambda part, it: part.report(it.operation),
    (BulkReplays, "drift"): lambda part, it: part.drift(it.operation),
    (BulkReplays, "resume"): lambda part, it: part.resume(it.operation),
    (BulkReplays, "start"): lambda part, it: part.start(it.operation),
    (Audit, "about"): lambda part, it: part.about(it.letters[0]),
    (Audit, "head"): lambda part, it: part.head(),
    (Audit, "list"): lambda part, it: part.list(subject=it.letters[0]),
    (Audit, "verify"): lambda part, it: part.verify(),
    (Failures, "add"): lambda part, it: part.add(it.run),
    (Failures, "replay"): lambda part, it: part.replay(it.letters[0]),
    (Failures, "replay_run"): lambda part, it: part.replay_run(it.run),
    (Failures, "obstacle_to_replay_run"): lambda part, it: part.obstacle_to_replay_run(it.run),
    (Failures, "reveal"): lambda part, it: part.reveal(it.letters[0], reason="x"),
    (Failures, "verdict"): lambda part, it: part.verdict(it.letters[0]),
    (Failures, "overview"): lambda part, it: part.overview(),
    (Failures, "what_if"): lambda part, it: part.what_if(Alteration(attempts=2), since=0.0),
    (Failures, "totals"): lambda part, it: part.totals(),
    (Failures, "needs_you"): lambda part, it: part.needs_you(),
}
OF_ONES_OWN = {(SavedViews, "create")}
"""Calls that name no existing row: they create one."""
ANSWERED = {"count", "list", "lines", "records", "sparklines", "statistics"}
ANSWERED |= {"overview", "totals", "needs_you", "what_if"}
ANSWERED |= {"about", "head", "verify", "active", "progress", "reaching"}
"""These return nothing, or only zeros."""
MUST_REFUSE = {key for key in ATTACKS if key[1] not in ANSWERED} | {(BulkReplays, "list")}
MUST_REFUSE -= {(LetterStrategies, "view"), (LetterStrategies, "change")}
"""These two return the caller's own strategy, which comes from the settings."""


def services_of(failures: Failures) -> list[Any]:
    """Return the failures service and the services that it exposes."""
    shown = [each for name, each in vars(failures).items() if not name.startswith("_") and name != "caller"]
    return [failures, *(each for each in shown if not inspect.ismethod(each))]


def public_methods(part: object) -> set[str]:
    return {name for name, _ in inspect.getmembers(part, inspect.ismethod) if not name.startswith("_")}


def part_of(failures: Failures, kind: type) -> Any:
    return next(each for each in services_of(failures) if type(each) is kind)


async def test_another_tenant_finds_nothing_by_any_method_of_the_failures_service_w13_i8(
    ground: Ground,
) -> None:
    it = await estate(ground)
    failures = ground.app.failures(org="stranger", by="mallory")
    assert {type(each) for each in services_of(failures)} == {kind for kind, _ in ATTACKS}
    for part in services_of(failures):
        known = {name for kind, name in {*ATTACKS, *OF_ONES_OWN} if kind is type(part)}
        assert public_methods(part) == known, "attack the new one, too"
    before = await ground.everything()
    for (kind, name), attack in ATTACKS.items():
        try:
            answer = await attack(part_of(failures, kind), it)
        except (NotFoundError, DriftError) as error:
            told = str(error)
        else:
            assert (kind, name) not in MUST_REFUSE, (kind, name, answer)
            told = repr(answer)
        assert CANARY not in told, (kind, name)
        assert it.head.hash not in told, (kind, name)
    assert await ground.everything() == before
    await ground.check("acme", "stranger")


async def test_another_tenant_gets_the_same_error_as_for_a_missing_object_w13(ground: Ground) -> None:
    it = await estate(ground)
    failures = ground.app.failures(org="stranger", by="mallory")
    ghost = Estate(["ghost a", "ghost b", "ghost c"], "ghost", "v1:" + "0" * 40, "ghost", "ghost", it.head)
    for kind, name in MUST_REFUSE:
        told = []
        for target in (it, ghost):
            with pytest.raises(RedriveError) as caught:
                await ATTACKS[kind, name](part_of(failures, kind), target)
            text = str(caught.value)
            named = (target.run, target.fingerprint, target.operation, target.replay, target.view)
            for word in (*target.letters, *named):
                text = text.replace(word, "it")
            told.append((type(caught.value), text))
        assert told[0] == told[1], (kind, name)


async def test_the_handle_of_a_foreign_run_shows_and_does_nothing_w13(ground: Ground) -> None:
    it = await estate(ground)
    handle = ground.app.run(it.run, "stranger")
    before = await ground.everything()
    for call in (handle.view, handle.state, handle.history, handle.cancel, handle.dead_letter):
        try:
            answer = await call()
        except NotFoundError:
            continue
        assert answer is None, call
    assert await ground.everything() == before


async def test_a_link_never_crosses_organizations_w13(ground: Ground) -> None:
    [own] = await ground.fail("x", org="stranger")
    it = await estate(ground)
    failures = ground.app.failures(org="stranger", by="mallory")
    for pair in ((own, it.letters[0]), (it.letters[0], own)):
        for call in (failures.link, failures.unlink):
            assert await refused_or_done(ground, call, *pair) is None
    assert await refused_or_done(ground, failures.resolve, [own, it.letters[0]], "x") is None
    assert await refused_or_done(ground, lambda: failures.plans.create(ids=[own, it.letters[0]])) is None


async def test_a_group_of_one_fingerprint_is_another_one_in_every_organization_w13(ground: Ground) -> None:
    it = await estate(ground)
    [own] = await ground.fail(CANARY.replace("acme", "stranger"), org="stranger")
    failures = ground.app.failures(org="stranger", by="mallory")
    fingerprint = (await failures.view(own)).fingerprint
    detail = await failures.groups.view(fingerprint)
    assert (detail.group.occurrences, detail.letters.live) == (1, 1)
    resolved = await failures.groups.resolve(fingerprint, "x", letters=True)
    assert resolved.letters == 1
    acme = ground.app.failures(org="acme", by="ana")
    assert (await acme.groups.view(it.fingerprint)).group.state == "ACKNOWLEDGED"
    assert (await acme.count("is:open")).number == 2


# Secrets (I9, W14)


async def test_secrets_that_people_type_are_kept_nowhere_i9(ground: Ground) -> None:
    """In reasons, notes, tags, names, queries, conditions: neither stored nor sent nor shown."""
    emitted = EventCollector(ground.app)
    [letter_id] = await ground.fail("x")
    failures = ground.app.failures(by="ana")
    letters, groups, operations = failures, failures.groups, failures.plans
    said = f"{SECRET} password={WORD} card {CARD}"
    fingerprint = (await letters.view(letter_id)).fingerprint
    await letters.note(letter_id, said)
    await letters.tag(letter_id, [SECRET, f"password={WORD}"])
    await letters.assign(letter_id, said)
    await letters.ignore(letter_id, said)
    await letters.reopen(letter_id, said)
    await letters.resolve_matching(f"is:open -{quoted(said)}", said, expect=1)
    await letters.reopen(letter_id, said)
    await groups.acknowledge(fingerprint, said)
    await groups.ignore(fingerprint, said, version=SECRET)
    await groups.reopen(fingerprint, said)
    await failures.reveal(letter_id, reason=said)
    plan = await operations.create(query=f"-{quoted(said)}", reason=said)
    await operations.start(plan.operation_id)
    await operations.pause(plan.operation_id, said)
    await operations.resume(plan.operation_id, said)
    await operations.cancel(plan.operation_id, said)
    await failures.replay(letter_id, reason=said, payload={"say": SECRET, "password": WORD}, retry=None)
    shown = [
        await letters.view(letter_id),
        await letters.notes(letter_id),
        await letters.list(),
        await groups.view(fingerprint),
        await operations.report(plan.operation_id),
        await failures.replays.list(letter_id),
        await failures.audit.list(size=200),
        await failures.verdict(letter_id),
    ]
    stored = await ground.everything()
    del stored["runs"]  # the run's own input, which it needs to execute
    for canary in CANARIES:
        assert canary not in repr(shown)
        assert canary not in repr(emitted.events)
        assert [table for table, rows in stored.items() if canary in repr(rows)] == []
    await ground.check()


async def test_with_keys_a_secret_is_nowhere_on_disk_and_in_no_log_line_i9(tmp_path: Path) -> None:
    """From the payload to the edit of its replay, its result and its error message."""
    key = Fernet.generate_key().decode()
    app = Redrive(
        f"sqlite:///{tmp_path / 'work.db'}", settings=Settings(encryption_keys=(key,)), durable=False
    )
    broken = True

    @app.task(max_attempts=2, retry=RetryPolicy(name="now", max_attempts=2, backoff=Backoff(Immediate())))
    async def pay(order: dict[str, Any]) -> dict[str, Any]:
        if not broken:
            return {"token": WORD, "unnamed": SECRET}
        error = TimeoutError(f"denied for {SECRET} at https://ana:{WORD}@bank.example/?token={WORD}")
        error.add_note(f"Authorization: Bearer {SECRET}")
        raise error from ValueError(f'{{"password": "{WORD}"}}')

    payload = {"password": WORD, "card": CARD, "note": f"use {SECRET}", "nested": f'{{"password": "{WORD}"}}'}
    with written_to(LOGGER, logging.DEBUG) as lines:
        run = await app.start(pay, payload, metadata={"token": WORD, "k": SECRET})
        worker = parts_of(app).worker_in_test()
        await worker.work_off()
        letter = await run.dead_letter()
        assert letter is not None
        failures = app.failures(by="ana")
        await failures.replay(letter.id, reason=f"password={WORD}")
        await worker.work_off()
        broken = False
        await failures.replay(letter.id, payload={**payload, "api_key": WORD, "card": CARD}, reason=SECRET)
        await worker.work_off()
        assert await run.result() == {"token": WORD, "unnamed": SECRET}
        told = lines.text + repr([vars(record) for record in lines.records])
    for canary in CANARIES:
        assert canary not in told
        assert [file.name for file in tmp_path.iterdir() if canary.encode() in file.read_bytes()] == []
    await app.close()
    for canary in CANARIES:
        assert [file.name for file in tmp_path.iterdir() if canary.encode() in file.read_bytes()] == []


async def test_the_reason_of_a_pause_or_a_forced_breaker_is_stored_and_shown_without_its_secrets_i9(
    ground: Ground,
) -> None:
    emitted = EventCollector(ground.app)
    ground.app.breaker("bank")
    said = f"{SECRET} password={WORD}"
    await ground.app.queues(by="ana").pause("default", reason=said)
    await ground.app.breakers(by="ana").force("bank", "OPEN", reason=said)
    shown = [ground.app.queues(), await parts_of(ground.app).breakers.all(), emitted.events]
    shown += [
        await ask(parts_of(ground.app).database, f"SELECT * FROM redrive.{table}")
        for table in ("queues", "breakers", "audit")
    ]
    for canary in (SECRET, WORD):
        assert [number for number, each in enumerate(shown) if canary in repr(each)] == []


async def test_the_reason_of_a_pause_is_checked_before_anything_is_written(ground: Ground) -> None:
    await ground.app.open()
    before = await ask(parts_of(ground.app).database, "SELECT * FROM redrive.queues")
    for text in ("a\x00b", "a\ud800b", "x" * 2_001):
        with pytest.raises(InvalidValueError):
            await ground.app.queues(by="ana").pause("default", reason=text)
        with pytest.raises(InvalidValueError):
            await ground.app.breakers(by="ana").force("bank", "OPEN", reason=text)
    assert await ask(parts_of(ground.app).database, "SELECT * FROM redrive.queues") == before


# One entry per change (I14)


async def test_every_mutation_is_one_entry_and_a_look_is_none_i14(ground: Ground) -> None:
    ids = await ground.fail(*"abc")
    failures = ground.app.failures(by="ana")
    letters, fingerprint = failures, (await failures.view(ids[0])).fingerprint
    mutations: list[Callable[[], Awaitable[Any]]] = [
        lambda: letters.note(ids[0], "n"),
        lambda: letters.tag(ids, ["a"]),
        lambda: letters.assign(ids, "bob"),
        lambda: letters.link(ids[0], ids[1]),
        lambda: letters.unlink(ids[0], ids[1]),
        lambda: letters.resolve(ids, "r"),
        lambda: letters.reopen(ids, "r"),
        lambda: letters.ignore_matching("is:open", "r", expect=3),
        lambda: letters.reopen(ids, "r"),
        lambda: letters.archive(ids[2], "r"),
        lambda: failures.groups.acknowledge(fingerprint),
        lambda: failures.groups.reopen(fingerprint, "r"),
        lambda: failures.reveal(ids[0], reason="r"),
        lambda: failures.plans.create(ids=ids[:1]),
        lambda: failures.views.create("mine", "runs"),
        lambda: failures.strategies.change("automatic", queue="mail"),
        lambda: failures.strategies.change(None, queue="mail"),
        lambda: failures.replay(ids[0], reason="r"),
    ]
    looks: list[Callable[[], Awaitable[Any]]] = [
        lambda: letters.view(ids[0]),
        letters.list,
        letters.count,
        letters.statistics,
        lambda: letters.notes(ids[0]),
        lambda: letters.dependencies(ids[0]),
        lambda: letters.related(ids[0]),
        failures.views.list,
        failures.strategies.list,
        lambda: failures.groups.view(fingerprint),
        failures.groups.list,
        failures.groups.count,
        lambda: failures.verdict(ids[0]),
        failures.audit.list,
        failures.audit.verify,
        lambda: failures.replays.list(ids[0]),
    ]
    for number, mutate in enumerate(mutations):
        before = (await failures.audit.head()).sequence
        await mutate()
        assert (await failures.audit.head()).sequence == before + 1, number
        for look in looks:
            await look()
        assert (await failures.audit.head()).sequence == before + 1, number
    again = (await failures.audit.head()).sequence
    assert not await letters.unlink(ids[0], ids[1])
    assert (await failures.audit.head()).sequence == again, "what changes nothing is no mutation"
    await ground.check()


async def test_two_at_once_close_a_letter_once_and_the_audit_has_one_entry(ground: Ground) -> None:
    [letter_id] = await ground.fail("x")
    desks = [ground.app.failures(by=name) for name in ("ana", "bob", "cy")]
    verbs = ("resolve", "ignore", "archive")
    answers = await asyncio.gather(
        *(getattr(failures, verb)(letter_id, "r") for failures in desks for verb in verbs),
        return_exceptions=True,
    )
    assert sum(answer == 1 for answer in answers) == 1
    assert all(isinstance(answer, TransitionError) for answer in answers if answer != 1)
    entries = (await desks[0].audit.list(subject=letter_id)).entries
    assert len([entry for entry in entries if entry.actor != "redrive"]) == 1
    await ground.check()


async def test_everything_is_as_it_was_after_closing_and_opening_the_application(ground: Ground) -> None:
    ids = await ground.fail("a", "b")
    failures = ground.app.failures(by="ana")
    await failures.note(ids[0], "n")
    await failures.ignore(ids[1], "r")
    before, head = await ground.everything(), await failures.audit.head()
    figures = await failures.statistics()
    await ground.app.close()
    failures = ground.app.failures(by="ana")
    assert await ground.everything() == before
    assert await failures.statistics() == figures
    assert (await failures.audit.verify(head)).sound
    await failures.reopen(ids[1], "again")
    assert (await failures.audit.verify(head)).sound
