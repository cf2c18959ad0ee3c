"""Dead letters and failure groups: a change is in the tables, and has its entry in the audit (I10, I14)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tests.simulation.watcher import Blind

from redrive.model.dead_letter import CLOSED, DEAD_LETTER_TRANSITIONS, LIVE, DeadLetterState
from redrive.model.failure_group import GROUP_TRANSITIONS, GroupState
from redrive.policy.codec import decode


class Told(NamedTuple):
    """An entry of the audit, about one of its subjects."""

    action: str
    subject: str


def entries(rows: Iterable[Sequence[Any]]) -> set[Told]:
    told: set[Told] = set()
    for action, subject, subjects in rows:
        several: Any = [subject] if subjects is None else decode(subjects)
        told |= {Told(action, each) for each in several}
    return told


class LetterRow(NamedTuple):
    id: str
    org: str
    run_id: str
    state: str
    queue: str
    redrives: int
    max_redrives: int


class GroupRow(NamedTuple):
    org: str
    fingerprint: str
    state: str
    ignored_until: float | None = None
    changed_at: float | None = None

    def state_at(self, moment: float | None) -> str:
        """A group whose time to be ignored is over is open, whether or not that is written yet."""
        if self.state != GroupState.IGNORED or self.ignored_until is None or moment is None:
            return self.state
        return GroupState.OPEN if moment >= self.ignored_until else self.state


class LetterWatch:
    def __init__(self, watcher: Blind) -> None:
        self._watcher = watcher
        self._bitten = watcher.bitten
        self._letters: dict[str, LetterRow] = {}
        self._groups: dict[tuple[str, str], GroupRow] = {}

    def changed(self, rows: Iterable[Sequence[Any]], told: set[Told]) -> None:
        for row in rows:
            after = LetterRow._make(row)
            before = self._letters.get(after.id)
            self._letters[after.id] = after
            self._check_redrives(after)
            if before is None or before.state != after.state:
                self._count(before, after)
                self._check_state(before, after, told)

    def is_live(self, run_id: str) -> bool:
        """Has the run a live dead letter?"""
        return any(letter.run_id == run_id and letter.state in LIVE for letter in self._letters.values())

    def groups_changed(self, rows: Iterable[Sequence[Any]], told: set[Told]) -> None:
        for row in rows:
            after = GroupRow(*row)
            before = self._groups.get(after[:2])
            self._groups[after[:2]] = after
            if before is not None and before.state != after.state:
                self._check_group(before, after, told)

    def _check_redrives(self, letter: LetterRow) -> None:
        if letter.redrives > letter.max_redrives > 0:
            text = f"the dead letter was redriven {letter.redrives} times, {letter.max_redrives} are allowed"
            self._watcher.find("I3", letter.id, text)

    def _check_state(self, before: LetterRow | None, after: LetterRow, told: set[Told]) -> None:
        past = None if before is None else before.state
        if past is None and after.state != "OPEN":
            self._watcher.find("I10", after.id, f"a new dead letter begins as {after.state}")
        if past is not None and not DEAD_LETTER_TRANSITIONS.allows(
            DeadLetterState(past), DeadLetterState(after.state)
        ):
            self._watcher.find("I10", after.id, f"the dead letter went from {past} to {after.state}")
        said = {each.action for each in told if each.subject in (after.id, after.run_id)}
        if not said & _expected(past, after.state):
            self._watcher.find(
                "I14", after.id, f"no entry tells that it went from {past} to {after.state}: {sorted(said)}"
            )

    def _check_group(self, before: GroupRow, after: GroupRow, told: set[Told]) -> None:
        self._bitten[f"group {after.state.lower()}"] += 1
        past = before.state if after.state == GroupState.OPEN else before.state_at(after.changed_at)
        if not GROUP_TRANSITIONS.allows(GroupState(past), GroupState(after.state)):
            text = f"the failure group went from {past} to {after.state}"
            self._watcher.find("I10", after.fingerprint, text)
        said = {each.action for each in told if each.subject == after.fingerprint}
        if not said & _GROUP_ACTIONS[after.state]:
            text = f"no entry tells that the group went from {past} to {after.state}"
            self._watcher.find("I14", after.fingerprint, text)

    def _count(self, before: LetterRow | None, after: LetterRow) -> None:
        past = None if before is None else before.state
        by_hand = before is not None and before.redrives == after.redrives
        happened = {
            "enqueued_total": past is None,
            "retry_success": (past, after.state) == ("REPLAYING", "RESOLVED"),
            "retry_failed": past == "REPLAYING" and after.state in ("OPEN", "EXHAUSTED"),
            "exhausted": past is not None and after.state == "EXHAUSTED",
            "archived": past is not None and after.state == "ARCHIVED",
            "manually_retried": after.state == "REPLAYING" and by_hand,
        }
        for figure in [name for name, so in happened.items() if so]:
            self._watcher.figures[after.org, after.queue, figure] += 1
        reopened = past in CLOSED and after.state == "OPEN"
        self._bitten[
            "reopened" if reopened else f"letter {after.state.lower()}" if past else "new letter"
        ] += 1


_CLOSINGS = {
    "RESOLVED": "dead_letter.resolved",
    "IGNORED": "dead_letter.ignored",
    "ARCHIVED": "dead_letter.archived",
}
_GROUP_ACTIONS = {
    "ACKNOWLEDGED": {"group.acknowledged"},
    "RESOLVED": {"group.resolved"},
    "IGNORED": {"group.ignored"},
    "OPEN": {"group.reopened", "group.regressed"},
}


def _expected(before: str | None, after: str) -> set[str]:
    """One of these actions must have been written in the same transaction."""
    if before is None:
        return {"dead_letter.moved"}
    if after == "REPLAYING":
        return {"replay.requested"}
    if before != "REPLAYING":
        return {"dead_letter.reopened"} if before in CLOSED else {_CLOSINGS[after]}
    return {
        "RESOLVED": {"dead_letter.resolved"},
        "IGNORED": {"replay.cancelled", "run.cancelled"},
        "EXHAUSTED": {"dead_letter.exhausted", "dead_letter.reopened"},
    }.get(after, {"replay.failed", "dead_letter.reopened"})
