"""Records what no page may do: request another host, violate its own policy, fail."""

from __future__ import annotations

import re
from contextlib import suppress
from urllib.parse import urlsplit

from playwright.async_api import BrowserContext, ConsoleMessage, Error, Page, Request, WebError

# Chromium reports this on the console too, but not always, and not everywhere.
_WATCH = """
document.addEventListener('securitypolicyviolation', (event) => {
    const where = `${event.blockedURI} on ${event.documentURI}`;
    window.__violated(`${event.violatedDirective}: ${where} ${event.sample}`);
});
"""


class Recorder:
    def __init__(self, url: str) -> None:
        self._host = urlsplit(url).netloc
        self._allowed: list[re.Pattern[str]] = []
        self.requests: list[str] = []
        """The addresses of all requests."""
        self.faults: list[str] = []

    async def watch(self, context: BrowserContext) -> None:
        context.on("request", self._requested)
        context.on("console", self._said)
        context.on("weberror", self._failed)
        await context.expose_function("__violated", self._violated)
        await context.add_init_script(_WATCH)

    def allow(self, *patterns: str) -> None:
        """Allow faults that the test causes itself, such as "status of 409"."""
        self._allowed += map(re.compile, patterns)

    def remaining(self) -> list[str]:
        return [each for each in self.faults if not any(known.search(each) for known in self._allowed)]

    def _requested(self, request: Request) -> None:
        self.requests.append(request.url)
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob", "about") and parts.netloc != self._host:
            self.faults.append(f"a request to another host: {request.method} {request.url}")

    def _said(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.faults.append(f"console: {message.text} ({_place(message)})")

    def _failed(self, error: WebError) -> None:
        self.faults.append(f"error of a script: {error.error}")

    def _violated(self, told: str) -> None:
        self.faults.append(f"violates the content security policy: {told}")


def _place(message: ConsoleMessage) -> str:
    return str(message.location.get("url", ""))


async def settled(page: Page) -> None:
    """Wait until everything that the page has done has arrived at the recorder."""
    with suppress(Error):  # the page is closed, or is navigating
        await page.evaluate("1")
