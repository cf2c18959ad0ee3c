"""Two organizations with rows of every kind: some to keep and some to use up.

Every row of an organization holds its canary. No worker runs after the setup, so only requests change rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from argon2 import PasswordHasher
from tests.server.house import ORIGIN, House

from redrive.dead_letter_queue import DeadLetterQueue
from redrive.errors import FinalError
from redrive.events import Event
from redrive.failures.service import Failures
from redrive.identity.members import Members
from redrive.identity.passwords import Passwords
from redrive.parts import parts_of, rewire

HOME, OTHER = "default", "acme"
ROLES = ("VIEWER", "STAFF", "ADMIN", "OWNER")
SCOPES = ["plan", "note"]
QUEUE = "dlq:shared"
PASSWORD = "a horse, a horse, my kingdom"
FAR = 86_400.0

_numbers = itertools.count(1)


class AuthenticatedCaller(NamedTuple):
    """A caller: a key or a session, and its role. `scoped`: a key that is limited to SCOPES."""

    kind: str
    role: str
    headers: dict[str, str]
    scoped: bool = False
    session: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.role}{' scoped' if self.scoped else ''}".strip()


NOBODY = AuthenticatedCaller("nobody", "", {})


def canary_of(org: str) -> str:
    return f"canary-of-{org}"


def stream_of(org: str) -> str:
    """The stream of an organization, whose only projector does nothing."""
    return f"stream-of-{org}"


class Org:
    def __init__(self, house: House, name: str) -> None:
        self.house = house
        self.name = name
        self.canary = canary_of(name)
        self.kept: dict[str, str] = {}
        self.visitors: list[AuthenticatedCaller] = []
        self._stock: list[str] = []
        self._events: list[str] = []
        self._shared_group = ""
        self._makers: dict[str, Callable[[], Awaitable[str]]] = {
            "open letter": self._open_letter,
            "closed letter": self._closed_letter,
            "awaited letter": self._awaited_letter,
            "waiting letter": self._waiting_letter,
            "replay": self._replay,
            "planned operation": self._planned,
            "running operation": self._running,
            "paused operation": self._paused,
            "group": self._group,
            "closed group": self._closed_group,
            "pending run": self._pending_run,
            "failed run": self._failed_run,
            "member": self._member,
            "disabled member": self._disabled_member,
            "key": self._key,
            "session": self._session,
            "link": self._link,
            "clearable queue": self._clearable,
            "saved view": self._saved_view,
            "event": self._event,
            "active stream": self._active_stream,
            "paused stream": self._paused_stream,
            "rebuildable stream": self._rebuildable_stream,
            "running rebuild": self._running_rebuild,
            "paused rebuild": self._paused_rebuild,
        }

    async def furnish(self, letters: int) -> None:
        own = await self.house.dead_letter({"card": self.canary}, self.name, f"stumble_{self.name}")
        await self._fill(letters)
        for kind, make in self._makers.items():
            self.kept[kind] = await make()
        letter = await (await self.failures()).view(own)
        self.kept |= {"group": letter.fingerprint, "closed group": letter.fingerprint}
        self.kept |= {"letter": own, "run": letter.run_id, "operation": await self._running()}
        self.kept |= {"organization": self.name, "queue": "default", "breaker": "bank"}
        await self._furnish_more()
        await self._invite()

    async def fresh(self, kind: str) -> str:
        """Create a row to use up and return its id; for kinds that requests only read, the kept row."""
        make = self._makers.get(kind)
        return self.kept[kind] if make is None else await make()

    @property
    def letters_left(self) -> int:
        return len(self._stock)

    async def restock(self, letters: int) -> None:
        """Create more dead letters. A worker runs, which also does the other work that is due."""
        await self.house.app.queues().resume("default")
        await self._fill(letters)

    async def failures(self) -> Failures:
        return self.house.app.failures(org=self.name, by=self.canary)

    def members(self) -> Members:
        return self.house.app.members(org=self.name, by=self.canary)

    async def guest(self, role: str) -> AuthenticatedCaller:
        """Add a member with a session that their own requests may end."""
        name = await self._new_member(role)
        self.kept["guest's session"] = (await self._signed_in(name, role)).session
        return await self._signed_in(name, role)

    async def _fill(self, letters: int) -> None:
        payloads = [{"card": self.canary, "number": number} for number in range(letters)]
        events = [
            Event(type="a", payload=payload, dedupe_key=f"{self.canary} {next(_numbers)}")
            for payload in payloads
        ]
        recorded = await self.house.app.events(org=self.name).record(stream_of(self.name), events)
        self._events = [event.id for event in recorded]
        runs = await self.house.app.start_many("stumble", payloads, org=self.name, tags=[self.canary])
        await self.house.work()
        lines = [await each.dead_letter() for each in runs]
        self._stock = [line.id for line in lines if line is not None]
        self._shared_group = (await (await self.failures()).view(self._stock[0])).fingerprint

    async def _furnish_more(self) -> None:
        failures, members = await self.failures(), self.members()
        await failures.note(self.kept["letter"], f"a note, {self.canary}")
        await failures.assign(self.kept["letter"], self.canary)
        name = f"{self.canary}-with-a-password"
        await members.add(name, "STAFF")
        await members.accounts.set_password(name, PASSWORD)
        self.kept["name"] = name
        self.kept["head"] = str(await failures.audit.head())
        payload = {"card": self.canary}
        await self.house.app.start("greet", payload, org=self.name, key="the same everywhere", delay=FAR)

    async def _invite(self) -> None:
        for role in ROLES:
            self.visitors.append(await self._keyed(role))
            self.visitors.append(await self._signed_in(await self._new_member(role), role))
        self.visitors.append(await self._keyed("OWNER", SCOPES))

    async def _keyed(self, role: str, scopes: list[str] | None = None) -> AuthenticatedCaller:
        key = await self.house.key(role, self.name, f"{self.canary} {next(_numbers)}", scopes)
        return AuthenticatedCaller("key", role, {"authorization": f"Bearer {key}"}, scopes is not None)

    async def _signed_in(self, name: str, role: str) -> AuthenticatedCaller:
        link = await self.members().accounts.link(name)
        sessions = self.house.app.members().sessions
        new = await sessions.redeem(link.token, org=self.name)
        assert new is not None
        headers = {"cookie": f"redrive_session={new.token}", "x-csrf-token": new.signed_in.csrf, **ORIGIN}
        return AuthenticatedCaller("session", role, headers, session=new.signed_in.session.id)

    async def _new_member(self, role: str = "STAFF") -> str:
        name = f"{self.canary}-{next(_numbers)}"
        await self.members().add(name, role)
        return name

    # One of each kind

    async def _open_letter(self) -> str:
        return self._stock.pop()

    async def _closed_letter(self) -> str:
        letter = self._stock.pop()
        await (await self.failures()).resolve(letter, f"done, {self.canary}")
        return letter

    async def _awaited_letter(self) -> str:
        return self.kept.get("awaited letter") or self._stock.pop()

    async def _waiting_letter(self) -> str:
        letter = self._stock.pop()
        await (await self.failures()).link(letter, self.kept["awaited letter"])
        return letter

    async def _saved_view(self) -> str:
        views = (await self.failures()).views
        return (await views.create(f"{self.canary} {next(_numbers)}", "runs")).id

    async def _event(self) -> str:
        return self._events.pop()

    async def _active_stream(self) -> str:
        name = stream_of(self.name)
        await self.house.app.streams(org=self.name).resume(name)
        return name

    async def _paused_stream(self) -> str:
        name = stream_of(self.name)
        await self.house.app.streams(org=self.name).pause(name)
        return name

    async def _rebuildable_stream(self) -> str:
        """A projector has one unfinished rebuild at a time."""
        rebuilds = self.house.app.events(org=self.name).rebuilds
        for rebuild in (await rebuilds.list(size=5)).rebuilds:
            if rebuild.state in ("RUNNING", "PAUSED", "STOPPED"):
                await rebuilds.cancel(rebuild.id)
        return stream_of(self.name)

    async def _running_rebuild(self) -> str:
        stream, rebuilds = await self._rebuildable_stream(), self.house.app.events(org=self.name).rebuilds
        return (await rebuilds.start("project", stream=stream, reason=self.canary)).id

    async def _paused_rebuild(self) -> str:
        rebuild = await self._running_rebuild()
        await self.house.app.events(org=self.name).rebuilds.pause(rebuild)
        return rebuild

    async def _replay(self) -> str:
        return (await (await self.failures()).replay(self._stock.pop(), reason=self.canary)).id

    async def _planned(self) -> str:
        plan = await (await self.failures()).plans.create(ids=[self._stock.pop()], reason=self.canary)
        return plan.operation_id

    async def _running(self) -> str:
        operation = await self._planned()
        await (await self.failures()).plans.start(operation)
        return operation

    async def _paused(self) -> str:
        operation = await self._running()
        await (await self.failures()).plans.pause(operation, self.canary)
        return operation

    async def _group(self) -> str:
        """Return an open group of a failure that both organizations have."""
        groups = (await self.failures()).groups
        if (await groups.view(self._shared_group)).group.state != "OPEN":
            await groups.reopen(self._shared_group, self.canary)
        return self._shared_group

    async def _closed_group(self) -> str:
        group = await self._group()
        await (await self.failures()).groups.acknowledge(group, self.canary)
        return group

    async def _pending_run(self) -> str:
        return (await self.house.app.start("greet", self.canary, org=self.name, delay=FAR)).id

    async def _failed_run(self) -> str:
        return (await (await self.failures()).view(self._stock.pop())).run_id

    async def _member(self) -> str:
        return (await self.members().view(await self._new_member())).user_id

    async def _disabled_member(self) -> str:
        member = await self._member()
        await self.members().accounts.disable(member)
        return member

    async def _key(self) -> str:
        made = await self.members().keys.create(f"{self.canary} {next(_numbers)}", "STAFF")
        return made.key.id

    async def _session(self) -> str:
        """Return the id of the guest's session."""
        return self.kept.get("guest's session") or (await self.guest("STAFF")).session

    async def _link(self) -> str:
        return (await self.members().accounts.link(await self._new_member())).token

    async def _clearable(self) -> str:
        """Create a stand-alone queue with one dead letter. Both organizations have a queue of this name."""
        app, name = self.house.app, QUEUE.removeprefix("dlq:")
        queue = DeadLetterQueue("sqlite://:memory:", lambda task: None, name=name, org=self.name, log=False)
        rewire(queue.app, parts_of(app).database, parts_of(app).clock, parts_of(app).random)
        if await queue.size() == 0:
            await queue.enqueue("a task", {"card": self.canary}, error=self.canary)
        return QUEUE


