"""Automatic redrives: whether, when and by which policy a dead letter is executed again.

A choice is a word (never, linear, exponential, immediate, by_category, custom:<name>) or a RetryPolicy. Its
consequence for a dead letter is decided whenever the dead letter is written, and stored with it. A custom
policy is a function of the application. It takes the number of redrives so far and returns seconds or a
timedelta, or None for no further redrive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from redrive.duration import Seconds
from redrive.errors import InvalidValueError
from redrive.model.dead_letter import DeadLetterState
from redrive.model.failure import Category
from redrive.model.step import Effect
from redrive.policy.backoff import Backoff
from redrive.policy.bounds import require_whole
from redrive.policy.codec import decode, encode
from redrive.policy.curve import AFTER_A_MISTAKE, Custom
from redrive.policy.policy_json import policy_from_json, policy_to_json
from redrive.policy.presets import REDRIVE_EXPONENTIAL, REDRIVE_NEVER, REDRIVE_POLICIES
from redrive.policy.retry import RetryPolicy
from redrive.policy.triage import redrive_policy

BY_CATEGORY = "by_category"
CUSTOM_PREFIX = "custom:"
DEFAULT_MAX_REDRIVES = 3
MAX_REDRIVES = 1_000
MAX_NAME_LENGTH = 100
WORDS = (*REDRIVE_POLICIES, BY_CATEGORY)

RedriveChoice: TypeAlias = str | RetryPolicy
Function: TypeAlias = Callable[[int], Seconds | None]
Functions: TypeAlias = Mapping[str, Function]

NO_FUNCTIONS: Functions = MappingProxyType({})


class Redriving(NamedTuple):
    """The redrive columns of a dead letter. `policy` is JSON; `delay` is the wait in seconds, or None."""

    name: str
    policy: str | None
    max_redrives: int
    redrives: int
    state: DeadLetterState
    delay: float | None


def redriving(
    choice: RedriveChoice,
    category: Category,
    *,
    redrives: int = 0,
    max_redrives: int | None = None,
    effect: Effect = Effect.IDEMPOTENT,
    may_have_executed: bool = True,
    functions: Functions = NO_FUNCTIONS,
    draw: float = 0.5,
) -> Redriving:
    """Decide the next redrive of a dead letter after `redrives`; `max_redrives` overrides the policy's."""
    policy = (
        REDRIVE_NEVER if effect is Effect.UNSAFE and may_have_executed else resolve_choice(choice, category)
    )
    if isinstance(policy, str):
        return _by_function(policy, redrives, max_redrives, functions)
    if policy == REDRIVE_NEVER or category in policy.never_retry:
        return Redriving(REDRIVE_NEVER.name, None, 0, redrives, DeadLetterState.OPEN, None)
    most = policy.max_retries if max_redrives is None else max_redrives
    wait = policy.backoff_for(category).wait(redrives + 1, draw=draw)
    delay = None if wait is None else wait.seconds
    return _counted(policy.name, encode(policy_to_json(policy)), most, redrives, delay)


def resolve_choice(
    choice: RedriveChoice, category: Category, default: RedriveChoice = REDRIVE_EXPONENTIAL
) -> RedriveChoice:
    """Return the policy of a choice; for a custom policy, the choice itself.

    With `by_category`, `default` replaces exponential.
    """
    check_choice(choice)
    if isinstance(choice, RetryPolicy) or choice.startswith(CUSTOM_PREFIX):
        return choice
    if choice != BY_CATEGORY:
        return REDRIVE_POLICIES[choice]
    policy = redrive_policy(category)
    return (
        resolve_choice(default, category)
        if policy is REDRIVE_EXPONENTIAL and default is not policy
        else policy
    )


def check_choice(choice: object) -> RedriveChoice:
    """Reject a value that is not a redrive policy."""
    if isinstance(choice, RetryPolicy):
        policy_to_json(choice)  # rejects a policy that cannot be stored with a dead letter
        if not 1 <= len(choice.name) <= MAX_NAME_LENGTH or choice.name.startswith(CUSTOM_PREFIX):
            raise InvalidValueError(
                f"the name of a redrive policy must have 1 to {MAX_NAME_LENGTH} characters and not start "
                f"with {CUSTOM_PREFIX!r}, got {choice.name!r}"
            )
        return choice
    if isinstance(choice, str):
        is_custom = choice.startswith(CUSTOM_PREFIX) and len(CUSTOM_PREFIX) < len(choice) <= MAX_NAME_LENGTH
        if choice in WORDS or is_custom:
            return choice
    raise InvalidValueError(
        f"a redrive policy must be {', '.join(WORDS)}, custom:<name> or a RetryPolicy, got {choice!r}"
    )


def check_max_redrives(max_redrives: object) -> int | None:
    if max_redrives is not None:
        require_whole("max_redrives", max_redrives, 0, MAX_REDRIVES)
    return max_redrives  # type: ignore[return-value]


def stored_choice(name: str, policy: str | None) -> RedriveChoice:
    """Return the choice that a dead letter was stored with, from its columns."""
    return name if policy is None else policy_from_json(decode(policy))


def _by_function(name: str, redrives: int, max_redrives: int | None, functions: Functions) -> Redriving:
    """Decide by a custom function; without it, wait an hour for a process that has it."""
    function = functions.get(name.removeprefix(CUSTOM_PREFIX))
    delay: float | None = AFTER_A_MISTAKE
    if function is not None:
        delay = Backoff(Custom(function)).planned(redrives)
    most = DEFAULT_MAX_REDRIVES if max_redrives is None else max_redrives
    return _counted(name, None, most, redrives, delay)


def _counted(name: str, policy: str | None, most: int, redrives: int, delay: float | None) -> Redriving:
    """Exhaust the dead letter if the policy allows no further redrive, or the maximum is reached."""
    if most > 0 and (redrives >= most or (delay is None and redrives > 0)):
        return Redriving(name, policy, most, redrives, DeadLetterState.EXHAUSTED, None)
    allowed = delay if most > 0 else None
    return Redriving(name, policy, most, redrives, DeadLetterState.OPEN, allowed)
