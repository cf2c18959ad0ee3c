"""What cannot be done to dead letters, and what to say about it: which of them, why, and what to do next."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from redrive.errors import (
    DriftError,
    InvalidValueError,
    NotFoundError,
    NumberDriftError,
    TransitionError,
)
from redrive.model.dead_letter import DEAD_LETTER_TRANSITIONS, DeadLetterState, version_of
from redrive.model.run import RunState
from redrive.store.dead_letters import Locked, Standing

MAX_CONCURRENT = 10_000
MAX_NAMED = 3

Version: TypeAlias = str | Collection[str] | None
"""One that something must have, or one of several; None: whichever it has."""


def checked_ids(ids: Any) -> list[str]:
    """Each of them once. What cannot be an id is one that does not exist."""
    named = list(dict.fromkeys([ids] if isinstance(ids, str) else ids))
    if not 1 <= len(named) <= MAX_CONCURRENT:
        raise InvalidValueError(f"name 1 to {MAX_CONCURRENT:,} dead letters at once, got {len(named):,}")
    refuse_missing([each for each in named if not isinstance(each, str) or not each.isprintable()])
    return named


def refuse_missing(missing: Sequence[object]) -> None:
    if len(missing) == 1:
        raise NotFoundError(f"there is no dead letter {missing[0]!r}")
    if missing:
        raise NotFoundError(f"there are no dead letters {_named(missing)}; nothing was changed")


def refuse_stale(locked: Mapping[str, Locked], version: Version) -> None:
    """Of a single letter: has it changed since somebody has read it?"""
    if version is None:
        return
    if len(locked) != 1:
        raise InvalidValueError("a version is that of one dead letter; name one, or leave the version away")
    [letter] = locked.values()
    refuse_other_version(f"dead letter {letter.id}", letter.state, version_of(letter), version)


def refuse_other_version(noun: str, state: str, now: str, version: Version) -> None:
    if version is not None and now not in ({version} if isinstance(version, str) else version):
        raise DriftError(
            f"the {noun} has changed since it was read, it is {state} now; nothing was done. Read it again",
            number=1,
        )


def refuse_states(locked: Mapping[str, Locked], after: DeadLetterState) -> None:
    """What is being replayed is decided by its run alone."""
    allowed = {
        str(each.before)
        for each in DEAD_LETTER_TRANSITIONS.transitions
        if each.after is after and each.before is not DeadLetterState.REPLAYING
    }
    wrong = [f"{each.id} is {each.state}" for each in locked.values() if each.state not in allowed]
    if wrong:
        raise TransitionError(
            f"only dead letters that are {' or '.join(sorted(allowed))} can become {after}, but "
            f"{_named(wrong)}; nothing was changed"
        )


def refuse_standings(standings: Iterable[Standing]) -> None:
    reasons = [(each.id, _obstacle(each)) for each in standings]
    wrong = [f"{letter_id}: {reason}" for letter_id, reason in reasons if reason]
    if wrong:
        raise TransitionError(f"not every dead letter can be reopened, nothing was changed: {_named(wrong)}")


def _obstacle(standing: Standing) -> str:
    if standing.newer is not None:
        return f"its step has failed again since, work on {standing.newer}"
    if standing.run_state not in (RunState.FAILED, RunState.DLQ_PENDING):
        return f"its run is {standing.run_state}"
    return "" if standing.run_step_index == standing.step_index else "its run is at another step"


def refuse_drift(found: int, expect: int) -> None:
    if found > MAX_CONCURRENT:
        raise DriftError(
            f"more than {MAX_CONCURRENT:,} dead letters fulfil the query, and at most so many are changed at "
            f"once; narrow it, for example with since: or until:",
            number=found,
        )
    _refuse_number(f"{found:,} dead letters fulfil the query", found, expect)


def refuse_group_drift(found: int, expect: int | None) -> None:
    """Of the letters that would be resolved with their group."""
    if expect is not None:
        what = f"{found:,} dead letter{'s' * (found != 1)} would be resolved with the group"
        _refuse_number(what, found, expect)


def refuse_start_drift(found: int, expect: int | None) -> None:
    """Of the letters that an operation would replay."""
    if expect is not None:
        _refuse_number(f"{found:,} dead letter{'s' * (found != 1)} would be replayed", found, expect)


def _refuse_number(what: str, found: int, expect: int) -> None:
    if found != expect:
        raise NumberDriftError(
            f"{what}, {expect:,} were expected; nothing was changed. Look at them again, then say the new "
            f"number",
            number=found,
        )


def require_all(changed: int, ids: Sequence[str]) -> None:
    if changed != len(ids):
        raise TransitionError("a dead letter has changed in this very moment; nothing was done, try again")


def _named(several: Sequence[object]) -> str:
    """The first few of them."""
    more = f" and {len(several) - MAX_NAMED:,} more" if len(several) > MAX_NAMED else ""
    return ", ".join(str(each) for each in several[:MAX_NAMED]) + more
