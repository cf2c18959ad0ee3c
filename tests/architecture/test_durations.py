"""Every public duration can be given in seconds or as a timedelta."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any, is_typeddict

import redrive
from redrive import calls, errors
from redrive.asgi.idempotency import IdempotencyMiddleware
from redrive.calls.guard import GuardOptions
from redrive.calls.http import ClientOptions, RequestOptions
from redrive.doctor import examine
from redrive.engine.breakers import Breakers
from redrive.engine.enqueue import StartOptions
from redrive.engine.handle import SyncRunHandle
from redrive.engine.queues import Queues
from redrive.engine.runs import Runs
from redrive.engine.task import TaskOptions
from redrive.failures.audit import Audit
from redrive.failures.bulk_replays import BulkReplays
from redrive.failures.groups import FailureGroups
from redrive.failures.replays import Replays
from redrive.failures.service import Failures
from redrive.idempotency.decorator import Idempotent, KeyOptions
from redrive.idempotency.service import Idempotency
from redrive.identity.accounts import MemberAccounts
from redrive.identity.keys import Keys
from redrive.identity.members import Members
from redrive.identity.sessions import UserSessions
from redrive.policy.classify import Classifier
from redrive.policy.policy_change import Alteration
from redrive.testing import Harness, VirtualClock
from redrive.verify import verify

PUBLIC: list[Any] = [
    *(getattr(redrive, name) for name in redrive.__all__),
    *(getattr(calls, name) for name in calls.__all__),
    *(error for error in vars(errors).values() if isinstance(error, type) and issubclass(error, Exception)),
]
PARTS: list[Any] = [
    *(Alteration, Audit, Breakers, BulkReplays, Classifier, ClientOptions, FailureGroups, Failures),
    *(GuardOptions, Harness, Idempotency, IdempotencyMiddleware, Idempotent, KeyOptions, Keys),
    *(MemberAccounts, Members, Queues, Replays, RequestOptions, Runs, StartOptions, SyncRunHandle),
    *(TaskOptions, UserSessions, VirtualClock, examine, verify),
]
"""Classes that users meet without importing them from `redrive`."""

INSTANTS = {
    "Audit.about.since",
    "Audit.list.since",
    "Audit.list.until",
    "Classifier.classify.now",
    "Dependency.report_failure.started",
    "Dependency.report_success.started",
    "Failures.what_if.since",
    "StartOptions.at",
    "classify.now",
}
OTHER_UNITS = {
    "DeadLetterQueue.archive_days",
    "MemberAccounts.link.minutes",
    "UserSessions.embedded_link.minutes",
    "UserSessions.link.minutes",
}
NO_DURATIONS = {
    "Alteration.factor",
    "Backoff.wait.draw",
    "Context.progress.fraction",
    "Guard.random",
    "GuardOptions.random",
    "RequestOptions.params",
}
OF_THE_ENGINE = {
    "Attempt.deadline",
    "Attempt.started",
    "Attempt.timeout",
    "Backoff.wait.previous",
    "Context.report",
    "StatementTimeoutError.seconds",
    "VirtualClock.pause.seconds",
    "VirtualClock.sleep.seconds",
}
"""The engine sets these, not programs."""


def parameters() -> dict[str, str]:
    """Return every public parameter with its annotation.

    tests/policy/test_durations.py covers the fields of dataclasses.
    """
    return {
        f"{name}.{parameter}": str(getattr(annotation, "__forward_arg__", annotation))
        for thing in (*PUBLIC, *PARTS)
        for name, annotated in _annotated(thing)
        for parameter, annotation in annotated.__annotations__.items()
        if parameter != "return"
    }


def _annotated(thing: Any) -> Iterator[tuple[str, Any]]:
    """Yield a function or a dictionary of options; the constructor and the methods of a class."""
    if not isinstance(thing, type) or is_typeddict(thing) or hasattr(thing, "_fields"):
        yield thing.__name__, thing
        return
    for base in thing.__mro__:
        for name, member in vars(base).items():
            function = getattr(member, "__func__", member)
            if not inspect.isfunction(function) or not function.__module__.startswith("redrive"):
                continue
            if name == "__init__" and not is_dataclass(thing):
                yield thing.__name__, function
            elif not name.startswith("_"):
                yield f"{thing.__name__}.{name}", function


def test_every_public_number_is_a_duration_or_known_to_be_none() -> None:
    numbers = {name for name, annotation in parameters().items() if re.search(r"\bfloat\b", annotation)}

    assert numbers == INSTANTS | OTHER_UNITS | NO_DURATIONS | OF_THE_ENGINE


def test_durations_are_found() -> None:
    durations = {name for name, annotation in parameters().items() if "Seconds" in annotation}

    assert {
        "Guard.timeout",
        "GuardOptions.longest_wait",
        "Keys.rotate.grace_seconds",
        "RetryableError.retry_after",
        "RunHandle.result.timeout",
        "StartOptions.delay",
        "SyncRunHandle.wait.timeout",
        "Task.step.timeout",
        "TaskOptions.timeout",
    } <= durations
