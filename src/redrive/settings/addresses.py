"""Formats of settings that are addresses: of a database, a server, hosts and trusted proxies."""

from __future__ import annotations

import re
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any
from urllib.parse import urlsplit

from redrive.settings.formats import Format, is_printable, matching, parse_list

_LABEL = r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST = re.compile(rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*")
_DEFAULT_PORTS = {"http": 80, "https": 443}


def _parse_url(value: Any) -> object:
    """Keep a URL with any path as written, once its origin is valid."""
    _split_url(value)
    return value


def _parse_origin(value: Any) -> object:
    """Normalize a URL without a path to the origin that browsers send."""
    origin, path = _split_url(value)
    if path not in ("", "/"):
        raise ValueError
    return origin


def _split_url(value: Any) -> tuple[str, str]:
    """Split a URL into its origin and its path."""
    if not is_printable(value):
        raise ValueError
    parts = urlsplit(value)
    if "@" in parts.netloc or any(character in value for character in "?# \\"):
        raise ValueError
    scheme, host, port = parts.scheme, parts.hostname or "", parts.port
    if not _is_host(host) or port == 0:
        raise ValueError
    if scheme != "https" and not (scheme == "http" and is_loopback(host)):
        raise ValueError
    authority = f"[{host}]" if ":" in host else host
    if port not in (None, _DEFAULT_PORTS[scheme]):
        authority = f"{authority}:{port}"
    return f"{scheme}://{authority}", parts.path


def _parse_host(word: str) -> str:
    if not _is_host(word):
        raise ValueError
    return word.lower()


def _parse_network(word: str) -> str:
    """Normalize an address or a network; reject the network of all addresses, which would trust everyone."""
    network = ip_network(word)
    if network.prefixlen == 0:
        raise ValueError
    is_address = network.prefixlen == network.max_prefixlen
    return str(network.network_address if is_address else network)


def _is_host(word: str) -> bool:
    if _HOST.fullmatch(word):
        return True
    try:
        ip_address(word)
    except ValueError:
        return False
    return "%" not in word


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the host."""
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ip_address(name.strip("[]"))
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


DATABASE = matching(
    r"[A-Za-z][A-Za-z0-9+.-]*://.+",
    "an address such as sqlite:///work.db or postgresql://user:password@host/database",
    sensitive=True,
)
URL = Format(
    "an https address such as https://login.example.com/shop (http on this machine only)",
    _parse_url,
    sensitive=True,
)
ORIGIN = Format(
    "an https address such as https://redrive.example.com, without a path (http on this machine only)",
    _parse_origin,
    sensitive=True,
)
HOSTS = Format(
    "host names such as redrive.example.com, without a port, separated by commas",
    lambda value: parse_list(value, _parse_host),
)
NETWORKS = Format(
    "addresses or networks such as 10.0.0.0/8 (written with their first address; not the whole address "
    "space), separated by commas",
    lambda value: parse_list(value, _parse_network),
)
