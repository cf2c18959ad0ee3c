"""Signing in with an OpenID provider: authorization code with PKCE, and a verified ID token.

The provider, its connection and the ID token need the extra `oidc`; the errors here need nothing.
"""

from __future__ import annotations


class OpenIdError(Exception):
    """A sign-in with the provider failed.

    `step` and `reason` are written to the log. Neither holds a code, a token or a secret.
    """

    def __init__(self, step: str, reason: str) -> None:
        super().__init__(f"{step}: {reason}")
        self.step = step
        self.reason = reason


class ProviderUnavailableError(OpenIdError):
    """The provider cannot be reached, or its answer is useless. A later sign-in may work."""


class ClientRefusedError(OpenIdError):
    """The provider does not accept this installation: wrong client id, secret or redirect address."""


class CodeRefusedError(OpenIdError):
    """The provider does not accept its own code: it expired, was used, or belongs to another sign-in."""


class TokenRefusedError(OpenIdError):
    """What the provider says about the person cannot be trusted."""

    def __init__(self, reason: str) -> None:
        super().__init__("id_token", reason)
