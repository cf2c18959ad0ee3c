"""The OpenID provider: build the address for a sign-in, and exchange the resulting code for the person."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import quote_plus

import httpx2
import msgspec
from authlib.integrations.httpx_client import OAuth2ClientAuth, OAuthError
from joserfc.jwk import KeySet

from redrive.clock import Clock
from redrive.identity.oidc import (
    ClientRefusedError,
    CodeRefusedError,
    ProviderUnavailableError,
    TokenRefusedError,
)
from redrive.identity.oidc.connection import (
    AnswerError,
    FetchCache,
    OpenIdClient,
    ProviderConnection,
    json_object,
)
from redrive.identity.oidc.id_token import ExpectedToken, UnknownKeyError, read_keys, verify
from redrive.identity.oidc.login_state import LoginState
from redrive.identity.sign_in import vouched_name
from redrive.model.identity import Identity

DISCOVERY_PATH = "/.well-known/openid-configuration"
BASIC, POST = "client_secret_basic", "client_secret_post"
EMAIL, VERIFIED = "email", "email_verified"
_TRUE = (True, "true")
"""Some providers send the string "true"."""
_TEMPORARY = (408, 429)


class Person(NamedTuple):
    """The person who signed in at the provider. `name` is "" if the provider sent no valid user name."""

    identity: Identity
    name: str
    is_verified: bool


class ProviderMetadata(msgspec.Struct, frozen=True):
    """The fields of the discovery document that this client needs, with their names in the standard."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] | None = None
    authorization_response_iss_parameter_supported: bool | None = None

    @property
    def addresses(self) -> tuple[str, ...]:
        required = (self.authorization_endpoint, self.token_endpoint, self.jwks_uri)
        return required if self.userinfo_endpoint is None else (*required, self.userinfo_endpoint)


