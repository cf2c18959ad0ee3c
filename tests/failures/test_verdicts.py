"""The verdict on a dead letter, after real events (W8, W13)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from tests.engine.workbench import bench, new_app, sql

from redrive import Backoff, RetryPolicy
from redrive.app import Redrive
from redrive.errors import NotFoundError
from redrive.failures.verdicts import Verdicts
from redrive.model.caller import Caller
from redrive.model.fact import Fact, fact
from redrive.parts import parts_of
from redrive.policy import Exponential
from redrive.policy.verdict import LetterFacts, ReplayCounts, ReplayVerdict
from redrive.testing import EPOCH, Harness
from redrive.words.fact import text_of

TWICE = RetryPolicy(max_attempts=2, backoff=Backoff(Exponential(1.0)))
ANA = Caller("default", "ana")


@dataclass
class Order:
    name: str
    country: str
    note: str = ""


def texts(facts: tuple[Fact, ...]) -> list[str]:
    return [text_of(fact) for fact in facts]


class Bank:
    """A task that fails with `error` while it is set, and the dead letter of its first failure."""

    def __init__(self, app: Redrive, test: Harness) -> None:
        self.app = app
        self.test = test
        self.error: Exception | None = None
        self.letter_id = ""

    async def fail(self, error: Exception) -> None:
        self.error = error
        run = await self.app.start("pay")
        await self.test.advance(60.0)
        letter = await run.dead_letter()
        assert letter is not None
        self.letter_id = self.letter_id or letter.id

    async def succeed(self, times: int = 1) -> None:
        self.error = None
        await self.app.start_many("pay", [None] * times)
        await self.test.advance(60.0)

    async def verdict(self) -> ReplayVerdict:
        return await self._verdicts().of(self.letter_id)

    async def facts(self) -> LetterFacts:
        return await self._verdicts().facts(self.letter_id)

    async def change(self, **columns: Any) -> None:
        """Change columns of the letter directly."""
        for name, new in columns.items():
            await sql(self.app, f"UPDATE dead_letters SET {name} = ?1 WHERE id = ?2", new, self.letter_id)

    async def replayed(self, letter_id: str, state: str, ended_at: float) -> None:
        text = """INSERT INTO replays (id, org, position, letter_id, run_id, step_index, from_step, mode,
                state, automatic, requested_by, requested_at, reason, fingerprint, letter_updated_at,
                effect, ended_at)
            SELECT ?1 || ?2 || ?3, org, 0, ?1, run_id, 0, 0, 'FROM_STEP',
                ?2, 0, 'ana', ?3, '', fingerprint, ?3,
                effect, ?3
            FROM dead_letters WHERE id = ?4"""
        await sql(self.app, text, letter_id, state, ended_at, self.letter_id)

    async def worker(self, version: str, *queues: str) -> None:
        listed = "[" + ", ".join(f'"{each}"' for each in queues) + "]"
        await parts_of(self.app).store.limits.heartbeat(f"worker {version}", version, listed, 1, 0, "running")

    def _verdicts(self) -> Verdicts:
        return Verdicts(parts_of(self.app).store, parts_of(self.app).breakers, ANA)


@asynccontextmanager
async def bank() -> AsyncIterator[Bank]:
    app = new_app()

    @app.task(name="pay", retry=TWICE)
    async def pay() -> None:
        if at.error is not None:
            raise at.error

    async with bench(app) as test:
        at = Bank(app, test)
        yield at


async def test_a_timeout_without_further_facts() -> None:
    async with bank() as at:
        await at.fail(TimeoutError("no answer"))
        found = await at.verdict()
    why = "It stopped after 2 attempts with TimeoutError (timeout): all 2 attempts are used up."
    assert text_of(found.why) == why
    assert found[1:] == ((), (fact("may_have_passed"),), "unknown", False)


async def test_the_same_step_succeeding_since_makes_it_likely() -> None:
    async with bank() as at:
        await at.succeed(2)
        await at.fail(TimeoutError("no answer"))
        await at.succeed(3)
        found = await at.verdict()
    assert texts(found.changed) == ["The step 'pay' has succeeded 3 times since."]
    assert found.likely == "likely"


async def test_it_is_still_happening_when_others_fail_alike() -> None:
    async with bank() as at:
        for _ in range(3):
            await at.fail(TimeoutError("no answer"))
        found = await at.verdict()
    assert texts(found.changed) == ["The same failure has occurred 2 times elsewhere since."]
    assert found.likely == "unlikely"


async def test_an_open_breaker_is_waited_for_and_a_closed_one_is_a_change() -> None:
    async with bank() as at:
        await at.fail(TimeoutError("no answer"))
        await at.change(breaker="bank")
        await at.app.breakers().force("bank", "OPEN", reason="they are down", seconds=90.0)
        during = await at.verdict()
        await at.app.breakers().force("bank", "CLOSED", reason="they are up")
        at.test.clock.advance(300.0)
        after = await at.verdict()
    assert texts(during.changed)[0].startswith("The breaker 'bank' is open: the dependency is failing")
    assert (during.likely, after.likely) == ("unlikely", "likely")
    assert texts(after.changed) == ["The breaker 'bank' closed 5 min ago: the dependency works again."]


async def test_16_a_half_open_breaker_is_waited_for_only_while_something_waits_for_it() -> None:
    async with bank() as at:
        await at.fail(TimeoutError("no answer"))
        await at.change(breaker="bank")
        await at.app.breakers().force("bank", "OPEN", reason="they are down")
        await at.app.breakers().release("bank")
        idle = await at.verdict()
        view = await at.app.breakers().view("bank")
        run = await at.app.start("pay")
        held_by = "UPDATE runs SET place = 'held', held_by = 'breaker:bank', due_at = NULL WHERE id = ?1"
        await sql(at.app, held_by, run.id)
        held = await at.verdict()
    assert (view.state, view.idle) == ("HALF_OPEN", True)
    assert [fact.code for fact in idle.changed] == ["breaker_idle"]
    assert (idle.likely, idle.advice[0].code) == ("unknown", "may_have_passed")
    assert [fact.code for fact in held.changed] == ["breaker_probing"]
    assert (held.likely, held.advice[0].code) == ("unlikely", "wait_for_breaker")


async def test_a_breaker_that_closed_before_the_failure_is_no_evidence() -> None:
    async with bank() as at:
        for state in ("OPEN", "CLOSED"):
            await at.app.open()
            await at.app.breakers().force("bank", state, reason="drill")
        at.test.clock.advance(5.0)
        await at.fail(TimeoutError("no answer"))
        await at.change(breaker="bank")
        assert (await at.verdict()).changed == ()


async def test_a_breaker_is_no_obstacle_for_a_failure_that_does_not_count_against_it() -> None:
    async with bank() as at:
        await at.fail(ValueError("bug"))
        await at.change(breaker="bank")
        await at.app.breakers().force("bank", "OPEN", reason="they are down", seconds=90.0)
        found = await at.verdict()
    assert (found.changed, [fact.code for fact in found.advice]) == ((), ["needs_change"])


async def test_the_cause_of_the_last_attempt_decides() -> None:
    async with bank() as at:
        await at.fail(TimeoutError("no answer"))
        await at.change(breaker="bank")
        at.error = ValueError("bug")
        await at.app.failures().replay(at.letter_id, reason="try")
        await at.test.advance(60.0)
        await at.app.breakers().force("bank", "OPEN", reason="they are down", seconds=90.0)
        found = await at.verdict()
    why = text_of(found.why)
    assert why.startswith("It stopped after 3 attempts with ValueError (validation): ")
    assert found.advice[0].code == "replay_failed_before"
    assert all("breaker" not in text for text in texts((*found.changed, *found.advice)))


async def test_a_payload_that_does_not_fit_names_the_fields() -> None:
    app = new_app()

    @app.task
    async def first() -> dict[str, str]:
        return {"name": "ana", "cuntry": "DE", "sk_live_51HxQ2eAbCdEfGhIjKlMnOpQr": ""}

    @app.task(breaker="bank")
    async def ship(order: Order) -> None: ...

    app.workflow("order", [first, ship])
    async with bench(app) as test:
        run = await app.start("order")
        await test.drain()
        await app.breakers().force("bank", "OPEN", reason="they are down")
        line = await run.dead_letter()
        assert line is not None
        letter = await app.failures().view(line.id)
        verdict = await app.failures().verdict(line.id)
    mismatch = letter.decision.mismatch
    assert mismatch is not None
    assert mismatch.expected == ("name", "country", "note")
    assert mismatch.given[:2] == ("name", "cuntry")
    assert mismatch.missing == ("country",)
    assert "sk_live" not in repr(mismatch)
    assert letter.stack == f"redrive.errors.PayloadError: {letter.message}\n"
    assert text_of(verdict.advice[0]).startswith(
        "The code expects the field 'country'. The code doesn't know the fields 'cuntry', "
    )
    assert text_of(verdict.advice[0]).endswith(
        " Let the code accept old payloads, or replay with an edited payload."
    )
    assert verdict.changed == ()


async def test_another_version_counts_when_it_was_started_later_for_the_same_queue() -> None:
    async with bank() as at:
        await at.app.open()
        await at.worker("v6", "default")
        await at.fail(ValueError("bug"))
        await at.change(code_version="v7")
        at.test.clock.advance(5.0)
        await at.worker("v6", "default")
        assert (await at.verdict()).likely == "unlikely"
        await at.worker("v9", "others")
        await at.worker("v8", "others", "default")
        found = await at.verdict()
        at.test.clock.advance(61.0)
        silent = await at.facts()
    assert texts(found.changed) == ["Workers now run another version of the code: v8. It failed in v7."]
    assert found.likely == "unknown"
    assert silent.versions == frozenset()


async def test_replays_of_this_letter_and_of_others_are_listed() -> None:
    async with bank() as at:
        await at.fail(TimeoutError("no answer"))
        for number in range(3):
            await at.replayed(f"other {number}", "SUCCEEDED", EPOCH + 70.0)
        await at.replayed(at.letter_id, "FAILED", EPOCH + 80.0)
        facts, found = await at.facts(), await at.verdict()
    assert (facts.replays, facts.other_replays) == (ReplayCounts(0, 1), ReplayCounts(3, 0))
    assert facts.failed_at == EPOCH + 80.0
    assert found.likely == "likely"


async def test_an_event_before_its_last_failure_is_no_change() -> None:
    async with bank() as at:
        await at.fail(TimeoutError("no answer"))
        await at.succeed(3)
        at.test.clock.advance(100.0)
        await at.replayed(at.letter_id, "FAILED", at.test.clock.now())
        facts = await at.facts()
    assert (facts.succeeded, facts.occurred) == (0, 0)


async def test_it_waits_for_another_letter_and_names_what_happens_automatically() -> None:
    """M12"""
    async with bank() as at:
        await at.fail(TimeoutError("no answer"))
        await at.change(next_redrive_at=at.test.clock.now() + 600.0, max_redrives=3)
        alone = await at.verdict()
        await at.fail(ValueError("bug"))
        [[other]] = await sql(at.app, "SELECT id FROM dead_letters WHERE id <> ?1", at.letter_id)
        link = "INSERT INTO dead_letter_dependencies (letter_id, depends_on, org) VALUES (?1, ?2, 'default')"
        await sql(at.app, link, at.letter_id, other)
        waiting = await at.verdict()
    assert (alone.heals_itself, waiting.heals_itself) == (True, False)
    assert texts(alone.advice)[-1] == "Redrive will replay it automatically in 10 min (1 of 3)."
    assert texts(waiting.advice) == [f"Resolve {other} first."]


async def test_a_repeated_effect_is_warned_of() -> None:
    async with bank() as at:
        await at.fail(TimeoutError("no answer"))
        await at.change(effect="unsafe", may_have_executed=1)
        assert fact("may_repeat_effect") in (await at.verdict()).advice
        await at.change(may_have_executed=0)
        assert fact("may_repeat_effect") not in (await at.verdict()).advice


async def test_a_letter_of_another_org_does_not_exist() -> None:
    async with bank() as at:
        await at.fail(TimeoutError("no answer"))
        foreign = Verdicts(parts_of(at.app).store, parts_of(at.app).breakers, Caller("other", "eve"))
        for letter_id in (at.letter_id, "nonsense", "", "\x00"):
            with pytest.raises(NotFoundError, match="found no dead letter"):
                await foreign.of(letter_id)
