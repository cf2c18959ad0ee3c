"""Guards of the server: sign-in, access control, request limits, connections and event streams."""

from __future__ import annotations

from collections.abc import Iterator

from tests.guards.guard import Guard
from tests.guards.patch import Code, Sql

ACCESS_CONTROL = "tests/server/test_access_control.py::"
ANSWERING = "tests/server/test_answering_again.py::"
BROWSER = "tests/server/test_hostile_browser.py::"
CONNECTION = "tests/server/test_connection.py::"
AUTHENTICATOR = "tests/server/test_authenticator.py::"
EVENTS = "tests/server/test_events_api.py::"
FORWARD = "tests/server/test_forward.py::"
INTAKE = "tests/server/test_body_limits.py::"
LIMITS = "tests/server/test_limits.py::"
OIDC = "tests/server/test_oidc.py::"
SERVE = "tests/server/test_serve.py::"
SESSION = "tests/server/test_session_api.py::"

OF_OUR_PAGES = f"{ACCESS_CONTROL}test_a_change_needs_the_token_and_the_origin_of_our_own_pages"
FOREIGN_PAGE = f"{BROWSER}test_a_page_of_another_site_signs_no_user_in"
STRANGE_HOSTS = f"{BROWSER}test_a_host_that_readers_disagree_about_is_refused"
UNCLEAR = f"{FORWARD}test_an_ambiguous_proxy_header_signs_no_user_in"
LIES = f"{OIDC}test_an_invalid_token_signs_no_user_in"

_ACCESS_CONTROL = "redrive.server.access_control:"
_CONNECTION = "redrive.server.connection:PatientProtocol."


def _both(test: str) -> tuple[str, str]:
    return f"{test}[sqlite]", f"{test}[postgres]"


def _of_the_pages() -> Iterator[Guard]:
    """Pages of other sites cannot sign a user in."""
    yield Guard(
        "origin of a password",
        "a page of another site signs a browser in with the attacker's password",
        (Code("redrive.server.api.session:sign_in", "check_origin(request, site)", "pass"),),
        (FOREIGN_PAGE,),
    )
    yield Guard(
        "origin of a link",
        "a page of another site signs a browser in with the attacker's link",
        (Code("redrive.server.api.session:redeem", "check_origin(request, site)", "pass"),),
        (FOREIGN_PAGE,),
    )
    yield Guard(
        "origin behind a proxy",
        "a page of another site signs a browser in through the proxy",
        (Code("redrive.server.api.single_sign_on:sign_in", "check_origin(request, site)", "pass"),),
        (f"{FORWARD}test_a_change_still_needs_the_token_and_the_origin",),
    )


