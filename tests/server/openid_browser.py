"""A browser whose user signs in with an OpenID provider."""

from __future__ import annotations

import re
from itertools import count
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
from tests.server.house import BASE, House
from tests.server.openid_provider import PASSWORD

BEGIN = "/api/v1/session/oidc"
CALLBACK = f"{BEGIN}/callback"
SESSION = "/api/v1/session"

_addresses = count(1)
_TOKEN = re.compile(r'name="csrf_token" value="([^"]*)"')


class Browser:
    """A browser with its own address, because each address has a limit on sign-ins."""

    def __init__(self, house: House) -> None:
        self.address = f"10.1.{next(_addresses) // 250}.{next(_addresses) % 250}"
        transport = httpx.ASGITransport(house.api, raise_app_exceptions=False, client=(self.address, 1234))
        self.client = httpx.AsyncClient(transport=transport, base_url=BASE)

    async def begin(self, path: str | None = None) -> str:
        """Start to sign in and return the address of the redirect."""
        answer = await self.client.get(BEGIN, params={} if path is None else {"next": path})
        assert answer.status_code == 303, answer.text
        return answer.headers["location"]

    async def returns(self, **parameters: str) -> httpx.Response:
        return await self.client.get(CALLBACK, params=parameters)

    async def who(self) -> str | None:
        answer = await self.client.get(SESSION)
        return answer.json()["name"] if answer.status_code == 200 else None


async def signed_in_there(location: str, name: str) -> dict[str, str]:
    """Fill in the forms of the provider and return the address that it redirects to."""
    async with httpx.AsyncClient() as client:
        page = await client.get(location)
        while not page.headers.get("location", "").startswith(BASE):
            page = await (_next_page(client, page) if page.is_redirect else _filled_in(client, page, name))
    return returned(page.headers["location"])


def returned(location: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(location).query).items()}


async def _next_page(client: httpx.AsyncClient, page: httpx.Response) -> httpx.Response:
    return await client.get(page.url.join(page.headers["location"]))


async def _filled_in(client: httpx.AsyncClient, page: httpx.Response, name: str) -> httpx.Response:
    token = _TOKEN.search(page.text)
    assert token is not None, page.text
    form: dict[str, Any] = {"csrf_token": token.group(1)}
    form |= {"password": PASSWORD} if page.url.path == "/auth/password" else {"login": name}
    return await client.post(page.url, data=form)
