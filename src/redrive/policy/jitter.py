"""Jitter: the interval around a planned wait from which the actual wait is drawn.

Jitter keeps callers that failed at the same time from retrying at the same time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from redrive.duration import Seconds
from redrive.errors import InvalidFieldError
from redrive.policy.bounds import MAX_DELAY_SECONDS, require, set_seconds


class WaitPlan(Protocol):
    """The values from which a jitter computes its interval."""

    @property
    def seconds(self) -> float:
        """The planned wait."""

    @property
    def cap(self) -> float:
        """The maximum planned wait."""

    @property
    def first(self) -> float:
        """The planned wait after the first failure."""

    @property
    def previous(self) -> float:
        """The previous wait."""


class Jitter(Protocol):
    """Each kind of jitter has a `word`, its stored name, and a `syntax` for settings and the command line."""

    def interval(self, plan: WaitPlan) -> tuple[float, float]: ...

    def describe(self) -> str: ...


@dataclass(frozen=True, slots=True)
class NoJitter:
    word: ClassVar[str] = "none"
    syntax: ClassVar[str] = word

    def interval(self, plan: WaitPlan) -> tuple[float, float]:
        return plan.seconds, plan.seconds

    def describe(self) -> str:
        return "no jitter"


@dataclass(frozen=True, slots=True)
class Proportional:
    """The planned wait, plus or minus up to `ratio` of it."""

    word: ClassVar[str] = "proportional"
    syntax: ClassVar[str] = "25%"

    ratio: float

    def __post_init__(self) -> None:
        require("ratio", self.ratio, 0.0, 1.0)

    def interval(self, plan: WaitPlan) -> tuple[float, float]:
        return plan.seconds * (1.0 - self.ratio), plan.seconds * (1.0 + self.ratio)

    def describe(self) -> str:
        return f"jitter ±{self.ratio:.0%}"


@dataclass(frozen=True, slots=True)
class Additive:
    """The planned wait plus up to `maximum`."""

    word: ClassVar[str] = "additive"
    syntax: ClassVar[str] = "additive:SECONDS"

    maximum: float

    if TYPE_CHECKING:

        def __init__(self, maximum: Seconds) -> None: ...

    def __post_init__(self) -> None:
        set_seconds(self, "maximum", 0.0, MAX_DELAY_SECONDS)

    def interval(self, plan: WaitPlan) -> tuple[float, float]:
        return plan.seconds, plan.seconds + self.maximum

    def describe(self) -> str:
        return f"jitter +0 to {self.maximum:g} s"


@dataclass(frozen=True, slots=True)
class Full:
    """From 0 to the planned wait."""

    word: ClassVar[str] = "full"
    syntax: ClassVar[str] = word

    def interval(self, plan: WaitPlan) -> tuple[float, float]:
        return 0.0, plan.seconds

    def describe(self) -> str:
        return "full jitter"


@dataclass(frozen=True, slots=True)
class Equal:
    """From half the planned wait to the planned wait."""

    word: ClassVar[str] = "equal"
    syntax: ClassVar[str] = word

    def interval(self, plan: WaitPlan) -> tuple[float, float]:
        return plan.seconds / 2.0, plan.seconds

    def describe(self) -> str:
        return "equal jitter"


@dataclass(frozen=True, slots=True)
class Decorrelated:
    """From the first wait to `factor` times the previous wait, up to the cap. Ignores the curve."""

    word: ClassVar[str] = "decorrelated"
    syntax: ClassVar[str] = "decorrelated:FACTOR"

    factor: float = 3.0

    def __post_init__(self) -> None:
        require("factor", self.factor, 1.0, 1000.0)

    def interval(self, plan: WaitPlan) -> tuple[float, float]:
        return plan.first, max(plan.first, min(plan.cap, plan.previous * self.factor))

    def describe(self) -> str:
        return f"decorrelated jitter ×{self.factor:g}"


JITTERS: Mapping[str, type[Any]] = MappingProxyType(
    {jitter.word: jitter for jitter in (NoJitter, Full, Equal, Proportional, Additive, Decorrelated)}
)
"""All kinds of jitter by their words."""

JITTER_SYNTAX = ", ".join(jitter.syntax for jitter in JITTERS.values())


def parse_jitter(text: str) -> Jitter:
    """Parse a jitter in one of the forms of `JITTER_SYNTAX`."""
    word, _, argument = text.strip().lower().removeprefix("±").partition(":")
    percent = word.endswith("%") and not argument
    if percent:
        word, argument = Proportional.word, word.removesuffix("%")
    kind = JITTERS.get(word)
    if kind is None or bool(argument) != bool(fields(kind)):
        raise _bad_jitter(text)
    try:
        numbers = [float(argument)] if argument else []
    except ValueError:
        raise _bad_jitter(text) from None
    if percent and not 0.0 <= numbers[0] <= 100.0:
        raise InvalidFieldError("jitter", f"must be from 0% to 100%, got {text!r}")
    try:
        jitter: Jitter = kind(*(number / 100.0 if percent else number for number in numbers))
    except InvalidFieldError as error:
        raise InvalidFieldError("jitter", f"is {word}, whose {error}") from None
    return jitter


def jitter_notation(jitter: Jitter) -> str:
    """Format a jitter as `parse_jitter` reads it; a custom class as its name."""
    kind = type(jitter)
    if JITTERS.get(getattr(kind, "word", "")) is not kind:
        return kind.__name__
    if isinstance(jitter, Proportional):
        return f"{100 * jitter.ratio:g}%"
    arguments = [f"{getattr(jitter, field.name):g}" for field in fields(kind)]
    return ":".join([kind.word, *arguments])


def _bad_jitter(text: str) -> InvalidFieldError:
    return InvalidFieldError("jitter", f"must be one of {JITTER_SYNTAX}; got {text!r}")
