"""Tasks: registered functions and their execution options."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    NoReturn,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from redrive.duration import Seconds
from redrive.engine.context import Context
from redrive.engine.definition import Definition, StepDefinition
from redrive.engine.payload import to_json
from redrive.engine.signature import Signature
from redrive.errors import InvalidValueError
from redrive.model.step import Effect
from redrive.policy.automatic_redrive import (
    CUSTOM_PREFIX,
    Function,
    RedriveChoice,
    check_choice,
    check_max_redrives,
)
from redrive.policy.bounds import (
    MAX_DELAY_SECONDS,
    choice,
    require_kind,
    require_list,
    require_seconds,
    require_whole,
)
from redrive.policy.classify import Classifier
from redrive.policy.codec import JsonValue, encode
from redrive.policy.policy_json import policy_to_json
from redrive.policy.presets import STEP
from redrive.policy.retry import Ending, RetryPolicy
from redrive.words.suggestion import suggest

if TYPE_CHECKING:
    from redrive.engine.enqueue import StartOptions
    from redrive.engine.handle import RunHandle, SyncRunHandle

P = ParamSpec("P")
A = TypeVar("A")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
A_contra = TypeVar("A_contra", contravariant=True)
F_co = TypeVar("F_co", bound=Callable[..., Any], covariant=True)

DEFAULT_QUEUE = "default"
DEFAULT_TIMEOUT = 300.0
MAX_NAME_LENGTH = 100
FOREIGN_START_METHODS = frozenset({"apply_async", "defer", "delay", "enqueue", "perform_async", "send"})
"""Names of the method that starts a job in other systems."""
OPTION_ALIASES = {
    "max_retries": "max_attempts",
    "retries": "max_attempts",
    "countdown": "delay",
    "eta": "at",
}
"""Names of options in other systems, for suggestions."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/ -]*")


class TaskIsolation(StrEnum):
    """Where a function runs. A separate process can be killed, and cannot crash its worker."""

    THREAD = "thread"
    PROCESS = "process"


class TaskOptions(TypedDict, total=False):
    """Options of a task.

    name              the name of the task; default: the name of the function
    retry             the retry policy; it can differ by error category; default: redrive.policy.STEP
    max_attempts      override the policy's total number of attempts
    when_exhausted    "bury": keep a dead letter, "block": the run waits for a person, "fail": the run fails
    timeout           the timeout of one attempt, in seconds or as a timedelta; default: 300 seconds
    queue             the queue of its runs; default: "default"
    breaker           the dependency whose breaker puts the work on hold while it is down
    effect            "none", "idempotent" or "unsafe": attempts that may have executed are not retried
    concurrency       the maximum number of concurrent executions over all workers
    concurrency_key   a function of the payload: apply `concurrency` to each key separately
    isolation         "thread", or "process": a separate process with a hard timeout
    classifier        decides what an error means
    redrive           how dead letters are redriven automatically: "never", "exponential", "linear",
                      "immediate", "by_category", a RetryPolicy, or a function: redrives so far → seconds or
                      a timedelta until the next one, or None for no more; default: the setting dlq_redrive
    max_redrives      the maximum number of automatic redrives
    source            a function of the payload, called before a manual replay: does the source still exist?
    aliases           its former names: workers also execute runs that were started under one of them
    """

    name: str
    retry: RetryPolicy
    max_attempts: int
    when_exhausted: Ending | str
    timeout: Seconds
    queue: str
    breaker: str | None
    effect: Effect | str
    concurrency: int | None
    concurrency_key: Callable[[Any], str] | None
    isolation: TaskIsolation | str
    classifier: Classifier | None
    redrive: RedriveChoice | Function | None
    max_redrives: int | None
    source: Callable[[Any], Any] | None
    aliases: Iterable[str]


class SyncTaskStarter(Protocol):
    """The part of `app.sync` that tasks use."""

    def start(
        self, work: str, payload: object, *, connection: object = None, **options: Unpack[StartOptions]
    ) -> SyncRunHandle[Any]: ...


class TaskStarter(Protocol):
    """The part of an application that its tasks use."""

    async def start(
        self, work: str, payload: object, *, connection: object = None, **options: Unpack[StartOptions]
    ) -> RunHandle[Any]: ...

    @property
    def sync(self) -> SyncTaskStarter: ...


class TakesOne(Protocol[A_contra, R_co]):
    """A task that can be started with one argument."""

    def start(self, payload: A_contra, /) -> Coroutine[Any, Any, RunHandle[R_co]]: ...


class TakesNothing(Protocol[R_co]):
    """A task that can be started without arguments."""

    def start(self) -> Coroutine[Any, Any, RunHandle[R_co]]: ...