def _limits() -> Iterator[Guard]:
    taken = {
        "key": (
            "admit",
            "self._take(principal.whose, settings.server_key_rate)",
            "one key sends an unlimited number of requests",
            "test_the_rate_of_a_key_is_limited",
        ),
        "organization": (
            "admit",
            'self._take(f"org:{principal.org}", settings.server_org_rate)',
            "one organization locks out the others by using many keys",
            "test_the_keys_of_an_organization_share_its_rate",
        ),
        "stranger": (
            "admit_stranger",
            'self._take(f"stranger:{address}", STRANGER_RATE, STRANGER_BURST)',
            "a client without a credential sends an unlimited number of requests",
            "test_requests_without_credentials_are_counted_by_address",
        ),
        "address": (
            "admit_stranger",
            'self._take(f"sign-in:{address}", SIGN_IN_RATE, SIGN_IN_BURST)',
            "one address tries passwords for many users",
            "test_attempts_to_sign_in_are_limited",
        ),
        "name": (
            "admit_name",
            'self._take(f"name:{findable_user(name)}", SIGN_IN_RATE, SIGN_IN_BURST)',
            "many addresses try passwords for one user",
            "test_attempts_to_sign_in_are_limited_per_name",
        ),
    }
    for name, (method, fragment, prevents, test) in taken.items():
        patch = Code(f"redrive.server.limits:RequestLimits.{method}", fragment, "pass")
        yield Guard(f"limit.{name}", prevents, (patch,), (f"{LIMITS}{test}",))
    asked = {
        "authenticated": (
            "authenticated callers",
            f"{_ACCESS_CONTROL}AccessControl._admit",
            "site.limits.admit(principal)",
            f"{ACCESS_CONTROL}test_only_callers_over_the_rate_limit_have_to_wait",
        ),
        "without a credential": (
            "callers without a credential",
            f"{_ACCESS_CONTROL}AccessControl._admit",
            "site.limits.admit_stranger(request, heavy=False)",
            f"{LIMITS}test_requests_without_credentials_are_limited_too",
        ),
        "sign-in": (
            "sign-in attempts under one name",
            "redrive.server.api.session:sign_in",
            "site.limits.admit_name(body.name)",
            f"{LIMITS}test_a_name_that_is_tried_under_many_addresses_is_slowed_down",
        ),
        "password change": (
            "password changes",
            "redrive.server.api.session:change_password",
            "site.limits.admit_name(visit.principal.name)",
            f"{LIMITS}test_a_stolen_session_cannot_guess_passwords_without_limit",
        ),
    }
    for name, (requests, place, fragment, test) in asked.items():
        yield Guard(
            f"rate limit.{name}",
            f"no limit applies to {requests}",
            (Code(place, fragment, "pass"),),
            (test,),
        )
    yield Guard(
        "rate limit.bounded memory",
        "made-up names fill the memory",
        (
            Code(
                "redrive.server.limits:RequestLimits._take",
                "if len(self._buckets) > MAX_BUCKETS:",
                "if False:",
            ),
        ),
        (f"{LIMITS}test_the_number_of_remembered_names_is_limited",),
    )


def _cookies() -> Iterator[Guard]:
    flags = {
        "HttpOnly": ("httponly=True", "httponly=False", "a script reads the session token"),
        "SameSite": ('samesite="lax"', "samesite=None", "forms on other sites send the cookie along"),
        "Secure": ("secure=self.is_secure", "secure=False", "the browser sends the cookie unencrypted"),
    }
    for name, (fragment, replacement, prevents) in flags.items():
        yield Guard(
            f"cookie.{name}",
            prevents,
            (Code("redrive.server.authenticator:Authenticator.set_session", fragment, replacement),),
            (f"{BROWSER}test_under_https_another_host_cannot_plant_the_cookie",),
        )
    yield Guard(
        "cookie.__Host-",
        "another host in the same domain plants a session",
        (
            Code(
                "redrive.server.authenticator:Authenticator.__init__",
                'f"__Host-{COOKIE}" if self.is_secure else COOKIE',
                "COOKIE",
            ),
        ),
        (f"{BROWSER}test_under_https_another_host_cannot_plant_the_cookie",),
    )


def _connections() -> Iterator[Guard]:
    silent = f"{CONNECTION}test_a_client_that_sends_no_request_is_cut_off"
    too_long = f"{CONNECTION}test_a_head_that_is_too_long_is_refused_in_many_headers_and_in_one"
    yield Guard(
        "head.time",
        "silent clients hold connections forever",
        (Code(f"{_CONNECTION}_expect_head", "call_later(HEAD_SECONDS", "call_later(3600.0 + HEAD_SECONDS"),),
        (f"{silent}[nothing]",),
    )
    yield Guard(
        "head.in time",
        "the server cuts off a slow body as if the client had sent nothing",
        (Code(f"{_CONNECTION}_head_is_there", "self._head_deadline.cancel()", "pass"),),
        (f"{CONNECTION}test_a_client_that_sent_its_head_in_time_may_take_longer_for_the_body",),
    )
    yield Guard(
        "head.bytes",
        "endless headers fill the memory",
        (Code(f"{_CONNECTION}_count", "self._head_bytes > HEAD_BYTES", "False"),),
        (too_long,),
    )
    yield Guard(
        "head.bytes of one header",
        "one endless header fills the memory before the parser reports it",
        (Code(f"{_CONNECTION}data_received", "self._pending_bytes > HEAD_BYTES", "False"),),
        (too_long,),
    )
    yield Guard(
        "head.before the body",
        "the server accepts a header after the body, which no proxy has checked",
        (Code(f"{_CONNECTION}on_header", "if not self._head_is_whole:", "if True:"),),
        (f"{CONNECTION}test_trailers_after_the_body_are_not_headers",),
    )
    yield Guard(
        "reading.time",
        "clients that do not read their responses keep them in memory forever",
        (
            Code(
                f"{_CONNECTION}_expect_reader",
                "call_later(READING_SECONDS",
                "call_later(3600.0 + READING_SECONDS",
            ),
        ),
        (f"{CONNECTION}test_a_client_that_does_not_read_the_answer_is_cut_off",),
    )


