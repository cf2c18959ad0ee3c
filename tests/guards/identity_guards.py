"""Guards of identity, of idempotency keys and of row-level security."""

from __future__ import annotations

from collections.abc import Iterator

from tests.guards.guard import Guard
from tests.guards.patch import ALWAYS, Code, Schema, Sql

from redrive.store.row_level_security import HOME, TENANT_RIGHTS

ACCESS = "tests/policy/test_access.py::"
IDENTITY = "tests/store/test_identity.py::"
KEYS = "tests/identity/test_keys.py::"
MEMBERS = "tests/identity/test_members.py::"
SESSIONS = "tests/identity/test_sessions.py::"
STORED_KEYS = "tests/store/test_idempotency.py::"
IDEMPOTENCY = "tests/idempotency/test_idempotency.py::"
LISTING = "tests/store/test_run_listing.py::"
TENANT = "tests/store/test_tenant.py::"
WALL = "tests/store/test_row_level_security.py::"
RUN_WALL = "tests/guards/test_run_isolation.py::"
OF_RUNS = ("ready", "idle", "leases", "ended")
_OWN = "org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant'"

CLOCK = r"(?:\?1|date_part\('epoch', (?:now|clock_timestamp)\(\)\))"
TOKEN = r"(?<![\w.])token = [?$]\d+"
PROCESSING = r"(?<![\w.])status = 'processing'"
NEVER = r"(\g<0> AND 1 = 0)"

_KEYS = "redrive.identity.keys:"
_MEMBERS = "redrive.identity.members:Members."
_LOOKUP = "redrive.identity.member_lookup:MemberLookup."
_SESSIONS = "redrive.identity.sessions:UserSessions."
_SIGN_IN = "redrive.identity.sign_in:SignIn."
_IS_VALID = "redrive.identity.credentials:_is_valid"


def _both(test: str) -> tuple[str, str]:
    return f"{test}[sqlite]", f"{test}[postgres]"


def _each(test: str, name: str) -> tuple[str, str]:
    return f"{test}[sqlite-{name}]", f"{test}[postgres-{name}]"


def _held_keys() -> Iterator[Guard]:
    """A caller that has lost an idempotency key changes nothing."""
    lost = f"{STORED_KEYS}test_a_caller_that_has_lost_a_key_changes_nothing_i4"
    for word, does in (
        ("renew", "renews another caller's lease"),
        ("complete", "overwrites another caller's response with its own"),
        ("fail", "overwrites another caller's response with its failure"),
        ("release", "releases a key under which another caller is executing"),
    ):
        patch = Sql(f"idempotency.{word}_if_held", TOKEN)
        yield Guard(
            f"{word}_if_held.token", f"a caller that lost the key {does}", (patch,), _each(lost, word)
        )
    for word, does in (("renew", "counts as a request in progress"), ("release", "is deleted")):
        yield Guard(
            f"{word}_if_held.status",
            f"a stored response {does}",
            (Sql(f"idempotency.{word}_if_held", PROCESSING),),
            _both(f"{STORED_KEYS}test_a_finished_request_is_neither_released_nor_renewed"),
        )
    own = f"{STORED_KEYS}test_another_org_user_or_domain_has_its_own_keys_i8"
    for field in ("domain", "user_id", "key"):
        yield Guard(
            f"idempotency.{field}",
            f"a caller gets the response stored under another {field}",
            (Sql("idempotency.find", rf"(?<![\w.]){field} = [?$]\d+"),),
            _each(own, field),
        )


