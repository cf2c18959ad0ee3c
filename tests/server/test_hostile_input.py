"""Malicious input: none of it causes a 5xx response, and the server can read back what it stored (input)."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from tests.server.hostile import changes, with_names
from tests.server.house import ORIGIN, House, new_app, served

from redrive.parts import parts_of

JSON = {"Content-Type": "application/json"}
RUNS, LETTERS = "/api/v1/runs", "/api/v1/dead-letters"


def starting(payload: bytes) -> bytes:
    return b'{"work": "greet", "payload": ' + payload + b"}"


REFUSED = {
    "the same field twice": starting(b'1, "payload": {"last": "wins"}'),
    "not JSON at all": b"work=greet",
    "nothing": b"",
    "null": b"null",
    "a list": b'["greet"]',
    "a text": b'"greet"',
    "cut off": b'{"work": "greet"',
    "two of them": b'{"work": "greet"}{"work": "greet"}',
    "a comma too many": b'{"work": "greet",}',
    "a comment": b'{"work": "greet" /* why */}',
    "single quotes": b"{'work': 'greet'}",
    "not UTF-8": starting(b'"\xff\xfe"'),
    "overlong": starting(b'"\xc0\xaf"'),
    "deeper than anything": starting(b"[" * 100_000 + b"]" * 100_000),
    "deep objects": starting(b'{"a":' * 50_000 + b"1" + b"}" * 50_000),
    "deeper than the codec": starting(b"[" * 200 + b"]" * 200),
    "a million digits": starting(b"9" * 1_000_000),
    "4,301 digits": starting(b"9" * 4_301),
    "a million digits where a number belongs": b'{"work": "greet", "priority": ' + b"9" * 1_000_000 + b"}",
    "NaN": starting(b"NaN"),
    "Infinity": starting(b"[Infinity]"),
    "minus Infinity": starting(b'{"a": -Infinity}'),
    "beyond a float": starting(b"1e999"),
    "NaN seconds": b'{"work": "greet", "delay_seconds": NaN}',
    "endless seconds": b'{"work": "greet", "delay_seconds": 1e400}',
    "a half in a name": b'{"work": "\\ud800"}',
    "a half in a tag": b'{"work": "greet", "tags": ["\\ud800"]}',
    "NUL in a name": b'{"work": "gr\\u0000eet"}',
    "NUL in a correlation id": b'{"work": "greet", "correlation_id": "a\\u0000b"}',
    "a moment in another calendar": b'{"work": "greet", "at": "0000-00-00T00:00:00Z"}',
    "a moment at the end of time": b'{"work": "greet", "at": "9999-12-31T23:59:59-14:00"}',
    "a moment before time": b'{"work": "greet", "at": "0001-01-01T00:00:00+14:00"}',
    "more tags than allowed": json.dumps({"work": "greet", "tags": ["t"] * 51}).encode(),
    "a tag too long": json.dumps({"work": "greet", "tags": ["t" * 101]}).encode(),
    "a gigantic list": starting(b"[" + b"0," * 500_000 + b"0]"),
}
TAKEN = {
    "a mark of the order of bytes": b"\xef\xbb\xbf" + starting(b"1"),
    "half of a character": starting(b'"\\ud800 and \\udfff"'),
    "half of a character, in bytes": starting(b'"\xed\xa0\x80"'),
    "halves as names": starting(b'{"\\ud800": 1, "\\udfff": "\\ud83d"}'),
    "NUL": starting(b'"a\\u0000b"'),
    "NUL in a name of a field": starting(b'{"a\\u0000b": 1}'),
    "more than 64 bits": starting(
        b"[18446744073709551616, -9223372036854775809, 123456789012345678901234567890]"
    ),
    "a number of 300 digits": starting(b"9" * 300),
    "a tiny number": starting(b"1e-400"),
    "fields of other languages": starting(b'{"__proto__": {"a": 1}, "__class__": "x", "$ref": "#", "": ""}'),
    "control characters": starting(b'"\\u0001\\u001b[31m\\u007f\\u0085\\u2028\\ufeff"'),
    "as deep as allowed": starting(b"[" * 60 + b"]" * 60),
    "a half in metadata": b'{"work": "greet", "metadata": {"\\udc00": "\\ud800"}}',
}


@pytest.fixture
async def owner(house: House) -> httpx.AsyncClient:
    return await house.keyed()


def sound(answer: httpx.Response) -> bool:
    """Check that every client can read the response, and return its status."""
    text = answer.content.decode("utf-8")
    if answer.headers.get("content-type", "").startswith("text/html"):
        return answer.status_code < 500 and text.endswith("</html>")
    return answer.status_code < 500 and (not text or answer.json() is not None)


async def test_values_that_cannot_be_stored_are_rejected(house: House, owner: httpx.AsyncClient) -> None:
    for name, body in REFUSED.items():
        answer = await owner.post(RUNS, content=body, headers=JSON)
        assert answer.status_code in (400, 413, 422), (name, answer.text)
        assert answer.json()["code"], name
        assert len(answer.content) < 10_000, name
    assert (await owner.get(RUNS)).json()["items"] == []


async def test_accepted_values_execute_and_can_be_read(house: House, owner: httpx.AsyncClient) -> None:
    for name, body in TAKEN.items():
        for work in (b'"greet"', b'"charge"'):
            answer = await owner.post(RUNS, content=body.replace(b'"greet"', work), headers=JSON)
            assert answer.status_code == 202, (name, answer.text)
    assert await house.work() >= 2 * len(TAKEN)
    listed = (await owner.get(RUNS, params={"size": 100})).json()["items"]
    assert {each["state"] for each in listed} == {"SUCCESS", "DLQ_PENDING"}
    for run in listed:
        for look in ("", "/steps", "/attempts", "/events"):
            assert sound(await owner.get(f"{RUNS}/{run['id']}{look}")), run
    for letter in (await owner.get(LETTERS, params={"size": 100})).json()["items"]:
        for look in ("", "/payload", "/attempts", "/history", "/verdict"):
            assert sound(await owner.get(f"{LETTERS}/{letter['id']}{look}")), letter
        revealed = await owner.post(f"{LETTERS}/{letter['id']}/reveal", json={"reason": "to see"})
        assert revealed.status_code == 200, revealed.text


IDS = (
    "x",
    "..",
    "%2e%2e",
    "%2F",
    "..%2f..%2fetc%2fpasswd",
    "%00",
    "a%00b",
    "%ff",
    "%ed%a0%80",
    "%F0%9F%92%A9",
    "%E2%80%AE",
    "0",
    "-1",
    "null",
    "'%20OR%20'1'='1",
    "%25",
    "%25%25",
    "_",
    "*",
    "a" * 201,
    "a" * 2_000,
    "%61" * 600,
    "a" * 10_000,
    "1a1e14e44570002195e827c86c95967b%20",
    "{id}",
    "%0d%0aSet-Cookie:%20x=1",
)


@pytest.mark.parametrize("identifier", IDS)
async def test_an_invalid_id_is_not_found(house: House, identifier: str) -> None:
    """Every route with an id returns 404, or 422 if the length of the id is wrong."""
    owner = await house.keyed()
    for noun in (
        "runs",
        "jobs",
        "dead-letters",
        "groups",
        "operations",
        "replays",
        "keys",
        "members",
        "breakers",
    ):
        answer = await owner.get(httpx.URL(f"http://localhost:8400/api/v1/{noun}/{identifier}"))
        assert answer.status_code in (404, 405, 414, 422), (noun, answer.text)
        assert sound(answer)
        assert "set-cookie" not in answer.headers


async def test_no_change_of_a_strange_id_fails_inside(house: House) -> None:
    owner = await house.keyed()
    for method, route in changes(house):
        for identifier in ("a%00b", "%ed%a0%80", "%F0%9F%92%A9"):
            path = with_names(route.path, identifier)
            for body in ({}, {"reason": "x"}, {"ids": ["\x00", "\ud800"]}, {"query": "\x00", "expect": 1}):
                answer = await owner.request(
                    method, path, content=json.dumps(body).encode(), headers={**JSON, **ORIGIN}
                )
                assert sound(answer), (method, path, body, answer.text)
    assert (await owner.get("/api/v1/session")).status_code in (200, 401)


BOUNDS: tuple[tuple[str, str, int, int], ...] = (
    (RUNS, "size", 1, 500),
    (LETTERS, "size", 1, 500),
    ("/api/v1/groups", "size", 1, 500),
    ("/api/v1/operations", "size", 1, 500),
    ("/api/v1/audit", "size", 1, 500),
    ("/api/v1/keys", "size", 1, 500),
    ("/api/v1/members", "size", 1, 500),
    ("/api/v1/organizations", "size", 1, 500),
)


@pytest.mark.parametrize(("path", "name", "least", "most"), BOUNDS)
async def test_a_number_beyond_its_bounds_is_refused(
    small_house: House, path: str, name: str, least: int, most: int
) -> None:
    owner = await small_house.keyed()

    async def asked(value: Any) -> int:
        return (await owner.get(path, params={name: value})).status_code

    assert [await asked(each) for each in (least, least + 1, most - 1, most)] == [200] * 4
    strange = (least - 1, most + 1, -1, 10**30, "9" * 5_000, "1e2", "0x10", "1.5", "nan", "", " ", "١", "1_0")
    for value in strange:
        if await asked(value) == 200:
            assert str(value) in ("1e2", "١", "1_0", " ")  # other spellings of allowed numbers
        else:
            assert await asked(value) in (414, 422), value


async def test_lists_have_bounds(small_house: House) -> None:
    owner = await small_house.keyed()
    letter = await small_house.dead_letter()
    cases: tuple[tuple[str, dict[str, Any], int], ...] = (
        (f"{RUNS}/many", {"work": "greet", "payloads": []}, 422),
        (f"{RUNS}/many", {"work": "greet", "payloads": [1] * 1_000}, 202),
        (f"{RUNS}/many", {"work": "greet", "payloads": [1] * 1_001}, 422),
        (f"{RUNS}/many", {"work": "greet", "payloads": [1, 2], "keys": ["a"]}, 422),
        (f"{RUNS}/many", {"work": "greet", "payloads": [1, 2], "keys": ["a", "a"]}, 422),
        (f"{LETTERS}/resolve", {"ids": []}, 422),
        (f"{LETTERS}/resolve", {"ids": [letter] * 10_001}, 422),
        (f"{LETTERS}/resolve", {"ids": [""]}, 422),
        (f"{LETTERS}/resolve", {"query": "is:open", "expect": 0}, 422),
        (f"{LETTERS}/{letter}/tags", {"add": ["t" * 101]}, 422),
        (f"{LETTERS}/{letter}/tags", {"add": [f"t{number}" for number in range(51)]}, 422),
        (f"{LETTERS}/{letter}/notes", {"text": "n" * 10_000}, 201),
        (f"{LETTERS}/{letter}/notes", {"text": "n" * 10_001}, 422),
        (f"{LETTERS}/{letter}/notes", {"text": " "}, 422),
        (f"{LETTERS}/{letter}/resolve", {"reason": "r" * 2_001}, 422),
        (f"{LETTERS}/{letter}/resolve", {"reason": "r" * 2_000}, 200),
    )
    for path, body, status in cases:
        answer = await owner.post(path, json=body)
        assert answer.status_code == status, (path, str(body)[:100], answer.text)


async def test_a_span_of_dates_has_bounds(small_house: House) -> None:
    owner = await small_house.keyed()
    days = parts_of(small_house.app).settings.server_span_days
    cases = {
        ("2030-01-01T00:00:00Z", "2030-01-02T00:00:00Z"): 200,
        ("2028-01-01T00:00:00Z", f"{2028 + days // 366}-01-01T00:00:00Z"): 200,
        ("2028-01-01T00:00:00Z", "2040-01-01T00:00:00Z"): 422,
        ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"): 422,
        ("9999-12-31T23:59:59-14:00", "9999-12-31T23:59:59-14:00"): 200,
        ("2030-01-01T00:00:00", "2030-01-02T00:00:00Z"): 422,
        ("2030-13-01T00:00:00Z", "2030-01-02T00:00:00Z"): 422,
        ("1e400", "1"): 422,
        ("9" * 400, "1"): 422,
    }
    for (since, until), status in cases.items():
        answer = await owner.get("/api/v1/audit", params={"since": since, "until": until})
        assert answer.status_code == status, (since, until, answer.text)


WORDS = (
    "is:",
    "open",
    "-",
    '"',
    "\\",
    ":",
    ">",
    "3",
    "since:",
    "2h",
    "fp:",
    "(",
    ")",
    "OR",
    "%",
    "_",
    "*",
    "'",
    ";--",
)


@given(
    some.one_of(
        some.text(max_size=60),
        some.lists(some.sampled_from(WORDS), max_size=12).map("".join),
        some.text("\x00 :\"'\\%"),
    )
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_no_query_fails_inside(query: str) -> None:
    """Every text in a search box finds something, or gets an explanation."""
    async with served(new_app("sqlite://:memory:")) as house:
        await _search(await house.keyed(), query)


async def test_no_hostile_query_fails_inside_on_either_database(house: House) -> None:
    owner = await house.keyed()
    await house.dead_letter({"a": 1})
    for query in (
        "\x00",
        '"\x00"',
        "a" * 2_000,
        "is:open " * 220,
        "(" * 500,
        '"' * 501,
        "\\" * 501,
        "%",
        "_",
        "' OR 1=1 --",
        "fp:%",
        "since:99999999999999999999d",
        "since:-1h",
        "attempts:>9999999999999999999999",
        "attempts:>-1",
        "attempts:>1e309",
        "attempts:>nan",
        "step:\U0001f4a9",
        "tag:" + "x" * 500,
        "is:open,is:open",
        "is:any is:none",
        "\u202e",
    ):
        await _search(owner, query)


async def _search(owner: httpx.AsyncClient, query: str) -> None:
    typed = query.encode("utf-8", "surrogatepass")
    for path in (RUNS, LETTERS, f"{RUNS}/count", f"{LETTERS}/count"):
        answer = await owner.get(f"{path}?q={quote(typed)}")
        assert answer.status_code in (200, 414, 422), (path, query, answer.text)
        assert sound(answer)
    for cursor in (query[:400], "eyJhIjoxfQ", "1:2:3", "-1", "9" * 400):
        answer = await owner.get(f"{LETTERS}?cursor={quote(cursor.encode('utf-8', 'surrogatepass'))}")
        assert answer.status_code in (200, 422), (cursor, answer.text)


async def test_headers_that_are_no_text_are_refused(small_house: House) -> None:
    """This holds for every sequence of bytes."""
    owner = await small_house.keyed()
    for name in (
        b"Authorization",
        b"Cookie",
        b"Idempotency-Key",
        b"X-Request-Id",
        b"Origin",
        b"If-Match",
        b"Host",
    ):
        for value in (b"\xff\xfe", "é".encode(), b"\x01", b"a" * 8_000, b"", b'"', b"=;=;", b"Bearer \xff"):
            client = small_house.client() if name == b"Authorization" else owner
            answer = await client.post(RUNS, content=b'{"work": "greet"}', headers=[*_json(), (name, value)])
            assert sound(answer), (name, value, answer.text)
            assert answer.status_code != 500


def _json() -> list[tuple[bytes, bytes]]:
    return [(b"Content-Type", b"application/json")]