@dataclass(frozen=True, slots=True)
class TaskStart(Generic[P, R_co]):
    """A task with options for starting runs: `charge.options(key="order-7").start(7, item="tea")`."""

    task: Task[P, R_co]
    connection: object
    options: StartOptions

    async def start(self, *args: P.args, **kwargs: P.kwargs) -> RunHandle[R_co]:
        """Start a run with these arguments."""
        task = self.task
        payload = task.signature.payload(args, kwargs)
        return await task.app.start(task.name, payload, connection=self.connection, **self.options)

    def start_sync(self, *args: P.args, **kwargs: P.kwargs) -> SyncRunHandle[R_co]:
        """Start a run in a program without an event loop."""
        task = self.task
        payload = task.signature.payload(args, kwargs)
        return task.app.sync.start(task.name, payload, connection=self.connection, **self.options)


@dataclass(frozen=True, slots=True, repr=False)
class Task(Generic[P, R_co]):
    """A registered function. `P` are the parameters filled from the payload, `R` is the return type."""

    name: str
    function: Callable[..., Any]
    signature: Signature
    retry: RetryPolicy
    timeout: float
    queue: str
    breaker: str | None
    effect: Effect
    concurrency: int | None
    concurrency_key: Callable[[Any], str] | None
    isolation: TaskIsolation
    classifier: Classifier | None
    redrive_choice: RedriveChoice | None
    max_redrives: int | None
    source: Callable[[Any], Any] | None
    aliases: tuple[str, ...]
    app: TaskStarter = field(compare=False)

    if not TYPE_CHECKING:  # type checkers know the function's own signature: see TaskFunction

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            """Call the function directly, without starting a run."""
            return self.function(*args, **kwargs)

        def __getattr__(self, name: str) -> NoReturn:
            hint = f"; to start a run: {self.name}.start(...)" if name in FOREIGN_START_METHODS else ""
            raise AttributeError(f"a task has no attribute {name!r}{hint}")

    @classmethod
    def of(cls, function: Callable[..., Any], options: Mapping[str, Any], app: TaskStarter) -> AnyTask:
        reject_unknown("a task has no option", options, TaskOptions.__optional_keys__)
        name = checked_name("the name of a task", options.get("name") or _name_of(function))
        signature = Signature.of(function, Context, name)
        isolation = choice("isolation", options.get("isolation", TaskIsolation.THREAD), TaskIsolation)
        if options.get("concurrency_key") is not None and options.get("concurrency") is None:
            raise InvalidValueError(
                "concurrency_key needs concurrency, the maximum number of concurrent executions per key"
            )
        if (concurrency := options.get("concurrency")) is not None:
            require_whole("concurrency", concurrency, 1, 1_000_000)
        if (classifier := options.get("classifier")) is not None:
            require_kind("classifier", classifier, Classifier)
        breaker = options.get("breaker")
        return cls(
            name=name,
            function=function,
            signature=signature,
            retry=_policy(options),
            timeout=_timeout(options.get("timeout", DEFAULT_TIMEOUT)),
            queue=checked_name("queue", options.get("queue", DEFAULT_QUEUE)),
            breaker=None if breaker is None else checked_name("breaker", breaker),
            effect=choice("effect", options.get("effect", Effect.IDEMPOTENT), Effect),
            concurrency=concurrency,
            concurrency_key=options.get("concurrency_key"),
            isolation=isolation,
            classifier=classifier,
            redrive_choice=_redrive(name, options.get("redrive")),
            max_redrives=check_max_redrives(options.get("max_redrives")),
            source=_source(options.get("source")),
            aliases=checked_aliases(options.get("aliases", ())),
            app=app,
        )

    def __repr__(self) -> str:
        return f"<Task {self.name!r}>"

    async def start(self, *args: P.args, **kwargs: P.kwargs) -> RunHandle[R_co]:
        """Start a run with these arguments: `await charge.start(7, item="tea")`."""
        return await self.app.start(self.name, self.signature.payload(args, kwargs))

    def start_sync(self, *args: P.args, **kwargs: P.kwargs) -> SyncRunHandle[R_co]:
        """Start a run in a program without an event loop."""
        return self.app.sync.start(self.name, self.signature.payload(args, kwargs))

    def options(self, *, connection: object = None, **options: Unpack[StartOptions]) -> TaskStart[P, R_co]:
        """Set options for starting runs: `await charge.options(key="order-7").start(7)`. See StartOptions."""
        return TaskStart(self, connection, options)

    def step(
        self,
        name: str | None = None,
        *,
        config: object = None,
        retry: RetryPolicy | None = None,
        timeout: Seconds | None = None,
    ) -> StepDefinition:
        """Return this task as a step of a workflow, optionally with a config, a policy and a timeout."""
        policy = self.retry if retry is None else retry
        policy_to_json(policy)  # rejects a policy that cannot be stored
        stored = to_json(config)
        encode(stored)
        return StepDefinition(
            name=checked_name("the name of a step", name or self.name),
            task=self.name,
            retry=policy,
            timeout=_timeout(self.timeout if timeout is None else timeout),
            queue=self.queue,
            breaker=self.breaker,
            effect=self.effect,
            config=stored,
        )

    def limit_for(self, org: str, payload: Callable[[], JsonValue]) -> dict[str, int]:
        """Return the name and value of the concurrency limit for this payload; empty if there is none."""
        if self.concurrency is None:
            return {}
        if self.concurrency_key is None:
            return {f"task:{self.name}": self.concurrency}
        try:
            key = _printable(str(self.concurrency_key(payload())))
        except Exception:  # noqa: BLE001 — payloads without a valid key share one; the task itself will fail
            key = "?"
        return {f"key:{org}|{self.name}|{key}": self.concurrency}