def _acquired_keys() -> Iterator[Guard]:
    row = "idempotency_keys."
    held = rf"NOT \({row}status = 'processing' AND {row}lease_expires_at > {CLOCK}\)"
    parts = {
        "hash": (
            rf"{row}request_hash = excluded\.request_hash",
            ALWAYS,
            "another request takes over a key left behind by a crash",
            "test_a_key_whose_lease_has_ended_is_free_for_the_same_request_only",
        ),
        "lease": (
            rf"{row}lease_expires_at <= {CLOCK}",
            ALWAYS,
            "two callers execute the same request at once",
            "test_a_key_is_taken_once",
        ),
        "status": (
            rf"{row}status = 'processing'(?= AND {row}request_hash)",
            ALWAYS,
            "a completed request is executed again",
            "test_a_completed_key_stays_taken_after_its_lease_has_ended",
        ),
        "expiry": (
            rf"{row}expires_at <= {CLOCK}",
            ALWAYS,
            "a stored response is dropped before it expires",
            "test_a_completed_key_stays_taken_after_its_lease_has_ended",
        ),
        "held": (
            held,
            ALWAYS,
            "an expiring key is taken from the caller that is executing under it",
            "test_expiry_does_not_take_a_key_from_its_holder",
        ),
        "own": (
            rf"{row}token = excluded\.token",
            NEVER,
            "a caller cannot use the key that it acquired when the response was lost",
            "test_a_write_whose_answer_was_lost_can_be_repeated",
        ),
    }
    for name, (pattern, replacement, prevents, test) in parts.items():
        patch = Sql("idempotency.acquire", pattern, replacement)
        yield Guard(f"acquire.{name}", prevents, (patch,), _both(f"{STORED_KEYS}{test}"))


def _kept_keys() -> Iterator[Guard]:
    yield Guard(
        "remove_expired.held",
        "a key is removed while a caller executes under it",
        (
            Sql(
                "idempotency.remove_expired", rf"NOT \(status = 'processing' AND lease_expires_at > {CLOCK}\)"
            ),
        ),
        _both(f"{STORED_KEYS}test_expiry_does_not_take_a_key_from_its_holder"),
    )
    yield Guard(
        "remove_expired.expiry",
        "stored responses are removed before they expire",
        (Sql("idempotency.remove_expired", rf"expires_at <= {CLOCK}"),),
        _both(f"{STORED_KEYS}test_sweeping_removes_a_few_of_the_oldest_expired_keys"),
    )
    anew = f"{STORED_KEYS}test_re_encryption_replaces_only_the_value_that_was_read"
    yield Guard(
        "rewrite.token",
        "re-encryption with a new key brings back the response of an earlier request",
        (Sql("idempotency.rewrite", TOKEN),),
        _both(anew),
    )
    yield Guard(
        "rewrite.status",
        "re-encryption with a new key brings back an old response while the request executes again",
        (Sql("idempotency.rewrite", r"status <> 'processing'"),),
        _both(anew),
    )
    yield Guard(
        "same request",
        "a different request with the same key gets the response of the first",
        (
            Code(
                "redrive.policy.idempotency_key:request_status",
                "if state.request_hash != request_hash:",
                "if False:",
            ),
        ),
        _both(f"{IDEMPOTENCY}test_another_request_under_the_same_key_is_refused_and_not_executed"),
    )
    yield Guard(
        "lost key is reported",
        "a caller that has lost the key returns a response that is not stored",
        (
            Code(
                "redrive.idempotency.hold:Hold._end",
                "if not await self._services.finish(self._services.persist(action)):",
                "if not await self._services.finish(self._services.persist(action)) and False:",
            ),
        ),
        _both(f"{IDEMPOTENCY}test_the_completion_of_a_lost_key_does_not_count_i4"),
    )
    yield Guard(
        "keys.not renewed",
        "work continues under a key that another caller holds",
        (
            Code(
                "redrive.engine.lease_renewer:LeaseRenewer.renew",
                "self._give_up([key for key, _ in due if key not in renewed])",
                "pass",
            ),
        ),
        (f"{IDEMPOTENCY}test_a_holder_learns_with_the_next_renewal_that_another_caller_has_its_key",),
    )
    yield Guard(
        "keys.expired",
        "work continues after its lease has expired while the database is unreachable",
        (
            Code(
                "redrive.engine.lease_renewer:LeaseRenewer.give_up_expired",
                "if now >= deadline(*lease)",
                "if False",
            ),
        ),
        (f"{IDEMPOTENCY}test_a_holder_without_the_database_for_a_whole_lease_gives_the_key_up",),
    )
    for name, secrets, place, fragment, plain, test in (
        (
            "stored answer",
            "stored responses",
            "redrive.idempotency.hold:Hold.complete",
            "self._services.encryption.encrypt(text)",
            "text",
            f"{IDEMPOTENCY}test_stored_values_are_encrypted_if_there_is_a_key_m11_i9",
        ),
        (
            "stored failure",
            "stored failures",
            "redrive.idempotency.hold:Hold.fail",
            "self._services.encryption.encrypt(encode(failure))",
            "encode(failure)",
            f"{IDEMPOTENCY}test_stored_values_are_encrypted_if_there_is_a_key_m11_i9",
        ),
        (
            "login state",
            "the login state of a sign-in",
            "redrive.identity.one_time:OneTimeSecrets.put",
            "self._encryption.encrypt(encode(body))",
            "encode(body)",
            f"{SESSIONS}test_login_state_is_encrypted_if_there_is_a_key_i9",
        ),
    ):
        yield Guard(
            f"encrypted.{name}",
            f"secrets in {secrets} reach the disk unencrypted",
            (Code(place, fragment, plain),),
            _both(test),
        )


