"""Idempotency keys: `<domain>:<userId>:<entityId>:<operation>:<version>`, and requests with one.

The operation may have several words: `"module:resume"` and `("module", "resume")` are the same operation. All
other parts are one word each, so a key can be parsed from its two ends. In a word, every character except
ASCII letters, digits and `-._~` is percent-escaped as UTF-8, including the colon. A key is therefore valid in
an HTTP header, and different parts always give different keys.

A part is text; an int or a UUID is converted to text, so 7 and "7" are the same id. Text is not normalized:
"é" in one code point and "é" in two are different ids.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn, Protocol, TypeAlias

from redrive.errors import InvalidKeyError
from redrive.model.idempotency import KeyState, KeyStatus, RequestStatus
from redrive.policy.codec import DEFAULT_LIMITS, JsonLimits, canonical

MAX_KEY_LENGTH = 255
_MAX_BITS = 512
_SAFE = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~")
_ESCAPES = {byte: chr(byte) if byte in _SAFE else f"%{byte:02X}" for byte in range(256)}


MIN_RETRY_AFTER_SECONDS = 1.0

_QUOTED = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])*)"')
_PLAIN = re.compile(r"[!#-+\--:<-\[\]-~]*")
_ESCAPED = re.compile(r"\\(.)")

_PASSING = frozenset({401, 403, 408, 409, 425, 429})
"""Statuses of responses that may be different a moment later or with other credentials."""


class KeyParts(NamedTuple):
    domain: str
    user_id: str
    entity_id: str
    operation: tuple[str, ...]
    version: str


class Uuid(Protocol):
    """A `uuid.UUID`. The policy package does not import that module, which generates random values."""

    @property
    def hex(self) -> str: ...

    @property
    def urn(self) -> str: ...


KeyPart: TypeAlias = str | int | Uuid


def idempotency_key(
    domain: KeyPart,
    user_id: KeyPart,
    entity_id: KeyPart,
    operation: KeyPart | Sequence[KeyPart],
    version: KeyPart,
) -> str:
    """Return the key of an operation on an entity; the same arguments give the same key on every machine."""
    parts = [
        _word("domain", domain),
        _word("user_id", user_id),
        _word("entity_id", entity_id),
        *(_word("operation", word) for word in _words(operation)),
        _word("version", version),
    ]
    key = ":".join(parts)
    if len(key) > MAX_KEY_LENGTH:
        _refuse_length(key, parts)
    return key


def parse_idempotency_key(key: str) -> KeyParts:
    """Return the parts of a key that `idempotency_key` made; reject any other text."""
    if type(key) is not str or len(key) > MAX_KEY_LENGTH:
        raise InvalidKeyError(f"an idempotency key must be text of at most {MAX_KEY_LENGTH} characters")
    words = [_unescaped(word) for word in key.split(":")]
    if len(words) < 5:
        raise InvalidKeyError(
            f"{key!r} has {len(words)} parts; a key has at least 5: {':'.join(KeyParts._fields)}"
        )
    parts = KeyParts(words[0], words[1], words[2], tuple(words[3:-1]), words[-1])
    if idempotency_key(*parts) != key:
        raise InvalidKeyError(f"{key!r} is not escaped like a key; create keys with idempotency_key()")
    return parts


def request_hash(value: object, *, limits: JsonLimits = DEFAULT_LIMITS) -> str:
    """Hash a request, to detect a key reused for another one; the order of dict keys does not matter."""
    from hashlib import sha256  # imported here because it loads OpenSSL, so that `import redrive` stays fast

    return sha256(canonical(value, limits=limits).encode()).hexdigest()


def _words(operation: Any) -> Sequence[object]:
    if issubclass(type(operation), str):
        return str.split(operation, ":")
    if type(operation) in (tuple, list):
        if not operation:
            raise InvalidKeyError(
                "operation is empty; name the operation, such as 'start' or 'module:resume'"
            )
        return list(operation)
    return [operation]


def _word(name: str, part: object) -> str:
    text = _text(name, part)
    if not text or text.isspace():
        raise InvalidKeyError(f"{name} is empty or blank; every part of a key needs a value")
    if re.search(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]", text):
        raise InvalidKeyError(
            f"{name} {_abbreviate(text)} has control characters or lone surrogates; remove them"
        )
    return "".join(map(_ESCAPES.__getitem__, text.encode()))


def _text(name: str, part: Any) -> str:
    kind = type(part)
    if issubclass(kind, str):
        return str.__str__(part)
    if kind is not bool and issubclass(kind, int):
        return _digits(name, part)
    if (kind.__module__, kind.__name__) == ("uuid", "UUID"):
        return str(part)
    raise InvalidKeyError(f"{name} is of type {kind.__name__}; parts of a key must be str, int or UUID")


def _digits(name: str, number: int) -> str:
    bits = int.bit_length(number)
    if bits > _MAX_BITS:
        raise InvalidKeyError(f"{name} is an integer of {bits:,} bits; the limit is {_MAX_BITS}")
    return int.__repr__(number)


def _unescaped(word: str) -> str:
    try:
        escaped = re.sub("%([0-9A-F]{2})", lambda match: chr(int(match[1], 16)), word)
        return escaped.encode("latin-1").decode()
    except UnicodeError:
        raise InvalidKeyError(
            f"{_abbreviate(word)} is not part of a key: its escapes are not UTF-8"
        ) from None


def _refuse_length(key: str, parts: Sequence[str]) -> NoReturn:
    longest = max(parts, key=len)
    raise InvalidKeyError(
        f"the key has {len(key):,} characters, {len(longest):,} of them in {_abbreviate(longest)}; the limit "
        f"is {MAX_KEY_LENGTH}. Pass a hash of the long part instead, such as request_hash(part)"
    )


def _abbreviate(text: str) -> str:
    return ascii(text if len(text) <= 60 else f"{text[:60]}…")


def request_status(state: KeyState, request_hash: str) -> RequestStatus:
    """Compare a request with its key. The key of a crashed worker is free only for the same request."""
    if state.time_left <= 0.0 and not state.is_held:
        return RequestStatus.FREE
    if state.request_hash != request_hash:
        return RequestStatus.REUSED
    if state.status is KeyStatus.PROCESSING:
        return RequestStatus.IN_PROGRESS if state.is_held else RequestStatus.FREE
    return RequestStatus.COMPLETED if state.status is KeyStatus.COMPLETED else RequestStatus.FAILED


def retry_after(state: KeyState) -> float:
    """Return how long to wait: as long as the work has taken so far, but at most until its lease expires."""
    return max(MIN_RETRY_AFTER_SECONDS, min(state.age, state.lease_left))


def checked_key(key: object) -> str:
    if not isinstance(key, str) or not 1 <= len(key) <= MAX_KEY_LENGTH or not key.isprintable():
        raise InvalidKeyError(
            f"an idempotency key must have 1 to {MAX_KEY_LENGTH} printable characters, got {key!r:.300}"
        )
    return key


def key_in_header(values: Sequence[str]) -> str:
    """Read the key from its header: a quoted string, as in structured fields, or bare text.

    Bare text must not contain spaces, quotes, backslashes, commas or semicolons.
    """
    if len(values) != 1:
        raise InvalidKeyError("there are several Idempotency-Key headers; send one")
    text = values[0].strip(" ")
    quoted = _QUOTED.fullmatch(text)
    if quoted:
        return checked_key(_ESCAPED.sub(r"\1", quoted[1]))
    if not _PLAIN.fullmatch(text):
        raise InvalidKeyError(
            "the header Idempotency-Key must be one string in double quotes, of printable ASCII characters"
        )
    return checked_key(text)


def is_kept(status: int) -> bool:
    """Return whether a response is stored and repeated, instead of executing the request again."""
    return status < 500 and status not in _PASSING