AnyTask: TypeAlias = Task[..., Any]
"""A task of any signature."""

if TYPE_CHECKING:

    class TaskFunction(Task[P, R_co], Generic[P, R_co, F_co]):
        """A task as returned by the decorator: it can be called like the function itself."""

        @property
        def __call__(self) -> F_co: ...

else:
    TaskFunction = Task


class TaskDecorator:
    """`@app.task` and `@app.task(timeout=30)`.

    The context is not part of the payload. Make it the first parameter, so that type checkers know this, too.
    """

    def __init__(
        self,
        register: Callable[[Callable[..., Any], TaskOptions], AnyTask],
        options: TaskOptions | None = None,
    ) -> None:
        self._register = register
        self._options: TaskOptions = {} if options is None else options

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> TaskFunction[P, R, Callable[Concatenate[Context, P], Coroutine[Any, Any, R]]]: ...

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[Context, P], R], /
    ) -> TaskFunction[P, R, Callable[Concatenate[Context, P], R]]: ...

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[[A, Context], Coroutine[Any, Any, R]], /
    ) -> TaskFunction[[A], R, Callable[[A, Context], Coroutine[Any, Any, R]]]: ...

    @overload
    def __call__(
        self, function: Callable[[A, Context], R], /
    ) -> TaskFunction[[A], R, Callable[[A, Context], R]]: ...

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> TaskFunction[P, R, Callable[P, Coroutine[Any, Any, R]]]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> TaskFunction[P, R, Callable[P, R]]: ...

    @overload
    def __call__(self, **options: Unpack[TaskOptions]) -> TaskDecorator: ...

    def __call__(  # type: ignore[misc]  # mypy: the options of the overload
        self, function: Callable[..., Any] | None = None, /, **options: Any
    ) -> Any:
        merged = cast("TaskOptions", {**self._options, **options})
        return TaskDecorator(self._register, merged) if function is None else self._register(function, merged)


def _printable(key: str) -> str:
    """Return the key, or its hash if it is long or has unprintable characters: keys come from payloads."""
    if len(key) <= MAX_NAME_LENGTH and key.isascii() and key.isprintable():
        return key
    return "#" + sha256(key.encode(errors="surrogatepass")).hexdigest()[:32]


def name_of(work: object) -> str:
    """Return the name of a task or a workflow."""
    if isinstance(work, Task):
        return work.name
    if isinstance(work, Definition):
        return work.workflow
    if not isinstance(work, str):
        raise InvalidValueError(f"{work!r} is neither a task nor a workflow; is @app.task missing?")
    return work


def checked_name(what: str, name: object) -> str:
    if not isinstance(name, str) or len(name) > MAX_NAME_LENGTH or not _NAME.fullmatch(name):
        raise InvalidValueError(
            f"{what} must start with a letter or digit, contain only letters, digits, spaces and _ . : / - "
            f"and have at most {MAX_NAME_LENGTH} characters, got {name!r}"
        )
    return name


def checked_aliases(names: Iterable[object]) -> tuple[str, ...]:
    require_list("aliases", names, "names")
    aliases = tuple(checked_name("an alias", name) for name in names)
    if len(set(aliases)) < len(aliases):
        raise InvalidValueError(f"aliases must be different names, got {aliases!r}")
    return aliases


def reject_unknown(complaint: str, options: Mapping[str, Any], known: frozenset[str]) -> None:
    """Raise InvalidValueError for an unknown option, with a suggestion."""
    for option in options:
        if option not in known:
            raise InvalidValueError(
                f"{complaint} {option!r}; {suggest(option, known, aliases=OPTION_ALIASES)}"
            )


def _name_of(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", None)
    if name is None or name == "<lambda>":
        raise InvalidValueError(f"{function!r} has no name; register it with a name: @app.task(name=...)")
    return str(name)


def _policy(options: Mapping[str, Any]) -> RetryPolicy:
    policy: RetryPolicy = options.get("retry", STEP)
    require_kind("retry", policy, RetryPolicy)
    if "max_attempts" in options:
        policy = replace(policy, name=f"{policy.name} (changed)", max_attempts=options["max_attempts"])
    if "when_exhausted" in options:
        policy = replace(policy, ending=choice("when_exhausted", options["when_exhausted"], Ending))
    return policy


def _redrive(name: str, given: RedriveChoice | Function | None) -> RedriveChoice | None:
    """Return the redrive choice. A function is registered under the name of its task."""
    if given is None:
        return None
    return check_choice(CUSTOM_PREFIX + name if callable(given) else given)


def _source(function: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    if function is not None and not callable(function):
        raise InvalidValueError(f"source must be a function of the payload, got {function!r}")
    return function


def _timeout(timeout: Seconds) -> float:
    return float(require_seconds("timeout", timeout, 0.001, MAX_DELAY_SECONDS))
