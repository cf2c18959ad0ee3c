"""The guards of the server: who comes in, by which door, with how much, and what they are told."""

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
FOREIGN_PAGE = f"{BROWSER}test_nobody_is_signed_in_by_a_page_of_somebody_else"
STRANGE_HOSTS = f"{BROWSER}test_a_host_that_readers_disagree_about_is_refused"
UNCLEAR = f"{FORWARD}test_where_it_is_not_clear_whom_the_proxy_names_nobody_is_signed_in"
LIES = f"{OIDC}test_a_token_that_does_not_hold_signs_nobody_in"

_ACCESS_CONTROL = "redrive.server.access_control:"
_CONNECTION = "redrive.server.connection:PatientProtocol."


def _both(test: str) -> tuple[str, str]:
    return f"{test}[sqlite]", f"{test}[postgres]"


def _of_the_pages() -> Iterator[Guard]:
    """Whoever signs somebody in must not be a page of another site."""
    yield Guard(
        "origin of a password",
        "a foreign page signing a browser in by a password of its own",
        (Code("redrive.server.api.session:sign_in", "check_origin(request, site)", "pass"),),
        (FOREIGN_PAGE,),
    )
    yield Guard(
        "origin of a link",
        "a foreign page signing a browser in by a link of its own",
        (Code("redrive.server.api.session:redeem", "check_origin(request, site)", "pass"),),
        (FOREIGN_PAGE,),
    )
    yield Guard(
        "origin behind a proxy",
        "a foreign page signing a browser in at the proxy",
        (Code("redrive.server.api.single_sign_on:sign_in", "check_origin(request, site)", "pass"),),
        (f"{FORWARD}test_a_change_still_needs_the_token_and_the_origin",),
    )


def _limits() -> Iterator[Guard]:
    taken = {
        "key": (
            "admit",
            'self._take(f"{principal.kind}:{principal.id}", settings.server_key_rate)',
            "one key asking without end",
            "test_a_key_may_ask_so_much_and_after_a_while_again",
        ),
        "organization": (
            "admit",
            'self._take(f"org:{principal.org}", settings.server_org_rate)',
            "one organization keeping the others out by many keys",
            "test_many_keys_of_an_organization_share_what_it_has",
        ),
        "stranger": (
            "admit_stranger",
            'self._take(f"stranger:{address}", STRANGER_RATE, STRANGER_BURST)',
            "somebody without a credential asking without end",
            "test_strangers_are_counted_by_where_they_come_from",
        ),
        "address": (
            "admit_stranger",
            'self._take(f"sign-in:{address}", SIGN_IN_RATE, SIGN_IN_BURST)',
            "one address trying the passwords of many",
            "test_tries_to_sign_in_are_few",
        ),
        "name": (
            "admit_name",
            'self._take(f"name:{findable_user(name)}", SIGN_IN_RATE, SIGN_IN_BURST)',
            "many addresses trying the passwords of one",
            "test_a_name_is_tried_a_few_times_from_wherever",
        ),
    }
    for name, (method, fragment, prevents, test) in taken.items():
        patch = Code(f"redrive.server.limits:RequestLimits.{method}", fragment, "pass")
        yield Guard(f"limit.{name}", prevents, (patch,), (f"{LIMITS}{test}",))
    asked = {
        "who is known": (
            f"{_ACCESS_CONTROL}AccessControl._admit",
            "site.limits.admit(principal)",
            f"{ACCESS_CONTROL}test_whoever_asks_too_much_is_told_to_wait_and_others_are_not",
        ),
        "who is nobody": (
            f"{_ACCESS_CONTROL}AccessControl._admit",
            "site.limits.admit_stranger(request, heavy=False)",
            f"{LIMITS}test_whoever_is_nobody_is_counted_too",
        ),
        "who signs in": (
            "redrive.server.api.session:sign_in",
            "site.limits.admit_name(body.name)",
            f"{LIMITS}test_a_name_that_is_tried_under_many_addresses_is_slowed_down",
        ),
        "who sets a password": (
            "redrive.server.api.session:change_password",
            "site.limits.admit_name(visit.principal.name)",
            f"{LIMITS}test_a_stolen_session_cannot_try_passwords_without_end",
        ),
    }
    for name, (place, fragment, test) in asked.items():
        yield Guard(
            f"limited.{name}",
            f"the limits not being asked about {name}",
            (Code(place, fragment, "pass"),),
            (test,),
        )
    yield Guard(
        "limits remember so many",
        "names that nobody has filling the memory",
        (
            Code(
                "redrive.server.limits:RequestLimits._take",
                "if len(self._buckets) > MAX_BUCKETS:",
                "if False:",
            ),
        ),
        (f"{LIMITS}test_only_so_many_are_remembered",),
    )


