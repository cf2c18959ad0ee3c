"""Replays: putting the runs of dead letters back to work, and what came of it.

A replay is begun in one transaction: the run, the letter and the replay itself, or nothing. It is settled in
the transaction that records the outcome of its run, so that none of them can be ahead of the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from redrive.errors import NotFoundError, StoreUnavailableError
from redrive.model.audit import Action, NewEntry
from redrive.model.caller import SELF
from redrive.model.dead_letter import DeadLetterState
from redrive.model.field import RunId
from redrive.model.replay import Mode, Replay, ReplayState
from redrive.model.row import Row
from redrive.store.audit import AuditStore
from redrive.store.database import Session, findable
from redrive.store.rows import read_row, read_rows
from redrive.store.statement import statements
from redrive.store.work_row import WorkRow


class NewReplay(Row, frozen=True):
    """A replay to be begun.

    step_index  where the run stands: in another step, or gone on, it is refused
    step_input  what the step is to receive instead; None: what it has
    queue       where it is to wait; None: where it was
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


class Begun(NamedTuple):
    """What came of beginning some: the replays, the queues where their runs are ready, and the new rows."""

    replays: tuple[NewReplay, ...]
    queues: tuple[str, ...]
    refused: int = 0
    rows: tuple[Replay, ...] = ()


class Settlement(Row, frozen=True):
    """What a record of a replayed run means for its replay. `state` is None while the run goes on."""

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


class Resolved(NamedTuple):
    """A dead letter whose step has succeeded, while its replay goes on with the next one."""

    org: str
    letter_id: str
    run_id: str
    by: str


class LockedLetter(NamedTuple):
    """A live dead letter of a run that is settled."""

    id: str
    org: str
    run_id: str
    step_index: int
    state: str
    last_replayed_by: str | None


class ClosedByReplay(NamedTuple):
    """What the outcome of its replay makes of a dead letter."""

    id: str
    state: DeadLetterState
    by: str | None
    resolution: str


class RefusedItem(NamedTuple):
    """An item of an operation that cannot be replayed, and why."""

    id: str
    note: str


_SQL = statements(
    "replays", Replay, NewReplay, Settlement, LockedLetter, ClosedByReplay, RefusedItem, WorkRow
)

REPLAYED = "replayed"
SUPERSEDED = "superseded: its replay has failed in another step, which has a dead letter of its own"
CANCELLED = "the run was cancelled"


