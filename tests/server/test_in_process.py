"""The API without a port: the same routes, as the operator of the database."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from redrive import Redrive
from redrive.errors import InvalidValueError, NotFoundError
from redrive.parts import parts_of
from redrive.server.api import NOUNS
from redrive.server.in_process import InProcess
from redrive.server.problem import ProblemError

JSON = {"content-type": "application/json"}


@pytest.fixture
async def api() -> AsyncIterator[InProcess]:
    app = Redrive("sqlite://:memory:", log=False)
    async with app:
        yield InProcess(app, "default", "operator")


async def ask(api: InProcess, method: str, path: str, body: object = None, query: str = "") -> Any:
    encoded = b"" if body is None else json.dumps(body).encode()
    told = await api.ask(method, path, query, JSON, encoded)
    assert told.status < 400
    return json.loads(told.body) if told.body else None


async def test_it_acts_under_its_name(api: InProcess) -> None:
    await ask(api, "POST", "/api/v1/organizations", {"name": "acme", "title": "Acme"})
    entries = (await ask(api, "GET", "/api/v1/audit"))["items"]
    assert entries[0]["actor"] == "operator"


async def test_names_with_slashes_reach_their_route(api: InProcess) -> None:
    with pytest.raises(NotFoundError, match="a/b c"):
        await ask(api, "POST", "/api/v1/queues/a%2Fb%20c/pause", {"reason": "x"})


async def test_errors_come_as_they_are(api: InProcess) -> None:
    with pytest.raises(NotFoundError, match="found no dead letter 'x'"):
        await ask(api, "GET", "/api/v1/dead-letters/x")
    with pytest.raises(InvalidValueError, match="did you mean"):
        await ask(api, "GET", "/api/v1/dead-letters", query="q=sttep%3Acharge")


async def test_problems_keep_their_code(api: InProcess) -> None:
    with pytest.raises(ProblemError) as told:
        await ask(api, "POST", "/api/v1/organizations", {"nmae": "acme"})
    assert (told.value.status_code, told.value.code) == (422, "invalid_request")
    with pytest.raises(ProblemError) as told:
        await ask(api, "GET", "/api/v1/dead-letters", query="sise=7")
    assert told.value.code == "unknown_parameter"


async def test_local_operators_are_not_limited(api: InProcess) -> None:
    often = 2 * 2 * int(parts_of(api.app).settings.server_key_rate)
    for _ in range(often):
        await ask(api, "GET", "/api/v1/session")


@pytest.mark.parametrize("noun", NOUNS, ids=lambda noun: noun.noun)
async def test_every_noun_can_be_reached(api: InProcess, noun: Any) -> None:
    """The start of an address selects its noun, so no noun may hide another."""
    for entry in noun.entries:
        if entry.method == "GET" and "{" not in entry.path and noun.noun not in ("events", "oidc", "forward"):
            assert await _code(api, noun.prefix + entry.path) != "no_route"


async def _code(api: InProcess, path: str) -> str:
    try:
        told = await api.ask("GET", path, "", {}, b"")
    except ProblemError as problem:
        return problem.code
    return str(told.status)
