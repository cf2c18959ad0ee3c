"""With a key, payloads of events are encrypted wherever they are stored, and follow a rotation (I9)."""

from __future__ import annotations

from tests.events.conftest import Site
from tests.events.test_recording import Seen, score, work_off
from tests.store.build import tables

from redrive import Redrive
from redrive.engine.encryption import KeyRotation
from redrive.model.caller import Caller
from redrive.parts import parts_of
from redrive.settings import new_encryption_key

CANARY = "canary-7f3a"


async def stored(app: Redrive) -> str:
    return str(await tables(parts_of(app).database))


async def test_a_payload_is_stored_encrypted_and_read_after_a_rotation_i9(site: Site) -> None:
    old, new = new_encryption_key(), new_encryption_key()
    seen = Seen(site.app(encryption_keys=old))
    [recorded] = await seen.app.events().record("scores", [score(1, payload={"note": CANARY})])
    assert CANARY not in await stored(seen.app)

    parts = parts_of(site.app(encryption_keys=f"{new},{old}"))
    rotated = await KeyRotation(parts.store, parts.encryption, Caller("default", "ana")).run()
    assert rotated.rewritten >= 1
    later = Seen(site.app(encryption_keys=new))
    view = await later.app.events().get(recorded.id)
    await work_off(later.app)

    assert view.event.payload == {"note": CANARY}
    assert [event.payload for _, event in later.events] == [{"note": CANARY}] * 2
    assert CANARY not in await stored(later.app)
