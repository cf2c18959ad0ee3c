"""Parts of the frame that are asked for by themselves: the status line, and the help about the keyboard."""

from __future__ import annotations

from starlette.responses import Response

from redrive.server.admin.page import OnPage, Pages
from redrive.server.admin.shell import PLACES, shell_of

pages = Pages("frame")

KEYS = (
    (
        "Everywhere",
        (
            ("?", "this help"),
            ("/", "search"),
            ("u", "undo what was done last"),
            ("c", "copy as a command"),
            ("Esc", "close"),
        ),
    ),
    (
        "In lists",
        (
            ("j k", "next, previous row"),
            ("Enter", "open it"),
            ("x", "select it"),
            ("n", "next page"),
        ),
    ),
    (
        "Dead letters",
        (
            ("r", "replay: shows the plan first"),
            ("e", "resolve"),
            ("i", "ignore"),
            ("a", "assign"),
            ("t", "tag"),
            ("p", "pause or resume a replay"),
        ),
    ),
    ("Go to", tuple((f"g {each.key}", each.title) for each in PLACES)),
)


@pages.get("/status")
async def status(page: OnPage) -> Response:
    return page.fragment("parts/status.html", shell=await shell_of(page.visit, None))


@pages.get("/keys")
async def keys(page: OnPage) -> Response:
    return await page.render("keys.html", place="", groups=KEYS)
