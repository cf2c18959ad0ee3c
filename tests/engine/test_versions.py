"""A caller that has read a dead letter changes that version, or nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.engine.workbench import bench, new_app, sql

from redrive.app import Redrive
from redrive.errors import DriftError, FinalError, InvalidValueError
from redrive.failures.service import Failures
from redrive.model.dead_letter import version_of
from redrive.testing import Harness

CHANGES = ("resolve", "ignore", "archive", "assign", "tag")


class World:
    def __init__(self, app: Redrive, test: Harness, failures: Failures) -> None:
        self.app, self.test, self.failures = app, test, failures
        self.letters = failures

    async def fail(self) -> str:
        run = await self.app.start("charge", 7)
        await self.test.drain()
        letter = await run.dead_letter()
        assert letter is not None
        return letter.id

    async def version(self, letter_id: str) -> str:
        return version_of(await self.letters.view(letter_id))

    async def change(self, how: str, letter_id: str, version: str | list[str] | None) -> int:
        if how == "assign":
            return await self.letters.assign(letter_id, "ben", version=version)
        if how == "tag":
            return await self.letters.tag(letter_id, ["seen"], version=version)
        number: int = await getattr(self.letters, how)(letter_id, "because", version=version)
        return number


@pytest.fixture
async def world() -> AsyncIterator[World]:
    app = new_app()

    @app.task
    async def charge(order: int) -> None:
        raise FinalError("declined")

    async with bench(app) as test:
        yield World(app, test, app.failures(by="ana"))


@pytest.mark.parametrize("how", CHANGES)
async def test_the_version_that_was_read_is_changed_once(world: World, how: str) -> None:
    letter = await world.fail()
    read = await world.version(letter)
    assert await world.change(how, letter, read) == 1
    assert await world.version(letter) != read
    before = await sql(world.app, "SELECT * FROM dead_letters"), await sql(world.app, "SELECT * FROM audit")
    for late in CHANGES:
        with pytest.raises(DriftError, match=f"{letter} has changed since it was read"):
            await world.change(late, letter, read)
    assert before == (
        await sql(world.app, "SELECT * FROM dead_letters"),
        await sql(world.app, "SELECT * FROM audit"),
    )


async def test_undo_reopens_only_what_was_closed(world: World) -> None:
    letter = await world.fail()
    await world.letters.resolve(letter)
    closed = await world.version(letter)
    await world.letters.assign(letter, "ben")
    with pytest.raises(DriftError):
        await world.letters.reopen(letter, version=closed)
    assert await world.letters.reopen(letter, version=await world.version(letter)) == 1


async def test_a_replay_makes_a_new_version(world: World) -> None:
    letter = await world.fail()
    read = await world.version(letter)
    await world.failures.replay(letter)
    replaying = await world.version(letter)
    await world.test.drain()
    assert len({read, replaying, await world.version(letter)}) == 3


async def test_one_of_several_versions_is_enough(world: World) -> None:
    letter = await world.fail()
    assert await world.change("resolve", letter, ["another", await world.version(letter)]) == 1


async def test_without_a_version_whatever_it_is_is_changed(world: World) -> None:
    letter = await world.fail()
    await world.letters.tag(letter, ["seen"])
    assert await world.letters.resolve(letter) == 1


async def test_lists_have_the_same_version(world: World) -> None:
    letter = await world.fail()
    await world.letters.tag(letter, ["seen"])
    [line] = (await world.letters.list()).lines
    assert version_of(line) == await world.version(letter)


async def test_a_version_is_that_of_one_letter(world: World) -> None:
    several = [await world.fail(), await world.fail()]
    with pytest.raises(InvalidValueError, match="name one"):
        await world.letters.resolve(several, version=await world.version(several[0]))


async def test_no_version_at_all_fits_none(world: World) -> None:
    """An If-Match with only weak tags."""
    with pytest.raises(DriftError):
        await world.change("resolve", await world.fail(), [])


async def test_plans_do_not_go_by_tags_and_owners(world: World) -> None:
    """`updated_at` is the time of the failure: later notes and tags don't invalidate a plan."""
    letter = await world.fail()
    plan = await world.failures.plans.create(ids=[letter])
    await world.letters.assign(letter, "ben")
    await world.letters.tag(letter, ["seen"])
    assert (await world.failures.plans.start(plan.operation_id)).state == "RUNNING"
