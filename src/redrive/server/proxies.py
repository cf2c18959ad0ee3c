"""Trusted proxies: their headers are used, those of other clients are ignored.

X-Forwarded-For determines the client address for rate limits: the rightmost address that is not a trusted
proxy, because the client may have forged everything to the left of it. The header in
`server_forward_header` names the user whom the proxy authenticated. X-Forwarded-Proto, X-Forwarded-Host and
Forwarded are never used: `server_url` is the public address of the server.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from starlette.requests import Request

from redrive.identity.sign_in import vouched_name
from redrive.settings import Settings

FORWARDED_FOR = "x-forwarded-for"
MAX_HOPS = 50
NOWHERE = "nowhere"

_Address = IPv4Address | IPv6Address


class Proxies:
    def __init__(self, settings: Settings) -> None:
        self._networks = [ip_network(proxy) for proxy in settings.server_proxies or ()]
        header = settings.server_forward_header
        self._header = None if header is None else header.lower()

    @property
    def sign_in(self) -> bool:
        """Whether a trusted proxy signs people in."""
        return self._header is not None

    def client_of(self, request: Request) -> str:
        """Return the address of the client, as far as trusted proxies confirm it."""
        peer = _peer(request)
        if peer is None:
            return request.client.host if request.client else NOWHERE
        client = peer
        for hop in _hops(request):
            if hop is None or not self._trusts(client):
                break
            client = hop
        return str(client)

    def user_of(self, request: Request) -> str | None:
        """Return the user that a trusted proxy names; None if it names none or the name is ambiguous."""
        peer = _peer(request)
        if self._header is None or peer is None or not self._trusts(peer):
            return None
        named = request.headers.getlist(self._header)
        # With two values, one may come from the client, and the proxy did not remove it.
        if len(named) != 1 or "," in named[0]:
            return None
        return vouched_name(_decoded(named[0])) or None

    def _trusts(self, address: _Address) -> bool:
        return any(address in network for network in self._networks)


def _peer(request: Request) -> _Address | None:
    return None if request.client is None else _address(request.client.host)


def _hops(request: Request) -> Iterator[_Address | None]:
    """Yield the hops, the last one first; None for text that is not an address."""
    words = ",".join(request.headers.getlist(FORWARDED_FOR)).split(",")
    for word in words[: -MAX_HOPS - 1 : -1]:
        yield _address(word.strip())


def _address(word: str) -> _Address | None:
    """Parse an address. Some proxies add the port."""
    if word.startswith("["):
        word = word[1:].partition("]")[0]
    elif word.count(":") == 1:
        word = word.partition(":")[0]
    try:
        address = ip_address(word)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _decoded(value: str) -> str | None:
    """Decode a header as UTF-8, which proxies use for names."""
    try:
        return value.encode("latin-1").decode("utf-8")
    except ValueError:
        return None
