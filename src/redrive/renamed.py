"""Former names: an AttributeError about a renamed name says what to use instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

PUBLIC: Final = {
    "BlockingHandle": "redrive.types.SyncRunHandle",
    "BreakerOpenError": "redrive.errors.BreakerOpenError",
    "BudgetPolicy": "redrive.policy.BudgetPolicy",
    "Classifier": "redrive.policy.Classifier",
    "DeferredError": "redrive.errors.DeferredError",
    "Delivery": "redrive.policy.Delivery",
    "Dependency": "redrive.calls.Dependency",
    "ErrorClass": "redrive.policy.ErrorClass",
    "Failure": "redrive.policy.Failure",
    "Failures": "redrive.types.Failures",
    "SyncRunHandle": "redrive.types.SyncRunHandle",
    "UnavailableError": "redrive.errors.UnavailableError",
    "current_attempt": "redrive.calls.current_attempt",
    "log_fields": "redrive.calls.log_fields",
    "new_encryption_key": "redrive.settings.new_encryption_key",
}
"""Names that used to be in `redrive`, and where they are now."""

METHODS: Final = {
    "breaker_book": "app.breakers()",
    "breaker_states": "app.breakers().list()",
    "counts": "app.runs().counts()",
    "credentials": "app.members().credentials",
    "define": "app.start(..., connection=...)",
    "desk": "app.failures()",
    "directory": "app.members()",
    "force_breaker": "app.breakers().force(...)",
    "get": "run.view()",
    "idempotency": "app.idempotent",
    "overview": "app.failures().overview()",
    "pause": "app.queues().pause(...)",
    "prepare": "app.start(..., connection=...)",
    "queue_book": "app.queues()",
    "redrive_function": "the option `redrive` of the task or template",
    "release_breaker": "app.breakers().release(...)",
    "resume": "app.queues().resume(...)",
    "rotate_keys": "app.members().rotate_encryption_keys()",
    "sessions": "app.members().sessions",
    "start_within": "app.start(..., connection=...)",
}
"""Former methods of applications and run handles, and what replaces them."""


class NamesRenamed:
    """Raises AttributeError for an unknown attribute; for a renamed one, with the new name."""

    __slots__ = ()

    if not TYPE_CHECKING:  # type checkers must still report unknown attributes

        def __getattr__(self, name: str) -> Any:
            message = f"{type(self).__name__!r} object has no attribute {name!r}"
            if name in METHODS:
                message += f"; use {METHODS[name]}"
            raise AttributeError(message, name=name, obj=self)
