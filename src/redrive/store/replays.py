"""Replays: restarting the runs of dead letters, and recording the outcomes.

One transaction starts a replay: it changes the run, the dead letter and the replay, or nothing. The
transaction that records the outcome of the run also settles the replay, so that they always agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from redrive.errors import NotFoundError, StoreUnavailableError
from redrive.model.audit import Action, NewEntry
from redrive.model.caller import SELF
from redrive.model.dead_letter import DeadLetterState
from redrive.model.fact import Fact, fact
from redrive.model.field import RunId
from redrive.model.replay import REPLAYED, Mode, Replay, ReplayState
from redrive.model.row import Row
from redrive.policy.codec import JsonValue, decode
from redrive.store.audit import AuditStore
from redrive.store.database import Session, findable
from redrive.store.rows import read_row, read_rows
from redrive.store.statement import statements
from redrive.store.work_row import WorkRow


class NewReplay(Row, frozen=True):
    """A replay to start.

    step_index  the step where the run stopped; the replay is refused if the run is elsewhere
    step_input  the new input of the step; None: keep its input
    queue       the queue for the run; None: keep its queue
    """

    id: str
    org: str
    letter_id: str
    run_id: RunId
    step_index: int
    from_step: int
    mode: Mode
    automatic: bool
    requested_by: str
    reason: str
    policy_override: str | None = None
    edit: str | None = None
    step_input: str | None = None
    queue: str | None = None

    @property
    def step_only(self) -> bool:
        return self.mode is Mode.STEP_ONLY


class StartedReplays(NamedTuple):
    """The result of starting replays: the started ones, the queues of their ready runs, and the new rows.

    letters  the ids of the dead letters that are being replayed, by run
    """

    replays: tuple[NewReplay, ...]
    queues: tuple[str, ...]
    refused: int = 0
    rows: tuple[Replay, ...] = ()
    letters: Mapping[str, Sequence[str]] = MappingProxyType({})


class Settlement(Row, frozen=True):
    """The consequence of a record for the replay of its run. `state` is None while the run continues."""

    run_id: RunId
    step_index: int
    state: ReplayState | None
    fingerprint_after: str | None = None
    note: str | None = None
    by: str = SELF
    has_letter: bool = True


class Settled(NamedTuple):
    org: str
    letter_id: str
    run_id: str
    state: str


class LetterChange(NamedTuple):
    """A dead letter that a replay has resolved, reopened or exhausted. `after` is its state now."""

    org: str
    letter_id: str
    run_id: str
    by: str
    after: str
    action: Action


class LockedLetter(NamedTuple):
    """A live dead letter of a run whose replay is being settled."""

    id: str
    org: str
    run_id: str
    step_index: int
    state: str
    last_replayed_by: str | None


class ClosedByReplay(NamedTuple):
    """The new state of a dead letter that its replay closes."""

    id: str
    state: DeadLetterState
    by: str | None
    resolution: str


class ReopenedByReplay(NamedTuple):
    """A dead letter whose step its replay has not reached."""

    id: str


class RefusedItem(NamedTuple):
    """An item of an operation that can't be replayed; `note` is the fact that says why, encoded."""

    id: str
    note: str


class ItemSituation(NamedTuple):
    """The states of the dead letter and the run of an item now, and what was planned."""

    letter_state: str | None
    run_state: str | None
    run_step: int | None
    step: int
    fingerprint: str | None
    planned_fingerprint: str

    @property
    def obstacle(self) -> Fact:
        """Say why the item can't be replayed, or what has changed since it was planned."""
        failed = self.run_state in ("DLQ_PENDING", "FAILED") and self.run_step == self.step
        if self.letter_state not in ("OPEN", "EXHAUSTED") or not failed:
            return self.refusal
        if self.fingerprint != self.planned_fingerprint:
            return fact("failed_differently_since")
        return fact("changed_since")

    @property
    def refusal(self) -> Fact:
        """Say why the item could not start."""
        return why_not(self.letter_state, self.run_state, self.run_step, self.step)


