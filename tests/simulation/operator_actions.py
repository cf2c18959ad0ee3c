"""The actions of an operator, by the kind of the chore."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from tests.simulation.catalog import OTHERWISE
from tests.simulation.script import Chore, ChoreKind

from redrive.app import Redrive
from redrive.errors import InvalidValueError, TransitionError
from redrive.failures.service import Failures
from redrive.model.dead_letter import DeadLetterLine
from redrive.model.replay import Mode

BY = "ana"
WHY = "simulated"
UNATTENDED = "is:open,exhausted"


async def _replay(app: Redrive, failures: Failures, letter: DeadLetterLine, chore: Chore) -> None:
    options: dict[ChoreKind, dict[str, Any]] = {
        ChoreKind.REPLAY_ALONE: {"mode": Mode.STEP_ONLY},
        ChoreKind.REPLAY_BACK: {"from_step": 0},
        ChoreKind.REPLAY_OTHERWISE: {"retry": OTHERWISE},
    }
    await failures.replay(letter.id, reason=WHY, **options.get(chore.kind, {}))


async def _close(app: Redrive, failures: Failures, letter: DeadLetterLine, chore: Chore) -> None:
    letters = failures
    ways = {
        ChoreKind.RESOLVE: letters.resolve,
        ChoreKind.IGNORE: letters.ignore,
        ChoreKind.ARCHIVE: letters.archive,
        ChoreKind.REOPEN: letters.reopen,
    }
    await ways[chore.kind](letter.id, WHY)


async def _link(
    app: Redrive, failures: Failures, pair: tuple[DeadLetterLine, DeadLetterLine], chore: Chore
) -> None:
    try:
        await failures.link(pair[0].id, pair[1].id)
    except InvalidValueError as error:
        raise TransitionError(str(error)) from error  # each dead letter would wait for the other


async def _retry_run(app: Redrive, failures: Failures, letter: DeadLetterLine, chore: Chore) -> None:
    await failures.replay_run(letter.run_id, reason=WHY)


async def _cancel_run(app: Redrive, failures: Failures, letter: DeadLetterLine, chore: Chore) -> None:
    await app.run(letter.run_id, failures.caller.org).cancel(by=BY)


async def _plan(app: Redrive, failures: Failures, subject: str, chore: Chore) -> None:
    bulk = chore.bulk
    plan = await failures.plans.create(
        query=UNATTENDED,
        mode=Mode.STEP_ONLY if bulk.alone else Mode.FROM_STEP,
        canary=bulk.canary,
        rate=bulk.rate,
        failure_rate=bulk.failure_rate,
        stop_on_breaker=bulk.stop_on_breaker,
        exclude_unsafe=bulk.exclude_unsafe,
        reason=WHY,
    )
    if not bulk.waits:
        await failures.plans.start(plan.operation_id, accept_drift=True)


async def _start(app: Redrive, failures: Failures, operation_id: str, chore: Chore) -> None:
    await failures.plans.start(operation_id, accept_drift=chore.rash)


async def _steer(app: Redrive, failures: Failures, operation_id: str, chore: Chore) -> None:
    operations = failures.plans
    ways = {
        ChoreKind.PAUSE: operations.pause,
        ChoreKind.RESUME: operations.resume,
        ChoreKind.CANCEL: operations.cancel,
    }
    await ways[chore.kind](operation_id, WHY)


async def _group(app: Redrive, failures: Failures, fingerprint: str, chore: Chore) -> None:
    groups = failures.groups
    if chore.kind is ChoreKind.ACKNOWLEDGE_GROUP:
        await groups.acknowledge(fingerprint, WHY)
    elif chore.kind is ChoreKind.IGNORE_GROUP:
        await groups.ignore(fingerprint, WHY, until=3.0 if chore.rash else None, beyond=1)
    else:
        with_letters = chore.kind is ChoreKind.RESOLVE_GROUP_WITH_LETTERS
        await groups.resolve(fingerprint, WHY, letters=with_letters)


ACTIONS: dict[ChoreKind, Callable[..., Awaitable[None]]] = {
    **dict.fromkeys(
        (ChoreKind.REPLAY, ChoreKind.REPLAY_ALONE, ChoreKind.REPLAY_BACK, ChoreKind.REPLAY_OTHERWISE), _replay
    ),
    **dict.fromkeys((ChoreKind.RESOLVE, ChoreKind.IGNORE, ChoreKind.ARCHIVE, ChoreKind.REOPEN), _close),
    ChoreKind.LINK: _link,
    ChoreKind.RETRY_RUN: _retry_run,
    ChoreKind.CANCEL_RUN: _cancel_run,
    ChoreKind.PLAN: _plan,
    ChoreKind.START: _start,
    **dict.fromkeys((ChoreKind.PAUSE, ChoreKind.RESUME, ChoreKind.CANCEL), _steer),
    **dict.fromkeys(
        (
            ChoreKind.ACKNOWLEDGE_GROUP,
            ChoreKind.RESOLVE_GROUP,
            ChoreKind.RESOLVE_GROUP_WITH_LETTERS,
            ChoreKind.IGNORE_GROUP,
        ),
        _group,
    ),
}
