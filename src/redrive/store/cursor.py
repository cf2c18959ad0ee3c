"""Cursors: opaque text that says where the next page of a list by time starts."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from math import isfinite
from typing import NamedTuple

from redrive.errors import InvalidValueError, NotStorableError
from redrive.model.query import Order
from redrive.policy.codec import decode, encode

MAX_CURSOR_LENGTH = 500


class Cursor(NamedTuple):
    """The last item of the previous page."""

    order: Order
    at: float
    id: str

    def __str__(self) -> str:
        return urlsafe_b64encode(encode([str(self.order), self.at, self.id]).encode()).decode()

    @classmethod
    def read(cls, text: str, order: Order) -> Cursor:
        match content(text):
            case [str(known), float(at), str(last)] if (
                known in list(Order) and isfinite(at) and last.isprintable()
            ):
                if known != order:
                    raise InvalidValueError(
                        f"the cursor belongs to a list sorted {known} first, but this list is sorted "
                        f"{order} first; start from the first page, without a cursor"
                    )
                return cls(order, at, last)
        raise InvalidValueError("the cursor is not valid; start from the first page, without a cursor")


def content(text: object) -> object:
    """Decode a cursor; None if it cannot be decoded."""
    if not isinstance(text, str) or len(text) > MAX_CURSOR_LENGTH:
        return None
    try:
        return decode(urlsafe_b64decode(text.encode()).decode())
    except (binascii.Error, ValueError, NotStorableError):
        return None
