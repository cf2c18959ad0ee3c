"""Texts that people write about dead letters: checked and redacted before they are stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from redrive.errors import InvalidValueError
from redrive.policy.bounds import require_kind
from redrive.policy.codec import encode
from redrive.policy.redact import Redactor

MAX_REASON_LENGTH = 2_000
MAX_NOTE_LENGTH = 10_000
MAX_WORD_LENGTH = 100
MAX_TAGS = 50

_LAYOUT = str.maketrans("", "", "\n\t")


def clean_text(name: str, text: object, redactor: Redactor, *, shortest: int, longest: int) -> str:
    """The text as it may be kept; lines and tabs are allowed in it."""
    require_kind(name, text, str)
    clean = str(text).strip()
    if not shortest <= len(clean) <= longest:
        raise InvalidValueError(
            f"{name} must have {shortest:,} to {longest:,} characters, got {len(clean):,}"
        )
    if not clean.translate(_LAYOUT).isprintable():
        raise InvalidValueError(f"{name} has characters that cannot be printed, got {clean[:100]!r}")
    return redactor.text(clean)


def clean_reason(reason: object, redactor: Redactor) -> str:
    return clean_text("reason", reason, redactor, shortest=0, longest=MAX_REASON_LENGTH)


def clean_words(name: str, words: object, redactor: Redactor) -> list[str]:
    """Short words of one line each, such as tags."""
    if isinstance(words, str) or not isinstance(words, Iterable):
        raise InvalidValueError(f"{name} must be a list of words, got {words!r}")
    return [clean_word(name, word, redactor) for word in words]


def clean_word(name: str, word: object, redactor: Redactor) -> str:
    text = clean_text(name, word, redactor, shortest=1, longest=MAX_WORD_LENGTH)
    if not text.isprintable():
        raise InvalidValueError(f"{name} must be one line, got {text!r}")
    return text


def refuse_secret(what: str, name: str, redactor: Redactor) -> None:
    """A name is shown everywhere, and must be what it is: it cannot be redacted."""
    if redactor.text(name) != name:
        raise InvalidValueError(f"{what} looks like a secret, and would be shown; give another one")


def retagged(tags: Sequence[str], add: Iterable[str], remove: Iterable[str]) -> str | None:
    """The text to store: these tags with some more and some less, in the order in which they came."""
    gone = set(remove)
    kept = [word for word in dict.fromkeys([*tags, *add]) if word not in gone]
    if len(kept) > MAX_TAGS:
        raise InvalidValueError(
            f"a dead letter has at most {MAX_TAGS} tags, these would be {len(kept)}; remove some"
        )
    return encode(kept) if kept else None
