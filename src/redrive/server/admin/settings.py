"""The pages of settings: the caller's account, members, keys, and the configuration of the installation.

Members and keys are changed here, through the API. The rest is configured where the application is started;
the page shows each value with its source.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Annotated, Any

from fastapi import Query
from starlette.responses import RedirectResponse, Response

from redrive.failures.statistics import statistics
from redrive.model.role import Role
from redrive.policy.access import PERMISSIONS, SESSION, Permission
from redrive.policy.monitor import alerts
from redrive.policy.triage import Strategy
from redrive.server.admin.environment import link
from redrive.server.admin.page import OnPage, Page, Pages
from redrive.server.api.request import Cursor
from redrive.server.problem import ProblemError
from redrive.server.site import site_of
from redrive.settings import SETTINGS

pages = Pages("settings")

PAGE_SIZE = 50
RETENTION = ("retention_days", "dlq_archive_days", "session_days", "session_idle_hours")

RIGHTS = {
    Permission.READ: "read, with secrets redacted",
    Permission.PLAN: "plan a replay",
    Permission.NOTE: "note, tag and assign",
    Permission.START: "start runs",
    Permission.RETRY: "replay dead letters and retry runs",
    Permission.ARCHIVE: "archive dead letters",
    Permission.OPERATE: "resolve, ignore, reopen and cancel",
    Permission.CONTROL: "open and close breakers, pause queues",
    Permission.REVEAL: "reveal redacted payloads (audited, with a reason)",
    Permission.MANAGE: "manage members and API keys, clear dead-letter queues",
}
"""What each permission allows."""

STRATEGIES = {
    Strategy.AUTOMATIC: "every failure",
    Strategy.SELECTIVE: "failures that a later retry may fix",
    Strategy.MANUAL: "none, except on request",
    Strategy.DISABLED: "none",
}
"""Which failures become dead letters."""

Section = Annotated[str, Query(max_length=40)]
Values = dict[str, Any]


@pages.get("/settings")
async def settings(page: OnPage, section: Section = "members", cursor: Cursor = None) -> Response:
    if section in FORMER_NAMES:
        return RedirectResponse(link("/settings", section=FORMER_NAMES[section]), 308)
    known = {name: title for name, title in TITLES.items() if _is_open(page, name)}
    if section not in known:
        raise _refused(section)
    values = await SECTIONS[section](page, cursor)
    choices = [(link("/settings", section=name), title, name == section) for name, title in known.items()]
    return await page.render(
        f"settings/{section}.html", place="settings", section=section, choices=choices, **values
    )


def _is_open(page: Page, section: str) -> bool:
    """Whether the caller's role can use a section; others are hidden."""
    principal = page.visit.principal
    if section == "keys":
        return page.may("manage")
    if section in ("organizations", "server"):
        return page.may("manage") and principal.at_home
    return section != "me" or principal.kind == SESSION


def _refused(section: str) -> ProblemError:
    if section in TITLES:
        return ProblemError(
            403, "forbidden", "only owners can see these settings", hint="Ask an owner of your organization"
        )
    return ProblemError(
        404,
        "not_found",
        f"unknown settings page {section!r:.100}",
        hint=f"Use one of {', '.join(TITLES)}",
    )


async def _me(page: Page, cursor: str | None) -> Values:
    token = site_of(page.request.scope).authenticator.session_token(page.request) or ""
    lines = await page.visit.app.members().sessions.list(token)
    principal = page.visit.principal
    return {"sessions": lines, "own": principal.id, "rights": _rights(Role(principal.role))}


async def _members(page: Page, cursor: str | None) -> Values:
    found = await page.visit.members.list(size=PAGE_SIZE, cursor=cursor)
    return {
        "members": found.members,
        "roles": [(str(role), rights) for role, rights in _roles()],
        **_paging("members", cursor, found.next_cursor),
    }


async def _keys(page: Page, cursor: str | None) -> Values:
    found = await page.visit.members.keys.list(size=PAGE_SIZE, cursor=cursor)
    return {
        "keys": found.keys,
        "roles": [str(role) for role in Role],
        "scopes": [str(permission) for permission in Permission],
        **_paging("keys", cursor, found.next_cursor),
    }


async def _organizations(page: Page, cursor: str | None) -> Values:
    found = await page.visit.members.organizations.list(size=PAGE_SIZE, cursor=cursor)
    return {
        "organizations": found.organizations,
        **_paging("organizations", cursor, found.next_cursor),
    }


async def _dead_letters(page: Page, cursor: str | None) -> Values:
    return {
        "strategies": await page.visit.failures.strategies.list(),
        "choices_of_strategy": [(str(strategy), meaning) for strategy, meaning in STRATEGIES.items()],
    }


async def _redaction(page: Page, cursor: str | None) -> Values:
    return {"rules": page.visit.parts.redactor.rules}


async def _retention(page: Page, cursor: str | None) -> Values:
    return {"settings": _settings(page, RETENTION)}


async def _alerts(page: Page, cursor: str | None) -> Values:
    parts, org = page.visit.parts, page.visit.org
    size, interval = parts.settings.dlq_max_size, parts.settings.dlq_interval_sec
    figures = await statistics(parts.store_of(org), org, max_size=size, interval=interval)
    thresholds = parts.declared.thresholds
    return {"thresholds": thresholds, "raised": alerts(figures, thresholds)}


async def _server(page: Page, cursor: str | None) -> Values:
    return {"settings": _settings(page, tuple(setting.name for setting in SETTINGS))}


TITLES = {
    "members": "Members",
    "keys": "API keys",
    "organizations": "Organizations",
    "dead-letters": "Dead letters",
    "redaction": "Redaction",
    "retention": "Retention",
    "alerts": "Alerts",
    "server": "Configuration",
    "me": "My account",
}
FORMER_NAMES = {"notifications": "alerts"}
"""Sections by their former names, so that old links still work."""

SECTIONS: Mapping[str, Callable[[Page, str | None], Awaitable[Values]]] = {
    "members": _members,
    "keys": _keys,
    "organizations": _organizations,
    "dead-letters": _dead_letters,
    "redaction": _redaction,
    "retention": _retention,
    "alerts": _alerts,
    "server": _server,
    "me": _me,
}


def _paging(section: str, cursor: str | None, next_cursor: str | None) -> Values:
    here = link("/settings", section=section)
    onwards = link("/settings", section=section, cursor=next_cursor) if next_cursor else ""
    return {"first": here if cursor else "", "next": onwards}


def _roles() -> Iterator[tuple[Role, str]]:
    """Yield each role with the permissions that it has beyond the role before it."""
    before: Role | None = None
    for role in Role:
        less = PERMISSIONS[before] if before is not None else frozenset()
        more = "; ".join(text for right, text in RIGHTS.items() if right in PERMISSIONS[role] - less)
        yield role, more if before is None else f"everything {before} can; {more}"
        before = role


def _rights(role: Role) -> str:
    return "; ".join(text for right, text in RIGHTS.items() if right in PERMISSIONS[role])


def _settings(page: Page, names: tuple[str, ...]) -> list[Values]:
    """Return settings with secrets masked, and the source of each value."""
    settings = page.visit.parts.settings
    origins = settings.origins()
    return [
        {
            **setting.as_json(getattr(settings, setting.name), origins[setting.name]),
            "text": setting.spell(getattr(settings, setting.name)),
        }
        for setting in SETTINGS
        if setting.name in names
    ]
