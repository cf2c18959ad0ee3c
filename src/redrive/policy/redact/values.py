"""Secret values: where the value after a secret name ends, and whether it is a secret at all.

The start of the value determines its end: a quote, a bracket, the scheme of a header, a bare word.
Placeholders, types, code in a traceback and the next words of a sentence are not secrets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from redrive.policy.redact.marker import MARKER
from redrive.policy.redact.names import SecretName
from redrive.policy.redact.patterns import looks_random

Span = tuple[int, int]

_QUOTE = re.compile(r"[bru]{0,2}(?P<slashes>\\*+)(?P<quote>[\"'`])")
_QUOTES = re.compile(r"(?P<slashes>\\*+)(?P<quote>[\"'`])")
_BRACKETS = {"(": ")", "[": "]", "{": "}", "<": ">"}
_IN_BRACKETS = re.compile(r"\\.|\"(?:[^\"\\]|\\.)*+\"?|'(?:[^'\\]|\\.)*+'?|[()\[\]{}<>]", re.DOTALL)
_CONSTRUCTOR = re.compile(r"[A-Z]\w*+(?=\((?:\w++=)?[\"'])")
_ANNOTATION = re.compile(r"[A-Za-z][\w.\[\]|]{0,60}+(?:[ ]\|[ ]\w{1,20}+)?+[ ]?=[ ]?(?=[\"'`])")
_NEXT_NAME = r"(?:amp;)?[\w.\-%\[\]]{0,64}+[\"']?[ ]?(?:=|:(?!//))"
_BARE = (
    r"(?:[^\s\"'`\\,;&%<]"
    rf"|[,&](?!\s|$|[\"'`]|{_NEXT_NAME})"
    r"|;(?!\s|$|[\"'`]|[\w.\-% ]{0,64}+=)"
    r"|<(?![/A-Za-z!])"
    r"|\\(?!\\{0,8}+[\"'`]|u00|[nrt](?:[A-Za-z_][\w.\-]{0,64}+[ ]?[=:]|[\"'`\\\s]|$))"
)
_BARE_WORD = re.compile(_BARE + r"|%)++")
_BARE_ESCAPED_WORD = re.compile(_BARE + r"|%(?!26|22|27|0[AaDd]))++")
_CLOSERS = ".,;:)]}>"
_LINE = re.compile(r"(?:[^\r\n\\]|\\(?![nr]))*+")
_COOKIE = re.compile(r"[^\s=;:]{1,256}+=")
_COOKIES = re.compile(r"[^\s;\"'\\]++(?:;[ \t]*+[^\s;\"'\\]++)*+")
_SCHEME = re.compile(r"(?i:bearer|basic|token|apikey|api-key|negotiate|ntlm|jwt|key)[ \t]++")
_TWO_WORDS = re.compile(rf"(?!{MARKER.pattern})[^\s,;\"']++[ \t]++\S")
_PHRASE = re.compile(r"[a-z]++(?:[ ][a-z]++){2,23}")

_PLACEHOLDER = re.compile(
    r"[*•.xX#]{2,}|<[\w .:\-]{1,40}>|\[(?i:redacted|filtered|masked|hidden|removed|secret)\]|\$\{[^{}]*\}"
    r"|\$[A-Z_][A-Z0-9_]*|\{\{[^{}]*\}\}|\{[a-z_.]*\}|%s|%\([a-z_]+\)s|:[a-z_]+"
)
_CODE = re.compile(
    r"(?:self|cls|os|settings|config|conf|cfg|request|env|environ|args|kwargs|options|opts|ctx|context|params|data"
    r"|payload|app|user|event|secrets|process)[.\[].*"
    r"|[A-Za-z_][\w.]*\([^()]*\)?|(?:Optional|Union|Annotated|Literal|SecretStr|str|bytes|int|Any)(?:\[.*)?",
    re.DOTALL,
)
_TYPE = re.compile(r"(?:[a-z_]+\.)*(?:[A-Z][a-z]+){1,6}|[a-z_]+(?:\.[a-z_]+)+")
_WORDS = """
    a absent accepted an and any are await bad basic bearer bool boolean but bytes can cannot changed could
    denied did disabled does empty enabled error exceeded expected expired fail failed false filtered float
    for forbidden found hash hidden in incorrect int integer invalid is it its malformed masked may mismatch
    missing must nil no none not null number object ok okay only optional or please provided redacted
    rejected removed required reset revoked secretstr set should str string success the this to too true
    type unauthorized undefined unknown unset updated valid value was we were when will with without wrong
    yes you your
