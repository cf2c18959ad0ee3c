"""A request for every route, and what it is: the word of the table of roles that it falls under.

`A("letter")` is what the request aims at: the caller's own, another organization's, or one that never was.
`Own("letter")` is the caller's own whatever it aims at. In texts, {canary} is the word that no other
organization may ever see, and {number} another number each time.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, NamedTuple

from tests.server.house import ORIGIN
from tests.server.two_orgs import HOME, PASSWORD, SCOPES, AuthenticatedCaller, Org, TwoOrgs
from tests.server.wire import NOTHING, Inquiry

PUBLIC, SIGNED_IN = "public", "signed in"

# By hand from the page about the pages of administration, and not out of the code that decides.
EVERYBODY = ("VIEWER", "STAFF", "ADMIN", "OWNER")
STAFF_UP, ADMIN_UP, OWNERS = EVERYBODY[1:], EVERYBODY[2:], EVERYBODY[3:]
MAY = {
    "read": EVERYBODY,
    "plan": EVERYBODY,
    "note": STAFF_UP,
    "tag": STAFF_UP,
    "assign": STAFF_UP,
    "start": ADMIN_UP,
    "replay": ADMIN_UP,
    "resolve": ADMIN_UP,
    "ignore": ADMIN_UP,
    "archive": ADMIN_UP,
    "reopen": ADMIN_UP,
    "acknowledge": ADMIN_UP,
    "link": ADMIN_UP,
    "retry": ADMIN_UP,
    "cancel": ADMIN_UP,
    "breakers": ADMIN_UP,
    "queues": ADMIN_UP,
    "reveal": ADMIN_UP,
    "members": OWNERS,
    "keys": OWNERS,
    "organizations": OWNERS,
    "settings": OWNERS,
    "clear": OWNERS,
}
SCOPED = ("plan", "note", "tag", "assign")
"""What an owner's key may do that is limited to `SCOPES`."""
assert SCOPES == ["plan", "note"]

_numbers = itertools.count(1)


class Target(Enum):
    OWN = "own"
    FOREIGN = "foreign"
    UNKNOWN = "unknown"


class A(NamedTuple):
    kind: str


class Own(NamedTuple):
    kind: str


class Entry(NamedTuple):
    """
    path    the parameters of the address, by name
    status  what those who may do it are answered
    home    only from the organization that owns the installation
    keys    what keys are answered where only people can do it
    guest   whoever does it loses their session, their membership or the like by it
    page    a page for people: strangers are led to where one signs in
    """

    action: str
    path: Mapping[str, Any] = NOTHING
    body: Any = None
    status: int = 200
    home: bool = False
    query: Mapping[str, Any] = NOTHING
    headers: Mapping[str, str] = NOTHING
    keys: int | None = None
    guest: bool = False
    page: bool = False

    @property
    def targets(self) -> tuple[Target, ...]:
        aims = {each.kind for each in _markers([self.path, self.body, self.query]) if isinstance(each, A)}
        if not aims:
            return (Target.OWN,)
        if aims & {"queue", "breaker"}:  # these belong to all
            return (Target.OWN, Target.UNKNOWN)
        return tuple(Target)

    def may(self, visitor: AuthenticatedCaller, org: str) -> bool:
        if self.action in (PUBLIC, SIGNED_IN):
            return True
        allowed = visitor.role in MAY[self.action] and not (visitor.scoped and self.action not in SCOPED)
        return allowed and (org == HOME or not self.home)

    def expected(self, visitor: AuthenticatedCaller, org: str, target: Target) -> int:
        if visitor.kind == "nobody" and self.action != PUBLIC:
            return 303 if self.page else 401
        if not self.may(visitor, org):
            return 403
        if visitor.kind == "key" and self.keys is not None:
            return self.keys
        return self.status if target is Target.OWN else 404

    def enters(self, visitor: AuthenticatedCaller, org: str, target: Target) -> bool:
        """Owners of the home organization may enter any (W13), which another test shows."""
        entering = self.body == ENTERING and target is Target.FOREIGN
        return entering and (visitor.kind, visitor.role, org) == ("session", "OWNER", HOME)


ENTERING = {"name": A("organization")}
SAVING = {"name": "view-{number}", "page": "dlq", "query": "is:open {canary}"}


