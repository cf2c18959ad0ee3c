"""An idempotency key: it identifies one request and stores its outcome."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class KeyStatus(StrEnum):
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"


class KeyName(NamedTuple):
    """Identifies a key. The same text in another org, domain or for another user is a different key."""

    org: str
    domain: str
    user_id: str
    key: str


class KeyState(NamedTuple):
    """The state of a key. Times are seconds from now.

    age         seconds since a caller took the key, or since the request finished
    lease_left  seconds until the lease expires, unless its holder renews it
    time_left   seconds until the key expires
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
    """The status of a request relative to the idempotency key it was sent with."""

    FREE = "free"
    IN_PROGRESS = "in_progress"
    REUSED = "reused"
    COMPLETED = "completed"
    FAILED = "failed"
