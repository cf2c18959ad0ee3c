"""Streams: where events come from, what they mean, and the projectors that process them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any, Protocol, TypeAlias, TypedDict, Unpack, cast

from redrive.duration import Seconds
from redrive.engine.enqueue import DEFAULT_ORG, MAX_KEY_LENGTH
from redrive.engine.payload import is_untyped
from redrive.engine.task import (
    DEFAULT_QUEUE,
    AnyTask,
    TaskDecorator,
    TaskOptions,
    checked_name,
    reject_unknown,
)
from redrive.errors import InvalidEntryError, InvalidValueError
from redrive.events.entry import StreamEntry, default_event
from redrive.events.projector import (
    OrderedBy,
    Projector,
    checked_after_failure,
    checked_order,
    checked_projector_name,
    checked_types,
    checked_version,
    matches,
)
from redrive.model.run import AfterFailure
from redrive.model.stream import Event
from redrive.policy.bounds import (
    choice,
    require_function,
    require_kind,
    require_list,
    require_seconds,
    require_whole,
)
from redrive.policy.presets import CALL
from redrive.policy.retry import RetryPolicy

MIB = 1024 * 1024
DEFAULT_BATCH = 100
DEFAULT_IDLE_SECONDS = 60.0
DEFAULT_MAX_QUEUED = 10_000
MAX_EVENT_TEXT = 255
MAX_RETENTION_SECONDS = 100 * 366 * 86_400.0
_URL = re.compile(r"(rediss?|unix)://")

Connect: TypeAlias = Callable[[], Any]
"""Returns an asyncio client of redis-py, for Sentinel, Cluster, or options that an address can't express."""
MapEntry: TypeAlias = Callable[[StreamEntry], Event]


class DedupeBy(StrEnum):
    """Where the dedupe key of an event comes from.

    field     a field of the entry, or the `dedupe_key` that `map` sets
    entry_id  the id of the entry, together with the generation of the stream
    """

    FIELD = "field"
    ENTRY_ID = "entry_id"


class StreamOptions(TypedDict, total=False):
    """Options of a stream.

    stream        the key of the stream in Redis; default: the name of the stream
    group         the consumer group; default: "redrive"
    org           the organization that owns the stream and its events; default: "default"
    orgs          further organizations that entries may name; any other one makes an entry a dead letter
    map           a function from an entry to an Event; default: the fields with the usual names
    dedupe_by     "field": the dedupe key is a field of the entry; "entry_id": the id of the entry
    max_attempts  how often an invalid entry is tried before it becomes a dead letter; default: 3
    retry         the policy between these attempts; default: waits of 250 ms to 5 s with jitter
    batch         how many entries are read and stored together; default: 100
    idle_seconds  after how long another consumer takes over the entries of a silent one; default: 60 seconds
    max_queued    reading pauses while more runs of projectors are queued; default: 10,000
    max_bytes     the maximum size of an entry; default: 1 MiB
    retention     how long events are kept: a duration, or durations by patterns of types, such as
                  {"score.*": timedelta(days=30)}; default: forever. An event stays as long as a run needs it
    queue         the queue of runs that store a dead-lettered entry again; default: "default"
    """

    stream: str | None
    group: str
    org: str
    orgs: Collection[str]
    map: MapEntry | None
    dedupe_by: DedupeBy | str
    max_attempts: int
    retry: RetryPolicy
    batch: int
    idle_seconds: Seconds
    max_queued: int
    max_bytes: int
    retention: Seconds | Mapping[str, Seconds] | None
    queue: str


class ProjectorOptions(TaskOptions, total=False):
    """Options of a projector; also all options of a task except its name.

    version        counts up when the projection changes; default: 1
    types          patterns of the event types it processes, such as "score.*"; default: every type
    ordered_by     "user", "source", "type" or a function of the event: events with the same value are
                   projected one at a time, in the order of the stream
    after_failure  "wait": successors of a dead letter wait for it; "proceed": they don't; default: "wait"
    """

    version: int
    types: Collection[str]
    ordered_by: OrderedBy
    after_failure: AfterFailure | str


