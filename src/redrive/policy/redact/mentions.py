"""Secret mentions: a secret word in a sentence, and soon after it something that only a machine would write.

`the token Zk3… was rejected`, `password is Zk3…`. The link is loose, so the value must look like a secret
itself.
"""

from __future__ import annotations

import re

from redrive.policy.redact.contexts import replace_group
from redrive.policy.redact.marker import MARKER
from redrive.policy.redact.names import SecretNames
from redrive.policy.redact.patterns import Mark

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