_SQL = statements(
    "replays",
    Replay,
    NewReplay,
    Settlement,
    LockedLetter,
    ClosedByReplay,
    ReopenedByReplay,
    RefusedItem,
    WorkRow,
)

CANCELLED = "the run was cancelled"


class ReplayStore:
    def __init__(self, session: Session, audit: AuditStore) -> None:
        self._session = session
        self._audit = audit

    async def get(self, replay_id: str, org: str) -> Replay:
        rows = await self._session.fetch(_SQL["get"], {"id": findable(replay_id), "org": org})
        if not rows:
            raise NotFoundError(f"found no replay {replay_id!r:.200}")
        return read_row(Replay, rows[0])

    async def of_letter(self, letter_id: str, org: str, most: int = 100) -> list[Replay]:
        """Return the replays of a dead letter, newest first."""
        parameters = {"letter_id": findable(letter_id), "org": org, "most": most}
        return read_rows(Replay, await self._session.fetch(_SQL["of_letter"], parameters))

    async def of_run(self, run_id: str, org: str) -> list[Replay]:
        """Return the started replays of a run, oldest first."""
        rows = await self._session.fetch(_SQL["of_run"], {"run_id": run_id, "org": org})
        return read_rows(Replay, rows)

    async def begin(self, session: Session, replays: Sequence[NewReplay]) -> StartedReplays:
        """Start the replays whose run and dead letter still allow it; other replays change nothing.

        A replay that was started before, in a commit whose answer was lost, is not started again.
        """
        known = {row[0] for row in await session.fetch_many(_SQL["known"], replays)}
        begun = await self._restart(session, [replay for replay in replays if replay.id not in known])
        if not begun.replays:
            return begun
        rows = await session.fetch_many(_SQL["insert"], begun.replays)
        await self._audit.append(session, _requests(begun))
        return begun._replace(rows=tuple(read_rows(Replay, rows)))

    async def begin_planned(self, session: Session, operation_id: str, most: int) -> StartedReplays:
        """Start the next items of an operation; refuse, with a note, those that changed or cannot start."""
        rows = await session.fetch(_SQL["pick"], {"operation_id": operation_id, "most": most})
        if not rows:
            return StartedReplays((), ())
        picked = read_rows(NewReplay, [(*values, None, None) for *values, _ in rows])
        planned = [replay for replay, row in zip(picked, rows, strict=True) if row[-1] is not None]
        begun = await self._restart(session, planned) if planned else StartedReplays((), ())
        won = {replay.id for replay in begun.replays}
        if len(won) < len(picked):
            startable = {replay.id for replay in planned}
            await self._refuse(session, [replay for replay in picked if replay.id not in won], startable)
        if begun.replays:
            await self._audit.append(session, _requests(begun, operation_id))
        return begun._replace(refused=len(picked) - len(won))

    async def resume(self, session: Session, replay: NewReplay) -> str | None:
        """Restart a failed run without a live dead letter; return its queue, or None if it cannot restart."""
        rows = await session.fetch(_SQL["resume"], replay.asdict())
        if not rows:
            return None
        # The update may have waited for a transaction that created or reopened a dead letter of the run.
        if await session.fetch(_SQL["live"], {"run_id": replay.run_id}):
            raise StoreUnavailableError("a dead letter of the run was opened at the same time; try again")
        await self._go_back(session, [replay])
        await session.fetch_many(_SQL["insert"], [replay])
        return str(rows[0][1])

    async def lock_letters(self, session: Session, settlements: Sequence[Settlement]) -> list[LockedLetter]:
        """Lock the live dead letters of these runs, in order of ids, as all transactions do."""
        rows = await session.fetch_many(_SQL["lock_letters"], settlements)
        return [LockedLetter._make(row) for row in rows]

    async def settle(
        self, session: Session, settlements: Sequence[Settlement], letters: Sequence[LockedLetter]
    ) -> list[Settled | LetterChange]:
        """Update replays and locked dead letters according to the outcomes of their runs."""
        by_run = {settlement.run_id: settlement for settlement in settlements}
        replayed = [letter for letter in letters if letter.state == DeadLetterState.REPLAYING]
        closed = [outcome for letter in replayed if (outcome := _outcome(letter, by_run[letter.run_id]))]
        missed = [letter for letter in replayed if _is_missed(letter, by_run[letter.run_id])]
        await session.fetch_many(_SQL["close"], closed)
        reopened = [ReopenedByReplay(letter.id) for letter in missed]
        rows = await session.fetch_many(_SQL["reopen"], reopened) if reopened else []
        ended = [settlement for settlement in settlements if settlement.state is not None]
        settled = [Settled._make(row) for row in await session.fetch_many(_SQL["settle"], ended)]
        after = {outcome.id: outcome.state.value for outcome in closed if outcome.resolution == REPLAYED}
        after |= {row[0]: row[1] for row in rows}
        changes = [_change(letter, after[letter.id]) for letter in replayed if letter.id in after]
        return [*settled, *changes]

    async def _restart(self, session: Session, replays: Sequence[NewReplay]) -> StartedReplays:
        ordered = sorted(replays, key=lambda replay: replay.run_id)
        queues = {row[0]: row[1] for row in await session.fetch_many(_SQL["restart"], ordered)}
        won = [replay for replay in ordered if replay.run_id in queues]
        if not won:
            return StartedReplays((), ())
        await self._go_back(session, [replay for replay in won if replay.from_step < replay.step_index])
        by_letter = sorted(won, key=lambda replay: replay.letter_id)
        rows = await session.fetch_many(_SQL["mark_replaying"], by_letter)
        marked = {row[0]: row[-1] for row in rows}
        if not all(replay.letter_id in marked for replay in won):
            # Another transaction closed a dead letter concurrently: the caller must start from its new state.
            raise StoreUnavailableError("a dead letter changed while its replay was started; try again")
        letters: dict[str, list[str]] = {}
        for letter_id, run_id in marked.items():
            letters.setdefault(run_id, []).append(letter_id)
        return StartedReplays(tuple(won), tuple(sorted(set(queues.values()))), letters=letters)

    async def _go_back(self, session: Session, replays: Sequence[NewReplay]) -> None:
        """Remove the finished steps that will be executed again, but keep a record of their success."""
        if replays:
            await session.fetch_many(_SQL["keep_successes"], replays)
            await session.fetch_many(_SQL["forget_steps"], replays)

    async def _refuse(self, session: Session, replays: Sequence[NewReplay], startable: set[str]) -> None:
        """Refuse items. The `startable` ones were as planned, but their run did not restart."""
        refused = [
            RefusedItem(item_id, (situation.refusal if item_id in startable else situation.obstacle).encode())
            for item_id, *values in await session.fetch_many(_SQL["situation"], replays)
            for situation in [ItemSituation(*values)]
        ]
        await session.fetch_many(_SQL["refuse"], refused)