def _cookies() -> Iterator[Guard]:
    flags = {
        "HttpOnly": ("httponly=True", "httponly=False", "a script reading the token of a session"),
        "SameSite": ('samesite="lax"', "samesite=None", "other sites' forms sending the cookie along"),
        "Secure": ("secure=self.is_secure", "secure=False", "the cookie being sent in clear"),
    }
    for name, (fragment, replacement, prevents) in flags.items():
        yield Guard(
            f"cookie.{name}",
            prevents,
            (Code("redrive.server.authenticator:Authenticator.set_session", fragment, replacement),),
            (f"{BROWSER}test_under_https_the_cookie_cannot_be_planted_by_a_neighbour",),
        )
    yield Guard(
        "cookie.__Host-",
        "another host of the same domain planting a session",
        (
            Code(
                "redrive.server.authenticator:Authenticator.__init__",
                'f"__Host-{COOKIE}" if self.is_secure else COOKIE',
                "COOKIE",
            ),
        ),
        (f"{BROWSER}test_under_https_the_cookie_cannot_be_planted_by_a_neighbour",),
    )


def _connections() -> Iterator[Guard]:
    silent = f"{CONNECTION}test_who_does_not_say_what_they_want_is_cut_off"
    too_long = f"{CONNECTION}test_a_head_that_is_too_long_is_refused_in_many_headers_and_in_one"
    yield Guard(
        "head.time",
        "silent clients holding connections for ever",
        (Code(f"{_CONNECTION}_expect_head", "call_later(HEAD_SECONDS", "call_later(3600.0 + HEAD_SECONDS"),),
        (f"{silent}[nothing]",),
    )
    yield Guard(
        "head.in time",
        "a body that takes its time being cut off with those who say nothing",
        (Code(f"{_CONNECTION}_head_is_there", "self._head_deadline.cancel()", "pass"),),
        (f"{CONNECTION}test_who_has_said_it_in_time_may_take_time_for_the_rest",),
    )
    yield Guard(
        "head.bytes",
        "headers without end filling the memory",
        (Code(f"{_CONNECTION}_count", "self._head_bytes > HEAD_BYTES", "False"),),
        (too_long,),
    )
    yield Guard(
        "head.bytes of one header",
        "one header without end filling the memory before it is told",
        (Code(f"{_CONNECTION}data_received", "self._pending_bytes > HEAD_BYTES", "False"),),
        (too_long,),
    )
    yield Guard(
        "head.before the body",
        "a header behind the body that no proxy has looked at",
        (Code(f"{_CONNECTION}on_header", "if not self._head_is_whole:", "if True:"),),
        (f"{CONNECTION}test_what_follows_the_body_is_no_header",),
    )
    yield Guard(
        "reading.time",
        "clients that do not read holding answers in the memory for ever",
        (
            Code(
                f"{_CONNECTION}_expect_reader",
                "call_later(READING_SECONDS",
                "call_later(3600.0 + READING_SECONDS",
            ),
        ),
        (f"{CONNECTION}test_who_does_not_read_the_answer_is_cut_off",),
    )


