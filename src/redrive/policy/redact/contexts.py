"""Secret contexts: secrets known by what stands beside them, in URLs, headers and commands.

Only the secret is replaced; the user, the host and the command stay. Every expression is linear, or
bounded.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass

from redrive.policy.redact.marker import MARKER
from redrive.policy.redact.patterns import Mark, looks_random


def _always(_: str) -> bool:
    return True


def _is_bearer_token(text: str) -> bool:
    return len(text) >= 20 or any(map(str.isdigit, text))


def _is_user_and_password(text: str) -> bool:
    bare = text.rstrip("=")
    try:
        return b":" in b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except ValueError:
        return False


def _is_no_user_id(text: str) -> bool:
    return not text.isdigit() and not text.startswith("//")


@dataclass(frozen=True, slots=True)
class _Context:
    """What the group `secret` matches is one if it passes the check; without the gate nothing matches."""

    kind: str
    gate: str
    shape: re.Pattern[str]
    check: Callable[[str], bool] = _always


_USER = rf"://(?:{MARKER.pattern}|[^\s/?#:@\"'<>\[]*+):"
_SAME_COMMAND = r"[^\n|;&]{0,200}?[ ]"
_CONTEXTS = tuple(
    _Context(kind, gate, re.compile(shape), *check)
    for kind, gate, shape, *check in (
        ("aws_secret_key", "ia", r"A[KS]IA[A-Z0-9]{16}[^A-Za-z0-9+/]{1,8}(?P<secret>[\w+/]{40})(?![\w+/=])"),
        ("bearer_token", "bearer", r"(?i:bearer)[ \t]++(?P<secret>[\w\-.~+/]{8,}+=*+)", _is_bearer_token),
        (
            "basic_credentials",
            "basic",
            r"(?i:basic)[ \t]++(?P<secret>[A-Za-z0-9+/]{6,}+=*+)",
            _is_user_and_password,
        ),
        (
            "webhook_url",
            "slack.com",
            r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[\w\-/]++)",
        ),
        ("webhook_url", "discord", r"discord(?:app)?\.com/api/webhooks/[0-9]{1,20}/(?P<secret>[\w\-]++)"),
        ("webhook_url", "office.com", r"webhook\.office\.com/webhookb2/(?P<secret>[\w\-/@.]++)"),
        ("url_token", "://", r"://(?P<secret>[\w\-]{20,}+)(?=@|:[^\s/@]{0,256}@)", looks_random),
        ("url_password", "://", _USER + r"(?P<secret>[^\s/?#\"'<>]+)@(?=[\w\[%])(?!sha[0-9]+:)"),
        # A password with a slash in it, which is no port.
        (
            "url_password",
            "://",
            _USER + r"(?![0-9]{1,5}(?:[/?#\s\"']|$))(?P<secret>[^\s\"'<>@]{1,256})@(?=[\w\[%])",
        ),
        ("url_password", "@tcp(", r"(?<![^\s\"'=])[\w.\-]{1,64}+:(?P<secret>[^\s/\"']{1,256})@tcp\("),
        ("url_password", "jdbc:oracle", r"jdbc:oracle:\w{1,16}+:[^\s/@]{1,64}+/(?P<secret>[^\s@]{1,256}+)@"),
        (
            "password",
            "-u",
            r"(?<![\w\-])(?:-[uU]|--user|--proxy-user)(?:[ ]++|=)[\"']?+[^\s:\"'=]++:(?P<secret>[^\s\"']++)",
            _is_no_user_id,
        ),
        ("password", "sshpass", r"\bsshpass[ ]-p[ ]?(?P<secret>[^\s\"']++)"),
        ("password", "login", rf"\blogin\b{_SAME_COMMAND}-p[ ](?P<secret>[^\s\"'\-][^\s\"']*+)"),
        ("password", "mysql", rf"\bmysql\w{{0,12}}+\b{_SAME_COMMAND}-p(?P<secret>[^\s\"']++)"),
        ("password", "redis-cli", rf"\bredis-cli\b{_SAME_COMMAND}-a[ ](?P<secret>\S++)"),
    )
)
_HINTS = ("basic", "@tcp(", "jdbc:oracle", "-u ", "--user", "-p", "redis-cli")


def has_context(lowered: str) -> bool:
    """Whether a secret of this module can occur that no name and no token shape hints at."""
    return (
        ("://" in lowered and "@" in lowered)
        or any(hint in lowered for hint in _HINTS)
        or "redis-cli" in lowered
    )


def mark_contexts(text: str, mark: Mark) -> str:
    lowered = text.lower()
    for context in _CONTEXTS:
        if context.gate in lowered:
            text = _marked(context, text, mark)
    return text


def _marked(context: _Context, text: str, mark: Mark) -> str:
    def replaced(match: re.Match[str]) -> str:
        secret = match["secret"]
        if MARKER.fullmatch(secret) or not context.check(secret):
            return match[0]
        return replace_group(match, mark(context.kind, secret))

    return context.shape.sub(replaced, text)


def replace_group(match: re.Match[str], replacement: str) -> str:
    start, end = match.start("secret") - match.start(), match.end("secret") - match.start()
    return match[0][:start] + replacement + match[0][end:]
