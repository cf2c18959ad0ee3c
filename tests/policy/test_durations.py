"""Durations of policies: a timedelta equals its seconds, and every policy stores seconds."""

from __future__ import annotations

import ast
import inspect
import math
import pkgutil
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from tests.cases import loop_over

import redrive.policy
from redrive import BreakerPolicy, RateLimitedError, RetryPolicy, classify
from redrive.doctor import DoctorLimits
from redrive.duration import to_seconds
from redrive.engine.worker_parts import WorkerOptions
from redrive.errors import BreakerOpenError, DeferredError, FinalError, InvalidFieldError, RetryableError
from redrive.policy import (
    STEP,
    Additive,
    Backoff,
    BudgetPolicy,
    Custom,
    Decorrelated,
    Exponential,
    Immediate,
    Linear,
    Proportional,
    Ramp,
)
from redrive.policy.automatic_redrive import redriving
from redrive.policy.bounds import MAX_DELAY_SECONDS, require, require_seconds
from redrive.policy.monitor import Thresholds
from redrive.policy.policy_change import Alteration
from redrive.policy.policy_json import policy_from_json, policy_to_json
from redrive.policy.presets import REDRIVE_LINEAR
from redrive.policy.retry_after import parse_retry_after
from redrive.policy.rollout import RolloutOptions

DURATIONS: dict[type[Any], set[str]] = {
    Additive: {"maximum"},
    Backoff: {"cap"},
    BreakerPolicy: {"window_seconds", "slow_seconds", "cool_down", "longest_open", "probe_seconds"},
    DoctorLimits: {
        "clock_seconds",
        "transaction_seconds",
        "old_transaction_seconds",
        "leeway_seconds",
        "silent_seconds",
        "backlog_seconds",
        "letter_seconds",
    },
    Exponential: {"base"},
    Linear: {"base", "step"},
    Ramp: {"every"},
    WorkerOptions: {
        "lease_seconds",
        "poll_seconds",
        "grace_seconds",
        "heartbeat_seconds",
        "retention_seconds",
    },
}
OTHER_NUMBERS: dict[type[Any], set[str]] = {
    BreakerPolicy: {"failure_rate", "slow_rate"},
    BudgetPolicy: {"capacity", "retry_cost", "success_gain"},
    Decorrelated: {"factor"},
    DoctorLimits: {"dead_share", "connections"},
    Exponential: {"factor"},
    Proportional: {"ratio"},
    Ramp: {"factor"},
    RolloutOptions: {"rate", "failure_rate"},
    Thresholds: {"utilization_percent", "success_percent"},
}
REQUIRED: dict[type[Any], dict[str, Any]] = {
    Additive: {"maximum": 1.0},
    Backoff: {"curve": Immediate()},
    Exponential: {"base": 1.0},
    Linear: {"base": 1.0, "step": 1.0},
    WorkerOptions: {"queues": ("default",)},
}
FIELDS = [(kind, name) for kind, names in DURATIONS.items() for name in sorted(names)]
BOUNDED = [(kind, name) for kind, name in FIELDS if kind is not DoctorLimits]


def create(kind: type[Any], name: str, value: object) -> Any:
    return kind(**{**REQUIRED.get(kind, {}), name: value})


def complaint(function: Callable[..., object], *arguments: object) -> str:
    with pytest.raises(InvalidFieldError) as caught:
        function(*arguments)
    return str(caught.value)


def option_classes() -> Iterator[type[Any]]:
    """Yield all dataclasses in `redrive.policy`, and the options of workers and of the doctor."""
    for module in pkgutil.walk_packages(redrive.policy.__path__, "redrive.policy."):
        for thing in vars(import_module(module.name)).values():
            if isinstance(thing, type) and is_dataclass(thing) and thing.__module__ == module.name:
                yield thing
    yield from (WorkerOptions, DoctorLimits)


def test_every_number_of_a_policy_is_known_to_be_a_duration_or_not() -> None:
    numbers = {
        kind: {field.name for field in fields(kind) if "float" in str(field.type).split(" | ")}
        for kind in option_classes()
    }

    known = {kind: DURATIONS.get(kind, set()) | OTHER_NUMBERS.get(kind, set()) for kind in numbers}
    assert numbers == known


@loop_over(("kind", "name"), FIELDS)
def test_a_timedelta_is_the_same_as_its_seconds(kind: type[Any], name: str) -> None:
    given, seconds = create(kind, name, timedelta(minutes=1, seconds=30)), create(kind, name, 90.0)

    assert type(getattr(given, name)) is float
    assert given == seconds
    assert hash(given) == hash(seconds)
    assert repr(given) == repr(seconds)


@loop_over(("kind", "name"), BOUNDED)
def test_a_timedelta_out_of_bounds_is_rejected_as_its_seconds_are(kind: type[Any], name: str) -> None:
    for duration in (timedelta(seconds=-1), timedelta.max):
        rejected = complaint(create, kind, name, duration.total_seconds())
        assert rejected.startswith(f"{name} must be a number of seconds from ")
        assert complaint(create, kind, name, duration) == rejected


