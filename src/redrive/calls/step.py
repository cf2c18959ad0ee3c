"""The step of a run that the running code belongs to, so that its calls can name it."""

from __future__ import annotations

import hashlib
from contextvars import ContextVar
from typing import NamedTuple

from redrive.model.step import step_key

_MARK_BYTES = 8


class CurrentStep(NamedTuple):
    """`key` is the idempotency key of the run, if it has one."""

    org: str
    run_id: str
    key: str | None
    step_index: int
    correlation_id: str

    def key_of_request(self, *parts: object) -> str:
        """Return the key of the step and a digest of the request.

        The key is the same in every attempt of the step. Two different requests of one step have different
        keys: with the same one, a server would take the second for a repetition of the first.
        """
        request = hashlib.blake2b(repr(parts).encode(), digest_size=_MARK_BYTES).hexdigest()
        return f"{step_key(self.org, self.run_id, self.key, self.step_index)}:{request}"


CURRENT_STEP: ContextVar[CurrentStep | None] = ContextVar("redrive_step", default=None)
