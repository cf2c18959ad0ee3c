"""Texts that people write about dead letters, which are checked and redacted before they are stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from redrive.errors import InvalidValueError
from redrive.policy.bounds import require_kind, require_list
from redrive.policy.codec import encode
from redrive.policy.redact import Redactor

MAX_REASON_LENGTH = 2_000
MAX_NOTE_LENGTH = 10_000
MAX_WORD_LENGTH = 100
MAX_TAGS = 50

_LAYOUT = str.maketrans("", "", "\n\t")


def clean_text(name: str, text: object, redactor: Redactor, *, min_length: int, max_length: int) -> str:
    """Return the text stripped, checked and redacted. Line breaks and tabs are allowed.

    Browsers send line breaks as CR LF. The error about a character doesn't quote the text: a quote is
    escaped and cut, so secrets in it can't be recognized.
    """
    require_kind(name, text, str)
    clean = str(text).replace("\r\n", "\n").strip()
    if not min_length <= len(clean) <= max_length:
        raise InvalidValueError(
            f"{name} must have {min_length:,} to {max_length:,} characters, got {len(clean):,}"
        )
    unprintable = next((each for each in clean.translate(_LAYOUT) if not each.isprintable()), None)
    if unprintable is not None:
        raise InvalidValueError(
            f"{name} has the character {unprintable!a} at position {clean.index(unprintable) + 1}, "
            "which cannot be printed; remove it"
        )
    return redactor.text(clean)


def clean_reason(reason: object, redactor: Redactor) -> str:
    return clean_text("reason", reason, redactor, min_length=0, max_length=MAX_REASON_LENGTH)


def clean_words(name: str, words: Iterable[object], redactor: Redactor) -> list[str]:
    """Clean short texts of one line each, such as tags."""
    require_list(name, words, "words")
    return [clean_word(name, word, redactor) for word in words]


def clean_word(name: str, word: object, redactor: Redactor) -> str:
    text = clean_text(name, word, redactor, min_length=1, max_length=MAX_WORD_LENGTH)
    if not text.isprintable():
        raise InvalidValueError(f"{name} must be one line, got {text!r}")
    return text


def refuse_secret(what: str, name: str, redactor: Redactor) -> None:
    """Reject a name that looks like a secret: names are shown everywhere and cannot be redacted."""
    if redactor.text(name) != name:
        raise InvalidValueError(f"{what} looks like a secret, but would be visible; choose another one")


def retagged(tags: Sequence[str], add: Iterable[str], remove: Iterable[str]) -> str | None:
    """Return the JSON text of the tags after adding and removing some, in their original order."""
    removed = set(remove)
    result = [word for word in dict.fromkeys([*tags, *add]) if word not in removed]
    if len(result) > MAX_TAGS:
        raise InvalidValueError(
            f"a dead letter can have at most {MAX_TAGS} tags; this would be {len(result)}. Remove some"
        )
    return encode(result) if result else None
