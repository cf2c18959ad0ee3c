"""Secret patterns: secrets recognized by their shape, or by their context in URLs, headers and commands.

Every expression is linear: repetitions are possessive or bounded, and never nested so that they could divide
the same text in two ways. A secret is matched to its end, so that no part of it remains. In a context, only
the secret is replaced; the user, the host and the command stay.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass

from redrive.policy.redact.marker import MARKER

Mark = Callable[[str, str], str]

# A token has no letter or digit before it, except the end of an escape (`\n`, `%3D`).
_START = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2})|(?<=\\u00[0-9a-fA-F]{2}))"
_END = r"(?![A-Za-z0-9])"

# No token is shorter than the shortest run, or has a character that a run cannot have.
_RUN = re.compile(r"[\w\-.~+/=%:]{20,}+")
_TOKENS = {
    "aws_access_key": rf"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{{16}}{_END}",
    "gcp_api_key": r"AIza[\w\-]{35,}+",
    "google_oauth": r"ya29\.[\w\-.]{20,}+|GOCSPX-[\w\-]{20,}+|1(?://|%2[Ff]%2[Ff])0[\w\-]{20,}+",
    "azure_key": r"(?<![+/\-])[A-Za-z0-9+/]{86}==|(?:[A-Za-z0-9]|%2[BbFf]){86}%3[Dd]%3[Dd]",
    "azure_secret": r"[A-Za-z0-9_~.]{3}[0-9]Q~[\w~.\-]{31,}+",
    "github_token": r"gh[pousr]_[A-Za-z0-9_]{36,}+|github_pat_\w{22,}+",
    "gitlab_token": r"gl(?:pat|ptt|dt|rt|cbt|ft|soat|agent|imt|oas)-[\w\-.]{20,}+|GR1348941[\w\-]{20,}+",
    "slack_token": r"xox[abceoprs](?:\.xox[bp])?-[\w\-]{15,}+|xapp-[0-9]-[\w\-]{15,}+",
    "stripe_key": r"[sr]k_(?:live|test|prod)_\w{12,}+|whsec_[A-Za-z0-9+/=]{24,}+",
    "anthropic_key": r"sk-ant-[\w\-]{20,}+",
    "openai_key": r"sk-(?:proj|svcacct|admin|None|or-v1|lf)-[\w\-]{20,}+|sk-[A-Za-z0-9]{32,}+",
    "npm_token": r"npm_[A-Za-z0-9]{36,}+",
    "pypi_token": r"pypi-Ag[\w\-]{50,}+",
    "sendgrid_key": r"SG\.[\w\-]{16,64}+\.[\w\-]{16,}+",
    "twilio_key": rf"SK[0-9a-fA-F]{{32}}{_END}",
    "mailgun_key": rf"key-[0-9a-f]{{32}}{_END}|[0-9a-f]{{32}}-[0-9a-f]{{8}}-[0-9a-f]{{8}}(?![\w\-])",
    "mailchimp_key": r"[0-9a-f]{32}-us[0-9]{1,2}(?![\w\-])",
    "digitalocean_token": r"do[opr]_v1_[0-9a-f]{64,}+",
    "hugging_face_token": r"(?:hf|api_org)_[A-Za-z0-9]{30,}+",
    "shopify_token": r"shp(?:at|ca|pa|ss|tka)_[0-9a-fA-F]{32,}+",
    "square_token": r"EAAA(?!AA)[\w\-]{56,}+|sq0(?:atp|csp)-[\w\-]{22,}+",
    "telegram_token": r"(?:bot)?[0-9]{8,10}(?::|%3[Aa])AA[\w\-]{32,}+",
    "discord_token": r"[MNO][\w\-]{23,27}\.[\w\-]{6}\.[\w\-]{27,}+|mfa\.[\w\-]{80,}+",
    "heroku_key": r"HRKU-[\w\-]{36,}+",
    "databricks_token": r"dapi[0-9a-f]{32}(?:-[0-9])?" + _END,
    "vault_token": r"hv[sbr]\.[\w\-]{24,}+",
    "grafana_token": r"glsa_[A-Za-z0-9]{32}_[0-9a-f]{8,}+|glc_[A-Za-z0-9+/=]{32,}+",
    "docker_token": r"dckr_(?:pat|oat)_[\w\-]{20,}+",
    "atlassian_token": r"AT(?:ATT|CTT)3[\w\-=]{60,}+",
    "airtable_token": r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64,}+",
    "groq_key": r"gsk_[A-Za-z0-9]{40,}+",
    "replicate_token": r"r8_[A-Za-z0-9]{37,}+",
    "xai_key": r"(?:xai|pplx)-[A-Za-z0-9]{40,}+",
    "linear_key": r"lin_(?:api|oauth)_[A-Za-z0-9]{32,}+",
    "notion_token": r"ntn_[A-Za-z0-9]{40,}+|secret_[A-Za-z0-9]{43}" + _END,
    "new_relic_key": r"NRAK-[A-Z0-9]{27,}+",
    "postman_key": r"PMAK-[0-9a-f]{24}-[0-9a-f]{34,}+",
    "planetscale_token": r"pscale_(?:tkn|pw|oauth)_[\w\-.]{32,}+",
    "pulumi_token": r"pul-[0-9a-f]{40,}+",
    "rubygems_key": r"rubygems_[0-9a-f]{48,}+",
    "sentry_token": r"sntry[su]_[A-Za-z0-9+/=_]{40,}+",
    "supabase_token": r"sb[ps]_(?:[0-9a-f]{40,}+|secret_[\w\-]{20,}+)",
    "terraform_token": r"[A-Za-z0-9]{14}\.atlasv1\.[\w\-]{60,}+",
    "alibaba_key": rf"LTAI[A-Za-z0-9]{{16,20}}{_END}",
    "age_key": r"AGE-SECRET-KEY-1[A-Z0-9]{50,}+",
    "redrive_key": r"rdk_[0-9a-f]{32}_[\w\-]{20,}+",
    # Payloads store bytes, such as the headers of an ASGI request, as base64.
    "base64_credentials": r"[QY]mVhcmVyI[A-Za-z0-9+/]{12,}+={0,2}|[QY]mFzaWMg[A-Za-z0-9+/]{12,}+={0,2}",
    "base64_private_key": (
        r"LS0tLS1CRUdJTi(?:BQUklWQVRF|BSU0Eg|BFQyBQ|BEU0Eg|BPUEVOU1NI|BFTkNSWVBURUQ)[A-Za-z0-9+/]{20,}+={0,2}"
    ),
    "jwt": r"eyJ[\w\-]{8,1024}+\.(?:[\w\-]{8,}+|(?=\.))(?:\.[\w\-]*+){0,3}+",
}
_TOKEN = re.compile(
    _START + "(?:" + "|".join(f"(?P<{kind}>{shape})" for kind, shape in _TOKENS.items()) + ")"
)
_RUN_HINT = re.compile(r"[a-z0-9_\-]{20}")
_CARD_HINT = re.compile(r"[0-9][0-9][0-9][0-9][ -]?[0-9]{4}[0-9 -]{4}")  # twice as fast as with [0-9]{4}

_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:[A-Za-z0-9+/=\s\\:,.()_]|-(?!----))*+(?:-----END [A-Z0-9 ]{1,60}-----)?"
)
_CARD = re.compile(
    r"[0-9](?<![A-Za-z0-9][0-9])(?<![0-9]\.[0-9])"
    r"(?:[0-9]{12,18}|[0-9]{3}([ -])[0-9]{4}\1[0-9]{4}\1[0-9]{4}(?:\1[0-9]{3})?"
    r"|[0-9]{3}([ -])[0-9]{6}\2[0-9]{4,5})(?![A-Za-z0-9])(?!\.[0-9])"
)
_ONE_WORD = re.compile(r"[\w\-.~+/=%]+")
_LONG = frozenset(range(16, 20))
_ISSUERS = (
    (re.compile(r"4"), frozenset({13, 16, 19})),
    (re.compile(r"5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720|220[0-4]"), frozenset({16})),
    (re.compile(r"3[47]"), frozenset({15})),
    (re.compile(r"30[0-5]|3[689]"), frozenset({14})),
    (re.compile(r"6011|64[4-9]|65|62|35(?:2[89]|[3-8])"), _LONG),
    (re.compile(r"5018|5020|5038|5893|6304|6759|676[1-3]"), frozenset(range(13, 20))),
)


def is_card(digits: str) -> bool:
    """Return whether the digits have a card issuer's prefix and length and pass the Luhn check."""
    if not any(len(digits) in lengths and prefix.match(digits) for prefix, lengths in _ISSUERS):
        return False
    doubled = [sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2]]
    return (sum(doubled) + sum(map(int, digits[-1::-2]))) % 10 == 0


