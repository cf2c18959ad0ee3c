"""The pages of administration, one module a noun."""

from __future__ import annotations

from redrive.server.admin import (
    audit,
    breakers,
    dead_letters,
    frame,
    groups,
    letter,
    overview,
    queues,
    replays,
    runs,
    settings,
    sign_in,
    workers,
)
from redrive.server.route import Routes

PAGES: tuple[Routes, ...] = (
    sign_in.home,
    sign_in.routes,
    frame.pages,
    overview.pages,
    runs.pages,
    dead_letters.pages,
    groups.pages,
    letter.pages,
    replays.pages,
    breakers.pages,
    queues.pages,
    workers.pages,
    audit.pages,
    settings.pages,
)
