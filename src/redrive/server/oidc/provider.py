"""The provider: where it sends people, and whom it says that it has sent back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

from joserfc.jwk import KeySet

from redrive.clock import Clock
from redrive.model.identity import Identity
from redrive.server.oidc import problem
from redrive.server.oidc.client import Client, Proof, granted, is_stranger, proofs_of
from redrive.server.oidc.fetched import Fetched
from redrive.server.oidc.id_token import Expected, TokenError, claims_of, is_known, key_set
from redrive.server.oidc.login_state import LoginState
from redrive.server.oidc.metadata import Metadata, discovered
from redrive.server.oidc.provider_client import ProviderClient, Reply, WireError
from redrive.server.vouched import vouched_name

EMAIL, VERIFIED = "email", "email_verified"
_YES = (True, "true")
"""Some providers write it as a text."""


class Person(NamedTuple):
    """`name` is "" where there is none that could be the name of a user."""

    identity: Identity
    name: str
    is_verified: bool


class Provider:
    def __init__(self, issuer: str, client: Client, name_claim: str, clock: Clock) -> None:
        self.issuer = issuer
        self._client = client
        self._name_claim = name_claim
        self._clock = clock
        self._wire = ProviderClient(issuer)
        self._proofs: list[Proof] = []
        self._metadata = Fetched(self._discovered, clock)
        self._keys = Fetched(self._published_keys, clock)

    async def address(self, errand: LoginState, state: str) -> str:
        """Where the browser has to go."""
        place = (await self._known()).authorization
        asked = {
            "response_type": "code",
            "client_id": self._client.id,
            "redirect_uri": errand.redirect,
            "scope": self._client.scopes,
            "state": state,
            "nonce": errand.nonce,
            "code_challenge": errand.challenge,
            "code_challenge_method": "S256",
        }
        return f"{place}{'&' if '?' in place else '?'}{urlencode(asked)}"

    async def check_sender(self, named: str | None) -> None:
        """A code of another provider's is not even shown to this one (RFC 9207)."""
        if named != self.issuer and (named is not None or (await self._known()).names_itself):
            raise problem.untrusted("the answer comes from another provider")

    async def person(self, errand: LoginState, code: str) -> Person:
        """Whoever has signed in there."""
        metadata = await self._known()
        tokens = await self._tokens(metadata, errand, code)
        claims = await self._claims(tokens.get("id_token"), errand)
        told = await self._told(metadata, claims, tokens.get("access_token"))
        verified = self._name_claim != EMAIL or told.get(VERIFIED) in _YES
        identity = Identity(self.issuer, claims["sub"])
        return Person(identity, vouched_name(told.get(self._name_claim)), verified)

    async def _known(self) -> Metadata:
        try:
            return await self._metadata.get()
        except WireError as error:
            raise problem.unavailable("discovery", error) from None

    async def _tokens(self, metadata: Metadata, errand: LoginState, code: str) -> dict[str, Any]:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": errand.redirect,
            "code_verifier": errand.verifier,
        }
        try:
            return granted(await self._shown(metadata, form))
        except WireError as error:
            raise problem.unavailable("token", error) from None

    async def _shown(self, metadata: Metadata, form: Mapping[str, str]) -> Reply:
        """Ask for the tokens, in the first way to prove who we are that the provider takes from us.

        It says which ones it knows, not which one it wants of this client.
        """
        proofs = self._proofs or proofs_of(self._client, metadata.ways)
        reply = Reply(401, b"{}")
        for proof in proofs:
            reply = await self._wire.post(metadata.token, {**form, **proof.form}, proof.headers)
            if not is_stranger(reply):
                self._proofs = [proof]
                return reply
        self._proofs = []
        return reply

    async def _claims(self, token: object, errand: LoginState) -> dict[str, Any]:
        if not isinstance(token, str):
            raise problem.untrusted("there is no ID token")
        expected = Expected(self.issuer, self._client.id, errand.nonce, self._clock.now())
        try:
            return claims_of(token, await self._fitting_keys(token), expected)
        except WireError as error:
            raise problem.unavailable("keys", error) from None
        except TokenError as error:
            raise problem.untrusted(str(error)) from None

    async def _fitting_keys(self, token: str) -> KeySet:
        """Providers change their keys; one that is not known may be new."""
        keys = await self._keys.get()
        return keys if is_known(token, keys) else await self._keys.renewed()

    async def _told(self, metadata: Metadata, claims: dict[str, Any], access: object) -> dict[str, Any]:
        """Some providers tell the name in the ID token, some only when they are asked for it."""
        named = self._name_claim in claims and (self._name_claim != EMAIL or VERIFIED in claims)
        if named or metadata.userinfo is None or not _is_bearer(access):
            return claims
        try:
            told = await self._wire.get(metadata.userinfo, {"Authorization": f"Bearer {access}"})
        except WireError as error:
            raise problem.unavailable("userinfo", error) from None
        if told.get("sub") != claims["sub"]:
            raise problem.untrusted("its userinfo is about somebody else")
        return told

    async def _discovered(self) -> Metadata:
        return await discovered(self._wire, self.issuer)

    async def _published_keys(self) -> KeySet:
        return key_set(await self._wire.get((await self._metadata.get()).keys))


def _is_bearer(token: object) -> bool:
    return isinstance(token, str) and token.isascii() and token.isprintable() and " " not in token
