"""An idempotency key: it stands for one request, and keeps what came of it."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class KeyStatus(StrEnum):
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"


class KeyName(NamedTuple):
    """Which key it is: the same text in another org, for another user or in another domain is another key."""

    org: str
    domain: str
    user_id: str
    key: str


class KeyState(NamedTuple):
    """What is known of a key, with its times as seconds from now.

    age         since somebody took it, or since it ended
    lease_left  until nobody holds it any more, unless the lease is renewed
    time_left   until it expires
    """

    status: KeyStatus
    request_hash: str
    response: str | None
    error: str | None
    age: float
    lease_left: float
    time_left: float

    @property
    def is_held(self) -> bool:
        return self.status is KeyStatus.PROCESSING and self.lease_left > 0.0


class RequestStatus(StrEnum):
    """How a request stands to the key that it came with."""

    FREE = "free"
    IN_PROGRESS = "in_progress"
    REUSED = "reused"
    COMPLETED = "completed"
    FAILED = "failed"
