"""What takes the place of something encrypted is encrypted, too."""

from __future__ import annotations

from tests.engine.workbench import bench, sql

from redrive.app import Redrive
from redrive.engine.encryption import Encryption
from redrive.errors import FinalError
from redrive.settings import Settings, new_encryption_key


async def test_an_edited_payload_is_sealed_like_the_one_that_it_replaces() -> None:
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
