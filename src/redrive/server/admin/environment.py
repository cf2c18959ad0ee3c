"""The environment of the templates: the filters and functions that they can call.

Every value is escaped. A name that the page didn't pass is an error, not a blank.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache, wraps
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context

from redrive.failures.overview import BETWEEN_ATTEMPTS
from redrive.server.admin.chart import sparkline
from redrive.server.admin.static_files import static_path
from redrive.words.failure import headline, short, summarize_explanation
from redrive.words.number import number, percent, plural
from redrive.words.state import Tone, state_label
from redrive.words.time import absolute, age, ago, clock, duration, machine

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
_AFTER_SLASH = re.compile(r"(?<=[^/]/)(?!/|$)")


class Mark(NamedTuple):
    """A state as a colour, a shape and a word, so that no reader depends on one of the three.

    `tone` is a colour of the style sheet, `shape` a figure of parts/ui.html.
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
        "plural": plural,
        "age": age,
        "machine": machine,
        "short": short,
        "decision": summarize_explanation,
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
