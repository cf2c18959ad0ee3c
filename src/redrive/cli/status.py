"""`redrive status`: show on one screen what is broken, what heals itself, and what to run next."""

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
from redrive.cli.worker import START, is_at_work, is_responding, worker_state
from redrive.model.statistics import Span
from redrive.words.number import plural
from redrive.words.time import age

if TYPE_CHECKING:
    from redrive.cli.screen import Screen

REFRESH_SECONDS = 2.0
MAX_GROUPS = 5
MAX_RUNS = 200
"""Maximum number of runs in flight to check for lost workers."""
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
@click.option("--watch", is_flag=True, help="Refresh every 2 seconds. Needs a terminal.")
@output_option
@api_options
def status(client: Client, span: str, watch: bool, output: str | None) -> None:
    """Show what needs you, what heals itself, and what is running.

    Always exits with 0. Programs can use `-o json`.
    """
    if watch and chosen(output) != "table":
        raise click.UsageError("--watch needs a terminal and the table format.")
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
    """Return the ids of runs in flight whose worker is gone: their leases have expired or soon will."""
    responding = {worker["id"] for worker in workers if is_responding(worker)}
    runs = client.get("/api/v1/runs", q="is:executing", size=MAX_RUNS)["items"]
    return [run["id"] for run in runs if run["worker"] not in responding]


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
    """Return the numbers, for programs."""
    overview = found["overview"]
    flow = overview["dead_letters"]
    return {
        "needs_you": overview["needs_you"]["total"] + _unknown(overview),
        "heals_itself": overview["heals_itself"]["total"]["number"],
        "in_flight": count_runs(found["queues"], "executing"),
        "ready": count_runs(found["queues"], "ready"),
        "oldest_seconds": None if overview["oldest"] is None else round(overview["oldest"]["seconds"]),
        "new_dead_letters": sum(flow["new"]),
        "closed_dead_letters": sum(flow["closed"]),
        "workers": sum(map(is_at_work, found["workers"])),
        "silent_workers": sum(worker_state(worker) == "silent" for worker in found["workers"]),
        "blocked_workers": sum(worker_state(worker) == "blocked" for worker in found["workers"]),
        "open_breakers": sum(
            breaker["state"] != "CLOSED" and not breaker["idle"] for breaker in found["breakers"]
        ),
        "paused_queues": sum(queue["paused"] for queue in found["queues"]),
        "replays_in_progress": len(found["replays"]),
        "abandoned": len(found["abandoned"]),
    }


def need_attention(group: Row) -> int:
    """Count the dead letters of the group that need an operator."""
    letters = group["dead_letters"]
    return int(letters["open"] + letters["exhausted"])


def percent(part: int, whole: int) -> str:
    """Format a share with one decimal; only the whole is "100%"."""
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
            ("Running", f"{numbers['in_flight']:,}", _working(found["workers"])),
            ("Queued", f"{numbers['ready']:,}", _waiting(found["queues"])),
        ],
        right=(1,),
        widths=(LABEL_WIDTH, NUMBER_WIDTH),
        indent=0,
    )


def _needs(overview: Row) -> str:
    needs, oldest = overview["needs_you"], overview["oldest"]
    parts = [f"{needs[state]:,} {state}" for state in ("open", "exhausted") if needs[state]]
    if unknown := _unknown(overview):
        parts.append(f"{plural(unknown, 'run')} that no worker knows")
    if not parts:
        return "no open dead letters"
    since = "" if oldest is None else f"; oldest {age(oldest['seconds'])}"
    return ", ".join(parts) + since


def _unknown(overview: Row) -> int:
    """Count the runs that no worker knows."""
    return sum(work["runs"]["number"] for work in overview["unknown_work"])


def _heals(heals: Row) -> Iterator[str]:
    for count, what in (
        (heals["held"], "on hold for a breaker"),
        (heals["retrying"], "waiting for a retry"),
        ({"number": heals["replaying"], "capped": False}, "being replayed"),
        ({"number": heals["scheduled"], "capped": False}, "scheduled for automatic replay"),
    ):
        if count["number"]:
            yield f"{counted(count)} {what}"


def _working(workers: Sequence[Row]) -> str:
    at_work = [worker for worker in workers if is_at_work(worker)]
    if not at_work:
        return "no worker is running"
    places = sum(worker["concurrency"] for worker in at_work)
    text = f"{plural(len(at_work), 'worker')}, capacity {places:,}"
    late = [worker["seconds_silent"] for worker in at_work if not is_responding(worker)]
    return f"{text}; {len(late):,} without a heartbeat for {age(max(late))}" if late else text


def _waiting(queues: Sequence[Row]) -> str:
    busy = [depths(queue) for queue in queues if depths(queue)["ready"]["number"]]
    ages = [depth["oldest_ready_seconds"] for depth in busy if depth["oldest_ready_seconds"] is not None]
    if not busy:
        return "no run is ready for a worker"
    return f"in {plural(len(busy), 'queue')}" + (f"; oldest {age(max(ages))}" if ages else "")


def _draw_flow(screen: Screen, overview: Row) -> None:
    flow, replays = overview["dead_letters"], overview["replays"]
    new, closed = flow["new"], flow["closed"]
    out("")
    screen.columns(
        [
            ("Dead letters", "new", f"{sum(new):,}", (_chart(new, closed), "dim")),
            (f"last {overview['span']}", "closed", f"{sum(closed):,}", (_chart(closed, new), "dim")),
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
    """Draw bars, on a scale that fits both series."""
    size = max(1, len(numbers) // CHART_WIDTH)
    bars, other_bars = (
        [sum(values[start : start + size]) for start in range(0, len(values), size)]
        for values in (numbers, others)
    )
    top = max([*bars, *other_bars, 1])
    return "".join(BLOCKS[0] if not bar else BLOCKS[max(1, bar * (len(BLOCKS) - 1) // top)] for bar in bars)


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
        yield f"{START} --queue {quote(unserved[0]['name'])}", "start a worker for this queue"
    if found["groups"]:
        worst = short_fingerprint(found["groups"][0]["fingerprint"])
        yield f"redrive dlq groups {worst}", "see why these fail"
        yield f"redrive replay plan --group {worst}", "once the cause is fixed"
    for operation in found["replays"]:
        if operation["state"] != "RUNNING":
            yield f"redrive replay view {operation['id']}", "a replay that needs you"
            break
    if not found["groups"]:
        yield "redrive run list", "recent runs"
