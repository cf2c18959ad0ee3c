"""Replays of single dead letters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from redrive.engine.dead_letter_policy import snapshot
from redrive.engine.definition import Definition
from redrive.engine.payload import json_and_text
from redrive.errors import InvalidValueError, NotFoundError, ReplayRefusedError, StoreUnavailableError
from redrive.failures.parts import FailureParts
from redrive.failures.payload_change import PayloadChange, differences
from redrive.model.dead_letter import LIVE, DeadLetter, DeadLetterState
from redrive.model.event import ReplayRequested
from redrive.model.fact import fact
from redrive.model.replay import Mode, Replay, ReplayPreview, ReplayStep
from redrive.model.run import Run
from redrive.policy.bounds import choice, require_whole
from redrive.policy.codec import JsonValue, decode, encode
from redrive.policy.policy_change import PolicyOverride
from redrive.policy.policy_json import policy_to_json
from redrive.policy.retry import RetryPolicy
from redrive.policy.user_text import clean_reason
from redrive.store.replays import NewReplay, StartedReplays, why_not
from redrive.store.store import Store
from redrive.words.fact import text_of
from redrive.words.state import status

MAX_TRIES = 4
NO_FIELDS: Final[Mapping[str, object]] = MappingProxyType({})


class ReplayStart(NamedTuple):
    """Where a replay of a dead letter starts: at the step `step_index` of its run."""

    letter: DeadLetter
    run: Run
    definition: Definition
    mode: Mode
    step_index: int

    @property
    def first_policy(self) -> RetryPolicy:
        """The retry policy of the step at which the replay starts."""
        return self.definition.steps[self.step_index].retry

    @property
    def steps(self) -> Sequence[ReplayStep]:
        """The steps that the replay executes."""
        end = self.step_index + 1 if self.mode is Mode.STEP_ONLY else len(self.definition.steps)
        executed = self.run.step_index + bool(self.letter.may_have_executed)
        return [
            ReplayStep(index + 1, step.name, step.effect, step.breaker, repeats=index < executed)
            for index, step in enumerate(self.definition.steps[:end])
            if index >= self.step_index
        ]


class ChangedInput(NamedTuple):
    """The changed input of a step, encrypted, and its differences from the stored one, redacted."""

    encrypted: str
    differences: list[JsonValue]


class Replays:
    """Starts and lists replays of the dead letters of the caller's organization."""

    def __init__(self, parts: FailureParts) -> None:
        self._parts = parts
        self._store = parts.store
        self._caller = parts.caller

    async def start(
        self,
        letter_id: str,
        mode: Mode | str = Mode.FROM_STEP,
        *,
        from_step: int | str | None = None,
        retry: RetryPolicy | Mapping[str, Any] | None = None,
        payload: object = ...,
        set_fields: Mapping[str, object] = NO_FIELDS,
        remove_fields: Sequence[str] = (),
        reason: str = "",
    ) -> Replay:
        """Execute the work of a dead letter again, under the same idempotency keys.

        mode           STEP_ONLY: only the failed step; FROM_STEP: from the failed step to the end of the run
        from_step      an earlier step to start at, by name or index; only with FROM_STEP
        retry          changes of the first replayed step's retry policy for this replay only, such as
                       {"max_retries": 6}, or a whole RetryPolicy
        payload        a new input for that step; the original is kept. A reason is required
        set_fields     new values for single fields of its input, by path: {"items[2].price": 5}
        remove_fields  paths of fields to remove from its input

        A redaction mark such as [redacted:card] in a new payload leaves the stored value at its path; where
        the stored payload does not have that mark, InvalidValueError.
        """
        change = PayloadChange(payload, set_fields, remove_fields)
        change.check()
        if not change.is_empty and not reason.strip():
            raise InvalidValueError("give a reason for changing the payload; it is stored with the replay")
        start = await self._start_of(letter_id, mode, from_step)
        run, index = start.run, start.step_index
        override = None if retry is None else PolicyOverride.read(retry).of(start.first_policy)
        changed = None if change.is_empty else await self._changed(start, change)
        new = NewReplay(
            id=self._parts.ids.new(),
            org=self._caller.org,
            letter_id=start.letter.id,
            run_id=run.id,
            step_index=run.step_index,
            from_step=index,
            mode=start.mode,
            automatic=False,
            requested_by=self._caller.name,
            reason=clean_reason(reason, self._parts.redactor),
            policy_override=None if override is None else encode(policy_to_json(override)),
            edit=None if changed is None else snapshot(changed.differences, self._parts.redactor),
            step_input=await input_of(self._store, run, index) if changed is None else changed.encrypted,
            queue=None if index == run.step_index else start.definition.steps[index].queue,
        )
        return await self._begin(new)

    async def preview(
        self,
        letter_id: str,
        mode: Mode | str = Mode.FROM_STEP,
        *,
        from_step: int | str | None = None,
        retry: RetryPolicy | Mapping[str, Any] | None = None,
        payload: object = ...,
        set_fields: Mapping[str, object] = NO_FIELDS,
        remove_fields: Sequence[str] = (),
    ) -> ReplayPreview:
        """Describe what `start` would do, without starting anything. Raises the errors of `start`."""
        change = PayloadChange(payload, set_fields, remove_fields)
        change.check()
        start = await self._start_of(letter_id, mode, from_step)
        if retry is not None:
            PolicyOverride.read(retry)
        changed = None if change.is_empty else await self._changed(start, change)
        return ReplayPreview(
            letter_id=start.letter.id,
            run_id=start.run.id,
            mode=start.mode,
            from_step=start.step_index,
            steps=start.steps,
            reused=start.step_index,
            changes=[] if changed is None else changed.differences,
        )

    async def input(self, letter_id: str, from_step: int | str | None = None) -> JsonValue:
        """Return the input that a replay from this step would have, redacted."""
        start = await self._start_of(letter_id, Mode.FROM_STEP, from_step)
        view: JsonValue = self._parts.redactor.value(await self._stored_input(start))
        return view

    async def view(self, replay_id: str) -> Replay:
        return await self._store.replays.get(replay_id, self._caller.org)

    async def list(self, letter_id: str) -> list[Replay]:
        """Every replay of a dead letter, newest first."""
        return await self._store.replays.of_letter(letter_id, self._caller.org)

    async def _begin(self, new: NewReplay) -> Replay:
        async def begin() -> StartedReplays:
            async with self._store.database.transaction() as session:
                return await self._store.replays.begin(session, [new])

        begun = await self._parts.retrier.run("replay", begin, errors=StoreUnavailableError, tries=MAX_TRIES)
        if not begun.replays:
            await self._refuse(new)
        await self._store.hint(begun.queues)
        names = (new.org, new.letter_id, new.run_id, new.mode, new.requested_by)
        self._parts.event_bus.emit(ReplayRequested(*names))
        return begun.rows[0] if begun.rows else await self.view(new.id)

    async def _refuse(self, new: NewReplay) -> None:
        """Raise ReplayRefusedError with the reason why the replay did not start.

        Return if an earlier try started it and only the response was lost.
        """
        for replay in await self.list(new.letter_id):
            if replay.id == new.id:
                return
        letter = await self._letter(new.letter_id)
        await self._run(letter)
        raise ReplayRefusedError(
            f"the dead letter {letter.id} cannot be replayed: its run is in progress already"
        )

    async def _letter(self, letter_id: str) -> DeadLetter:
        return await self._store.dead_letters.get(letter_id, self._caller.org)

    async def _run(self, letter: DeadLetter) -> Run:
        """Return the run of the letter. Raise ReplayRefusedError if it cannot be replayed now."""
        run = await self._known_run(letter)
        if run is not None and _replayable(letter, run):
            return run
        state, step = (None, None) if run is None else (run.state, run.step_index)
        why = why_not(letter.state, state, step, letter.step_index)
        raise ReplayRefusedError(f"the dead letter {letter.id} cannot be replayed: {text_of(why)}")

    async def _check_dependencies(self, letter: DeadLetter) -> None:
        for other in await self._store.dead_letters.dependencies(letter.id, self._caller.org):
            if other.state != DeadLetterState.RESOLVED:
                raise ReplayRefusedError(
                    f"the dead letter {letter.id} cannot be replayed: it waits for {other.id}, which is "
                    f"{status(other.state)}; resolve that dead letter first, or unlink them"
                )

    async def _known_run(self, letter: DeadLetter) -> Run | None:
        try:
            return await self._store.runs.get(letter.run_id, self._caller.org)
        except NotFoundError:
            return None

    async def _start_of(self, letter_id: str, mode: Mode | str, from_step: int | str | None) -> ReplayStart:
        """Check that the dead letter can be replayed from this step."""
        mode = choice("mode", mode, Mode)
        letter = await self._letter(letter_id)
        run = await self._run(letter)
        await self._check_dependencies(letter)
        definition = await self._parts.definitions.get(run.definition)
        start = ReplayStart(letter, run, definition, mode, _index(from_step, run, definition, mode))
        if mode is Mode.STEP_ONLY:
            await self._check_later_letters(letter, run)
        return start

    async def _check_later_letters(self, letter: DeadLetter, run: Run) -> None:
        """Raise ReplayRefusedError if a later step than the run's has a live dead letter."""
        letters = await self._store.dead_letters.of_run(run.id, self._caller.org)
        if any(other.state in LIVE and other.step_index > run.step_index for other in letters):
            why = text_of(fact("later_step_failed"))
            raise ReplayRefusedError(f"the dead letter {letter.id} cannot be replayed: {why}")

    async def _stored_input(self, start: ReplayStart) -> JsonValue:
        run = start.run
        text = await input_of(self._store, run, start.step_index) or run.step_input or run.input
        return decode(self._parts.encryption.decrypt(text))

    async def _changed(self, start: ReplayStart, change: PayloadChange) -> ChangedInput:
        parts, before = self._parts, await self._stored_input(start)
        after = change.applied_to(before, parts.redactor, parts.limits)
        value, text = json_and_text(after, limits=parts.limits)
        task = parts.registry.task(start.definition.steps[start.step_index].task)
        if task is not None:
            task.signature.check(value)
        return ChangedInput(parts.encryption.encrypt(text), differences(before, value, parts.redactor))


