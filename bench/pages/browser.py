"""A minimal browser: a session, one open connection, and the files that a page loads."""

from __future__ import annotations

import gzip
import http.client
import json
import re
from collections.abc import Iterator
from time import perf_counter
from typing import NamedTuple
from urllib.parse import urljoin

from bench.work.servers import HOST

PATIENCE = 60.0
_ASSET = re.compile(r"""<(?:link|script)\b[^>]*?\b(?:href|src)="([^"]+\.(?:css|js|woff2)(?:\?[^"]*)?)\"""")
_IMPORT = re.compile(r"""\b(?:import|from)\s*\(?\s*["']([^"']+)["']""")


class Answer(NamedTuple):
    """A response. `seconds` until its last byte; `transferred` bytes, compressed."""

    status: int
    seconds: float
    transferred: int
    text: str


class Browser:
    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection(HOST, port, timeout=PATIENCE)
        self._origin = f"http://{HOST}:{port}"
        self._headers = {"Accept": "text/html", "Accept-Encoding": "gzip"}

    def sign_in(self, token: str) -> None:
        body, headers = (
            json.dumps({"token": token}),
            {"Content-Type": "application/json", "Origin": self._origin},
        )
        self._connection.request("POST", "/api/v1/session/link", body, headers)
        answer = self._connection.getresponse()
        answer.read()
        cookie = answer.getheader("set-cookie")
        if cookie is None:
            raise RuntimeError(f"nobody could sign in: {answer.status}")
        self._headers["Cookie"] = cookie.partition(";")[0]

    def get(self, path: str) -> Answer:
        started = perf_counter()
        self._connection.request("GET", path, headers=self._headers)
        answer = self._connection.getresponse()
        body = answer.read()
        seconds = perf_counter() - started
        packed = answer.getheader("content-encoding") == "gzip"
        text = (gzip.decompress(body) if packed else body).decode(errors="replace")
        return Answer(answer.status, seconds, len(body), text)

    def load(self, path: str) -> dict[str, int]:
        """Return the bytes by address: the page, and every file that its first load needs."""
        page = self.get(path)
        loaded, wanted = {path: page.transferred}, [urljoin(path, each) for each in _ASSET.findall(page.text)]
        while wanted:
            address = wanted.pop()
            if address not in loaded:
                asset = self.get(address)
                loaded[address] = asset.transferred
                wanted += _imported(address, asset.text)
        return loaded


def _imported(address: str, text: str) -> Iterator[str]:
    if address.partition("?")[0].endswith(".js"):
        yield from (urljoin(address, each) for each in _IMPORT.findall(text) if each.startswith((".", "/")))
