"""Dependencies shared by all identity services."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from redrive.engine.encryption import Encryption
from redrive.engine.ids import Ids
from redrive.identity.passwords import Passwords
from redrive.model.audit import Action, NewEntry
from redrive.policy.credential import SECRET_BYTES, secret_text
from redrive.policy.redact import Redactor
from redrive.store.database import Session
from redrive.store.store import Store


class SessionLimits(NamedTuple):
    """How long a session lasts in total, and how long without a request."""

    lifetime_seconds: float = 7 * 86_400.0
    idle_seconds: float = 12 * 3600.0


class IdentityServices(NamedTuple):
    """`entropy` returns the requested number of unpredictable bytes; a seeded generator is not enough."""

    store: Store
    ids: Ids
    redactor: Redactor
    encryption: Encryption
    passwords: Passwords
    entropy: Callable[[int], bytes]
    session_limits: SessionLimits

    def secret(self) -> str:
        """Generate a secret with 256 random bits."""
        return secret_text(self.entropy(SECRET_BYTES))

    async def audit(
        self,
        session: Session,
        org: str,
        by: str,
        action: Action,
        subjects: Sequence[str],
        detail: Mapping[str, Any],
    ) -> None:
        """Append an audit entry. This must be the last statement of the transaction."""
        await self.store.audit.append(
            session, [NewEntry(org=org, actor=by, action=action, subjects=tuple(subjects), detail=detail)]
        )
