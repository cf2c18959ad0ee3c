"""Direct SQL on the database of the settings, for changes that no command makes."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.store.build import ask

from redrive.app import Redrive
from redrive.parts import parts_of


def by_hand(text: str, **parameters: Any) -> list[tuple[Any, ...]]:
    async def asked() -> list[tuple[Any, ...]]:
        app = Redrive(log=False)
        try:
            return await ask(parts_of(app).database, text, **parameters)
        finally:
            await app.close()

    return asyncio.run(asked())
