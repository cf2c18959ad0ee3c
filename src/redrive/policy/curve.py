"""Curves: how a wait grows with the number of failures, before the cap and the jitter."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from redrive.duration import Seconds, to_seconds
from redrive.errors import InvalidFieldError
from redrive.policy.bounds import MAX_DELAY_SECONDS, require, require_seconds, set_seconds

MAX_DELAYS = 100
"""The maximum length of a table: every run that is stored carries it."""
AFTER_A_MISTAKE = 3600.0
"""The wait, in seconds, after a custom function failed."""


class Curve(Protocol):
    def delay(self, failures: int) -> float | None:
        """Return the uncapped wait after a number of failures (1 is the first); None: no further attempt."""

    def formula(self, failures: object) -> str: ...


@dataclass(frozen=True, slots=True)
class Exponential:
    word: ClassVar[str] = "exponential"

    base: float
    factor: float = 2.0

    if TYPE_CHECKING:

        def __init__(self, base: Seconds, factor: float = ...) -> None: ...

    def __post_init__(self) -> None:
        set_seconds(self, "base", 0.0, MAX_DELAY_SECONDS)
        require("factor", self.factor, 1.0, 1000.0)

    def delay(self, failures: int) -> float:
        try:
            return self.base * self.factor ** (failures - 1)
        except OverflowError:
            return math.inf if self.base else 0.0

    def formula(self, failures: object) -> str:
        return f"{self.base:g} · {self.factor:g}^({failures} - 1)"


@dataclass(frozen=True, slots=True)
class Linear:
    word: ClassVar[str] = "linear"

    base: float
    step: float

    if TYPE_CHECKING:

        def __init__(self, base: Seconds, step: Seconds) -> None: ...

    def __post_init__(self) -> None:
        set_seconds(self, "base", 0.0, MAX_DELAY_SECONDS)
        set_seconds(self, "step", 0.0, MAX_DELAY_SECONDS)

    def delay(self, failures: int) -> float:
        try:
            return self.base + self.step * (failures - 1)
        except OverflowError:
            return math.inf if self.step else self.base

    def formula(self, failures: object) -> str:
        return f"{self.base:g} + {self.step:g} · ({failures} - 1)"


@dataclass(frozen=True, slots=True)
class Table:
    """The waits one by one: `Table([20, 300, 1800])`. After the last one, every further wait is the last."""

    word: ClassVar[str] = "table"

    delays: Sequence[float]

    if TYPE_CHECKING:

        def __init__(self, delays: Sequence[Seconds]) -> None: ...

    def __post_init__(self) -> None:
        given = self.delays
        if not isinstance(given, list | tuple) or not 1 <= len(given) <= MAX_DELAYS:
            raise InvalidFieldError("delays", f"must be a list of 1 to {MAX_DELAYS} waits, got {given!r:.80}")
        waits = tuple(require_seconds("delays", wait, 0.0, MAX_DELAY_SECONDS) for wait in given)
        object.__setattr__(self, "delays", waits)

    def delay(self, failures: int) -> float:
        return self.delays[min(failures, len(self.delays)) - 1]

    def formula(self, failures: object) -> str:
        return f"[{', '.join(f'{wait:g}' for wait in self.delays)}][{failures}]"


@dataclass(frozen=True, slots=True)
class Immediate:
    word: ClassVar[str] = "immediate"

    def delay(self, failures: int) -> float:
        return 0.0

    def formula(self, failures: object) -> str:
        return "0"


@dataclass(frozen=True, slots=True)
class Never:
    word: ClassVar[str] = "never"

    def delay(self, failures: int) -> None:
        return None

    def formula(self, failures: object) -> str:
        return "no retry"


@dataclass(frozen=True, slots=True)
class Custom:
    """Your own function: from the failures so far to seconds or a timedelta, or None for no further attempt.

    Its mistakes cannot strand work: a negative result counts as 0, and an exception or a result that is not a
    number as an hour, or the cap if that is less.
    """

    function: Callable[[int], Seconds | None]

    def delay(self, failures: int) -> float | None:
        try:
            answer = self.function(failures)
            seconds = None if answer is None else float(to_seconds(answer))
        except Exception:  # noqa: BLE001
            return AFTER_A_MISTAKE
        if seconds is None:
            return None
        return AFTER_A_MISTAKE if math.isnan(seconds) else max(0.0, seconds)

    def formula(self, failures: object) -> str:
        return f"{getattr(self.function, '__name__', 'custom')}({failures})"


CURVES: Mapping[str, type[Any]] = MappingProxyType(
    {curve.word: curve for curve in (Exponential, Linear, Table, Immediate, Never)}
)
"""The curves that can be stored, by their words. A Custom curve cannot, because it contains a function."""