class ReplayStore:
    def __init__(self, session: Session, audit: AuditStore) -> None:
        self._session = session
        self._audit = audit

    async def get(self, replay_id: str, org: str) -> Replay:
        rows = await self._session.fetch(_SQL["get"], {"id": findable(replay_id), "org": org})
        if not rows:
            raise NotFoundError(f"there is no replay {replay_id!r:.200}")
        return read_row(Replay, rows[0])

    async def of_letter(self, letter_id: str, org: str, most: int = 100) -> list[Replay]:
        """The newest first."""
        parameters = {"letter_id": findable(letter_id), "org": org, "most": most}
        return read_rows(Replay, await self._session.fetch(_SQL["of_letter"], parameters))

    async def of_run(self, run_id: str, org: str) -> list[Replay]:
        """Those that were begun, the oldest first."""
        rows = await self._session.fetch(_SQL["of_run"], {"run_id": run_id, "org": org})
        return read_rows(Replay, rows)

    async def begin(self, session: Session, replays: Sequence[NewReplay]) -> Begun:
        """Begin those whose run and letter still allow it; the others change nothing.

        One that was begun before, and only the answer got lost, is not begun again.
        """
        known = {row[0] for row in await session.fetch_many(_SQL["known"], replays)}
        begun = await self._restart(session, [each for each in replays if each.id not in known])
        if not begun.replays:
            return begun
        rows = await session.fetch_many(_SQL["insert"], begun.replays)
        await self._audit.append(session, _requests(begun.replays))
        return begun._replace(rows=tuple(read_rows(Replay, rows)))

    async def begin_planned(self, session: Session, operation_id: str, most: int) -> Begun:
        """Begin the next items of an operation; those that cannot be begun are refused, and say why."""
        rows = await session.fetch(_SQL["pick"], {"operation_id": operation_id, "most": most})
        planned = [read_row(NewReplay, [*row, None, None]) for row in rows]
        if not planned:
            return Begun((), ())
        begun = await self._restart(session, planned)
        won = {each.id for each in begun.replays}
        left = [each for each in planned if each.id not in won]
        if left:
            await self._refuse(session, left)
        if begun.replays:
            await self._audit.append(session, _requests(begun.replays, operation_id))
        return begun._replace(refused=len(left))

    async def resume(self, session: Session, replay: NewReplay) -> str | None:
        """Let a failed run that has no live dead letter go on; its queue, or None when it must not."""
        rows = await session.fetch(_SQL["resume"], replay.asdict())
        if not rows:
            return None
        # The update may have waited for somebody who has made a letter of it, or opened one again.
        if await session.fetch(_SQL["live"], {"run_id": replay.run_id}):
            raise StoreUnavailableError("a dead letter was opened while its run was retried; try again")
        await self._go_back(session, [replay])
        await session.fetch_many(_SQL["insert"], [replay])
        return str(rows[0][1])

    async def lock_letters(self, session: Session, settlements: Sequence[Settlement]) -> list[LockedLetter]:
        """Lock the live letters of these runs. All transactions lock letters in order of ids."""
        rows = await session.fetch_many(_SQL["lock_letters"], settlements)
        return [LockedLetter._make(row) for row in rows]

    async def settle(
        self, session: Session, settlements: Sequence[Settlement], letters: Sequence[LockedLetter]
    ) -> list[Settled | Resolved]:
        """Bring replays, and the locked letters, to where the records of their runs have brought these."""
        by_run = {settlement.run_id: settlement for settlement in settlements}
        replayed = [letter for letter in letters if letter.state == DeadLetterState.REPLAYING]
        closed = [outcome for letter in replayed if (outcome := _outcome(letter, by_run[letter.run_id]))]
        await session.fetch_many(_SQL["close"], closed)
        ended = [settlement for settlement in settlements if settlement.state is not None]
        settled = [Settled._make(row) for row in await session.fetch_many(_SQL["settle"], ended)]
        resolved = {outcome.id for outcome in closed if outcome.resolution == REPLAYED}
        resolved -= {replay.letter_id for replay in settled}
        return [
            *settled,
            *(
                Resolved(letter.org, letter.id, letter.run_id, letter.last_replayed_by or SELF)
                for letter in replayed
                if letter.id in resolved
            ),
        ]

    async def _restart(self, session: Session, replays: Sequence[NewReplay]) -> Begun:
        ordered = sorted(replays, key=lambda each: each.run_id)
        queues = {row[0]: row[1] for row in await session.fetch_many(_SQL["restart"], ordered)}
        won = [each for each in ordered if each.run_id in queues]
        if not won:
            return Begun((), ())
        await self._go_back(session, [each for each in won if each.from_step < each.step_index])
        letters = sorted(won, key=lambda each: each.letter_id)
        if len(await session.fetch_many(_SQL["mark_replaying"], letters)) != len(won):
            # Somebody has closed one in this very moment: begin anew, from what is there now.
            raise StoreUnavailableError("a dead letter was changed while its replay was begun; try again")
        return Begun(tuple(won), tuple(sorted(set(queues.values()))))

    async def _go_back(self, session: Session, replays: Sequence[NewReplay]) -> None:
        """Steps that will be executed anew have not succeeded any more; that they had, is kept."""
        if replays:
            await session.fetch_many(_SQL["keep_successes"], replays)
            await session.fetch_many(_SQL["forget_steps"], replays)

    async def _refuse(self, session: Session, replays: Sequence[NewReplay]) -> None:
        situations = {row[0]: row for row in await session.fetch_many(_SQL["situation"], replays)}
        notes = [RefusedItem(each.id, why_not(*situations[each.id][1:])) for each in replays]
        await session.fetch_many(_SQL["refuse"], notes)


