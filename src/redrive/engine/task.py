"""Tasks: registered functions and how they are to be executed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict

from redrive.engine.context import Context
from redrive.engine.definition import StepDefinition
from redrive.engine.payload import to_json
from redrive.engine.signature import Signature
from redrive.errors import InvalidValueError
from redrive.model.step import Effect
from redrive.policy.automatic_redrive import RedriveChoice, check_choice, check_max_redrives
from redrive.policy.bounds import MAX_DELAY_SECONDS, choice, require, require_kind, require_whole
from redrive.policy.classify import Classifier
from redrive.policy.codec import JsonValue, encode
from redrive.policy.policy_json import policy_to_json
from redrive.policy.presets import STEP
from redrive.policy.retry import Ending, RetryPolicy
from redrive.words.suggestion import suggest

DEFAULT_QUEUE = "default"
DEFAULT_TIMEOUT = 300.0
MAX_NAME_LENGTH = 100
STARTS_ELSEWHERE = frozenset({"apply_async", "defer", "delay", "enqueue", "perform_async", "send", "start"})
OTHER_WORDS = {"max_retries": "max_attempts", "retries": "max_attempts", "countdown": "delay", "eta": "at"}
"""What options are called elsewhere."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/ -]*")


class TaskIsolation(StrEnum):
    """Where a function runs. A process of its own can be stopped, and takes no neighbour with it."""

    THREAD = "thread"
    PROCESS = "process"


class TaskOptions(TypedDict, total=False):
    """How a task is executed.

    name              what it is known by; the name of the function unless given
    retry             how often and how long apart, also by category of the error (redrive.policy.STEP)
    max_attempts      changes the policy: executions in all
    when_exhausted    "bury": kept for triage, "block": the run waits for a person, "fail": the run has failed
    timeout           seconds for one attempt; 300 unless given
    queue             where its runs wait; "default" unless given
    breaker           the dependency whose breaker holds the work while it is down
    effect            "none", "idempotent", or "unsafe": what may have been executed is not repeated
    concurrency       at most so many executions at once, over all workers
    concurrency_key   a function of the payload: at most `concurrency` at once for each key instead
    isolation         "thread", or "process": of its own, with a hard timeout
    classifier        says what its errors mean
    redrive           how its dead letters are redriven automatically: "never", "exponential", "linear",
                      "immediate", "by_category", "custom:<name>" or a RetryPolicy; else as in the settings
    max_redrives      how often at most
    source            a function of the payload: is what it works on still there? Asked before a manual retry
    """

    name: str
    retry: RetryPolicy
    max_attempts: int
    when_exhausted: Ending | str
    timeout: float
    queue: str
    breaker: str | None
    effect: Effect | str
    concurrency: int | None
    concurrency_key: Callable[[Any], str] | None
    isolation: TaskIsolation | str
    classifier: Classifier | None
    redrive: RedriveChoice | None
    max_redrives: int | None
    source: Callable[[Any], Any] | None


@dataclass(frozen=True, slots=True, repr=False)
class Task:
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
    redrive: RedriveChoice | None
    max_redrives: int | None
    source: Callable[[Any], Any] | None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            hint = f"; start a run of it: app.start({self.name}, payload)" if name in STARTS_ELSEWHERE else ""
            raise AttributeError(f"a task has no attribute {name!r}{hint}")

    @classmethod
    def of(cls, function: Callable[..., Any], options: Mapping[str, Any]) -> Task:
        reject_unknown("a task has no option", options, TaskOptions.__optional_keys__)
        name = checked_name("the name of a task", options.get("name") or _name_of(function))
        signature = Signature.of(function, Context, name)
        isolation = choice("isolation", options.get("isolation", TaskIsolation.THREAD), TaskIsolation)
        if options.get("concurrency_key") is not None and options.get("concurrency") is None:
            raise InvalidValueError("concurrency_key needs concurrency: how many at once for each key?")
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
            redrive=None if options.get("redrive") is None else check_choice(options["redrive"]),
            max_redrives=check_max_redrives(options.get("max_redrives")),
            source=_source(options.get("source")),
        )

    def __repr__(self) -> str:
        return f"<Task {self.name!r}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Just call the function, here and now."""
        return self.function(*args, **kwargs)

    def step(
        self,
        name: str | None = None,
        *,
        config: object = None,
        retry: RetryPolicy | None = None,
        timeout: float | None = None,
    ) -> StepDefinition:
        """This task as a step of a workflow, with a config and, where wanted, a policy of its own."""
        policy = self.retry if retry is None else retry
        policy_to_json(policy)  # refuses what a run could not keep
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
        """The name of its concurrency limit for this payload, and how many may run at once."""
        if self.concurrency is None:
            return {}
        if self.concurrency_key is None:
            return {f"task:{self.name}": self.concurrency}
        try:
            key = _printable(str(self.concurrency_key(payload())))
        except Exception:  # noqa: BLE001 — those without a key share one; the task itself will tell
            key = "?"
        return {f"key:{org}|{self.name}|{key}": self.concurrency}


def _printable(key: str) -> str:
    """Keys come out of payloads: a long or odd one is represented by its hash."""
    if len(key) <= MAX_NAME_LENGTH and key.isascii() and key.isprintable():
        return key
    return "#" + sha256(key.encode(errors="surrogatepass")).hexdigest()[:32]


def checked_name(what: str, name: object) -> str:
    if not isinstance(name, str) or len(name) > MAX_NAME_LENGTH or not _NAME.fullmatch(name):
        raise InvalidValueError(
            f"{what} must begin with a letter or digit, consist of letters, digits, blanks and _ . : / - "
            f"and have at most {MAX_NAME_LENGTH} characters, got {name!r}"
        )
    return name


def reject_unknown(complaint: str, options: Mapping[str, Any], known: frozenset[str]) -> None:
    """A mistyped option must not be silently ignored."""
    for option in options:
        if option not in known:
            raise InvalidValueError(f"{complaint} {option!r}; {suggest(option, known, aliases=OTHER_WORDS)}")


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


def _source(function: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    if function is not None and not callable(function):
        raise InvalidValueError(f"source must be a function of the payload, got {function!r}")
    return function


def _timeout(seconds: object) -> float:
    require("timeout", seconds, 0.001, MAX_DELAY_SECONDS)
    return float(seconds)  # type: ignore[arg-type]
