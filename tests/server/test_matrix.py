"""Every route × every caller × their own row, a row of another organization, and a missing id.

The routes come from the application. The expected results come from tests/server/matrix.py, which repeats the
role table by hand (W12, W13, I8, I14, security baseline: authorization, tenants).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from tests.server.event_stream import Stream, listening
from tests.server.house import House, new_app
from tests.server.matrix import TABLE
from tests.server.matrix_requests import MatrixRequests, routes_of
from tests.server.rows import Rows, all_rows, difference, ids_of, rows_of
from tests.server.two_orgs import HOME, OTHER, Org, TwoOrgs, two_orgs
from tests.server.wire import Inquiry

from redrive.errors import InvalidValueError
from redrive.failures import change_stream as changes
from redrive.policy.access import Permission
from redrive.server.access_control import PUBLIC, AccessRule, may
from redrive.server.api import NOUNS
from redrive.server.app import create_app
from redrive.server.route import GuardedRoute, Routes

LETTERS = 360
"""More letters than the requests of one organization use up."""

PAGED = ("dead-letters", "workflow-dlq", "runs", "jobs", "operations", "groups", "audit", "members", "keys")


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poll for changes many times a second."""
    monkeypatch.setattr(changes, "POLL_SECONDS", 0.2)


def test_every_route_has_an_entry_and_every_entry_a_route() -> None:
    routes = routes_of(create_app(new_app("sqlite://:memory:")))
    assert len(routes) == len(set(routes))
    assert sorted(TABLE) == sorted(routes)


@pytest.mark.parametrize("name", [HOME, OTHER])
async def test_every_route_for_everyone(house: House, name: str) -> None:
    """I8, I14, W12, W13."""
    world = await two_orgs(house, LETTERS)
    own, other = world.orgs[name], world.other(name)
    async with listening(house, other.visitors[0].headers) as stream:
        await _question_everybody(world, own, other)
        await _check_events(stream, own, other)
    for org in world.orgs.values():
        verdict = await (await org.failures()).audit.verify()
        assert verdict.sound, verdict.faults


async def _question_everybody(world: TwoOrgs, own: Org, other: Org) -> None:
    """First send requests that must change nothing, then requests that must change nothing of the other."""
    questioning = MatrixRequests(world, own)
    before = await all_rows(world.house.app)
    await questioning.refusals()
    await questioning.misses()
    assert difference(before, await all_rows(world.house.app)) == []
    missed = len(questioning.responses)
    await questioning.deeds()
    after = await all_rows(world.house.app)
    assert questioning.faults == []
    assert difference(rows_of(before, other.name), rows_of(after, other.name)) == []
    _check_responses(
        b"".join(questioning.responses), b"".join(questioning.responses[missed:]), own, other, before
    )
    assert {200, 201, 202, 204, 401, 403, 404} <= questioning.statuses.keys()


def _check_responses(everything: bytes, by_deeds: bytes, own: Org, other: Org, rows: Rows) -> None:
    """Find neither the other's canary nor its ids, except ids that the caller named.

    The check can fail: it does find the caller's own.
    """
    assert own.canary.encode() in everything
    assert other.canary.encode() not in everything
    for org, told in ((own, True), (other, False)):
        ids = ids_of(rows_of(rows, org.name))
        assert any(each.encode() in by_deeds for each in ids) is told, org.name


async def _check_events(stream: Stream, own: Org, other: Org) -> None:
    """The other organization's stream has been open all the time."""
    letter = other.kept["letter"]
    await (await other.failures()).note(letter, "the last that happens")
    while (event := await stream.next("entry")) is not None and event.data["subjects"] != [letter]:
        pass
    assert letter.encode() in stream.everything
    assert own.canary.encode() not in stream.everything
    rows = rows_of(await all_rows(own.house.app), own.name)
    assert not [each for each in ids_of(rows) if each.encode() in stream.everything]


