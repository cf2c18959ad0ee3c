"""Select dead letters for a command: by ids, or by a query with an expected number."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

import click

from redrive.cli.checks import explain_ids
from redrive.cli.client import Client, segment
from redrive.cli.options import NumberParam, add_options
from redrive.cli.table import Row, counted
from redrive.errors import DriftError
from redrive.words.number import noun, plural

PATH = "/api/v1/dead-letters"
MAX_COUNT = 10_000
STDIN = "-"


class LetterChoice(NamedTuple):
    """The selected dead letters.

    description  for the confirmation
    query        None if they were selected by id
    version      of a single dead letter, when it was looked up
    state        of a single dead letter
    """

    number: int
    description: str
    ids: Sequence[str] = ()
    query: str | None = None
    version: str | None = None
    state: str | None = None


selection_options = add_options(
    click.argument("ids", nargs=-1, metavar="[ID]..."),
    click.option("--query", metavar="QUERY", help="Select all that match, such as 'is:open step:charge'."),
    click.option(
        "--expect",
        type=NumberParam(0, MAX_COUNT),
        metavar="N",
        help="Change nothing unless exactly N match.",
    ),
    click.option(
        "--max",
        "maximum",
        type=NumberParam(1, MAX_COUNT),
        metavar="N",
        help="Change nothing if more than N match.",
    ),
)


def explain_letter_ids(ids: Sequence[str]) -> AbstractContextManager[None]:
    return explain_ids("dead letter", ids, "redrive dlq list")


def select(
    client: Client,
    ids: Sequence[str],
    query: str | None,
    expect: int | None,
    maximum: int | None,
    *,
    look_up: bool,
) -> LetterChoice:
    """Select dead letters, so that a wrong id or an unexpected number is reported before the confirmation.

    Several ids are changed all together or not at all, so each is looked up only with `look_up`.
    """
    if (query is not None) == bool(ids):
        raise click.UsageError("Pass either dead-letter ids or --query.")
    if query is not None:
        return _by_query(client, query, expect, maximum)
    if expect is not None or maximum is not None:
        raise click.UsageError("--expect and --max only work with --query.")
    if list(ids) == [STDIN]:
        ids = sys.stdin.read().split()
        if not ids:
            raise click.UsageError("No ids on stdin.")
    given = list(dict.fromkeys(ids))
    with explain_letter_ids(given):
        return _by_ids(client, given, look_up)


def read_letter(client: Client, letter_id: str, parts: Iterable[str]) -> Row:
    """Read these parts of a dead letter: `attempt_list` has the attempts, `attempts` their number."""
    path, letter = f"{PATH}/{segment(letter_id)}", Row()
    for part in parts:
        if part in ("details", "payload"):
            letter |= client.get(path if part == "details" else f"{path}/payload")
        elif part in ("attempts", "notes"):
            letter["attempt_list" if part == "attempts" else part] = client.get(f"{path}/{part}")["items"]
        else:
            letter[part] = client.get(f"{path}/{part}")
    return letter


def read_ids(client: Client, query: str, expect: int) -> list[str]:
    ids = [letter["id"] for letter in client.pages(PATH, limit=MAX_COUNT + 1, q=query)]
    _refuse_drift(len(ids), expect)
    return ids


def letters(number: int) -> str:
    return plural(number, "dead letter")


def letters_are(number: int) -> str:
    return plural(number, "dead letter is", "dead letters are")


def _by_query(client: Client, query: str, expect: int | None, maximum: int | None) -> LetterChoice:
    found = client.get(f"{PATH}/count", q=query)
    number = found["number"]
    if expect is not None:
        _refuse_drift(number, expect)
    if number > (MAX_COUNT if maximum is None else maximum) or found["capped"]:
        limit = (
            f"at most {MAX_COUNT:,} can be changed at once" if maximum is None else f"--max is {maximum:,}"
        )
        raise DriftError(
            f"{counted(found)} dead letters match the query, but {limit}; nothing was changed",
            number=number,
        )
    return LetterChoice(
        number, f"{letters(number)} that {noun(number, 'matches', 'match')} {query!r}", query=query
    )


def _by_ids(client: Client, ids: Sequence[str], look_up: bool) -> LetterChoice:
    if len(ids) > 1:
        for letter_id in ids if look_up else ():
            client.get(f"{PATH}/{segment(letter_id)}")
        return LetterChoice(len(ids), f"{len(ids):,} dead letters", ids)
    answer = client.request("GET", f"{PATH}/{segment(ids[0])}")
    letter = answer.value
    description = f"dead letter {letter['id']} ({letter['step']}, {letter['status']})"
    version = answer.headers.get("etag")
    return LetterChoice(1, description, [letter["id"]], version=version, state=letter["state"])


def _refuse_drift(number: int, expect: int) -> None:
    if number != expect:
        raise DriftError(
            f"{letters(number)} {noun(number, 'matches', 'match')} the query, not {expect:,} as expected; "
            f"nothing was changed. Check the list again and pass the new number",
            number=number,
        )
