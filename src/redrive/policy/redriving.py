"""Automatic redrives: whether, by which policy and when a dead letter is executed again.

A choice is a word (never, linear, exponential, immediate, by_category, custom:<name>) or a RetryPolicy. What
follows from it for one letter is decided whenever the letter is written, and stored with it. A custom policy
is a function of yours: the number of redrives so far → seconds, or None for no further one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

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
Function: TypeAlias = Callable[[int], float | None]
Functions: TypeAlias = Mapping[str, Function]

NO_FUNCTIONS: Functions = MappingProxyType({})


class Redriving(NamedTuple):
    """What is stored with a letter. `policy` is JSON; `delay` seconds until the next redrive, or None."""

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
    """What follows for a letter after so many redrives; `max_redrives` wins over what the policy says."""
    policy = REDRIVE_NEVER if effect is Effect.UNSAFE and may_have_executed else chosen(choice, category)
    if isinstance(policy, str):
        return _by_function(policy, redrives, max_redrives, functions)
    if _never(policy, category):
        return Redriving(REDRIVE_NEVER.name, None, 0, redrives, DeadLetterState.OPEN, None)
    most = policy.max_retries if max_redrives is None else max_redrives
    wait = policy.backoff_for(category).wait(redrives + 1, draw=draw)
    delay = None if wait is None else wait.seconds
    return _counted(policy.name, encode(policy_to_json(policy)), most, redrives, delay)


def chosen(
    choice: RedriveChoice, category: Category, default: RedriveChoice = REDRIVE_EXPONENTIAL
) -> RedriveChoice:
    """The policy that a choice means: one of its own, or the name of a custom one.

    By category, `default` takes the place of exponential.
    """
    checked(choice)
    if isinstance(choice, RetryPolicy) or choice.startswith(CUSTOM_PREFIX):
        return choice
    if choice != BY_CATEGORY:
        return REDRIVE_POLICIES[choice]
    policy = redrive_policy(category)
    return chosen(default, category) if policy is REDRIVE_EXPONENTIAL and default is not policy else policy


def checked(choice: object) -> RedriveChoice:
    """Refuse what is no policy for redrives."""
    if isinstance(choice, RetryPolicy):
        policy_to_json(choice)  # refuses what a letter could not keep
        if not 1 <= len(choice.name) <= MAX_NAME_LENGTH or choice.name.startswith(CUSTOM_PREFIX):
            raise InvalidValueError(
                f"the name of a redrive policy must have 1 to {MAX_NAME_LENGTH} characters and not begin "
                f"with {CUSTOM_PREFIX!r}, got {choice.name!r}"
            )
        return choice
    if isinstance(choice, str) and (choice in WORDS or _is_custom(choice)):
        return choice
    raise InvalidValueError(
        f"a redrive policy must be {', '.join(WORDS)}, custom:<name> or a RetryPolicy, got {choice!r}"
    )


def checked_redrives(max_redrives: object) -> int | None:
    if max_redrives is not None:
        require_whole("max_redrives", max_redrives, 0, MAX_REDRIVES)
    return max_redrives  # type: ignore[return-value]


def choice_of(name: str, policy: str | None) -> RedriveChoice:
    """The choice that a letter was stored with, out of its columns."""
    return name if policy is None else policy_from_json(decode(policy))


def _is_custom(word: str) -> bool:
    return word.startswith(CUSTOM_PREFIX) and len(CUSTOM_PREFIX) < len(word) <= MAX_NAME_LENGTH


def _never(policy: RetryPolicy, category: Category) -> bool:
    return policy == REDRIVE_NEVER or category in policy.never_retry


def _by_function(name: str, redrives: int, max_redrives: int | None, functions: Functions) -> Redriving:
    """A function that is not known here decides nothing: somebody who knows it comes by within the hour."""
    function = functions.get(name.removeprefix(CUSTOM_PREFIX))
    delay: float | None = AFTER_A_MISTAKE
    if function is not None:
        delay = Backoff(Custom(function)).planned(redrives)
    most = DEFAULT_MAX_REDRIVES if max_redrives is None else max_redrives
    return _counted(name, None, most, redrives, delay)


def _counted(name: str, policy: str | None, most: int, redrives: int, delay: float | None) -> Redriving:
    """None are left when the policy has none, or when as many as allowed were made."""
    if most > 0 and (redrives >= most or (delay is None and redrives > 0)):
        return Redriving(name, policy, most, redrives, DeadLetterState.EXHAUSTED, None)
    allowed = delay if most > 0 else None
    return Redriving(name, policy, most, redrives, DeadLetterState.OPEN, allowed)