def _owners() -> Iterator[Guard]:
    """Every organization keeps an owner who is active and enabled."""
    last = f"{MEMBERS}test_the_last_owner_cannot_go"
    for name, place, fragment, replacement, loss in (
        ("removed", f"{_MEMBERS}_remove", "if member.owns:", "if False:", "remove"),
        (
            "changed",
            f"{_MEMBERS}change",
            "if before.owns and not (wanted is Role.OWNER and able):",
            "if False:",
            "demote",
        ),
        (
            "disabled",
            "redrive.identity.accounts:MemberAccounts.disable",
            "for org in owned:",
            "for org in []:",
            "disable",
        ),
    ):
        yield Guard(
            f"last owner.{name}",
            "the last owner of an organization is "
            + (name if name != "changed" else "demoted or deactivated"),
            (Code(place, fragment, replacement),),
            _each(last, loss),
        )
    yield Guard(
        "last owner",
        "an organization has no owner",
        (
            Code(
                f"{_LOOKUP}require_other_owner",
                "if not await self._memberships.other_owners(session, org, member.user_id):",
                "if False:",
            ),
        ),
        _each(last, "leave"),
    )
    for name, pattern, prevents in (
        ("role", r"member\.role = 'OWNER'", "members who are not owners count as owners"),
        ("active", r"member\.active = 1", "inactive owners count as active owners"),
        ("disabled", r"NOT member\.disabled", "disabled owners count as active owners"),
        ("other", r"member\.user_id <> [?$]\d+", "the last owner counts as another owner"),
    ):
        yield Guard(
            f"other_owners.{name}",
            prevents,
            (Sql("memberships.other_owners", pattern),),
            _each(last, "remove"),
        )
    yield Guard(
        "owners.lock",
        "two owners remove each other at the same time, and both are gone",
        (Sql("organizations.lock", r"FOR UPDATE", "", ("postgres",)),),
        tuple(
            f"{MEMBERS}test_two_owners_who_remove_each_other_leave_one[postgres-{loss}]"
            for loss in ("remove", "demote", "deactivate", "disable")
        ),
    )
    yield Guard(
        "member.lock",
        "a member is disabled at the moment they become the only owner",
        (Sql("users.lock", r"FOR UPDATE", "", ("postgres",)),),
        (f"{MEMBERS}test_a_user_does_not_become_the_only_owner_while_being_disabled",),
    )
    yield Guard(
        "member.version",
        "an edit overwrites a newer change by another user",
        (Code(f"{_LOOKUP}lock", "if version not in (None, member.version):", "if False:"),),
        _both(f"{MEMBERS}test_an_edit_of_an_old_version_is_refused"),
    )
    yield Guard(
        "member.version rises",
        "two changes of a member have the same version",
        (Sql("memberships.change", r"version = version \+ 1", "version = version"),),
        _both(f"{MEMBERS}test_an_edit_of_an_old_version_is_refused"),
    )


