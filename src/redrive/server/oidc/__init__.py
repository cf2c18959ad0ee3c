"""Signing in with an OpenID provider: authorization code, PKCE, and an ID token that is checked.

What it needs is an extra: nothing of it is imported where no provider is configured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from redrive.app import Redrive
from redrive.errors import InvalidValueError
from redrive.settings.addresses import is_loopback

if TYPE_CHECKING:
    from redrive.server.oidc.provider import Provider


def provider_of(app: Redrive) -> Provider | None:
    """The provider that the settings name. What is missing for it is found out before the server starts."""
    settings = app.settings
    if settings.oidc_issuer is None or settings.oidc_client_id is None:
        return None
    if settings.server_url is None and not is_loopback(settings.server_host):
        raise InvalidValueError(
            "oidc_issuer needs server_url too, the address that people type: they are sent back there"
        )
    try:
        from redrive.server.oidc.client import Client
        from redrive.server.oidc.provider import Provider
    except ImportError as error:
        raise InvalidValueError(
            f"oidc_issuer is set, but {error.name} is not installed: pip install 'redrive[oidc]'"
        ) from error
    client = Client(settings.oidc_client_id, settings.read_oidc_client_secret(), settings.oidc_scopes)
    return Provider(settings.oidc_issuer, client, settings.oidc_name_claim, app.clock)