def _letters() -> dict[str, tuple[Entry, ...]]:
    """The routes under both names of dead letters."""
    one, mine = {"id": A("letter")}, {"id": A("open letter")}
    some = {"ids": [Own("open letter"), A("open letter"), Own("open letter")]}
    said = {"reason": "done, {canary}"}
    clearing = {"queue": Own("clearable queue"), "expect": 1, "confirm": "clear"}
    awaited = {"depends_on": Own("awaited letter")}
    return {
        "GET ": (Entry("read", query={"q": "is:any", "size": "5"}),),
        "GET /count": (Entry("read"),),
        "GET /statistics": (Entry("read"),),
        "GET /{id}": (Entry("read", one),),
        "GET /{id}/payload": (Entry("read", one),),
        "GET /{id}/attempts": (Entry("read", one),),
        "GET /{id}/history": (Entry("read", one),),
        "GET /{id}/verdict": (Entry("read", one),),
        "GET /{id}/notes": (Entry("read", one),),
        "GET /{id}/dependencies": (Entry("read", one),),
        "POST /{id}/resolve": (Entry("resolve", mine, said),),
        "POST /{id}/ignore": (Entry("ignore", mine, said),),
        "POST /{id}/archive": (Entry("archive", mine),),
        "POST /{id}/reopen": (Entry("reopen", {"id": A("closed letter")}, said),),
        "POST /{id}/assign": (Entry("assign", mine, {"name": "{canary}"}),),
        "POST /{id}/tags": (Entry("tag", mine, {"add": ["tag-{canary}"]}),),
        "POST /{id}/notes": (Entry("note", mine, {"text": "seen, {canary}"}, 201),),
        "POST /{id}/dependencies": (
            Entry("link", mine, awaited),
            Entry("link", {"id": Own("open letter")}, {"depends_on": A("awaited letter")}),
        ),
        "DELETE /{id}/dependencies/{depends_on}": (
            Entry("link", {"id": A("waiting letter"), **awaited}),
            Entry("link", {"id": Own("waiting letter"), "depends_on": A("awaited letter")}),
        ),
        "POST /{id}/reveal": (Entry("reveal", mine, {"reason": "to see, {canary}"}),),
        "POST /resolve": (Entry("resolve", {}, {**some, **said}),),
        "POST /ignore": (Entry("ignore", {}, some),),
        "POST /archive": (Entry("archive", {}, some),),
        "POST /reopen": (Entry("reopen", {}, {"ids": [Own("closed letter"), A("closed letter")]}),),
        "POST /assign": (Entry("assign", {}, {**some, "name": "{canary}"}),),
        "POST /tags": (Entry("tag", {}, {**some, "add": ["tag-{canary}"]}),),
        "POST /clear": (Entry("clear", {}, clearing),),
        "POST /{id}/replay": (Entry("replay", mine, {"reason": "again, {canary}"}, 202),),
    }


def _runs() -> dict[str, tuple[Entry, ...]]:
    one, failed, pending = {"id": A("run")}, {"id": A("failed run")}, {"id": A("pending run")}
    started = {"work": "greet", "payload": {"card": "{canary}"}, "delay_seconds": 86_400}
    key = {"idempotency-key": '"the same everywhere"'}
    return {
        "POST ": (Entry("start", {}, started, 202, headers=key),),
        "POST /many": (Entry("start", {}, {"work": "greet", "payloads": ["{canary}", 2]}, 202),),
        "GET ": (Entry("read", query={"size": "5"}),),
        "GET /count": (Entry("read"),),
        "GET /counts": (Entry("read"),),
        "GET /{id}": (Entry("read", one),),
        "GET /{id}/steps": (Entry("read", one),),
        "GET /{id}/attempts": (Entry("read", one),),
        "GET /{id}/events": (Entry("read", one),),
        "POST /{id}/cancel": (Entry("cancel", pending, {"reason": "{canary}"}),),
        "POST /{id}/retry": (Entry("retry", failed, {"reason": "{canary}"}, 202),),
    }


def _operations() -> dict[str, tuple[Entry, ...]]:
    one, planned, running = (
        {"id": A("operation")},
        {"id": A("planned operation")},
        {"id": A("running operation")},
    )
    reason = {"reason": "{canary}"}
    return {
        "POST ": (
            Entry("plan", {}, {"ids": [Own("letter"), A("letter")], **reason}, 201),
            Entry("plan", {}, {"group": A("group"), **reason}, 201),
            Entry("plan", {}, {"query": "is:open", **reason}, 201),
        ),
        "GET ": (Entry("read", query={"size": "5"}),),
        "GET /{id}": (Entry("read", one),),
        "GET /{id}/items": (Entry("read", one),),
        "GET /{id}/drift": (Entry("read", one),),
        "GET /{id}/report": (Entry("read", one),),
        "POST /{id}/start": (Entry("replay", planned, status=202),),
        "POST /{id}/pause": (Entry("replay", running, reason),),
        "POST /{id}/resume": (Entry("replay", {"id": A("paused operation")}, reason),),
        "POST /{id}/cancel": (Entry("replay", running, reason),),
    }