def _authenticator() -> Iterator[Guard]:
    place = "redrive.server.authenticator:Authenticator."
    taken_away = _both(
        "tests/server/test_directory_api.py::test_a_revoked_right_is_gone_with_the_next_request"
    )
    yield Guard(
        "authenticator.revoked",
        "a revoked right can be used for a moment longer",
        (Code(f"{place}forget", "self._known.clear()", "pass"),),
        taken_away,
    )
    yield Guard(
        "authenticator.changes",
        "a revoked right can be used after the response that confirms its revocation",
        (Code(f"{_ACCESS_CONTROL}_forgetting", "site.authenticator.forget()", "pass"),),
        taken_away,
    )
    yield Guard(
        "authenticator.sign-in",
        "the old session can be used after a new sign-in has replaced it",
        (Code("redrive.server.api.session:session_response", "site.authenticator.forget()", "pass"),),
        _both(f"{BROWSER}test_signing_in_again_ends_the_previous_session_immediately"),
    )
    yield Guard(
        "authenticator.revoked during lookup",
        "a key revoked during its lookup is cached as valid",
        (Code(f"{place}_look_up", "if before == self._times_forgotten:", "if True:"),),
        (f"{AUTHENTICATOR}test_a_key_revoked_during_its_lookup_is_not_cached",),
    )
    yield Guard(
        "authenticator.expiry",
        "a credential revoked by another process stays valid forever",
        (Code(f"{place}_remembered", "and now < known.until", ""),),
        (f"{AUTHENTICATOR}test_a_credential_revoked_by_another_process_is_rejected_after_a_moment",),
    )
    yield Guard(
        "authenticator.keys and cookies",
        "a key in a cookie passes without a CSRF token",
        (Code(f"{place}_remembered", 'f"{kind}:{text}"', "text"),),
        (f"{AUTHENTICATOR}test_a_key_is_not_a_cookie_and_a_cookie_is_not_a_key",),
    )
    yield Guard(
        "authenticator.bounded memory",
        "cached callers fill the memory",
        (Code(f"{place}_remember", "if len(self._known) > MAX_REMEMBERED:", "if False:"),),
        (f"{AUTHENTICATOR}test_the_cache_of_the_authenticator_is_limited",),
    )
    yield Guard(
        "forwarded user",
        "a session from a proxy survives the sign-out there, or is used without the proxy",
        (
            Code(
                f"{place}_is_named",
                "not visitor.forwarded or self.proxies.user_of(request) == visitor.principal.name",
                "True",
            ),
        ),
        (f"{FORWARD}test_every_request_has_to_come_through_a_proxy_that_names_the_same_user",),
    )


