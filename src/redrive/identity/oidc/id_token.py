"""ID tokens: the provider's signed claims about a person, for this client and one sign-in."""

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
"""Only asymmetric algorithms: a key that verifies tokens must not be able to sign them."""
KEY_TYPES = ("RSA", "EC", "OKP")
MIN_RSA_BITS = 2048
MAX_KEYS = 100
MAX_HEADER_LENGTH = 8_192
MAX_SUBJECT_LENGTH = 255
CLOCK_SKEW_SECONDS = 60

# Errors that a malformed header, key or claim can cause.
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
    """The provider had not published the key of the token when Redrive fetched its keys."""


class ExpectedToken(NamedTuple):
    """The values that a token must match. `now` is the time to check its expiry against."""

    issuer: str
    client_id: str
    nonce: str
    now: float


class _SignatureAlgorithms(jws.JWSRegistry):
    """Accepts EdDSA, which providers use, without joserfc's warning about the name."""

    max_header_length = MAX_HEADER_LENGTH

    def get_alg(self, name: str) -> Any:
        if name not in ALGORITHMS:
            raise errors.UnsupportedAlgorithmError
        return self.algorithms[name]


_REGISTRY = _SignatureAlgorithms(strict_check_header=False)


def read_keys(document: dict[str, Any]) -> KeySet:
    """Return the keys that can verify an ID token; the provider may also publish other keys."""
    listed = document.get("keys")
    found = [_read_key(data) for data in listed[:MAX_KEYS]] if isinstance(listed, list) else []
    return KeySet([key for key in found if key is not None])


def _read_key(data: Any) -> Key | None:
    if not isinstance(data, dict) or data.get("kty") not in KEY_TYPES or data.get("use", "sig") != "sig":
        return None
    try:
        if data["kty"] == "RSA" and len(data["n"]) * 6 < MIN_RSA_BITS:  # base64 has six bits per character
            return None
        key = JWKRegistry.import_key(data)
        key.ensure_kid()
    except _MALFORMED:
        return None
    return key


def verify(token: str, keys: KeySet, expected: ExpectedToken) -> dict[str, Any]:
    """Check the signature, the issuer, the audience, the nonce and the times, and return the claims."""
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
        raise TokenRefusedError(f"its claim {error.claim[:50]} is missing or wrong") from None
    except errors.BadSignatureError:
        raise TokenRefusedError("its signature is wrong") from None
    except errors.UnsupportedAlgorithmError:
        raise TokenRefusedError("it is signed with an unsupported algorithm") from None
    except _MALFORMED:
        raise TokenRefusedError("it is malformed, or no published key matches it") from None
    return dict(claims)


def _claim_rules(expected: ExpectedToken) -> dict[str, dict[str, Any]]:
    """Return rules in addition to the checks of `CodeIDToken` for `nonce`, `azp`, `exp` and `iat`."""
    return {
        "iss": {"essential": True, "value": expected.issuer},
        "aud": {"essential": True, "value": expected.client_id},
        "azp": {"value": expected.client_id},
        "sub": {"essential": True, "validate": lambda _, subject: len(subject) <= MAX_SUBJECT_LENGTH},
    }
