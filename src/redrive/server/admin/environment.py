"""The environment of the templates: what they can call, and what their values may not do.

Everything is escaped, and a name that nobody has given is an error instead of a blank.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context

from redrive.failures.overview import BETWEEN_ATTEMPTS
from redrive.server.admin import words
from redrive.server.admin.chart import sparkline
from redrive.server.admin.decided import decided
from redrive.server.admin.headline import headline, pieces
from redrive.server.admin.mark import mark
from redrive.server.admin.static_files import static_path

PAGES = "/app/admin"


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("redrive.server.admin"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    plain = (words.number, words.plural, words.percent, words.duration, words.age, words.machine, words.short)
    made.filters |= {each.__name__: each for each in (*plain, decided, pieces)}
    made.filters |= {"ago": _ago, "absolute": _absolute, "clock": _clock, "segment": segment}
    made.globals |= {
        "mark": mark,
        "static": static_path,
        "link": link,
        "sparkline": sparkline,
        "headline": headline,
    }
    made.globals |= {"between_attempts": str(BETWEEN_ATTEMPTS)}
    return made


def link(path: str, parameters: Mapping[str, Any] | None = None, **more: Any) -> str:
    """The address of a page: link("/dlq", q="is:open", cursor=None). What is None or empty is left out."""
    given = {name: value for name, value in {**(parameters or {}), **more}.items() if value not in (None, "")}
    query = urlencode(given, quote_via=quote, safe=":,", errors="replace")
    return f"{PAGES}{path}?{query}" if query else f"{PAGES}{path}"


def segment(text: str) -> str:
    """A name as a part of a path, whatever is in it."""
    return quote(text, safe="", errors="replace")


@pass_context
def _ago(context: Context, moment: float | None) -> str:
    return words.ago(moment, context["now"])


@pass_context
def _absolute(context: Context, moment: float | None) -> str:
    return words.absolute(moment, context["look"].zone)


@pass_context
def _clock(context: Context, moment: float | None) -> str:
    return words.clock(moment, context["look"].zone)
