"""What a provider says about itself (OpenID Connect Discovery), as far as it is needed here."""

from __future__ import annotations

from typing import Any, NamedTuple

from redrive.server.oidc.provider_client import ProviderClient, WireError

PLACE = "/.well-known/openid-configuration"
BASIC = "client_secret_basic"


class Metadata(NamedTuple):
    """
    keys          where it publishes the keys that it signs with
    userinfo      where it tells more about somebody, if anywhere
    ways          how clients may prove who they are when they bring a code
    names_itself  it sends its name along with every code (RFC 9207)
    """

    authorization: str
    token: str
    keys: str
    userinfo: str | None
    ways: tuple[str, ...]
    names_itself: bool


async def discovered(wire: ProviderClient, issuer: str) -> Metadata:
    document = await wire.get(issuer.rstrip("/") + PLACE)
    if document.get("issuer") != issuer:
        raise WireError(
            f"it calls itself {document.get('issuer')!r:.300}; set oidc_issuer to that if it is the right one"
        )
    userinfo = document.get("userinfo_endpoint")
    return Metadata(
        authorization=_address(wire, document, "authorization_endpoint"),
        token=_address(wire, document, "token_endpoint"),
        keys=_address(wire, document, "jwks_uri"),
        userinfo=None if userinfo is None else _address(wire, document, "userinfo_endpoint"),
        ways=_ways(document.get("token_endpoint_auth_methods_supported")),
        names_itself=document.get("authorization_response_iss_parameter_supported") is True,
    )


def _address(wire: ProviderClient, document: dict[str, Any], name: str) -> str:
    address = document.get(name)
    if not isinstance(address, str) or not wire.is_safe(address):
        raise WireError(f"its {name} is missing, or not an https address")
    return address


def _ways(named: object) -> tuple[str, ...]:
    return tuple(map(str, named)) if isinstance(named, list) and named else (BASIC,)
