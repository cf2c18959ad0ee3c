"""The screen of `redrive status`: the answer first, then what it is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from shlex import quote
from typing import Any

from redrive.cli.cell import cut, padded, width
from redrive.cli.listing import counted
from redrive.cli.queue import depths
from redrive.cli.section import INDENT, heading, next_steps, room
from redrive.cli.status.read import counts, needing
from redrive.cli.status.trouble import tell_trouble, unserved
from redrive.cli.table import Row
from redrive.cli.text import age, ago, bad, bold, dim, good, out, plural, short, visible
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
