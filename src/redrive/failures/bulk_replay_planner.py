"""Planning of bulk replays: freezes the selected dead letters and forecasts what replaying them does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple, TypedDict

from redrive.engine.task import reject_unknown
from redrive.errors import DriftError, InvalidValueError, NotFoundError
from redrive.failures.group_queries import find_group
from redrive.failures.parts import FailureParts
from redrive.model.audit import Action, NewEntry
from redrive.model.dead_letter import LIVE
from redrive.model.event import OperationChanged
from redrive.model.fact import CountedFact, fact
from redrive.model.operation import MAX_ITEMS, Plan, ReplayOperation
from redrive.model.query import Query, Term
from redrive.model.replay import Mode, OperationState, ReplayState
from redrive.policy.bounds import choice, require_list, require_whole
from redrive.policy.codec import decode, encode
from redrive.policy.policy_change import PolicyOverride
from redrive.policy.policy_json import policy_from_json, policy_to_json
from redrive.policy.query import parse
from redrive.policy.retry import RetryPolicy
from redrive.policy.rollout import RolloutOptions, RolloutPlan
from redrive.policy.user_text import clean_reason
from redrive.store.bulk_replays import Forecast, NewOperation
from redrive.store.database import Session
from redrive.store.dead_letter_filter import Filter

MAX_REPORTED = 100
SKIPPED = fact("may_repeat_unsafe_effect")

_ROLLOUT = ("canary", "rate", "failure_rate", "minimum", "same_failures", "stop_on_breaker")


class BulkReplayOptions(TypedDict, total=False):
    """What to replay, and how. Pass exactly one of `query`, `ids` and `group`.

    query           a query over dead letters
    ids             the ids of dead letters
    group           the fingerprint of a failure group, for its live dead letters
    mode            FROM_STEP (default): from the failed step to the end; STEP_ONLY: only the failed step
    retry           changes of the retry policy of the first replayed step of each run, for this replay only,
                    such as {"max_retries": 6}, or a whole RetryPolicy
    exclude_unsafe  skip letters that may repeat an unsafe effect
    expect          how many letters the caller expects to replay; for any other number, nothing is planned
    reason          the reason recorded in the audit

    canary, rate, failure_rate, minimum, same_failures, stop_on_breaker: see redrive.policy.rollout
    """

    query: str | None
    ids: Sequence[str] | None
    group: str | None
    mode: Mode | str
    retry: RetryPolicy | Mapping[str, Any] | None
    exclude_unsafe: bool
    expect: int | None
    reason: str
    canary: int
    rate: float | None
    failure_rate: float
    minimum: int
    same_failures: int | None
    stop_on_breaker: bool


class LetterSelection(NamedTuple):
    """The dead letters to replay, as ids or a query, and the selection as the caller wrote it."""

    letters: Sequence[str] | Query
    named: Mapping[str, Any]


class BulkReplayPlanner:
    def __init__(self, parts: FailureParts) -> None:
        self._parts = parts
        self._store = parts.store
        self._operations = parts.store.operations
        self._caller = parts.caller

    async def plan(self, request: BulkReplayOptions) -> Plan:
        reject_unknown("a bulk replay has no option", request, BulkReplayOptions.__optional_keys__)
        selection, expect = await self._selection(request), request.get("expect")
        draft = self._draft(request, selection)
        open_breakers = await self._parts.breakers.opened()
        await self._check_size(selection)
        async with self._store.database.transaction() as session:
            await self._freeze(session, draft, selection.letters)
            if request.get("exclude_unsafe"):
                await self._operations.skip_unsafe(session, draft.id, SKIPPED)
            forecast = await self._operations.forecast(session, draft.id)
            await self._override(session, draft, forecast)
            plan = await self._planned(session, draft, forecast, open_breakers)
            _check_expected(plan, expect)
            await self._operations.insert(session, draft._replace(plan=encode(plan.to_json())))
            await self._store.audit.append(session, [_entry(draft, plan)])
        self._parts.event_bus.emit(
            OperationChanged(
                org=draft.org,
                operation_id=draft.id,
                before="",
                after=OperationState.PLANNED,
                reason=draft.reason,
            )
        )
        return plan

    def _draft(self, request: BulkReplayOptions, selection: LetterSelection) -> NewOperation:
        named = {**selection.named, "exclude_unsafe": bool(request.get("exclude_unsafe"))}
        options = {name: value for name, value in request.items() if name in _ROLLOUT}
        retry = request.get("retry")
        return NewOperation(
            id=self._parts.ids.new(),
            org=self._caller.org,
            mode=choice("mode", request.get("mode", Mode.FROM_STEP), Mode).value,
            selection=encode(named),
            options=encode(RolloutPlan(RolloutOptions(**options)).to_json()),  # type: ignore[arg-type]
            policy_override=None if retry is None else encode(PolicyOverride.read(retry).to_json()),
            reason=clean_reason(request.get("reason", ""), self._parts.redactor),
            plan="",
            planned_by=self._caller.name,
        )

    async def _selection(self, request: BulkReplayOptions) -> LetterSelection:
        query, ids, group = request.get("query"), request.get("ids"), request.get("group")
        if [query, ids, group].count(None) != 2:
            raise InvalidValueError("select the dead letters by exactly one of query, ids and group")
        if ids is not None:
            unique = _unique(ids)
            return LetterSelection(unique, {"ids": unique[:MAX_REPORTED], "number": len(unique)})
        if query is not None:
            asked = parse(query).asked_by(self._caller.name)
            return LetterSelection(asked, {"query": self._parts.redactor.text(str(asked))})
        fingerprint = (await find_group(self._store, self._caller.org, group or "")).group.fingerprint
        live = Query((Term("is", LIVE), Term("fp", (fingerprint,))))
        return LetterSelection(live, {"group": fingerprint})

    async def _check_size(self, selection: LetterSelection) -> None:
        """Count the letters before the transaction starts: on SQLite, planning blocks all other writers."""
        if not isinstance(selection.letters, Query):
            return
        found = await self._store.dead_letters.count(selection.letters, self._caller.org, MAX_ITEMS)
        if found.capped:
            raise InvalidValueError(
                f"the selection has more than {MAX_ITEMS:,} dead letters, the maximum for one operation; "
                f"narrow it, for example with since: and until:"
            )

    async def _freeze(self, session: Session, draft: NewOperation, letters: Sequence[str] | Query) -> None:
        item = {**draft._asdict(), "requested_by": draft.planned_by}
        if isinstance(letters, Query):
            await self._operations.freeze(session, item, Filter.of(letters, self._caller.org))
        else:
            await self._check_known(session, letters)
            await self._operations.freeze_ids(session, item, letters)
        blocked = await self._operations.blocked(session, draft.id, draft.org)
        await self._operations.refuse(session, blocked)

    async def _check_known(self, session: Session, ids: Sequence[str]) -> None:
        unknown = await self._operations.unknown_ids(session, self._caller.org, ids, 1)
        if unknown:
            raise NotFoundError(f"found no dead letter {unknown[0]!r}; nothing was planned")

    async def _override(self, session: Session, draft: NewOperation, forecast: Forecast) -> None:
        """Store the policy of each item: the override, merged with the policy of the item's own step."""
        if draft.policy_override is None:
            return
        override = PolicyOverride.read(decode(draft.policy_override))
        for station in forecast.stations:
            own = policy_from_json(_object(station.body)["steps"][station.step_index]["retry"])
            policy = encode(policy_to_json(override.of(own)))
            await self._operations.override(session, draft.id, station, policy)

    async def _planned(
        self, session: Session, draft: NewOperation, forecast: Forecast, open_breakers: set[str]
    ) -> Plan:
        counts = await self._operations.counts(session, draft.id)
        notes = await self._operations.notes(session, draft.id)
        return Plan(
            operation_id=draft.id,
            digest=await self._digest(session, draft),
            mode=draft.mode,
            selected=sum(counts.values()),
            will_run=counts[ReplayState.PLANNED],
            steps=_steps(forecast, draft.mode),
            results_reused=forecast.results_reused,
            waits=_waits(forecast, open_breakers),
            refused=tuple(note for note in notes if note.fact.code != SKIPPED.code),
            skipped=counts[ReplayState.SKIPPED],
            may_repeat_effects=forecast.unsafe,
            repeat_under_key=forecast.repeatable,
            breakers=tuple(forecast.breakers),
        )

    async def _digest(self, session: Session, draft: NewOperation) -> str:
        digest = sha256(encode([draft.mode, draft.policy_override]).encode())
        for letter_id, state, fingerprint, updated_at in await self._operations.members(session, draft.id):
            digest.update(f"\n{letter_id} {state} {fingerprint} {updated_at!r}".encode())
        return digest.hexdigest()[:32]


