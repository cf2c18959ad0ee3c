"""What the terminal shows while the demo runs."""

from __future__ import annotations

import time

from redrive.app import Redrive
from redrive.demo.figures import DemoTotals, read_totals
from redrive.demo.path import NAMED, GuidedPath, PathFacts
from redrive.demo.screen import DemoScreen
from redrive.demo.text import DemoAddresses, ScreenText
from redrive.demo.world import World
from redrive.model.audit import Action

RARELY = 30.0
"""Seconds between two lines where there is no terminal and nothing has changed."""

LINK_SECONDS = 3000.0
HERE_AGAIN = "Sign in once more with"


class Display:
    def __init__(
        self, screen: DemoScreen, app: Redrive, world: World, course: GuidedPath, where: DemoAddresses
    ) -> None:
        self._screen = screen
        self._words = ScreenText(screen)
        self._app = app
        self._world = world
        self._path = course
        self._where = where
        self._began = time.monotonic()
        self._seen: frozenset[int] = frozenset()
        self._place: object = None
        self._said: list[str] = []
        self._told_at = 0.0
        self._trouble: tuple[str, ...] = ()
        self._sign_ins = 0
        self._link_at = self._began

    def listen(self, line: str) -> None:
        """What the server says about who looks at what."""
        if line.startswith(NAMED):
            self._seen |= {int(line.removeprefix(NAMED))}

    async def update(self) -> None:
        now, facts = await read_totals(self._app, self._world), await self._path.facts()
        await self._renew_link()
        done = facts.done(self._seen)
        if self._screen.live:
            self._draw(now, facts, done)
        else:
            self._tell(now, facts, done)

    def _draw(self, now: DemoTotals, facts: PathFacts, done: tuple[bool, ...]) -> None:
        words = self._words
        head, path = list(words.head(self._where)), words.path(facts, done, self._where)
        body = [*path, words.status(now, self._seconds), words.trouble(now)]
        if self._screen.has_room(len(head) + len(body)):
            self._screen.draw([*head, *body])
            return
        if head != self._said:
            for line in head:
                self._screen.say(line)
            self._said = head
        self._screen.draw(body)

    def _tell(self, now: DemoTotals, facts: PathFacts, done: tuple[bool, ...]) -> None:
        """Everything at the beginning; then what has changed, and from time to time how it stands."""
        head = list(self._words.head(self._where))
        if head != self._said:
            for line in (HERE_AGAIN, self._where.link) if self._said else head:
                self._screen.say(line)
            self._said = head
        place = (done, facts.letter, facts.operation)
        changed = bool(facts.group) and place != self._place
        if changed:
            for line in self._words.path(facts, done, self._where):
                self._screen.say(line)
            self._place = place
        if changed or now.down != self._trouble or self._seconds - self._told_at >= RARELY:
            told = (self._words.status(now, self._seconds), self._words.trouble(now))
            self._screen.say("  ".join(filter(None, told)))
            self._told_at, self._trouble = self._seconds, now.down

    async def _renew_link(self) -> None:
        """A link signs in once, and not for ever: whoever needs another one finds it here."""
        desk = await self._app.desk(by="demo")
        found = (await desk.audit.list(action=Action.SESSION_STARTED, size=1)).entries
        newest = found[0].sequence if found else 0
        old = time.monotonic() - self._link_at > LINK_SECONDS
        if newest != self._sign_ins or old:
            self._sign_ins, self._link_at = newest, time.monotonic()
            self._where = self._where._replace(link=await sign_in_link(self._app, self._where.pages))

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._began


async def sign_in_link(app: Redrive, pages: str) -> str:
    link = await (await app.sessions()).embedded_link()
    return pages if link is None else f"{pages}/app/sign-in#{link.token}"
