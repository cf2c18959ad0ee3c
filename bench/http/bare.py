"""The limit: FastAPI and the database's driver, and nothing in between.

No credentials, no limits, no check except that the body is a JSON object, no idempotency, no row-level
security, and no validation of responses, which msgspec encodes.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import msgspec
import uvicorn
import uvloop
from bench.http import bare_postgresql, bare_sqlite
from bench.http.case import LETTERS, RUNS, SESSION
from bench.http.statements import LETTER, LETTER_FIELDS, LINE_FIELDS, ORG, PAGE, new_run, pages
from bench.work.servers import HOST
from fastapi import FastAPI, Request
from starlette.responses import Response

from redrive.server.serve import BACKLOG, KEEP_ALIVE

_encode = msgspec.json.Encoder().encode


def application(url: str) -> FastAPI:
    tables = bare_sqlite.Tables(url) if url.startswith("sqlite") else bare_postgresql.Tables(url)
    known = asyncio.run(pages())

    @asynccontextmanager
    async def living(_api: FastAPI) -> AsyncIterator[None]:
        await tables.open()
        yield

    api = FastAPI(lifespan=living)

    @api.post(RUNS)
    async def start(body: dict[str, Any]) -> Response:
        run_id = uuid4().hex
        await tables.insert(new_run(run_id, json.dumps(body["payload"])))
        return _answer({"id": run_id}, 202)

    @api.get(LETTERS)
    async def list_(q: str = "", size: int = PAGE) -> Response:
        rows = await tables.fetch(*known[q])
        return _answer({"items": [_named(LINE_FIELDS, row) for row in rows[:size]]})

    @api.get(f"{LETTERS}/{{letter_id}}")
    async def get(letter_id: str) -> Response:
        [row] = await tables.fetch(LETTER, {"id": letter_id, "org": ORG})
        return _answer(_named(LETTER_FIELDS, row))

    @api.get(SESSION)
    async def who(request: Request) -> Response:
        allowed = "authorization" in request.headers
        return _answer({"name": "anybody"}) if allowed else _answer({"title": "who are you?"}, 401)

    return api


def _answer(value: Any, status: int = 200) -> Response:
    return Response(_encode(value), status, media_type="application/json")


def _named(fields: Sequence[str], row: Any) -> dict[str, Any]:
    return dict(zip(fields, row, strict=True))


class _Server(uvicorn.Server):
    async def startup(self, sockets: list[Any] | None = None) -> None:
        await super().startup(sockets=sockets)
        print(f"the bare one is at http://{HOST}:{self.servers[0].sockets[0].getsockname()[1]}", flush=True)


def main(url: str) -> None:
    config = uvicorn.Config(
        application(url),
        host=HOST,
        port=0,
        http="httptools",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE,
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_Server(config).serve())


if __name__ == "__main__":
    main(sys.argv[1])
