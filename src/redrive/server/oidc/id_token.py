"""ID tokens: what a provider says about somebody, signed by it, for us, now, and for this very sign-in."""

from __future__ import annotations

from hmac import compare_digest
from typing import Any, NamedTuple

from joserfc import errors, jws, jwt
from joserfc.jwk import JWKRegistry, Key, KeySet

from redrive.server.oidc.provider_client import WireError

ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
)
"""Only those with two keys: whoever can check a token must not be able to make one."""
KINDS = ("RSA", "EC", "OKP")
MIN_RSA_BITS = 2048
MAX_KEYS = 100
LEEWAY = 60
MAX_HEADER_LENGTH = 8_192
MAX_SUBJECT_LENGTH = 255

# Everything that a header, a key or a claim of the wrong type leads to.
_BROKEN = (
    errors.JoseError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)


class TokenError(Exception):
    """The token does not hold. The message says why, and nothing that is in it."""


class Expected(NamedTuple):
    issuer: str
    client_id: str
    nonce: str
    now: float


class _Registry(jws.JWSRegistry):
    """Its own one warns of EdDSA, which has got more exact names since; providers sign with it."""

    max_header_length = MAX_HEADER_LENGTH

    def get_alg(self, name: str) -> Any:
        if name not in ALGORITHMS or name not in self.algorithms:
            raise errors.UnsupportedAlgorithmError
        return self.algorithms[name]


_REGISTRY = _Registry(strict_check_header=False)


def key_set(document: dict[str, Any]) -> KeySet:
    """The keys that tokens can be checked with; others of the provider's are not our business."""
    listed = document.get("keys")
    found = [_key(each) for each in listed[:MAX_KEYS]] if isinstance(listed, list) else []
    usable = [key for key in found if key is not None]
    if not usable:
        raise WireError("it publishes no key that an ID token could be checked with")
    return KeySet(usable)


def _key(data: Any) -> Key | None:
    if not isinstance(data, dict) or data.get("kty") not in KINDS or data.get("use", "sig") != "sig":
        return None
    try:
        if data["kty"] == "RSA" and len(data["n"]) * 6 < MIN_RSA_BITS:  # six bits a letter
            return None
        key = JWKRegistry.import_key(data)
        key.ensure_kid()
    except _BROKEN:
        return None
    return key


def is_known(token: str, keys: KeySet) -> bool:
    """Is the key that it names among these? One that names none is not looked for."""
    try:
        named = jws.extract_compact(token.encode(), registry=_REGISTRY).headers().get("kid")
    except _BROKEN:
        return True
    return named is None or any(key.kid == named for key in keys)


def claims_of(token: str, keys: KeySet, expected: Expected) -> dict[str, Any]:
    try:
        claims = jwt.decode(token, keys, registry=_REGISTRY).claims
        _rules(expected).validate(claims)
    except errors.ExpiredTokenError:
        raise TokenError("it has expired") from None
    except errors.ClaimError as error:
        raise TokenError(f"its {error.claim[:50]} is missing or wrong") from None
    except errors.BadSignatureError:
        raise TokenError("its signature does not hold") from None
    except errors.UnsupportedAlgorithmError:
        raise TokenError("it is not signed in a way that is trusted") from None
    except _BROKEN:
        raise TokenError("it is malformed, or no key of the provider fits it") from None
    _check_rest(claims, expected)
    return claims


def _rules(expected: Expected) -> jwt.JWTClaimsRegistry:
    return jwt.JWTClaimsRegistry(
        now=int(expected.now),
        leeway=LEEWAY,
        iss={"essential": True, "value": expected.issuer},
        aud={"essential": True, "value": expected.client_id},
        sub={"essential": True},
        exp={"essential": True},
        iat={"essential": True},
    )


def _check_rest(claims: dict[str, Any], expected: Expected) -> None:
    nonce, audience, party = claims.get("nonce"), claims["aud"], claims.get("azp")
    if not isinstance(nonce, str) or not compare_digest(
        nonce.encode("utf-8", "replace"), expected.nonce.encode()
    ):
        raise TokenError("its nonce is missing or wrong")
    several = isinstance(audience, list) and len(audience) > 1
    if (party is not None or several) and party != expected.client_id:
        raise TokenError("its azp is missing or wrong")
    if not isinstance(claims["sub"], str) or len(claims["sub"]) > MAX_SUBJECT_LENGTH:
        raise TokenError("its sub is no text, or too long")
