"""The redactor.

`Redactor.text` takes any string, `Redactor.value` any JSON-like value. A secret is recognized by the name of
its field (`names`, and `assignments` within text), by its shape or by its context (`patterns`). JSON within a
string is redacted as JSON. Redacting a second time changes nothing, no method raises, and a value without
secrets is returned unchanged. Text is truncated at `MAX_TEXT_LENGTH`, which limits the time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from redrive.policy.redact.assignments import mark_assignments, mark_mentions
from redrive.policy.redact.marker import MARKER, REST, TOO_DEEP, UNSTABLE, Marker
from redrive.policy.redact.names import SecretNames
from redrive.policy.redact.patterns import has_context, has_token_shape, mark_contexts, mark_patterns
from redrive.policy.redact.walk import MAX_DEPTH, Key, Walk

MAX_TEXT_LENGTH: Final = 262_144
MAX_REMEMBERED_LENGTH, MAX_REMEMBERED = 4_096, 512
"""The number of texts without secrets to cache, and their maximum length: messages of failures repeat."""

_MAX_WORD_LENGTH = 4096
_MAX_PASSES = 6
_JSON_BEGINS = re.compile(r"\s*+[\[{\"]")
_COLOR = re.compile(r"\x1b\[[0-9;]{0,16}m")
_DOUBLE = ("&quot;", "&#34;", "&#x22;")
_QUOTE_ENTITY = re.compile(r"&quot;|&#34;|&#x22;|&#39;|&#x27;|&apos;")
_SPLIT_AT_MARKERS = re.compile(f"({MARKER.pattern})")


class RedactionRules(NamedTuple):
    """The rules that an application adds to the built-in ones."""

    extra_keys: tuple[str, ...]
    allow_keys: tuple[str, ...]
    patterns: tuple[str, ...]


class Redactor:
    """Replaces secrets by markers; with an org's `key`, equal secrets of that org get equal hashes.

    extra_keys      additional names of secrets
    allow_keys      names that are not secret; values can still be recognized by their shape
    extra_patterns  regular expressions whose matches are secrets. They must be linear: all text is matched
    """

    def __init__(
        self,
        key: bytes = b"",
        extra_keys: Iterable[str] = (),
        extra_patterns: Iterable[re.Pattern[str] | str] = (),
        allow_keys: Iterable[str] = (),
    ) -> None:
        self._mark = Marker(key)
        more, less = tuple(extra_keys), tuple(allow_keys)
        self._names = SecretNames(more, less)
        self._extra_patterns = tuple(re.compile(pattern) for pattern in extra_patterns)
        self.rules = RedactionRules(more, less, tuple(pattern.pattern for pattern in self._extra_patterns))
        self._clean: dict[str, bool] = {}  # texts without secrets → whether they are clean at any depth
        self._keys: dict[str, Key] = {}

    def text(self, text: str) -> str:
        """Redact a text: a log line, an exception message, a URL, a JSON document."""
        try:
            return self._text(str.__str__(text), depth=0)
        except RecursionError:  # the caller's stack was nearly used up
            return TOO_DEEP

    def value(self, value: Any) -> Any:
        """Redact a copy of the value; an object that is not JSON-like becomes its redacted repr."""
        try:
            return self._walk().value(value, depth=0)
        except RecursionError:
            return TOO_DEEP

    def is_clean_json(self, text: str) -> bool:
        """Return whether `value` would change nothing in this JSON; False if that is not certain.

        Unless something is escaped, every key and string occurs literally in the text, so that checking the
        text finds every sign of a secret in them. Pass text from `codec.plain_text`, nested at most
        `MAX_DEPTH - 1` deep.
        """
        if len(text) > MAX_TEXT_LENGTH or "\\" in text or "[redacted:" in text:
            return False
        return not self._is_suspicious(text)

    def _walk(self) -> Walk:
        return Walk(self._names, self._mark, self._text, self._keys)

    def _text(self, text: str, depth: int) -> str:
        clean_at_any_depth = self._clean.get(text)
        if clean_at_any_depth or (clean_at_any_depth is False and depth == 0):
            return text
        redacted = _shortened(text)
        if self._is_suspicious(redacted):
            redacted = self._redacted(redacted, depth)
        elif depth:
            return redacted
        if redacted == text and len(text) <= MAX_REMEMBERED_LENGTH:
            self._remember(text, depth)
        return redacted

    def _remember(self, text: str, depth: int) -> None:
        at_any_depth = _JSON_BEGINS.match(text) is None
        if at_any_depth or depth == 0:
            if len(self._clean) >= MAX_REMEMBERED:
                self._clean = {}
            self._clean[text] = at_any_depth

    def _redacted(self, text: str, depth: int) -> str:
        # A replacement may expose another secret: repeat until a pass changes nothing.
        for _ in range(_MAX_PASSES):
            redacted = _shortened(self._unveiled_pass(text, depth))
            if redacted == text:
                return text
            text = redacted
        return UNSTABLE

    def _is_suspicious(self, text: str) -> bool:
        if self._extra_patterns:
            return True
        lowered = text.lower()
        # Names last: searching for them takes ten times as long as the other two checks.
        return has_token_shape(lowered) or has_context(lowered) or self._names.may_occur(text)

    def _unveiled_pass(self, text: str, depth: int) -> str:
        """Redact without colors and quote entities, which separate names from values; keep them if clean."""
        redacted, plain = self._pass(text, depth), _unveiled(text)
        if redacted != text or plain == text:
            return redacted
        redacted = self._pass(plain, depth)
        return text if redacted == plain else redacted

    def _pass(self, text: str, depth: int) -> str:
        as_json = self._json(text, depth)
        if as_json is not None:
            return as_json
        text = mark_contexts(text, self._mark)
        text = mark_patterns(text, self._mark)
        if self._names.may_occur(text):
            text = mark_assignments(text, self._names, self._mark)
            text = mark_mentions(text, self._names, self._mark)
        return self._mark_extra(text) if self._extra_patterns else text

    def _json(self, text: str, depth: int) -> str | None:
        if depth >= MAX_DEPTH or _JSON_BEGINS.match(text) is None:
            return None
        try:
            content = json.loads(text, object_pairs_hook=_unambiguous)
        except (ValueError, RecursionError):
            return None
        walk = self._walk()
        redacted = walk.value(content, depth + 1)
        return json.dumps(redacted, ensure_ascii=text.isascii()) if walk.changed else text

    def _mark_extra(self, text: str) -> str:
        for pattern in self._extra_patterns:
            pieces = _SPLIT_AT_MARKERS.split(text)
            pieces[::2] = [
                pattern.sub(lambda match: match[0] and self._mark("custom", match[0]), piece)
                for piece in pieces[::2]
            ]
            text = "".join(pieces)
        return text


def _shortened(text: str) -> str:
    """Truncate the text before the word at the limit, because half a secret would not be recognized."""
    if len(text) <= MAX_TEXT_LENGTH:
        return text
    head = text[: MAX_TEXT_LENGTH - len(REST)]
    tail = head[-_MAX_WORD_LENGTH:]
    words = tail.rsplit(maxsplit=1)
    return head[: -len(words[-1])] + REST if len(words) == 2 else head[:-_MAX_WORD_LENGTH] + REST


def _unveiled(text: str) -> str:
    if "\x1b" in text:
        text = _COLOR.sub("", text)
    if "&quot;" in text or "&#" in text:
        text = _QUOTE_ENTITY.sub(lambda match: '"' if match[0] in _DOUBLE else "'", text)
    return text


def _unambiguous(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Reject a document with a repeated name, which would lose a value; it is then redacted as text."""
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("a name occurs twice")
    return content


DEFAULT_REDACTOR: Final = Redactor()
