"""Public codes: a failure as a code and one line of text, without tracebacks and server paths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from redrive.errors import InvalidValueError
from redrive.model.failure import Category
from redrive.policy.bounds import choice

_SENTENCES = {
    Category.TIMEOUT: "The service did not answer in time.",
    Category.NETWORK: "The service could not be reached.",
    Category.PROVIDER_5XX: "The service had a problem.",
    Category.RATE_LIMIT: "The service is busy.",
    Category.RESOURCE: "A resource is exhausted.",
    Category.VALIDATION: "The data is not valid.",
    Category.PERMISSION: "Access was denied.",
    Category.MISSING_CONFIG: "The service is not set up.",
    Category.PROVIDER_4XX: "The service rejected the request.",
    Category.CONFLICT: "The request conflicts with an earlier change.",
    Category.CANCELLED: "The work was cancelled.",
    Category.UNKNOWN: "Something went wrong.",
}


@dataclass(frozen=True, slots=True)
class PublicCodes:
    """An application's table of public codes.

    The status is looked up before the category; `default` is the code if neither is found. Without tables and
    default, the code is the name of the category.
    """

    by_category: Mapping[Category, str] = field(default_factory=dict)
    by_status: Mapping[int, str] = field(default_factory=dict)
    messages: Mapping[str, str] = field(default_factory=dict)
    default: str | None = None

    def __post_init__(self) -> None:
        by_category = {
            choice("category", category, Category): code for category, code in self.by_category.items()
        }
        object.__setattr__(self, "by_category", by_category)
        for code, message in self.messages.items():
            if message.splitlines() != [message]:
                raise InvalidValueError(f"the public message of {code} must be one line, got {message!r}")

    def code(self, category: Category, status: int | None) -> str:
        by_status = None if status is None else self.by_status.get(status)
        return by_status or self.by_category.get(category) or self.default or category.name

    def message(self, code: str, category: Category) -> str:
        return self.messages.get(code) or _SENTENCES[category]


CATEGORY_CODES = PublicCodes()

GATEWAY_CODES = PublicCodes(
    by_category={
        Category.TIMEOUT: "GW_TIMEOUT",
        Category.NETWORK: "GW_5XX",
        Category.PROVIDER_5XX: "GW_5XX",
        Category.RATE_LIMIT: "GW_5XX",
        Category.VALIDATION: "GW_4XX",
        Category.PROVIDER_4XX: "GW_4XX",
        Category.CONFLICT: "GW_4XX",
        Category.PERMISSION: "FORBIDDEN",
        Category.RESOURCE: "IO_ERROR",
    },
    by_status={410: "EXPIRED", 413: "TOO_LARGE"},
    messages={
        "NOT_PDF": "The file is not a PDF.",
        "TOO_LARGE": "The file is too large.",
        "GW_4XX": "The file could not be converted.",
        "GW_5XX": "The converter is not available at the moment.",
        "GW_TIMEOUT": "The converter did not answer in time.",
        "IO_ERROR": "The result could not be stored.",
        "NOT_READY": "The result is not ready yet.",
        "EXPIRED": "The result has expired.",
        "FORBIDDEN": "Access was denied.",
        "UNKNOWN": "Something went wrong.",
    },
    default="UNKNOWN",
)
"""An example: the codes of a service that has PDF files converted behind a gateway."""
