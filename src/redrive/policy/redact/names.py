"""Secret names: fields whose name says that their value is a secret.

A name is read as words: `X-Api-Key`, `apiKey` and `API_KEY` are all (api, key), while `monkey` is one
word. The last secret word decides, unless a later word revokes it: `password_hash` is a secret,
`password_reset_at` a date.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

Words = tuple[str, ...]

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\dA-Z_]+|[0-9]+")
_MAX_CACHED_LENGTH = 64
_MAX_NAME_LENGTH = 256


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Secret at any position, also at the end of a longer word (`pgpassword`, `authtoken`).
_STEMS = {
    "connectionstring": "connection_string",
    "passphrase": "passphrase",
    "privatekey": "private_key",
    "credentials": "credentials",
    "credential": "credentials",
    "secretkey": "secret_key",
    "accesskey": "access_key",
    "sessionid": "session",
    "passcode": "password",
    "passwort": "password",
    "kennwort": "password",
    "password": "password",
    "passwords": "password",
    "requirepass": "password",
    "sessid": "session",
    "secrets": "secret",
    "apikeys": "api_key",
    "apikey": "api_key",
    "passwd": "password",
    "secret": "secret",
    "token": "token",
    "creds": "credentials",
    "pwd": "password",
    "jwt": "token",
}
# Secret only as the last word: `cookie`, but not `cookie_consent`.
_LAST = {
    "authorization": "authorization",
    "cookie": "cookie",
    "cookies": "cookie",
    "session": "session",
    "csrf": "csrf",
    "xsrf": "csrf",
    "otp": "otp",
    "totp": "otp",
    "pin": "pin",
    "cvv": "cvv",
    "cvc": "cvv",
    "ssn": "ssn",
    "iban": "iban",
    "dsn": "dsn",
    "cred": "credentials",
    "mnemonic": "passphrase",
    "bearer": "token",
    "senha": "password",
    "contraseña": "password",
}
# As `_LAST`, but a number as value is a count, and the items of a mapping are checked separately.
_LAST_TEXT_ONLY = {"tokens": "token", "pass": "password", "auth": "authorization"}
# As `_LAST`, but these also name many public values.
_LAST_RANDOM_ONLY = {"sid": "session", "sig": "signature", "signature": "signature"}
_OWNERS_OF_KEYS = _listed(
    """
    access account admin aes api app application auth client consumer crypto decryption deploy encryption
    hmac jwt license master private secret server service session shared signing ssh storage subscription
    webhook
    """
)
_OWNERS_OF_PASSES = _listed(
    "admin app database db email ftp http imap login mail mysql pg proxy redis root smtp ssh user"
)
_OWNERS_OF_CODES = _listed("auth authorization otp pin recovery security verification")
_GROUPS: dict[Words, str] = {
    **{(owner, "key"): "api_key" for owner in _OWNERS_OF_KEYS},
    **{(owner, "keys"): "api_key" for owner in ("api", "access", "private", "secret")},
    **{(owner, "code"): "otp" for owner in _OWNERS_OF_CODES},
    **{(owner, "codes"): "otp" for owner in ("backup", "recovery")},
    **{(owner, "pass"): "password" for owner in _OWNERS_OF_PASSES},
    ("access", "key"): "access_key",
    ("secret", "key"): "secret_key",
    ("private", "key"): "private_key",
    ("ssh", "key"): "private_key",
    ("card", "number"): "card",
    ("cc", "number"): "card",
    ("code", "verifier"): "otp",
    ("connection", "string"): "connection_string",
    ("one", "time", "code"): "otp",
    ("pass", "phrase"): "passphrase",
    ("pass", "word"): "password",
    ("recovery", "phrase"): "passphrase",
    ("saml", "response"): "token",
    ("seed", "phrase"): "passphrase",
    ("session", "id"): "session",
    ("session", "key"): "session",
    ("social", "security"): "ssn",
}
_NOT_BEFORE = _listed("has is max min need needs no num public publishable requires total without")
# Tokens of pages, models and retries are not secret.
_NOT_BEFORE_TOKEN = _NOT_BEFORE | _listed(
    "bos cls completion continuation count eos idempotency mask next pad prompt remaining sep stop unk"
)
_NOT_AFTER = _listed(
    """
    age alg algorithm arn at attempts audience bucket budget cache changed class cost count counts
    created date dir domain duration enabled endpoint error errors exists expiration expired expires
    expiry failed failure failures field fields file form format group host id ids index invalid issuer
    kind label last len length limit link location manager max message method min missing mode name names
    owner page path per policy port position prefix present price prompt provider rate required reset
    retries rotated rotation rules scheme scope scopes server size source started state status store
    strength timeout time timestamp title ttl type updated uri url usage used user username valid
    validator version
    """
)
# Words that may follow a word of `_LAST` without changing its meaning.
_STILL_LAST = _listed("code data hash header key number raw string text token value")
# Regular expressions for lower-case text: if none matches, the text has no name of this module. A quote after
# the text changes no match, so that JSON text has every hint of its strings.
_HINTS = _listed(
    r"""
    \?code &code auth(?!or(?!i)) backup[^a-z]*+code bearer card[^a-z]*+num cc[^a-z]*+num
    connection[^a-z]*+string contraseñ cookie cred csrf cvc cvv dsn iban identified jwt kennwort
    key(?!board|word|errors?(?![a-z])) mnemonic one[^a-z]*+time[^a-z]*+code otp
    pass(?!ed|enger|es|ing|ive) phrase pin(?![egikn]) pwd recovery[^a-z]*+code saml secret(?!ar) security
    senha sess(?!ment) sid(?!e) sig(?!n(?![ai])) ssn token(?!i) verif xsrf
    """
)
# In lower case, `tokenInfo` looks as harmless as `tokenize`: these capitals start another word.
_NEXT_WORDS = {"key": "BW", "pass": "EI", "pin": "EGIKN", "secret": "A", "sig": "N", "token": "I"}
_CAMEL_CASE_HINT = re.compile(
    "[ABEGIKNW](?:"
    + "|".join(
        f"(?<=[{word[0]}{word[0].upper()}]{word[1:]}[{capitals}])|(?<={word.upper()}[{capitals}])(?=[a-z])"
        for word, capitals in _NEXT_WORDS.items()
    )
    + ")"
)


@dataclass(frozen=True, slots=True)
class SecretName:
    """The kind of secret that a name announces.

    For a `text_only` name, numbers are counts and the items of mappings are checked separately. For a
    `random_only` name, only values that look random are secrets.
    """

    kind: str
    text_only: bool = False
    random_only: bool = False


def words_of(name: str) -> Words:
    return tuple(word.lower() for word in _WORD.findall(name))


class SecretNames:
    """The built-in secret names, with the application's additions and exceptions."""

    def __init__(self, extra: Iterable[str] = (), allowed: Iterable[str] = ()) -> None:
        self._extra = tuple(words for words in map(words_of, extra) if words)
        self._allowed = frozenset(map(words_of, allowed))
        self._cached = lru_cache(maxsize=4096)(self._look_up)
        self._hint = _any_of({*_HINTS, *(re.escape(max(words, key=len)) for words in self._extra)})

    def may_occur(self, text: str) -> bool:
        """Return whether a text may contain a secret name; False is certain."""
        lowered = text.lower()
        if self._hint.search(lowered):
            return True
        return lowered != text and _CAMEL_CASE_HINT.search(text) is not None

    def find(self, name: str) -> SecretName | None:
        return self._cached(name) if len(name) <= _MAX_CACHED_LENGTH else self._look_up(name)

    def _look_up(self, name: str) -> SecretName | None:
        words = words_of(name[-_MAX_NAME_LENGTH:])
        if words in self._allowed:
            return None
        return self._added(words) or _known(tuple(word for word in words if not word.isdigit()))

    def _added(self, words: Words) -> SecretName | None:
        for extra in self._extra:
            if any(words[start : start + len(extra)] == extra for start in range(len(words))):
                return SecretName("_".join(extra)[:40] if "".join(extra).isascii() else "custom")
        return None