def _grants() -> Iterator[Guard]:
    more = _both(f"{KEYS}test_a_key_grants_no_more_rights_than_it_has")
    place = "redrive.policy.access:Principal.may_grant"
    yield Guard(
        "grant.role",
        "a caller grants a role above their own",
        (Code(place, "role.rank <= self.role.rank and", ""),),
        (f"{ACCESS}test_a_caller_grants_no_role_above_their_own",),
    )
    yield Guard(
        "grant.permissions",
        "a caller grants a permission that their own scopes exclude",
        (Code(place, "and permitted(role, scopes) <= self.permissions", ""),),
        (f"{ACCESS}test_a_caller_grants_nothing_outside_their_scopes", *more),
    )
    yield Guard(
        "grant.member",
        "a caller adds members with more rights than their own",
        (Code(f"{_LOOKUP}require", "require_grant(self._principal, role)", "pass"),),
        more,
    )
    yield Guard(
        "grant.key",
        "a key creates a key with more rights, or takes over such a key's secret",
        (Code(f"{_KEYS}Keys._require", "require_grant(self._principal, role, scopes)", "pass"),),
        more,
    )
    yield Guard(
        "manage.member",
        "callers with read-only access manage members",
        (Code(f"{_LOOKUP}require", "require_permission(self._principal, Permission.MANAGE)", "pass"),),
        _both(f"{MEMBERS}test_only_owners_manage_members_and_accounts_w12"),
    )
    only = _both(f"{KEYS}test_only_owners_manage_keys_w12")
    yield Guard(
        "manage.key",
        "callers with read-only access create keys",
        (Code(f"{_KEYS}Keys._require", "require_permission(self._principal, Permission.MANAGE)", "pass"),),
        only,
    )
    yield Guard(
        "manage.revoking",
        "callers with read-only access revoke keys",
        (Code(f"{_KEYS}Keys.revoke", "require_permission(self._principal, Permission.MANAGE)", "pass"),),
        only,
    )
    yield Guard(
        "scopes",
        "a key with limited scopes has all permissions of its role",
        (Code("redrive.policy.access:permitted", "PERMISSIONS[role] & scopes", "PERMISSIONS[role]"),),
        _both(f"{KEYS}test_scopes_narrow_a_key"),
    )
    yield Guard(
        "everywhere",
        "a key of the home organization with limited scopes reaches all other organizations",
        (
            Code(
                "redrive.identity.credentials:_principal",
                "and permissions == permitted(Role.OWNER)",
                "",
            ),
        ),
        more,
    )
    yield Guard(
        "organizations.create",
        "callers other than the owners of the installation create organizations",
        (
            Code(
                "redrive.identity.organizations:OrganizationDirectory.create",
                "if not self._principal.everywhere:",
                "if False:",
            ),
        ),
        more,
    )
    everybody = _both(f"{MEMBERS}test_members_elsewhere_see_only_their_own_organization_w13")
    yield Guard(
        "organizations.view",
        "an organization views another organization by name",
        (
            Code(
                "redrive.identity.organizations:OrganizationDirectory.view",
                "if name not in (None, own) and not self._principal.everywhere:",
                "if False:",
            ),
        ),
        everybody,
    )
    yield Guard(
        "organizations.list",
        "an organization lists all other organizations",
        (
            Code(
                "redrive.identity.organizations:OrganizationDirectory.list",
                "if not self._principal.everywhere:",
                "if False:",
            ),
        ),
        everybody,
    )


