"""`redrive status`: on one screen, what is broken, what heals itself, and what to type next."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from redrive.cli.client import Client
from redrive.cli.connection import api_options
from redrive.cli.options import output_option
from redrive.cli.output import chosen, screen, show_one
from redrive.cli.problems import current_problems, unserved_queues
from redrive.cli.queue import count_runs, depths
from redrive.cli.table import Row, ago, counted, short_fingerprint, stamp
from redrive.cli.terminal import Part, out
from redrive.cli.worker import START, is_at_work, is_heard, worker_state
from redrive.model.statistics import Span
from redrive.words.number import plural
from redrive.words.time import age

if TYPE_CHECKING:
    from redrive.cli.screen import Screen

REFRESH_SECONDS = 2.0
MAX_GROUPS = 5
MAX_RUNS = 200
"""Runs in flight that are looked at."""
UNFINISHED = ("RUNNING", "PAUSED", "STOPPED")
LABEL_WIDTH, NUMBER_WIDTH, KIND_WIDTH = 13, 8, 8
BLOCKS = "▁▂▃▄▅▆▇█"
CHART_WIDTH = 24


@click.command()
@click.option(
    "--span",
    type=click.Choice(list(map(str, Span))),
    default=str(Span.DAY),
    show_default=True,
    help="How far to look back.",
)
@click.option("--watch", is_flag=True, help="Show it again every 2 seconds, on a terminal.")
@output_option
@api_options
def status(client: Client, span: str, watch: bool, output: str | None) -> None:
    """What needs you, what heals itself, and what runs, on one screen.

    Exits with 0, whatever there is to see; `-o json` has it for programs.
    """
    if watch and chosen(output) != "table":
        raise click.UsageError("--watch is for a terminal.")
    found = _read(client, span)
    draw = partial(_draw, found=found, where=client.where)
    show_one(found, list(_totals(found)), output, draw, flat=_totals)
    while watch:
        time.sleep(REFRESH_SECONDS)
        found = _read(client, span)
        click.clear()
        _draw(screen(), found, client.where)


def _read(client: Client, span: str) -> dict[str, Any]:
    operations = client.get("/api/v1/operations", size=20)["items"]
    groups = client.get("/api/v1/groups", q="is:needs-you", sort="occurrences", size=MAX_GROUPS)
    queues, workers = client.get("/api/v1/queues")["items"], client.get("/api/v1/workers")["items"]
    return {
        "overview": client.get("/api/v1/overview", span=span),
        "breakers": client.get("/api/v1/breakers")["items"],
        "queues": queues,
        "workers": workers,
        "abandoned": _abandoned(client, workers) if count_runs(queues, "executing") else [],
        "groups": sorted(groups["items"], key=need_attention, reverse=True),
        "replays": [operation for operation in operations if operation["state"] in UNFINISHED],
    }


def _abandoned(client: Client, workers: Sequence[Row]) -> list[str]:
    """The ids of runs in flight whose worker is gone: their leases have expired, or are about to."""
    heard = {worker["id"] for worker in workers if is_heard(worker)}
    runs = client.get("/api/v1/runs", q="is:executing", size=MAX_RUNS)["items"]
    return [run["id"] for run in runs if run["worker"] not in heard]


def _draw(screen: Screen, found: dict[str, Any], where: str) -> None:
    overview = found["overview"]
    screen.headline(f"Redrive · {where}", (stamp(overview["now"]), "dim"))
    out("")
    _draw_totals(screen, found)
    if problems := list(current_problems(found)):
        screen.heading("Now")
        lines: list[tuple[Part, ...]] = [
            (kind, (name, "bold"), (state, style), text) for kind, name, state, style, text in problems
        ]
        screen.columns(lines, widths=(KIND_WIDTH,), cut=True)
    _draw_flow(screen, overview)
    _draw_groups(screen, found["groups"])
    screen.next_steps(_next(found))


def _totals(found: dict[str, Any]) -> Row:
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


def percent(part: int, whole: int) -> str:
    """All of them is 100%, and nothing else is."""
    return "100%" if part == whole else f"{min(99.9, 100.0 * part / whole):.1f}%"


def _draw_totals(screen: Screen, found: dict[str, Any]) -> None:
    overview, numbers = found["overview"], _totals(found)
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
    elif unserved := unserved_queues(found):
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