def _authenticator() -> Iterator[Guard]:
    place = "redrive.server.authenticator:Authenticator."
    taken_away = _both(
        "tests/server/test_directory_api.py::test_a_right_that_is_taken_away_is_gone_with_the_next_request"
    )
    yield Guard(
        "authenticator forgets",
        "a right that was taken away being used for a moment more",
        (Code(f"{place}forget", "self._known.clear()", "pass"),),
        taken_away,
    )
    yield Guard(
        "authenticator is told of changes",
        "a right that was taken away being used after the answer that says so",
        (Code(f"{_ACCESS_CONTROL}_forgetting", "site.authenticator.forget()", "pass"),),
        taken_away,
    )
    yield Guard(
        "authenticator is told of a sign-in",
        "the session before being used after another one has taken its place",
        (Code("redrive.server.api.session:session_response", "site.authenticator.forget()", "pass"),),
        _both(f"{BROWSER}test_signing_in_again_ends_the_session_before_at_once"),
    )
    yield Guard(
        "authenticator forgets what it looks up",
        "a key that is revoked while it is looked up being remembered as good",
        (Code(f"{place}_remembered", "if before == self._times_forgotten:", "if True:"),),
        (f"{AUTHENTICATOR}test_what_is_revoked_while_he_looks_is_not_remembered",),
    )
    yield Guard(
        "authenticator trusts for a moment",
        "what another process has revoked being good for ever",
        (Code(f"{place}_remembered", "and now < known.until", ""),),
        (f"{AUTHENTICATOR}test_what_another_process_has_revoked_is_refused_after_a_moment",),
    )
    yield Guard(
        "authenticator tells keys from cookies",
        "a key in a cookie passing without a token of a page",
        (Code(f"{place}_remembered", 'f"{kind}:{text}"', "text"),),
        (f"{AUTHENTICATOR}test_a_key_is_no_cookie_and_a_cookie_no_key",),
    )
    yield Guard(
        "authenticator remembers so many",
        "those who have come filling the memory",
        (Code(f"{place}_remember", "if len(self._known) > MAX_REMEMBERED:", "if False:"),),
        (f"{AUTHENTICATOR}test_he_remembers_so_many_and_no_more",),
    )
    yield Guard(
        "forwarded user",
        "a session of a proxy outliving the sign-out there, or used past the proxy",
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
        "anybody naming the user that they want to be",
        (Code(f"{place}user_of", "or not self._trusts(peer)", ""),),
        (f"{FORWARD}test_from_anybody_else_the_header_is_nothing[127.0.0.1]",),
    )
    yield Guard(
        "proxy.one name",
        "the header of a client passing beside that of the proxy",
        (Code(f"{place}user_of", "len(named) != 1", "not named"),),
        (f"{UNCLEAR}[several]",),
    )
    yield Guard(
        "proxy.one name in it",
        "a name with a comma in it being anybody's",
        (Code(f"{place}user_of", ' or "," in named[0]', ""),),
        doubled_by="the names of users: no member is called like two names in one",
    )
    yield Guard(
        "proxy.client",
        "a client being counted under the addresses that it writes",
        (Code(f"{place}client_of", "hop is None or not self._trusts(client)", "hop is None"),),
        (f"{FORWARD}test_nobody_is_counted_as_another_by_writing_a_header",),
    )
    yield Guard(
        "vouched name",
        "a name that only looks like a member's being theirs",
        (Code("redrive.identity.sign_in:vouched_name", 'text != normalize("NFKC", text)', "False"),),
        (f"{FORWARD}test_who_is_no_member_is_not_made_one",),
    )


