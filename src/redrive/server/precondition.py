"""Versions of what people edit: told as ETag, and asked for by If-Match (RFC 9110)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

from fastapi import Header

from redrive.errors import DriftError, NumberDriftError
from redrive.server.problem import ProblemError

IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match",
        max_length=500,
        description="The ETag that was read: it is changed only if it is still the same, else 412.",
    ),
]

_TAG = r'(?:W/)?"[\x21\x23-\x7e]*"'
_TAGS = re.compile(rf"{_TAG}(?:[ \t]*,[ \t]*{_TAG})*")
_STRONG = re.compile(r'(W/)?"([\x21\x23-\x7e]*)"')


def etag(version: str) -> dict[str, str]:
    """As a header."""
    return {"ETag": f'"{version}"'}


def versions(if_match: str | None) -> Sequence[str] | None:
    """Those that it may have; None: any. A weak one is never equal to anything."""
    text = "*" if if_match is None else if_match.strip()
    if text == "*":
        return None
    if not _TAGS.fullmatch(text):
        raise ProblemError(
            400,
            "malformed_if_match",
            "the header If-Match holds neither * nor ETags in quotes",
            hint='send the ETag as it was read, such as "6f1c2a9d0b3e4875"',
        )
    return [version for weak, version in _STRONG.findall(text) if not weak]


@contextmanager
def unchanged() -> Iterator[None]:
    """What has changed since it was read is not a conflict of states, but a condition that does not hold."""
    try:
        yield
    except NumberDriftError:
        raise
    except DriftError as error:
        hint = "read it again, then decide anew"
        raise ProblemError(412, "changed", str(error), hint=hint) from error
