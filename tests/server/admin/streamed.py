"""A stream of scores for the tests of its pages, with a projector that succeeds and one that may fail."""

from __future__ import annotations

from typing import Any

from tests.server.house import House

from redrive.errors import FinalError
from redrive.events import Event, Stream

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
