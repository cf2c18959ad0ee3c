"""A real Chromium with pages of a site, opened as a signed-in user."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any, Literal

from playwright.async_api import Browser, BrowserContext, Page, async_playwright, expect
from tests.browser.chromium import chromium
from tests.browser.recorder import Recorder, settled
from tests.browser.site import PASSWORD, SECONDS, Site

Theme = Literal["light", "dark"]
HEIGHT = 900
expect.set_options(timeout=SECONDS * 1000)
AXE = files("axe_playwright_python") / "axe.min.js"


@asynccontextmanager
async def launched() -> AsyncIterator[Browser]:
    """Launch without name lookups and proxies: a page that requests another host fails."""
    alone = ("--no-proxy-server", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=chromium(), chromium_sandbox=os.geteuid() != 0, args=alone
        )
        try:
            yield browser
        finally:
            await browser.close()


class Browsing:
    """The pages of one test. At its end, forbidden actions fail it, unless `recorder` allows them."""

    def __init__(self, browser: Browser, site: Site) -> None:
        self.site = site
        self.recorder = Recorder(site.url)
        self._browser = browser
        self._contexts: list[BrowserContext] = []

    async def open(
        self,
        role: str | None = "owner",
        path: str = "/app/admin",
        *,
        theme: Theme = "light",
        width: int = 1440,
        javascript: bool = True,
        **options: Any,
    ) -> Page:
        """Open a page in a new window. Without a role, no user is signed in. `options` are Playwright's."""
        context = await self._browser.new_context(
            base_url=self.site.url,
            color_scheme=theme,
            java_script_enabled=javascript,
            locale="en-GB",
            reduced_motion="reduce",
            storage_state=None if role is None else await self._state(role),
            timezone_id="UTC",
            viewport={"width": width, "height": HEIGHT},
            **options,
        )
        self._contexts.append(context)
        context.set_default_timeout(SECONDS * 1000)
        await self.recorder.watch(context)
        page = await context.new_page()
        await page.goto(path, wait_until="load")
        return page

    async def _state(self, role: str) -> Any:
        """Return the cookies of a user with this role, who signs in once and stays signed in."""
        if role not in self.site.states:
            self.site.states[role] = await self._signed_in(role)
        return self.site.states[role]

    async def _signed_in(self, role: str) -> Any:
        context = await self._browser.new_context(base_url=self.site.url)
        answer = await context.request.post(
            "/api/v1/session",
            data={"name": f"{role}@acme.example", "password": PASSWORD},
            headers={"Origin": self.site.url},
        )
        assert answer.ok, await answer.text()
        state = await context.storage_state()
        await context.close()
        return state

    async def close(self) -> list[str]:
        """Close all pages and return what went wrong on them."""
        for context in self._contexts:
            for page in context.pages:
                await settled(page)
            await context.close()
        return self.recorder.remaining()


async def go(page: Page, path: str) -> None:
    """Navigate to another page in the same window, which is faster than a new window."""
    await page.goto(path, wait_until="load")


async def axe(page: Page, **options: Any) -> list[str]:
    """Return the findings of axe: rule, meaning and place. `options` are those of axe.run."""
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(AXE.read_text(encoding="utf-8"))
    found = await page.evaluate("(given) => axe.run(given)", {"resultTypes": ["violations"], **options})
    return [
        f"{each['id']} ({each['impact']}): {each['help']} — {node['html'][:200]}"
        for each in found["violations"]
        for node in each["nodes"]
    ]
