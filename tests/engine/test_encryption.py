"""Runs with encrypted payloads and results: executed as usual, readable only with the key (M11, I9)."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.engine import process_tasks
from tests.engine.process_work import claim, work_of
from tests.engine.workbench import bench, sql

from redrive.app import Redrive
from redrive.clock import SYSTEM_CLOCK
from redrive.engine.context import Context
from redrive.engine.encryption import MARK, Encryption
from redrive.engine.process import run_in_process
from redrive.engine.work import Work
from redrive.errors import FinalError, RunFailedError, SealedError
from redrive.parts import parts_of, rewire
from redrive.policy import STEP, Backoff, Exponential, RetryPolicy
from redrive.settings import Settings, new_encryption_key

KEY, OTHER = new_encryption_key(), new_encryption_key()
LOOK_ALIKE = {"$sealed": "plain:eHg="}


def app_with(*keys: str) -> Redrive:
    return Redrive("sqlite://:memory:", settings=Settings(encryption_keys=keys or None), log=False)


async def stored(app: Redrive) -> list[str]:
    """Return every stored text that a run needs to execute."""
    texts = await sql(
        app,
        "SELECT input FROM runs UNION ALL SELECT step_input FROM runs UNION ALL SELECT result FROM runs "
        "UNION ALL SELECT metadata FROM runs UNION ALL SELECT output FROM steps "
        "UNION ALL SELECT output FROM attempts",
    )
    return [row[0] for row in texts if row[0] is not None]


@pytest.mark.parametrize("keys", [(), (KEY,)])
@pytest.mark.parametrize("payload", [{"a": [1, "␛\x00"]}, LOOK_ALIKE, "text", None])
async def test_everything_comes_back_as_it_was_given(keys: tuple[str, ...], payload: Any) -> None:
    app = app_with(*keys)
    seen: list[Any] = []

    @app.task
    async def first(given: Any, context: Context) -> Any:
        seen.append((given, context.run_input, context.metadata))
        return [given]

    @app.task
    async def second(given: Any, context: Context) -> Any:
        seen.append((given, context.run_input, context.metadata, context.results))
        return {"$sealed": "a result that looks so"}

    app.workflow("both", [first, second])
    async with bench(app):
        run = await app.start("both", payload, metadata=LOOK_ALIKE)
        assert await run.result() == {"$sealed": "a result that looks so"}
        assert seen == [
            (payload, payload, LOOK_ALIKE),
            ([payload], payload, LOOK_ALIKE, {"first": [payload]}),
        ]
        assert [step.output for step in (await run.history()).steps] == [[payload], await run.result()]
        texts = await stored(app)
        assert len(texts) == 6
        if keys:
            assert all(Encryption(keys).is_sealed(text) for text in texts)


async def test_a_task_that_is_claimed_again_for_its_second_step_reads_the_results_of_the_first() -> None:
    app = app_with(KEY)

    @app.task
    async def first(given: int) -> dict[str, int]:
        return {"twice": 2 * given}

    @app.task(queue="other")
    async def second(given: dict[str, int], context: Context) -> Any:
        return [given, context.results]

    app.workflow("both", [first, second])
    async with bench(app):
        assert await (await app.start("both", 4)).result() == [{"twice": 8}, {"first": {"twice": 8}}]


async def test_a_retry_and_a_dead_letter_show_redacted_evidence_as_ever() -> None:
    app = app_with(KEY)

    @app.task(retry=RetryPolicy(max_attempts=2, backoff=Backoff(Exponential(1.0, 2.0))))
    async def charge(order: dict[str, Any]) -> None:
        raise ConnectionError(f"password={order['password']}")

    async with bench(app):
        run = await app.start(
            charge, {"password": "hunter2", "id": 7}, metadata={"token": "hunter2", "team": "a"}
        )
        with pytest.raises(RunFailedError):
            await run.result()
        letter = await run.dead_letter()
        assert letter is not None
        assert (letter.attempts, letter.payload["id"]) == (2, 7)
        assert letter.metadata["team"] == "a"
        for table in ("runs", "attempts", "dead_letters", "audit", "run_events", "failure_groups"):
            assert "hunter2" not in repr(await sql(app, f"SELECT * FROM {table}")), table


async def test_an_idempotency_key_recognizes_the_same_payload_although_it_is_sealed_differently() -> None:
    app = app_with(KEY)

    @app.task
    async def note(given: int) -> int:
        return given

    async with bench(app):
        first, again = await app.start(note, 1, key="k"), await app.start(note, 1, key="k")
        assert first.id == again.id
        assert (
            len({(await run.view()).id for run in await app.start_many(note, [1, 2, 3], metadata={"a": 1})})
            == 3
        )


async def test_a_worker_without_the_key_gives_the_work_back_and_one_with_it_does_it() -> None:
    app = app_with(KEY)
    calls: list[int] = []

    @app.task
    async def note(given: int) -> int:
        calls.append(given)
        return given

    async with bench(app) as test:
        run = await app.start(note, 5)
        key, parts_of(app).encryption = parts_of(app).encryption, Encryption([OTHER])
        stranger = parts_of(app).worker_in_test()
        assert await stranger.work_off() == 0
        assert calls == []
        assert (await run.view()).failures == 0
        [attempt] = (await run.history()).attempts
        assert (attempt.outcome, attempt.error_type) == ("released", "redrive.errors.SealedError")
        parts_of(app).encryption = key
        assert await run.result() == 5
        parts_of(app).declared.encryption = Encryption()
        rewire(app, parts_of(app).database, test.clock, parts_of(app).random)
        without = app.run(run.id)
        with pytest.raises(SealedError):
            await without.result()
        assert list((await without.history()).steps[0].output) == ["$sealed"]  # type: ignore[arg-type]
        assert test.clock.time > 0.0


async def test_a_letter_of_work_that_could_never_be_opened_keeps_the_sealed_payload() -> None:
    app = app_with(KEY)

    @app.task(retry=replace(STEP, max_holds=0))
    async def note(given: str) -> None: ...

    async with bench(app):
        run = await app.start(note, "hunter2", metadata={"a": "hunter2"})
        parts_of(app).encryption = Encryption([OTHER])
        await parts_of(app).worker_in_test().work_off()
        letter = await run.dead_letter()
        assert letter is not None
        assert str(letter.payload).startswith(MARK)
        assert "hunter2" not in repr(letter)
        assert letter.error_type.endswith("SealedError")


async def test_a_separate_process_receives_readable_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)  # the child would import pytest
    encryption = Encryption([KEY])
    sealed = claim(
        encryption.encrypt('{"cents":7,"day":"2026-01-02"}'), encryption.encrypt('{"the":"input"}')
    )
    plain = work_of(process_tasks.described, {})
    work = Work(sealed, plain.definition, process_tasks.described, encryption)
    context = Context(work.opened, work.step, SYSTEM_CLOCK)
    result = await run_in_process(process_tasks.described, work, context)
    assert (result["cents"], result["input"]) == (7, {"the": "input"})


async def test_a_final_error_is_still_final() -> None:
    app = app_with(KEY)

    @app.task
    async def note(given: int) -> None:
        raise FinalError("no")

    async with bench(app):
        run = await app.start(note, 1)
        with pytest.raises(RunFailedError):
            await run.result()
        letter = await run.dead_letter()
        assert letter is not None
        assert (letter.payload, letter.attempts) == (1, 1)
