"""Generates the page on the meaning of errors of well-known libraries and protocols."""

from __future__ import annotations

from collections.abc import Mapping

from docs.reference.generate.page import NOTE, code, page, table

from redrive.model.failure import Category, Delivery, ErrorClass
from redrive.policy import known_errors as known
from redrive.policy.known_errors import ErrorMeaning

SOURCES: tuple[tuple[str, str, Mapping[str, ErrorMeaning]], ...] = (
    ("Library exceptions", "A subclass has the same meaning unless it is listed.", known.LIBRARY_ERRORS),
    (
        "General exceptions",
        "Exceptions of the standard library, and others that reveal little about the cause. Checked last.",
        known.GENERAL_ERRORS,
    ),
    (
        "HTTP statuses",
        "Any other 4xx is `provider_4xx` and final; any other 5xx is `provider_5xx` and retryable.",
        {str(status): meaning for status, meaning in known.STATUSES.items()},
    ),
    (
        "SQLSTATEs",
        "Matched by the whole code, then by its first three and first two characters.",
        known.SQLSTATES,
    ),
    ("gRPC codes", "", known.GRPC_CODES),
    ("AWS codes", "", known.AWS_CODES),
    ("SMTP codes", "Matched by the whole code, then by its first digit.", known.SMTP_CODES),
    ("SQLite codes", "Matched by the whole name, then by its first two words.", known.SQLITE_NAMES),
    (
        "Language models",
        "Errors in a stream that started with status 200, and exhausted quotas.",
        {**known.MODEL_ERRORS, **known.SPENT_QUOTA_CODES},
    ),
)
DELIVERIES = {Delivery.NEVER_SEEN: "no", Delivery.MAYBE_SEEN: "maybe", Delivery.SEEN: "yes"}


def known_error_page() -> str:
    classes = [(code(each), code(class_of(ErrorMeaning(each)))) for each in Category]
    parts = [
        "# Known errors",
        NOTE,
        "The meaning of errors that none of your own [rules](../guides/classifying.md) match. *Seen* is "
        "whether the other side received the request: Redrive repeats an unsafe call only if the other side "
        "did not receive it or rejected it. An error that is not on this page is `unknown` and final.",
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
