"""A rule of the application: which errors it recognises, and what they mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from redrive.errors import InvalidValueError
from redrive.model.failure import Category, Delivery, ErrorClass
from redrive.policy.bounds import choice, require_kind, require_whole
from redrive.policy.recognise import status_of


@dataclass(frozen=True, slots=True)
class Rule:
    """An application's own rule. Build one with `for_type`, `for_status` or `when`."""

    name: str
    matches: Callable[[BaseException], bool]
    category: Category
    error_class: ErrorClass | None = None
    public_code: str | None = None
    delivery: Delivery = Delivery.MAYBE_SEEN

    def __post_init__(self) -> None:
        object.__setattr__(self, "category", choice("category", self.category, Category))
        if self.error_class is not None:
            object.__setattr__(self, "error_class", choice("error_class", self.error_class, ErrorClass))
        if not callable(self.matches):
            raise InvalidValueError(f"the predicate of a rule must be a function, got {self.matches!r}")

    @classmethod
    def for_type(
        cls,
        kind: type[BaseException],
        category: Category,
        error_class: ErrorClass | None = None,
        *,
        public_code: str | None = None,
    ) -> Rule:
        """Errors of this type and its subclasses."""
        require_kind("the type of a rule", kind, type)
        return cls(
            kind.__qualname__,
            lambda error: issubclass(type(error), kind),
            category,
            error_class,
            public_code,
        )

    @classmethod
    def for_status(
        cls,
        status: int,
        category: Category,
        error_class: ErrorClass | None = None,
        *,
        public_code: str | None = None,
    ) -> Rule:
        """Errors that carry this HTTP status."""
        require_whole("status", status, 100, 599)
        return cls(
            f"status {status}",
            lambda error: status_of(error) == status,
            category,
            error_class,
            public_code,
            Delivery.SEEN,
        )

    @classmethod
    def when(
        cls,
        name: str,
        predicate: Callable[[BaseException], bool],
        category: Category,
        error_class: ErrorClass | None = None,
        *,
        public_code: str | None = None,
    ) -> Rule:
        """Errors for which the predicate is true. One that raises does not apply."""
        return cls(name, predicate, category, error_class, public_code)

    def applies(self, error: BaseException) -> bool:
        try:
            return bool(self.matches(error))
        except BaseException:  # noqa: BLE001
            return False
