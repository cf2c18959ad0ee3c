"""The guide: a banner on the admin pages with the steps of the path, each with a link to where it is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple
from urllib.parse import quote

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup
from starlette.requests import Request

from redrive.app import Redrive
from redrive.demo.path import (
    NAMED,
    SEE,
    TITLES,
    UNDERSTAND,
    GuidedPath,
    PathFacts,
    ShippingZones,
    plan_command,
)
from redrive.model.caller import Caller
from redrive.server.banner import Banner

ADMIN = "/app/admin"
LETTERS = f"{ADMIN}/dlq"
COOKIE, HIDDEN = "redrive_guide", "hidden"
"""guide.js sets it."""


class GuideStep(NamedTuple):
    """
    text     what the reader can see or do there
    href     the address of it; empty as long as there is none
    label    the text of the link
    command  the same on the command line
    """

    title: str
    text: str
    href: str
    label: str
    command: str
    done: bool


class Guide:
    """`tell` receives a line for each step that somebody has seen."""

    def __init__(self, app: Redrive, zones: ShippingZones, outside: str, tell: Callable[[str], None]) -> None:
        self._path = GuidedPath(app, zones)
        self._outside = outside
        self._tell = tell
        self._seen: frozenset[int] = frozenset()

    def banner(self) -> Banner:
        return Banner(self._render, [files("redrive.demo") / name for name in ("guide.css", "guide.js")])

    async def _render(self, request: Request, _: Caller) -> str:
        if request.cookies.get(COOKIE) == HIDDEN:
            return ""
        return render(await self.steps(request.url.path))

    async def steps(self, path: str) -> Sequence[GuideStep]:
        """For somebody who is on the page at this path."""
        facts = await self._path.facts()
        self._notice(path, facts)
        done = facts.done(self._seen)
        return [
            GuideStep(title, text, href, label, command, done[number])
            for number, (title, (text, href, label, command)) in enumerate(
                zip(TITLES, self._words(facts), strict=True)
            )
        ]

    def _notice(self, path: str, facts: PathFacts) -> None:
        """A list shows that there is a failure; to understand it, one opens one of its dead letters."""
        is_letter = path.startswith(f"{LETTERS}/") and not path.startswith(f"{LETTERS}/groups/")
        for number, there in ((SEE, path.startswith(LETTERS)), (UNDERSTAND, is_letter)):
            if facts.group and there and number not in self._seen:
                self._seen |= {number}
                self._tell(f"{NAMED}{number}")

    def _words(self, facts: PathFacts) -> Sequence[tuple[str, str, str, str]]:
        group = quote(facts.fingerprint, safe="")
        letter = f"{LETTERS}/{facts.letter}" if facts.letter else ""
        planned = bool(facts.operation) and not facts.started
        plan = f"{ADMIN}/replays/{facts.operation}" if planned else f"{ADMIN}/replays/new?group={group}"
        watch = f"{ADMIN}/replays/{facts.operation}" if facts.started else ""
        return (
            (
                "Equal failures are one group. Look for parcels that get no label.",
                LETTERS,
                "Dead letters",
                "redrive dlq groups",
            ),
            (
                "One order, its attempts and its verdict: no shipping zone for Norway.",
                letter,
                "One of them",
                f"redrive dlq view {facts.letter}" if facts.letter else "",
            ),
            ("Give Norway a zone, in Acme's own table.", self._outside, "Acme and the outside world", ""),
            (
                "A plan first; then a few of them, and the others when these went well.",
                plan if facts.group else "",
                "Start the plan" if planned else "Plan the replay",
                plan_command(facts.group),
            ),
            (
                "Each goes on where it stopped. No card is charged again.",
                watch,
                "The replay",
                f"redrive replay watch {facts.operation}" if facts.started else "",
            ),
        )


def render(steps: Sequence[GuideStep]) -> Markup:
    upcoming = next((step for step in steps if not step.done), None)
    return Markup(_template().render(steps=steps, upcoming=upcoming))  # noqa: S704 - the template escapes


@cache
def _template() -> Template:
    source = (files("redrive.demo") / "guide.html").read_text(encoding="utf-8")
    made = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return made.from_string(source)