async def test_the_place_of_another_organizations_list_leads_nowhere(house: House) -> None:
    """I8: a cursor is no credential."""
    world = await two_orgs(house, 12)
    for own, other in ((HOME, OTHER), (OTHER, HOME)):
        theirs = ids_of(rows_of(await all_rows(house.app), other))
        for noun in PAGED:
            path = f"/api/v1/{noun}"
            cursor = (await _asked(world.orgs[other], path, size="1")).json()["next_cursor"]
            assert isinstance(cursor, str), noun
            reply = await _asked(world.orgs[own], path, cursor=cursor)
            assert reply.status in (200, 404, 422), (noun, reply)
            told = reply.everything.replace(cursor.encode(), b"")
            assert world.orgs[other].canary.encode() not in told, noun
            assert not [each for each in theirs if each.encode() in told], noun


async def _asked(org: Org, path: str, **query: str) -> Any:
    owner = next(each for each in org.visitors if (each.kind, each.role) == ("key", "OWNER"))
    return await Inquiry("GET", path, query=query).ask(org.house.api, "127.0.0.1", **owner.headers)


# Do these checks find faults?


@pytest.mark.parametrize(
    ("route", "rule"),
    [
        ("GET /api/v1/keys", PUBLIC),
        ("GET /api/v1/members/{id}", AccessRule(signed_in=True)),
        ("POST /api/v1/workflow-dlq/{id}/replay", may(Permission.NOTE)),
        ("GET /api/v1/settings", may(Permission.MANAGE)),
        ("POST /api/v1/operations", may(Permission.RETRY)),
    ],
)
async def test_another_rule_would_be_noticed(
    small_house: House, monkeypatch: pytest.MonkeyPatch, route: str, rule: AccessRule
) -> None:
    world = await two_orgs(small_house, 24)
    monkeypatch.setitem(_admission(small_house.api, route), "_rule", rule)  # other tests share the routes
    faults = []
    for org in world.orgs.values():
        questioning = MatrixRequests(world, org, only=route)
        await questioning.refusals()
        await questioning.misses()
        faults += questioning.faults
    assert faults
    assert all(each.startswith(route) for each in faults)


async def test_a_leak_between_organizations_would_be_noticed(small_house: House) -> None:
    world = await two_orgs(small_house, 24)
    own, other = world.orgs[HOME], world.orgs[OTHER]
    other.kept = dict(own.kept)  # pretend that the organization can reach the other's rows
    questioning = MatrixRequests(world, own, only="GET /api/v1/dead-letters/{id}")
    await questioning.misses()
    assert any("200" in each for each in questioning.faults)


def _admission(api: FastAPI, name: str) -> dict[str, Any]:
    method, _, path = name.partition(" ")
    [found] = [
        route
        for route in api.router.routes
        if isinstance(route, GuardedRoute) and route.path == path and method in (route.methods or ())
    ]
    return vars(found.app)


async def _forgotten() -> None:
    raise AssertionError


class _Forgetful(Routes):
    """A site with a route that has no rule."""

    def build(self) -> Iterator[Any]:  # type: ignore[override]  # it is cached there
        yield from super().build()
        yield APIRoute("/forgotten", _forgotten)


class _Unruly(Routes):
    """A site with a route that has lost its rule."""

    def build(self) -> Iterator[Any]:  # type: ignore[override]  # it is cached there
        for route in super().build():
            vars(route)["rule"] = None
            yield route


@pytest.mark.parametrize("kind", [_Forgetful, _Unruly])
def test_a_route_without_a_rule_stops_the_server_from_starting(
    monkeypatch: pytest.MonkeyPatch, kind: type[Routes]
) -> None:
    routes = kind("forgotten", "/api/v1/forgotten")
    routes.get("", PUBLIC)(_forgotten)
    monkeypatch.setattr("redrive.server.app.NOUNS", (*NOUNS, routes))
    with pytest.raises(InvalidValueError, match="/forgotten has no access rule"):
        create_app(new_app("sqlite://:memory:"))
