"""Behind a proxy, rate limits count the address that the proxy reports, not one that a client writes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from tests.cases import loop_over

from redrive.server.proxies import Proxies
from redrive.settings import Settings

PROXY, ELSEWHERE = "10.0.0.7", "203.0.113.9"
SETTINGS = Settings(server_proxies=(PROXY, "192.168.0.0/16", "2001:db8::/32"))


def request_from(peer: str | None, *forwarded: str) -> Request:
    headers = [(b"x-forwarded-for", each.encode("latin-1", "replace")) for each in forwarded]
    client = None if peer is None else (peer, 1)
    return Request({"type": "http", "method": "GET", "path": "/", "headers": headers, "client": client})


@loop_over(
    ("peer", "forwarded", "client"),
    [
        (ELSEWHERE, ["1.2.3.4"], ELSEWHERE),
        (PROXY, [], PROXY),
        (PROXY, [""], PROXY),
        (PROXY, ["1.2.3.4"], "1.2.3.4"),
        (PROXY, ["6.6.6.6, 1.2.3.4"], "1.2.3.4"),
        (PROXY, ["6.6.6.6", "1.2.3.4"], "1.2.3.4"),
        (PROXY, ["6.6.6.6, 1.2.3.4, 192.168.3.4"], "1.2.3.4"),
        (PROXY, ["192.168.3.5, 192.168.3.4"], "192.168.3.5"),
        (PROXY, ["1.2.3.4:5678"], "1.2.3.4"),
        (PROXY, ["[2001:db9::1]:5678"], "2001:db9::1"),
        (PROXY, ["6.6.6.6, unknown, 192.168.3.4"], "192.168.3.4"),
        (PROXY, ["6.6.6.6, <script>"], PROXY),
        (PROXY, ["1.2.3.4,"], PROXY),
        ("::ffff:10.0.0.7", ["::ffff:1.2.3.4"], "1.2.3.4"),
        ("2001:db8::7", ["2001:db8::8, 2001:db9::1"], "2001:db9::1"),
        ("a socket", ["1.2.3.4"], "a socket"),
        (None, ["1.2.3.4"], "nowhere"),
    ],
)
def test_the_client_is_the_last_address_that_is_not_a_trusted_proxy(
    peer: str | None, forwarded: list[str], client: str
) -> None:
    assert Proxies(SETTINGS).client_of(request_from(peer, *forwarded)) == client


@given(st.lists(st.text(alphabet="0123456789abcdef.:,[]% ", max_size=40), max_size=3))
def test_whatever_clients_write_the_part_of_the_proxy_decides(written: list[str]) -> None:
    proxies = Proxies(SETTINGS)
    assert proxies.client_of(request_from(PROXY, *written, ELSEWHERE)) == ELSEWHERE
    assert proxies.client_of(request_from(ELSEWHERE, *written)) == ELSEWHERE