def _events() -> dict[str, tuple[Entry, ...]]:
    one, reason = {"id": A("event")}, {"reason": "{canary}"}
    running, paused = {"id": A("running rebuild")}, {"id": A("paused rebuild")}
    rebuild = {"projector": "project", "stream": Own("rebuildable stream")}
    return {
        "GET /stored-events": (Entry("read", query={"q": "is:any", "size": "5"}),),
        "GET /stored-events/count": (Entry("read"),),
        "GET /stored-events/{id}": (Entry("read", one),),
        "POST /stored-events/replay": (Entry("plan", {}, {"query": "is:failed", **reason}, 201),),
        "POST /stored-events/{id}/replay": (
            Entry("replay", one, {"projectors": ["project"], **reason}, 202),
        ),
        "POST /stored-events/{id}/replay/preview": (Entry("replay", one),),
        "GET /streams": (Entry("read"),),
        "GET /streams/{name}": (Entry("read", {"name": A("active stream")}),),
        "POST /streams/{name}/pause": (Entry("queues", {"name": A("active stream")}, reason),),
        "POST /streams/{name}/resume": (Entry("queues", {"name": A("paused stream")}, reason),),
        "GET /rebuilds": (Entry("read", query={"size": "5"}),),
        "POST /rebuilds": (Entry("replay", {}, {**rebuild, **reason}, 202),),
        "POST /rebuilds/preview": (Entry("replay", {}, rebuild),),
        "GET /rebuilds/{id}": (Entry("read", running),),
        "POST /rebuilds/{id}/pause": (Entry("replay", running, reason),),
        "POST /rebuilds/{id}/resume": (Entry("replay", paused, reason),),
        "POST /rebuilds/{id}/cancel": (Entry("replay", paused, reason),),
    }


def _groups() -> dict[str, tuple[Entry, ...]]:
    one, reason = {"fingerprint": A("group")}, {"reason": "{canary}"}
    return {
        "GET ": (Entry("read"),),
        "GET /count": (Entry("read"),),
        "GET /{fingerprint}": (Entry("read", one),),
        "GET /{fingerprint}/occurrences": (Entry("read", one),),
        "POST /{fingerprint}/acknowledge": (Entry("acknowledge", one, reason),),
        "POST /{fingerprint}/resolve": (Entry("resolve", one, reason),),
        "POST /{fingerprint}/ignore": (Entry("ignore", one, reason),),
        "POST /{fingerprint}/reopen": (Entry("reopen", {"fingerprint": A("closed group")}, reason),),
    }


def _session() -> dict[str, tuple[Entry, ...]]:
    origin = {"origin": "http://localhost:8400"}
    password = {"password": "another long sentence"}
    signing_in = {"name": Own("name"), "password": PASSWORD}

    def signed_in(status: int, path: Any = NOTHING, body: Any = None, keys: int = 409) -> tuple[Entry, ...]:
        return (Entry(SIGNED_IN, path, body, status, keys=keys, guest=True),)

    return {
        "POST /session": (Entry(PUBLIC, {}, signing_in, headers=origin, guest=True),),
        "POST /session/link": (Entry(PUBLIC, {}, {"token": Own("link")}, headers=origin, guest=True),),
        "GET /session/oidc": (Entry(PUBLIC, status=404),),
        "GET /session/oidc/callback": (Entry(PUBLIC, status=404),),
        "GET /session/forward": (Entry(PUBLIC, status=404),),
        "POST /session/forward": (Entry(PUBLIC, status=404, headers=origin),),
        "GET /session": signed_in(200, keys=200),
        "PUT /session/organization": signed_in(200, body=ENTERING),
        "PUT /session/password": signed_in(204, body=password),
        "DELETE /session": signed_in(204),
        "GET /session/all": signed_in(200),
        "DELETE /session/others": signed_in(204),
        "DELETE /session/all/{id}": signed_in(204, {"id": A("session")}),
        "DELETE /members/self": signed_in(204),
    }


