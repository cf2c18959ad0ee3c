"""Signing in with an OpenID provider: a real one, and one that lies (security baseline, W12, I9)."""

from __future__ import annotations

import gzip
import logging
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest
import pytest_asyncio
from joserfc.jwk import Key, OctKey, RSAKey
from tests.server import faulty_provider as faulty_module
from tests.server.faulty_provider import FaultyProvider, faulty_provider
from tests.server.house import BASE, House, new_app, served
from tests.server.openid_browser import Browser, signed_in_there
from tests.server.openid_provider import SECRET, OpenIdProvider, openid_provider
from tests.servers import PostgresServer

from redrive.errors import InvalidValueError
from redrive.identity.oidc import connection
from redrive.parts import parts_of
from redrive.server.app import create_app
from redrive.server.site import Site, provider_of

ANA = "ana@example.com"
pytestmark = pytest.mark.asyncio(loop_scope="module")

Serve = Callable[..., AbstractAsyncContextManager[House]]


@pytest.fixture(scope="module")
def openid() -> Iterator[OpenIdProvider]:
    with openid_provider() as provider:
        yield provider


@pytest.fixture(scope="module")
def liar() -> Iterator[FaultyProvider]:
    with faulty_provider() as provider:
        yield provider


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    return lambda **settings: served(new_app(f"sqlite:///{tmp_path}/work.db", **settings))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lasting_house(
    liar: FaultyProvider, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[House]:
    url = f"sqlite:///{tmp_path_factory.mktemp('oidc')}/work.db"
    names = {"oidc_client_id": faulty_module.CLIENT, "oidc_client_secret": faulty_module.SECRET}
    async with served(new_app(url, oidc_issuer=liar.issuer, **names)) as house:
        yield house


@pytest_asyncio.fixture(loop_scope="module")
async def ana(lasting_house: House) -> str:
    """Add a new member."""
    name = f"ana.{parts_of(lasting_house.app).ids.new()}@example.com"
    await add(lasting_house, name)
    return name


@pytest.fixture
def faulty(liar: FaultyProvider, ana: str) -> FaultyProvider:
    """A provider that is honest until the test changes it; Ana has signed in there."""
    liar.reset(ana)
    return liar


@pytest.fixture
def house(lasting_house: House) -> House:
    """A served application that has not yet contacted the provider."""
    site: Site = lasting_house.api.state.site
    site.oidc = provider_of(lasting_house.app)
    return lasting_house


@pytest_asyncio.fixture(loop_scope="module")
async def schema(live_postgres: PostgresServer) -> AsyncIterator[str]:
    """A new PostgreSQL schema, appended to the address of the server."""
    name = f"test_{uuid.uuid4().hex}"
    yield f"{live_postgres.url}#{name}"
    connection = await asyncpg.connect(live_postgres.url)
    await connection.execute(f"DROP SCHEMA {name} CASCADE; DROP ROLE IF EXISTS {name}_redrive_tenant")
    await connection.close()


def settings_of(openid: OpenIdProvider, client: str = "by-header") -> dict[str, Any]:
    secret = {} if client == "public" else {"oidc_client_secret": SECRET}
    return {"oidc_issuer": openid.issuer, "oidc_client_id": client, **secret}


async def add(house: House, name: str, role: str = "STAFF") -> None:
    await house.app.members().add(name, role)


async def sign_in(browser: Browser, provider: FaultyProvider, **parameters: str) -> Any:
    state = provider.meet(await browser.begin())
    return await browser.returns(**{"state": state, "code": "a-code", **parameters})


# A real provider


@pytest.mark.parametrize("client", ["by-header", "by-form", "public"])
async def test_a_member_signs_in_at_a_real_provider(
    openid: OpenIdProvider, serve: Serve, client: str
) -> None:
    """With every client authentication that providers ask for, and characters that need encoding."""
    async with serve(**settings_of(openid, client)) as house:
        await add(house, ANA)
        browser = Browser(house)
        back = await signed_in_there(await browser.begin("/app/admin/dlq?q=is:open"), "ana")
        answer = await browser.returns(**back)
        assert (answer.status_code, answer.headers["location"]) == (303, "/app/admin/dlq?q=is:open")
        assert await browser.who() == ANA


async def test_it_works_on_postgresql_and_without_a_next_page(openid: OpenIdProvider, schema: str) -> None:
    url, name = schema.split("#")
    async with served(new_app(url, name, **settings_of(openid))) as house:
        await add(house, ANA)
        browser = Browser(house)
        for _ in range(2):  # the second sign-in finds the known identity
            answer = await browser.returns(**await signed_in_there(await browser.begin(), "ana"))
            assert answer.status_code == 200
            assert (answer.json()["name"], answer.json()["role"]) == (ANA, "STAFF")
        [line] = (await browser.client.get("/api/v1/session/all")).json()["items"]
        assert line["kind"] == "oidc"


async def test_a_person_without_a_membership_is_referred_to_an_owner(
    openid: OpenIdProvider, serve: Serve
) -> None:
    async with serve(**settings_of(openid)) as house:
        browser = Browser(house)
        answer = await browser.returns(**await signed_in_there(await browser.begin(), "bob"))
        assert (answer.status_code, answer.json()["code"]) == (403, "unknown_user")
        assert "bob@example.com" in answer.json()["hint"]
        assert await browser.who() is None
        assert (await house.app.members().list()).members == ()


async def test_an_unverified_address_does_not_sign_in(openid: OpenIdProvider, serve: Serve) -> None:
    async with serve(**settings_of(openid)) as house:
        await add(house, "mallory@example.com")
        browser = Browser(house)
        answer = await browser.returns(**await signed_in_there(await browser.begin(), "mallory"))
        assert (answer.status_code, answer.json()["code"]) == (403, "email_unverified")
        assert await browser.who() is None


async def test_another_claim_can_be_the_name(openid: OpenIdProvider, serve: Serve) -> None:
    async with serve(**settings_of(openid), oidc_name_claim="sub") as house:
        await add(house, "mallory")
        browser = Browser(house)
        await browser.returns(**await signed_in_there(await browser.begin(), "mallory"))
        assert await browser.who() == "mallory"


async def test_a_wrong_secret_is_an_error_of_the_server_and_not_shown_to_users(
    openid: OpenIdProvider, serve: Serve
) -> None:
    async with serve(**{**settings_of(openid, "unlucky"), "oidc_client_secret": "wrong"}) as house:
        browser = Browser(house)
        answer = await browser.returns(**await signed_in_there(await browser.begin(), "ana"))
        assert (answer.status_code, answer.json()["code"]) == (503, "oidc_misconfigured")


async def test_a_provider_that_wants_more_than_a_secret_cannot_be_used(
    house: House, faulty: FaultyProvider
) -> None:
    faulty.metadata = but(token_endpoint_auth_methods_supported=["private_key_jwt"])
    answer = await sign_in(Browser(house), faulty)
    assert (answer.status_code, answer.json()["code"]) == (503, "oidc_misconfigured")
    assert "/token" not in faulty.asked


# State, browser and next page


async def test_a_sign_in_is_finished_once(house: House, faulty: FaultyProvider) -> None:
    browser = Browser(house)
    state = faulty.meet(await browser.begin())
    kept = dict(browser.client.cookies)
    assert (await browser.returns(state=state, code="a-code")).status_code == 200
    browser.client.cookies.update(kept)
    again = await browser.returns(state=state, code="a-code")
    assert (again.status_code, again.json()["code"]) == (400, "sign_in_stale")
    assert faulty.asked.count("/token") == 1


@pytest.mark.parametrize("state", ["", "wrong", "A" * 43])
async def test_an_unknown_state_is_rejected(house: House, faulty: FaultyProvider, state: str) -> None:
    answer = await sign_in(Browser(house), faulty, state=state)
    assert (answer.status_code, answer.json()["code"]) == (400, "sign_in_stale")
    assert "/token" not in faulty.asked


async def test_a_sign_in_is_finished_only_by_the_browser_that_started_it(
    house: House, faulty: FaultyProvider
) -> None:
    """An attacker makes others sign in as the attacker: login CSRF, session fixation."""
    attacker, victim, other = Browser(house), Browser(house), Browser(house)
    await other.begin()  # its cookie belongs to another sign-in
    for browser in (victim, other):
        state = faulty.meet(await attacker.begin())
        answer = await browser.returns(state=state, code="a-code")
        assert (answer.status_code, answer.json()["code"]) == (400, "sign_in_stale")
        assert await browser.who() is None
    assert "/token" not in faulty.asked


async def test_a_link_that_signs_in_is_no_state(house: House, faulty: FaultyProvider, ana: str) -> None:
    link = await house.app.members().sessions.link(ana)
    answer = await sign_in(Browser(house), faulty, state=link.token)
    assert answer.json()["code"] == "sign_in_stale"


async def test_a_code_of_another_sign_in_is_worth_nothing(house: House, faulty: FaultyProvider) -> None:
    """An attacker inserts their own code into another person's sign-in: PKCE."""
    attacker, victim = Browser(house), Browser(house)
    state = faulty.meet(await victim.begin())
    faulty.meet(await attacker.begin())  # the code belongs to the attacker's sign-in
    answer = await victim.returns(state=state, code="a-code")
    assert (answer.status_code, answer.json()["code"]) == (401, "code_refused")
    assert await victim.who() is None


async def test_two_tabs_can_sign_in_at_once(house: House, faulty: FaultyProvider) -> None:
    browser = Browser(house)
    first = await browser.begin()
    await browser.begin()
    state = faulty.meet(first)
    assert (await browser.returns(state=state, code="a-code")).status_code == 200


@pytest.mark.parametrize("path", [None, "/app/admin"])
async def test_the_session_from_before_ends(
    house: House, faulty: FaultyProvider, ana: str, path: str | None
) -> None:
    """The server never promotes its token, so a planted token is worthless (session fixation)."""
    await add(house, f"bob, not {ana}")
    sessions = house.app.members().sessions
    planted = await sessions.redeem((await sessions.link(f"bob, not {ana}")).token)
    assert planted is not None
    browser, attacker = Browser(house), Browser(house)
    for each in (browser, attacker):
        each.client.cookies.set("redrive_session", planted.token, domain="localhost.local", path="/")
        assert await each.who() == f"bob, not {ana}"
    await browser.returns(state=faulty.meet(await browser.begin(path)), code="a-code")
    assert await browser.who() == ana
    assert (await attacker.client.get("/api/v1/organizations")).status_code == 401


@pytest.mark.parametrize(
    "path",
    [
        *(
            "https://evil.example",
            "//evil.example",
            "/\\evil.example",
            "\\\\evil.example",
            "/\t/evil.example",
        ),
        *(
            "/ /evil.example",
            "/\n/evil.example",
            "evil.example",
            "javascript:alert(1)",
            "",
            "/a\r\nSet-Cookie: b",
        ),
        *("/\x00", "/ü", "/a\\b", "/" + "a" * 2000, "///evil.example", " /a"),
        *("/a/../b", "/a//b", "/.//evil.example", "/%2e/a"),
    ],
)
async def test_sign_in_redirects_only_to_this_server(house: House, faulty: FaultyProvider, path: str) -> None:
    answer = await Browser(house).client.get("/api/v1/session/oidc", params={"next": path})
    assert answer.status_code == 422, answer.headers
    assert "location" not in answer.headers


@pytest.mark.parametrize("path", ["/", "/app/admin/dlq?q=is:open%20-tag:a&size=5#top", "/a.b/..c/"])
async def test_paths_of_this_server_are_gone_to(house: House, faulty: FaultyProvider, path: str) -> None:
    browser = Browser(house)
    state = faulty.meet(await browser.begin(path))
    answer = await browser.returns(state=state, code="a-code")
    assert (answer.status_code, answer.headers["location"]) == (303, path)


async def test_behind_https_the_cookie_belongs_to_this_host_alone(
    serve: Serve, faulty: FaultyProvider
) -> None:
    issuer = {"oidc_issuer": faulty.issuer, "oidc_client_id": faulty_module.CLIENT}
    async with serve(server_url="https://redrive.example.com", **issuer) as house:
        answer = await Browser(house).client.get("/api/v1/session/oidc")
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("__Host-redrive_oidc=")
        assert {"HttpOnly", "Secure", "SameSite=lax", "Path=/"} <= set(cookie.split("; "))
        [back] = parse_qs(urlsplit(answer.headers["location"]).query)["redirect_uri"]
        assert back == "https://redrive.example.com/api/v1/session/oidc/callback"


# Responses of the provider


async def test_a_rejection_by_the_provider_is_shown(house: House, faulty: FaultyProvider) -> None:
    answer = await sign_in(Browser(house), faulty, error="access_denied", error_description="<b>no</b>")
    assert (answer.status_code, answer.json()["code"]) == (403, "oidc_denied")
    assert "denied access" in answer.json()["detail"]
    assert "<b>" not in answer.text
    assert "/token" not in faulty.asked


async def test_other_errors_are_shown_without_repeating_free_text(
    house: House, faulty: FaultyProvider
) -> None:
    answer = await sign_in(Browser(house), faulty, error="temporarily_unavailable")
    assert "temporarily_unavailable" in answer.json()["detail"]
    answer = await sign_in(Browser(house), faulty, error="<script>alert(1)</script>")
    assert "script" not in answer.text


async def test_an_answer_of_another_provider_is_not_shown_to_this_one(
    house: House, faulty: FaultyProvider
) -> None:
    """RFC 9207: a mix-up of providers."""
    answer = await sign_in(Browser(house), faulty, iss="https://evil.example")
    assert (answer.status_code, answer.json()["code"]) == (401, "token_refused")
    assert "/token" not in faulty.asked


async def test_a_provider_that_names_itself_always_must_do_so(house: House, faulty: FaultyProvider) -> None:
    faulty.metadata = lambda honest: {**honest, "authorization_response_iss_parameter_supported": True}
    assert (await sign_in(Browser(house), faulty)).status_code == 401
    assert (await sign_in(Browser(house), faulty, iss=faulty.issuer)).status_code == 200


@pytest.mark.parametrize("more", ["session_state", "scope", "authuser", "prompt", "hd", "client_info"])
async def test_additional_parameters_of_providers_do_no_harm(
    house: House, faulty: FaultyProvider, more: str
) -> None:
    assert (await sign_in(Browser(house), faulty, **{more: "anything"})).status_code == 200


def without(name: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda honest: {key: value for key, value in honest.items() if key != name}


def but(**changed: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda honest: {**honest, **changed}


LIES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "wrong nonce": but(nonce="A" * 43),
    "no nonce": without("nonce"),
    "several nonces": lambda honest: {**honest, "nonce": [honest["nonce"]]},
    "wrong audience": but(aud="another-client"),
    "wrong audience, but made for us": but(aud="another-client", azp=faulty_module.CLIENT),
    "no audience": without("aud"),
    "empty audience": but(aud=[]),
    "audience in an object": but(aud={faulty_module.CLIENT: 1}),
    "several audiences and nobody it was made for": but(aud=[faulty_module.CLIENT, "another"]),
    "made for another": but(azp="another-client"),
    "made for an empty name": but(azp=""),
    "several audiences and made for another": but(aud=[faulty_module.CLIENT, "other"], azp="other"),
    "wrong issuer": but(iss="https://evil.example"),
    "no issuer": without("iss"),
    "expired": but(exp=int(time.time()) - 120),
    "no expiry": without("exp"),
    "expiry as a text": but(exp="9999999999"),
    "issued in the future": but(iat=int(time.time()) + 3600),
    "no time of issue": without("iat"),
    "not valid yet": but(nbf=int(time.time()) + 3600),
    "no subject": without("sub"),
    "empty subject": but(sub=""),
    "subject that is a number": but(sub=4711),
    "subject without end": but(sub="x" * 256),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
async def test_an_invalid_token_signs_no_user_in(
    house: House, faulty: FaultyProvider, lie: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    browser = Browser(house)
    faulty.claims = lie
    answer = await sign_in(browser, faulty)
    assert (answer.status_code, answer.json()["code"]) == (401, "token_refused"), answer.text
    assert await browser.who() is None
    faulty.claims = dict
    assert (await sign_in(browser, faulty)).status_code == 200


def base64_of(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()


PUBLISHED = faulty_module.RSA.as_pem(private=False)
FORGERIES: dict[str, tuple[Key, dict[str, Any]]] = {
    "unsigned": (faulty_module.RSA, {"alg": "none", "kid": "one"}),
    "by the secret of the client": (OctKey.import_key(faulty_module.SECRET), {"alg": "HS256"}),
    "by the public key as a secret": (
        OctKey(PUBLISHED, PUBLISHED),  # the library refuses to import it
        {"alg": "HS256", "kid": "one"},
    ),
    "by a key of somebody else": (faulty_module.STRANGE, {"alg": "RS256", "kid": "one"}),
    "by a key that is not published": (faulty_module.NEXT, {"alg": "RS256", "kid": "two"}),
    "by a key that it brings along": (
        faulty_module.STRANGE,
        {"alg": "RS256", "jwk": faulty_module.STRANGE.as_dict(private=False)},
    ),
}


@pytest.mark.parametrize(("key", "header"), FORGERIES.values(), ids=FORGERIES)
@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
async def test_a_forged_token_signs_no_user_in(
    house: House, faulty: FaultyProvider, key: Key, header: dict[str, Any]
) -> None:
    browser = Browser(house)
    faulty.signing, faulty.header = key, header
    answer = await sign_in(browser, faulty)
    assert (answer.status_code, answer.json()["code"]) == (401, "token_refused")
    assert await browser.who() is None


def headed(header: str) -> str:
    return f"{base64_of(header.encode())}.e30.YQ"


BROKEN = {
    "empty": ".",
    "two parts": "e30.e30",
    "no JSON": "YQ.YQ.YQ",
    "no object": headed("[]"),
    "an algorithm that is no text": headed('{"alg": ["RS256"]}'),
    "a key that is no text": headed('{"alg": "RS256", "kid": {}}'),
    "critical and unknown": headed('{"alg": "RS256", "kid": "one", "crit": ["x"], "x": 1}'),
    "very deep": headed('{"alg": ' + "[" * 3000 + "]" * 3000 + "}"),
    "very long": "a" * 200_000,
    "not ASCII": "ü.ü.ü",
}


@pytest.mark.parametrize("token", BROKEN.values(), ids=BROKEN)
async def test_a_broken_token_signs_no_user_in(house: House, faulty: FaultyProvider, token: str) -> None:
    faulty.token = token
    answer = await sign_in(Browser(house), faulty)
    assert (answer.status_code, answer.json()["code"]) == (401, "token_refused"), answer.text


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [
        *((faulty_module.RSA, name) for name in ("RS256", "RS512", "PS256")),
        (faulty_module.CURVE, "ES256"),
        (faulty_module.EDWARDS, "EdDSA"),
        (faulty_module.EDWARDS, "Ed25519"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
async def test_signatures_of_two_keys_are_taken(
    house: House, faulty: FaultyProvider, key: Key, algorithm: str
) -> None:
    faulty.signing, faulty.header = key, {"alg": algorithm, "kid": key.kid}
    assert (await sign_in(Browser(house), faulty)).status_code == 200


async def test_several_audiences_are_fine_if_it_was_made_for_us(house: House, faulty: FaultyProvider) -> None:
    faulty.claims = but(aud=["another", faulty_module.CLIENT], azp=faulty_module.CLIENT)
    assert (await sign_in(Browser(house), faulty)).status_code == 200


@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
async def test_a_small_key_is_not_trusted(house: House, faulty: FaultyProvider) -> None:
    small = RSAKey.generate_key(1024, {"kid": "small"})
    faulty.keys = [small, faulty_module.CURVE]
    faulty.signing, faulty.header = small, {"alg": "RS256", "kid": "small"}
    assert (await sign_in(Browser(house), faulty)).json()["code"] == "token_refused"


async def test_new_keys_of_the_provider_are_found_without_a_restart(
    house: House, faulty: FaultyProvider
) -> None:
    assert (await sign_in(Browser(house), faulty)).status_code == 200
    faulty.keys = [faulty_module.NEXT]
    faulty.signing, faulty.header = faulty_module.NEXT, {"alg": "RS256", "kid": "two"}
    assert (await sign_in(Browser(house), faulty)).status_code == 200
    assert faulty.asked.count("/keys") == 2
    faulty.signing, faulty.header = faulty_module.RSA, {"alg": "RS256", "kid": "one"}
    assert (await sign_in(Browser(house), faulty)).json()["code"] == "token_refused"


async def test_tokens_of_unknown_keys_do_not_make_us_ask_for_keys_without_end(
    house: House, faulty: FaultyProvider
) -> None:
    for number in range(5):
        faulty.header = {"alg": "RS256", "kid": f"unknown {number}"}
        assert (await sign_in(Browser(house), faulty)).status_code == 401
    assert faulty.asked.count("/keys") == 2


# Who the user is


async def test_after_the_first_sign_in_the_identity_counts_not_the_name(
    house: House, faulty: FaultyProvider, ana: str
) -> None:
    await add(house, f"bob, not {ana}")
    browser = Browser(house)
    await sign_in(browser, faulty)
    for claims in (but(email=f"bob, not {ana}"), but(email=f"mallory, not {ana}", email_verified=False)):
        faulty.claims = claims
        await sign_in(browser, faulty)
        assert await browser.who() == ana


async def test_a_name_with_an_identity_is_not_given_to_another_person(
    house: House, faulty: FaultyProvider
) -> None:
    """The provider has given the address to another person."""
    await sign_in(Browser(house), faulty)
    browser = Browser(house)
    faulty.claims = but(sub="another person")
    answer = await sign_in(browser, faulty)
    assert (answer.status_code, answer.json()["code"]) == (403, "unknown_user")
    assert await browser.who() is None


@pytest.mark.parametrize("verified", [False, "false", None, 1.5, "yes", [], {}])
async def test_only_true_is_verified(house: House, faulty: FaultyProvider, verified: object) -> None:
    faulty.claims = but(email_verified=verified)
    answer = await sign_in(Browser(house), faulty)
    assert (answer.status_code, answer.json()["code"]) == (403, "email_unverified")


LOOKALIKES: dict[str, Callable[[str], object]] = {
    "wide letters": lambda name: name.replace("a", "ａ"),
    "a blank": lambda name: f" {name}",
    "something unseen": lambda name: f"{name}\x00",
    "a list": lambda name: [name],
    "no text": lambda name: 7,
    "the name of a key": lambda name: f"key:{name}",
}


@pytest.mark.parametrize("alike", LOOKALIKES.values(), ids=LOOKALIKES)
async def test_a_name_that_only_looks_like_a_members_is_not_theirs(
    house: House, faulty: FaultyProvider, ana: str, alike: Callable[[str], object]
) -> None:
    faulty.claims = but(email=alike(ana))
    answer = await sign_in(Browser(house), faulty)
    assert (answer.status_code, answer.json()["code"]) == (403, "unknown_user")


async def test_capital_letters_make_no_difference(house: House, faulty: FaultyProvider, ana: str) -> None:
    faulty.claims = but(email=ana.upper())
    assert (await sign_in(Browser(house), faulty)).json()["name"] == ana


async def test_a_member_with_a_disabled_account_is_rejected(
    house: House, faulty: FaultyProvider, ana: str
) -> None:
    await sign_in(Browser(house), faulty)
    await house.app.members().accounts.disable(ana)
    answer = await sign_in(Browser(house), faulty)
    assert (answer.status_code, answer.json()["code"]) == (403, "unknown_user")


async def test_a_name_that_only_the_userinfo_has_is_fetched(
    house: House, faulty: FaultyProvider, ana: str
) -> None:
    faulty.claims = without("email")
    faulty.userinfo = {"sub": f"subject of {ana}", "email": ana, "email_verified": "true"}
    assert (await sign_in(Browser(house), faulty)).json()["name"] == ana


async def test_userinfo_about_another_person_is_rejected(
    house: House, faulty: FaultyProvider, ana: str
) -> None:
    faulty.claims = without("email")
    faulty.userinfo = {"sub": "another person", "email": ana, "email_verified": True}
    answer = await sign_in(Browser(house), faulty)
    assert (answer.status_code, answer.json()["code"]) == (401, "token_refused")


# A provider that is down, slow, or redirects elsewhere


async def test_a_provider_that_is_down_is_a_problem_and_not_a_fault(serve: Serve) -> None:
    with faulty_provider() as gone:
        pass
    async with serve(oidc_issuer=gone.issuer, oidc_client_id="redrive") as house:
        answer = await Browser(house).client.get("/api/v1/session/oidc")
        assert (answer.status_code, answer.json()["code"]) == (503, "oidc_unavailable")
        assert answer.headers["retry-after"]


USELESS: dict[str, tuple[int, dict[str, str], bytes]] = {
    "an error": (500, {}, b""),
    "no JSON": (200, {}, b"<html>"),
    "no object": (200, {}, b"[]"),
    "too deep": (200, {}, b"[" * 100_000),
    "too much": (200, {}, b" " * (connection.MAX_ANSWER_BYTES + 1)),
    "compressed": (200, {"Content-Encoding": "gzip"}, gzip.compress(b"{}")),
    "elsewhere": (302, {"Location": "/elsewhere"}, b""),
}


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/keys", "/token", "/userinfo"])
@pytest.mark.parametrize("answer", USELESS.values(), ids=USELESS)
async def test_an_unusable_answer_is_a_problem_not_a_fault(
    house: House, faulty: FaultyProvider, path: str, answer: tuple[int, dict[str, str], bytes]
) -> None:
    faulty.answers[path] = answer
    faulty.claims = without("email")
    browser = Browser(house)
    told = await browser.client.get("/api/v1/session/oidc")
    if told.status_code == 303:
        told = await browser.returns(state=faulty.meet(told.headers["location"]), code="a-code")
    assert (told.status_code, told.json()["code"]) == (503, "oidc_unavailable"), told.text
    assert "/elsewhere" not in faulty.asked


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (400, b'{"error": "invalid_grant"}', (401, "code_refused")),
        (403, b'{"error": "invalid_grant"}', (401, "code_refused")),
        (400, b'{"error": "redirect_uri_mismatch"}', (503, "oidc_misconfigured")),
        (400, b'{"error": ["invalid_grant"]}', (503, "oidc_misconfigured")),
        (404, b'{"detail": "Not Found"}', (503, "oidc_misconfigured")),
        (401, b"<html>", (503, "oidc_unavailable")),
        (408, b'{"error": "invalid_grant"}', (503, "oidc_unavailable")),
        (429, b'{"error": "slow_down"}', (503, "oidc_unavailable")),
        (503, b'{"error": "invalid_grant"}', (503, "oidc_unavailable")),
        (200, b'{"id_token": "x", "expires_in": "soon"}', (503, "oidc_unavailable")),
        (200, b'{"id_token": "x", "expires_in": [60]}', (503, "oidc_unavailable")),
        (200, b'{"id_token": "x", "expires_in": 1e999}', (503, "oidc_unavailable")),
        (200, b'{"id_token": ["x"]}', (401, "token_refused")),
        (200, b"{}", (401, "token_refused")),
    ],
)
async def test_whatever_the_token_endpoint_answers_is_a_problem_and_not_a_fault(
    house: House, faulty: FaultyProvider, status: int, body: bytes, expected: tuple[int, str]
) -> None:
    faulty.answers["/token"] = (status, {}, body)
    answer = await sign_in(Browser(house), faulty)
    assert (answer.status_code, answer.json()["code"]) == expected
    assert faulty.asked.count("/token") == 1


async def test_the_size_of_an_answer_is_limited(house: House, faulty: FaultyProvider) -> None:
    for length, status in ((connection.MAX_ANSWER_BYTES, 503), (connection.MAX_ANSWER_BYTES // 2, 303)):
        faulty.metadata = but(padding="x" * length)
        site: Site = house.api.state.site
        site.oidc = provider_of(house.app)
        assert (await Browser(house).client.get("/api/v1/session/oidc")).status_code == status


async def test_a_provider_that_never_responds_blocks_no_other_request(
    house: House, faulty: FaultyProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty.metadata = lambda honest: {**honest, "token_endpoint": f"{faulty.issuer}/hang"}
    browser = Browser(house)
    state = faulty.meet(await browser.begin())
    monkeypatch.setattr(connection, "EXCHANGE_SECONDS", 0.05)
    answer = await browser.returns(state=state, code="a-code")
    assert (answer.status_code, answer.json()["code"]) == (503, "oidc_unavailable")


async def test_a_provider_that_responds_byte_by_byte_blocks_no_other_request(
    house: House, faulty: FaultyProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte arrives in time, and all of them together would be a token."""
    browser = Browser(house)
    state = faulty.meet(await browser.begin())
    monkeypatch.setattr(connection, "EXCHANGE_SECONDS", 0.3)
    faulty.drips = True
    answer = await browser.returns(state=state, code="a-code")
    assert (answer.status_code, answer.json()["code"]) == (503, "oidc_unavailable")


@pytest.mark.parametrize(
    ("field", "address"),
    [
        ("issuer", "https://evil.example"),
        ("token_endpoint", "http://evil.example/token"),
        ("jwks_uri", "file:///etc/passwd"),
        ("token_endpoint", "https://user:secret@evil.example/"),
        ("authorization_endpoint", "javascript:alert(1)"),
        ("authorization_endpoint", None),
        ("userinfo_endpoint", "http://[::1"),
    ],
)
async def test_a_provider_that_names_a_strange_address_is_not_used(
    house: House, faulty: FaultyProvider, field: str, address: str | None
) -> None:
    faulty.metadata = but(**{field: address})
    answer = await Browser(house).client.get("/api/v1/session/oidc")
    assert (answer.status_code, answer.json()["code"]) == (503, "oidc_unavailable")


async def test_after_a_failure_the_next_ones_do_not_wait_for_another(
    house: House, faulty: FaultyProvider
) -> None:
    faulty.answers["/.well-known/openid-configuration"] = (500, {}, b"")
    for _ in range(3):
        assert (await Browser(house).client.get("/api/v1/session/oidc")).status_code == 503
    assert len(faulty.asked) == 1


# Secrets, settings


async def test_no_secret_of_a_sign_in_is_logged(
    house: House, faulty: FaultyProvider, caplog: pytest.LogCaptureFixture
) -> None:
    """I9: neither the lines about successes nor those about failures contain one."""
    caplog.set_level(logging.DEBUG)
    browser = Browser(house)
    secrets: list[str] = []
    for change in (dict, but(nonce="wrong"), without("email")):
        faulty.claims = change
        assert (await sign_in(browser, faulty, code="the-code-of-the-provider")) is not None
        secrets += [faulty.sent["state"], faulty.sent["nonce"], faulty.signed()]
    secrets += [faulty_module.SECRET, faulty_module.ACCESS, "the-code-of-the-provider"]
    secrets += browser.client.cookies.values()
    ours = [record for record in caplog.records if BASE not in record.getMessage()]  # not the browser's
    written = "\n".join(f"{record.getMessage()} {record.__dict__}" for record in ours)
    assert "oidc_failed" in written
    assert [each for each in secrets if each in written] == []


async def test_without_a_provider_a_sign_in_cannot_start(serve: Serve) -> None:
    async with serve() as house:
        for path in ("/api/v1/session/oidc", "/api/v1/session/oidc/callback"):
            answer = await house.client().get(path)
            assert (answer.status_code, answer.json()["code"]) == (404, "oidc_off")


async def test_beyond_this_machine_the_address_of_the_server_must_be_known(tmp_path: Path) -> None:
    """A Host header could otherwise choose where the provider sends users."""
    app = new_app(
        f"sqlite:///{tmp_path}/work.db",
        server_host="0.0.0.0",
        oidc_issuer="https://login.example.com",
        oidc_client_id="redrive",
    )
    with pytest.raises(InvalidValueError, match="server_url"):
        create_app(app)


async def test_sign_ins_that_are_never_finished_are_limited(house: House, faulty: FaultyProvider) -> None:
    client = Browser(house).client
    answers = [(await client.get("/api/v1/session/oidc")).status_code for _ in range(15)]
    assert answers.count(303) == 10
    assert set(answers[10:]) == {429}
