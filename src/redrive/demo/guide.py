"""The guide in the pages: the steps of the path, each with a link to where it is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from urllib.parse import quote

from redrive.app import Redrive
from redrive.demo.course import NAMED, SEE, TITLES, UNDERSTAND, Course, Facts, plan_command
from redrive.demo.shop_floor import ShopFloor
from redrive.server.guide import GuideStep

ADMIN = "/app/admin"
LETTERS = f"{ADMIN}/dlq"


class Guide:
    """The box in the pages. `tell` hears of a step that somebody has seen."""

    def __init__(self, app: Redrive, floor: ShopFloor, outside: str, tell: Callable[[str], None]) -> None:
        self._course = Course(app, floor)
        self._outside = outside
        self._tell = tell
        self._seen: frozenset[int] = frozenset()

    async def __call__(self, path: str) -> Sequence[GuideStep]:
        facts = await self._course.facts()
        self._notice(path, facts)
        done = facts.done(self._seen)
        return [
            GuideStep(title, text, href, label, command, done[number])
            for number, (title, (text, href, label, command)) in enumerate(
                zip(TITLES, self._words(facts), strict=True)
            )
        ]

    def _notice(self, path: str, facts: Facts) -> None:
        """A list shows that there is a failure; to understand it, one opens one of its dead letters."""
        is_letter = path.startswith(f"{LETTERS}/") and not path.startswith(f"{LETTERS}/groups/")
        for number, there in ((SEE, path.startswith(LETTERS)), (UNDERSTAND, is_letter)):
            if facts.group and there and number not in self._seen:
                self._seen |= {number}
                self._tell(f"{NAMED}{number}")

    def _words(self, facts: Facts) -> Sequence[tuple[str, str, str, str]]:
        group = quote(facts.fingerprint, safe="")
        letter = f"{ADMIN}/dlq/{facts.letter}" if facts.letter else ""
        planned = bool(facts.operation) and not facts.started
        plan = f"{ADMIN}/replays/{facts.operation}" if planned else f"{ADMIN}/replays/new?group={group}"
        watch = f"{ADMIN}/replays/{facts.operation}" if facts.started else ""
        return (
            (
                "Equal failures are one group. Look for parcels that get no label.",
                f"{ADMIN}/dlq",
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