def looks_random(text: str) -> bool:
    if len(text) < 20 or _ONE_WORD.fullmatch(text) is None:
        return False
    return any(map(str.isdigit, text)) and any(map(str.isalpha, text))


def has_token_shape(lowered: str) -> bool:
    """Return whether lower-cased text may contain a secret that is recognized by its shape."""
    if "-----begin" in lowered or "==" in lowered or "q~" in lowered:
        return True
    return _RUN_HINT.search(lowered) is not None or _CARD_HINT.search(lowered) is not None


def mark_patterns(text: str, mark: Mark) -> str:
    if "-----BEGIN" in text:
        text = _PRIVATE_KEY.sub(lambda match: mark("private_key", match[0]), text)
    text = _mark_tokens(text, mark)
    return _CARD.sub(lambda match: _mark_card(match[0], mark), text)


def _mark_tokens(text: str, mark: Mark) -> str:
    pieces: list[str] = []
    done = 0
    for run in _RUN.finditer(text):
        for token in _TOKEN.finditer(text, *run.span()):
            pieces += [text[done : token.start()], mark(str(token.lastgroup), token[0])]
            done = token.end()
    return "".join([*pieces, text[done:]]) if pieces else text


def _mark_card(text: str, mark: Mark) -> str:
    digits = text.replace(" ", "").replace("-", "")
    return mark("card", digits) if is_card(digits) else text


