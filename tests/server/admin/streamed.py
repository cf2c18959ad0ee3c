"""A stream of scores for the tests of its pages, with a projector that succeeds and one that may fail."""

from __future__ import annotations

from typing import Any

from tests.server.house import House

from redrive.errors import FinalError
from redrive.events import Event, Stream
from redrive.model.fact import Fact
from redrive.model.stream import START, Gap, StreamName, StreamReport
from redrive.parts import parts_of

SECRET = "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc"


class Scores:
    """`session` fails while it `is_broken`."""

    def __init__(self, house: House, **options: Any) -> None:
        self.house = house
        self.is_broken = False
        self.stream: Stream = house.app.stream("scores", "redis://localhost:1", **options)

        @self.stream.projector("qscore", version=2, types=["score.*"])
        async def qscore(event: Event) -> None:
            pass

        @self.stream.projector("session", max_attempts=1)
        async def session(event: Event) -> None:
            if self.is_broken:
                raise FinalError(f"no session for {event.user}")

    async def record(self, number: int = 1, org: str = "default", **changes: Any) -> str:
        """Record an event, and return its id."""
        fields: dict[str, Any] = {
            "type": "score.changed",
            "payload": {"points": number},
            "dedupe_key": f"score-{number}",
            "source": "quiz",
            "user": "user_123",
        }
        [recorded] = await self.house.app.events(org=org).record("scores", [Event(**{**fields, **changes})])
        return recorded.id

    async def report(
        self, *, held_back: Fact | None = None, last_error: Fact | None = None, **figures: Any
    ) -> None:
        """Report as a consumer does."""
        streams, now = parts_of(self.house.app).store.streams, parts_of(self.house.app).clock.now()
        await streams.ensure(self.name)
        if held_back is not None:
            figures["held_back"] = held_back.encode()
        if last_error is not None:
            figures |= {"last_error": last_error.encode(), "error_at": now}
        await streams.report(self.name, StreamReport(**{**QUIET, **figures}))

    async def lose(self, after: str, before: str) -> None:
        """Report that Redis removed entries unread."""
        parts = parts_of(self.house.app)
        await parts.store.streams.add_gap(self.name, Gap(1, after, before, parts.clock.now()))

    @property
    def name(self) -> StreamName:
        return StreamName(self.stream.org, self.stream.name)


QUIET: dict[str, Any] = {
    **dict.fromkeys(StreamReport._fields),
    **dict.fromkeys(("generation", "stored", "duplicates", "dead", "taken_over", "lag", "pending"), 0),
    "last_position": START.text,
}
"""What a consumer reports while nothing happens."""
