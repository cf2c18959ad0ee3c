"""The screen of `redrive status`: the answer first, then what it is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from shlex import quote
from typing import Any, NamedTuple

from redrive.cli.breaker import soon
from redrive.cli.cell import cut, padded, width
from redrive.cli.listing import counted
from redrive.cli.output import Row
from redrive.cli.polling import serving
from redrive.cli.queue import depths
from redrive.cli.screen import INDENT, heading, next_steps, room
from redrive.cli.terminal import age, ago, bad, bold, dim, good, out, plural, short, visible, warn
from redrive.cli.times import stamp
from redrive.cli.workers import START, is_at_work, is_heard, standing

LABEL, NUMBER = 15, 8
BLOCKS = "▁▂▃▄▅▆▇█"
COLUMNS_OF_CHART = 24


def tell_status(found: dict[str, Any], where: str) -> None:
    overview = found["overview"]
    _title(where, overview["now"])
    _standing(found)
    tell_trouble(found)
    _flow(overview)
    _groups(found["groups"])
    next_steps(list(_next(found)))


def figures(found: dict[str, Any]) -> Row:
    """The numbers alone."""
    overview = found["overview"]
    flow = overview["dead_letters"]
    return {
        "needs_you": overview["needs_you"]["total"],
        "heals_itself": overview["heals_itself"]["total"]["number"],
        "in_flight": counts(found["queues"], "executing"),
        "ready": counts(found["queues"], "ready"),
        "oldest_seconds": None if overview["oldest"] is None else round(overview["oldest"]["seconds"]),
        "came": sum(flow["came"]),
        "left": sum(flow["left"]),
        "workers": sum(map(is_at_work, found["workers"])),
        "silent_workers": sum(standing(each) == "silent" for each in found["workers"]),
        "open_breakers": sum(each["state"] != "CLOSED" for each in found["breakers"]),
        "paused_queues": sum(each["paused"] for each in found["queues"]),
        "replays_under_way": len(found["replays"]),
        "abandoned": len(found["abandoned"]),
    }


def needing(group: Row) -> int:
    """How many of its dead letters wait for somebody."""
    letters = group["dead_letters"]
    return int(letters["open"] + letters["exhausted"])


def counts(queues: Sequence[Row], *places: str) -> int:
    """How many runs lie there, in all queues together."""
    return sum(depths(each)[place]["number"] for each in queues for place in places)


def _title(where: str, now: str) -> None:
    moment = stamp(now)
    space = room() - width(moment) - INDENT
    out(bold(padded(cut(visible(f"Redrive · {where}"), space), space, False)) + "  " + dim(moment))
    out("")


def _standing(found: dict[str, Any]) -> None:
    overview = found["overview"]
    needs, heals, numbers = overview["needs_you"], overview["heals_itself"], figures(found)
    total = needs["total"]
    _line("Needs you", f"{total:,}", _needs(overview), bad if total else good)
    _line("Heals itself", _capped(heals["total"]), _parts(_heals(heals)), str)
    _line("In flight", f"{numbers['in_flight']:,}", _working(found["workers"]), str)
    _line("Waiting", f"{numbers['ready']:,}", _waiting(found["queues"]), str)


def _working(workers: Sequence[Row]) -> str:
    at_work = [each for each in workers if is_at_work(each)]
    places = sum(each["concurrency"] for each in at_work)
    if not at_work:
        return "no worker is at work"
    told = f"{plural(len(at_work), 'worker')} with {plural(places, 'place')}"
    lost = [each["seconds_silent"] for each in at_work if not is_heard(each)]
    return f"{told}; {len(lost):,} not heard for {age(max(lost))}" if lost else told


def _needs(overview: Row) -> str:
    needs, oldest = overview["needs_you"], overview["oldest"]
    if not needs["total"]:
        return "nothing: no dead letter waits for somebody"
    parts = [f"{needs['open']:,} open"] if needs["open"] else []
    parts += [f"{needs['exhausted']:,} exhausted"] if needs["exhausted"] else []
    since = "" if oldest is None else f"; the oldest for {age(oldest['seconds'])}"
    return ", ".join(parts) + since


def _heals(heals: Row) -> Iterator[str]:
    for count, what in (
        (heals["held"], "held by breakers"),
        (heals["retrying"], "between two attempts"),
        ({"number": heals["replaying"], "capped": False}, "replayed now"),
        ({"number": heals["scheduled"], "capped": False}, "to be redriven"),
    ):
        if count["number"]:
            yield f"{counted(count)} {what}"


def _waiting(queues: Sequence[Row]) -> str:
    busy = [depths(each) for each in queues if depths(each)["ready"]["number"]]
    ages = [each["oldest_ready_seconds"] for each in busy if each["oldest_ready_seconds"] is not None]
    if not busy:
        return "nothing is ready and not begun"
    return f"ready in {plural(len(busy), 'queue')}" + (f"; the oldest for {age(max(ages))}" if ages else "")


def _flow(overview: Row) -> None:
    flow, replays = overview["dead_letters"], overview["replays"]
    out("")
    came, left = flow["came"], flow["left"]
    _line("Dead letters", "in", f"{padded(f'{sum(came):,}', 7, True)}  {dim(_chart(came, left))}", str)
    _line(
        f"last {overview['span']}",
        "out",
        f"{padded(f'{sum(left):,}', 7, True)}  {dim(_chart(left, came))}",
        str,
    )
    if replays["rate"] is not None:
        ended = replays["succeeded"] + replays["failed"]
        part = percent(replays["succeeded"], ended)
        told = f"{replays['succeeded']:,} of {ended:,} replayed steps succeeded ({part})"
        _line("", "replays", told, str)


def percent(part: int, whole: int) -> str:
    """All of them is 100%, and nothing else is."""
    return "100%" if part == whole else f"{min(99.9, 100.0 * part / whole):.1f}%"


def _groups(groups: Sequence[Row]) -> None:
    if not groups:
        return
    heading("Top failures")
    numbers = [f"{needing(each):,}" for each in groups]
    digits = max(map(len, numbers))
    for number, each in zip(numbers, groups, strict=True):
        place = f"{each['workflow']} › {each['step']}, {ago(each['last_seen'])}"
        space = room() - digits - 2 * INDENT
        out(f"  {number:>{digits}}  {cut(visible(each['title']), space)}")
        told = visible(f"{place}, {short(each['fingerprint'])}")
        out(f"  {'':{digits}}  {dim(cut(told, space))}")


def _next(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if not any(map(is_at_work, found["workers"])):
        yield START, "start a worker"
    elif alone := unserved(found):
        yield f"{START} --queue {quote(alone[0]['name'])}", "start a worker for it"
    if found["groups"]:
        worst = short(found["groups"][0]["fingerprint"])
        yield f"redrive dlq groups {worst}", "why these fail"
        yield f"redrive replay plan --group {worst}", "when the cause is gone"
    for each in [each for each in found["replays"] if each["state"] != "RUNNING"][:1]:
        yield f"redrive replay view {each['id']}", "a replay that waits for you"
    if not found["groups"]:
        yield "redrive run list", "what has run lately"


def _line(label: str, number: str, told: str, colour: Callable[[str], str]) -> None:
    out(f"{label:{LABEL}}{colour(padded(number, NUMBER, True))}  {told}".rstrip())


def _chart(numbers: Sequence[int], others: Sequence[int]) -> str:
    """Both on one scale, so that they can be compared."""
    size = max(1, len(numbers) // COLUMNS_OF_CHART)
    parts, beside = _summed(numbers, size), _summed(others, size)
    most = max([*parts, *beside, 1])
    return "".join(
        BLOCKS[0] if not part else BLOCKS[max(1, part * (len(BLOCKS) - 1) // most)] for part in parts
    )


def _summed(numbers: Sequence[int], size: int) -> list[int]:
    return [sum(numbers[start : start + size]) for start in range(0, len(numbers), size)]


def _parts(words: Iterator[str]) -> str:
    return ", ".join(words) or "nothing"


def _capped(count: Row) -> str:
    return f"{count['number']:,}+" if count["capped"] else f"{count['number']:,}"


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