def _outcome(letter: LockedLetter, settlement: Settlement) -> ClosedByReplay | None:
    """How the letter is closed; None when it is live still."""
    same_step = letter.step_index == settlement.step_index
    if settlement.state == ReplayState.CANCELLED:
        return ClosedByReplay(
            id=letter.id, state=DeadLetterState.IGNORED, by=settlement.by, resolution=CANCELLED
        )
    if settlement.state == ReplayState.FAILED:
        if same_step:
            return None
        return ClosedByReplay(
            id=letter.id, state=DeadLetterState.RESOLVED, by=letter.last_replayed_by, resolution=SUPERSEDED
        )
    if not same_step:
        return None
    return ClosedByReplay(
        id=letter.id, state=DeadLetterState.RESOLVED, by=letter.last_replayed_by, resolution=REPLAYED
    )


def why_not(letter: str | None, run: str | None, run_step: int | None, letter_step: int) -> str:
    """Why a dead letter in this situation cannot be replayed."""
    if letter is None:
        return "the dead letter does not exist any more"
    if letter == "REPLAYING":
        return "it is being replayed already; wait for the outcome"
    if run == "SUCCESS":
        return "its run has succeeded, and nothing is left to be done"
    if letter not in ("OPEN", "EXHAUSTED"):
        return f"it is {letter}; reopen it first"
    if run is None:
        return "its run does not exist any more"
    if run == "CANCELLED":
        return "its run was cancelled, and stays so"
    if run_step != letter_step:
        return f"its run stands in step {run_step} by now, not in step {letter_step}"
    return f"its run is {run}; only what has failed is replayed"


def _requests(replays: Sequence[NewReplay], operation_id: str | None = None) -> list[NewEntry]:
    entries: dict[tuple[str, str], list[NewReplay]] = {}
    for each in replays:
        entries.setdefault((each.org, each.requested_by), []).append(each)
    return [
        NewEntry(
            org=org,
            actor=by,
            action=Action.REPLAY_REQUESTED,
            subjects=tuple(each.letter_id for each in those),
            detail=_detail(those, operation_id),
        )
        for (org, by), those in entries.items()
    ]


def _detail(replays: Sequence[NewReplay], operation_id: str | None) -> dict[str, str | int | bool]:
    first = replays[0]
    detail: dict[str, str | int | bool] = {"mode": first.mode, "reason": first.reason}
    if operation_id is not None:
        return detail | {"operation": operation_id}
    if first.automatic:
        return detail | {"automatic": True}
    edited = any(each.edit for each in replays)
    return detail | {
        "from_step": first.from_step,
        "edited": edited,
        "policy_override": bool(first.policy_override),
    }


def outcomes(settled: Iterable[Settled | Resolved]) -> list[NewEntry]:
    """What the audit says of replays that have ended or gone on: an entry for each org and outcome."""
    entries: dict[tuple[str, Action], list[str]] = {}
    for each in settled:
        action = _OUTCOMES[each.state] if isinstance(each, Settled) else Action.DEAD_LETTER_RESOLVED
        # A run that was retried without a letter is its own subject.
        subject = each.letter_id or (each.run_id if isinstance(each, Settled) else "")
        entries.setdefault((each.org, action), []).append(subject)
    return [
        NewEntry(org=org, actor=SELF, action=action, subjects=tuple(ids), detail={})
        for (org, action), ids in entries.items()
    ]


_OUTCOMES: Mapping[str, Action] = {
    ReplayState.SUCCEEDED: Action.REPLAY_SUCCEEDED,
    ReplayState.FAILED: Action.REPLAY_FAILED,
    ReplayState.CANCELLED: Action.REPLAY_CANCELLED,
}
