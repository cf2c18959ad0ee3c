"""Triage: operators close, reopen, assign, tag, note and link dead letters (W8, W13, W14, W16, M12).

Each change is all or nothing, has an audit entry, and is emitted afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from tests.engine.workbench import EventCollector, bench, new_app, sql

from redrive.app import Redrive
from redrive.errors import DriftError, FinalError, InvalidValueError, NotFoundError, TransitionError
from redrive.failures.dead_letters import DeadLetters
from redrive.failures.preconditions import MAX_CONCURRENT
from redrive.model.caller import SELF, Caller
from redrive.model.event import DeadLetterChanged
from redrive.parts import parts_of
from redrive.policy.codec import decode
from redrive.testing import Harness
from redrive.words.state import status

SECRET = "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc"
Entry = tuple[str, str, list[str], dict[str, Any]]


class World:
    """An application with dead letters, and the operators who work on them."""

    def __init__(self, app: Redrive, test: Harness) -> None:
        self.app = app
        self.test = test
        self.collector = EventCollector(app)
        self.ana = self.failures("ana")

    def failures(self, name: str, org: str = "default") -> DeadLetters:
        app = self.app
        return DeadLetters(
            parts_of(app).store,
            parts_of(app).ids,
            parts_of(app).event_bus,
            parts_of(app).redactor,
            parts_of(app).encryption,
            Caller(org, name),
        )

    async def fail(self, number: int = 1, org: str = "default") -> list[str]:
        """Create failed runs, and return the ids of their letters, the oldest first."""
        handles = await self.app.start_many("charge", range(number), org=org)
        await self.test.drain()
        found = [await parts_of(self.app).store.dead_letters.of_run(handle.id, org) for handle in handles]
        return [letter.id for [letter] in found]

    async def states(self) -> dict[str, str]:
        return {row[0]: row[1] for row in await sql(self.app, "SELECT id, state FROM dead_letters")}

    async def become(self, letter_id: str, state: str) -> None:
        await sql(self.app, "UPDATE dead_letters SET state = ?1 WHERE id = ?2", state, letter_id)

    async def audited(self) -> list[Entry]:
        """Return the audit entries, except those of the engine itself."""
        text = (
            "SELECT actor, action, subject, subjects, detail FROM audit WHERE actor <> ?1 ORDER BY sequence"
        )
        return [_entry(*row) for row in await sql(self.app, text, SELF)]

    async def everything(self) -> list[Any]:
        """Everything that a rejected change must not alter."""
        tables = (
            "dead_letters",
            "dead_letter_notes",
            "dead_letter_dependencies",
            "audit",
            "audit_heads",
            "runs",
        )
        return [await sql(self.app, f"SELECT * FROM {table} ORDER BY 1, 2") for table in tables]


def _entry(actor: str, action: str, subject: str, subjects: str | None, detail: str) -> Entry:
    ids: Any = [subject] if subjects is None else decode(subjects)
    content: Any = decode(detail)
    return actor, action, ids, content


@pytest.fixture
async def world() -> AsyncIterator[World]:
    app = new_app()

    @app.task(name="charge")
    async def charge(number: int) -> None:
        raise FinalError(f"card {number} was declined")

    async with bench(app) as test:
        await app.open()
        yield World(app, test)


Close = Callable[[DeadLetters, Any, str], Awaitable[int]]
CLOSINGS = [
    (DeadLetters.resolve, "RESOLVED", "dead_letter.resolved"),
    (DeadLetters.ignore, "IGNORED", "dead_letter.ignored"),
    (DeadLetters.archive, "ARCHIVED", "dead_letter.archived"),
]

# Closing


@pytest.mark.parametrize(("close", "state", "action"), CLOSINGS)
async def test_closing_a_letter_w8_w16(world: World, close: Close, state: str, action: str) -> None:
    [mine, other] = await world.fail(2)

    assert await close(world.ana, mine, "not ours") == 1

    letter = await world.ana.view(mine)
    assert (letter.state, letter.resolved_by, letter.resolution) == (state, "ana", "not ours")
    assert letter.resolved_at == letter.updated_at == parts_of(world.app).clock.now()
    assert await world.states() == {mine: state, other: "OPEN"}
    assert await world.audited() == [("ana", action, [mine], {"reason": "not ours", "before": {"OPEN": 1}})]
    assert world.collector.of(DeadLetterChanged) == [
        DeadLetterChanged(org="default", dlq_id=mine, before="OPEN", after=state, by="ana")
    ]


@pytest.mark.parametrize(("close", "state", "action"), CLOSINGS)
async def test_closing_changes_nothing_but_the_letter(
    world: World, close: Close, state: str, action: str
) -> None:
    [mine] = await world.fail()
    before = await world.ana.view(mine)
    runs = await parts_of(world.app).store.runs.all()

    await close(world.ana, mine, "")

    after = await world.ana.view(mine)
    changed = {"state", "resolved_by", "resolved_at", "resolution", "updated_at"}
    kept = {name: value for name, value in before.asdict().items() if name not in changed}
    assert kept.items() <= after.asdict().items()
    assert await parts_of(world.app).store.runs.all() == runs
    assert runs[0].state == "DLQ_PENDING"


async def test_several_are_closed_with_one_audit_entry(world: World) -> None:
    ids = await world.fail(3)
    await world.become(ids[1], "EXHAUSTED")

    assert await world.ana.resolve([*ids, ids[0]], "known") == 3

    assert set((await world.states()).values()) == {"RESOLVED"}
    [(_, _, subjects, detail)] = await world.audited()
    assert subjects == ids
    assert detail["before"] == {"OPEN": 2, "EXHAUSTED": 1}
    assert [event.before for event in world.collector.of(DeadLetterChanged)].count("EXHAUSTED") == 1


@pytest.mark.parametrize(("close", "state", "action"), CLOSINGS)
@pytest.mark.parametrize("wrong", ["REPLAYING", "RESOLVED", "IGNORED", "ARCHIVED"])
async def test_all_or_nothing_by_state_i10(
    world: World, close: Close, state: str, action: str, wrong: str
) -> None:
    """The run of a replay decides its end: no operator ignores it, although a cancelled run does."""
    ids = await world.fail(3)
    await world.become(ids[1], wrong)
    before = await world.everything()

    with pytest.raises(
        TransitionError,
        match=f"exhausted or open can become {status(state)}, but {ids[1]} is {status(wrong)}",
    ):
        await close(world.ana, ids, "")

    assert await world.everything() == before
    assert world.collector.of(DeadLetterChanged) == []


async def test_the_error_names_the_first_few(world: World) -> None:
    ids = await world.fail(5)
    await world.ana.resolve(ids)

    with pytest.raises(TransitionError, match=f"{ids[2]} is resolved and 2 more; nothing was changed"):
        await world.ana.resolve(ids)
    with pytest.raises(NotFoundError, match="there are no dead letters a, b, c and 1 more; nothing"):
        await world.ana.reopen([*ids, "a", "b", "c", "d"])


# Reopening


@pytest.mark.parametrize(("close", "state", "action"), CLOSINGS)
async def test_closing_is_undone(world: World, close: Close, state: str, action: str) -> None:
    ids = await world.fail(2)
    before = [await world.ana.view(each) for each in ids]
    await close(world.ana, ids, "a slip")

    assert await world.failures("bo").reopen(ids, "undo") == 2

    assert [await world.ana.view(each) for each in ids] == before
    assert (await world.audited())[-1] == (
        "bo",
        "dead_letter.reopened",
        ids,
        {"reason": "undo", "before": {state: 2}},
    )
    assert world.collector.of(DeadLetterChanged)[-1] == ("default", ids[1], state, "OPEN", "bo")


@pytest.mark.parametrize("wrong", ["OPEN", "REPLAYING", "EXHAUSTED"])
async def test_a_live_letter_is_not_reopened_i10(world: World, wrong: str) -> None:
    [mine, closed] = await world.fail(2)
    await world.ana.resolve(closed)
    await world.become(mine, wrong)

    with pytest.raises(TransitionError, match=f"can become open, but {mine} is {status(wrong)}"):
        await world.ana.reopen([closed, mine])

    assert (await world.states())[closed] == "RESOLVED"


async def test_a_letter_whose_run_has_succeeded_since_is_not_reopened_i7(world: World) -> None:
    [mine] = await world.fail()
    await world.ana.resolve(mine)
    await sql(world.app, "UPDATE runs SET state = 'SUCCESS'")

    with pytest.raises(TransitionError, match=f"{mine}: its run has the status 'succeeded'"):
        await world.ana.reopen(mine)


async def test_a_letter_whose_run_is_at_another_step_is_not_reopened_i7(world: World) -> None:
    [mine] = await world.fail()
    await world.ana.resolve(mine)
    await sql(world.app, "UPDATE runs SET step_index = 1")

    with pytest.raises(TransitionError, match=f"{mine}: its run is at a later step"):
        await world.ana.reopen(mine)


async def test_a_letter_whose_step_has_failed_again_since_is_not_reopened_w8(world: World) -> None:
    """One live dead letter per step."""
    [mine, other] = await world.fail(2)
    await world.ana.resolve(mine)
    run_id = (await world.ana.view(mine)).run_id
    await sql(world.app, "UPDATE dead_letters SET run_id = ?1 WHERE id = ?2", run_id, other)

    with pytest.raises(
        TransitionError, match=f"failed again; handle its newer dead letter, {other}, instead"
    ):
        await world.ana.reopen(mine)


# By query


async def test_letters_that_match_a_query_are_closed(world: World) -> None:
    ids = await world.fail(4)
    await world.ana.ignore(ids[0])

    assert await world.ana.resolve_matching("is:open declined", "known", expect=3) == 3

    assert await world.states() == dict.fromkeys(ids, "RESOLVED") | {ids[0]: "IGNORED"}
    _, action, subjects, detail = (await world.audited())[-1]
    assert (action, subjects, detail["query"]) == ("dead_letter.resolved", ids[1:], "is:open declined")


async def test_closing_by_a_query_returns_the_ids(world: World) -> None:
    """The caller can reopen exactly these."""
    ids = await world.fail(3)
    await world.ana.archive(ids[2])

    closed = await world.ana.close_matching("is:open", "IGNORED", "noise", expect=2)

    assert sorted(closed) == sorted(ids[:2])
    assert await world.ana.reopen(closed) == 2
    with pytest.raises(InvalidValueError, match="closed as RESOLVED, IGNORED, ARCHIVED, not as EXHAUSTED"):
        await world.ana.close_matching("is:open", "EXHAUSTED", expect=2)


@pytest.mark.parametrize("expect", [1, 3])
async def test_the_number_shown_is_the_number_affected(world: World, expect: int) -> None:
    await world.fail(2)
    before = await world.everything()

    with pytest.raises(DriftError, match=f"2 dead letters match the query, {expect} were expected; nothing"):
        await world.ana.archive_matching("is:open", expect=expect)

    assert await world.everything() == before


async def test_a_query_that_also_finds_letters_that_cannot_be_closed_closes_nothing(world: World) -> None:
    [mine, _] = await world.fail(2)
    await world.become(mine, "REPLAYING")

    with pytest.raises(TransitionError, match=f"{mine} is replaying"):
        await world.ana.ignore_matching("is:live", expect=2)

    assert "IGNORED" not in (await world.states()).values()


@pytest.mark.parametrize("expect", [0, -1, MAX_CONCURRENT + 1, True, "3"])
async def test_the_expected_number_must_be_a_number(world: World, expect: Any) -> None:
    with pytest.raises(InvalidValueError, match="expect must be a whole number from 1 to 10,000"):
        await world.ana.resolve_matching("", expect=expect)


async def test_more_than_can_be_changed_at_once_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redrive.failures.preconditions.MAX_CONCURRENT", 2)
    monkeypatch.setattr("redrive.failures.dead_letters.MAX_CONCURRENT", 2)
    ids = await world.fail(3)

    with pytest.raises(DriftError, match=r"more than 2 dead letters match the query.*narrow it"):
        await world.ana.resolve_matching("is:open", expect=2)
    with pytest.raises(InvalidValueError, match="name 1 to 2 dead letters at once, got 3"):
        await world.ana.resolve(ids)


# Lists


async def test_lists_counts_and_figures(world: World) -> None:
    ids = await world.fail(5)
    await world.ana.resolve(ids[0])

    first = await world.ana.list("is:open", size=3)
    rest = await world.ana.list("is:open", size=3, cursor=first.next_cursor)

    assert [line.id for line in (*first.lines, *rest.lines)] == ids[:0:-1]
    assert [line.id for line in (await world.ana.list(order="oldest")).lines] == ids
    assert str(await world.ana.count("is:open task:charge")) == "4"
    figures = await world.ana.statistics()
    assert (figures.queue_size, figures.by_state["RESOLVED"], figures.lifetime.enqueued_total) == (4, 1, 5)
    assert (await world.ana.statistics(queue="other")).queue_size == 0


async def test_me_is_the_caller(world: World) -> None:
    [mine, others] = await world.fail(2)
    await world.ana.assign(mine, "ana")
    await world.ana.assign(others, "bo")

    assert [line.id for line in (await world.ana.list("assignee:me")).lines] == [mine]
    assert [line.id for line in (await world.failures("bo").list("assignee:me")).lines] == [others]
    assert await world.ana.resolve_matching("assignee:me", expect=1) == 1


@pytest.mark.parametrize("size", [0, 501, True])
async def test_the_size_of_a_page_is_bounded(world: World, size: int) -> None:
    with pytest.raises(InvalidValueError, match="size must be a whole number from 1 to 500"):
        await world.ana.list(size=size)


async def test_a_query_that_is_not_understood_is_refused(world: World) -> None:
    for ask in (world.ana.list, world.ana.count):
        with pytest.raises(InvalidValueError, match="unknown key 'stat' at position 1; did you mean"):
            await ask("stat:open")


# Assignees, tags and notes


async def test_letters_are_assigned(world: World) -> None:
    ids = await world.fail(2)

    assert await world.ana.assign(ids, " bo ") == 2
    assert [(await world.ana.view(each)).assignee for each in ids] == ["bo", "bo"]
    await world.ana.assign(ids[0], None)
    assert (await world.ana.view(ids[0])).assignee is None
    assert await world.audited() == [
        ("ana", "dead_letter.assigned", ids, {"assignee": "bo"}),
        ("ana", "dead_letter.assigned", [ids[0]], {"assignee": None}),
    ]


async def test_letters_are_tagged(world: World) -> None:
    [a, b] = await world.fail(2)
    await world.ana.tag(a, add=["vip", "eu"])

    await world.ana.tag([a, b], add=["late", "vip"], remove=["eu", "unknown"])

    assert (await world.ana.view(a)).tags == ("vip", "late")
    assert (await world.ana.view(b)).tags == ("late", "vip")
    assert [line.id for line in (await world.ana.list("tag:late")).lines] == [b, a]
    await world.ana.tag([a, b], remove=["late", "vip"])
    assert (await world.ana.view(a)).tags == ()
    assert (await world.audited())[1][3] == {"added": ["late", "vip"], "removed": ["eu", "unknown"]}


async def test_notes_are_kept_in_order_with_their_author(world: World) -> None:
    [mine] = await world.fail()
    first = await world.ana.note(mine, "looks like\nthe outage")
    world.test.clock.advance(5)
    await world.failures("bo").note(mine, "it is")

    notes = await world.ana.notes(mine)

    assert [(note.author, note.body) for note in notes] == [
        ("ana", "looks like\nthe outage"),
        ("bo", "it is"),
    ]
    assert notes[1].at - notes[0].at == 5
    assert (await world.audited())[0] == ("ana", "dead_letter.noted", [mine], {"note": first.id})


@pytest.mark.parametrize("state", ["REPLAYING", "ARCHIVED"])
async def test_letters_in_any_state_can_be_worked_on(world: World, state: str) -> None:
    [mine] = await world.fail()
    await world.become(mine, state)

    await world.ana.assign(mine, "bo")
    await world.ana.tag(mine, add=["a"])
    await world.ana.note(mine, "text")

    assert (await world.states())[mine] == state


async def test_secrets_are_stored_nowhere_w14_i9(world: World) -> None:
    [mine, other] = await world.fail(2)

    await world.ana.note(mine, f"tried with {SECRET}")
    await world.ana.tag(mine, add=[SECRET])
    await world.ana.assign(mine, SECRET)
    await world.ana.resolve(mine, f"password={SECRET}")
    await world.ana.reopen(mine, SECRET)
    await world.ana.resolve_matching(f'id:{other} -"{SECRET}"', SECRET, expect=1)

    assert SECRET not in repr(await world.everything())
    assert SECRET not in repr(world.collector.events)
    assert len(await world.audited()) == 6


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (
            lambda failures, mine: failures.resolve(mine, "x" * 2_001),
            "reason must have 0 to 2,000 characters",
        ),
        (
            lambda failures, mine: failures.resolve(mine, "a\x00b"),
            r"reason has the character '\\x00' at position 2, which cannot be printed",
        ),
        (lambda failures, mine: failures.resolve(mine, None), "reason must be of type str"),
        (lambda failures, mine: failures.resolve([], "x"), "name 1 to 10,000 dead letters at once, got 0"),
        (lambda failures, mine: failures.note(mine, " "), "text must have 1 to 10,000 characters, got 0"),
        (lambda failures, mine: failures.note(mine, "\ud800"), "cannot be printed"),
        (lambda failures, mine: failures.assign(mine, ""), "name must have 1 to 100 characters"),
        (lambda failures, mine: failures.assign(mine, "a\nb"), "name must be one line"),
        (lambda failures, mine: failures.tag(mine), "at least one tag"),
        (lambda failures, mine: failures.tag(mine, add="vip"), "add must be a list of words"),
        (lambda failures, mine: failures.tag(mine, add=[None]), "add must be of type str"),
        (lambda failures, mine: failures.tag(mine, add=map(str, range(51))), "at most 50 tags"),
        (lambda failures, mine: failures.link(mine, mine), "cannot wait for itself"),
    ],
)
async def test_texts_are_checked(
    world: World, work: Callable[[DeadLetters, str], Awaitable[Any]], message: str
) -> None:
    [mine] = await world.fail()
    before = await world.everything()

    with pytest.raises(InvalidValueError, match=message):
        await work(world.ana, mine)

    assert await world.everything() == before


# Dependencies


async def test_a_letter_waits_for_another_m12(world: World) -> None:
    [a, b] = await world.fail(2)

    assert await world.ana.link(b, a)
    assert not await world.ana.link(b, a)

    assert [line.id for line in await world.ana.dependencies(b)] == [a]
    assert await world.ana.dependencies(a) == []
    assert await world.audited() == [("ana", "dead_letter.linked", [b], {"depends_on": a})]


async def test_dependencies_have_no_cycles_m12(world: World) -> None:
    [a, b, c] = await world.fail(3)
    await world.ana.link(b, a)
    await world.ana.link(c, b)
    before = await world.everything()

    with pytest.raises(InvalidValueError, match=f"{c} already waits for {a}; neither would ever be redriven"):
        await world.ana.link(a, c)

    assert await world.everything() == before
    assert await world.ana.unlink(b, a)
    assert not await world.ana.unlink(b, a)
    assert await world.ana.link(a, c)


# Tenants


MUTATIONS: list[Callable[[DeadLetters, str, str], Awaitable[Any]]] = [
    lambda failures, own, letter_id: failures.view(letter_id),
    lambda failures, own, letter_id: failures.notes(letter_id),
    lambda failures, own, letter_id: failures.dependencies(letter_id),
    lambda failures, own, letter_id: failures.resolve([own, letter_id]),
    lambda failures, own, letter_id: failures.ignore([own, letter_id]),
    lambda failures, own, letter_id: failures.archive([own, letter_id]),
    lambda failures, own, letter_id: failures.reopen(letter_id),
    lambda failures, own, letter_id: failures.assign([own, letter_id], "bo"),
    lambda failures, own, letter_id: failures.tag([own, letter_id], add=["a"]),
    lambda failures, own, letter_id: failures.note(letter_id, "text"),
    lambda failures, own, letter_id: failures.link(own, letter_id),
    lambda failures, own, letter_id: failures.link(letter_id, own),
    lambda failures, own, letter_id: failures.unlink(letter_id, own),
]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=range(len(MUTATIONS)))
async def test_a_foreign_letter_looks_like_a_missing_one_w13(
    world: World, mutation: Callable[[DeadLetters, str, str], Awaitable[Any]]
) -> None:
    [own] = await world.fail()
    [foreign] = await world.fail(org="other")
    before = await world.everything()

    said = []
    for letter_id in (foreign, "unknown", "odd\x00one"):
        with pytest.raises(NotFoundError) as refused:
            await mutation(world.ana, own, letter_id)
        said.append(str(refused.value).replace(repr(letter_id), "it"))

    assert said == ["found no dead letter it"] * 3
    assert await world.everything() == before


async def test_queries_see_their_own_org_only_w13(world: World) -> None:
    [own] = await world.fail()
    [foreign] = await world.fail(org="other")

    assert [line.id for line in (await world.ana.list(f"id:{own},{foreign}")).lines] == [own]
    assert await world.ana.resolve_matching(f"id:{own},{foreign}", expect=1) == 1
    assert await world.states() == {own: "RESOLVED", foreign: "OPEN"}
    assert (await world.failures("ana", "other").statistics()).queue_size == 1


async def test_only_one_of_two_closes_a_letter(world: World) -> None:
    [mine] = await world.fail()

    results = await asyncio.gather(
        world.ana.resolve(mine), world.failures("bo").ignore(mine), return_exceptions=True
    )

    assert [type(each) for each in results].count(TransitionError) == 1
    assert len(await world.audited()) == len(world.collector.of(DeadLetterChanged)) == 1


async def test_a_note_may_have_the_line_breaks_of_a_browser(world: World) -> None:
    [mine] = await world.fail()
    await world.ana.note(mine, "first line\r\nsecond line\r\n")
    [note] = await world.ana.notes(mine)
    assert note.body == "first line\nsecond line"
