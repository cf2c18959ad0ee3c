"""The site: the state of one running server, shared by its routes."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.types import Scope

from redrive.app import Redrive
from redrive.errors import InvalidValueError, StoreError
from redrive.parts import parts_of
from redrive.server.authenticator import Authenticator
from redrive.server.limits import ConcurrencyLimiter, RequestLimits, StreamLimits
from redrive.server.metrics import new_metrics
from redrive.settings.addresses import is_loopback

if TYPE_CHECKING:
    from redrive.engine.worker import Worker
    from redrive.identity.oidc.provider import OpenIdProvider
    from redrive.server.banner import Banner  # its routes are guarded, and guarding needs the site

PROBE_TRUSTED_SECONDS = 1.0
PROBE_SECONDS = 5.0
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
# Excludes characters that URL parsers treat differently, such as a backslash or an @.
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::[0-9]{0,5})?")


class Site:
    """`worker` is the worker in the process of the server, if there is one."""

    def __init__(
        self,
        app: Redrive,
        *,
        banner: Banner | None = None,
        authenticator: Authenticator | None = None,
        limits: RequestLimits | None = None,
    ) -> None:
        settings = parts_of(app).settings
        self.app = app
        self.parts = parts_of(app)
        self.authenticator = authenticator or Authenticator(app)
        self.limits = limits or RequestLimits(settings, parts_of(app).clock.monotonic)
        self.banner = banner
        self.readiness = Readiness(app)
        self.oidc = provider_of(app)
        self.streams = StreamLimits(settings.server_streams)
        self.verifying = ConcurrencyLimiter()
        self.metrics = new_metrics(app)
        self.closing = asyncio.Event()
        self.worker: Worker | None = None
        self.hosts = _hosts(app)

    def origin(self, request: Request) -> str:
        """Return the origin of the pages of this server, as browsers send it."""
        return (
            parts_of(self.app).settings.server_url
            or f"{request.url.scheme}://{request.headers.get('host', '')}"
        )

    def knows_host(self, host: str) -> bool:
        """Reject unknown host names, which protects against DNS rebinding."""
        name = host_name(host)
        return name in self.hosts if self.hosts is not None else bool(name) or not host


def site_of(scope: Scope) -> Site:
    site: Site = scope["app"].state.site
    return site


def host_name(host: str) -> str:
    """Return the host without the port, in lower case; empty if it is not valid."""
    found = _HOST.fullmatch(host)
    return "" if found is None else (found[1] or found[2]).lower()


def is_origin(text: str) -> bool:
    scheme, _, host = text.partition("://")
    return scheme in ("http", "https") and bool(host_name(host))


def _hosts(app: Redrive) -> frozenset[str] | None:
    """Return the host names of this server; None if they are unknown, and any is accepted."""
    settings = parts_of(app).settings
    named = set(settings.server_hosts or ())
    if settings.server_url:
        named.add(host_name(urlsplit(settings.server_url).netloc))
    if is_loopback(settings.server_host):
        named |= {*LOOPBACK_NAMES, settings.server_host.lower()}
    return frozenset(name.lower() for name in named) or None


def provider_of(app: Redrive) -> OpenIdProvider | None:
    """Build the OpenID provider of the settings, and check them before the server starts."""
    settings = parts_of(app).settings
    if settings.oidc_issuer is None or settings.oidc_client_id is None:
        return None
    if settings.server_url is None and not is_loopback(settings.server_host):
        raise InvalidValueError("oidc_issuer needs server_url; set it to the public address of this server")
    try:
        from redrive.identity.oidc.connection import OpenIdClient
        from redrive.identity.oidc.provider import OpenIdProvider
    except ImportError as error:
        raise InvalidValueError(
            f"oidc_issuer is set, but {error.name} is not installed; run: pip install 'redrive[oidc]'"
        ) from error
    client = OpenIdClient(settings.oidc_client_id, settings.read_oidc_client_secret(), settings.oidc_scopes)
    return OpenIdProvider(settings.oidc_issuer, client, settings.oidc_name_claim, parts_of(app).clock)


class Readiness:
    """Checks that the database is writable, at most once per second."""

    def __init__(self, app: Redrive) -> None:
        self._app = app
        self._lock = asyncio.Lock()
        self._until = 0.0
        self._failure: StoreError | None = None

    async def check(self) -> None:
        """Raise StoreError if the database is not writable."""
        async with self._lock:
            if parts_of(self._app).clock.monotonic() >= self._until:
                self._failure = await self._probed()
                self._until = parts_of(self._app).clock.monotonic() + PROBE_TRUSTED_SECONDS
            if self._failure is not None:
                raise self._failure

    async def _probed(self) -> StoreError | None:
        """Probe the database. Failures are cached too, or callers would queue up while it is down."""
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await parts_of(self._app).store.probe()
        except TimeoutError:
            return StoreError("the database doesn't respond")
        except StoreError as error:
            return error
        return None