def plan_of(operation: ReplayOperation) -> Plan:
    return Plan.from_json(operation.plan)


def _unique(ids: Sequence[str]) -> list[str]:
    require_list("ids", ids, "dead-letter ids")
    if not all(isinstance(letter_id, str) for letter_id in ids):
        raise InvalidValueError(f"ids must be a list of dead-letter ids, got {ids!r:.80}")
    require_whole("the number of ids", len(ids), 0, MAX_ITEMS)
    return list(dict.fromkeys(ids))


def _check_expected(plan: Plan, expect: int | None) -> None:
    if expect is not None and plan.will_run != expect:
        raise DriftError(
            f"{plan.will_run:,} of {plan.selected:,} selected dead letters would be replayed, {expect:,} "
            f"were expected; nothing was planned. Check them again, then pass the new number",
            number=plan.will_run,
        )


def _entry(draft: NewOperation, plan: Plan) -> NewEntry:
    named = {name: value for name, value in _object(draft.selection).items() if name != "ids"}
    numbers = {"selected": plan.selected, "will_run": plan.will_run, "digest": plan.digest}
    detail = {"mode": draft.mode, "reason": draft.reason, **named, **numbers}
    return NewEntry(
        org=draft.org,
        actor=draft.planned_by,
        action=Action.OPERATION_PLANNED,
        subjects=(draft.id,),
        detail=detail,
    )


def _steps(forecast: Forecast, mode: str) -> dict[str, int]:
    executions: Counter[str] = Counter()
    for station in forecast.stations:
        names = [str(step["name"]) for step in _object(station.body)["steps"][station.step_index :]]
        executions.update(dict.fromkeys(names[:1] if mode == Mode.STEP_ONLY else names, station.items))
    return dict(executions)


def _waits(forecast: Forecast, open_breakers: set[str]) -> tuple[CountedFact, ...]:
    held = {name: items for name, items in forecast.breakers.items() if name in open_breakers}
    kinds = {"breaker": held, "queue": forecast.paused_queues, "dead_letter": forecast.awaited_letters}
    return tuple(
        CountedFact(fact(f"waits_for_{kind}", name=name), items)
        for kind, names in kinds.items()
        for name, items in names.items()
    )


def _object(text: str) -> dict[str, Any]:
    value: Any = decode(text)
    return dict(value)
