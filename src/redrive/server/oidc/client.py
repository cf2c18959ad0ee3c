"""The client: who this installation is at the provider, and how it proves that."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote_plus

from redrive.server.oidc import problem
from redrive.server.oidc.metadata import BASIC
from redrive.server.oidc.provider_client import Reply, WireError

POST = "client_secret_post"


class Client(NamedTuple):
    id: str
    secret: str | None
    scopes: str

    def __repr__(self) -> str:
        return f"Client({self.id!r}, '…', {self.scopes!r})"


class Proof(NamedTuple):
    """What goes with a request, in its form and in its headers."""

    form: Mapping[str, str]
    headers: Mapping[str, str]

    def __repr__(self) -> str:
        return "Proof('…')"


def proofs_of(client: Client, ways: Sequence[str]) -> list[Proof]:
    """Those that the provider may take, the usual one first. Without a secret, PKCE has to do."""
    if client.secret is None:
        return [Proof({"client_id": client.id}, {})]
    proofs = []
    if BASIC in ways:
        # The standard has both encoded, and some providers do not know that.
        encoded = (quote_plus(client.id), quote_plus(client.secret))
        proofs = [_basic(*pair) for pair in dict.fromkeys((encoded, (client.id, client.secret)))]
    if POST in ways:
        proofs.append(Proof({"client_id": client.id, "client_secret": client.secret}, {}))
    if not proofs:
        raise problem.misconfigured(f"it takes neither {BASIC} nor {POST}")
    return proofs


def _basic(name: str, secret: str) -> Proof:
    pair = b64encode(f"{name}:{secret}".encode()).decode()
    return Proof({}, {"Authorization": f"Basic {pair}"})


def is_stranger(reply: Reply) -> bool:
    """Does the provider not know who is asking? Then it has not looked at the code yet."""
    return reply.status in (400, 401) and reply.document().get("error") == "invalid_client"


def granted(reply: Reply) -> dict[str, Any]:
    """The tokens."""
    if reply.status == 200:
        return reply.document()
    if not 400 <= reply.status < 500 or reply.status in (408, 429):
        raise WireError(f"status {reply.status}")
    error = reply.document().get("error")
    if error == "invalid_grant":
        raise problem.code_refused()
    raise problem.misconfigured(f"status {reply.status}, {error!r:.100}")
