"""Checks before dead letters are changed. Each error names the letters, the reason and what to do next."""

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
from redrive.store.dead_letters import LetterRunState, Locked
from redrive.words.number import plural

MAX_CONCURRENT = 10_000
"""Dead letters that one call changes."""
MAX_NAMED = 3
"""Dead letters that an error message names."""

Version: TypeAlias = str | Collection[str] | None
"""The version that something must have, or several of which it must have one; None: any version."""


def checked_ids(ids: Any) -> list[str]:
    """Return each id once. NotFoundError for what cannot be an id."""
    named = list(dict.fromkeys([ids] if isinstance(ids, str) else ids))
    if not 1 <= len(named) <= MAX_CONCURRENT:
        raise InvalidValueError(f"name 1 to {MAX_CONCURRENT:,} dead letters at once, got {len(named):,}")
    reject_missing([letter for letter in named if not isinstance(letter, str) or not letter.isprintable()])
    return named


def reject_missing(missing: Sequence[object]) -> None:
    if len(missing) == 1:
        raise NotFoundError(f"there is no dead letter {missing[0]!r}")
    if missing:
        raise NotFoundError(f"there are no dead letters {_named(missing)}; nothing was changed")


def check_letter_version(locked: Mapping[str, Locked], version: Version) -> None:
    """DriftError when the one letter has changed since the caller read it."""
    if version is None:
        return
    if len(locked) != 1:
        raise InvalidValueError("a version is that of one dead letter; name one, or leave the version away")
    [letter] = locked.values()
    check_version(f"dead letter {letter.id}", letter.state, version_of(letter), version)


def check_version(noun: str, state: str, now: str, version: Version) -> None:
    if version is not None and now not in ({version} if isinstance(version, str) else version):
        raise DriftError(
            f"the {noun} has changed since it was read, it is {state} now; nothing was done. Read it again",
            number=1,
        )


def check_states(locked: Mapping[str, Locked], after: DeadLetterState) -> None:
    """TransitionError unless all may become `after`. A letter that is being replayed is left to its run."""
    allowed = {
        str(transition.before)
        for transition in DEAD_LETTER_TRANSITIONS.transitions
        if transition.after is after and transition.before is not DeadLetterState.REPLAYING
    }
    wrong = [f"{letter.id} is {letter.state}" for letter in locked.values() if letter.state not in allowed]
    if wrong:
        raise TransitionError(
            f"only dead letters that are {' or '.join(sorted(allowed))} can become {after}, but "
            f"{_named(wrong)}; nothing was changed"
        )


def check_reopenable(standings: Iterable[LetterRunState]) -> None:
    """TransitionError when the run of a letter has gone on since."""
    reasons = [(snapshot.id, _obstacle(snapshot)) for snapshot in standings]
    wrong = [f"{letter_id}: {reason}" for letter_id, reason in reasons if reason]
    if wrong:
        raise TransitionError(f"not every dead letter can be reopened, nothing was changed: {_named(wrong)}")


def _obstacle(snapshot: LetterRunState) -> str:
    if snapshot.newer is not None:
        return f"its step has failed again since, work on {snapshot.newer}"
    if snapshot.run_state not in (RunState.FAILED, RunState.DLQ_PENDING):
        return f"its run is {snapshot.run_state}"
    return "" if snapshot.run_step_index == snapshot.step_index else "its run is at another step"


def check_number_matching(found: int, expect: int) -> None:
    """DriftError unless exactly as many letters match a query as the caller expects."""
    if found > MAX_CONCURRENT:
        raise DriftError(
            f"more than {MAX_CONCURRENT:,} dead letters fulfil the query, and at most so many are changed at "
            f"once; narrow it, for example with since: or until:",
            number=found,
        )
    _check_number(f"{found:,} dead letters fulfil the query", found, expect)


def check_number_resolved(found: int, expect: int | None) -> None:
    """DriftError unless as many letters would be resolved with their group as the caller expects."""
    if expect is not None:
        _check_number(f"{plural(found, 'dead letter')} would be resolved with the group", found, expect)


def check_number_replayed(found: int, expect: int | None) -> None:
    """DriftError unless an operation would replay as many letters as the caller expects."""
    if expect is not None:
        _check_number(f"{plural(found, 'dead letter')} would be replayed", found, expect)


def _check_number(what: str, found: int, expect: int) -> None:
    if found != expect:
        raise NumberDriftError(
            f"{what}, {expect:,} were expected; nothing was changed. Look at them again, then say the new "
            f"number",
            number=found,
        )


def check_all_changed(changed: int, ids: Sequence[str]) -> None:
    if changed != len(ids):
        raise TransitionError("a dead letter has changed in this very moment; nothing was done, try again")


def _named(several: Sequence[object]) -> str:
    more = f" and {len(several) - MAX_NAMED:,} more" if len(several) > MAX_NAMED else ""
    return ", ".join(map(str, several[:MAX_NAMED])) + more