def _streams() -> Iterator[Guard]:
    limits, events = "redrive.server.limits:StreamLimits._check", "redrive.server.api.events:"
    limited = (f"{EVENTS}test_streams_are_limited_for_each_and_for_all",)
    yield Guard(
        "stream.of one",
        "one client taking all streams",
        (Code(limits, "self._open[who] >= self._per_caller", "False"),),
        limited,
    )
    yield Guard(
        "stream.of an organization",
        "one organization taking all streams",
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
        "more streams than the server can serve",
        (Code(limits, "self._open[whole] >= self._maximum", "False"),),
        limited,
    )
    yield Guard(
        "stream.credential",
        "a revoked key hearing what happens",
        (
            Code(
                f"{events}EventStream._may_hear",
                "if visitor is None or visitor",
                "if visitor is None:\n        return True\n    if visitor",
            ),
        ),
        _both(f"{EVENTS}test_a_revoked_key_hears_nothing_more"),
    )
    yield Guard(
        "stream.organization",
        "a session that stands elsewhere hearing what happens here",
        (Code(f"{events}EventStream._may_hear", "visitor.principal.org != self._principal.org", "False"),),
        _both(f"{EVENTS}test_a_session_that_goes_elsewhere_hears_nothing_more_of_here"),
    )
    yield Guard(
        "stream.permission",
        "who may not read any more hearing what happens",
        (
            Code(
                f"{events}EventStream._may_hear",
                "return Permission.READ in visitor.principal.permissions",
                "return True",
            ),
        ),
        doubled_by="stream.credential: whoever has a role may read, and the scopes of a key never change",
    )
    yield Guard(
        "stream.patience",
        "a client that does not read keeping its place for ever",
        (Code(f"{events}_send_in_time", "asyncio.timeout(write_timeout)", "asyncio.timeout(None)"),),
        (f"{EVENTS}test_a_client_that_does_not_read_is_left",),
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
            "the token of another sign-in",
        ),
        "azp": (
            (
                Code(f"{token}verify", ', "client_id": expected.client_id', ""),
                Code(rules, '"azp": {"value": expected.client_id},', ""),
            ),
            "made for another",
            "a token that was made for another client",
        ),
        "audience": (
            (Code(rules, '"aud": {"essential": True, "value": expected.client_id},', ""),),
            "wrong audience, but made for us",
            "a token that is meant for another client",
        ),
        "issuer": (
            (Code(rules, '"iss": {"essential": True, "value": expected.issuer},', ""),),
            "wrong issuer",
            "a token of another provider",
        ),
        "expiry": (
            (Code(f"{token}verify", "leeway=CLOCK_SKEW_SECONDS", "leeway=86_400"),),
            "expired",
            "a token that has expired",
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
            "a subject that the tables are not made for",
        ),
    }
    for name, (patches, lie, prevents) in lies.items():
        yield Guard(f"openid.{name}", f"signing in by {prevents}", patches, (f"{LIES}[{lie}]",))
    yield Guard(
        "openid.browser",
        "a sign-in that one browser has begun being finished in another",
        (
            Code(
                "redrive.identity.oidc.login_state:take_login",
                "if hmac.compare_digest(login.browser, digest(browser)) else None",
                "",
            ),
        ),
        (f"{OIDC}test_nobody_finishes_a_sign_in_of_another_browser",),
    )
    yield Guard(
        "openid.sender",
        "a code of another provider being shown to ours",
        (Code(f"{provider}check_issuer", "if named == self.issuer:", "if True:"),),
        (f"{OIDC}test_an_answer_of_another_provider_is_not_shown_to_this_one",),
    )
    yield Guard(
        "openid.verified",
        "an address that nobody has verified opening an account",
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
        "userinfo about somebody else being believed",
        (Code(f"{provider}_profile", 'if profile.get("sub") != claims["sub"]:', "if False:"),),
        (f"{OIDC}test_userinfo_about_somebody_else_is_not_believed",),
    )
    yield Guard(
        "openid.small key",
        "a key that can be guessed being trusted",
        (Code(f"{token}_read_key", 'data["kty"] == "RSA" and', "False and"),),
        (f"{OIDC}test_a_small_key_is_not_trusted",),
    )
    yield Guard(
        "openid.size",
        "a provider filling the memory of the server",
        (Code(f"{connection}_LimitedStream.__aiter__", "if size > MAX_ANSWER_BYTES:", "if False:"),),
        (f"{OIDC}test_an_answer_may_be_long_but_not_without_end",),
    )
    yield Guard(
        "openid.time",
        "a provider that answers drop by drop holding up a sign-in for ever",
        (
            Code(
                f"{connection}ProviderConnection.exchange",
                "asyncio.timeout(EXCHANGE_SECONDS)",
                "asyncio.timeout(None)",
            ),
        ),
        (f"{OIDC}test_a_provider_that_answers_drop_by_drop_holds_nobody_up",),
    )
    yield Guard(
        "openid.redirects",
        "a provider sending the server to any other address",
        (
            Code(
                f"{connection}ProviderConnection.oauth_client",
                "follow_redirects=False",
                "follow_redirects=True",
            ),
        ),
        (f"{OIDC}test_an_answer_of_no_use_is_a_problem_and_not_a_fault[elsewhere-/keys]",),
    )
    yield Guard(
        "openid.addresses",
        "a secret being sent to an address without encryption",
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
        "somebody doing what their role or their key does not allow",
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
        "another organization changing what all share",
        (
            Code(
                f"{_ACCESS_CONTROL}AccessControl._check_rights",
                "self._rule.home and not principal.at_home",
                "False",
            ),
        ),
        _both("tests/server/test_shared_api.py::test_what_all_share_is_changed_from_home_by_those_who_may"),
    ),
    Guard(
        "rule.everywhere",
        "a route being open because nobody has said that it is not",
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
        "a foreign page changing something with the cookie of a browser",
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
        "a page that has got hold of a token changing something from elsewhere",
        (Code(f"{_ACCESS_CONTROL}_check_csrf", "check_origin(request, site)", "pass"),),
        (f"{OF_OUR_PAGES}[headers2-foreign_origin]", f"{OF_OUR_PAGES}[headers4-foreign_origin]"),
    ),
    Guard(
        "page.same origin",
        "any page with an address being one of ours",
        (Code(f"{_ACCESS_CONTROL}check_origin", "_parts(origin) != _parts(site.origin(request))", "False"),),
        (f"{OF_OUR_PAGES}[headers2-foreign_origin]",),
    ),
    Guard(
        "page.no address",
        "a page without an address of its own being one of ours",
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
        "another name that leads here making a browser talk to this machine",
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
        "two host names, of which a proxy has looked at the other",
        (Code("redrive.server.app:ResponseMiddleware._check_host", "len(hosts) > 1", "False"),),
        (STRANGE_HOSTS,),
    ),
    Guard(
        "host.whole",
        "a host that readers of addresses disagree about",
        (Code("redrive.server.site:host_name", "_HOST.fullmatch(host)", "_HOST.match(host)"),),
        (STRANGE_HOSTS,),
    ),
    Guard(
        "address.key",
        "keys in addresses, which logs keep",
        (Code(f"{_ACCESS_CONTROL}AccessControl._check_address", 'if b"rdk_" in query:', "if False:"),),
        (f"{ACCESS_CONTROL}test_a_key_in_the_address_is_refused_and_not_repeated",),
    ),
    Guard(
        "address.parameter",
        "a mistyped filter finding everything",
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
        "a body that is too large being read at all",
        (
            Code(
                "redrive.server.limits:BodyLimits.__call__",
                "self._check(declared)",
                "pass",
            ),
        ),
        doubled_by="body.counted: it is refused as soon as too much has come",
    ),
    Guard(
        "body.counted",
        "a body without a length filling the memory",
        (Code("redrive.server.limits:BodyLimits._bounded", "self._check(taken)", "pass"),),
        (f"{ACCESS_CONTROL}test_a_body_that_is_too_large_is_refused",),
    ),
    Guard(
        "body.time",
        "a body that does not come holding a request for ever",
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
        "a stream of events being cut off as if its body were missing",
        (Code("redrive.server.limits:BodyLimits._bounded", "if whole:", "if False:"),),
        (f"{INTAKE}test_who_has_said_everything_may_wait_for_as_long_as_they_like",),
    ),
    *_connections(),
    *_limits(),
    *_authenticator(),
    *_proxies(),
    *_cookies(),
    *_streams(),
    *_openid(),
    Guard(
        "kept answer.whose",
        "somebody being given the answer of another key",
        (
            Code(
                f"{_ACCESS_CONTROL}AccessControl._application",
                "KeyScope(visit.org, visit.principal.whose)",
                'KeyScope(visit.org, "")',
            ),
        ),
        _both(f"{ANSWERING}test_the_answer_is_given_again_to_the_same_key_only"),
    ),
    Guard(
        "kept answer.secret",
        "the text of a new key being kept",
        (Code(f"{_ACCESS_CONTROL}AccessControl._application", "or not self._rule.repeatable", ""),),
        _both(f"{ANSWERING}test_an_answer_with_a_secret_is_never_kept"),
    ),
    Guard(
        "open address",
        "everybody coming in where nobody can be asked who they are",
        (
            Code(
                "redrive.server.serve:refuse_open_address",
                "if not is_loopback(host) and not await _can_anybody_sign_in(app):",
                "if False:",
            ),
        ),
        (f"{SERVE}test_nobody_else_may_before_somebody_can_sign_in",),
    ),
    Guard(
        "open address.revoked",
        "a revoked key being taken for somebody who can be asked",
        (Sql("api_keys.any_credential", r"revoked_at IS NULL"),),
        (f"{SERVE}test_a_credential_that_does_not_hold_is_nobodys",),
    ),
    Guard(
        "open address.disabled",
        "a disabled member being taken for somebody who can be asked",
        (Sql("api_keys.any_credential", r"disabled_at IS NULL"),),
        (f"{SERVE}test_a_credential_that_does_not_hold_is_nobodys",),
    ),
    Guard(
        "the server raises the wall",
        "requests working with the rights of the workers",
        (
            Code(
                "redrive.wiring:Parts.enable_row_level_security",
                "self._is_walled = True",
                "self._is_walled = False",
            ),
        ),
        _both(f"{ANSWERING}test_requests_work_behind_the_second_wall"),
    ),
)
