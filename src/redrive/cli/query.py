"""Words of the query language as arguments: with blanks between them, and with a minus before them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

Function = TypeVar("Function", bound=Callable[..., Any])

_MINUS = re.compile(r"-[^-\s].*[:\s]", re.DOTALL)
"""A term like -step:charge. Options have neither a colon nor a blank in them."""


class QueryCommand(click.Command):
    """What begins with a minus would be taken for an option, wherever it stands."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        terms = [word for word in args[:end] if _MINUS.match(word)]
        others = [word for word in args[:end] if not _MINUS.match(word)]
        return super().parse_args(ctx, [*others, "--", *terms, *args[end + 1 :]])


def query_argument(function: Function) -> Function:
    """Gives `query`, one text."""
    return click.argument("query", nargs=-1, metavar="[QUERY]...", callback=_joined)(function)


def _joined(context: click.Context, parameter: click.Parameter, words: tuple[str, ...]) -> str:
    return " ".join(words)