def _directory() -> dict[str, tuple[Entry, ...]]:
    who, key = {"id": A("member")}, {"id": A("key")}
    return {
        "GET /organizations": (Entry("read"),),
        "POST /organizations": (Entry("organizations", {}, {"name": "org-{number}"}, 201, home=True),),
        "GET /members": (Entry("read"),),
        "POST /members": (Entry("members", {}, {"name": "{canary}-new-{number}", "role": "STAFF"}, 201),),
        "GET /members/{id}": (Entry("read", who),),
        "PATCH /members/{id}": (Entry("members", who, {"role": "ADMIN"}),),
        "DELETE /members/{id}": (Entry("members", who, status=204),),
        "POST /members/{id}/link": (Entry("members", who, {}, 201),),
        "POST /members/{id}/disable": (Entry("members", who, status=204),),
        "POST /members/{id}/enable": (Entry("members", {"id": A("disabled member")}, status=204),),
        "GET /keys": (Entry("keys"),),
        "POST /keys": (Entry("keys", {}, {"name": "{canary} {number}", "role": "OWNER"}, 201),),
        "GET /keys/{id}": (Entry("keys", key),),
        "POST /keys/{id}/rotate": (Entry("keys", key, {}),),
        "DELETE /keys/{id}": (Entry("keys", key, status=204),),
    }


def _shared() -> dict[str, tuple[Entry, ...]]:
    queue, breaker, reason = {"name": A("queue")}, {"name": A("breaker")}, {"reason": "{canary}"}
    forcing = {"state": "OPEN", **reason}
    return {
        "GET /replays/{id}": (Entry("read", {"id": A("replay")}),),
        "GET /statistics": (Entry("read"),),
        "GET /audit": (Entry("read", query={"size": "5"}), Entry("read", query={"subject": Own("letter")})),
        "GET /audit/head": (Entry("read"),),
        "POST /audit/verify": (Entry("read", {}, {"head": Own("head")}),),
        "GET /overview": (Entry("read"), Entry("read", query={"span": "7d"})),
        "GET /queues": (Entry("read"),),
        "GET /queues/{name:path}": (Entry("read", queue),),
        "POST /queues/{name:path}/pause": (Entry("queues", queue, reason, home=True),),
        "POST /queues/{name:path}/resume": (Entry("queues", queue, home=True),),
        "GET /breakers": (Entry("read"),),
        "GET /breakers/{name:path}": (Entry("read", breaker),),
        "POST /breakers/{name:path}/release": (Entry("breakers", breaker, home=True),),
        "POST /breakers/{name:path}/force": (Entry("breakers", breaker, forcing, home=True),),
        "GET /workers": (Entry("read"),),
        "GET /events": (Entry("read"),),
        "GET /settings": (Entry("settings", home=True),),
        "GET /saved-views": (Entry("read", query={"page": "dlq"}),),
        "POST /saved-views": (Entry("note", {}, SAVING, 201),),
        "DELETE /saved-views/{id}": (Entry("note", {"id": A("saved view")}, status=204),),
        "GET /strategies": (Entry("read"),),
        "PUT /strategies": (
            Entry("settings", {}, {"strategy": "manual", "reason": "{canary}"}),
            Entry("settings", {}, {"strategy": "manual", "queue": A("queue")}),
        ),
    }


def _table() -> dict[str, tuple[Entry, ...]]:
    version_1 = {**_session(), **_directory(), **_shared(), **_events()}
    nouns = {
        "/api/v1/dead-letters": _letters()
        | {"POST /{id}/replay/preview": (Entry("replay", {"id": A("letter")}, {"remove_fields": ["card"]}),)},
        "/api/v1/workflow-dlq": _letters(),
        "/api/v1/runs": _runs(),
        "/api/v1/jobs": _runs(),
        "/api/v1/operations": _operations(),
        "/api/v1/groups": _groups(),
        "/api/v1": version_1,
    }
    table = {_under(prefix, name): found for prefix, noun in nouns.items() for name, found in noun.items()}
    public = ("/healthz", "/readyz", "/api/openapi.json", "/api/docs", "/api/docs.css", "/app/sign-in")
    table |= {f"GET {path}": (Entry(PUBLIC),) for path in public}
    table |= {f"HEAD {path}": (Entry(PUBLIC),) for path in ("/healthz", "/readyz")}
    table["GET /app/static/{version}/{name}"] = (Entry(PUBLIC, {"version": "1", "name": "app.css"}),)
    table["POST /app/sign-in"] = (Entry(PUBLIC, body={}, status=422, headers=ORIGIN),)
    table |= {
        f"GET /app/admin{path}": tuple(each._replace(page=True) for each in found)
        for path, found in _pages().items()
    }
    table["GET /"] = (Entry(PUBLIC, status=303),)
    table["GET /metrics"] = (Entry("read", home=True),)
    table["POST /api/jobs/{id}/retry"] = (Entry("retry", {"id": A("failed run")}, status=202),)
    return table


