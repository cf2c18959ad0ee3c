"""Kinds of settings that are addresses: of a database, of a server, of those who may speak for others."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any
from urllib.parse import urlsplit

_DATABASE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://.+")
_LABEL = r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST = re.compile(rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*")
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Address:
    bounds: str = "an address such as sqlite:///work.db or postgresql://user:password@host/database"

    def accept(self, value: Any) -> str:
        if not is_printable(value) or not _DATABASE.fullmatch(value):
            raise ValueError
        return str(value)


@dataclass(frozen=True, slots=True)
class Url:
    """With `path` it is taken as it is written; without, it is an origin, in the form that browsers send."""

    path: bool

    @property
    def bounds(self) -> str:
        example = (
            "https://login.example.com/shop" if self.path else "https://redrive.example.com, without a path"
        )
        return f"an https address such as {example} (http on this machine only)"

    def accept(self, value: Any) -> str:
        if not is_printable(value):
            raise ValueError
        parts = urlsplit(value)
        if "@" in parts.netloc or any(sign in value for sign in "?# \\"):
            raise ValueError
        origin = _origin(parts.scheme, parts.hostname or "", parts.port)
        if not self.path and parts.path not in ("", "/"):
            raise ValueError
        return str(value) if self.path else origin


def _origin(scheme: str, host: str, port: int | None) -> str:
    if not is_host(host) or port == 0:
        raise ValueError
    if scheme != "https" and not (scheme == "http" and is_loopback(host)):
        raise ValueError
    place = f"[{host}]" if ":" in host else host
    return f"{scheme}://{place}" if port in (None, _DEFAULT_PORTS[scheme]) else f"{scheme}://{place}:{port}"


@dataclass(frozen=True, slots=True)
class Hosts:
    bounds: str = "names of hosts such as redrive.example.com, without a port, separated by commas"

    def accept(self, value: Any) -> tuple[str, ...]:
        return words(value, _host)


@dataclass(frozen=True, slots=True)
class Networks:
    """Who trusts everybody has trusted nobody on purpose: a network of all addresses is refused."""

    bounds: str = (
        "addresses, or networks such as 10.0.0.0/8 (from their first address on, not all there are), "
        "separated by commas"
    )

    def accept(self, value: Any) -> tuple[str, ...]:
        return words(value, _network)


def words(value: object, accept: Callable[[str], str]) -> tuple[str, ...]:
    """Each word of a list, or of a text with commas, in its usual form and once."""
    given = value.split(",") if isinstance(value, str) else value
    if not isinstance(given, list | tuple) or not given or not all(map(is_printable, given)):
        raise ValueError
    return tuple(dict.fromkeys(accept(word.strip()) for word in given))


def _host(word: str) -> str:
    if not is_host(word):
        raise ValueError
    return word.lower()


def _network(word: str) -> str:
    network = ip_network(word)
    if network.prefixlen == 0:
        raise ValueError
    alone = network.prefixlen == network.max_prefixlen
    return str(network.network_address if alone else network)


def is_host(word: str) -> bool:
    """Is it a name, or the address of one machine?"""
    if _HOST.fullmatch(word):
        return True
    try:
        ip_address(word)
    except ValueError:
        return False
    return "%" not in word


def is_loopback(host: str) -> bool:
    """Can nobody but this machine come in by it?"""
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ip_address(name.strip("[]"))
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def is_printable(value: object) -> bool:
    return isinstance(value, str) and value.isprintable()
