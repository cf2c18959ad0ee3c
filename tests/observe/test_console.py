"""The console of a worker: short lines, no secrets, and never more lines than a person can read."""

from __future__ import annotations

from redrive import FinalError, Redrive
from redrive.model.event import Event, StepSucceeded
from redrive.observe.console import MAX_COUNT, ConsoleListener
from redrive.parts import parts_of
from redrive.testing import in_memory


async def lines_of(number: int, more: int = 0) -> list[str]:
    app = Redrive("sqlite://:memory:", log=False)
    lines: list[str] = []
    tried: list[int] = []

    @app.task(max_attempts=3)
    async def charge(order: int) -> None:
        tried.append(order)
        if order == 1 and tried.count(1) == 1:
            raise ConnectionResetError("the gateway hung up")
        if order == 2:
            raise FinalError("wrong key: password=hunter2secret")

    async with in_memory(app) as test:
        app.listen(ConsoleListener(lambda sign, line: lines.append(line[10:]), parts_of(app).clock))
        await app.start_many(charge, range(number))
        await test.advance(30.0)
        await app.start_many(charge, range(number, number + more))
        await test.drain()
    return lines


async def test_everything_that_happens_is_a_line() -> None:
    lines = await lines_of(3)
    assert len(lines) == 4
    assert lines[0].startswith("✓ charge ")
    [retried] = [line for line in lines if line.startswith("↻")]
    assert "ConnectionResetError: the gateway hung up; retry in 2" in retried
    [died] = [line for line in lines if line.startswith("✗")]
    assert "FinalError: wrong key" in died
    assert "; dead letter " in died
    assert any(line.endswith(", after 1 failure") for line in lines)


async def test_secrets_are_not_shown() -> None:
    assert "hunter2secret" not in "".join(await lines_of(3))


async def test_no_more_lines_than_a_person_can_read() -> None:
    lines = await lines_of(500, more=1)
    assert sum(line.startswith("✓ charge") for line in lines) <= MAX_COUNT + 2
    assert "(478 more before this)" in lines[-1]


def test_events_that_it_does_not_print_are_not_built() -> None:
    listener = ConsoleListener(lambda sign, line: None)
    assert listener.wants(StepSucceeded)
    assert not any(listener.wants(each) for each in Event.__args__ if each.__name__ == "StepStarted")
