"""A guide through the pages: a few steps, each with a link. Only `redrive demo` has one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from starlette.requests import Request

from redrive.server.site import site_of

COOKIE = "redrive_guide"
HIDDEN = "hidden"


class GuideStep(NamedTuple):
    """
    text     what there is to be seen or done
    href     where; empty as long as there is nothing
    label    what the link says
    command  the same on the command line
    """

    title: str
    text: str
    href: str
    label: str
    command: str
    done: bool


Guiding = Callable[[str], Awaitable[Sequence[GuideStep]]]
"""The steps, for somebody who is on the page at this path."""


async def guide_for(request: Request) -> Sequence[GuideStep]:
    """Nothing where there is no guide, or where somebody has put it away."""
    guiding = site_of(request.scope).guide
    if guiding is None or request.cookies.get(COOKIE) == HIDDEN:
        return ()
    return await guiding(request.url.path)
