"""The API as an ASGI application: its routes, and what surrounds them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from fastapi import FastAPI

from redrive.app import Redrive
from redrive.server.admin import PAGES
from redrive.server.api import NOUNS
from redrive.server.banner import Banner
from redrive.server.body_limits import BodyLimits
from redrive.server.metrics import count_store_failures
from redrive.server.response_middleware import ResponseMiddleware, told
from redrive.server.route import build_api
from redrive.server.site import Site


def create_app(redrive: Redrive, *, banner: Banner | None = None) -> FastAPI:
    """Build the API and the admin pages as an ASGI application. `redrive.server.serve` runs it on uvicorn."""
    site = Site(redrive, banner=banner)
    extension = () if banner is None else (banner.routes,)
    api = build_api(site, (*NOUNS, *PAGES, *extension), told, lambda _: _living(site))
    count_store_failures(api)
    api.add_middleware(BodyLimits, most=redrive.settings.server_body_bytes)
    api.add_middleware(ResponseMiddleware, site=site)
    return api


@asynccontextmanager
async def _living(site: Site) -> AsyncIterator[None]:
    app = site.app
    await app.open()
    await app.enable_row_level_security()
    try:
        async with _working(app):
            yield
    finally:
        site.closing.set()
        await app.close()


@asynccontextmanager
async def _working(app: Redrive) -> AsyncIterator[None]:
    """An embedded worker beside the server, where the settings ask for one."""
    if not app.settings.server_worker:
        yield
        return
    worker = app.worker()
    running = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        worker.stop()
        with suppress(asyncio.CancelledError):
            await running
