"""Proxies in front of the server: what they say about a request is believed, what anybody else says is not.

Two things are taken from them. X-Forwarded-For tells whose requests are counted: the address farthest to the
right that is not a proxy of ours, because all that stands to the left of it the client may have written. And
the header of the settings names the user whom the proxy has signed in. X-Forwarded-Proto, X-Forwarded-Host
and Forwarded are never looked at: `server_url` says under which address people find the server.
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
        self._networks = [ip_network(each) for each in settings.server_proxies or ()]
        header = settings.server_forward_header
        self._header = None if header is None else header.lower()

    @property
    def sign_in(self) -> bool:
        """Is there one that signs people in?"""
        return self._header is not None

    def client_of(self, request: Request) -> str:
        """The address that a request comes from, as far as it is known for sure."""
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
        """Whom the proxy names; None where it names nobody, or it is not clear whom, or it is no proxy."""
        peer = _peer(request)
        if self._header is None or peer is None or not self._trusts(peer):
            return None
        named = request.headers.getlist(self._header)
        # Two of them, or two in one: one may be what the client has sent, and was not removed.
        if len(named) != 1 or "," in named[0]:
            return None
        return vouched_name(_decoded(named[0])) or None

    def _trusts(self, address: _Address) -> bool:
        return any(address in network for network in self._networks)


def _peer(request: Request) -> _Address | None:
    return None if request.client is None else _address(request.client.host)


def _hops(request: Request) -> Iterator[_Address | None]:
    """From the one that has come last; None for what is not an address."""
    words = ",".join(request.headers.getlist(FORWARDED_FOR)).split(",")
    for word in words[: -MAX_HOPS - 1 : -1]:
        yield _address(word.strip())


def _address(word: str) -> _Address | None:
    """Some proxies write the port too."""
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
    """Headers are bytes; what proxies write into them is UTF-8."""
    try:
        return value.encode("latin-1").decode("utf-8")
    except ValueError:
        return None
