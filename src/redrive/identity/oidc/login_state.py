"""Login state: the data of a sign-in in progress, bound to one browser and usable once."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from redrive.identity.sessions import UserSessions
from redrive.policy.credential import SECRET_BYTES, digest, is_token, secret_text

KIND = "oidc"
LOGIN_SECONDS = 600
"""How long a person may take to sign in at the provider."""


class LoginState(NamedTuple):
    """A sign-in in progress.

    nonce     must appear in the ID token, so that Redrive rejects a token of another sign-in
    verifier  sent with the code, so that a stolen code alone is useless (PKCE)
    redirect  the URI to which the provider sends the browser back
    next      the path that the browser opens after the sign-in
    browser   the digest of a secret in a cookie of this browser
    """

    nonce: str
    verifier: str
    redirect: str
    next: str | None
    browser: str

    def __repr__(self) -> str:
        return f"LoginState({self.redirect!r}, next={self.next!r})"


def new_login(
    entropy: Callable[[int], bytes], redirect: str, next_path: str | None, browser: str
) -> LoginState:
    nonce, verifier = (secret_text(entropy(SECRET_BYTES)) for _ in range(2))
    return LoginState(nonce, verifier, redirect, next_path, digest(browser))


async def save_login(sessions: UserSessions, login: LoginState) -> str:
    """Store the login and return its `state`, which fetches it once."""
    return await sessions.put(KIND, list(login), LOGIN_SECONDS)


async def take_login(sessions: UserSessions, state: str, browser: str | None) -> LoginState | None:
    """Return the login of a `state`. None if it is unknown, used, expired, or from another browser."""
    if not is_token(browser) or not is_token(state):
        return None
    try:
        login = msgspec.convert(await sessions.take(KIND, state), LoginState)
    except msgspec.ValidationError:  # no login, or another version of Redrive stored it
        return None
    return login if hmac.compare_digest(login.browser, digest(browser)) else None
