"""Checks before dead letters are changed. Each error names the letters, the reason and the next step."""

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
from redrive.words.number import names, noun, plural
from redrive.words.state import status

MAX_CONCURRENT = 10_000
"""The maximum number of dead letters that one call changes."""
MAX_NAMED = 3
"""The maximum number of dead letters that an error message names."""

Version: TypeAlias = str | Collection[str] | None
"""The version that an object must have, or a collection of allowed versions; None: any version."""


def checked_ids(ids: Any) -> list[str]:
    """Return each id once. Raises NotFoundError for values that cannot be ids."""
    named = list(dict.fromkeys([ids] if isinstance(ids, str) else ids))
    if not 1 <= len(named) <= MAX_CONCURRENT:
        raise InvalidValueError(f"name 1 to {MAX_CONCURRENT:,} dead letters at once, got {len(named):,}")
    reject_missing([letter for letter in named if not isinstance(letter, str) or not letter.isprintable()])
    return named


def reject_missing(missing: Sequence[object]) -> None:
    if len(missing) == 1:
        raise NotFoundError(f"found no dead letter {missing[0]!r}")
    if missing:
        raise NotFoundError(f"there are no dead letters {_named(missing)}; nothing was changed")


def check_letter_version(locked: Mapping[str, Locked], version: Version) -> None:
    """Raise DriftError if the letter has changed since the caller read it."""
    if version is None:
        return
    if len(locked) != 1:
        raise InvalidValueError(
            f"a version belongs to one dead letter, got {len(locked):,}; name one, or omit the version"
        )
    [letter] = locked.values()
    check_version(f"dead letter {letter.id}", letter.state, version_of(letter), version)


def check_version(subject: str, state: str, now: str, version: Version) -> None:
    if version is not None and now not in ({version} if isinstance(version, str) else version):
        raise DriftError(
            f"the {subject} has changed since it was read and is {status(state)} now; nothing was done. "
            f"Read it again",
            number=1,
        )


def check_states(locked: Mapping[str, Locked], after: DeadLetterState) -> None:
    """Raise TransitionError unless all letters may become `after`. Replaying letters may not change."""
    allowed = {
        str(transition.before)
        for transition in DEAD_LETTER_TRANSITIONS.transitions
        if transition.after is after and transition.before is not DeadLetterState.REPLAYING
    }
    wrong = [
        f"{letter.id} is {status(letter.state)}" for letter in locked.values() if letter.state not in allowed
    ]
    if wrong:
        raise TransitionError(
            f"only dead letters that are {' or '.join(sorted(map(status, allowed)))} can become "
            f"{status(after)}, but {_named(wrong)}; nothing was changed"
        )


def check_reopenable(standings: Iterable[LetterRunState]) -> None:
    """Raise TransitionError if the run of a letter has moved on since."""
    reasons = [(snapshot.id, _obstacle(snapshot)) for snapshot in standings]
    wrong = [f"{letter_id}: {reason}" for letter_id, reason in reasons if reason]
    if wrong:
        raise TransitionError(
            f"some dead letters cannot be reopened, so nothing was changed: {_named(wrong)}"
        )


def _obstacle(snapshot: LetterRunState) -> str:
    if snapshot.newer is not None:
        return f"its step has failed again; handle its newer dead letter, {snapshot.newer}, instead"
    if snapshot.run_state not in (RunState.FAILED, RunState.DLQ_PENDING):
        return f"its run has the status {status(snapshot.run_state)!r}"
    return "" if snapshot.run_step_index <= snapshot.step_index else "its run is at a later step"


def check_number_matching(found: int, expect: int) -> None:
    """Raise DriftError unless the number of letters that match a query is the expected one."""
    if found > MAX_CONCURRENT:
        raise DriftError(
            f"more than {MAX_CONCURRENT:,} dead letters match the query, the maximum for one change; "
            f"narrow it, for example with since: or until:",
            number=found,
        )
    _check_number(
        f"{plural(found, 'dead letter')} {noun(found, 'matches', 'match')} the query", found, expect
    )


def check_number_resolved(found: int, expect: int | None) -> None:
    """Raise DriftError unless the number of letters to resolve with their group is the expected one."""
    if expect is not None:
        _check_number(f"{plural(found, 'dead letter')} would be resolved with the group", found, expect)


def check_number_replayed(found: int, expect: int | None) -> None:
    """Raise DriftError unless the number of letters that an operation would replay is the expected one."""
    if expect is not None:
        _check_number(f"{plural(found, 'dead letter')} would be replayed", found, expect)


def _check_number(what: str, found: int, expect: int) -> None:
    if found != expect:
        raise NumberDriftError(
            f"{what}, {expect:,} were expected; nothing was changed. Check them again, then pass the new "
            f"number",
            number=found,
        )


def check_all_changed(changed: int, ids: Sequence[str]) -> None:
    if changed != len(ids):
        raise TransitionError(
            "a dead letter was changed at the same time by another caller; nothing was done. Try again"
        )


def _named(items: Sequence[object]) -> str:
    return names([str(item) for item in items], MAX_NAMED)