def _any_of(hints: set[str]) -> re.Pattern[str]:
    """Combine the hints into one expression; sorted by first letter, it is nearly twice as fast."""
    groups = groupby(sorted(hints), lambda hint: hint[: 2 if hint[0] == "\\" else 1])
    rests = {first: "|".join(hint[len(first) :] for hint in group) for first, group in groups}
    return re.compile("|".join(f"{first}(?:{rest})" for first, rest in rests.items()))


def _known(words: Words) -> SecretName | None:
    for place in reversed(range(len(words))):
        before, word, after = words[:place], words[place], words[place + 1 :]
        found = _strong(before, word) or _last(word, after)
        if found:
            return None if _taken_back(found, before, after) else found
    return None


def _strong(before: Words, word: str) -> SecretName | None:
    kind = _GROUPS.get((*before[-1:], word)) or _GROUPS.get((*before[-2:], word)) or _STEMS.get(word)
    if kind is None:
        kind = next((kind for stem, kind in _STEMS.items() if word.endswith(stem)), None)
    return SecretName(kind) if kind else None


def _last(word: str, after: Words) -> SecretName | None:
    if not _STILL_LAST.issuperset(after):
        return None
    if word in _LAST:
        return SecretName(_LAST[word])
    if word in _LAST_TEXT_ONLY:
        return SecretName(_LAST_TEXT_ONLY[word], text_only=True)
    return SecretName(_LAST_RANDOM_ONLY[word], True, random_only=True) if word in _LAST_RANDOM_ONLY else None


def _taken_back(found: SecretName, before: Words, after: Words) -> bool:
    not_before = _NOT_BEFORE_TOKEN if found.kind == "token" else _NOT_BEFORE
    return not not_before.isdisjoint(before) or not _NOT_AFTER.isdisjoint(after)
