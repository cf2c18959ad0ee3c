"""The screen of `redrive status`: the answer first, then what it is made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple

from redrive.cli.breaker import soon
from redrive.cli.queue import PLACES, depths
from redrive.cli.table import Row, ago, counted, short_fingerprint, stamp
from redrive.cli.terminal import Part, out
from redrive.cli.worker import START, is_at_work, is_heard, is_served, worker_state
from redrive.words.number import noun, plural
from redrive.words.time import age

if TYPE_CHECKING:
    from redrive.cli.screen import Screen

LABEL_WIDTH, NUMBER_WIDTH, KIND_WIDTH = 13, 8, 8
BLOCKS = "▁▂▃▄▅▆▇█"
CHART_WIDTH = 24
BREAKER_STYLES = {"OPEN": "bad", "CLOSED": "good"}
SHORT_ID = 12


def draw_status(screen: Screen, found: dict[str, Any], where: str) -> None:
    overview = found["overview"]
    screen.headline(f"Redrive · {where}", (stamp(overview["now"]), "dim"))
    out("")
    _draw_totals(screen, found)
    if troubles := list(_troubles(found)):
        screen.heading("Now")
        lines: list[tuple[Part, ...]] = [
            (kind, (name, "bold"), (state, style), text) for kind, name, state, style, text in troubles
        ]
        screen.columns(lines, widths=(KIND_WIDTH,), cut=True)
    _draw_flow(screen, overview)
    _draw_groups(screen, found["groups"])
    screen.next_steps(_next(found))


def totals(found: dict[str, Any]) -> Row:
    """The numbers alone."""
    overview = found["overview"]
    flow = overview["dead_letters"]
    return {
        "needs_you": overview["needs_you"]["total"],
        "heals_itself": overview["heals_itself"]["total"]["number"],
        "in_flight": count_runs(found["queues"], "executing"),
        "ready": count_runs(found["queues"], "ready"),
        "oldest_seconds": None if overview["oldest"] is None else round(overview["oldest"]["seconds"]),
        "came": sum(flow["came"]),
        "left": sum(flow["left"]),
        "workers": sum(map(is_at_work, found["workers"])),
        "silent_workers": sum(worker_state(worker) == "silent" for worker in found["workers"]),
        "open_breakers": sum(breaker["state"] != "CLOSED" for breaker in found["breakers"]),
        "paused_queues": sum(queue["paused"] for queue in found["queues"]),
        "replays_under_way": len(found["replays"]),
        "abandoned": len(found["abandoned"]),
    }


def need_attention(group: Row) -> int:
    """How many of its dead letters wait for an operator."""
    letters = group["dead_letters"]
    return int(letters["open"] + letters["exhausted"])


def count_runs(queues: Sequence[Row], *places: str) -> int:
    """How many runs are in these places, in all queues together."""
    return sum(depths(queue)[place]["number"] for queue in queues for place in places)


def percent(part: int, whole: int) -> str:
    """All of them is 100%, and nothing else is."""
    return "100%" if part == whole else f"{min(99.9, 100.0 * part / whole):.1f}%"


def _draw_totals(screen: Screen, found: dict[str, Any]) -> None:
    overview, numbers = found["overview"], totals(found)
    heals = overview["heals_itself"]
    healing = f"{numbers['heals_itself']:,}{'+' if heals['total']['capped'] else ''}"
    needs = (f"{numbers['needs_you']:,}", "bad" if numbers["needs_you"] else "good")
    screen.columns(
        [
            ("Needs you", needs, _needs(overview)),
            ("Heals itself", healing, ", ".join(_heals(heals)) or "nothing"),
            ("In flight", f"{numbers['in_flight']:,}", _working(found["workers"])),
            ("Waiting", f"{numbers['ready']:,}", _waiting(found["queues"])),
        ],
        right=(1,),
        widths=(LABEL_WIDTH, NUMBER_WIDTH),
        indent=0,
    )


def _needs(overview: Row) -> str:
    needs, oldest = overview["needs_you"], overview["oldest"]
    if not needs["total"]:
        return "nothing: no dead letter waits for somebody"
    parts = [f"{needs[state]:,} {state}" for state in ("open", "exhausted") if needs[state]]
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


def _working(workers: Sequence[Row]) -> str:
    at_work = [worker for worker in workers if is_at_work(worker)]
    if not at_work:
        return "no worker is at work"
    places = sum(worker["concurrency"] for worker in at_work)
    text = f"{plural(len(at_work), 'worker')} with {plural(places, 'place')}"
    lost = [worker["seconds_silent"] for worker in at_work if not is_heard(worker)]
    return f"{text}; {len(lost):,} not heard for {age(max(lost))}" if lost else text


def _waiting(queues: Sequence[Row]) -> str:
    busy = [depths(queue) for queue in queues if depths(queue)["ready"]["number"]]
    ages = [depth["oldest_ready_seconds"] for depth in busy if depth["oldest_ready_seconds"] is not None]
    if not busy:
        return "nothing is ready and not begun"
    return f"ready in {plural(len(busy), 'queue')}" + (f"; the oldest for {age(max(ages))}" if ages else "")


class Trouble(NamedTuple):
    """What is wrong now, on one line."""

    kind: str
    name: str
    state: str
    style: str
    text: str


def _troubles(found: dict[str, Any]) -> Iterator[Trouble]:
    yield from _missing_workers(found)
    if number := len(found["abandoned"]):
        text = f"left by {'its worker' if number == 1 else 'their workers'}; the next worker goes on"
        yield Trouble("lease", plural(number, "run"), "EXPIRED", "bad", text)
    for breaker in found["breakers"]:
        if breaker["state"] != "CLOSED" or breaker["force"] is not None:
            style = BREAKER_STYLES.get(breaker["state"], "warn")
            yield Trouble("breaker", breaker["name"], breaker["state"], style, _breaker_text(breaker))
    for queue in found["queues"]:
        if queue["paused"]:
            by = f"by {queue['paused_by']} " if queue["paused_by"] else ""
            reason = f": {queue['reason']}" if queue["reason"] else ""
            yield Trouble("queue", queue["name"], "PAUSED", "warn", f"{by}{ago(queue['paused_at'])}{reason}")
    for worker in found["workers"]:
        if worker_state(worker) == "silent":
            place = f" on {worker['host']}" if worker["host"] else ""
            text = f"for {age(worker['seconds_silent'])}{place}"
            yield Trouble("worker", worker["id"][:SHORT_ID], "SILENT", "bad", text)
    for operation in found["replays"]:
        begun = f"{operation['released']:,} of {operation['plan']['will_run']:,} begun"
        style = "bad" if operation["state"] == "STOPPED" else "warn"
        text = operation["stopped_because"] or begun
        yield Trouble("replay", operation["id"][:SHORT_ID], operation["state"], style, text)


def _missing_workers(found: dict[str, Any]) -> Iterator[Trouble]:
    if not any(map(is_at_work, found["workers"])):
        if number := count_runs(found["queues"], *PLACES):
            text = f"{START}; {plural(number, 'run')} {noun(number, 'needs', 'need')} one"
            yield Trouble("worker", "none", "MISSING", "bad", text)
        return
    for queue in _unserved(found):
        text = f"{counted(depths(queue)['ready'])} ready: {START}"
        yield Trouble("queue", queue["name"], "UNSERVED", "bad", text)


def _unserved(found: dict[str, Any]) -> list[Row]:
    """Queues with ready work that no worker will start; a paused queue is not meant to be served."""
    return [
        queue
        for queue in found["queues"]
        if depths(queue)["ready"]["number"]
        and not queue["paused"]
        and not is_served(found["workers"], queue["name"])
    ]


def _breaker_text(breaker: Row) -> str:
    """What waits, and until when."""
    force, held = breaker["force"], breaker["waiting"]
    words = [f"{counted(held)} waiting"] if held["number"] else []
    if force is not None:
        until = "" if force["until"] is None else f" until {stamp(force['until'])[11:]}"
        words.append(f"by hand{until}" + (f": {force['reason']}" if force["reason"] else ""))
    elif breaker["open_until"] is not None:
        words.append(f"probed {soon(breaker['open_until'])}, then goes on by itself")
    return "; ".join(words)


def _draw_flow(screen: Screen, overview: Row) -> None:
    flow, replays = overview["dead_letters"], overview["replays"]
    came, left = flow["came"], flow["left"]
    out("")
    screen.columns(
        [
            ("Dead letters", "in", f"{sum(came):,}", (_chart(came, left), "dim")),
            (f"last {overview['span']}", "out", f"{sum(left):,}", (_chart(left, came), "dim")),
        ],
        right=(1, 2),
        widths=(LABEL_WIDTH, NUMBER_WIDTH, NUMBER_WIDTH - 1),
        indent=0,
        cut=True,
    )
    if replays["rate"] is not None:
        ended = replays["succeeded"] + replays["failed"]
        share = percent(replays["succeeded"], ended)
        text = f"{replays['succeeded']:,} of {ended:,} replayed steps succeeded ({share})"
        screen.columns([("", "replays", text)], right=(1,), widths=(LABEL_WIDTH, NUMBER_WIDTH), indent=0)


def _chart(numbers: Sequence[int], others: Sequence[int]) -> str:
    """Bars on the scale of both, so that they can be compared."""
    size = max(1, len(numbers) // CHART_WIDTH)
    bars, beside = (
        [sum(values[start : start + size]) for start in range(0, len(values), size)]
        for values in (numbers, others)
    )
    most = max([*bars, *beside, 1])
    return "".join(BLOCKS[0] if not bar else BLOCKS[max(1, bar * (len(BLOCKS) - 1) // most)] for bar in bars)


def _draw_groups(screen: Screen, groups: Sequence[Row]) -> None:
    if not groups:
        return
    screen.heading("Top failures")
    rows: list[tuple[str, Part]] = []
    for group in groups:
        place = f"{group['workflow']} › {group['step']}, {ago(group['last_seen'])}"
        rows.append((f"{need_attention(group):,}", group["title"]))
        rows.append(("", (f"{place}, {short_fingerprint(group['fingerprint'])}", "dim")))
    screen.columns(rows, right=(0,), cut=True)


def _next(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if not any(map(is_at_work, found["workers"])):
        yield START, "start a worker"
    elif unserved := _unserved(found):
        yield f"{START} --queue {quote(unserved[0]['name'])}", "start a worker for it"
    if found["groups"]:
        worst = short_fingerprint(found["groups"][0]["fingerprint"])
        yield f"redrive dlq groups {worst}", "why these fail"
        yield f"redrive replay plan --group {worst}", "when the cause is gone"
    for operation in found["replays"]:
        if operation["state"] != "RUNNING":
            yield f"redrive replay view {operation['id']}", "a replay that waits for you"
            break
    if not found["groups"]:
        yield "redrive run list", "what has run lately"
