"""The guide: five steps from the first failure to its resolution, in the terminal and on the admin pages.

It reads the database and Acme's files to find out which steps are done. Viewing a page changes neither, so
the server keeps in memory which pages were opened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple
from urllib.parse import quote

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup
from starlette.requests import Request

from redrive.app import Redrive
from redrive.demo.folder import ShippingZones
from redrive.failures.service import Failures
from redrive.model.caller import Caller
from redrive.model.operation import ReplayOperation
from redrive.model.query import Order
from redrive.model.replay import OperationState
from redrive.server.banner import Banner

SEE, UNDERSTAND, FIX, REPLAY, WATCH = range(5)
TITLES = ("See a failure", "Understand it", "Fix it", "Replay the group", "Watch it resolve")
CANARY, RATE = 3, 2
"""The number of runs in the canary, and the runs per second after it: slow enough to watch."""
GROUP_LENGTH = 12
SEEN = "seen "
"""Prefix of the line in which the server reports that the page of a step was opened."""

ADMIN = "/app/admin"
LETTERS = f"{ADMIN}/dlq"
COOKIE, HIDDEN = "redrive_guide", "hidden"
"""guide.js sets the cookie."""


class GuideProgress(NamedTuple):
    """How far the user has come with the group of missing shipping zones.

    group      the first characters of its fingerprint, enough to identify it
    letter     id of its oldest dead letter
    operation  id of its newest bulk replay
    """

    group: str = ""
    fingerprint: str = ""
    letter: str = ""
    live: int = 0
    fixed: bool = False
    operation: str = ""
    started: bool = False
    resolved: bool = False

    def done(self, seen: frozenset[int]) -> tuple[bool, ...]:
        """Return which steps are done. A step counts as done when a later one is done."""
        own = (SEE in seen, UNDERSTAND in seen, self.fixed, self.started or self.resolved, self.resolved)
        return tuple(any(own[number:]) for number in range(len(own)))


async def read_progress(app: Redrive, zones: ShippingZones) -> GuideProgress:
    failures, fixed = app.failures(by="demo"), zones.is_fixed
    groups = (await failures.groups.list("workflow:checkout step:label", size=20)).lines
    for group, letters in groups:
        if group.error_type.endswith("MissingZoneError"):
            operation = await _operation(failures, group.fingerprint)
            # The oldest dead letter: the newest changes faster than a user can type its id.
            query = f"fp:{group.fingerprint}"
            oldest = (await failures.list(query, size=1, order=Order.OLDEST)).lines
            return GuideProgress(
                group=group.fingerprint.rpartition(":")[2][:GROUP_LENGTH],
                fingerprint=group.fingerprint,
                letter=oldest[0].id if oldest else "",
                live=letters.live,
                fixed=fixed,
                operation="" if operation is None else operation.id,
                started=operation is not None and operation.started_at is not None,
                resolved=fixed and letters.live == 0,
            )
    return GuideProgress(fixed=fixed)


async def _operation(failures: Failures, fingerprint: str) -> ReplayOperation | None:
    """Return the newest started replay of the group, or else the newest plan."""
    operations = [
        operation
        for operation in (await failures.plans.list(size=20)).operations
        if operation.selection.get("group") == fingerprint and operation.state != OperationState.CANCELLED
    ]
    started = (operation for operation in operations if operation.started_at is not None)
    return next(started, operations[0] if operations else None)


def plan_command(group: str) -> str:
    return f"redrive replay plan --group {group} --canary {CANARY} --rate {RATE} --reason fixed"


class GuideStep(NamedTuple):
    """A step as the banner shows it.

    text     what to look at or do
    href     the page of the step, or "" if it doesn't exist yet
    label    the text of the link
    command  the equivalent CLI command, or ""
    """

    title: str
    text: str
    href: str
    label: str
    command: str
    done: bool


class Guide:
    """The banner on the admin pages. `report` receives a line for each step whose page is opened."""

    def __init__(
        self, app: Redrive, zones: ShippingZones, world_url: str, report: Callable[[str], None]
    ) -> None:
        self._app = app
        self._zones = zones
        self._world_url = world_url
        self._report = report
        self._seen: frozenset[int] = frozenset()

    def banner(self) -> Banner:
        return Banner(self._render, [files("redrive.demo") / name for name in ("guide.css", "guide.js")])

    async def _render(self, request: Request, _: Caller) -> str:
        if request.cookies.get(COOKIE) == HIDDEN:
            return ""
        progress = await read_progress(self._app, self._zones)
        self._note_page(request.url.path, progress)
        return render(self._steps(progress))

    def _note_page(self, path: str, progress: GuideProgress) -> None:
        """Mark SEE as done on a list of dead letters, and UNDERSTAND on the page of one dead letter."""
        is_letter = path.startswith(f"{LETTERS}/") and not path.startswith(f"{LETTERS}/groups/")
        for number, is_page in ((SEE, path.startswith(LETTERS)), (UNDERSTAND, is_letter)):
            if progress.group and is_page and number not in self._seen:
                self._seen |= {number}
                self._report(f"{SEEN}{number}")

    def _steps(self, progress: GuideProgress) -> Sequence[GuideStep]:
        operation, started = progress.operation, progress.started
        planned = bool(operation) and not started
        new_plan = f"{ADMIN}/replays/new?group={quote(progress.fingerprint, safe='')}"
        plan = f"{ADMIN}/replays/{operation}" if planned else new_plan
        steps = (
            (
                "Redrive groups identical failures. Look for the parcels that get no label.",
                LETTERS,
                "Dead letters",
                "redrive dlq groups",
            ),
            (
                "A dead letter shows the order, its attempts and the cause: no shipping zone for Norway.",
                f"{LETTERS}/{progress.letter}" if progress.letter else "",
                "Open a dead letter",
                f"redrive dlq view {progress.letter}" if progress.letter else "",
            ),
            ("Add a zone for Norway to Acme's table.", self._world_url, "Acme and its services", ""),
            (
                "Plan the replay first: a canary of a few runs, then the rest if the canary succeeds.",
                plan if progress.group else "",
                "Start the plan" if planned else "Plan the replay",
                plan_command(progress.group),
            ),
            (
                "Each run continues at the step where it stopped. No card is charged again.",
                f"{ADMIN}/replays/{operation}" if started else "",
                "Watch the replay",
                f"redrive replay watch {operation}" if started else "",
            ),
        )
        done = progress.done(self._seen)
        return [
            GuideStep(title, *step, done=is_done)
            for title, step, is_done in zip(TITLES, steps, done, strict=True)
        ]


def render(steps: Sequence[GuideStep]) -> Markup:
    upcoming = next((step for step in steps if not step.done), None)
    return Markup(_template().render(steps=steps, upcoming=upcoming))  # noqa: S704 - the template escapes


@cache
def _template() -> Template:
    source = (files("redrive.demo") / "guide.html").read_text(encoding="utf-8")
    parser = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return parser.from_string(source)
