"""Lists of the API, page after page, and a hint when only their beginning is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from redrive.cli.client import Client
from redrive.cli.output import Row, TableColumn, chosen, show_rows
from redrive.cli.terminal import notice, terminal_width

HOW_TO_SEE_MORE = "--all shows all of them, --limit so many"


class Listing(NamedTuple):
    """
    path       in the API, where `/count` tells how many there are
    columns    for people; programs that read JSON get everything
    noun       of many of them, as in "no dead letters"
    flat       fills these columns from a row
    min_width  of the terminal, for a column that a narrower one does without
    default    the query if none is given
    """

    path: str
    columns: Sequence[TableColumn]
    noun: str
    flat: Callable[[Row], Row] | None = None
    min_width: Mapping[str, int] = MappingProxyType({})
    default: str = ""

    def show(
        self, client: Client, query: str, limit: int | None, output: str | None, **options: object
    ) -> None:
        query, form, columns = query or self.default, chosen(output), self.columns
        if form == "table":
            room = terminal_width()
            columns = [column for column in columns if self.min_width.get(column.name, 0) <= room]
        rows = client.pages(self.path, limit=limit, q=query, **options)
        shown = show_rows(rows, columns, form, flat=self.flat, empty=self._empty(query))
        if limit is not None and shown == limit:
            found = client.get(f"{self.path}/count", q=query)
            if found["number"] > shown:
                notice(f"These are {shown:,} of {counted(found)}; {HOW_TO_SEE_MORE}.")

    def _empty(self, query: str) -> str:
        if query == self.default:
            return f"There are no {self.noun}" + (" that are not closed." if query else ".")
        return f"No {self.noun} fulfil the query {query!r}."


class NewestRows:
    """The first rows of a list that the API does not count. One more is read, to know if there is more."""

    def __init__(self, client: Client, path: str, limit: int | None, **query: object) -> None:
        self._rows = client.pages(path, limit=None if limit is None else limit + 1, **query)
        self._limit = limit
        self._more = False

    def __iter__(self) -> Iterator[Row]:
        for number, row in enumerate(self._rows):
            if number == self._limit:
                self._more = True
                return
            yield row

    def mention_rest(self) -> None:
        if self._more:
            notice(f"These are the newest {self._limit:,}; {HOW_TO_SEE_MORE}.")


def counted(found: dict[str, Any]) -> str:
    """As the API counts, which stops at a limit."""
    return f"more than {found['number']:,}" if found["capped"] else f"{found['number']:,}"
