"""Sign-in with an OpenID provider: authorization code flow with PKCE, and a verified ID token.

The submodules need the extra `oidc`; the errors in this module need nothing.
"""

from __future__ import annotations


class OpenIdError(Exception):
    """A sign-in with the provider failed.

    Redrive logs `step` and `reason`. Neither contains a code, a token or a secret.
    """

    def __init__(self, step: str, reason: str) -> None:
        super().__init__(f"{step}: {reason}")
        self.step = step
        self.reason = reason


class ProviderUnavailableError(OpenIdError):
    """The provider can't be reached, or its response is unusable. A later sign-in may work."""


class ClientRefusedError(OpenIdError):
    """The provider rejects this installation: wrong client id, secret or redirect URI."""


class CodeRefusedError(OpenIdError):
    """The provider rejects its own code: the code has expired, was used, or belongs to another sign-in."""


class TokenRefusedError(OpenIdError):
    """The ID token or the userinfo of the provider can't be trusted."""

    def __init__(self, reason: str) -> None:
        super().__init__("id_token", reason)