"""
_NO_SECRETS = frozenset(_WORDS.split())
_COUNT = re.compile(r"(?:\w+=)?[0-9][0-9.,_]*")
_PLAIN_WORD = re.compile(r"[A-Z]?[a-z]+")
_SENTENCE_GOES_ON = re.compile(r"[,.]?[ ]{1,4}[A-Za-z]{1,40}+(?![\w.\-]{0,64}[\"']?[ ]?[=:])")
_MIN_LENGTH = {"password": 1, "pin": 1, "otp": 1, "cvv": 1, "ssn": 1}
_MIN_OTHER_LENGTH = 4
_MAX_ELEMENT_LENGTH = 4096
_MAX_HEADER_LENGTH = 16_384
# A value that is kept is read again. Longer values are always replaced, so that the time stays linear.
_MAX_NOTHING_LENGTH = 512


@dataclass(frozen=True, slots=True)
class NamePlace:
    """A secret name in a text: its position, the sign after it, and the start of its value."""

    name: SecretName
    word: str
    start: int
    value: int
    sign: str = "="


def secret_span(text: str, place: NamePlace) -> Span | None:
    """Return the start and the end of the secret; None if the value is not a secret."""
    begin = place.value
    if ":" in place.sign and (annotation := _ANNOTATION.match(text, begin)):
        begin = annotation.end()
    if quote := _QUOTE.match(text, begin):
        start, end = _quoted(text, quote)
        return None if _is_nothing(text[start:end], place.name) else (start, end)
    start, end = _unquoted(text, place)
    is_none = _is_nothing(text[start:end], place.name) or _is_prose(text, start, end, place)
    return None if is_none else (start, end)


def _quoted(text: str, opening: re.Match[str]) -> Span:
    """Find the closing quote with equal escaping: in JSON within JSON \\" closes, \\\\\\" does not."""
    start, level, tripled = opening.end(), len(opening["slashes"]), opening["quote"] * 3
    if text.startswith(tripled, start - 1) and (end := text.find(tripled, start + 2)) >= 0:
        return start + 2, end
    for closing in _QUOTES.finditer(text, start):
        slashes = len(closing["slashes"])
        if closing["quote"] == opening["quote"] and (slashes < level or slashes % (2 * level + 2) == level):
            return start, closing.end() - 1 - min(level, slashes)
    return start, _matched_end(_LINE, text, start)


def _matched_end(shape: re.Pattern[str], text: str, start: int) -> int:
    match = shape.match(text, start)
    return match.end() if match else start


def _unquoted(text: str, place: NamePlace) -> Span:
    start, kind, sign = place.value, place.name.kind, place.sign.strip()
    if sign == ">":
        return start, max(start, text.find("</", start, start + _MAX_ELEMENT_LENGTH))
    if constructor := _CONSTRUCTOR.match(text, start):
        return constructor.end() + 1, _bracket_end(text, constructor.end()) - 1
    if text[start : start + 1] in _BRACKETS and not MARKER.match(text, start):
        return start, _bracket_end(text, start)
    if kind in ("authorization", "cookie") and sign in ("=", ":"):
        return _header(text, place)
    if kind == "passphrase" and (phrase := _PHRASE.match(text, start)):
        return phrase.span()
    return start, _bare_end(text, start, _BARE_ESCAPED_WORD if sign.startswith("%") else _BARE_WORD)


def _bare_end(text: str, start: int, shape: re.Pattern[str] = _BARE_WORD) -> int:
    """Return the end of a bare word, without the brackets and punctuation after it."""
    settled = MARKER.match(text, start)
    begin = settled.end() if settled else start
    word = text[begin : _matched_end(shape, text, begin)]
    kept = word.rstrip(_CLOSERS)
    still_open = sum(map(kept.count, "([{<")) - sum(map(kept.count, ")]}>"))
    return begin + min(len(word), len(kept) + max(0, still_open))


def _header(text: str, place: NamePlace) -> Span:
    start = place.value
    if place.name.kind == "cookie" and _COOKIE.match(text, start) and not place.word.endswith("s"):
        return start, _header_end(text, place, _LINE if ":" in place.sign else _COOKIES)
    if scheme := _SCHEME.match(text, start):
        return scheme.end(), _bare_end(text, scheme.end())
    if ":" in place.sign and place.word.lower().endswith("authorization") and _TWO_WORDS.match(text, start):
        return start, _header_end(text, place, _LINE)
    return start, _bare_end(text, start)


def _header_end(text: str, place: NamePlace, shape: re.Pattern[str]) -> int:
    """Return the end of a header; one in quotes (`-H 'Cookie: …'`) ends with the quotes."""
    before, limit = text[place.start - 1 : place.start], len(text)
    if before in ("'", '"', "`"):
        closing = text.find(before, place.value, place.value + _MAX_HEADER_LENGTH)
        limit = closing if closing >= 0 else limit
    match = shape.match(text, place.value, limit)
    return place.value + len(match[0].rstrip()) if match else place.value


def _bracket_end(text: str, start: int) -> int:
    opening, depth = text[start], 0
    closing = _BRACKETS[opening]
    for match in _IN_BRACKETS.finditer(text, start):
        depth += (match[0] == opening) - (match[0] == closing)
        if depth == 0:
            return match.end()
    return len(text)


def _is_nothing(value: str, name: SecretName) -> bool:
    """Return whether a value is empty, redacted, a placeholder, a count, or not of the announced kind."""
    if len(value) > _MAX_NOTHING_LENGTH:
        return False
    if len(value) < _MIN_LENGTH.get(name.kind, _MIN_OTHER_LENGTH) or MARKER.fullmatch(value):
        return True
    bare = value.strip("\"'")
    if _PLACEHOLDER.fullmatch(bare) or bare.lower() in _NO_SECRETS:
        return True
    if name.random_only:
        return not looks_random(value)
    return name.text_only and _COUNT.fullmatch(value) is not None


def _is_prose(text: str, start: int, end: int, place: NamePlace) -> bool:
    """Return whether a value is code in a traceback, or the words after a colon in a sentence."""
    if end - start > _MAX_NOTHING_LENGTH:
        return False
    value = text[start:end]
    if value == place.word.rpartition(".")[2].lstrip("_") or _CODE.fullmatch(value):
        return True
    if place.name.kind != "password" and _TYPE.fullmatch(value):
        return True
    if not place.sign.endswith(": ") or not _PLAIN_WORD.fullmatch(value):
        return False
    return _SENTENCE_GOES_ON.match(text, end) is not None