def _outcome(letter: LockedLetter, settlement: Settlement) -> ClosedByReplay | None:
    """Decide how a replay closes a dead letter; None if the dead letter stays live."""
    if settlement.state == ReplayState.CANCELLED:
        return ClosedByReplay(
            id=letter.id, state=DeadLetterState.IGNORED, by=settlement.by, resolution=CANCELLED
        )
    if letter.step_index != settlement.step_index or settlement.state == ReplayState.FAILED:
        return None
    return ClosedByReplay(
        id=letter.id, state=DeadLetterState.RESOLVED, by=letter.last_replayed_by, resolution=REPLAYED
    )


def _is_missed(letter: LockedLetter, settlement: Settlement) -> bool:
    """Return whether the replay has ended before it reached the step of the dead letter."""
    ended = settlement.state in (ReplayState.FAILED, ReplayState.SUCCEEDED)
    return ended and letter.step_index > settlement.step_index


def _change(letter: LockedLetter, after: str) -> LetterChange:
    is_resolved = after == DeadLetterState.RESOLVED
    return LetterChange(
        org=letter.org,
        letter_id=letter.id,
        run_id=letter.run_id,
        by=(letter.last_replayed_by or SELF) if is_resolved else SELF,
        after=after,
        action=Action.DEAD_LETTER_RESOLVED if is_resolved else Action.DEAD_LETTER_REOPENED,
    )


