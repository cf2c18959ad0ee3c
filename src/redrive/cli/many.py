"""Doing the same to several things: one that is refused does not keep the others from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from redrive.cli.outcome import Ended, Exit, exit_of
from redrive.cli.text import notice, one_line
from redrive.errors import RedriveError


def each_of(ids: Sequence[str], do: Callable[[str], None]) -> None:
    """Of one alone, its error is that of the command; of several, each is told."""
    if len(ids) == 1:
        do(ids[0])
        return
    failed: list[Exit] = []
    for each in ids:
        try:
            do(each)
        except RedriveError as error:
            failed.append(exit_of(error))
            notice(f"Error: {one_line(error)}")
    if failed:
        all_alike = len(failed) == len(ids) and len(set(failed)) == 1
        raise Ended(failed[0] if all_alike else Exit.FAILURES)