@loop_over("value", [math.nan, math.inf, -math.inf, "60", True])
@loop_over(("kind", "name"), BOUNDED)
def test_a_value_that_is_no_duration_is_rejected(kind: type[Any], name: str, value: object) -> None:
    assert complaint(create, kind, name, value).endswith(f", got {value!r}")


@loop_over("kind", [kind for kind in DURATIONS if kind is not WorkerOptions])
def test_type_checkers_see_the_fields_and_that_durations_can_be_timedeltas(kind: type[Any]) -> None:
    [declared] = [
        node
        for node in ast.walk(_tree(kind))
        if isinstance(node, ast.FunctionDef) and node.name == "__init__"
    ]
    arguments = declared.args.args[1:] + declared.args.kwonlyargs
    optional = len(declared.args.defaults) + len(declared.args.kw_defaults)

    types = {argument.arg: ast.unparse(argument.annotation or ast.Constant(None)) for argument in arguments}
    assert types == {field.name: _accepted(kind, field) for field in fields(kind)}
    assert optional == sum(not _is_required(field) for field in fields(kind))


def _tree(kind: type[Any]) -> ast.AST:
    return ast.parse(textwrap.dedent(inspect.getsource(kind)))


def _accepted(kind: type[Any], field: Field[Any]) -> str:
    return str(field.type).replace("float", "Seconds") if field.name in DURATIONS[kind] else str(field.type)


def _is_required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def test_whole_seconds_stay_whole_numbers() -> None:
    """Stored definitions are identified by their JSON: 2 must not become 2.0."""
    backoff = Backoff(Exponential(2), 60)
    assert repr(backoff) == "Backoff(curve=Exponential(base=2, factor=2.0), cap=60, jitter=NoJitter())"


def test_a_policy_of_timedeltas_is_stored_in_seconds() -> None:
    backoff = Backoff(
        Linear(timedelta(seconds=5), timedelta(minutes=1)), timedelta(hours=1), Additive(timedelta(seconds=2))
    )
    policy = RetryPolicy(max_attempts=3, backoff=backoff)

    stored = policy_to_json(policy)
    assert stored["backoff"] == {
        "curve": {"kind": "linear", "base": 5.0, "step": 60.0},
        "cap": 3600.0,
        "jitter": {"kind": "additive", "maximum": 2.0},
    }
    assert policy_from_json(stored) == policy


def test_functions_may_answer_with_a_timedelta() -> None:
    curve = Custom(lambda failures: timedelta(minutes=failures))
    assert [curve.delay(failures) for failures in (1, 2)] == [60.0, 120.0]
    assert Custom(lambda _: timedelta(seconds=-1)).delay(1) == 0.0

    functions = {"mine": lambda redrives: timedelta(minutes=redrives)}
    category = classify(TimeoutError()).category
    assert redriving("custom:mine", category, redrives=2, functions=functions).delay == 120.0


def test_an_alteration_takes_timedeltas() -> None:
    minute = timedelta(minutes=1)
    assert Alteration(base=minute, cap=2 * minute).of(STEP) == Alteration(base=60.0, cap=120.0).of(STEP)
    assert Alteration(base=10 * minute).of(STEP).backoff.cap == 600.0  # a base above the cap raises the cap
    assert Alteration(increment=minute).of(REDRIVE_LINEAR) == Alteration(increment=60.0).of(REDRIVE_LINEAR)


@loop_over("name", ["base", "increment", "cap"])
def test_an_alteration_out_of_bounds_is_rejected_as_its_seconds_are(name: str) -> None:
    def check(value: Any) -> None:
        Alteration(**{name: value}).check()

    assert complaint(check, timedelta(seconds=-1)) == complaint(check, -1.0)


@loop_over("kind", [FinalError, RateLimitedError, RetryableError])
def test_an_error_holds_seconds(kind: type[RetryableError]) -> None:
    error = kind("later", retry_after=timedelta(minutes=2))
    assert error.retry_after == 120.0
    assert classify(error).retry_after == classify(kind("later", retry_after=120.0)).retry_after


def test_other_errors_hold_seconds_too() -> None:
    assert DeferredError("later", retry_after=timedelta(minutes=2)).retry_after == 120.0
    assert BreakerOpenError("mail", "open", retry_after=timedelta(seconds=5)).retry_after == 5.0
    assert BreakerOpenError("mail", "open").retry_after is None


def test_an_error_of_any_library_may_ask_for_a_timedelta() -> None:
    assert parse_retry_after(timedelta(seconds=90), now=None) == 90.0
    assert parse_retry_after(timedelta(days=30), now=None) == 30 * 86_400.0
    assert parse_retry_after(timedelta(seconds=-1), now=None) is None


def test_conversion() -> None:
    assert to_seconds(timedelta(milliseconds=1500)) == 1.5
    assert to_seconds(3) == 3
    assert require_seconds("wait", timedelta(days=365), 0.0, MAX_DELAY_SECONDS) == MAX_DELAY_SECONDS
    with pytest.raises(InvalidFieldError, match="ratio must be a number from 0 to 1"):
        require("ratio", timedelta(seconds=1), 0.0, 1.0)  # a share is not a duration
