"""Rebuilds: start, view, pause, resume and cancel them. `events.rebuild_driver` executes them in workers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, TypedDict, Unpack

from redrive.engine.task import reject_unknown
from redrive.errors import (
    DuplicateRowError,
    InvalidValueError,
    NotFoundError,
    TransitionError,
)
from redrive.events.projector import MAX_VERSION, Projector
from redrive.events.service_parts import EventParts
from redrive.events.stream import Stream
from redrive.model.audit import Action, NewEntry
from redrive.model.rebuild import FIRST, EventPlace, Rebuild
from redrive.model.replay import OPERATION_TRANSITIONS, OperationState
from redrive.policy.bounds import require, require_kind, require_list, require_whole
from redrive.policy.codec import encode
from redrive.policy.user_text import clean_reason
from redrive.store.database import Session
from redrive.words.state import status
from redrive.words.suggestion import suggest

MAX_PAGE_SIZE = 500
MAX_TYPES = 100
DEFAULT_MAX_FAILURES = 100
LATEST = 1e11


class RebuildOptions(TypedDict, total=False):
    """What to rebuild, and how.

    stream        the stream of the projector; needed if several streams have one of this name
    version       the version of the projector; default: the newest that this program declares
    types         only events of these types; default: every type that the projector wants
    since         only events that were stored from then on, in seconds since 1970
    until         only events that were stored before then
    only_missing  only events that this version has never processed: after a new version was deployed
    rate          the maximum number of events per second; default: as fast as workers execute them
    max_failures  stop when the projector has this number of new dead letters; default: 100
    reason        the reason recorded in the audit
    """

    stream: str | None
    version: int | None
    types: Collection[str]
    since: float | None
    until: float | None
    only_missing: bool
    rate: float | None
    max_failures: int
    reason: str


class RebuildPage(NamedTuple):
    """A page of rebuilds. `next_cursor` is None on the last page."""

    rebuilds: Sequence[Rebuild]
    next_cursor: str | None


class RebuildPreview(NamedTuple):
    """What a rebuild would do: `events` is how many events it would read, before any filter."""

    stream: str
    projector: str
    version: int
    events: int


class _Target(NamedTuple):
    stream: Stream
    projector: Projector


class Rebuilds:
    """The rebuilds of the caller's organization."""

    def __init__(self, parts: EventParts) -> None:
        self._parts = parts
        self._store = parts.store
        self._caller = parts.caller

    async def preview(self, projector: str, **options: Unpack[RebuildOptions]) -> RebuildPreview:
        """Check the options, and count the events that `start` would read."""
        target = self._target(projector, options)
        _checked(options)
        database, org, stream = self._store.database, self._caller.org, target.stream.name
        number = await self._store.rebuilds.count(database, org, stream)
        return RebuildPreview(stream, target.projector.name, target.projector.version, number)

    async def start(self, projector: str, **options: Unpack[RebuildOptions]) -> Rebuild:
        """Start to execute a projector for the stored events of its stream, in the order of the stream.

        It ends with the event that is the newest now: consumers project newer ones. An event whose projection
        is unfinished or has a live dead letter is skipped. Raises TransitionError while another rebuild of
        the projector is unfinished.
        """
        target, checked = self._target(projector, options), _checked(options)
        reason = clean_reason(options.get("reason", ""), self._parts.redactor)
        try:
            async with self._store.database.transaction() as session:
                new = await self._new(session, target, checked, reason)
                await self._store.rebuilds.insert(session, new)
                detail = {"projector": new.task, "reason": reason}
                await self._audit(session, new.id, Action.REBUILD_STARTED, detail)
        except DuplicateRowError:
            raise await self._unfinished(target) from None
        return await self.view(new.id)

    async def view(self, rebuild_id: str) -> Rebuild:
        return await self._store.rebuilds.get(rebuild_id, self._caller.org)

    async def list(self, *, size: int = 50, cursor: str | None = None) -> RebuildPage:
        """Return a page of rebuilds, the newest first."""
        require_whole("size", size, 1, MAX_PAGE_SIZE)
        before = None if cursor is None else await self.view(cursor)
        found = await self._store.rebuilds.page(self._caller.org, size + 1, before)
        return RebuildPage(tuple(found[:size]), found[size - 1].id if len(found) > size else None)

    async def pause(self, rebuild_id: str, reason: str = "") -> Rebuild:
        """Start no more executions until the rebuild is resumed."""
        return await self._move(rebuild_id, "paused", OperationState.PAUSED, Action.REBUILD_PAUSED, reason)

    async def resume(self, rebuild_id: str, reason: str = "") -> Rebuild:
        """Continue a paused or stopped rebuild where it stopped. Earlier dead letters no longer count."""
        return await self._move(rebuild_id, "resumed", OperationState.RUNNING, Action.REBUILD_RESUMED, reason)

    async def cancel(self, rebuild_id: str, reason: str = "") -> Rebuild:
        """End a rebuild. Executions that it has started finish."""
        return await self._move(
            rebuild_id, "cancelled", OperationState.CANCELLED, Action.REBUILD_CANCELLED, reason
        )

    def _target(self, name: str, options: RebuildOptions) -> _Target:
        """Find the projector in the declarations of this program."""
        reject_unknown("a rebuild has no option", options, RebuildOptions.__optional_keys__)
        stream, version, org = options.get("stream"), options.get("version"), self._caller.org
        if version is not None:
            require_whole("version", version, 1, MAX_VERSION)
        own = [known for known in self._parts.streams.values() if org in known.orgs]
        if stream is not None and stream not in {known.name for known in own}:
            known = {known.name for known in own}
            raise NotFoundError(f"found no stream {stream!r:.100}; {suggest(str(stream), known)}")
        targets = [
            _Target(known, projector)
            for known in own
            for projector in known.projectors
            if stream in (None, known.name) and projector.name == name
        ]
        if not targets:
            names = {projector.name for known in own for projector in known.projectors}
            hint = suggest(str(name), names) if names else "this program declares none; use --app or a server"
            raise NotFoundError(f"found no projector {name!r:.100}; {hint}")
        if len({target.stream.name for target in targets}) > 1:
            streams = ", ".join(sorted({target.stream.name for target in targets}))
            raise InvalidValueError(
                f"several streams have a projector {name!r}: {streams}; name the stream, too"
            )
        newest = max(target.projector.version for target in targets)
        for target in targets:
            if target.projector.version == (newest if version is None else version):
                return target
        raise NotFoundError(
            f"this program does not declare version {version} of the projector {name!r}; its newest is "
            f"{newest}"
        )

    async def _new(self, session: Session, target: _Target, checked: dict[str, Any], reason: str) -> Rebuild:
        rebuilds, org, stream = self._store.rebuilds, self._caller.org, target.stream.name
        first = EventPlace(*FIRST)
        end = await rebuilds.last(session, org, stream) or first
        return Rebuild(
            id=self._parts.ids.new(),
            org=org,
            stream=stream,
            projector=target.projector.name,
            version=target.projector.version,
            state=OperationState.RUNNING,
            total=await rebuilds.count(session, org, stream),
            seen=0,
            started=0,
            skipped=0,
            reason=reason,
            created_by=self._caller.name,
            created_at=0.0,  # the database sets the times
            updated_at=0.0,
            resumed_at=0.0,
            released_at=0.0,
            ended_at=None,
            stopped_because=None,
            generation=first.generation,
            position=first.position,
            event_id=first.event_id,
            end_generation=end.generation,
            end_position=end.position,
            end_event_id=end.event_id,
            **checked,
        )

    async def _unfinished(self, target: _Target) -> TransitionError:
        name, version = target.projector.name, target.projector.version
        found = await self._store.rebuilds.unfinished(self._caller.org, target.stream.name, name, version)
        return TransitionError(
            f"the rebuild {', '.join(found)} of the projector {name!r} v{version} is not finished; wait for "
            f"it, or cancel it first"
        )

    async def _move(
        self, rebuild_id: str, verb: str, state: OperationState, action: Action, reason: str
    ) -> Rebuild:
        why = clean_reason(reason, self._parts.redactor)
        async with self._store.database.transaction() as session:
            rebuild, now = await self._store.rebuilds.lock(session, rebuild_id, self._caller.org)
            allowed = OPERATION_TRANSITIONS.before(verb)
            if rebuild.state not in allowed:
                raise TransitionError(
                    f"the rebuild {rebuild_id} is {status(rebuild.state)}; it can be {verb} only while it is "
                    f"{' or '.join(map(status, allowed))}"
                )
            after = rebuild.replace(state=state)
            if state is OperationState.RUNNING:
                after = after.replace(resumed_at=now, released_at=now, stopped_because=None)
            if state is OperationState.CANCELLED:
                after = after.replace(ended_at=now)
            await self._store.rebuilds.save(session, after)
            await self._audit(session, rebuild.id, action, {"reason": why})
        return after

    async def _audit(self, session: Session, rebuild_id: str, action: Action, detail: dict[str, str]) -> None:
        entry = NewEntry(*self._caller, action, (rebuild_id,), detail)
        await self._store.audit.append(session, [entry])


def _checked(options: RebuildOptions) -> dict[str, Any]:
    """Check the options that a rebuild stores."""
    types, rate = options.get("types", ()), options.get("rate")
    require_list("types", types, "types of events")
    names: list[Any] = list(dict.fromkeys(types))
    if len(names) > MAX_TYPES or not all(isinstance(name, str) and name for name in names):
        raise InvalidValueError(f"types must be at most {MAX_TYPES} types of events, got {types!r:.200}")
    if rate is not None:
        require("rate", rate, 0.001, 100_000.0)
    failures = options.get("max_failures", DEFAULT_MAX_FAILURES)
    require_whole("max_failures", failures, 1, 10_000)
    only_missing = options.get("only_missing", False)
    require_kind("only_missing", only_missing, bool)
    since, until = options.get("since"), options.get("until")
    for name, moment in (("since", since), ("until", until)):
        if moment is not None:
            require(f"{name}, in seconds since 1970,", moment, 0.0, LATEST)
    if since is not None and until is not None and since >= until:
        raise InvalidValueError("since must be earlier than until")
    return {
        "types": encode(names),
        "since": since,
        "until": until,
        "only_missing": int(only_missing),
        "rate": rate,
        "max_failures": failures,
    }
