"""The environment of the templates: the filters and functions that they can call, and a reader's preferences.

Every value is escaped. A name that the page didn't pass is an error, not a blank.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Mapping
from functools import cache, wraps
from typing import Any, Literal, NamedTuple, cast
from urllib.parse import quote, unquote, urlencode
from zoneinfo import ZoneInfo, available_timezones

from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from starlette.requests import Request
from starlette.responses import Response

from redrive.failures.overview import BETWEEN_ATTEMPTS
from redrive.model.id import short_id
from redrive.server.admin.chart import sparkline
from redrive.server.admin.static_files import static_path, takes_gzip
from redrive.words.decision import computation, explain, why
from redrive.words.fact import paragraph, text_of
from redrive.words.failure import headline, list_fields, short
from redrive.words.number import number, percent, plural
from redrive.words.run_order import describe_order
from redrive.words.state import Tone, state_label
from redrive.words.time import absolute, age, ago, clock, duration, machine, pace
from redrive.words.timeline import holder_name, unknown_work

PAGES = "/app/admin"
NO_VALUE = "–"
SHAPES = {
    Tone.BAD: "octagon",
    Tone.WARN: "triangle",
    Tone.BUSY: "half",
    Tone.WAIT: "ring",
    Tone.GOOD: "check",
    Tone.CALM: "dash",
}
COMPRESSION_LEVEL = 4
"""Fast: a page is compressed for each request."""
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
    "font-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
PREFERENCES_COOKIE = "redrive_look"
Theme = Literal["auto", "light", "dark"]
_THEMES = ("auto", "light", "dark")
_ZONES = available_timezones()
_AFTER_SLASH = re.compile(r"(?<=[^/]/)(?!/|$)")


class Preferences(NamedTuple):
    """A person's preferences for the pages, stored in a cookie."""

    theme: Theme = "auto"
    zone: ZoneInfo = ZoneInfo("UTC")

    @classmethod
    def of(cls, request: Request) -> Preferences:
        return cls.parse(request.cookies.get(PREFERENCES_COOKIE, ""))

    @classmethod
    def parse(cls, text: str) -> Preferences:
        """Read "dark|Europe/Zurich"; a part that is unknown keeps its default."""
        theme, _, zone = unquote(text).partition("|")
        return cls(
            cast(Theme, theme) if theme in _THEMES else "auto", ZoneInfo(zone if zone in _ZONES else "UTC")
        )


class Mark(NamedTuple):
    """A state as a color, a shape and a word, so that no reader depends on one of the three.

    `tone` is a color of the style sheet, `shape` a figure of parts/ui.html.
    """

    tone: str
    shape: str
    word: str


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("redrive.server.admin"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "number": _or_dash(number),
        "percent": _or_dash(percent),
        "duration": _or_dash(duration),
        "pace": pace,
        "plural": plural,
        "age": age,
        "machine": machine,
        "short": short,
        "list_fields": list_fields,
        "short_id": short_id,
        "text_of": text_of,
        "unknown_work": unknown_work,
        "holder_name": holder_name,
        "order": lambda order: describe_order(order.waits_for, order.before, order.behind),
        "paragraph": paragraph,
        "why": why,
        "computation": computation,
        "explain": explain,
        "pieces": pieces,
        "segment": segment,
        "ago": _ago,
        "absolute": _absolute,
        "clock": _clock,
    }
    made.globals |= {
        "mark": mark,
        "static": static_path,
        "link": link,
        "sparkline": sparkline,
        "headline": headline,
        "between_attempts": str(BETWEEN_ATTEMPTS),
    }
    return made


def html(request: Request, template: str, status: int, /, **values: Any) -> Response:
    """Render a template, compressed. So no page may contain a secret: the compressed size would reveal it."""
    text = environment().get_template(template).render(values)
    # Without any referrer, browsers would not send the origin of a form either.
    headers = {"Content-Security-Policy": POLICY, "Referrer-Policy": "same-origin"}
    try:
        content = text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair has no encoding; it becomes a replacement character
        content = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
    if takes_gzip(request):
        headers |= {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
        content = gzip.compress(content, COMPRESSION_LEVEL, mtime=0)
    return Response(content, status, headers, "text/html; charset=utf-8")


def mark(state: str, kind: str = "") -> Mark:
    """`kind` is "breaker" or "worker" for the states of those."""
    tone, word = state_label(state, kind)
    return Mark(tone, SHAPES[tone], word)


def pieces(text: str) -> list[str]:
    """Split after single slashes, where a browser may break a long address."""
    return _AFTER_SLASH.split(text)


def link(path: str, parameters: Mapping[str, Any] | None = None, **more: Any) -> str:
    """Return the address of a page: link("/dlq", q="is:open", cursor=None). It has no empty parameters."""
    given = {name: value for name, value in {**(parameters or {}), **more}.items() if value not in (None, "")}
    query = urlencode(given, quote_via=quote, safe=":,", errors="replace")
    return f"{PAGES}{path}?{query}" if query else f"{PAGES}{path}"


def segment(text: str) -> str:
    """Quote any text as one segment of a path."""
    return quote(text, safe="", errors="replace")


def _or_dash(formatter: Callable[[float], str]) -> Callable[[float | None], str]:
    @wraps(formatter)
    def formatted(value: float | None) -> str:
        return NO_VALUE if value is None else formatter(value)

    return formatted


@pass_context
def _ago(context: Context, moment: float | None) -> str:
    return NO_VALUE if moment is None else ago(moment, context["now"])


@pass_context
def _absolute(context: Context, moment: float | None) -> str:
    return NO_VALUE if moment is None else absolute(moment, context["preferences"].zone)


@pass_context
def _clock(context: Context, moment: float | None) -> str:
    return NO_VALUE if moment is None else clock(moment, context["preferences"].zone)
