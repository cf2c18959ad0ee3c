"""Pictures of every page with the scene: light and dark, on a phone and on a desktop.

python -m tests.browser.screenshots --out DIR [--pages dlq,run] [--widths 390,1440] [--themes light,dark]
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from playwright.async_api import Error, Page
from tests.browser.browsing import Browsing, launched
from tests.browser.routes import routes
from tests.browser.scene.build import build
from tests.browser.scene.machines import pulse
from tests.browser.site import Site

BEAT = 5.0
SETTLING = 300
"""Milliseconds for a page to draw after it has loaded."""


@asynccontextmanager
async def pulsing(url: str) -> AsyncIterator[None]:
    """Keep the machines of the scene alive while the pictures are taken."""

    async def beat() -> None:
        while True:
            await pulse(url)
            await asyncio.sleep(BEAT)

    beating = asyncio.create_task(beat())
    try:
        yield
    finally:
        beating.cancel()
        with suppress(asyncio.CancelledError):
            await beating


async def take(arguments: argparse.Namespace) -> int:
    """Take the pictures, and return the number of pages with problems."""
    out = Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        url = arguments.url or f"sqlite:///{folder}/scene.db"
        if arguments.url is None:
            print("building the scene …", file=sys.stderr)
            await asyncio.to_thread(build, Path(folder) / "scene.db", arguments.scale)
        site = await Site.opened(Path(folder), url, server_worker="false")
        try:
            async with launched() as browser, pulsing(url):
                return await _pictures(Browsing(browser, site), arguments, out)
        finally:
            await site.close()


async def _pictures(visitor: Browsing, arguments: argparse.Namespace, out: Path) -> int:
    wanted = arguments.pages.split(",") if arguments.pages else None
    faulty = 0
    for route in await routes(visitor.site):
        if wanted is not None and route.name not in wanted:
            continue
        for theme in arguments.themes.split(","):
            for width in map(int, arguments.widths.split(",")):
                name = f"{route.name}-{theme}-{width}.png"
                page = await visitor.open(route.role, route.path, theme=theme, width=width)
                told = await _picture(page, out / name, arguments.folded)
                faults, visitor.recorder.faults = visitor.recorder.remaining(), []
                faults = [each for each in faults if route.console is None or route.console not in each]
                faulty += bool(faults)
                print(name, told, *faults, sep="  ")
                await page.context.close()
    return faulty


async def _picture(page: Page, path: Path, folded: bool) -> str:
    """Take a picture, and report how much wider than the window the page is."""
    await page.wait_for_timeout(SETTLING)
    with suppress(Error):
        await page.screenshot(path=path, full_page=not folded)
    beyond = await page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    title = await page.title()
    return f"{title!r}" + (f"  {beyond} px TOO WIDE" if beyond > 0 else "")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.browser.screenshots", description=__doc__)
    parser.add_argument("--out", required=True, help="the folder for the pictures")
    parser.add_argument("--pages", default="", help="names of pages, separated by commas; all of them")
    parser.add_argument("--widths", default="390,1440")
    parser.add_argument("--themes", default="light,dark")
    parser.add_argument("--scale", type=float, default=1.0, help="of the scene")
    parser.add_argument("--url", help="a database that holds the scene already")
    parser.add_argument("--folded", action="store_true", help="only what fits the window")
    raise SystemExit(1 if asyncio.run(take(parser.parse_args())) else 0)


if __name__ == "__main__":
    main()
