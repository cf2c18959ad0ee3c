"""The audit entries that every dead letter must have: that it was created, and how it was closed (I14)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from redrive.errors import NotStorableError
from redrive.model.audit import Action, Entry
from redrive.model.dead_letter import DeadLetterState
from redrive.model.violation import ViolationCode
from redrive.policy.codec import decode
from redrive.verify.verdict import Verdict

_CLOSED_BY: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        # A replay has resolved it; earlier versions wrote only the outcome of the replay.
        DeadLetterState.RESOLVED: frozenset(
            {Action.DEAD_LETTER_RESOLVED, Action.REPLAY_SUCCEEDED, Action.REPLAY_FAILED}
        ),
        DeadLetterState.IGNORED: frozenset(
            {Action.DEAD_LETTER_IGNORED, Action.REPLAY_CANCELLED, Action.RUN_CANCELLED}
        ),
        DeadLetterState.ARCHIVED: frozenset({Action.DEAD_LETTER_ARCHIVED}),
    }
)


class LetterEntries:
    """The dead letters of an organization whose entries have not been found yet.

    Read the dead letters first, then the entries, so that a dead letter written meanwhile is not missed.
    """

    def __init__(self, letters: Iterable[tuple[str, str, str]]) -> None:
        """Take the id, the state and the run of each dead letter."""
        self._runs: dict[str, str] = {}
        self._closed: dict[str, str] = {}
        self._of_run: dict[str, list[str]] = {}
        for letter_id, state, run_id in letters:
            self._runs[letter_id] = run_id
            if state in _CLOSED_BY:
                self._closed[letter_id] = state
            if state == DeadLetterState.IGNORED:
                self._of_run.setdefault(run_id, []).append(letter_id)
        self._created = set(self._runs)
        self.checked = len(self._runs)

    def take(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            for subject in _subjects(entry):
                self._take(entry.action, subject)

    def _take(self, action: str, subject: str) -> None:
        if action == Action.DEAD_LETTER_MOVED:
            self._created.discard(subject)
            return
        named = self._of_run.get(subject, ()) if action == Action.RUN_CANCELLED else (subject,)
        for letter_id in named:
            if action in _CLOSED_BY.get(self._closed.get(letter_id, ""), ()):
                del self._closed[letter_id]

    def report_missing(self, verdict: Verdict) -> None:
        """Add a violation for each entry that a dead letter lacks."""
        for letter_id in sorted(self._created):
            verdict.add_violation(
                ViolationCode.LETTER_CREATION_UNRECORDED, self._runs[letter_id], dead_letter_id=letter_id
            )
        for letter_id, state in sorted(self._closed.items()):
            verdict.add_violation(
                ViolationCode.LETTER_CLOSING_UNRECORDED,
                self._runs[letter_id],
                dead_letter_id=letter_id,
                dead_letter_state=state,
            )


def _subjects(entry: Entry) -> list[str]:
    """Return the subjects of an entry; the chain check reports a list that was damaged."""
    if entry.subjects is None:
        return [entry.subject]
    try:
        several = decode(entry.subjects)
    except NotStorableError:
        return [entry.subject]
    return [subject for subject in several if isinstance(subject, str)] if isinstance(several, list) else []