def _accounts() -> Iterator[Guard]:
    yield Guard(
        "account.own",
        "the owners of one organization sign in to another as a user of that organization",
        (
            Code(
                "redrive.identity.accounts:MemberAccounts._controlled",
                "if user.org != member.org and not self._principal.everywhere:",
                "if False:",
            ),
        ),
        _both(f"{MEMBERS}test_a_link_gives_no_access_to_another_organization"),
    )
    yield Guard(
        "account.added",
        "an account whose password another organization knows becomes a member",
        (Code(f"{_MEMBERS}_account", "if not self.principal.everywhere:", "if False:"),),
        _both(f"{MEMBERS}test_an_account_of_another_organization_cannot_be_added"),
    )
    adopted = _both(f"{MEMBERS}test_an_account_adopted_by_the_home_organization_keeps_no_old_secret")
    for name, patch, prevents in (
        ("password", Sql("users.adopt", "password = NULL", "password = password"), "a password"),
        (
            "org",
            Sql("users.adopt", r"org = ([?$]\d+)", r"org = COALESCE(org, \1)"),
            "control of the account",
        ),
        (
            "sessions",
            Code(f"{_MEMBERS}_adopt", "await self._store.sessions.end_others(session, user.id)", "pass"),
            "a session",
        ),
        (
            "links",
            Code(f"{_MEMBERS}_adopt", "await self._store.one_time.drop_of_user(session, user.id)", "pass"),
            "a link",
        ),
    ):
        yield Guard(
            f"adopted.{name}",
            f"the organization that created an account keeps {prevents} after the account is adopted",
            (patch,),
            adopted,
        )
    yield Guard(
        "account.sessions",
        "a session survives after an owner sets a new password",
        (
            Code(
                "redrive.identity.accounts:MemberAccounts._sign_out",
                "await self._store.sessions.end_others(session, user.id)",
                "pass",
            ),
        ),
        _both(f"{MEMBERS}test_a_password_that_an_owner_sets_ends_sessions_and_links"),
    )
    yield Guard(
        "account.links",
        "a sign-in link survives after an owner sets a new password",
        (
            Code(
                "redrive.identity.accounts:MemberAccounts._sign_out",
                "await self._store.one_time.drop_of_user(session, user.id)",
                "pass",
            ),
        ),
        _both(f"{MEMBERS}test_a_password_that_an_owner_sets_ends_sessions_and_links"),
    )
    handed_out = f"{MEMBERS}test_links_that_an_owner_has_handed_out_end_with_their_rights_w12"
    for name, place, whose, loss in (
        ("demoted", f"{_MEMBERS}change", "before.name", "demote"),
        ("removed", f"{_MEMBERS}_remove", "member.name", "remove"),
        ("disabled", "redrive.identity.accounts:MemberAccounts.disable", "user.name", "disable"),
    ):
        yield Guard(
            f"links of the {name}",
            f"a {name} owner comes back with a link that they handed out",
            (Code(place, f"await self._store.one_time.drop_made_by(session, {whose})", "pass"),),
            _each(handed_out, loss),
        )
    yield Guard(
        "links of a revoked key",
        "the holder of a revoked key comes back with a link that the key handed out",
        (
            Code(
                f"{_KEYS}Keys.revoke",
                "await self._store.one_time.drop_made_by_key",
                "(lambda *_: None)",
            ),
        ),
        _both(f"{KEYS}test_links_that_a_key_has_handed_out_end_with_it"),
    )
    yield Guard(
        "account.operator",
        "a user whom another system names `operator` owns the installation",
        (Code("redrive.identity.sign_in:_is_vouchable", "user.created_by != SELF", "True"),),
        _both(f"{SESSIONS}test_no_provider_or_proxy_can_name_the_operator"),
    )
    yield Guard(
        "account.one identity",
        "a second identity is linked to an account that already has one",
        (Sql("users.identify", r"issuer IS NULL"),),
        _both(f"{SESSIONS}test_a_provider_cannot_replace_a_user_with_another_person"),
    )


def _api_keys() -> Iterator[Guard]:
    rotated = _both(f"{KEYS}test_after_a_rotation_both_secrets_are_valid_until_the_grace_ends")
    for name, fragment, replacement, prevents, tests in (
        (
            "revoked",
            "key.revoked_at is not None or",
            "",
            "a revoked key is valid",
            _both(f"{KEYS}test_revoking_a_key_is_immediate_and_permanent"),
        ),
        (
            "expired",
            "or key.has_expired(known.now)",
            "",
            "an expired key is valid",
            _both(f"{KEYS}test_a_key_ends_when_it_expires"),
        ),
        (
            "secret",
            "if is_secret_of(given, known.hash):",
            "if True:",
            "the id of a key is enough to sign in",
            _both(f"{KEYS}test_another_text_than_the_key_identifies_no_caller"),
        ),
        (
            "grace",
            "and key.previous_expires_at > known.now",
            "",
            "a rotated secret is valid after its grace period",
            rotated,
        ),
    ):
        yield Guard(f"key.{name}", prevents, (Code(_IS_VALID, fragment, replacement),), tests)
    yield Guard(
        "key.rotated when expired",
        "rotating an expired key makes its old secret valid again",
        (Code(f"{_KEYS}Keys.rotate", "0.0 if before.has_expired(now) else", ""),),
        _both(f"{KEYS}test_rotating_an_expired_key_does_not_bring_its_old_secret_back"),
    )
    yield Guard(
        "key.rotated when revoked",
        "a revoked key can be rotated into a valid one",
        (Code(f"{_KEYS}_reject_ended", "if key.revoked_at is not None:", "if False:"),),
        _both(f"{KEYS}test_revoking_a_key_is_immediate_and_permanent"),
    )
    yield Guard(
        "key.unique name",
        "two active keys have the same name, and the audit log cannot tell them apart",
        (
            Schema("CREATE UNIQUE INDEX api_keys_by_name", "CREATE INDEX api_keys_by_name"),
            Sql(
                "api_keys.insert",
                r"ON CONFLICT \(org, name\) WHERE revoked_at IS NULL DO NOTHING",
                "",
            ),
        ),
        _both(f"{IDENTITY}test_two_active_keys_cannot_have_the_same_name"),
    )