def _proxies() -> Iterator[Guard]:
    place = "redrive.server.proxies:Proxies."
    yield Guard(
        "proxy.trusted",
        "any client signs in as any user by sending the proxy's header",
        (Code(f"{place}user_of", "or not self._trusts(peer)", ""),),
        (f"{FORWARD}test_from_other_clients_the_header_is_ignored[127.0.0.1]",),
    )
    yield Guard(
        "proxy.one name",
        "a header sent by the client passes along with the proxy's header",
        (Code(f"{place}user_of", "len(named) != 1", "not named"),),
        (f"{UNCLEAR}[several]",),
    )
    yield Guard(
        "proxy.one name per header",
        "a header with two names joined by a comma passes as one name",
        (Code(f"{place}user_of", ' or "," in named[0]', ""),),
        doubled_by="the lookup of users: two joined names are not the name of a member",
    )
    yield Guard(
        "proxy.client",
        "the limits count a client under addresses that it makes up",
        (Code(f"{place}client_of", "hop is None or not self._trusts(client)", "hop is None"),),
        (f"{FORWARD}test_a_forged_header_does_not_change_the_counted_address",),
    )
    yield Guard(
        "vouched name",
        "a name that only looks like a member's name signs in as that member",
        (Code("redrive.identity.sign_in:vouched_name", 'text != normalize("NFKC", text)', "False"),),
        (f"{FORWARD}test_signing_in_does_not_make_a_member",),
    )


def _streams() -> Iterator[Guard]:
    limits, events = "redrive.server.limits:StreamLimits._check", "redrive.server.api.events:"
    limited = (f"{EVENTS}test_streams_are_limited_per_caller_and_in_total",)
    yield Guard(
        "stream.of one",
        "one client uses up all streams",
        (Code(limits, "self._open[who] >= self._per_caller", "False"),),
        limited,
    )
    yield Guard(
        "stream.of an organization",
        "one organization uses up all streams",
        (
            Code(
                limits,
                "not principal.at_home and self._open[org] >= max(1, self._maximum // 2)",
                "False",
            ),
        ),
        limited,
    )
    yield Guard(
        "stream.of all",
        "clients open more streams than the server can serve",
        (Code(limits, "self._open[whole] >= self._maximum", "False"),),
        limited,
    )
    yield Guard(
        "stream.credential",
        "a stream opened with a revoked key still receives events",
        (
            Code(
                f"{events}EventStream._may_read",
                "if visitor is None or visitor",
                "if visitor is None:\n        return True\n    if visitor",
            ),
        ),
        _both(f"{EVENTS}test_a_revoked_key_receives_no_more_events"),
    )
    yield Guard(
        "stream.organization",
        "a session that has switched to another organization still receives this one's events",
        (Code(f"{events}EventStream._may_read", "visitor.principal.org != self._principal.org", "False"),),
        _both(f"{EVENTS}test_a_session_that_switches_organization_receives_no_more_events_of_the_old_one"),
    )
    yield Guard(
        "stream.permission",
        "a caller who has lost the permission to read still receives events",
        (
            Code(
                f"{events}EventStream._may_read",
                "return Permission.READ in visitor.principal.permissions",
                "return True",
            ),
        ),
        doubled_by="stream.credential: every role may read, and the scopes of a key never change",
    )
    yield Guard(
        "stream.patience",
        "a client that does not read keeps its stream forever",
        (Code(f"{events}_send_in_time", "asyncio.timeout(write_timeout)", "asyncio.timeout(None)"),),
        (f"{EVENTS}test_a_client_that_does_not_read_is_disconnected",),
    )


