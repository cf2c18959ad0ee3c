"""Actions of people in the scene, in hours before the end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from tests.browser.scene.time import HOUR
from tests.browser.site import add_people

from redrive.app import Redrive
from redrive.failures.service import Failures
from redrive.model.failure_group import FailureGroup

MAYA, JON, LIN, SAM = "maya@acme.example", "jon@acme.example", "lin@acme.example", "sam@acme.example"
MEMBERS = {MAYA: "OWNER", JON: "ADMIN", LIN: "STAFF", SAM: "VIEWER", "former@acme.example": "STAFF"}


class NothingToDoError(Exception):
    """The scene is too small: the problem that a person handles has not occurred."""


Deed = Callable[[], Awaitable[object]]


class People:
    def __init__(self, app: Redrive) -> None:
        self._app = app
        self.deeds: list[tuple[float, Deed]] = sorted(
            [
                (71.9, self._move_in),
                (60.5, self._replay_search),
                (58.0, self._keys),
                (57.0, self._save_views),
                (51.5, self._force_mailer),
                (50.6, self._leave_mailer),
                (59.0, self._resolve_search),
                (41.0, self._ignore_conflicts),
                (39.5, self._resolve_names),
                (30.0, self._acknowledge_prices),
                (27.5, self._replay_prices),
                (24.4, self._replay_bucket),
                (26.5, self._resolve_prices),
                (23.9, self._resolve_bucket),
                (20.5, self._look_after_bank),
                (18.0, self._close_some),
                (11.0, self._ignore_gone),
                (7.5, self._replay_reports),
                (5.2, self._replay_addresses),
                (4.8, self._look_after_addresses),
                (2.2, self._replay_one),
                (1.8, self._look_after_languages),
                (1.2, self._cancel_some),
                (0.8, self._pause),
                (0.5, self._plan),
                (0.25, self._replay_timeouts),
            ],
            key=lambda each: -each[0],
        )

    # Schedule

    async def _move_in(self) -> None:
        members = self._app.members(by=MAYA)
        for name, role in MEMBERS.items():
            await members.add(name, role)
        await add_people(self._app)
        await members.organizations.create("acme-labs", "Acme Labs")

    async def _keys(self) -> None:
        members = self._app.members(by=MAYA)
        await members.keys.create("shop backend", "ADMIN", scopes=["read", "start"])
        await members.keys.create("grafana", "VIEWER")
        await members.keys.create("on-call script", "ADMIN", expires_in=20 * 24 * HOUR)
        old = await members.keys.create("migration 2025", "OWNER")
        await members.keys.revoke(old.key.id)
        await members.change("former@acme.example", active=False)

    async def _save_views(self) -> None:
        views = (await self._desk(JON)).views
        await views.create("Payments that need us", "dlq", "is:open queue:payments")
        await views.create("Mine", "dlq", "is:open assignee:me", view="flat")
        await views.create("Held by a breaker", "runs", "is:held")

    # Replaying

    async def _replay_search(self) -> None:
        await self._replay(MAYA, "Search is back", group=await self._group("index_products"))

    async def _replay_prices(self) -> None:
        await self._replay(
            JON, "Prices with commas are read since 14:20", group=await self._group("convert string")
        )

    async def _replay_bucket(self) -> None:
        await self._replay(JON, "New credentials", group=await self._group("credentials"), canary=3)

    async def _replay_reports(self) -> None:
        reason = "Reports without rows work since 2026.11.3"
        await self._replay(LIN, reason, group=await self._group("division"), canary=3, failure_rate=0.6)

    async def _replay_addresses(self) -> None:
        reason = "Deployed what should help with addresses"
        group = await self._group("create_shipment", "KeyError")
        await self._replay(JON, reason, group=group, canary=5, same_failures=4, exclude_unsafe=False)

    async def _replay_timeouts(self) -> None:
        reason, query = "The analytics database answers again", "category:timeout is:open workflow:report"
        number = (await (await self._desk(MAYA)).count(query)).number
        rate = max(0.001, 0.6 * number / (0.25 * HOUR))  # so that it is well in progress at the end
        await self._replay(
            MAYA, reason, query=query, canary=3, rate=rate, failure_rate=0.9, same_failures=None
        )

    async def _plan(self) -> None:
        await (await self._desk(LIN)).plans.create(query="is:open workflow:catalog.import")

    async def _replay_one(self) -> None:
        failures = await self._desk(JON)
        for letter in await self._letters(failures, "is:open step:upload_report", 2):
            await failures.replay(letter, reason="Tried by hand")

    async def _replay(self, by: str, reason: str, **request: Any) -> None:
        operations = (await self._desk(by)).plans
        plan = await operations.create(**{"reason": reason, "exclude_unsafe": True, **request})
        await operations.start(plan.operation_id)

    # Triage

    async def _resolve_search(self) -> None:
        await self._resolve("The service is temporarily unavailable", "Search had run out of disk")

    async def _resolve_prices(self) -> None:
        await self._resolve("convert string", "Prices are read in every format since 14:20")

    async def _resolve_bucket(self) -> None:
        await self._resolve("credentials", "The role is renewed automatically now")

    async def _resolve(self, text: str, reason: str) -> None:
        failures = await self._desk(MAYA)
        await failures.groups.resolve(await self._group(text), reason, letters=True)

    async def _resolve_names(self) -> None:
        failures = await self._desk(JON)
        reason = "Fixed in 2026.11.2: names are not split any more"
        await failures.groups.resolve(await self._group("unpack"), reason, letters=True)

    async def _ignore_conflicts(self) -> None:
        failures = await self._desk(LIN)
        reason = "The warehouse team knows; only tell us if it grows"
        await failures.groups.ignore(await self._group("changed by somebody"), reason, beyond=200)

    async def _acknowledge_prices(self) -> None:
        failures = await self._desk(JON)
        await failures.groups.acknowledge(
            await self._group("convert string"), "Supplier has changed the format of prices"
        )

    async def _look_after_bank(self) -> None:
        failures = await self._desk(LIN)
        letters = await self._letters(failures, "is:open workflow:payout.transfer", 20)
        await failures.assign(letters, JON)
        await failures.tag(letters, add=["bank", "ask-finance"])
        await failures.note(letters[0], "Finance checks with the bank whether any of these was booked.")

    async def _close_some(self) -> None:
        failures = await self._desk(JON)
        declined = await self._letters(failures, "is:open category:provider_4xx workflow:checkout", 12, 3)
        await failures.resolve(declined[::3], "Customers were asked for another card")
        await failures.ignore(declined[1::3], "Test orders")
        await failures.archive(declined[2::3], "Customers have cancelled")

    async def _ignore_gone(self) -> None:
        failures = await self._desk(LIN)
        reason = "These merchants have left"
        await failures.groups.ignore(await self._group("endpoint is gone"), reason, until=14 * 24 * HOUR)

    async def _look_after_addresses(self) -> None:
        failures = await self._desk(JON)
        letters = await self._letters(failures, "is:open step:create_shipment category:unknown", 8)
        await failures.assign(letters, LIN)
        await failures.tag(letters, add=["addresses"])
        note = "Addresses from the new form have no postal code. A migration fills it in; then replay."
        await failures.note(letters[0], note)
        group = await self._group("create_shipment", "KeyError")
        await failures.groups.acknowledge(group, "ACME-2291: addresses of the new form")

    async def _look_after_languages(self) -> None:
        failures = await self._desk(LIN)
        await failures.groups.acknowledge(
            await self._group("prompt is configured"), "Prompts are being written"
        )

    # Operating

    async def _force_mailer(self) -> None:
        reason = "The provider asks us to wait until they have moved"
        await self._app.breakers(by=MAYA).force("mailer", "OPEN", reason=reason, seconds=2 * HOUR)

    async def _leave_mailer(self) -> None:
        await self._app.breakers(by=MAYA).release("mailer")

    async def _cancel_some(self) -> None:
        runs = self._app.runs(by=JON)
        for run in (await runs.list("is:retrying", size=3)).runs:
            await runs.cancel(run.id, reason="The customer has cancelled")

    async def _pause(self) -> None:
        await self._app.queues(by=JON).pause(
            "assistant", reason="The bill of the model provider is checked first"
        )

    # Lookups

    async def _desk(self, by: str) -> Failures:
        return self._app.failures(by=by)

    async def _group(self, *texts: str) -> str:
        for group in await self._groups(*texts):
            return group.fingerprint
        raise NothingToDoError(" ".join(texts))

    async def _groups(self, *texts: str) -> list[FailureGroup]:
        """Return the groups that contain all of these texts, the largest first."""
        failures = await self._desk(MAYA)
        found = [line.group for line in (await failures.groups.list(sort="occurrences", size=500)).lines]
        return [group for group in found if all(text in _described(group) for text in texts)]

    async def _letters(self, failures: Failures, query: str, most: int, least: int = 1) -> list[str]:
        lines = (await failures.list(query, size=most)).lines
        if len(lines) < least:
            raise NothingToDoError(query)
        return [line.id for line in lines]


def _described(group: FailureGroup) -> str:
    return f"{group.title} {group.error_type} {group.workflow} {group.step}"
