"""A failure: a classified exception."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec


class Category(StrEnum):
    TIMEOUT = "timeout"
    NETWORK = "network"
    PROVIDER_5XX = "provider_5xx"
    RATE_LIMIT = "rate_limit"
    RESOURCE = "resource"
    VALIDATION = "validation"
    PERMISSION = "permission"
    MISSING_CONFIG = "missing_config"
    PROVIDER_4XX = "provider_4xx"
    CONFLICT = "conflict"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


class ErrorClass(StrEnum):
    FINAL = "final"
    RETRYABLE = "retryable"
    RATE_LIMITED = "rate_limited"


class Delivery(StrEnum):
    """Whether the request reached the other side."""

    NEVER_SEEN = "never_seen"
    MAYBE_SEEN = "maybe_seen"
    SEEN = "seen"


class PayloadMismatch(msgspec.Struct, frozen=True, omit_defaults=True):
    """Names of fields of a payload that does not match the task.

    expected  the fields that the code expects
    given     the fields that the payload has
    missing   required fields that the payload does not have
    unknown   fields of the payload that the code does not know
    """

    expected: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


class Failure(NamedTuple):
    """A classified exception. A named tuple, because one is created for every failed attempt."""

    category: Category
    error_class: ErrorClass
    rule: str
    error_type: str
    message: str
    public_code: str
    public_message: str
    retry_after: float | None = None
    http_status: int | None = None
    delivery: Delivery = Delivery.MAYBE_SEEN
    unavailable: bool = False
    explicit_class: bool = False
    """The class was set explicitly: by a rule, a verdict, or a code that overrides its category's class."""
    mismatch: PayloadMismatch | None = None
    """Why the payload could not be read, if that is what failed."""

    @property
    def retryable(self) -> bool:
        return self.error_class is not ErrorClass.FINAL

    @property
    def may_have_executed(self) -> bool:
        """False only if the other side cannot have acted: it did not receive the request, or refused it."""
        if self.delivery is Delivery.SEEN:
            return self.category not in _REFUSALS
        return self.delivery is Delivery.MAYBE_SEEN


_REFUSALS = frozenset(
    {
        Category.RATE_LIMIT,
        Category.VALIDATION,
        Category.PERMISSION,
        Category.MISSING_CONFIG,
        Category.PROVIDER_4XX,
    }
)
