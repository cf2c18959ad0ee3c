"""A banner: HTML of an extension at the top of every admin page, with its own style sheets and scripts.

Pass it to `create_app`, `serve` or `run`. By default, there is no banner.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from importlib.resources.abc import Traversable
from typing import Annotated, NamedTuple

from fastapi import Path
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import Response

from redrive.errors import InvalidValueError
from redrive.log_line import write_log_line
from redrive.model.caller import Caller
from redrive.server.access_control import UNCOUNTED
from redrive.server.problem import ProblemError
from redrive.server.route import Routes

LOGGER = logging.getLogger("redrive.server")
PREFIX = "/app/banner"
TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
}
FOREVER = "public, max-age=31536000, immutable"
MAX_TRACEBACK_LENGTH = 20_000

Render = Callable[[Request, Caller], Awaitable[str]]


class RenderedBanner(NamedTuple):
    """`styles` and `scripts` are the addresses of the files that the page loads."""

    html: Markup
    styles: Sequence[str]
    scripts: Sequence[str]


class Banner:
    """`render` returns the HTML for one request of one caller, or "" to show nothing.

    `markupsafe.Markup`, which a template with autoescape returns, is inserted unchanged; any other string is
    escaped. The pages allow no inline scripts and styles: `files` are public, at an address that changes with
    their content. The page loads style sheets, and scripts as modules; a style sheet refers
    to images among the files by their names.
    """

    def __init__(self, render: Render, files: Sequence[Traversable] = ()) -> None:
        self._render = render
        self._contents = {file.name: file.read_bytes() for file in files}
        for name in self._contents:
            if _suffix(name) not in TYPES:
                raise InvalidValueError(f"a banner file must be one of {', '.join(TYPES)}, not {name!r}")
        digest = sha256(repr(sorted(self._contents.items())).encode()).hexdigest()[:12]
        self._address = f"{PREFIX}/{digest}"
        self.routes = Routes("banner", PREFIX)
        self.routes.get("/{version}/{name}", UNCOUNTED, include_in_schema=False)(self._file)

    async def rendered(self, request: Request, caller: Caller) -> RenderedBanner | None:
        """Render the banner; None if it is empty or fails. A failure is logged."""
        try:
            html = escape(await self._render(request, caller))
        except Exception as error:  # noqa: BLE001 - an extension may raise anything
            stack = "".join(traceback.format_exception(error))[-MAX_TRACEBACK_LENGTH:]
            fields = {"event": "banner_failed", "error": type(error).__name__, "stack": stack}
            write_log_line(LOGGER, logging.ERROR, fields)
            return None
        return RenderedBanner(html, self._addresses("css"), self._addresses("js")) if html else None

    def _addresses(self, suffix: str) -> Sequence[str]:
        return [f"{self._address}/{name}" for name in self._contents if _suffix(name) == suffix]

    async def _file(
        self, version: Annotated[str, Path(max_length=40)], name: Annotated[str, Path(max_length=80)]
    ) -> Response:
        if name not in self._contents:
            raise ProblemError(404, "no_route", "this file doesn't exist")
        current = self._address.endswith(f"/{version}")
        headers = {"Cache-Control": FOREVER if current else "no-cache"}
        return Response(self._contents[name], 200, headers, TYPES[_suffix(name)])


def _suffix(name: str) -> str:
    return name.rpartition(".")[2]