def why_not(letter: str | None, run: str | None, run_step: int | None, letter_step: int) -> Fact:
    """Say why a dead letter can't be replayed now."""
    if letter is None:
        return fact("letter_removed")
    if letter == "REPLAYING":
        return fact("already_replaying")
    if run == "SUCCESS":
        return fact("run_succeeded")
    if letter not in ("OPEN", "EXHAUSTED"):
        return fact("letter_closed", state=letter)
    if run is None:
        return fact("run_removed")
    if run == "CANCELLED":
        return fact("run_cancelled")
    if run_step != letter_step:
        return fact("run_at_other_step", run_step=run_step, step=letter_step)
    if run in ("DLQ_PENDING", "FAILED"):
        return fact("later_step_failed")
    return fact("run_not_failed", state=run)


def _requests(begun: StartedReplays, operation_id: str | None = None) -> list[NewEntry]:
    entries: dict[tuple[str, str], list[NewReplay]] = {}
    for replay in begun.replays:
        entries.setdefault((replay.org, replay.requested_by), []).append(replay)
    return [
        NewEntry(
            org=org,
            actor=by,
            action=Action.REPLAY_REQUESTED,
            subjects=tuple(_subjects(those, begun.letters)),
            detail=_detail(those, operation_id),
        )
        for (org, by), those in entries.items()
    ]


def _subjects(replays: Sequence[NewReplay], letters: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield the replayed dead letters, each followed by those of later steps of its run."""
    for replay in replays:
        yield replay.letter_id
        yield from sorted(set(letters.get(replay.run_id, ())) - {replay.letter_id})


def _detail(replays: Sequence[NewReplay], operation_id: str | None) -> dict[str, JsonValue]:
    first = replays[0]
    detail: dict[str, JsonValue] = {"mode": first.mode, "reason": first.reason}
    if operation_id is not None:
        return detail | {"operation": operation_id}
    if first.automatic:
        return detail | {"automatic": True}
    return detail | {
        "from_step": first.from_step,
        "edited": first.edit is not None,
        "policy_override": bool(first.policy_override),
        **({} if first.edit is None else {"changed_fields": _paths(first.edit)}),
    }


def _paths(edit: str) -> list[JsonValue]:
    """Return the paths of a payload edit, without the values."""
    changes = decode(edit)
    listed = changes if isinstance(changes, list) else []
    return [change.get("path") for change in listed if isinstance(change, dict)]


def outcomes(settled: Iterable[Settled | LetterChange]) -> list[NewEntry]:
    """Build the audit entries of settled replays and their dead letters: one per org and kind of change."""
    entries: dict[tuple[str, Action], list[str]] = {}
    for outcome in settled:
        action = _OUTCOMES[outcome.state] if isinstance(outcome, Settled) else outcome.action
        # A run that was retried without a letter is its own subject.
        subject = outcome.letter_id or outcome.run_id
        entries.setdefault((outcome.org, action), []).append(subject)
    return [
        NewEntry(org=org, actor=SELF, action=action, subjects=tuple(ids), detail={})
        for (org, action), ids in entries.items()
    ]


_OUTCOMES: Mapping[str, Action] = {
    ReplayState.SUCCEEDED: Action.REPLAY_SUCCEEDED,
    ReplayState.FAILED: Action.REPLAY_FAILED,
    ReplayState.CANCELLED: Action.REPLAY_CANCELLED,
}