def _openid() -> Iterator[Guard]:
    token = "redrive.identity.oidc.id_token:"
    provider = "redrive.identity.oidc.provider:OpenIdProvider."
    connection = "redrive.identity.oidc.connection:"
    rules = f"{token}_claim_rules"
    lies: dict[str, tuple[tuple[Code, ...], str, str]] = {
        "nonce": (
            (Code(f"{token}verify", '"nonce": expected.nonce, ', ""),),
            "wrong nonce",
            "a token issued for another sign-in",
        ),
        "azp": (
            (
                Code(f"{token}verify", ', "client_id": expected.client_id', ""),
                Code(rules, '"azp": {"value": expected.client_id},', ""),
            ),
            "made for another",
            "a token issued to another client",
        ),
        "audience": (
            (Code(rules, '"aud": {"essential": True, "value": expected.client_id},', ""),),
            "wrong audience, but made for us",
            "a token meant for another audience",
        ),
        "issuer": (
            (Code(rules, '"iss": {"essential": True, "value": expected.issuer},', ""),),
            "wrong issuer",
            "a token from another provider",
        ),
        "expiry": (
            (Code(f"{token}verify", "leeway=CLOCK_SKEW_SECONDS", "leeway=86_400"),),
            "expired",
            "an expired token",
        ),
        "claims": (
            (
                Code(
                    f"{token}verify",
                    "claims.validate(now=int(expected.now), leeway=CLOCK_SKEW_SECONDS)",
                    "pass",
                ),
            ),
            "no expiry",
            "a token that never expires",
        ),
        "subject": (
            (Code(rules, "len(subject) <= MAX_SUBJECT_LENGTH", "True"),),
            "subject without end",
            "a token whose subject is too long for the tables",
        ),
    }
    for name, (patches, lie, prevents) in lies.items():
        yield Guard(f"openid.{name}", f"{prevents} signs a user in", patches, (f"{LIES}[{lie}]",))
    yield Guard(
        "openid.browser",
        "a sign-in started in one browser is finished in another",
        (
            Code(
                "redrive.identity.oidc.login_state:take_login",
                "if hmac.compare_digest(login.browser, digest(browser)) else None",
                "",
            ),
        ),
        (f"{OIDC}test_a_sign_in_is_finished_only_by_the_browser_that_started_it",),
    )
    yield Guard(
        "openid.sender",
        "the server sends one provider a code that another provider issued",
        (Code(f"{provider}check_issuer", "if named == self.issuer:", "if True:"),),
        (f"{OIDC}test_an_answer_of_another_provider_is_not_shown_to_this_one",),
    )
    yield Guard(
        "openid.verified",
        "an unverified email address opens an account",
        (
            Code(
                f"{provider}person",
                "self._name_claim != EMAIL or profile.get(VERIFIED) in _TRUE",
                "True",
            ),
        ),
        (f"{OIDC}test_only_true_is_verified[False]",),
    )
    yield Guard(
        "openid.userinfo",
        "the server accepts userinfo about another user",
        (Code(f"{provider}_profile", 'if profile.get("sub") != claims["sub"]:', "if False:"),),
        (f"{OIDC}test_userinfo_about_another_person_is_rejected",),
    )
    yield Guard(
        "openid.small key",
        "the server trusts a key short enough to be broken",
        (Code(f"{token}_read_key", 'data["kty"] == "RSA" and', "False and"),),
        (f"{OIDC}test_a_small_key_is_not_trusted",),
    )
    yield Guard(
        "openid.size",
        "a provider's response fills the memory of the server",
        (Code(f"{connection}_LimitedStream.__aiter__", "if size > MAX_ANSWER_BYTES:", "if False:"),),
        (f"{OIDC}test_the_size_of_an_answer_is_limited",),
    )
    yield Guard(
        "openid.time",
        "a provider that responds byte by byte blocks a sign-in forever",
        (
            Code(
                f"{connection}ProviderConnection.exchange",
                "asyncio.timeout(EXCHANGE_SECONDS)",
                "asyncio.timeout(None)",
            ),
        ),
        (f"{OIDC}test_a_provider_that_responds_byte_by_byte_blocks_no_other_request",),
    )
    yield Guard(
        "openid.redirects",
        "a provider redirects the server to an arbitrary address",
        (
            Code(
                f"{connection}ProviderConnection.oauth_client",
                "follow_redirects=False",
                "follow_redirects=True",
            ),
        ),
        (f"{OIDC}test_an_unusable_answer_is_a_problem_not_a_fault[elsewhere-/keys]",),
    )
    yield Guard(
        "openid.addresses",
        "the server sends a secret over an unencrypted connection",
        (
            Code(
                f"{provider}_fetch_metadata",
                "if not all(map(self._connection.is_safe, metadata.addresses)):",
                "if False:",
            ),
        ),
        (
            f"{OIDC}test_a_provider_that_names_a_strange_address_is_not_used"
            "[token_endpoint-http://evil.example/token]",
        ),
    )