class Registrar(Protocol):
    """The part of an application that a stream uses to register tasks."""

    def __call__(self, function: Callable[..., Any], options: TaskOptions, /) -> AnyTask: ...


_OWN_OPTIONS = ("version", "types", "ordered_by", "after_failure")


class Stream:
    """A stream of an application. Declare it with `app.stream`; see StreamOptions.

    stream = app.stream("orders", "redis://localhost")

    @stream.projector("invoice", types=["order.paid"])
    async def invoice(event: Event) -> None: ...
    """

    def __init__(
        self,
        register: Registrar,
        store_entry: Callable[[Stream, dict[str, Any]], Any],
        name: str,
        url: str | Connect,
        options: StreamOptions,
    ) -> None:
        reject_unknown("a stream has no option", options, StreamOptions.__optional_keys__)
        self._register = register
        self.name = checked_projector_name("the name of a stream", name)
        self.url = _checked_url(url)
        self.key = _checked_redis_name("stream", options.get("stream") or name)
        self.group = _checked_redis_name("group", options.get("group", "redrive"))
        self.org = checked_name("org", options.get("org", DEFAULT_ORG))
        require_list("orgs", options.get("orgs", ()), "names of organizations")
        self.orgs = frozenset({self.org, *(checked_name("org", org) for org in options.get("orgs", ()))})
        self._map = options.get("map")
        if self._map is not None:
            require_function("map", self._map)
        self.dedupe_by = choice("dedupe_by", options.get("dedupe_by", DedupeBy.FIELD), DedupeBy)
        self.retry = _retry(options)
        self.batch = _whole(options, "batch", DEFAULT_BATCH, 1, 10_000)
        self.max_queued = _whole(options, "max_queued", DEFAULT_MAX_QUEUED, 1, 100_000_000)
        self.max_bytes = _whole(options, "max_bytes", MIB, 1, 512 * MIB)
        self.idle_seconds = float(
            require_seconds("idle_seconds", options.get("idle_seconds", DEFAULT_IDLE_SECONDS), 0.05, 86_400.0)
        )
        self.retention = _retention(options.get("retention"))
        self.projectors: list[Projector] = []
        self.store_task = self._register_store_entry(store_entry, options)

    def __repr__(self) -> str:
        return f"<Stream {self.name!r}>"  # the address may contain a password

    def projector(self, name: str, /, **options: Unpack[ProjectorOptions]) -> TaskDecorator:
        """Register a function of an event as a projector; see ProjectorOptions."""
        known = ProjectorOptions.__optional_keys__ | TaskOptions.__optional_keys__
        reject_unknown("a projector has no option", options, known - {"name"})
        checked_projector_name("the name of a projector", name)
        version = checked_version(options.get("version", 1))
        given = {option: value for option, value in options.items() if option not in _OWN_OPTIONS}
        task_name = f"{self.name}:{name}:v{version}"

        def register(function: Callable[..., Any], task_options: TaskOptions) -> AnyTask:
            task = self._register(function, {**task_options, "name": task_name})
            _require_event_parameter(task)
            self.projectors.append(
                Projector(
                    name=name,
                    version=version,
                    task=task.name,
                    queue=task.queue,
                    types=checked_types(options.get("types")),
                    ordered_by=checked_order(options.get("ordered_by")),
                    after_failure=checked_after_failure(options.get("after_failure", AfterFailure.WAIT)),
                )
            )
            return task

        return TaskDecorator(register, cast("TaskOptions", given))

    def retention_of(self, event_type: str) -> float | None:
        """Return after how many seconds events of a type are removed; None: never."""
        for pattern, seconds in self.retention.items():
            if matches(event_type, (pattern,)):
                return seconds
        return None

    @property
    def is_ordered(self) -> bool:
        return any(projector.ordered_by is not None for projector in self.projectors)

    @property
    def reads_org(self) -> bool:
        """Whether an entry may name an organization: only if the stream lists several."""
        return len(self.orgs) > 1

    def event_of(self, entry: StreamEntry) -> Event:
        """Return the event that an entry means, or raise."""
        if self._map is None:
            event = default_event(entry, takes_org=self.reads_org)
        else:
            event = self._map(entry)
            if not isinstance(event, Event):
                raise InvalidEntryError(f"map returned {type(event).__name__} instead of an Event")
        key = event.dedupe_key
        if self.dedupe_by is DedupeBy.ENTRY_ID:
            key = f"{entry.generation}:{entry.message_id}"
        return self.checked(replace(event, dedupe_key=key, org=event.org or self.org))

    def checked(self, event: Event) -> Event:
        """Check an event before it is stored, and set its organization."""
        org = self.org if event.org is None else event.org
        if org not in self.orgs:
            raise InvalidEntryError(
                f"the event names the organization {org!r:.100}, which the stream {self.name!r} does not "
                f"serve; to allow it, declare the stream with orgs=[{org!r:.100}]"
            )
        for field in ("type", "dedupe_key"):
            _require_text(field, getattr(event, field))
        for field in ("source", "user"):
            if getattr(event, field) is not None:
                _require_text(field, getattr(event, field))
        if event.occurred_at is not None and not isinstance(event.occurred_at, int | float):
            raise InvalidEntryError("occurred_at must be a number of seconds since 1970")
        return event if event.org == org else replace(event, org=org)

    def interested(self, event: Event) -> Sequence[Projector]:
        return [projector for projector in self.projectors if projector.wants(event)]

    def _register_store_entry(
        self, store_entry: Callable[[Stream, dict[str, Any]], Any], options: StreamOptions
    ) -> AnyTask:
        async def store(entry: dict[str, Any]) -> Any:
            return await store_entry(self, entry)

        name = f"{self.name}: store entry"
        return self._register(
            store, {"name": name, "queue": options.get("queue", DEFAULT_QUEUE), "retry": self.retry}
        )


