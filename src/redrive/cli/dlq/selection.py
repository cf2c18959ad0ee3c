"""Which dead letters a command is about: ids, or a query with the number that is expected."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import click

from redrive.cli.client import Client, segment
from redrive.cli.listing import counted
from redrive.cli.preconditions import explain_ids
from redrive.cli.terminal import plural
from redrive.errors import DriftError

PREFIX = "/api/v1/dead-letters"
MAX_COUNT = 10_000
STDIN = "-"


class Selection(NamedTuple):
    """
    named    what they are called when somebody is asked
    query    None, if they were given by their ids
    version  of a single one, as it was when it was looked at
    state    the same
    """

    number: int
    named: str
    ids: Sequence[str] = ()
    query: str | None = None
    version: str | None = None
    state: str | None = None


def selection_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (_MAX, _EXPECT, _QUERY, _IDS):
        function = option(function)
    return function


def letter_ids(ids: Sequence[str]) -> AbstractContextManager[None]:
    """Around what asks for them."""
    return explain_ids("dead letter", ids, "redrive dlq list")


def selected(
    client: Client,
    ids: Sequence[str],
    query: str | None,
    expect: int | None,
    most: int | None,
    *,
    only_look: bool,
) -> Selection:
    """Looked at now: a wrong id, or another number than was expected, is told before anybody is asked.

    Several ids are changed all together or not at all; if somebody only looks, each is looked up.
    """
    if (query is not None) == bool(ids):
        raise click.UsageError("Name the dead letters by their ids, or by --query: one of them.")
    if query is not None:
        return _by_query(client, query, expect, most)
    if expect is not None or most is not None:
        raise click.UsageError("--expect and --max are for --query; ids say themselves how many they are.")
    named = _read(ids)
    with letter_ids(named):
        return _by_ids(client, named, only_look)


def ids_by_query(client: Client, query: str, expect: int) -> list[str]:
    ids = [each["id"] for each in client.pages(PREFIX, limit=MAX_COUNT + 1, q=query)]
    _refuse_drift(len(ids), expect)
    return ids


def letters(number: int) -> str:
    return plural(number, "dead letter")


def letters_are(number: int) -> str:
    return f"{letters(number)} {'is' if number == 1 else 'are'}"


def _by_query(client: Client, query: str, expect: int | None, most: int | None) -> Selection:
    found = client.get(f"{PREFIX}/count", q=query)
    number = found["number"]
    if expect is not None:
        _refuse_drift(number, expect)
    if number > (MAX_COUNT if most is None else most) or found["capped"]:
        limit = f"--max {most:,}" if most is not None else f"the {MAX_COUNT:,} that can be changed at once"
        raise DriftError(
            f"{counted(found)} dead letters fulfil the query, more than {limit}; nothing was changed",
            number=number,
        )
    named = f"the {letters(number)} that fulfil{'s' * (number == 1)} {query!r}"
    return Selection(number, named, query=query)


def _by_ids(client: Client, ids: Sequence[str], only_look: bool) -> Selection:
    if len(ids) > 1:
        for each in ids if only_look else ():
            client.get(f"{PREFIX}/{segment(each)}")
        return Selection(len(ids), f"{len(ids):,} dead letters", ids)
    answer = client.request("GET", f"{PREFIX}/{segment(ids[0])}")
    letter = answer.value
    named = f"the dead letter {letter['id']} ({letter['step']}, {letter['state'].lower()})"
    version = answer.headers.get("etag")
    return Selection(1, named, [letter["id"]], version=version, state=letter["state"])


def _read(ids: Sequence[str]) -> list[str]:
    if list(ids) == [STDIN]:
        ids = sys.stdin.read().split()
        if not ids:
            raise click.UsageError("There are no ids in the standard input.")
    return list(dict.fromkeys(ids))


def _refuse_drift(number: int, expect: int) -> None:
    if number != expect:
        raise DriftError(
            f"{letters(number)} fulfil{'s' * (number == 1)} the query, {expect:,} were expected; nothing was "
            f"changed. Look at them again, then say the new number",
            number=number,
        )


_IDS = click.argument("ids", nargs=-1, metavar="[ID]...")
_QUERY = click.option("--query", metavar="QUERY", help="All that fulfil it, such as 'is:open step:charge'.")
_EXPECT = click.option(
    "--expect",
    type=click.IntRange(0, MAX_COUNT),
    metavar="N",
    help="Change nothing unless it is exactly so many.",
)
_MAX = click.option(
    "--max",
    "most",
    type=click.IntRange(1, MAX_COUNT),
    metavar="N",
    help="Change nothing if it is more than so many.",
)
