"""Replays of single dead letters."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, zip_longest
from types import EllipsisType

from redrive.engine.dead_letter_policy import snapshot
from redrive.engine.definition import Definition
from redrive.engine.payload import json_and_text
from redrive.errors import InvalidValueError, NotFoundError, ReplayRefusedError, StoreUnavailableError
from redrive.failures.parts import FailureParts
from redrive.model.dead_letter import DeadLetter, DeadLetterState
from redrive.model.event import ReplayRequested
from redrive.model.replay import Mode, Replay
from redrive.model.run import Run
from redrive.policy.bounds import choice, require_kind, require_whole
from redrive.policy.codec import JsonValue, decode, encode
from redrive.policy.policy_json import policy_to_json
from redrive.policy.retry import RetryPolicy
from redrive.policy.user_text import clean_reason
from redrive.store.replays import Begun, NewReplay, why_not
from redrive.store.store import Store
from redrive.words.fact import text_of

MAX_TRIES = 4
MAX_CHANGES = 200
HIDDEN = "(changed, not shown)"
NOTHING = "(nothing)"


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
        retry: RetryPolicy | None = None,
        payload: object = ...,
        reason: str = "",
    ) -> Replay:
        """Execute the work of a dead letter again, under the same idempotency keys.

        mode       STEP_ONLY: only the failed step; FROM_STEP: from the failed step to the end of the run
        from_step  an earlier step to start at, by name or index; only with FROM_STEP
        retry      the retry policy of the first replayed step, for this replay only
        payload    a new input for that step; the original is kept. A reason is required
        """
        mode = choice("mode", mode, Mode)
        letter = await self._letter(letter_id)
        run = await self._run(letter)
        await self._check_dependencies(letter)
        definition = await self._parts.definitions.get(run.definition)
        index = _index(from_step, letter, definition, mode)
        override = None if retry is None else policy_text(retry)
        text, edit = await self._edited(payload, reason, run, definition, index)
        if text is None:
            text = await input_of(self._store, run, index)
        queue = None if index == run.step_index else definition.steps[index].queue
        new = NewReplay(
            id=self._parts.ids.new(),
            org=self._caller.org,
            letter_id=letter.id,
            run_id=run.id,
            step_index=run.step_index,
            from_step=index,
            mode=mode,
            automatic=False,
            requested_by=self._caller.name,
            reason=clean_reason(reason, self._parts.redactor),
            policy_override=override,
            edit=edit,
            step_input=text,
            queue=queue,
        )
        return await self._begin(new)

    async def view(self, replay_id: str) -> Replay:
        return await self._store.replays.get(replay_id, self._caller.org)

    async def list(self, letter_id: str) -> list[Replay]:
        """Every replay of a dead letter, newest first."""
        return await self._store.replays.of_letter(letter_id, self._caller.org)

    async def _begin(self, new: NewReplay) -> Replay:
        async def begin() -> Begun:
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
                    f"{other.state}; resolve that dead letter first, or unlink them"
                )

    async def _known_run(self, letter: DeadLetter) -> Run | None:
        try:
            return await self._store.runs.get(letter.run_id, self._caller.org)
        except NotFoundError:
            return None

    async def _edited(
        self, payload: object | EllipsisType, reason: str, run: Run, definition: Definition, index: int
    ) -> tuple[str | None, str | None]:
        """Return the new payload, encrypted, and its redacted difference from the old one."""
        if payload is ...:
            return None, None
        if not reason.strip():
            raise InvalidValueError("give a reason for changing the payload; it is stored with the replay")
        value, text = json_and_text(payload, limits=self._parts.limits)
        task = self._parts.registry.tasks.get(definition.steps[index].task)
        if task is not None:
            task.signature.check(value)
        before = await input_of(self._store, run, index) or run.step_input or run.input
        difference = self._difference(decode(self._parts.encryption.decrypt(before)), value)
        return self._parts.encryption.encrypt(text), difference

    def _difference(self, before: JsonValue, after: JsonValue) -> str:
        """List the differences, redacted. A change within a redacted value is listed without the value."""
        redactor = self._parts.redactor
        redacted = _differences(redactor.value(before), redactor.value(after))
        visible = {path: (old, new) for path, old, new in redacted}
        changes: list[JsonValue] = []
        for path, _, _ in _differences(before, after):
            old, new = visible.get(path, (HIDDEN, HIDDEN))
            changes.append({"path": redactor.text(path), "before": old, "after": new})
        return snapshot(changes, redactor)


def _differences(before: JsonValue, after: JsonValue) -> Iterator[tuple[str, JsonValue, JsonValue]]:
    """Yield the path, as in `orders[2].amount`, and both values of the smallest parts that differ."""
    return islice(_walk("", before, after), MAX_CHANGES)


def _walk(path: str, before: JsonValue, after: JsonValue) -> Iterator[tuple[str, JsonValue, JsonValue]]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before | after:
            place = f"{path}.{key}" if path else key
            yield from _walk(place, before.get(key, NOTHING), after.get(key, NOTHING))
    elif isinstance(before, list) and isinstance(after, list):
        for index, (old, new) in enumerate(zip_longest(before, after, fillvalue=NOTHING)):
            yield from _walk(f"{path}[{index}]", old, new)
    elif type(before) is not type(after) or before != after:
        yield path, before, after


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
    return failed and run.step_index == letter.step_index


def policy_text(retry: RetryPolicy) -> str:
    """Encode a retry policy as the JSON text that overrides the policy of a step."""
    require_kind("retry", retry, RetryPolicy)
    return encode(policy_to_json(retry))


def _index(from_step: int | str | None, letter: DeadLetter, definition: Definition, mode: Mode) -> int:
    names = [step.name for step in definition.steps]
    if from_step is None:
        return letter.step_index
    if isinstance(from_step, str):
        if from_step not in names:
            raise InvalidValueError(f"there is no step {from_step!r}; the steps are {', '.join(names)}")
        from_step = names.index(from_step)
    require_whole("from_step", from_step, 0, len(names) - 1)
    if from_step > letter.step_index:
        raise InvalidValueError(
            f"step {from_step} comes after the failed step {letter.step_index}, {letter.step!r}, and needs "
            f"its result; replay from {letter.step!r} or an earlier step"
        )
    if mode is Mode.STEP_ONLY and from_step != letter.step_index:
        raise InvalidValueError(
            "STEP_ONLY replays only the failed step; use FROM_STEP to start at an earlier step"
        )
    return from_step
