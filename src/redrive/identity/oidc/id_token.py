"""ID tokens: what a provider says about a person, signed by it, for this client and for this one sign-in."""

from __future__ import annotations

from typing import Any, NamedTuple

from authlib.oidc.core import CodeIDToken
from joserfc import errors, jws, jwt
from joserfc.jwk import JWKRegistry, Key, KeySet

from redrive.identity.oidc import TokenRefusedError

ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
)
"""Only those with two keys: a key that verifies tokens must not be able to make them."""
KEY_TYPES = ("RSA", "EC", "OKP")
MIN_RSA_BITS = 2048
MAX_KEYS = 100
MAX_HEADER_LENGTH = 8_192
MAX_SUBJECT_LENGTH = 255
CLOCK_SKEW_SECONDS = 60

# Whatever a header, a key or a claim of the wrong type leads to.
_MALFORMED = (
    errors.JoseError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)


class UnknownKeyError(TokenRefusedError):
    """The token names a key that the provider did not publish when its keys were fetched."""


class ExpectedToken(NamedTuple):
    issuer: str
    client_id: str
    nonce: str
    now: float


class _SignatureAlgorithms(jws.JWSRegistry):
    """Accepts EdDSA without joserfc's warning about its name: providers sign with it."""

    max_header_length = MAX_HEADER_LENGTH

    def get_alg(self, name: str) -> Any:
        if name not in ALGORITHMS:
            raise errors.UnsupportedAlgorithmError
        return self.algorithms[name]


_REGISTRY = _SignatureAlgorithms(strict_check_header=False)


def read_keys(document: dict[str, Any]) -> KeySet:
    """Pick the keys that can verify an ID token; the provider may publish others."""
    listed = document.get("keys")
    found = [_read_key(data) for data in listed[:MAX_KEYS]] if isinstance(listed, list) else []
    return KeySet([key for key in found if key is not None])


def _read_key(data: Any) -> Key | None:
    if not isinstance(data, dict) or data.get("kty") not in KEY_TYPES or data.get("use", "sig") != "sig":
        return None
    try:
        if data["kty"] == "RSA" and len(data["n"]) * 6 < MIN_RSA_BITS:  # six bits a letter
            return None
        key = JWKRegistry.import_key(data)
        key.ensure_kid()
    except _MALFORMED:
        return None
    return key


def verify(token: str, keys: KeySet, expected: ExpectedToken) -> dict[str, Any]:
    """Check the signature and every claim that makes the token ours, and return the claims."""
    try:
        decoded = jwt.decode(token, keys, registry=_REGISTRY)
        claims = CodeIDToken(
            decoded.claims,
            decoded.header,
            _claim_rules(expected),
            {"nonce": expected.nonce, "client_id": expected.client_id},
        )
        claims.validate(now=int(expected.now), leeway=CLOCK_SKEW_SECONDS)
    except errors.InvalidKeyIdError:
        raise UnknownKeyError("it is signed with a key that the provider does not publish") from None
    except errors.ExpiredTokenError:
        raise TokenRefusedError("it has expired") from None
    except errors.ClaimError as error:
        raise TokenRefusedError(f"its {error.claim[:50]} is missing or wrong") from None
    except errors.BadSignatureError:
        raise TokenRefusedError("its signature is wrong") from None
    except errors.UnsupportedAlgorithmError:
        raise TokenRefusedError("it is not signed with an accepted algorithm") from None
    except _MALFORMED:
        raise TokenRefusedError("it is malformed, or no key of the provider fits it") from None
    return dict(claims)


def _claim_rules(expected: ExpectedToken) -> dict[str, dict[str, Any]]:
    """Rules beyond those that `CodeIDToken` has for `nonce`, `azp`, `exp` and `iat`."""
    return {
        "iss": {"essential": True, "value": expected.issuer},
        "aud": {"essential": True, "value": expected.client_id},
        "azp": {"value": expected.client_id},
        "sub": {"essential": True, "validate": lambda _, subject: len(subject) <= MAX_SUBJECT_LENGTH},
    }
