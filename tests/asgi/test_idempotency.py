"""The header Idempotency-Key: executed once, answered identically, and rejected as in the IETF draft (G6)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from random import Random
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import BackgroundTasks, FastAPI
from starlette.middleware import Middleware
from tests.engine.workbench import new_app, seamed
from tests.store.build import ask

from redrive.app import Redrive
from redrive.asgi import IdempotencyMiddleware, Scope
from redrive.asgi.http import Http, Message, Receive, Send
from redrive.clock import SYSTEM_CLOCK
from redrive.parts import rewire
from redrive.policy.codec import JsonLimits
from redrive.store.database import Database

PATIENCE = 60.0
JSON = {"content-type": "application/json"}
SECRET = "canary-of-a-request"

Handle = Callable[[Http, Receive, Send], Awaitable[None]]


def whole(status: int = 201, body: bytes = b'{"id": 7}', *headers: tuple[bytes, bytes]) -> list[Message]:
    return [
        {"type": "http.response.start", "status": status, "headers": list(headers)},
        {"type": "http.response.body", "body": body},
    ]


class Shop:
    """An application that counts its calls. It gives each response in turn, and the last one forever."""

    def __init__(self, *answers: list[Message] | Exception) -> None:
        self.answers = list(answers) or [whole()]
        self.calls = 0
        self.bodies: list[bytes] = []
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def __call__(self, http: Http, receive: Receive, send: Send) -> None:
        self.calls += 1
        self.begun.set()
        self.bodies.append((await receive())["body"])
        await self.go_on.wait()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        for message in answer:
            await send(dict(message))


def user_of(http: Http) -> Scope | None:
    """Return the user in a header, which replaces a session in tests."""
    users = [value.decode() for name, value in http["headers"] if name == b"x-user"]
    return Scope("default", users[0] if users else "ana") if users != ["nobody"] else None


def client_of(app: Any, **options: Any) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app, **options)
    return httpx.AsyncClient(transport=transport, base_url="http://shop")


class World:
    def __init__(self, app: Redrive, database: Database) -> None:
        self.app = app
        self.database = database

    def wrapped(self, shop: Handle, **options: Any) -> IdempotencyMiddleware:
        return IdempotencyMiddleware(shop, self.app, **{"scope_of": user_of, **options})

    def client(self, shop: Handle, *, raises: bool = True, **options: Any) -> httpx.AsyncClient:
        return client_of(self.wrapped(shop, **options), raise_app_exceptions=raises)

    async def statuses(self) -> list[str]:
        return [row[0] for row in await ask(self.database, "SELECT status FROM redrive.idempotency_keys")]


@pytest.fixture
async def world(database: Database) -> AsyncIterator[World]:
    app = new_app()
    rewire(app, database, SYSTEM_CLOCK, Random(7))
    async with asyncio.timeout(PATIENCE):
        yield World(app, database)
    await app.close()


async def order(client: httpx.AsyncClient, key: str | None = '"k"', **request: Any) -> httpx.Response:
    headers = {**request.pop("headers", {})} | ({} if key is None else {"Idempotency-Key": key})
    request = {"method": "POST", "url": "/orders?a=1", "content": b'{"order": 7}', **request}
    return await client.request(headers=headers, **request)


# Once


async def test_a_repeated_request_is_answered_from_the_store(world: World) -> None:
    headers = ((b"Content-Type", b"application/json"), (b"Location", b"/orders/7"), (b"ETag", b'"1"'))
    shop = Shop(whole(201, b'{"id": 7}', *headers, (b"X-Request-Id", b"abc")), whole(500))
    async with world.client(shop) as client:
        first, again = await order(client), await order(client)

    assert (first.status_code, first.content) == (again.status_code, again.content) == (201, b'{"id": 7}')
    assert shop.calls == 1
    assert "idempotency-replayed" not in first.headers
    assert dict(again.headers) == {
        "content-type": "application/json",
        "location": "/orders/7",
        "etag": '"1"',
        "content-length": "9",
        "idempotency-replayed": "true",
    }


@pytest.mark.parametrize(
    "body", [b"", b"gr\xc3\xbc\xc3\x9fe \x00 \xe2\x90\x9b", bytes(range(256)), b"x" * 300_000]
)
async def test_the_body_comes_back_as_it_was(world: World, body: bytes) -> None:
    shop = Shop(whole(200, body))
    async with world.client(shop) as client:
        assert (await order(client)).content == (await order(client)).content == body
    assert shop.calls == 1


async def test_an_answer_without_a_body_comes_back_without_its_length(world: World) -> None:
    async with world.client(Shop(whole(204, b""))) as client:
        await order(client)
        again = await order(client)
    assert (again.status_code, dict(again.headers)) == (204, {"idempotency-replayed": "true"})


async def test_the_application_is_given_the_whole_body(world: World) -> None:
    shop = Shop()

    async def parts() -> AsyncIterator[bytes]:
        for part in (b"one ", b"two ", b"three"):
            yield part

    async with world.client(shop) as client:
        await order(client, content=parts())
    assert shop.bodies == [b"one two three"]


async def test_a_hundred_duplicates_at_once_are_executed_once(world: World) -> None:
    shop = Shop()
    async with world.client(shop) as client:
        answers = await asyncio.gather(*(order(client) for _ in range(100)))

    assert shop.calls == 1
    assert {each.status_code for each in answers} <= {201, 409}
    assert 201 in {each.status_code for each in answers}


async def test_nothing_of_the_request_is_stored_i9(world: World) -> None:
    async with world.client(Shop()) as client:
        await order(client, content=SECRET.encode(), url=f"/{SECRET}?q={SECRET}")
    rows = await ask(world.database, "SELECT * FROM redrive.idempotency_keys")
    assert len(rows) == 1
    assert SECRET not in repr(rows)


@pytest.mark.parametrize("key", [None, '"k"'])
async def test_other_methods_and_requests_without_a_key_are_passed_on(world: World, key: str | None) -> None:
    shop = Shop()
    async with world.client(shop, methods=("PUT",)) as client:
        await order(client, key)
        await order(client, key)
    assert shop.calls == 2
    assert await world.statuses() == []


# Scopes of keys


async def test_an_answer_is_not_returned_to_another_caller_i8(world: World) -> None:
    shop = Shop(whole(200, b"for ana"), whole(200, b"for bob"))
    async with world.client(shop) as client:
        assert (await order(client, headers={"x-user": "ana"})).content == b"for ana"
        bob = await order(client, headers={"x-user": "bob"})
        assert (bob.content, "idempotency-replayed" in bob.headers) == (b"for bob", False)
        assert (await order(client, headers={"x-user": "ana"})).content == b"for ana"


async def test_an_answer_is_not_returned_to_another_organization_i8(world: World) -> None:
    shop = Shop(whole(200, b"for acme"), whole(200, b"for other"))

    def scope_of(http: Http) -> Scope:
        return Scope(dict(http["headers"])[b"x-org"].decode(), "ana")

    async with world.client(shop, scope_of=scope_of) as client:
        assert (await order(client, headers={"x-org": "acme"})).content == b"for acme"
        assert (await order(client, headers={"x-org": "other"})).content == b"for other"


async def test_a_request_without_a_scope_is_passed_on(world: World) -> None:
    shop = Shop()
    async with world.client(shop, required=True) as client:
        for _ in range(2):
            assert (await order(client, headers={"x-user": "nobody"})).status_code == 201
    assert shop.calls == 2


# Rejections


def problem(answer: httpx.Response) -> tuple[int, str]:
    content = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert content["status"] == answer.status_code
    assert content["type"] == f"urn:redrive:problem:{content['code']}"
    assert content["title"]
    assert content["detail"]
    assert content["hint"]
    return answer.status_code, content["code"]


@pytest.mark.parametrize(
    "change",
    [
        {"content": b'{"order": 8}'},
        {"url": "/orders?a=2"},
        {"url": "/others?a=1"},
        {"method": "PATCH"},
        {"headers": {"content-type": "text/plain"}},
    ],
    ids=lambda change: next(iter(change)),
)
async def test_another_request_under_the_same_key_is_refused(world: World, change: dict[str, Any]) -> None:
    shop = Shop()
    async with world.client(shop) as client:
        await order(client)
        assert problem(await order(client, **change)) == (422, "key_reused")
    assert shop.calls == 1


async def test_while_it_executes_other_requests_get_a_retry_hint(world: World) -> None:
    shop = Shop()
    shop.go_on.clear()
    async with world.client(shop) as client:
        first = asyncio.create_task(order(client))
        await shop.begun.wait()
        busy = await order(client)
        shop.go_on.set()
        assert (await first).status_code == 201
        assert (await order(client)).headers["idempotency-replayed"] == "true"

    assert problem(busy) == (409, "in_progress")
    assert busy.headers["retry-after"] == "1"


@pytest.mark.parametrize(
    ("key", "same_as"),
    [
        ('"k"', "k"),
        ("k", '"k"'),
        ('  "k"  ', '"k"'),
        (r'"a\"b\\c"', None),
        ("8e03978e-40d5-43dd-bc93-6894a57f9324", '"8e03978e-40d5-43dd-bc93-6894a57f9324"'),
        ("orders:ana:7:charge:1", None),
        ('"with blanks, commas; and more"', None),
        ('"' + "x" * 255 + '"', "x" * 255),
    ],
)
async def test_keys_that_are_taken(world: World, key: str, same_as: str | None) -> None:
    shop = Shop()
    async with world.client(shop) as client:
        assert (await order(client, key)).status_code == 201
        assert (await order(client, same_as or key)).headers["idempotency-replayed"] == "true"
    assert shop.calls == 1


@pytest.mark.parametrize(
    "key",
    [
        "",
        '""',
        '"k',
        'k"',
        '"a" "b"',
        "a b",
        "a,b",
        '"k";x=1',
        '"a\\b"',
        '"' + "x" * 256 + '"',
        "x" * 256,
        '"\t"',
    ],
)
async def test_keys_that_are_malformed(world: World, key: str) -> None:
    shop = Shop()
    async with world.client(shop) as client:
        assert problem(await order(client, key)) == (400, "key_malformed")
    assert shop.calls == 0


async def test_keys_beyond_ascii_and_several_keys_are_malformed(world: World) -> None:
    shop = Shop()
    async with world.client(shop) as client:
        for headers in (
            [(b"idempotency-key", b'"gr\xfcn"')],
            [(b"idempotency-key", b"a"), (b"idempotency-key", b"a")],
        ):
            assert problem(await client.post("/orders", headers=headers)) == (400, "key_malformed")
    assert shop.calls == 0


async def test_a_missing_key_is_refused_where_it_is_required(world: World) -> None:
    shop = Shop()
    async with world.client(shop, required=True) as client:
        assert problem(await order(client, None)) == (400, "key_missing")
        assert (await client.get("/orders")).status_code == 201
    assert shop.calls == 1


async def test_a_body_beyond_the_bound_is_refused(world: World) -> None:
    shop = Shop()

    async def unannounced() -> AsyncIterator[bytes]:
        for _ in range(5):
            yield b"xx"

    async with world.client(shop, max_body_bytes=9) as client:
        assert (await order(client, content=b"x" * 9)).status_code == 201
        assert problem(await order(client, "other", content=b"x" * 10)) == (413, "body_too_large")
        assert problem(await order(client, "other", content=unannounced())) == (413, "body_too_large")
    assert shop.calls == 1


async def test_without_the_database_no_request_executes() -> None:
    shop = Shop()
    async with seamed(new_app()) as (test, seam):
        await test._app.open()
        seam.fail("acquire", times=4)
        async with client_of(IdempotencyMiddleware(shop, test._app, scope_of=user_of)) as client:
            assert problem(await order(client)) == (503, "database")
            assert shop.calls == 0
            assert (await order(client)).status_code == 201


# Stored and unstored responses


@pytest.mark.parametrize("status", [200, 202, 204, 301, 400, 404, 410, 422])
async def test_answers_that_are_kept(world: World, status: int) -> None:
    shop = Shop(whole(status, b""), whole(299, b""))
    async with world.client(shop) as client:
        assert (await order(client)).status_code == (await order(client)).status_code == status
    assert await world.statuses() == ["completed"]


@pytest.mark.parametrize("status", [401, 403, 408, 409, 425, 429, 500, 502, 503])
async def test_answers_that_release_the_key(world: World, status: int) -> None:
    shop = Shop(whole(status), whole(201))
    async with world.client(shop) as client:
        assert (await order(client)).status_code == status
        assert await world.statuses() == []
        assert (await order(client, content=b"corrected")).status_code == 201
    assert shop.calls == 2


async def test_a_crash_of_the_application_releases_the_key(world: World) -> None:
    shop = Shop(ValueError("a bug"), whole(201))
    async with world.client(shop) as client:
        with pytest.raises(ValueError, match="a bug"):
            await order(client)
        assert await world.statuses() == []
        assert (await order(client)).status_code == 201


async def test_an_answer_that_is_not_finished_releases_the_key(world: World) -> None:
    unfinished = [whole()[0], {"type": "http.response.body", "body": b"so far", "more_body": True}]
    app = world.wrapped(Shop(unfinished, whole(201)))
    sent = await spoken_to(app)
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert await world.statuses() == []


async def test_cancellation_releases_the_key(world: World) -> None:
    shop = Shop()
    shop.go_on.clear()
    async with world.client(shop) as client:
        first = asyncio.create_task(order(client))
        await shop.begun.wait()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
    assert await world.statuses() == []


async def test_a_cookie_is_never_kept_and_the_request_not_executed_again(world: World) -> None:
    shop = Shop(whole(200, b"welcome", (b"Set-Cookie", b"session=canary")))
    async with world.client(shop) as client:
        assert (await order(client)).headers["set-cookie"] == "session=canary"
        again = await order(client)

    assert problem(again) == (409, "answer_not_kept")
    assert "sets a cookie" in again.json()["detail"]
    assert shop.calls == 1
    assert "canary" not in repr(await ask(world.database, "SELECT * FROM redrive.idempotency_keys"))


@pytest.mark.parametrize("answer", [b"x" * 2_000, b"\x00" * 900])
async def test_an_answer_too_large_to_be_kept_is_sent_and_the_request_not_executed_again(
    database: Database, answer: bytes
) -> None:
    app = new_app(limits=JsonLimits(size=1_024))
    rewire(app, database, SYSTEM_CLOCK, Random(7))
    shop = Shop(whole(200, answer))
    async with World(app, database).client(shop) as client:
        assert (await order(client)).content == answer
        again = await order(client)

    assert problem(again) == (409, "answer_not_kept")
    assert "status 200" in again.json()["detail"]
    assert shop.calls == 1
    await app.close()


# Byte for byte


async def spoken_to(
    app: IdempotencyMiddleware, *, send: Send | None = None, extensions: dict[str, Any] | None = None
) -> list[Message]:
    """Return the messages that the application sends."""
    sent: list[Message] = []
    requests: list[Message] = [{"type": "http.request", "body": b"{}", "more_body": False}]

    async def receive() -> Message:
        return requests.pop() if requests else {"type": "http.disconnect"}

    async def keep(message: Message) -> None:
        sent.append(message)
        if send is not None:
            await send(message)

    http = {
        "type": "http",
        "method": "POST",
        "path": "/orders",
        "query_string": b"",
        "headers": [(b"idempotency-key", b'"k"')],
        "extensions": extensions or {},
    }
    await app(http, receive, keep)
    return sent


async def test_parts_are_passed_on_as_they_come_and_the_end_when_it_is_stored(world: World) -> None:
    statuses: list[list[str]] = []

    async def look(message: Message) -> None:
        statuses.append(await world.statuses())

    parts = [{"type": "http.response.body", "body": part, "more_body": True} for part in (b"one ", b"two ")]
    shop = Shop([whole()[0], *parts, {"type": "http.response.body", "body": b"three"}])
    sent = await spoken_to(world.wrapped(shop), send=look)

    assert [message.get("body") for message in sent] == [None, b"one ", b"two ", b"three"]
    assert statuses == [["processing"]] * 3 + [["completed"]]
    replayed = await spoken_to(world.wrapped(shop))
    assert replayed[1]["body"] == b"one two three"


async def test_a_client_that_has_gone_finds_the_answer_when_it_comes_again(world: World) -> None:
    async def gone(message: Message) -> None:
        raise OSError("the client is gone")

    parts: list[Message] = [{"type": "http.response.body", "body": b"one ", "more_body": True}]
    shop = Shop([whole()[0], *parts, {"type": "http.response.body", "body": b"two"}])
    await spoken_to(world.wrapped(shop), send=gone)

    assert (await spoken_to(world.wrapped(shop)))[1]["body"] == b"one two"
    assert shop.calls == 1


async def test_an_endless_answer_ends_with_its_client(database: Database) -> None:
    app = new_app(limits=JsonLimits(size=1_024))
    rewire(app, database, SYSTEM_CLOCK, Random(7))
    world = World(app, database)

    async def gone(message: Message) -> None:
        raise OSError("the client is gone")

    async def endless(http: Http, receive: Receive, send: Send) -> None:
        await send(whole()[0])
        while True:
            await send({"type": "http.response.body", "body": b"x" * 100, "more_body": True})

    with pytest.raises(OSError, match="gone"):
        await spoken_to(world.wrapped(endless), send=gone)
    assert await world.statuses() == []
    await app.close()


async def test_a_client_that_disconnects_before_its_request_is_complete_leaves_nothing_behind(
    world: World,
) -> None:
    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        raise AssertionError("nobody is there")

    http = {"type": "http", "method": "POST", "path": "/", "headers": [(b"idempotency-key", b"k")]}
    shop = Shop()
    await world.wrapped(shop)(http, receive, send)
    assert shop.calls == 0
    assert await world.statuses() == []


async def test_no_answer_passes_unseen(world: World) -> None:
    offered: list[dict[str, Any]] = []

    async def shop(http: Http, receive: Receive, send: Send) -> None:
        offered.append(http["extensions"])
        for message in whole():
            await send(message)

    extensions: dict[str, Any] = {"http.response.pathsend": {}, "http.response.trailers": {}, "tls": {}}
    await spoken_to(world.wrapped(shop), extensions=extensions)
    assert offered == [{"tls": {}}]


async def test_websockets_and_lifespans_are_passed_on() -> None:
    seen: list[str] = []

    async def app(http: Http, receive: Receive, send: Send) -> None:
        seen.append(http["type"])

    wrapped = IdempotencyMiddleware(app, new_app(), scope_of=user_of, required=True)
    for kind in ("lifespan", "websocket"):
        await wrapped({"type": kind, "headers": []}, None, None)  # type: ignore[arg-type]
    assert seen == ["lifespan", "websocket"]


# Lost keys


async def test_a_caller_that_lost_the_key_sends_no_answer_i4(world: World) -> None:
    shop, other = Shop(whole(201, b"mine")), Shop(whole(201, b"theirs"))
    shop.go_on.clear()
    async with world.client(shop) as first, world.client(other) as second:
        slow = asyncio.create_task(order(first))
        await shop.begun.wait()
        await ask(world.database, "UPDATE redrive.idempotency_keys SET lease_expires_at = 0")
        assert (await order(second)).content == b"theirs"
        shop.go_on.set()
        lost = await slow

        assert problem(lost) == (409, "in_progress")
        assert lost.headers["retry-after"] == "1"
        assert (await order(first)).content == b"theirs"


async def test_a_holder_that_cannot_renew_is_stopped_and_its_client_asked_to_repeat(world: World) -> None:
    shop = Shop()
    shop.go_on.clear()
    async with world.client(shop, lease_seconds=1.0) as client:
        slow = asyncio.create_task(order(client))
        await shop.begun.wait()
        await ask(
            world.database, "UPDATE redrive.idempotency_keys SET token = token + 1, lease_expires_at = 0"
        )
        assert problem(await slow) == (409, "in_progress")


async def test_durations_can_be_timedeltas() -> None:
    ttl, lease = timedelta(minutes=1), timedelta(seconds=30)
    async with seamed(new_app()) as (test, _):
        middleware = IdempotencyMiddleware(Shop(), test._app, scope_of=user_of, ttl=ttl, lease_seconds=lease)
        async with client_of(middleware) as client:
            first, again = await order(client), await order(client)
            test.clock.advance(61.0)
            later = await order(client)
    replayed = [answer.headers.get("idempotency-replayed") for answer in (first, again, later)]
    assert replayed == [None, "true", None]


async def test_when_the_answer_cannot_be_stored_the_client_is_given_it_nevertheless() -> None:
    async with seamed(new_app()) as (test, seam):
        seam.fail("complete_if_held", times=4)
        async with client_of(IdempotencyMiddleware(Shop(), test._app, scope_of=user_of)) as client:
            assert (await order(client)).status_code == 201
            assert problem(await order(client)) == (409, "in_progress")


# With a framework, and a real server


def new_shop(app: Redrive, calls: list[int], done: asyncio.Event, go_on: asyncio.Event) -> FastAPI:
    middleware = Middleware(IdempotencyMiddleware, redrive=app, scope_of=lambda _http: Scope())
    shop = FastAPI(middleware=[middleware])

    async def afterwards() -> None:
        await go_on.wait()
        done.set()

    @shop.post("/orders", status_code=201)
    async def place(order: dict[str, int], background: BackgroundTasks) -> dict[str, int]:
        calls.append(order["order"])
        background.add_task(afterwards)
        return {"id": len(calls)}

    return shop


@asynccontextmanager
async def listening(app: Any) -> AsyncIterator[str]:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        door.listen()
        config = uvicorn.Config(app, lifespan="off", log_config=None, ws="none")
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server._serve([door]))
        try:
            yield f"http://127.0.0.1:{door.getsockname()[1]}"
        finally:
            server.should_exit = True
            await serving


async def test_behind_a_real_server_the_answer_does_not_wait_for_background_tasks(world: World) -> None:
    calls: list[int] = []
    done, go_on = asyncio.Event(), asyncio.Event()
    async with listening(new_shop(world.app, calls, done, go_on)) as url, httpx.AsyncClient() as client:
        headers = {"Idempotency-Key": '"k"'}
        first = await client.post(f"{url}/orders", json={"order": 7}, headers=headers)
        assert not done.is_set()
        async with httpx.AsyncClient() as other:
            again = await other.post(f"{url}/orders", json={"order": 7}, headers=headers)
        go_on.set()
        await done.wait()

    assert (first.status_code, first.json()) == (again.status_code, again.json()) == (201, {"id": 1})
    assert again.headers["idempotency-replayed"] == "true"
    assert calls == [7]


async def test_a_real_client_that_hangs_up_finds_the_answer_when_it_comes_again(world: World) -> None:
    shop = Shop()
    shop.go_on.clear()
    async with listening(world.wrapped(shop)) as url:
        _, writer = await asyncio.open_connection(*url.removeprefix("http://").split(":"))
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Length: 2\r\n\r\n{}")
        await writer.drain()
        await shop.begun.wait()
        writer.close()
        await writer.wait_closed()
        shop.go_on.set()
        async with httpx.AsyncClient() as client:
            headers = {"Idempotency-Key": "k"}
            while (again := await client.post(url, content=b"{}", headers=headers)).status_code == 409:
                pass
    assert again.headers["idempotency-replayed"] == "true"
    assert shop.calls == 1