def _one_time() -> Iterator[Guard]:
    yield Guard(
        "one time.once",
        "one link can be used twice",
        (Sql("one_time.take", r"DELETE FROM (\S+) (WHERE .*)\nRETURNING (.*)", r"SELECT \3 FROM \1 \2"),),
        _each(f"{IDENTITY}test_a_token_is_taken_by_one_of_many_callers", "20"),
    )
    other = _both(f"{IDENTITY}test_expired_tokens_and_tokens_of_another_kind_are_not_taken")
    yield Guard(
        "one time.expiry",
        "a link is valid forever",
        (Sql("one_time.take", rf"expires_at > {CLOCK}"),),
        other,
    )
    yield Guard(
        "one time.kind",
        "a link passes as the login state of a provider, or the other way round",
        (Sql("one_time.take", r"kind = [?$]\d+"),),
        other,
    )


def _sessions() -> Iterator[Guard]:
    ends = f"{SESSIONS}test_a_session_ends_after_its_lifetime_and_when_idle"
    taken = _both(f"{SESSIONS}test_revoked_rights_are_gone_with_the_next_request_w12")
    disabled = _both(f"{MEMBERS}test_a_disabled_user_is_signed_out_and_cannot_sign_in_until_enabled")
    yield Guard(
        "session.absolute",
        "a session never ends",
        (Sql("sessions.known", rf"held\.expires_at > {CLOCK}"),),
        _each(ends, "expires_at-0.0"),
    )
    yield Guard(
        "session.idle",
        "an idle session stays open to anyone who finds it",
        (Sql("sessions.known", rf"held\.seen_at > {CLOCK} - [?$]\d+"),),
        _each(ends, "seen_at--43200.0"),
    )
    yield Guard(
        "session.disabled",
        "a disabled user keeps using a session",
        (Sql("sessions.known", r"account\.disabled_at IS NULL"),),
        doubled_by="account.sessions: disabling a user ends all their sessions",
    )
    yield Guard(
        "session.active",
        "a deactivated member keeps working",
        (Sql("sessions.known", r"active = 1"),),
        taken,
    )
    yield Guard(
        "session.no member",
        "a former member keeps working",
        (
            Code(
                "redrive.identity.sign_in:signed_in_user",
                "if role is None:",
                "if role is None and not (role := Role.OWNER):",
            ),
        ),
        taken,
    )
    yield Guard(
        "session.rotation",
        "a session token from before a sign-in stays valid after it",
        (
            Code(
                f"{_SIGN_IN}_start",
                "await self._store.sessions.end(session, digest(ending)) if is_token(ending) else None",
                "None",
            ),
        ),
        _both(f"{SESSIONS}test_a_token_from_before_is_never_promoted"),
    )
    yield Guard(
        "sign-in.disabled",
        "a disabled user signs in",
        (Code(f"{_SIGN_IN}_start", "or now.disabled_at is not None", ""),),
        disabled,
    )
    yield Guard(
        "sign-in.same password",
        "a password opens a session after it was changed",
        (Code(f"{_SIGN_IN}_start", "or now.password_number != user.password_number", ""),),
        _both(f"{SESSIONS}test_a_password_that_is_changed_while_it_is_checked_does_not_sign_in"),
    )
    yield Guard(
        "sign-in.password",
        "any password opens a session",
        (Code(f"{_SIGN_IN}by_password", "or not is_correct", ""),),
        _both(f"{SESSIONS}test_a_caller_who_cannot_sign_in_learns_nothing"),
    )
    yield Guard(
        "sign-in.membership",
        "a user signs in to an organization without a membership",
        (Code(f"{_SIGN_IN}_organization", "or effective_role(roles) is None", ""),),
        doubled_by="session.no member: a user without a membership gets no session",
    )
    yield Guard(
        "enter.membership",
        "a user switches to an organization without a membership",
        (Code(f"{_SESSIONS}enter", "or effective_role(roles) is None", ""),),
        _both(f"{SESSIONS}test_a_user_enters_the_organizations_that_they_are_a_member_of_w13"),
    )
    yield Guard(
        "roles.org",
        "a membership in one organization counts in another",
        (Sql("memberships.roles", r"org = [?$]\d+(?= AND active = 1\),\n)"),),
        _both(f"{SESSIONS}test_a_user_enters_the_organizations_that_they_are_a_member_of_w13"),
    )
    own = _both(f"{SESSIONS}test_users_see_and_end_only_their_own_sessions")
    yield Guard(
        "session.end_one",
        "a user ends another user's session",
        (Sql("sessions.end_one", r"user_id = [?$]\d+"),),
        own,
    )
    yield Guard(
        "session.end_others",
        "a user ends the sessions of all users",
        (Sql("sessions.end_others", r"user_id = [?$]\d+"),),
        own,
    )
    yield Guard(
        "session.of_user",
        "a user sees the sessions of all users",
        (Sql("sessions.of_user", r"user_id = [?$]\d+"),),
        own,
    )
    changing = _both(f"{SESSIONS}test_changing_a_password_needs_the_current_one_and_ends_the_other_sessions")
    yield Guard(
        "password.current",
        "a stolen session sets a new password",
        (
            Code(
                f"{_SESSIONS}_proven",
                "if current is None or not await self._passwords.verify(user.password, current):",
                "if False:",
            ),
        ),
        changing,
    )
    yield Guard(
        "password.others",
        "a stolen session survives a change of the password",
        (
            Code(
                f"{_SESSIONS}change_password",
                "await self._sessions.end_others(session, user.id, known.line.id)",
                "0",
            ),
        ),
        changing,
    )
    yield Guard(
        "password.unknown name",
        "the time that a rejection takes reveals which names exist",
        (
            Code(
                "redrive.identity.passwords:Passwords._verify",
                "self._argon().verify(stored or self._dummy_hash, text)",
                "stored is not None and self._argon().verify(stored, text)",
            ),
        ),
        ("tests/identity/test_passwords.py::test_an_unknown_name_takes_as_long_as_a_known_one",),
    )
    yield Guard(
        "password.flood",
        "a flood of sign-in attempts makes every user wait forever",
        (Code("redrive.identity.passwords:Passwords._run", "if self._waiting >= MAX_WAITING:", "if False:"),),
        ("tests/identity/test_passwords.py::test_a_flood_is_rejected_and_earlier_callers_are_served",),
    )


