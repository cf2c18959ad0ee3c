"""A worker dies, or falls asleep, in the middle of a step: another finishes it, and the first cannot harm."""

from __future__ import annotations

import time

import pytest
from tests.journeys.apps import stuck_at_first, until_told
from tests.journeys.world import PATIENCE, World, until


@pytest.mark.parametrize("task", ["charge", "charge_in_thread"])
async def test_a_worker_is_killed_and_another_finishes(world: World, task: str) -> None:
    app = world.app(stuck_at_first)
    first = await world.worker(stuck_at_first)
    run = await app.start(task, 7, key="order-7")
    await until(lambda: world.journal.count("charging") == 1)

    second = await world.worker(stuck_at_first)
    await world.kill(first)
    assert await run.result(PATIENCE) == "charged by attempt 2"

    lost, done = world.journal.of("charging")
    assert (lost.process, done.process) == (first.pid, second.pid)
    assert lost["key"] == done["key"] == "default:order-7:0"
    assert lost["fence"] < done["fence"]
    assert world.journal.count("charged") == 1

    history = await run.history()
    assert [each.outcome for each in history.attempts] == ["lost", "succeeded"]
    assert [each.worker for each in history.attempts] == [first.id, second.id]
    assert history.attempts[0].reason == "lease_lost"
    assert history.attempts[0].decision.code == "lease_lost"
    assert history.steps[0].max_retries == 0  # had it been charged, it would have been buried
    assert await second.stopped() == 0
    assert await world.places() == {"ended": 1}


async def test_the_killed_worker_of_an_ordered_run_lets_no_other_overtake_it(world: World) -> None:
    app = world.app(stuck_at_first)
    first = await world.worker(stuck_at_first)
    run = await app.start("charge", 7, order_key="customer-7")
    following = await app.start("charge", 8, order_key="customer-7", key="order-8")
    await until(lambda: world.journal.count("charging") == 1)

    second = await world.worker(stuck_at_first)
    await world.kill(first)
    assert await run.result(PATIENCE) == "charged by attempt 2"
    await until(lambda: world.journal.count("charging") == 3)
    await world.kill(second)
    third = await world.worker(stuck_at_first)
    assert await following.result(PATIENCE) == "charged by attempt 2"

    of_first, of_following = f"{run.id}:0", "default:order-8:0"
    assert [note["key"] for note in world.journal.of("charged")] == [of_first, of_following]
    assert [note["key"] for note in world.journal.of("charging")] == [of_first] * 2 + [of_following] * 2
    assert await third.stopped() == 0


async def test_the_result_of_a_worker_that_slept_past_its_lease_does_not_count(world: World) -> None:
    app = world.app(until_told)
    sign = world.folder / "go on"
    zombie = await world.worker(until_told, grace_seconds=600.0)
    run = await app.start("charge", str(sign))
    await until(lambda: world.journal.count("charging") == 1)

    await world.freeze(zombie)
    await world.expire_leases(zombie)
    other = await world.worker(until_told)
    assert await run.result(PATIENCE) == "charged by attempt 2"
    sign.touch()
    zombie.thaw()

    await until(lambda: zombie.told("step.lease_lost"))
    assert await run.result(PATIENCE) == "charged by attempt 2"
    history = await run.history()
    assert [each.outcome for each in history.attempts] == ["lost", "succeeded"]
    assert history.run.worker == other.id

    assert await other.stopped() == 0
    again = await app.start("charge", str(sign))
    assert await again.result(PATIENCE) == "charged by attempt 1"  # it is alive, and of use again
    assert (await again.view()).worker == zombie.id
    assert await zombie.stopped() == 0  # with nothing in flight it does not wait for its long grace
    assert zombie.told("worker.stopped")[0]["requeued"] == 0


async def test_a_worker_that_slept_alone_stops_cleanly_in_the_middle_of_what_it_took_up_again(
    world: World,
) -> None:
    """It may keep its lease or take the work over from itself, but leaves no lease behind."""
    app = world.app(until_told)
    sign = world.folder / "never"
    worker = await world.worker(until_told, grace_seconds=0.5, lease_seconds=1.0)
    await app.start("charge", str(sign))
    await until(lambda: world.journal.count("charging") == 1)
    await world.freeze(worker)
    begun = world.journal.of("charging")[0].at
    await until(lambda: time.time() > begun + 1.5)
    worker.thaw()
    await until(lambda: time.time() > begun + 2.5)
    assert await worker.stopped() == 0
    assert "leased" not in await world.places()
