"""Secrets after their names: assignments (`password=…`, `"token": "…"`, `--api-key …`) and mentions.

One pass from left to right finds assignments and replaces the value after a secret name. A mention is a
secret word in a sentence, followed closely by a value that looks secret: `the token Zk3… was rejected`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from redrive.policy.redact.marker import MARKER
from redrive.policy.redact.names import SecretName, SecretNames
from redrive.policy.redact.patterns import Mark, replace_group
from redrive.policy.redact.values import NamePlace, Span, secret_span

_ASSIGNMENT = re.compile(
    rf"""
      {MARKER.pattern}                  # already redacted: step over it
    | (?<![\w.\-]) --? (?P<flag>[A-Za-z][\w.\-]*+) (?:[ ]++ | ["'],[ ]*+(?=["'])) (?=[^\s=:\-])
    | (?<![\w.\-]) (?P<sql>(?i:pass(?:word|wd)[ ]|pwd[ ]|identified[ ]by[ ]|password[ ]for[ ][^\n=]{{1,80}}=))
      [ ]*+ (?=["'])
    | (?<=[<:]) (?P<element>[\w.\-]++) (?:[ ][^<>]{{0,200}}+)?>
    | (?<![\w.\-]) (?i:name|key)["']?[ ]?[=:][ ]?["'] (?P<label>[\w.\-]{{1,100}}+)
      ["'],?\s{{1,8}}["']?(?i:value)["']?[ ]?[=:][ ]?
    | (?<![\w.\-]) (?P<name>[\w.\-]++) (?:\\*+["'`]|%2[27])? (?:[\])]|%5[Dd])?
      (?: (?P<comma>,[ ]*+(?=b?["']))
        | (?P<sign>[ \t]*+(?:=>|:=|==?|:(?!//)|->|%3[DdAa](?:%2[27])?)[ \t]*+) (?:[|>][+\-]?[ ]?\n[ \t]++)?+ )
    """,
    re.VERBOSE,
)
# Validation errors name the field on one line and show its value on the next.
_VALIDATION_ERROR = re.compile(
    r"^(?P<name>[\w.\-]{1,200}+)\n[ \t]++[^\n]{0,400}?\binput_value=", re.MULTILINE
)
_MAX_NAME_LENGTH = 64
_VARIABLE = re.compile(r"[a-z]+(?:_[a-z]+)+")
_WORD_BEFORE = re.compile(r"(?<![A-Za-z])[A-Za-z]{2,16}[ ](?=$)")
_TWO_WORD_ENDS = frozenset({"key", "keys", "code", "string", "number", "id", "phrase"})
_PAIR_OPENINGS = ("[('", '[("', "), ('", '), ("', "[(b'", "), (b'")
_QUERY_NAMES = frozenset({"code", "key"})
_MENTION = re.compile(
    r"(?P<word>(?i:passw(?:or)?d|passphrase|pwd|secret|token|(?:api|access|private|signing)[ _-]?key"
    r"|credentials?|session(?:[ _-]?id)?))(?:Str)?[\"'`*\])>]{0,3}+"
    r"(?:[ ](?:is|was|provided|given|value|->|of|for[ ][^\n:=]{1,80}+))?"
    r"[\s:=|,\-(<\[\"'`*>]{1,8}+(?:value=[\"']?)?"
    r"(?P<secret>[^\s\"'`<>()\[\],;]{8,}+)"
)
_CODE_MENTION = re.compile(
    r"(?i:verification|security|confirmation|login|one-time|auth\w{0,12}+)[ ](?i:code|pin|passcode)"
    r"(?:[ ](?i:is|was))?:?[ ](?P<secret>[0-9]{4,8})(?![\w.])"
)
_CAMEL_CASE = re.compile(r"(?:[A-Z][a-z]+)+[0-9]*")
_HEXADECIMAL = re.compile(r"[0-9a-fA-F\-]{16,}")

Found = tuple[SecretName, Span]


def mark_assignments(text: str, names: SecretNames, mark: Mark) -> str:
    text = _marked(text, _assignments(text, names), mark)
    return _marked(text, _validation_errors(text, names), mark) if "input_value=" in text else text


def _marked(text: str, found: Iterator[Found], mark: Mark) -> str:
    pieces: list[str] = []
    done = 0
    for name, (start, end) in found:
        pieces += [text[done:start], mark(name.kind, text[start:end])]
        done = end
    return "".join([*pieces, text[done:]]) if pieces else text


def _assignments(text: str, names: SecretNames) -> Iterator[Found]:
    position = 0
    while match := _ASSIGNMENT.search(text, position):
        place = _place(text, match, names)
        span = secret_span(text, place) if place else None
        if place and span and not _is_name_itself(text, span, names):
            yield place.name, span
            position = span[1]
        else:
            position = _name_end(match)


def _validation_errors(text: str, names: SecretNames) -> Iterator[Found]:
    for match in _VALIDATION_ERROR.finditer(text):
        name = names.find(match["name"])
        span = secret_span(text, NamePlace(name, match["name"], match.start(), match.end())) if name else None
        if name and span:
            yield name, span


def _name_end(match: re.Match[str]) -> int:
    """Return where to continue if no secret was found: the value may contain further names."""
    ends = map(match.end, ("flag", "sql", "element", "label", "name"))
    return max(ends) if match.lastgroup else match.end()


def _place(text: str, match: re.Match[str], names: SecretNames) -> NamePlace | None:
    if match["sql"]:
        return NamePlace(SecretName("password"), "", match.start(), match.end(), " ")
    if match["name"] is None:
        word = match["flag"] or match["element"] or match["label"] or ""
        name, sign = names.find(word), ">" if match["element"] else " "
    elif _is_no_assignment(text, match):
        return None
    else:
        word = _unescaped(text, match)
        name, sign = _name(text, word, match.start(), names), match["sign"] or " "
    return NamePlace(name, word, match.start(), match.end(), sign) if name else None


def _is_no_assignment(text: str, match: re.Match[str]) -> bool:
    """Return whether a sign is a comma outside a list of pairs, or in a resource name (`arn:…:secret:…`)."""
    start = match.start()
    if match["comma"]:
        return not text.endswith(_PAIR_OPENINGS, 0, start)
    return match["name"] == "secret" and match["sign"] == ":" and text[start - 1 : start] == ":"


def _unescaped(text: str, match: re.Match[str]) -> str:
    """Return the name without a preceding escape: `\\nTOKEN=` and `%3Ftoken=` contain TOKEN and token."""
    word, before = match["name"], text[match.start() - 1 : match.start()]
    escape = 2 if before == "%" else 1 if before == "\\" and word[0] in "nrt" else 0
    return word[escape:].lstrip("-")


def _name(text: str, word: str, start: int, names: SecretNames) -> SecretName | None:
    found = names.find(word)
    if found is None and word.lower() in _TWO_WORD_ENDS:
        before = _WORD_BEFORE.search(text, max(0, start - 18), start)
        found = names.find(before[0] + word) if before else None
    if found is None and word.lower() in _QUERY_NAMES and text[start - 1 : start] in ("?", "&", "%", ";"):
        return SecretName("query_value", text_only=True, random_only=True)
    return found


def _is_name_itself(text: str, span: Span, names: SecretNames) -> bool:
    """Return whether the value is a name: `credentials: password: …`, or `token=access_token` in code."""
    value = text[slice(*span)]
    is_name = text[span[1] : span[1] + 1] == ":" or _VARIABLE.fullmatch(value)
    return bool(is_name) and len(value) <= _MAX_NAME_LENGTH and names.find(value) is not None


def mark_mentions(text: str, names: SecretNames, mark: Mark) -> str:
    def marked(match: re.Match[str]) -> str:
        secret, name = match["secret"], names.find(match["word"])
        if name is None or MARKER.search(secret) or not _looks_made_by_a_machine(secret):
            return match[0]
        return replace_group(match, mark(name.kind, secret))

    text = _MENTION.sub(marked, text)
    return _CODE_MENTION.sub(lambda match: replace_group(match, mark("otp", match["secret"])), text)


def _looks_made_by_a_machine(text: str) -> bool:
    if len(text) < 10 or not any(map(str.isdigit, text)) or "://" in text:
        return False
    if any(map(str.isupper, text)) and any(map(str.islower, text)):
        return _CAMEL_CASE.fullmatch(text) is None
    return _HEXADECIMAL.fullmatch(text) is not None and any(map(str.isalpha, text))
