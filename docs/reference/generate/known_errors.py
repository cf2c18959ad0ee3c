"""The page of what the errors of well-known libraries and protocols mean."""

from __future__ import annotations

from collections.abc import Mapping

from docs.reference.generate.page import NOTE, code, page, table

from redrive.model.failure import Category, Delivery, ErrorClass
from redrive.policy import known_errors as known
from redrive.policy.known_errors import ErrorMeaning

SOURCES: tuple[tuple[str, str, Mapping[str, ErrorMeaning]], ...] = (
    ("Types of libraries", "A subclass means the same, unless it is listed itself.", known.LIBRARY_ERRORS),
    (
        "General types",
        "Of the standard library, and others that say little by themselves: asked last.",
        known.GENERAL_ERRORS,
    ),
    (
        "HTTP statuses",
        "Every other 4xx is `provider_4xx` and final, every other 5xx `provider_5xx` and retryable.",
        {str(status): meaning for status, meaning in known.STATUSES.items()},
    ),
    ("SQLSTATEs", "By the whole code, then its first three, then its first two characters.", known.SQLSTATES),
    ("gRPC codes", "", known.GRPC_CODES),
    ("AWS codes", "", known.AWS_CODES),
    ("SMTP codes", "By the whole code, then its first digit.", known.SMTP_CODES),
    ("SQLite codes", "By the whole name, then its first two words.", known.SQLITE_NAMES),
    (
        "Language models",
        "What goes wrong after a stream has begun, with the status 200; and quotas that are spent.",
        {**known.MODEL_ERRORS, **known.SPENT_QUOTA_CODES},
    ),
)
DELIVERIES = {Delivery.NEVER_SEEN: "no", Delivery.MAYBE_SEEN: "maybe", Delivery.SEEN: "yes"}


def known_error_page() -> str:
    classes = [(code(each), code(class_of(ErrorMeaning(each)))) for each in Category]
    parts = [
        "# Known errors",
        NOTE,
        "What an error means when your own [rules](../guides/classifying.md) do not say it. *Seen* "
        "tells whether the other side has got the request: a call that is unsafe to repeat is repeated only "
        "when it has not, or has refused. An error that nothing here recognises is `unknown`, and final.",
        "## Categories",
        table(("category", "class"), classes),
    ]
    for title, note, meanings in SOURCES:
        parts += [f"## {title}", note, table(("error", "category", "class", "seen"), _rows(meanings))]
    return page(*parts)


def _rows(meanings: Mapping[str, ErrorMeaning]) -> list[tuple[str, ...]]:
    alike: dict[ErrorMeaning, list[str]] = {}
    for name, meaning in meanings.items():
        alike.setdefault(meaning, []).append(name)
    return [
        (
            ", ".join(code(_name(each)) for each in names),
            code(meaning.category),
            code(class_of(meaning)),
            seen,
        )
        for meaning, names in alike.items()
        for seen in [DELIVERIES[meaning.delivery]]
    ]


def _name(key: str) -> str:
    return key.removeprefix("builtins:").replace(":", ".")


def class_of(meaning: ErrorMeaning) -> ErrorClass:
    return meaning.error_class or known.CLASS_OF_CATEGORY.get(meaning.category, ErrorClass.FINAL)