def _pages() -> dict[str, tuple[Entry, ...]]:
    """They only read."""
    plain = (
        *("/audit", "/breakers", "/keys", "/queues", "/replays", "/settings", "/status", "/streams"),
        "/workers",
    )
    letter = {"id": A("letter")}
    return {path: (Entry("read"),) for path in plain} | {
        "": (Entry("read"), Entry("read", query={"span": "7d"})),
        "/runs": (Entry("read"), Entry("read", query={"q": "is:failed"})),
        "/runs/new": (Entry("start"), Entry("start", query={"work": "greet"})),
        "/runs/{id}": (Entry("read", {"id": A("run")}),),
        "/events": (Entry("read"), Entry("read", query={"q": "is:failed"})),
        "/events/{id}": (Entry("read", {"id": A("event")}),),
        "/streams/{name}": (Entry("read", {"name": A("active stream")}),),
        "/replays/new": (
            Entry("read", query={"q": "is:open"}),
            Entry("read", query={"ids": A("letter")}),
            Entry("read", query={"group": A("group")}),
        ),
        "/replays/{id}": (Entry("read", {"id": A("operation")}),),
        "/dlq/{id}/replay": (Entry("replay", letter), Entry("replay", letter, query={"step": "1"})),
        "/dlq": (Entry("read"), Entry("read", query={"q": "is:any", "view": "flat", "sort": "oldest"})),
        "/dlq/groups/{fingerprint}": (
            Entry("read", {"fingerprint": A("group")}),
            Entry("read", {"fingerprint": A("group")}, query={"span": "7d"}),
        ),
        "/dlq/{id}": (Entry("read", letter), Entry("read", letter, query={"compare": "1,2"})),
    }


def _under(prefix: str, name: str) -> str:
    method, _, path = name.partition(" ")
    return f"{method} {prefix}{path}"


TABLE = _table()
"""By method and path, as the routes have them."""


class Aimed(NamedTuple):
    """A request, and the id that it names beside the caller's own."""

    inquiry: Inquiry
    id: str


class Aim:
    """Makes requests of one organization. Unless it may `use_up` things, it names those that are kept."""

    def __init__(self, world: TwoOrgs, org: Org, *, use_up: bool) -> None:
        self._world = world
        self._own = org
        self._other = world.other(org.name)
        self._use_up = use_up

    async def at(self, route: str, entry: Entry, target: Target) -> Aimed:
        method, _, path = route.partition(" ")
        named: list[str] = []
        places = await self._filled(entry.path, target, named)
        for name, value in places.items():
            path = path.replace(f"{{{name}:path}}", value).replace(f"{{{name}}}", value)
        body, query = [await self._filled(each, target, named) for each in (entry.body, entry.query)]
        return Aimed(Inquiry(method, path, body, query, entry.headers), named[0] if named else "")

    async def _filled(self, value: Any, target: Target, named: list[str]) -> Any:
        if isinstance(value, Own):
            return await self._mine(value.kind)
        if isinstance(value, A):
            named.append(await self._aimed(value.kind, target))
            return named[-1]
        if isinstance(value, Mapping):
            return {name: await self._filled(each, target, named) for name, each in value.items()}
        if isinstance(value, list):
            return [await self._filled(each, target, named) for each in value]
        return self._said(value)

    def _said(self, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        return value.replace("{canary}", self._own.canary).replace("{number}", str(next(_numbers)))

    async def _mine(self, kind: str) -> str:
        return await self._own.fresh(kind) if self._use_up else self._own.kept[kind]

    async def _aimed(self, kind: str, target: Target) -> str:
        if target is Target.OWN:
            return await self._mine(kind)
        if target is Target.FOREIGN:
            return self._other.kept[kind]
        return self._world.unknown.get(kind, self._world.unknown_id)


def _markers(value: Any) -> Iterator[A | Own]:
    if isinstance(value, (A, Own)):
        yield value
    elif isinstance(value, (Mapping, list)):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _markers(each)