def _require_event_parameter(task: AnyTask) -> None:
    parameters = list(task.signature.called_with.parameters.values())
    if len(parameters) != 1 or not (
        parameters[0].annotation is Event or is_untyped(parameters[0].annotation)
    ):
        raise InvalidValueError(
            f"the projector {task.name!r} must take one parameter of type Event, besides the context: "
            f"async def {task.function.__name__}(event: Event, context: Context)"
        )


def _require_text(field: str, value: object) -> None:
    if isinstance(value, str) and 1 <= len(value) <= MAX_EVENT_TEXT and value.isprintable():
        return
    hint = ""
    if field == "dedupe_key" and value == "":
        hint = (
            ". Publish the field 'dedupe_key', 'event_id' or 'id' with the entry, or declare the stream with "
            "dedupe_by='entry_id'"
        )
    raise InvalidEntryError(
        f"the {field} of an event must have 1 to {MAX_KEY_LENGTH} printable characters, got "
        f"{value!r:.300}{hint}"
    )


def _checked_url(url: object) -> str | Connect:
    if callable(url) or (isinstance(url, str) and _URL.match(url)):
        return url
    raise InvalidValueError(
        "the address of a stream must start with redis://, rediss:// or unix://; for Sentinel or Cluster, "
        "pass a function that returns a client of redis.asyncio"
    )


def _checked_redis_name(what: str, name: object) -> str:
    if not isinstance(name, str) or not 1 <= len(name) <= MAX_KEY_LENGTH or not name.isprintable():
        raise InvalidValueError(
            f"{what} must have 1 to {MAX_KEY_LENGTH} printable characters, got {name!r:.300}"
        )
    return name


def _retry(options: StreamOptions) -> RetryPolicy:
    policy = options.get("retry", CALL)
    require_kind("retry", policy, RetryPolicy)
    if "max_attempts" in options:
        policy = replace(policy, name=f"{policy.name} (changed)", max_attempts=options["max_attempts"])
    return policy


def _retention(given: Seconds | Mapping[str, Seconds] | None) -> dict[str, float]:
    if given is None:
        return {}
    by_type: Mapping[str, Seconds] = given if isinstance(given, Mapping) else {"*": given}
    return {
        str(pattern): float(require_seconds("retention", seconds, 1.0, MAX_RETENTION_SECONDS))
        for pattern, seconds in by_type.items()
    }


def _whole(options: Any, name: str, default: int, low: int, high: int) -> int:
    value = options.get(name, default)
    require_whole(name, value, low, high)
    return int(value)
