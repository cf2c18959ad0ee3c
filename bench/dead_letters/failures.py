"""The failures in a filled database: artificial, but as long and as varied as real ones."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from redrive.model.failure import Category
from redrive.policy.fingerprint import VERSION

FILLING_LENGTH = 900
_CATEGORIES = tuple(Category)
_ERRORS = ("ConnectTimeout", "ReadTimeout", "ConnectionResetError", "HTTPStatusError", "ValidationError")
_STEPS = ("fetch", "charge", "notify")


class KnownFailure(NamedTuple):
    """A failure. `filling` makes a payload as long as real ones, and is hard to compress."""

    number: int
    fingerprint: str
    workflow: str
    step: str
    queue: str
    category: str
    error_type: str
    message: str
    title: str
    filling: str


def failures(count: int) -> Iterator[KnownFailure]:
    dice = Random(7)
    return (_failure(number, dice) for number in range(count))


def _failure(number: int, dice: Random) -> KnownFailure:
    error, workflow = dice.choice(_ERRORS), f"workflow-{number % 40}"
    return KnownFailure(
        number=number,
        fingerprint=f"{VERSION}:{dice.getrandbits(160):040x}",
        workflow=workflow,
        step=dice.choice(_STEPS),
        queue=f"queue-{number % 8}",
        category=dice.choice(_CATEGORIES),
        error_type=error,
        message=f"{error}: the service answered nothing for order {_text(dice, 40)}",
        title=f"{error} in {workflow}",
        filling=_text(dice, FILLING_LENGTH),
    )


def _text(dice: Random, length: int) -> str:
    return f"{dice.getrandbits(4 * length):0{length}x}"
