"""The pages of administration, one module per noun."""

from __future__ import annotations

from redrive.server.admin import (
    audit,
    breakers,
    dead_letter,
    dead_letters,
    groups,
    overview,
    queues,
    replays,
    runs,
    settings,
    shell_pages,
    sign_in,
    static_files,
    workers,
)
from redrive.server.route import Routes

PAGES: tuple[Routes, ...] = (
    sign_in.home,
    sign_in.routes,
    static_files.routes,
    shell_pages.pages,
    overview.pages,
    runs.pages,
    dead_letters.pages,
    groups.pages,
    dead_letter.pages,
    replays.pages,
    breakers.pages,
    queues.pages,
    workers.pages,
    audit.pages,
    settings.pages,
)
