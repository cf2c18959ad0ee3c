"""The environment of a campaign: a separate database with its surroundings, and the external systems."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from tests.crash.disk import Disk, small_disk
from tests.crash.process_starter import ProcessStarter
from tests.crash.proxy import Proxy
from tests.crash.sink import Sink
from tests.servers import MortalPostgres, mortal_postgresql

from redrive.app import Redrive
from redrive.settings import Settings

SCHEMA = "redrive"


@dataclass(frozen=True, kw_only=True)
class Ground:
    """A database. `url` is its address, `worker_url` the address that processes use."""

    url: str
    worker_url: str
    server: MortalPostgres | None = None
    proxy: Proxy | None = None
    disk: Disk | None = None


@dataclass(frozen=True, kw_only=True)
class Site(Ground):
    database: str
    folder: Path
    sink: Sink
    starter: ProcessStarter
    app: Redrive


@asynccontextmanager
async def site(database: str, *, small: bool = False) -> AsyncIterator[Site]:
    """Set up a site. `small`: its disk can be filled."""
    async with AsyncExitStack() as stack:
        # Not pytest's tmp_path: the name of a socket must be short.
        folder = Path(tempfile.mkdtemp(prefix="crash-"))
        stack.callback(shutil.rmtree, folder)
        sink = Sink(folder)
        stack.callback(sink.close)
        starter = await stack.enter_async_context(ProcessStarter(folder / "log"))
        ground = await (_postgresql(stack) if database == "postgresql" else _sqlite(stack, folder, small))
        app = Redrive(settings=Settings(database_url=ground.url, schema=SCHEMA), log=False)
        stack.push_async_callback(app.close)
        await app.open()
        yield Site(**vars(ground), database=database, folder=folder, sink=sink, starter=starter, app=app)


async def _sqlite(stack: AsyncExitStack, folder: Path, small: bool) -> Ground:
    place = folder / "database"
    place.mkdir()
    disk = small_disk(place) if small else None
    if disk is not None:
        stack.callback(disk.close)
    url = f"sqlite:///{place}/work.db"
    return Ground(url=url, worker_url=url, disk=disk)


async def _postgresql(stack: AsyncExitStack) -> Ground:
    server = stack.enter_context(mortal_postgresql())
    parts = urlsplit(server.url)
    assert parts.port is not None
    proxy = Proxy(parts.port, SCHEMA)
    port = await proxy.start()
    stack.push_async_callback(proxy.close)
    behind = urlunsplit(parts._replace(netloc=f"{parts.username}@{parts.hostname}:{port}"))
    return Ground(url=server.url, worker_url=behind, server=server, proxy=proxy)
