"""A script: all that happens from outside in one history, as plain data that can be printed and shrunk."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum


class Outcome(StrEnum):
    """What a step comes to, in order of its charged failures."""

    SUCCEED = "succeed"
    NETWORK = "network"
    FINAL = "final"
    UNKNOWN = "unknown"
    RATE_LIMITED = "rate_limited"
    HANG = "hang"
    ANSWER_LOST = "answer_lost"


class Trouble(StrEnum):
    """What else a step does, in order of its calls."""

    NONE = "none"
    SLEEP = "sleep"
    LONG = "long"
    STUBBORN = "stubborn"
    KILL = "kill"
    KILL_AFTER_EFFECT = "kill_after_effect"
    PROGRESS = "progress"
    DEFER = "defer"


class FaultKind(StrEnum):
    SLOW = "slow"
    LATE_ANSWER = "late_answer"
    REFUSE = "refuse"
    LOSE_ANSWER = "lose_answer"
    FAIL_INSIDE = "fail_inside"
    CRASH_BEFORE = "crash_before"
    CRASH_AFTER = "crash_after"
    CRASH_INSIDE = "crash_inside"
    CRASH = "crash"
    FREEZE = "freeze"
    FREEZE_AFTER = "freeze_after"
    STOP = "stop"
    HURRY = "hurry"
    OUTAGE = "outage"
    DEPENDENCY = "dependency"
    PAUSE_QUEUE = "pause_queue"
    FORCE_OPEN = "force_open"
    FORCE_CLOSED = "force_closed"


class ChoreKind(StrEnum):
    """What a person does at the desk: with one dead letter, with a run, with an operation, with a group."""

    REPLAY = "replay"
    REPLAY_ALONE = "replay_alone"
    REPLAY_BACK = "replay_back"
    REPLAY_OTHERWISE = "replay_otherwise"
    RESOLVE = "resolve"
    IGNORE = "ignore"
    ARCHIVE = "archive"
    REOPEN = "reopen"
    LINK = "link"
    RETRY_RUN = "retry_run"
    CANCEL_RUN = "cancel_run"
    PLAN = "plan"
    START = "start"
    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    ACKNOWLEDGE_GROUP = "acknowledge_group"
    RESOLVE_GROUP = "resolve_group"
    RESOLVE_GROUP_WITH_LETTERS = "resolve_group_with_letters"
    IGNORE_GROUP = "ignore_group"


@dataclass(frozen=True)
class WorkerPlan:
    name: str
    queues: tuple[str, ...]
    concurrency: int
    lease: float
    poll: float
    grace: float
    skew: float
    redrives: bool = True


@dataclass(frozen=True)
class TaskPlan:
    name: str
    queue: str = "default"
    max_attempts: int = 3
    curve: str = "exponential"
    jitter: str = "none"
    base: float = 1.0
    cap: float = 8.0
    timeout: float = 5.0
    breaker: str | None = None
    unsafe: bool = False
    concurrency: int | None = None
    by_key: bool = False
    ending: str = "bury"
    rate_limit_waits: int = 100
    redrive: str | None = None
    max_redrives: int = 0


@dataclass(frozen=True)
class StepPlan:
    """`lasting`: so many replays of the run come to the same; after that the step succeeds."""

    outcomes: tuple[Outcome, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    lasting: int = 0


@dataclass(frozen=True)
class RunPlan:
    """`repeats`: after so many seconds the same start is made again; `stranger`: with another payload."""

    number: int
    workflow: str
    steps: tuple[StepPlan, ...]
    at: float = 0.0
    org: str = "default"
    key: bool = False
    priority: int = 0
    delay: float = 0.0
    repeats: tuple[float, ...] = ()
    stranger: bool = False
    cancel_at: float | None = None
    order_key: str | None = None


@dataclass(frozen=True)
class Fault:
    """`target` is a worker, the client, a queue or a dependency; `statement` says where it bites."""

    at: float
    kind: FaultKind
    target: str = ""
    seconds: float = 0.0
    statement: str | None = None


@dataclass(frozen=True)
class Bulk:
    """How a bulk replay is to go on. `waits`: it is planned only, and started by another chore."""

    canary: int = 2
    rate: float | None = None
    failure_rate: float = 0.5
    stop_on_breaker: bool = True
    alone: bool = False
    exclude_unsafe: bool = False
    waits: bool = False


@dataclass(frozen=True)
class Chore:
    """`pick`, from 0 to 1, chooses among what is there; `rash`: among all, whether it makes sense or not.

    org  where something is looked for first
    """

    at: float
    kind: ChoreKind
    org: str = "default"
    pick: float = 0.0
    rash: bool = False
    bulk: Bulk = Bulk()


@dataclass(frozen=True)
class Script:
    """`schedule` seeds the scheduling and all random numbers of the processes.

    sweeps  how often everything that is dead in the end is replayed, in one operation for each org
    """

    schedule: int
    workers: tuple[WorkerPlan, ...]
    tasks: tuple[TaskPlan, ...]
    workflows: tuple[tuple[str, tuple[str, ...]], ...]
    runs: tuple[RunPlan, ...]
    faults: tuple[Fault, ...]
    latency: float = 0.01
    org_concurrency: int | None = None
    chores: tuple[Chore, ...] = ()
    sweeps: int = 0

    def task_names(self, workflow: str) -> tuple[str, ...]:
        return dict(self.workflows).get(workflow, (workflow,))

    def task(self, name: str) -> TaskPlan:
        return next(each for each in self.tasks if each.name == name)

    def __str__(self) -> str:
        limit, sweeps = self.org_concurrency, self.sweeps
        lines = [f"schedule {self.schedule}, latency {self.latency}, org limit {limit}, sweeps {sweeps}"]
        for name in ("workers", "tasks", "workflows", "runs", "faults", "chores"):
            lines += [f"  {_shown(each)}" for each in getattr(self, name)]
        return "\n".join(lines)


def _shown(part: object) -> str:
    """Only what is not as usual."""
    if isinstance(part, tuple):
        return f"Workflow {part[0]}: {' → '.join(part[1])}"
    told = []
    for field in fields(part):  # type: ignore[arg-type]
        value = getattr(part, field.name)
        if value != field.default:
            told.append(f"{field.name}={_plain(value)}")
    return f"{type(part).__name__}({', '.join(told)})"


def _plain(value: object) -> str:
    if isinstance(value, StepPlan):
        outcomes = "/".join(value.outcomes) or "succeed"
        lasting = f" for {value.lasting} replays" if value.lasting else ""
        return outcomes + lasting + (f" [{', '.join(value.troubles)}]" if value.troubles else "")
    if isinstance(value, Bulk):
        return _shown(value)
    if isinstance(value, tuple):
        return f"({', '.join(map(_plain, value))})"
    return str(value) if isinstance(value, StrEnum) else repr(value)