class OpenIdProvider:
    """An OpenID provider. `name_claim` is the claim that contains the user name."""

    def __init__(self, issuer: str, client: OpenIdClient, name_claim: str, clock: Clock) -> None:
        self.issuer = issuer
        self._client = client
        self._name_claim = name_claim
        self._clock = clock
        self._connection = ProviderConnection(issuer, client)
        self._metadata = FetchCache(self._fetch_metadata, clock)
        self._keys = FetchCache(self._fetch_keys, clock)
        self._accepted_auth: httpx2.Auth | None = None

    async def authorization_url(self, login: LoginState, state: str) -> str:
        """Return the address at which the person signs in."""
        metadata = await self._metadata.get()
        url, _ = self._connection.oauth_client().create_authorization_url(
            metadata.authorization_endpoint,
            state=state,
            code_verifier=login.verifier,
            nonce=login.nonce,
            redirect_uri=login.redirect,
        )
        return str(url)

    async def check_issuer(self, named: str | None) -> None:
        """Reject a response of another provider before sending its code to this provider (RFC 9207)."""
        if named == self.issuer:
            return
        metadata = await self._metadata.get()
        if named is not None or metadata.authorization_response_iss_parameter_supported:
            raise TokenRefusedError("the response comes from another provider")

    async def person(self, login: LoginState, code: str) -> Person:
        """Exchange the code for tokens, and return the person who signed in."""
        metadata = await self._metadata.get()
        tokens = await self._fetch_tokens(metadata, login, code)
        claims = await self._verified_claims(tokens.get("id_token"), login.nonce)
        profile = await self._profile(metadata, claims, tokens.get("access_token"))
        return Person(
            Identity(self.issuer, claims["sub"]),
            vouched_name(profile.get(self._name_claim)),
            self._name_claim != EMAIL or profile.get(VERIFIED) in _TRUE,
        )

    async def _fetch_metadata(self) -> ProviderMetadata:
        document = await self._connection.fetch("discovery", self.issuer.rstrip("/") + DISCOVERY_PATH)
        try:
            metadata = msgspec.convert(document, ProviderMetadata)
        except msgspec.ValidationError as error:
            raise ProviderUnavailableError("discovery", str(error)) from None
        if metadata.issuer != self.issuer:
            reason = (
                f"its issuer is {metadata.issuer!r:.300}; if that is correct, set oidc_issuer to this value"
            )
            raise ProviderUnavailableError("discovery", reason)
        if not all(map(self._connection.is_safe, metadata.addresses)):
            raise ProviderUnavailableError("discovery", "it publishes an address that does not use https")
        return metadata

    async def _fetch_keys(self) -> KeySet:
        keys = read_keys(await self._connection.fetch("keys", (await self._metadata.get()).jwks_uri))
        if not keys:
            raise ProviderUnavailableError("keys", "it publishes no key that can verify an ID token")
        return keys

    async def _fetch_tokens(self, metadata: ProviderMetadata, login: LoginState, code: str) -> dict[str, Any]:
        """Try the supported authentication methods until the provider accepts one.

        Providers publish the methods that they support, but not the one that they require of this client.
        """
        reason = ""
        for auth in self._auths(metadata):
            try:
                tokens = await self._exchange_code(metadata.token_endpoint, auth, login, code)
            except OAuthError as error:
                if error.error == "invalid_grant":
                    raise CodeRefusedError("token", "invalid_grant") from None
                reason = f"the provider answered {error.error!r:.100}"
                if error.error == "invalid_client":
                    continue
                break
            self._accepted_auth = auth
            return tokens
        self._accepted_auth = None
        raise ClientRefusedError("token", reason)

    async def _exchange_code(
        self, address: str, auth: httpx2.Auth, login: LoginState, code: str
    ) -> dict[str, Any]:
        async with self._connection.exchange("token") as client:
            client.register_compliance_hook("access_token_response", _raise_for_error)
            tokens = await client.fetch_token(
                address,
                auth=auth,
                grant_type="authorization_code",
                code=code,
                code_verifier=login.verifier,
                redirect_uri=login.redirect,
            )
            return dict(tokens)

    def _auths(self, metadata: ProviderMetadata) -> list[httpx2.Auth]:
        if self._accepted_auth is not None:
            return [self._accepted_auth]
        name, secret = self._client.id, self._client.secret
        if secret is None:
            return [OAuth2ClientAuth(name, None, "none")]
        supported = metadata.token_endpoint_auth_methods_supported or (BASIC,)
        auths: list[httpx2.Auth] = []
        if BASIC in supported:
            # The standard requires encoding both, but some providers don't decode them.
            pairs = dict.fromkeys(((quote_plus(name), quote_plus(secret)), (name, secret)))
            auths += [httpx2.BasicAuth(*pair) for pair in pairs]
        if POST in supported:
            auths.append(OAuth2ClientAuth(name, secret, POST))
        if not auths:
            raise ClientRefusedError("token", f"the provider supports neither {BASIC} nor {POST}")
        return auths

    async def _verified_claims(self, token: object, nonce: str) -> dict[str, Any]:
        if not isinstance(token, str):
            raise TokenRefusedError("the response has no ID token")
        expected = ExpectedToken(self.issuer, self._client.id, nonce, self._clock.now())
        try:
            return verify(token, await self._keys.get(), expected)
        except UnknownKeyError:  # the provider may have rotated its keys
            return verify(token, await self._keys.refresh(), expected)

    async def _profile(
        self, metadata: ProviderMetadata, claims: dict[str, Any], access_token: object
    ) -> dict[str, Any]:
        """Return the claims with the person's name. Some providers have it only at the userinfo endpoint."""
        is_named = self._name_claim in claims and (self._name_claim != EMAIL or VERIFIED in claims)
        if is_named or metadata.userinfo_endpoint is None or not _is_bearer(access_token):
            return claims
        headers = {"Authorization": f"Bearer {access_token}"}
        profile = await self._connection.fetch("userinfo", metadata.userinfo_endpoint, headers)
        if profile.get("sub") != claims["sub"]:
            raise TokenRefusedError("the userinfo is about another person")
        return profile


def _raise_for_error(response: httpx2.Response) -> httpx2.Response:
    """Raise for an error status. Authlib alone accepts any JSON object without an `error`."""
    status = response.status_code
    if 400 <= status < 500 and status not in _TEMPORARY:
        raise OAuthError(json_object(response).get("error") or f"status {status}")
    if status != 200:
        raise AnswerError(f"status {status}")
    json_object(response)
    return response


def _is_bearer(token: object) -> bool:
    return isinstance(token, str) and token.isascii() and token.isprintable() and " " not in token
