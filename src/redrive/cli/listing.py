"""Lists of things, page after page, and what to tell whoever has seen only their beginning."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from redrive.cli.client import Client
from redrive.cli.output import Column, Row, chosen, show_rows, terminal_width
from redrive.cli.terminal import notice

JSON = ("json", "ndjson")
HOW_TO_SEE_MORE = "--all shows all of them, --limit so many"


class Listing(NamedTuple):
    """
    path      in the API, where `/count` tells how many there are
    columns   for people; programs that read JSON get everything
    flat      makes of a row what has these columns
    spare     columns that a narrow terminal does without, and how wide one must be to have them
    usual     what is asked if nothing is
    noun      of many of them, as in "no dead letters"
    """

    path: str
    columns: Sequence[str | Column]
    noun: str
    flat: Callable[[Row], Row] | None = None
    spare: Mapping[str, int] = MappingProxyType({})
    usual: str = ""

    def show(
        self, client: Client, query: str, limit: int | None, output: str | None, **options: object
    ) -> None:
        query = query or self.usual
        rows: Iterable[Row] = client.pages(self.path, limit=limit, q=query, **options)
        if self.flat is not None and chosen(output) not in JSON:
            rows = map(self.flat, rows)
        shown = show_rows(rows, self._fitting(output), output, empty=self._none(query))
        if limit is not None and shown == limit:
            self._tell_rest(client, query, shown)

    def _none(self, query: str) -> str:
        if query == self.usual:
            return f"There are no {self.noun}" + (" that are not closed." if query else ".")
        return f"No {self.noun} fulfil the query {query!r}."

    def _fitting(self, output: str | None) -> Sequence[str | Column]:
        if chosen(output) != "table":
            return self.columns
        return [each for each in self.columns if self.spare.get(_name(each), 0) <= terminal_width()]

    def _tell_rest(self, client: Client, query: str, shown: int) -> None:
        found = client.get(f"{self.path}/count", q=query)
        if found["number"] > shown:
            notice(f"These are {shown:,} of {counted(found)}; {HOW_TO_SEE_MORE}.")


class Newest:
    """The first rows of what nobody counts; one more is asked for, to know whether there is more."""

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

    def tell_rest(self) -> None:
        if self._more:
            notice(f"These are the newest {self._limit:,}; {HOW_TO_SEE_MORE}.")


def _name(column: str | Column) -> str:
    return column if isinstance(column, str) else column.name


def counted(found: dict[str, Any]) -> str:
    """As the API counts, which stops at some number."""
    return f"more than {found['number']:,}" if found["capped"] else f"{found['number']:,}"
