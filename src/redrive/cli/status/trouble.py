"""What is wrong now, a line each: nobody who works, open breakers, paused queues, replays under way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from redrive.cli.breaker import soon
from redrive.cli.cell import cut, width
from redrive.cli.following import serving
from redrive.cli.listing import counted
from redrive.cli.queue import depths
from redrive.cli.section import INDENT, heading, room
from redrive.cli.status.read import counts
from redrive.cli.table import Row
from redrive.cli.text import age, ago, bad, bold, good, out, plural, visible, warn
from redrive.cli.times import stamp
from redrive.cli.workers import START, is_at_work, standing

PLACES = ("ready", "waiting", "held", "executing")
KIND, MAX_NAME_LENGTH, LEAST = 10, 30, 10
DIGITS = 12


class Trouble(NamedTuple):
    kind: str
    name: str
    state: str
    colour: Callable[[str], str]
    told: str


def tell_trouble(found: dict[str, Any]) -> None:
    lines = [*_nobody(found), *_abandoned(found), *_broken(found["breakers"])]
    lines += [*_paused(found["queues"]), *_silent(found["workers"]), *_replays(found["replays"])]
    if lines:
        heading("Now")
    for each in lines:
        name = cut(visible(each.name), MAX_NAME_LENGTH)
        space = room() - KIND - width(name) - len(each.state) - 3 * INDENT
        told = cut(visible(each.told), max(LEAST, space))
        out(f"  {each.kind:{KIND}}{bold(name)}  {each.colour(each.state)}  {told}".rstrip())


def _nobody(found: dict[str, Any]) -> Iterator[Trouble]:
    if not any(map(is_at_work, found["workers"])):
        if number := counts(found["queues"], *PLACES):
            told = f"{START}; {plural(number, 'run')} {'needs' if number == 1 else 'need'} one"
            yield Trouble("worker", "none", "MISSING", bad, told)
        return
    for each in unserved(found):
        told = f"{counted(depths(each)['ready'])} ready: {START}"
        yield Trouble("queue", each["name"], "UNSERVED", bad, told)


def unserved(found: dict[str, Any]) -> list[Row]:
    """Queues in which work is ready that no worker will begin; a paused one is not meant to be worked on."""
    waiting = [each for each in found["queues"] if depths(each)["ready"]["number"] and not each["paused"]]
    return [each for each in waiting if not serving(found["workers"], each["name"])]


def _abandoned(found: dict[str, Any]) -> Iterator[Trouble]:
    if number := len(found["abandoned"]):
        told = f"left by {'its worker' if number == 1 else 'their workers'}; the next worker goes on"
        yield Trouble("lease", plural(number, "run"), "EXPIRED", bad, told)


def _broken(breakers: Sequence[Row]) -> Iterator[Trouble]:
    for each in breakers:
        if each["state"] != "CLOSED" or each["force"] is not None:
            yield Trouble("breaker", each["name"], each["state"], _tone(each["state"]), _brief(each))


def _brief(breaker: Row) -> str:
    """What waits, and until when."""
    force, held = breaker["force"], breaker["waiting"]
    words = [f"{counted(held)} waiting"] if held["number"] else []
    if force is not None:
        until = "" if force["until"] is None else f" until {stamp(force['until'])[11:]}"
        words.append(f"by hand{until}" + (f": {force['reason']}" if force["reason"] else ""))
    elif breaker["open_until"] is not None:
        words.append(f"probed {soon(breaker['open_until'])}, then goes on by itself")
    return "; ".join(words)


def _tone(state: str) -> Callable[[str], str]:
    return {"OPEN": bad, "CLOSED": good}.get(state, warn)


def _paused(queues: Sequence[Row]) -> Iterator[Trouble]:
    for each in queues:
        if each["paused"]:
            by = f"by {each['paused_by']} " if each["paused_by"] else ""
            reason = f": {each['reason']}" if each["reason"] else ""
            yield Trouble("queue", each["name"], "PAUSED", warn, f"{by}{ago(each['paused_at'])}{reason}")


def _silent(workers: Sequence[Row]) -> Iterator[Trouble]:
    for each in workers:
        if standing(each) == "silent":
            place = f" on {each['host']}" if each["host"] else ""
            told = f"for {age(each['seconds_silent'])}{place}"
            yield Trouble("worker", each["id"][:DIGITS], "SILENT", bad, told)


def _replays(operations: Sequence[Row]) -> Iterator[Trouble]:
    for each in operations:
        told = each["stopped_because"] or f"{each['released']:,} of {each['plan']['will_run']:,} begun"
        colour = bad if each["state"] == "STOPPED" else warn
        yield Trouble("replay", each["id"][:DIGITS], each["state"], colour, told)
