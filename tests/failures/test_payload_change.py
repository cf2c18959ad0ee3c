"""Repairing the payload of a dead letter: a redacted view never replaces the hidden values."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.engine.workbench import bench, sql

from redrive import FinalError
from redrive.app import Redrive
from redrive.errors import InvalidValueError, ReplayRefusedError
from redrive.model.dead_letter import DeadLetter
from redrive.parts import parts_of
from redrive.policy.codec import decode
from redrive.settings import Settings, new_encryption_key
from redrive.verify import verify

CARD = "4111111111111111"
ORDER = {"country": "", "card": CARD, "items": [{"sku": "A", "password": "hunter2-hunter2"}]}


class Gateway:
    """A workflow whose second step rejects an order without a country."""

    def __init__(self, app: Redrive) -> None:
        self.app = app
        self.charged: list[Any] = []
        gateway = self

        @app.task
        async def reserve(order: dict[str, Any]) -> dict[str, Any]:
            return {**order, "shelf": 7}

        @app.task(max_attempts=1)
        async def charge(order: dict[str, Any]) -> str:
            gateway.charged.append(order)
            if not order["country"]:
                raise FinalError("no country")
            return "paid"

        self.checkout = app.workflow("checkout", [reserve, charge])

    async def letter(self, order: Any = ORDER) -> DeadLetter:
        run = await self.app.start(self.checkout, order)
        await run.wait()
        letter = await run.dead_letter()
        assert letter is not None
        self.charged.clear()
        return letter

    async def replayed(self, letter: DeadLetter, **change: Any) -> Any:
        await self.app.failures(by="ana").replay(letter.id, reason="repaired", **change)
        await self.app.run(letter.run_id).wait()
        return self.charged[-1]


@pytest.fixture(params=["plain", "encrypted"])
async def gateway(request: pytest.FixtureRequest) -> AsyncIterator[Gateway]:
    keys = (new_encryption_key(),) if request.param == "encrypted" else None
    app = Redrive("sqlite://:memory:", settings=Settings(encryption_keys=keys), log=False)
    async with bench(app):
        yield Gateway(app)
        assert (await verify(parts_of(app).database)).sound
        assert (await app.failures().audit.verify()).sound


async def test_the_payload_that_was_shown_is_repaired_and_its_secrets_are_kept(gateway: Gateway) -> None:
    letter = await gateway.letter()
    assert letter.payload["card"] == "[redacted:card]"
    charged = await gateway.replayed(letter, payload={**letter.payload, "country": "DE"})
    assert charged == {**ORDER, "country": "DE", "shelf": 7}


async def test_a_mark_in_another_place_is_rejected_and_nothing_changes(gateway: Gateway) -> None:
    letter = await gateway.letter()
    moved = {"country": "DE", "pan": letter.payload["card"], "items": []}
    changes: tuple[dict[str, Any], ...] = (
        {"payload": moved},
        {"set_fields": {"pan": letter.payload["card"]}},
    )
    for change in changes:
        with pytest.raises(InvalidValueError, match="at pan"):
            await gateway.app.failures().replay(letter.id, reason="repaired", **change)
    assert (await gateway.app.failures().view(letter.id)).state == "OPEN"
    assert await gateway.app.failures().replays.list(letter.id) == []
    assert gateway.charged == []


async def test_single_fields_are_changed_without_reading_the_payload(gateway: Gateway) -> None:
    letter = await gateway.letter()
    charged = await gateway.replayed(
        letter, set_fields={"country": "DE", "items[0].sku": "B"}, remove_fields=["shelf"]
    )
    assert charged == {"country": "DE", "card": CARD, "items": [{"sku": "B", "password": "hunter2-hunter2"}]}
    [replay] = await gateway.app.failures().replays.list(letter.id)
    assert replay.edit == [
        {"path": "country", "before": "", "after": "DE"},
        {"path": "items[0].sku", "before": "A", "after": "B"},
        {"path": "shelf", "before": 7, "after": "(nothing)"},
    ]


async def test_the_change_applies_to_the_input_of_the_earlier_step(gateway: Gateway) -> None:
    letter = await gateway.letter()
    charged = await gateway.replayed(letter, from_step="reserve", set_fields={"country": "DE"})
    assert charged == {**ORDER, "country": "DE", "shelf": 7}
    with pytest.raises(ReplayRefusedError):
        await gateway.app.failures().replay(letter.id, set_fields={"country": "AT"}, reason="again")


async def test_a_second_repair_starts_from_the_first(gateway: Gateway) -> None:
    letter = await gateway.letter()
    await gateway.replayed(letter, set_fields={"items[0].password": "new-password-1"})
    again = await gateway.app.failures().view(letter.id)
    assert again.state == "OPEN"
    charged = await gateway.replayed(again, payload={**letter.payload, "country": "DE"})
    assert charged["items"][0]["password"] == "new-password-1"


async def test_one_way_to_change_it_at_a_time_and_never_without_a_reason(gateway: Gateway) -> None:
    letter = await gateway.letter()
    failures = gateway.app.failures()
    with pytest.raises(InvalidValueError, match="not both"):
        await failures.replay(letter.id, payload={}, set_fields={"country": "DE"}, reason="r")
    for change in ({"set_fields": {"country": "DE"}}, {"remove_fields": ["card"]}):
        with pytest.raises(InvalidValueError, match="reason"):
            await failures.replay(letter.id, **change)
    with pytest.raises(InvalidValueError, match=r"remove_fields"):
        await failures.replay(letter.id, remove_fields="card", reason="r")
    with pytest.raises(InvalidValueError, match=r"at most 100"):
        await failures.replay(letter.id, remove_fields=[f"f{n}" for n in range(101)], reason="r")


async def test_the_audit_names_the_changed_fields_without_values(gateway: Gateway) -> None:
    letter = await gateway.letter()
    await gateway.replayed(letter, set_fields={"country": "DE", "card": "5555555555554444"})
    entries = await gateway.app.failures().audit.about(letter.id, letter.created_at)
    [asked] = [entry for entry in entries if entry.action == "replay.requested"]
    assert asked.detail["changed_fields"] == ["country", "card"]
    for secret in ("DE", "4444", "1111"):
        assert secret not in str(asked.detail)


async def test_a_preview_shows_what_a_replay_would_do_and_starts_nothing(gateway: Gateway) -> None:
    letter = await gateway.letter()
    failures = gateway.app.failures()
    preview = await failures.replays.preview(
        letter.id, from_step="reserve", payload={**ORDER, "country": "DE", "card": "5555555555554444"}
    )
    assert [(step.number, step.name) for step in preview.steps] == [(1, "reserve"), (2, "charge")]
    assert preview.changes == [
        {"path": "country", "before": "", "after": "DE"},
        {"path": "card", "before": "(changed, not shown)", "after": "(changed, not shown)"},
    ]
    alone = await failures.replays.preview(letter.id, "STEP_ONLY")
    assert ([step.name for step in alone.steps], alone.changes, alone.reused) == (["charge"], [], 1)
    with pytest.raises(InvalidValueError, match="at pan"):
        await failures.replays.preview(letter.id, set_fields={"pan": "[redacted:card]"})
    assert await failures.replays.list(letter.id) == []
    [row] = await sql(gateway.app, "SELECT count(*) FROM replays")
    assert row[0] == 0


async def test_the_input_of_a_step_is_read_redacted(gateway: Gateway) -> None:
    letter = await gateway.letter()
    replays = gateway.app.failures().replays
    assert await replays.input(letter.id) == letter.payload
    first = await replays.input(letter.id, 0)
    assert first == {
        **ORDER,
        "card": "[redacted:card]",
        "items": [{"sku": "A", "password": "[redacted:password]"}],
    }
    assert CARD not in str(first)


async def test_an_archived_letter_is_not_replayed_with_any_payload(gateway: Gateway) -> None:
    letter = await gateway.letter()
    failures = gateway.app.failures()
    await failures.archive(letter.id, "done")
    for change in ({"payload": letter.payload}, {"set_fields": {"country": "DE"}}):
        with pytest.raises(ReplayRefusedError, match="reopen"):
            await failures.replay(letter.id, reason="r", **change)


async def test_the_stored_payload_stays_encrypted(gateway: Gateway) -> None:
    letter = await gateway.letter()
    await gateway.replayed(letter, set_fields={"items[0].sku": "B"})
    [[stored]] = await sql(gateway.app, "SELECT step_input FROM runs")
    encrypted = parts_of(gateway.app).encryption.newest is not None
    assert (CARD in stored) is not encrypted
    assert CARD in str(decode(parts_of(gateway.app).encryption.decrypt(stored)))