def _versions() -> Iterator[Guard]:
    yield Guard(
        "dead letter.version",
        "a user changes a dead letter that another user has changed since it was read",
        (
            Code(
                "redrive.failures.dead_letters:DeadLetters._locked",
                "check_letter_version(locked, version)",
                "pass",
            ),
        ),
        _both(
            "tests/server/test_dead_letters_api.py::test_a_letter_is_changed_only_if_its_version_is_current"
        ),
    )
    yield Guard(
        "group.version",
        "a user changes a failure group that another user has changed since it was read",
        (
            Code(
                "redrive.failures.groups:FailureGroups._locked",
                'check_version(f"failure group {fingerprint}", group.state, group.version, read)',
                "pass",
            ),
        ),
        _both("tests/server/test_groups_api.py::test_a_group_is_changed_only_if_its_version_is_current"),
    )
    yield Guard(
        "weak version",
        "a weak ETag matches",
        (Code("redrive.server.api.request:versions", "if not weak", ""),),
        _both(
            "tests/server/test_dead_letters_api.py::test_a_letter_is_changed_only_if_its_version_is_current"
        ),
    )


def _lists() -> Iterator[Guard]:
    """Run lists are queries built at run time: one guard for each branch."""
    same = _both(f"{LISTING}test_two_orgs_with_the_same_work_see_only_their_own_w13")
    for branch, what in (
        ("_over", "finished runs"),
        ("_idle", "waiting runs"),
        ("_executing", "runs in progress"),
        ("_looked_up", "runs by their id"),
        ("_correlated", "runs by their correlation id"),
    ):
        yield Guard(
            f"run_listing{branch}.org",
            f"an org finds another org's {what}",
            (
                Code(
                    "redrive.store.run_listing:_branch",
                    "return text.replace(",
                    "return text.replace('org = :org', 'org >= substr(:org, 1, 0)' "
                    f"if branch.name == '{branch}' else 'org = :org').replace(",
                ),
            ),
            same,
        )