async def input_of(store: Store, run: Run, index: int) -> str | None:
    """Return the input of a step; None for the current one. It is the previous output, or the run's input."""
    if index == run.step_index:
        return None
    if index == 0:
        return run.input
    steps = await store.runs.steps(run.id, run.org)
    return next((step.output for step in steps if step.step_index == index - 1), None)


def _replayable(letter: DeadLetter, run: Run) -> bool:
    failed = letter.state in ("OPEN", "EXHAUSTED") and run.state in ("DLQ_PENDING", "FAILED")
    return failed and run.step_index <= letter.step_index


def _index(from_step: int | str | None, run: Run, definition: Definition, mode: Mode) -> int:
    """Return the step to start at: the one where the run stopped, or an earlier one."""
    names = [step.name for step in definition.steps]
    if from_step is None:
        return run.step_index
    if isinstance(from_step, str):
        if from_step not in names:
            raise InvalidValueError(f"there is no step {from_step!r}; the steps are {', '.join(names)}")
        from_step = names.index(from_step)
    require_whole("from_step", from_step, 0, len(names) - 1)
    stopped = names[run.step_index]
    if from_step > run.step_index:
        raise InvalidValueError(
            f"step {names[from_step]!r} comes after the failed step {stopped!r} and needs its result; "
            f"replay from {stopped!r} or an earlier step"
        )
    if mode is Mode.STEP_ONLY and from_step != run.step_index:
        raise InvalidValueError(
            "STEP_ONLY replays only the failed step; use FROM_STEP to start at an earlier step"
        )
    return from_step
