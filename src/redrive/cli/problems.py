"""Current problems: missing workers, expired leases, open breakers, paused queues, stopped replays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from redrive.cli.breaker import soon
from redrive.cli.queue import PLACES, count_runs, depths
from redrive.cli.table import Row, ago, counted, stamp
from redrive.cli.worker import START, is_at_work, is_served, worker_state
from redrive.words.number import noun, plural
from redrive.words.time import age

BREAKER_STYLES = {"OPEN": "bad", "CLOSED": "good"}
SHORT_ID = 12


class CurrentProblem(NamedTuple):
    """A problem, shown on one line."""

    kind: str
    name: str
    state: str
    style: str
    text: str


def current_problems(found: dict[str, Any]) -> Iterator[CurrentProblem]:
    yield from _missing_workers(found)
    if number := len(found["abandoned"]):
        text = f"worker is gone; another worker {'takes it' if number == 1 else 'takes them'} over"
        yield CurrentProblem("lease", plural(number, "run"), "expired", "bad", text)
    for work in found["overview"]["unknown_work"]:
        kind, _, name = work["held_by"].partition(":")
        text = f"{counted(work['runs'])} {noun(work['runs']['number'], 'run', 'runs')}: no worker knows it"
        yield CurrentProblem(kind, name, "unknown", "bad", text)
    for breaker in found["breakers"]:
        if breaker["force"] is not None or not (breaker["state"] == "CLOSED" or breaker["idle"]):
            style = BREAKER_STYLES.get(breaker["state"], "warn")
            yield CurrentProblem("breaker", breaker["name"], breaker["status"], style, _breaker_text(breaker))
    for queue in found["queues"]:
        if queue["paused"]:
            by = f"by {queue['paused_by']} " if queue["paused_by"] else ""
            reason = f": {queue['reason']}" if queue["reason"] else ""
            yield CurrentProblem(
                "queue", queue["name"], "paused", "warn", f"{by}{ago(queue['paused_at'])}{reason}"
            )
    for worker in found["workers"]:
        if worker_state(worker) == "silent":
            place = f" on {worker['host']}" if worker["host"] else ""
            text = f"for {age(worker['seconds_silent'])}{place}"
            yield CurrentProblem("worker", worker["id"][:SHORT_ID], "silent", "bad", text)
        elif worker_state(worker) == "blocked":
            step = worker["blocking_step"]
            by = f" by step {step['step']}, run {step['run_id'][:SHORT_ID]}" if step else ""
            text = f"for {age(worker['seconds_blocked'])}{by}"
            yield CurrentProblem("worker", worker["id"][:SHORT_ID], "blocked", "bad", text)
    for operation in found["replays"]:
        progress = f"{operation['released']:,} of {operation['plan']['will_run']:,} started"
        style = "bad" if operation["state"] == "STOPPED" else "warn"
        because = operation["stopped_because"]
        text = because["text"] if because else progress
        yield CurrentProblem("replay", operation["id"][:SHORT_ID], operation["status"], style, text)


def _missing_workers(found: dict[str, Any]) -> Iterator[CurrentProblem]:
    if not any(map(is_at_work, found["workers"])):
        if number := count_runs(found["queues"], *PLACES):
            text = f"{plural(number, 'run')} {noun(number, 'needs', 'need')} one: {START}"
            yield CurrentProblem("worker", "none", "missing", "bad", text)
        return
    for queue in unserved_queues(found):
        text = f"{counted(depths(queue)['ready'])} ready: {START}"
        yield CurrentProblem("queue", queue["name"], "unserved", "bad", text)


def unserved_queues(found: dict[str, Any]) -> list[Row]:
    """Return the queues with ready work that no worker serves, except paused queues."""
    return [
        queue
        for queue in found["queues"]
        if depths(queue)["ready"]["number"]
        and not queue["paused"]
        and not is_served(found["workers"], queue["name"])
    ]


def _breaker_text(breaker: Row) -> str:
    """Say how much work a breaker holds, and until when."""
    force, held = breaker["force"], breaker["waiting"]
    words = [f"{counted(held)} on hold"] if held["number"] else []
    if force is not None:
        until = "" if force["until"] is None else f" until {stamp(force['until'])[11:]}"
        words.append(f"forced by hand{until}" + (f": {force['reason']}" if force["reason"] else ""))
    elif breaker["open_until"] is not None:
        words.append(f"next probe {soon(breaker['open_until'])}")
    return "; ".join(words)
