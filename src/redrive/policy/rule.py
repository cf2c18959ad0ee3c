"""A rule of the application: which errors it recognises, and what they mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from redrive.model.failure import Category, Delivery, ErrorClass
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

    @classmethod
    def for_type(
        cls,
        kind: type[BaseException],
        category: Category,
        error_class: ErrorClass | None = None,
        *,
        public_code: str | None = None,
    ) -> Rule:
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
        return cls(name, predicate, category, error_class, public_code)

    def applies(self, error: BaseException) -> bool:
        try:
            return bool(self.matches(error))
        except BaseException:  # noqa: BLE001
            return False