def _wall() -> Iterator[Guard]:
    """The policies of the migrations, and the org of a connection."""
    for table in TENANT_RIGHTS:
        yield Guard(
            f"row-level security.{table}",
            f"a statement without an org filter reaches another org's rows in {table}",
            (_open_policy(table),),
            (_policy_test(table),),
        )
    yield Guard(
        "row-level security.runs",
        "a statement without an org filter reaches another org's runs through the view",
        (Schema(f"WHERE work.{_OWN};", "WHERE true;"),),
        tuple(f"{RUN_WALL}test_the_view_shows_an_org_its_own_runs_i8[{table}]" for table in OF_RUNS),
    )
    for table in HOME:
        yield Guard(
            f"row-level security.{table}",
            f"an org other than the home org changes {table}",
            (_open_policy(table),),
            (f"{WALL}test_only_the_home_org_changes_shared_state[{table}]",),
        )
    yield Guard(
        "row-level security.org of a connection",
        "a connection keeps the org that used it before",
        (
            Code(
                "redrive.store.postgres_tenant:PostgresTenant._prepare",
                "if connection.tenant_settings != self._tenant_settings:",
                "if connection.tenant_settings is None:",
            ),
        ),
        (f"{TENANT}test_orgs_on_one_connection_never_see_rows_of_each_other_i8",),
    )
    yield Guard(
        "row-level security.confirmed",
        "after a cancellation, a connection acts for another org than it has recorded",
        (
            Code(
                "redrive.store.postgres_tenant:PostgresTenant._set_tenant",
                "connection.tenant_settings = None",
                "pass",
            ),
        ),
        doubled_by="the end of a cancelled statement, which also ends its connection",
    )
    yield Guard(
        "row-level security.role",
        "requests run with the rights of the workers because a pooler dropped the role",
        (
            Code(
                "redrive.store.postgres_tenant:PostgresTenant._set_tenant",
                "if self._role not in (None, user):",
                "if False:",
            ),
        ),
        (f"{TENANT}test_without_the_role_no_request_is_served",),
    )
    yield Guard(
        "row-level security.holes",
        "Redrive accepts a table whose row-level security is switched off",
        (Code("redrive.store.row_level_security:_require_no_hole", "if holes:", "if False:"),),
        (f"{WALL}test_a_table_without_row_level_security_is_rejected",),
    )
    yield Guard(
        "row-level security.bound role",
        "Redrive accepts a role that bypasses the policies",
        (Code("redrive.store.row_level_security:_look", "if found[0][0]:", "if False:"),),
        (f"{WALL}test_a_table_without_row_level_security_is_rejected",),
    )
    yield Guard(
        "wall.sole organization",
        "a server without row-level security serves several organizations",
        (
            Code(
                "redrive.store.postgres:PostgresDatabase.require_isolated",
                "if self._sole_org not in (None, org):",
                "if False:",
            ),
        ),
        (f"{WALL}test_a_single_organization_is_served_without_the_role",),
    )
    slow = f"{TENANT}test_a_statement_that_would_end_too_late_is_stopped"
    yield Guard(
        "statement timeout.postgres",
        "one query of a request holds a connection forever",
        (
            Code(
                "redrive.store.postgres_tenant:PostgresTenant.__init__",
                "TenantSettings(org, ceil(seconds * 1000))",
                "TenantSettings(org, 0)",
            ),
        ),
        (f"{slow}[postgres]", f"{slow}[pooled]"),
    )
    yield Guard(
        "statement timeout.sqlite",
        "one query of a request blocks the thread of all requests forever",
        (
            Code(
                "redrive.store.sqlite_tenant:TimedSession._is_too_late",
                "self._clock.monotonic() > self._deadline",
                "False",
            ),
        ),
        (f"{slow}[sqlite]",),
    )


def _policy_test(table: str) -> str:
    if table in OF_RUNS or table == "run_inputs":
        return f"{RUN_WALL}test_each_table_of_runs_isolates_orgs_i8[{table}]"
    return f"{WALL}test_each_policy_alone_isolates_orgs_i8"


def _open_policy(table: str) -> Schema:
    policy = f"CREATE POLICY tenant ON redrive.{table} USING ("
    return Schema(policy, f"{policy}true OR ")


GUARDS = (
    *_held_keys(),
    *_acquired_keys(),
    *_kept_keys(),
    *_owners(),
    *_grants(),
    *_accounts(),
    *_api_keys(),
    *_one_time(),
    *_sessions(),
    *_versions(),
    *_lists(),
    *_wall(),
)
