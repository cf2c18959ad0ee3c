"""Drills: cause failures in a running demo, and check that the work ends as an operator expects.

Each drill repairs what it broke, even if the drill fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from redrive.demo import redis_server
from redrive.demo.event_drills import dead_event, duplicate_events
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
    needs_redis: bool = False


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
            stage.expect("the drill runs to the end", False, f"{type(error).__name__}: {error}")
        return Outcome(drill, stage.expectations)


async def outage(stage: Stage, _: Running) -> None:
    await stage.calm(CALM_SECONDS)
    await stage.until(lambda: stage.breaker("payments"), lambda state: state == "CLOSED")
    try:
        stage.say(f"The payment service stops. {ORDERS} orders arrive and run until they need to be charged.")
        await stage.break_("payments", STOPPED)
        orders = [stage.traffic.order(name=f"{stage.mark}-{number}") for number in range(ORDERS)]
        runs = [await stage.start(order) for order in orders]
        state = await stage.until(lambda: stage.breaker("payments"), lambda state: state != "CLOSED")
        stage.expect("the payments breaker opens", state != "CLOSED", state)
        states = [str(await run.state()) for run in runs]
        letters = [await run.dead_letter() for run in runs]
        stage.expect(
            "the orders wait, and none becomes a dead letter",
            not any(letters) and set(states) <= {"PENDING", "RUNNING"},
            states,
        )
    finally:
        stage.say("The payment service starts again.")
        await stage.repair("payments")
    states = await stage.ended(runs)
    stage.expect("all orders finish without an operator", all_are(states, DONE), states)
    state = await stage.until(lambda: stage.breaker("payments"), lambda state: state == "CLOSED")
    stage.expect("the breaker closes again", state == "CLOSED", state)
    charges = [(await stage.seen(order.key)).acted.get("payments/charges", 0) for order in orders]
    stage.expect("each card was charged once", charges == [1] * ORDERS, charges)
    earlier = [await stage.executions(run, "reserve") for run in runs]
    stage.expect("steps finished before the outage were not repeated", earlier == [1] * ORDERS, earlier)


async def duplicates(stage: Stage, running: Running) -> None:
    stage.say(f"The same order arrives {DELIVERIES} times at once, at two processes.")
    order = stage.traffic.order(name=stage.mark)
    async with open_app(running) as other:
        apps = [stage.app, other] * (DELIVERIES // 2)
        runs = await asyncio.gather(*(stage.start(order, app) for app in apps))
    ids = {run.id for run in runs}
    stage.expect("there is one run", len(ids) == 1, f"{len(ids)} runs")
    existed = sum(run.existed for run in runs)
    stage.expect("all deliveries but one report an existing run", existed == DELIVERIES - 1, existed)
    states = await stage.ended(runs[:1])
    stage.expect("the run succeeds", all_are(states, DONE), states)
    stage.say("The order arrives once more, after the run has finished.")
    again = await stage.start(order)
    stage.expect("it is still the same run", again.existed and again.id in ids, again.id)
    acted = (await stage.seen(stage.mark)).acted
    expected = {"payments/charges": 1, "carrier/labels": 1, "mail/messages": 1}
    stage.expect("there is one charge, one label and one message", acted == expected, acted)


async def credential(stage: Stage, _: Running) -> None:
    account = stage.traffic.account(stage.mark)
    failures = stage.app.failures(by=BY)
    try:
        stage.say("A new account is opened. Before it gets its key, Acme's credential is revoked.")
        await stage.break_("identity", REFUSING, about=stage.mark, after=1)
        run = await stage.start(account)
        states = await stage.ended([run])
        letter = await run.dead_letter()
        stage.expect(
            "the run has stopped with a dead letter", all_are(states, DEAD) and letter is not None, states
        )
        if letter is None:
            return
        stage.expect("it stopped at the step that needed it", letter.step == "issue_key", letter.step)
        stage.expect(
            "the dead letter has the category permission", letter.category == "permission", letter.category
        )
        attempts = letter.attempts
        stage.expect("there were no pointless retries", attempts == 1, f"{attempts} attempts")
        group = (await failures.groups.view(letter.fingerprint)).group
        stage.expect("its failure group is open", group.state == "OPEN", group.state)
    finally:
        stage.say("Acme's credential is valid again.")
        await stage.repair("identity", about=stage.mark)
    await failures.replay(letter.id, reason="the credential is valid again")
    states = await stage.ended([run])
    stage.expect("a replay finishes the run", all_are(states, DONE), states)
    state = (await failures.view(letter.id)).state
    stage.expect("the dead letter is resolved", state == "RESOLVED", state)
    seen = await stage.seen(stage.mark)
    stage.expect("the account was not opened again", seen.asked.get("/accounts") == 1, seen.asked)
    keys = {path: seen.acted.get(f"identity/{path}") for path in ("keys", "grants")}
    stage.expect("the account has one key and its permissions", set(keys.values()) == {1}, keys)


async def replay(stage: Stage, _: Running) -> None:
    order = stage.traffic.order(name=stage.mark)
    failures = stage.app.failures(by=BY)
    try:
        stage.say("An order is charged. Then the carrier rejects it permanently.")
        await stage.break_("carrier", REFUSING, about=stage.mark)
        run = await stage.start(order)
        states = await stage.ended([run])
        letter = await run.dead_letter()
        stage.expect("the order has a dead letter", all_are(states, DEAD) and letter is not None, states)
        if letter is None:
            return
    finally:
        stage.say("The carrier accepts the order now.")
        await stage.repair("carrier", about=stage.mark)
    await failures.replay(letter.id, reason="the carrier accepts the order now")
    states = await stage.ended([run])
    stage.expect("a replay finishes the run", all_are(states, DONE), states)
    after = await failures.view(letter.id)
    stage.expect("the dead letter is resolved", after.state == "RESOLVED", after.state)
    stage.expect("its idempotency key is unchanged", after.idempotency_key == letter.idempotency_key)
    seen = await stage.seen(stage.mark)
    asked, keys = seen.asked.get("/labels"), seen.keys.get("carrier/labels")
    stage.expect("the carrier was called twice with one idempotency key", (asked, keys) == (2, 1), seen)
    stage.expect("one label was printed", seen.acted.get("carrier/labels") == 1, seen.acted)
    stage.expect("the card was not charged again", seen.asked.get("/charges") == 1, seen.asked)
    stage.expect("a second replay is rejected", await _is_rejected(stage, letter.id))
    about = await failures.audit.about(letter.id)
    stage.expect("the audit log names who replayed it", any(entry.actor == BY for entry in about))


async def _is_rejected(stage: Stage, letter_id: str) -> bool:
    try:
        await stage.app.failures(by=BY).replay(letter_id)
    except RedriveError:
        return True
    return False


DRILLS = (
    Drill("outage", "a service stops while workflows run", outage),
    Drill("duplicates", "the same event is delivered many times", duplicates),
    Drill("credential", "a credential is revoked halfway through provisioning", credential),
    Drill("replay", "a dead letter is replayed", replay),
    Drill("duplicate-events", "an event is published many times", duplicate_events, needs_redis=True),
    Drill("dead-event", "an entry that is no event is repaired and replayed", dead_event, needs_redis=True),
)


def playable(drills: Sequence[Drill], running: Running) -> list[Drill]:
    """Leave out the drills that need Redis if the demo runs without it."""
    has_redis = redis_server.url_of(Path(running.directory)) != ""
    return [drill for drill in drills if has_redis or not drill.needs_redis]


def select(names: Sequence[str]) -> list[Drill]:
    """Return the named drills, or all drills if no names are given."""
    known = {drill.name: drill for drill in DRILLS}
    for name in names:
        if name not in known:
            raise InvalidValueError(f"there is no drill {name!r}; {suggest(name, known)}")
    return [known[name] for name in names] if names else list(DRILLS)