class TwoOrgs:
    def __init__(self, house: House) -> None:
        self.house = house
        self.orgs = {name: Org(house, name) for name in (HOME, OTHER)}
        self.unknown = {
            "group": "f" * 64,
            "organization": "nowhere",
            "queue": "nowhere",
            "breaker": "nowhere",
        }
        self.unknown_id = parts_of(house.app).ids.new()

    def other(self, org: str) -> Org:
        return self.orgs[OTHER if org == HOME else HOME]


async def two_orgs(house: House, letters: int = 40) -> TwoOrgs:
    """Create two organizations with this many letters to use up."""
    parts_of(house.app).declared.passwords = Passwords(
        PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    )
    _register(house)
    await house.organization(OTHER)
    world = TwoOrgs(house)
    for org in world.orgs.values():
        await org.furnish(letters)
    fingerprint = world.orgs[HOME].kept["group"]
    world.unknown["group"] = "f" * len(fingerprint)
    return world


def _register(house: House) -> None:
    """Register tasks: `stumble` fails identically everywhere, `stumble_…` differently per organization."""
    app = house.app
    app.breaker("bank")

    async def stumble(order: Any) -> None:
        raise FinalError("the card was declined")

    async def stumble_default(order: Any) -> None:
        raise FinalError(f"the card {canary_of(HOME)} was declined")

    async def stumble_acme(order: Any) -> None:
        raise FinalError(f"the card {canary_of(OTHER)} was declined")

    for each in (stumble, stumble_default, stumble_acme):
        app.task(each)

    async def project(event: Event) -> None:
        pass

    for org in (HOME, OTHER):
        app.stream(stream_of(org), "redis://localhost:1", org=org).projector("project")(project)
