"""Classification of an error that is known only as a text, by its words.

An HTTP status decides first, as in "503 Service Unavailable". Otherwise the first entry of WORDS that the
text contains decides. The order matters: "connection timeout" is a timeout, and "connection pool exhausted" a
lack of resources.
"""

from __future__ import annotations

import re

from redrive.model.failure import Category

MAX_SEARCHED = 2_000
"""How many characters of a text are searched."""

_STATUS = re.compile(
    r"(?:^\s*|\b(?:https?(?:/[\d.]+)?|status(?:[ _]code)?|code|error|returned|response)\s*[:=]?\s*)"
    r"([45]\d\d)\b"
    r"(?!\s*(?:[:.]\d|ms|s\b|sec|bytes|rows|items))",
    re.IGNORECASE,
)

WORDS: tuple[tuple[Category, tuple[str, ...]], ...] = (
    (
        Category.RATE_LIMIT,
        (
            r"rate[ _-]?limit",
            "too many requests",
            "throttl",
            r"requests per (?:second|minute|hour)",
        ),
    ),
    (
        Category.PERMISSION,
        (
            "permission",
            r"access (?:is )?denied",
            "forbidden",
            r"unauthori[sz]ed|not authori[sz]ed|unauthenticated",
            "not permitted",
            r"authentication (?:failed|error|required)|login failed",
            r"(?:invalid|wrong|expired|bad) (?:credentials?|password|token|api[ _-]?key)",
        ),
    ),
    (
        Category.VALIDATION,
        (
            "validation|invalid|malformed|schema",
            r"missing (?:required |mandatory )?(?:field|parameter|argument|key|value)",
            "is required|required field",
            "bad request|unprocessable",
            r"(?:could not|cannot|can't|failed to) (?:parse|decode)",
            "parse error|syntax error|not a valid|unexpected token",
        ),
    ),
    (
        Category.RESOURCE,
        (
            r"out of memory|outofmemory|\boom\b|cannot allocate|memory (?:limit|exhausted)",
            r"no space|disk (?:is )?full",
            r"quota (?:is )?(?:exceeded|exhausted)|exceeded (?:\w+ ){0,3}quota",
            "too many (?:open files|connections|clients)",
            r"pool (?:is )?(?:exhausted|full)",
            r"resources? (?:temporarily )?(?:exhausted|unavailable)",
            "insufficient (?:memory|resources|storage|capacity)",
        ),
    ),
    (
        Category.TIMEOUT,
        (r"time[ -]?out|timed[ -]?out|etimedout", "deadline exceeded", "took too long"),
    ),
    (
        Category.NETWORK,
        (
            r"connection|(?:could not|cannot|can't|failed to|unable to) connect|econn\w+",
            "unreachable|no route to host|network",
            r"name resolution|name or service not known|getaddrinfo|\bdns\b",
            r"broken pipe|socket|\bssl\b|\btls\b",
            "server disconnected|peer reset|reset by peer",
        ),
    ),
    (
        Category.PROVIDER_5XX,
        (
            r"unavailable|(?:service|server) (?:is )?(?:currently )?(?:down|busy)",
            r"bad gateway|gateway error|internal (?:server )?error|server error",
            "overload|over capacity|deadlock|maintenance",
            r"temporary|transient|(?:try|retry)(?: it)? (?:again|later)",
        ),
    ),
)
"""Each category, and the expressions that stand for it, in upper or lower case."""

_PATTERNS = tuple((category, re.compile("|".join(words), re.IGNORECASE)) for category, words in WORDS)


class ReportedError(Exception):
    """An error that another system reported as a text. Rules of a classifier see it like an exception."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.status_code = status_in(text)


def status_in(text: str) -> int | None:
    """Return the HTTP status that a text names, as in "503 Service Unavailable" or "HTTP 429"."""
    found = _STATUS.search(text[:MAX_SEARCHED])
    return None if found is None else int(found[1])


def category_in(text: str) -> Category | None:
    """Return the category that the words of a text stand for; None if there are none."""
    searched = text[:MAX_SEARCHED]
    return next((category for category, words in _PATTERNS if words.search(searched)), None)
