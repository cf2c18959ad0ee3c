"""One-time tokens: links that sign somebody in, and what a sign-in elsewhere has to bring back."""

from __future__ import annotations

from redrive.errors import InvalidValueError
from redrive.identity.services import IdentityServices
from redrive.model.caller import SELF
from redrive.model.identity import OneTimeLink, User
from redrive.policy.bounds import require
from redrive.policy.codec import JsonValue, decode, encode
from redrive.policy.credential import digest, is_token
from redrive.store.database import Session
from redrive.store.identifier import findable
from redrive.store.one_time import NewOneTime

LINK = "link"
MAX_LINK_MINUTES = 7 * 24 * 60.0
MAX_WAIT_SECONDS = 86_400.0
MAX_KIND_LENGTH = 50


class OneTime:
    def __init__(self, kit: IdentityServices) -> None:
        self._kit = kit
        self._tokens = kit.store.one_time

    async def put(self, kind: str, body: JsonValue, seconds: float) -> str:
        """Keep something for whoever brings this token within so many seconds; sealed, if there is a key."""
        require("seconds", seconds, 1.0, MAX_WAIT_SECONDS)
        token = self._kit.secret()
        sealed = self._kit.encryption.encrypt(encode(body))
        await self._tokens.insert(NewOneTime(digest(token), _checked(kind), sealed, SELF, float(seconds)))
        return token

    async def take(self, kind: str, token: str) -> JsonValue:
        """What was put there, exactly once; None when it was taken, has expired or never was."""
        found = await self._tokens.take(_checked(kind), digest(token)) if is_token(token) else None
        return None if found is None else decode(self._kit.encryption.decrypt(found.body))

    async def put_link(self, session: Session, user: User, minutes: float, by: str) -> OneTimeLink:
        """The first to bring it is signed in as this user."""
        require("minutes", minutes, 1.0, MAX_LINK_MINUTES)
        token = self._kit.secret()
        new = NewOneTime(digest(token), LINK, "{}", by, minutes * 60.0, user.id)
        return OneTimeLink(token, user.name, await self._tokens.insert(new, session))

    async def take_link(self, session: Session, token: str) -> User | None:
        """The user is locked before the link, as by everybody who drops the links of a user."""
        user_id = await self._tokens.user_of(LINK, digest(token), session)
        user = None if user_id is None else await self._kit.store.users.lock(session, user_id)
        taken = None if user is None else await self._tokens.take(LINK, digest(token), session)
        return None if taken is None else user


def _checked(kind: str) -> str:
    if kind == LINK or not 1 <= len(findable(kind)) <= MAX_KIND_LENGTH:
        raise InvalidValueError(
            f"the kind of a one-time token must have 1 to {MAX_KIND_LENGTH} printable characters and not be "
            f"{LINK!r}, got {kind!r:.100}"
        )
    return kind
