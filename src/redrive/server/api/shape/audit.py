"""The audit, as requests and answers have it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from redrive.server.api.shape.base import Asked, Moment, Shown


class EntryShape(Shown):
    """What was done, by whom, to what. `hash` ties it to the entry before it."""

    sequence: int
    at: Moment
    actor: str
    action: str
    subjects: list[str]
    detail: dict[str, Any]
    hash: str


class EntryPage(Shown):
    items: list[EntryShape]
    next_cursor: str | None


class HeadShape(Shown):
    """Where the chain ends. Keep `text` elsewhere, and have it verified later."""

    org: str
    sequence: int
    hash: str
    text: str


class Verification(Asked):
    """`head` is the text of one that was taken before: the chain must still hold its entry."""

    head: Annotated[str | None, Field(min_length=1, max_length=500)] = None


class FaultShape(Shown):
    kind: str
    sequence: int
    text: str


class ChainShape(Shown):
    """`found` counts all faults, `faults` lists the first of them."""

    sound: bool
    checked: int
    found: int
    faults: list[FaultShape]
    head: HeadShape