# Contexts


def _is_user_and_password(text: str) -> bool:
    bare = text.rstrip("=")
    try:
        return b":" in b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class _Context:
    """A pattern for text that contains `gate`; its group `secret` is a secret if it passes the check."""

    kind: str
    gate: str
    shape: re.Pattern[str]
    check: Callable[[str], bool] = bool


_USER = rf"://(?:{MARKER.pattern}|[^\s/?#:@\"'<>\[]*+):"
_SAME_COMMAND = r"[^\n|;&]{0,200}?[ ]"
_CONTEXTS = tuple(
    _Context(kind, gate, re.compile(shape), *check)
    for kind, gate, shape, *check in (
        ("aws_secret_key", "ia", r"A[KS]IA[A-Z0-9]{16}[^A-Za-z0-9+/]{1,8}(?P<secret>[\w+/]{40})(?![\w+/=])"),
        (
            "bearer_token",
            "bearer",
            r"(?i:bearer)[ \t]++(?P<secret>[\w\-.~+/]{8,}+=*+)",
            lambda text: len(text) >= 20 or any(map(str.isdigit, text)),
        ),
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
        # A password that contains a slash, and is therefore not a port.
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
            lambda text: not text.isdigit() and not text.startswith("//"),  # a user id, a URL
        ),
        ("password", "sshpass", r"\bsshpass[ ]-p[ ]?(?P<secret>[^\s\"']++)"),
        ("password", "login", rf"\blogin\b{_SAME_COMMAND}-p[ ](?P<secret>[^\s\"'\-][^\s\"']*+)"),
        ("password", "mysql", rf"\bmysql\w{{0,12}}+\b{_SAME_COMMAND}-p(?P<secret>[^\s\"']++)"),
        ("password", "redis-cli", rf"\bredis-cli\b{_SAME_COMMAND}-a[ ](?P<secret>\S++)"),
    )
)
_HINT = re.compile(r"basic|@tcp\(|jdbc:oracle|-(?:u |-user|p)|redis-cli")


def has_context(lowered: str) -> bool:
    """Return whether lower-cased text may contain a secret that is recognized by its context alone."""
    return ("://" in lowered and "@" in lowered) or _HINT.search(lowered) is not None


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
