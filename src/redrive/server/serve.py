"""Serve the API with uvicorn, on loopback only unless callers can sign in."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import uvicorn

from redrive.app import Redrive, collect_rarely
from redrive.engine.stop_watchdog import StopWatchdog
from redrive.errors import InvalidValueError, IsolationError
from redrive.parts import parts_of
from redrive.server.app import create_app
from redrive.server.banner import Banner
from redrive.server.connection import PatientProtocol
from redrive.server.site import Site
from redrive.settings.addresses import is_loopback

KEEP_ALIVE = 15
BACKLOG = 2_048
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run(
    app: Redrive,
    *,
    announce: Callable[[str], None] = print,
    watched: bool = False,
    banner: Banner | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then let requests in flight finish."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(serve(app, announce=announce, watched=watched, banner=banner))


async def serve(
    app: Redrive,
    *,
    announce: Callable[[str], None] = print,
    watched: bool = False,
    banner: Banner | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT.

    `watched`: a person reads the announcements, and no log stores them.
    """
    settings = parts_of(app).settings
    collect_rarely()
    missing = await parts_of(app).enable_row_level_security()
    if missing is not None:
        announce(_without_row_level_security(missing))
    await refuse_open_address(app)
    api = create_app(app, banner=banner)
    config = uvicorn.Config(
        api,
        http=PatientProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=max(1, round(settings.server_drain_sec)),
    )
    with bound(settings.server_host, settings.server_port) as listening:
        await _Server(config, api.state.site, announce, watched).serve([listening])


def _without_row_level_security(missing: IsolationError) -> str:
    lines = "".join(f"\n  {statement};" for statement in missing.statements)
    return (
        "Row-level security is off, because this database user cannot create the role for it. That is safe "
        f"with one organization. Before you add another, ask an administrator to run:{lines}"
    )


async def refuse_open_address(app: Redrive) -> None:
    """Refuse to listen on a public address without any credentials to sign in with."""
    host = parts_of(app).settings.server_host
    if not is_loopback(host) and not await _has_credentials(app):
        raise InvalidValueError(
            f"the server would listen on {host}, but there are no credentials yet. Add a member with a "
            f"password (redrive member add), create a key (redrive key create) or set oidc_issuer; or listen "
            f"on 127.0.0.1"
        )


def bound(host: str, port: int) -> socket.socket:
    """Return a listening socket. Called before anything else starts, because it may fail."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise InvalidValueError(
            f"can't listen on {host}, port {port}: {os.strerror(error.errno or 0)}. Use another --port "
            f"(0 picks a free one) or --host"
        ) from None


class _Server(uvicorn.Server):
    """Announces its address, and ends event streams when it is asked to stop."""

    def __init__(
        self, config: uvicorn.Config, site: Site, announce: Callable[[str], None], watched: bool
    ) -> None:
        super().__init__(config)
        self._site = site
        self._announce = announce
        self._watched = watched

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started and sockets:
            await self._announce_address(sockets[0].getsockname()[1])

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on a signal without raising it again, so that the exit code is 0.

        With a worker, the process ends even if a step blocks the event loop.
        """
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, self._stop, number)
        try:
            with self._watchdog(loop):
                yield
        finally:
            for number in STOP_SIGNALS:
                loop.remove_signal_handler(number)

    def _stop(self, number: int) -> None:
        """Stop the server. On a second signal, its worker does not wait for its work."""
        if self._site.closing.is_set() and self._site.worker is not None:
            self._site.worker.stop("server")
        self._site.closing.set()
        self.handle_exit(number, None)

    def _watchdog(self, loop: asyncio.AbstractEventLoop) -> AbstractContextManager[None]:
        settings = self._site.parts.settings
        if not settings.server_worker:
            return nullcontext()
        grace = settings.server_drain_sec + settings.worker_grace_sec
        return StopWatchdog(loop, grace, self._reason_for_silence)

    def _reason_for_silence(self) -> str:
        worker = self._site.worker
        return "its event loop does not answer" if worker is None else worker.in_flight.reason_for_silence()

    async def _announce_address(self, port: int) -> None:
        settings = self._site.parts.settings
        host = f"[{settings.server_host}]" if ":" in settings.server_host else settings.server_host
        address = settings.server_url or f"http://{host}:{port}"
        self._announce(f"Redrive is at {address}")
        token = await operator_token(self._site.app, watched=self._watched)
        if token is not None:
            self._announce(f"Sign in once with: {address}/app/sign-in#{token}")
        else:
            self._announce(
                f"Sign in at {address}/app/sign-in (`redrive member link NAME` creates a sign-in link)"
            )


async def operator_token(app: Redrive, *, watched: bool) -> str | None:
    """Return a token that signs in an owner, but only if no log stores it or no other credential exists."""
    if not is_loopback(parts_of(app).settings.server_host) or not (
        watched or not await _has_credentials(app)
    ):
        return None
    link = await app.members().sessions.embedded_link()
    return None if link is None else link.token


async def _has_credentials(app: Redrive) -> bool:
    settings = parts_of(app).settings
    return bool(settings.oidc_issuer or settings.server_forward_header) or (
        await app.members().credentials.any()
    )


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # not available on Windows
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
