"""An errand: what one browser is sent to the provider with, and has to bring back."""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from collections.abc import Callable
from hashlib import sha256
from typing import NamedTuple

import msgspec

from redrive.identity.sessions import Sessions
from redrive.policy.codec import JsonValue
from redrive.policy.credential import SECRET_BYTES, digest, is_token, secret_text

KIND = "oidc"
SECONDS = 600
"""So long somebody may take to sign in at the provider."""


class LoginState(NamedTuple):
    """
    nonce     comes back in the ID token, so that no token of another sign-in will do
    verifier  shown to the provider with the code, so that a code without it is worth nothing (PKCE)
    redirect  the address that the provider sends the browser back to
    next      the path that the browser wants to go to in the end
    browser   the digest of what this browser has in a cookie, and no other
    """

    nonce: str
    verifier: str
    redirect: str
    next: str | None
    browser: str

    def __repr__(self) -> str:
        return f"LoginState({self.redirect!r}, next={self.next!r})"

    @property
    def challenge(self) -> str:
        """What the provider sees of the verifier at first (RFC 7636)."""
        return urlsafe_b64encode(sha256(self.verifier.encode()).digest()).rstrip(b"=").decode()


def new_errand(
    entropy: Callable[[int], bytes], redirect: str, next_path: str | None, browser: str
) -> LoginState:
    nonce, verifier = (secret_text(entropy(SECRET_BYTES)) for _ in range(2))
    return LoginState(nonce, verifier, redirect, next_path, digest(browser))


async def put_errand(sessions: Sessions, errand: LoginState) -> str:
    """The state that it is found again by, once."""
    return await sessions.put(KIND, list(errand), SECONDS)


async def take_errand(sessions: Sessions, state: str, browser: str | None) -> LoginState | None:
    """None where there is none (any more), or it is another browser's."""
    if not is_token(browser) or not is_token(state):
        return None
    errand = _read(await sessions.take(KIND, state))
    return errand if errand is not None and hmac.compare_digest(errand.browser, digest(browser)) else None


def _read(kept: JsonValue) -> LoginState | None:
    try:
        return msgspec.convert(kept, LoginState)
    except msgspec.ValidationError:  # there is none, or it is of another version of this program
        return None
