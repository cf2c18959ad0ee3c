"""Parts of the shell with addresses of their own: the status line, and the help about the keyboard."""

from __future__ import annotations

from starlette.responses import Response

from redrive.server.admin.page import OnPage, Pages
from redrive.server.admin.shell import KEYS, shell_of

pages = Pages("shell")


@pages.get("/status")
async def status(page: OnPage) -> Response:
    return page.fragment("parts/status.html", shell=await shell_of(page.visit, None))


@pages.get("/keys")
async def keys(page: OnPage) -> Response:
    return await page.render("keys.html", place="", groups=KEYS)
