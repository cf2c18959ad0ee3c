"""Redrive's server with its defaults. Only its rate limits are raised: one key sends all requests."""

from __future__ import annotations

import sys
from typing import Any

from bench.http.case import WORK

from redrive import Redrive
from redrive.server.serve import run
from redrive.settings import Settings


async def _nothing(payload: dict[str, Any]) -> None:
    pass


def main(url: str) -> None:
    settings = Settings(database_url=url, server_port=0, server_key_rate=100_000, server_org_rate=1_000_000)
    app = Redrive(settings=settings)
    app.task(name=WORK)(_nothing)
    run(app, announce=lambda text: print(text, flush=True))


if __name__ == "__main__":
    main(sys.argv[1])
