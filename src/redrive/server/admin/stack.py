"""A stored traceback, read again: the exceptions that it tells of, and the frames that each has passed.

What a person wants to know first is where their own code failed. So the exception that was caught comes
first, before those that led to it; its frames come deepest first, those of the application apart from those
of libraries. A text in which no frame is found, such as one of another language, stays what it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from redrive.server.admin.stack_reading import Found, StackFrame, read

MAX_EXCEPTIONS = 20
MAX_FRAMES = 200


class Raised(NamedTuple):
    """An exception. `relation` tells what it is to the one before it: its cause, or what was being handled.

    member  its number in a group of exceptions
    depth   how many groups it is in
    gap     a part of the text was left out when it was stored
    """

    said: str
    application: tuple[StackFrame, ...] = ()
    libraries: tuple[StackFrame, ...] = ()
    relation: str = ""
    member: str = ""
    depth: int = 0
    gap: str = ""


class Stack(NamedTuple):
    """`raised` is empty where nothing was understood; `text` is the whole, as it was stored."""

    raised: tuple[Raised, ...]
    text: str
    left: int = 0

    @property
    def frames(self) -> int:
        return sum(len(each.application) + len(each.libraries) for each in self.raised)


def stack_of(text: str | None) -> Stack:
    text = (text or "").rstrip()
    found = read(text)
    if not any(each.frames for each in found):
        return Stack((), text)
    told = [each for each in _told(found) if each.frames or each.said]
    raised = tuple(_raised(each) for each in told[:MAX_EXCEPTIONS])
    return Stack(raised, text, len(told) - len(raised))


def _told(found: Sequence[Found]) -> list[Found]:
    """What was caught before what led to it, and groups before their members."""
    if not found:
        return []
    lowest = min(each.depth for each in found)
    families: list[list[Found]] = []
    for each in found:
        if each.depth == lowest or not families:
            families.append([each])
        else:
            families[-1].append(each)
    chains = _chains(families)
    return [each for chain in chains for family in reversed(chain) for each in _family(family)]


def _family(family: list[Found]) -> list[Found]:
    first, *members = family
    return [first, *_told(members)]


def _chains(families: Iterable[list[Found]]) -> list[list[list[Found]]]:
    """Exceptions that led to each other; each member of a group begins a chain of its own."""
    numbered: list[tuple[int, list[Found]]] = []
    for family in families:
        before = numbered[-1][0] if numbered else 0
        numbered.append((before + bool(family[0].member), family))
    chains = [[family for _, family in chain] for _, chain in groupby(numbered, key=lambda each: each[0])]
    for chain in chains:
        _relate([family[0] for family in chain])
    return chains


def _relate(chain: list[Found]) -> None:
    """In the text, the later one says what it is to the earlier one; told backwards, it is the other way."""
    links = [each.link for each in chain[1:]] + [""]
    members = [each.member for each in chain]
    for each, link in zip(chain, links, strict=True):
        each.link, each.member = link, ""
    chain[-1].member = members[0]


def _raised(found: Found) -> Raised:
    frames = list(reversed(found.frames))[:MAX_FRAMES]
    return Raised(
        "\n".join(found.said).strip("\n"),
        tuple(each for each in frames if each.application),
        tuple(each for each in frames if not each.application),
        found.link,
        found.member,
        found.depth,
        found.gap,
    )
