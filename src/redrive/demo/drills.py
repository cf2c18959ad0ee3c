"""Drills: failures staged on a running demo, which must end as an operator expects.

Each drill repairs what it has broken, also if it fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from redrive.demo.folder import Running
from redrive.demo.stage import BY, Expectation, Stage, all_are, open_app, open_stage
from redrive.demo.world import REFUSING, STOPPED
from redrive.errors import InvalidValueError, RedriveError
from redrive.words.suggestion import suggest

ORDERS = 8
DELIVERIES = 8
CALM_SECONDS = 150.0
DONE, DEAD = "SUCCESS", "DLQ_PENDING"

Play = Callable[[Stage, Running], Awaitable[None]]


class Drill(NamedTuple):
    name: str
    title: str
    play: Play


class Outcome(NamedTuple):
    drill: Drill
    expectations: Sequence[Expectation]

    @property
    def passed(self) -> bool:
        return bool(self.expectations) and all(expectation.met for expectation in self.expectations)


async def perform(
    drill: Drill, running: Running, say: Callable[[str], None], report: Callable[[Expectation], None]
) -> Outcome:
    async with open_stage(running, say, report) as stage:
        try:
            await drill.play(stage, running)
        except (RedriveError, OSError, TimeoutError) as error:
            stage.expect("the drill runs to its end", False, f"{type(error).__name__}: {error}")
        return Outcome(drill, stage.expectations)


async def outage(stage: Stage, _: Running) -> None:
    await stage.calm(CALM_SECONDS)
    await stage.until(lambda: stage.breaker("payments"), lambda state: state == "CLOSED")
    try:
        stage.say(f"Payments are stopped. {ORDERS} orders arrive, and proceed until they have to be charged.")
        await stage.break_("payments", STOPPED)
        orders = [stage.traffic.order(name=f"{stage.mark}-{number}") for number in range(ORDERS)]
        runs = [await stage.start(order) for order in orders]
        state = await stage.until(lambda: stage.breaker("payments"), lambda state: state != "CLOSED")
        stage.expect("the breaker of payments opens", state != "CLOSED", state)
        states = [str(await run.state()) for run in runs]
        letters = [await run.dead_letter() for run in runs]
        stage.expect(
            "the orders wait, and none of them is a dead letter",
            not any(letters) and set(states) <= {"PENDING", "RUNNING"},
            states,
        )
    finally:
        stage.say("Payments are started again.")
        await stage.repair("payments")
    states = await stage.ended(runs)
    stage.expect("all of them are done, without an operator", all_are(states, DONE), states)
    state = await stage.until(lambda: stage.breaker("payments"), lambda state: state == "CLOSED")
    stage.expect("the breaker is closed again", state == "CLOSED", state)
    charges = [(await stage.seen(order.key)).acted.get("payments/charges", 0) for order in orders]
    stage.expect("each card was charged once", charges == [1] * ORDERS, charges)
    earlier = [await stage.executions(run, "reserve") for run in runs]
    stage.expect("steps that were done before the outage were not repeated", earlier == [1] * ORDERS, earlier)


async def duplicates(stage: Stage, running: Running) -> None:
    stage.say(f"The same order is delivered {DELIVERIES} times at once, to two processes.")
    order = stage.traffic.order(name=stage.mark)
    async with open_app(running) as other:
        apps = [stage.app, other] * (DELIVERIES // 2)
        runs = await asyncio.gather(*(stage.start(order, app) for app in apps))
    ids = {run.id for run in runs}
    stage.expect("it is one run", len(ids) == 1, f"{len(ids)} runs")
    existed = sum(run.existed for run in runs)
    stage.expect("all deliveries but one report that it exists", existed == DELIVERIES - 1, existed)
    states = await stage.ended(runs[:1])
    stage.expect("it is done", all_are(states, DONE), states)
    stage.say("It is delivered once more, after it is done.")
    again = await stage.start(order)
    stage.expect("that is still the same run", again.existed and again.id in ids, again.id)
    acted = (await stage.seen(stage.mark)).acted
    wanted = {"payments/charges": 1, "carrier/labels": 1, "mail/messages": 1}
    stage.expect("one charge, one label, one message", acted == wanted, acted)


async def credential(stage: Stage, _: Running) -> None:
    account = stage.traffic.account(stage.mark)
    failures = stage.app.failures(by=BY)
    try:
        stage.say("An account is opened. Before it gets its key, our credential is revoked.")
        await stage.break_("identity", REFUSING, about=stage.mark, after=1)
        run = await stage.start(account)
        states = await stage.ended([run])
        letter = await run.dead_letter()
        stage.expect(
            "the run has stopped as a dead letter", all_are(states, DEAD) and letter is not None, states
        )
        if letter is None:
            return
        stage.expect("at the step that needed the credential", letter.step == "issue_key", letter.step)
        stage.expect(
            "its category is permission, and it is open", letter.category == "permission", letter.category
        )
        attempts = letter.attempts
        stage.expect("it was not retried in vain", attempts == 1, f"{attempts} attempts")
        group = (await failures.groups.view(letter.fingerprint)).group
        stage.expect("it belongs to a failure group that is open", group.state == "OPEN", group.state)
    finally:
        stage.say("There is a valid credential again.")
        await stage.repair("identity", about=stage.mark)
    await failures.replay(letter.id, reason="the credential is valid again")
    states = await stage.ended([run])
    stage.expect("replayed, it continues to its end", all_are(states, DONE), states)
    resolved = (await failures.view(letter.id)).state
    stage.expect("the dead letter is resolved", resolved == "RESOLVED", resolved)
    seen = await stage.seen(stage.mark)
    stage.expect("the account was not opened again", seen.asked.get("/accounts") == 1, seen.asked)
    keys = {path: seen.acted.get(f"identity/{path}") for path in ("keys", "grants")}
    stage.expect("it has one key and its rights", set(keys.values()) == {1}, keys)


async def replay(stage: Stage, _: Running) -> None:
    order = stage.traffic.order(name=stage.mark)
    failures = stage.app.failures(by=BY)
    try:
        stage.say("An order is charged; then the carrier refuses it for good.")
        await stage.break_("carrier", REFUSING, about=stage.mark)
        run = await stage.start(order)
        states = await stage.ended([run])
        letter = await run.dead_letter()
        stage.expect("it is a dead letter", all_are(states, DEAD) and letter is not None, states)
        if letter is None:
            return
    finally:
        stage.say("The carrier takes it now.")
        await stage.repair("carrier", about=stage.mark)
    await failures.replay(letter.id, reason="the carrier takes it now")
    states = await stage.ended([run])
    stage.expect("replayed, it is done", all_are(states, DONE), states)
    after = await failures.view(letter.id)
    stage.expect("the dead letter is resolved", after.state == "RESOLVED", after.state)
    stage.expect("its key is the one that it had", after.idempotency_key == letter.idempotency_key)
    seen = await stage.seen(stage.mark)
    asked, keys = seen.asked.get("/labels"), seen.keys.get("carrier/labels")
    stage.expect("the carrier was asked twice, under one key", (asked, keys) == (2, 1), seen)
    stage.expect("one label was printed", seen.acted.get("carrier/labels") == 1, seen.acted)
    stage.expect("the card was not charged again", seen.asked.get("/charges") == 1, seen.asked)
    stage.expect("a second replay is refused", await _is_refused(stage, letter.id))
    about = await failures.audit.about(letter.id)
    stage.expect("the audit names who replayed it", any(entry.actor == BY for entry in about))


async def _is_refused(stage: Stage, letter_id: str) -> bool:
    try:
        await stage.app.failures(by=BY).replay(letter_id)
    except RedriveError:
        return True
    return False


DRILLS = (
    Drill("outage", "a service is stopped under a running workflow", outage),
    Drill("duplicates", "the same event is delivered many times", duplicates),
    Drill("credential", "a credential breaks half-way through a provisioning", credential),
    Drill("replay", "a dead event is replayed", replay),
)


def select(names: Sequence[str]) -> list[Drill]:
    """Return the drills of these names; without names, all of them."""
    known = {drill.name: drill for drill in DRILLS}
    for name in names:
        if name not in known:
            raise InvalidValueError(f"there is no drill {name!r}; {suggest(name, known)}")
    return [known[name] for name in names] if names else list(DRILLS)