GUARDS = (
    Guard(
        "rule.permission",
        "a caller does something that their role or key does not allow",
        (
            Code(
                f"{_ACCESS_CONTROL}AccessControl._check_rights",
                "permission is not None and permission not in principal.permissions",
                "False",
            ),
        ),
        ("tests/server/test_runs_api.py::test_roles_w12",),
    ),
    Guard(
        "rule.home",
        "an organization other than the home organization changes shared state",
        (
            Code(
                f"{_ACCESS_CONTROL}AccessControl._check_rights",
                "self._rule.home and not principal.at_home",
                "False",
            ),
        ),
        _both(
            "tests/server/test_shared_api.py::test_shared_state_is_changed_only_from_home_with_the_permission"
        ),
    ),
    Guard(
        "rule.everywhere",
        "a route without an access rule is open to everyone",
        (
            Code(
                "redrive.server.route:refuse_without_rule",
                "not isinstance(route, GuardedRoute) or "
                'not isinstance(getattr(route, "rule", None), AccessRule)',
                "False",
            ),
        ),
        ("tests/server/test_matrix.py::test_a_route_without_a_rule_stops_the_server_from_starting",),
    ),
    Guard(
        "page.token",
        "a page of another site makes changes with the browser's cookie",
        (
            Code(
                f"{_ACCESS_CONTROL}_check_csrf",
                "if not hmac.compare_digest(",
                "if False and hmac.compare_digest(",
            ),
        ),
        (
            f"{OF_OUR_PAGES}[headers0-csrf]",
            f"{ACCESS_CONTROL}test_the_token_of_another_session_does_not_help",
        ),
    ),
    Guard(
        "page.origin",
        "a page of another site that has obtained a token makes changes",
        (Code(f"{_ACCESS_CONTROL}_check_csrf", "check_origin(request, site)", "pass"),),
        (f"{OF_OUR_PAGES}[headers2-foreign_origin]", f"{OF_OUR_PAGES}[headers4-foreign_origin]"),
    ),
    Guard(
        "page.same origin",
        "any page that has an origin passes as a page of this server",
        (Code(f"{_ACCESS_CONTROL}check_origin", "_parts(origin) != _parts(site.origin(request))", "False"),),
        (f"{OF_OUR_PAGES}[headers2-foreign_origin]",),
    ),
    Guard(
        "page.no address",
        "a page without an origin passes as a page of this server",
        (
            Code(
                f"{_ACCESS_CONTROL}check_origin",
                'fetched in ("same-origin", "none")',
                "fetched is not None",
            ),
        ),
        (f"{OF_OUR_PAGES}[headers5-foreign_origin]",),
    ),
    *_of_the_pages(),
    Guard(
        "host.known",
        "another host name that resolves to this machine makes a browser send requests to it",
        (
            Code(
                "redrive.server.app:ResponseMiddleware._check_host",
                "not self._site.knows_host(hosts[0])",
                "False",
            ),
        ),
        (f"{ACCESS_CONTROL}test_another_host_name_is_not_answered",),
    ),
    Guard(
        "host.one",
        "a request has two host names, and the proxy has checked the other one",
        (Code("redrive.server.app:ResponseMiddleware._check_host", "len(hosts) > 1", "False"),),
        (STRANGE_HOSTS,),
    ),
    Guard(
        "host.whole",
        "a request names a host that parsers read differently",
        (Code("redrive.server.site:host_name", "_HOST.fullmatch(host)", "_HOST.match(host)"),),
        (STRANGE_HOSTS,),
    ),
    Guard(
        "address.key",
        "the server accepts keys in URLs, which end up in logs",
        (Code(f"{_ACCESS_CONTROL}AccessControl._check_address", 'if b"rdk_" in query:', "if False:"),),
        (f"{ACCESS_CONTROL}test_a_key_in_the_address_is_refused_and_not_repeated",),
    ),
    Guard(
        "address.parameter",
        "a mistyped filter matches everything",
        (
            Code(
                f"{_ACCESS_CONTROL}AccessControl._check_address",
                "if name not in self._parameters:",
                "if False:",
            ),
        ),
        (f"{ACCESS_CONTROL}test_an_unknown_parameter_is_an_error_with_a_suggestion",),
    ),
    Guard(
        "body.declared",
        "the server starts to read a body that is too large",
        (
            Code(
                "redrive.server.limits:BodyLimits.__call__",
                "self._check(declared)",
                "pass",
            ),
        ),
        doubled_by="body.counted: the server rejects the body as soon as it exceeds the limit",
    ),
    Guard(
        "body.counted",
        "a body without a declared length fills the memory",
        (Code("redrive.server.limits:BodyLimits._bounded", "self._check(taken)", "pass"),),
        (f"{ACCESS_CONTROL}test_a_body_that_is_too_large_is_refused",),
    ),
    Guard(
        "body.time",
        "a body that never arrives holds a request open forever",
        (
            Code(
                "redrive.server.limits:BodyLimits._bounded",
                "asyncio.timeout_at(until)",
                "asyncio.timeout_at(None)",
            ),
        ),
        (f"{INTAKE}test_a_body_that_does_not_come_is_refused[0]",),
    ),
    Guard(
        "body.whole",
        "the server cuts off an event stream as if its request body were missing",
        (Code("redrive.server.limits:BodyLimits._bounded", "if whole:", "if False:"),),
        (f"{INTAKE}test_a_client_that_has_sent_its_request_may_wait",),
    ),
    *_connections(),
    *_limits(),
    *_authenticator(),
    *_proxies(),
    *_cookies(),
    *_streams(),
    *_openid(),
    Guard(
        "stored answer.caller",
        "a caller gets the stored response of another caller",
        (
            Code(
                f"{_ACCESS_CONTROL}AccessControl._application",
                "KeyScope(visit.org, visit.principal.whose)",
                'KeyScope(visit.org, "")',
            ),
        ),
        _both(f"{ANSWERING}test_a_stored_answer_is_returned_only_to_the_same_key"),
    ),
    Guard(
        "stored answer.secret",
        "the server stores the secret of a new key",
        (Code(f"{_ACCESS_CONTROL}AccessControl._application", "or not self._rule.repeatable", ""),),
        _both(f"{ANSWERING}test_an_answer_with_a_secret_is_never_stored"),
    ),
    Guard(
        "open address",
        "the server listens beyond this machine although no credential exists",
        (
            Code(
                "redrive.server.serve:refuse_open_address",
                "if not is_loopback(host) and not await _has_credentials(app):",
                "if False:",
            ),
        ),
        (f"{SERVE}test_the_server_stays_on_loopback_until_a_credential_exists",),
    ),
    Guard(
        "open address.revoked",
        "a revoked key counts as a usable credential",
        (Sql("api_keys.any_credential", r"revoked_at IS NULL"),),
        (f"{SERVE}test_an_invalid_credential_identifies_no_caller",),
    ),
    Guard(
        "open address.disabled",
        "a disabled member counts as a usable credential",
        (Sql("api_keys.any_credential", r"disabled_at IS NULL"),),
        (f"{SERVE}test_an_invalid_credential_identifies_no_caller",),
    ),
    Guard(
        "server enables row-level security",
        "requests run with the database rights of the workers",
        (
            Code(
                "redrive.wiring:Parts.enable_row_level_security",
                "self._is_walled = True",
                "self._is_walled = False",
            ),
        ),
        _both(f"{ANSWERING}test_requests_work_with_row_level_security"),
    ),
)
