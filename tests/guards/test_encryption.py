"""A replacement of an encrypted value is encrypted too, and key rotation changes nothing else."""

from __future__ import annotations

import pytest
from tests.engine.workbench import bench, sql
from tests.store.build import ask, column, enqueued

from redrive.app import Redrive
from redrive.engine.encryption import Encryption
from redrive.errors import FinalError
from redrive.settings import Settings, new_encryption_key
from redrive.store.database import Database
from redrive.store.payloads import NewRunPayloads, Payloads
from redrive.store.store import Store


async def test_an_edited_payload_is_encrypted_like_the_payload_it_replaces() -> None:
    """M11, I9."""
    key, seen = new_encryption_key(), []
    app = Redrive("sqlite://:memory:", settings=Settings(encryption_keys=(key,)), log=False)

    @app.task(max_attempts=1)
    async def pay(account: str) -> None:
        seen.append(account)
        if account == "wrong":
            raise FinalError("no such account")

    async with bench(app) as test:
        run = await app.start(pay, "wrong")
        await test.drain()
        letter = await run.dead_letter()
        assert letter is not None
        await app.failures().replay(letter.id, payload="right", reason="a slip of the pen")
        [[stored]] = await sql(app, "SELECT step_input FROM runs")
        await test.drain()

    assert seen == ["wrong", "right"]
    assert Encryption([key]).is_sealed(stored)


PAYLOADS = {
    "ready": ("input", "metadata", "step_input"),
    "waiting": ("input", "metadata", "step_input"),
    "leased": ("input", "metadata", "step_input"),
    "ended": ("input", "metadata", "step_input", "result"),
}


@pytest.mark.parametrize(
    ("place", "name"), [(place, name) for place, names in PAYLOADS.items() for name in names]
)
async def test_rotation_keeps_values_replaced_in_the_meantime(
    database: Database, place: str, name: str
) -> None:
    [run_id] = await enqueued(Store(database))
    ended = ", ended_at = 1.0, result = 'old'" if place == "ended" else ""
    old = f"place = :place, input = 'old', metadata = 'old', step_input = 'old'{ended}"
    await ask(database, f"UPDATE redrive.runs SET {old}", place=place)
    await ask(database, f"UPDATE redrive.runs SET {name} = 'replaced'")

    rewritten = NewRunPayloads(run_id, *["old"] * 4, *["new"] * 4)
    await Payloads(database).rewrite_runs([rewritten])

    expected = ["replaced" if each == name else "new" for each in PAYLOADS[place]]
    assert list(await column(database, run_id, *PAYLOADS[place])) == expected
