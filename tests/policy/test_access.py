"""Permissions: the table of roles (W12), what a caller may grant, and the format of credentials."""

from __future__ import annotations

import string
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import loop_over

from redrive.errors import AccessDeniedError, InvalidValueError
from redrive.model.caller import Caller
from redrive.model.role import Role
from redrive.policy.access import (
    PERMISSIONS,
    Permission,
    Principal,
    permitted,
    program,
    require_grant,
    require_permission,
    role_in,
)
from redrive.policy.credential import (
    KeyText,
    checked_password,
    checked_scopes,
    csrf_of,
    digest,
    findable_user,
    is_secret_of,
    is_token,
    parse_key,
    secret_text,
    user_name,
)

OWNER = permitted(Role.OWNER)
ID = "0123456789abcdef" * 2


def principal(role: Role, scopes: frozenset[Permission] | None = None, org: str = "acme") -> Principal:
    return Principal(org, "ana", role, permitted(role, scopes), "session", ID)


# Roles


@loop_over(
    ("permission", "roles"),
    [
        ("read", "VIEWER STAFF ADMIN OWNER"),
        ("plan", "VIEWER STAFF ADMIN OWNER"),
        ("note", "STAFF ADMIN OWNER"),
        ("start", "ADMIN OWNER"),
        ("retry", "ADMIN OWNER"),
        ("archive", "ADMIN OWNER"),
        ("operate", "ADMIN OWNER"),
        ("control", "ADMIN OWNER"),
        ("reveal", "ADMIN OWNER"),
        ("manage", "OWNER"),
    ],
)
def test_the_table_of_roles_w12(permission: str, roles: str) -> None:
    assert [role for role in Role if Permission(permission) in permitted(role)] == roles.split()


def test_m11_retry_and_archive_can_be_granted_apart() -> None:
    for alone in (Permission.RETRY, Permission.ARCHIVE):
        assert permitted(Role.ADMIN, frozenset({alone})) == {alone}
    both = {Permission.OPERATE, Permission.RETRY, Permission.ARCHIVE}
    assert permitted(Role.ADMIN, frozenset({Permission.OPERATE})) == both
    assert permitted(Role.VIEWER, frozenset({Permission.OPERATE})) == frozenset()


def test_every_permission_is_in_the_table_and_each_role_has_more_than_the_one_before() -> None:
    ranked = sorted(Role, key=lambda role: role.rank)
    assert ranked == [Role.VIEWER, Role.STAFF, Role.ADMIN, Role.OWNER]
    for lower, higher in pairwise(ranked):
        assert PERMISSIONS[lower] < PERMISSIONS[higher]
    assert PERMISSIONS[Role.OWNER] == frozenset(Permission)


@pytest.mark.parametrize(
    ("word", "role"),
    [
        ("SUPER_ADMIN", Role.OWNER),
        ("org_admin", Role.ADMIN),
        ("viewer", Role.VIEWER),
        (Role.STAFF, Role.STAFF),
    ],
)
def test_aliases_of_roles_w12(word: str, role: Role) -> None:
    assert Role.parse(word) is role


@pytest.mark.parametrize("word", ["", "root", "OWNER ", None, 4, "SUPERADMIN"])
def test_other_words_are_no_roles(word: object) -> None:
    with pytest.raises(InvalidValueError, match="VIEWER, STAFF, ADMIN, OWNER, got"):
        Role.parse(word)


def test_scopes_take_away_and_never_add() -> None:
    read = frozenset({Permission.READ})
    assert permitted(Role.OWNER, read) == read
    assert permitted(Role.VIEWER, frozenset(Permission)) == PERMISSIONS[Role.VIEWER]
    assert permitted(Role.ADMIN, frozenset()) == frozenset()


@pytest.mark.parametrize(
    ("membership", "owns_home", "role"),
    [
        (None, False, None),
        (Role.VIEWER, False, Role.VIEWER),
        (None, True, Role.OWNER),
        (Role.VIEWER, True, Role.OWNER),
    ],
)
def test_only_owners_of_the_home_organization_enter_without_a_membership_w13(
    membership: Role | None, owns_home: bool, role: Role | None
) -> None:
    assert role_in(membership, owns_home) is role


# Granting permissions


@loop_over("own", list(Role))
@loop_over("given", list(Role))
def test_a_caller_grants_no_role_above_their_own(own: Role, given: Role) -> None:
    assert principal(own).may_grant(given) == (given.rank <= own.rank)
    read = frozenset({Permission.READ})
    assert principal(own).may_grant(given, read) == (given.rank <= own.rank)  # although all of them may read


def test_a_caller_grants_nothing_outside_their_scopes() -> None:
    limited = principal(Role.OWNER, frozenset({Permission.MANAGE, Permission.READ}))
    assert limited.may_grant(Role.VIEWER, frozenset({Permission.READ}))
    assert not limited.may_grant(Role.VIEWER)  # it could plan
    assert not limited.may_grant(Role.OWNER)
    with pytest.raises(AccessDeniedError, match="a caller can grant only its own"):
        require_grant(limited, Role.OWNER, None)


def test_a_missing_permission_is_rejected_with_who_can_grant_it() -> None:
    require_permission(principal(Role.ADMIN), Permission.OPERATE)
    with pytest.raises(AccessDeniedError, match=r"'ana' may not operate .* 'acme'; ask one of its owners"):
        require_permission(principal(Role.STAFF), Permission.OPERATE)


def test_a_program_has_all_rights_under_its_own_name() -> None:
    trusted = program(Caller("acme", "cron"))
    assert (trusted.role, trusted.permissions, trusted.everywhere) == (Role.OWNER, OWNER, True)
    assert (trusted.caller, trusted.at_home) == (Caller("acme", "cron"), False)
    assert program(Caller("default", "cron")).at_home


# Keys and tokens


@given(st.binary(min_size=32, max_size=32))
def test_a_key_is_read_as_it_was_written(random: bytes) -> None:
    text = KeyText(ID, secret_text(random))
    assert parse_key(str(text)) == text
    assert is_token(text.secret)
    assert set(text.secret) <= set(string.ascii_letters + string.digits + "-_")


def test_a_key_shows_its_origin_and_hides_its_secret() -> None:
    text = KeyText(ID, secret_text(bytes(range(32))))
    assert str(text).startswith(f"rdk_{ID}_")
    assert text.secret not in repr(text)


@given(st.text() | st.binary() | st.none() | st.integers())
def test_anything_else_is_no_key_and_no_token(text: object) -> None:
    assert parse_key(text) is None
    assert not is_token(text)


@pytest.mark.parametrize("change", ["\n", " ", "=", "a", "é"])
def test_a_key_with_anything_added_is_none(change: str) -> None:
    text = str(KeyText(ID, secret_text(bytes(32))))
    assert parse_key(text + change) is None
    assert parse_key(change + text) is None
    assert parse_key(text.upper()) is None
    assert parse_key(text[:-1]) is None


def test_a_secret_has_256_bits_or_is_refused() -> None:
    assert len(secret_text(bytes(32))) == 43
    with pytest.raises(InvalidValueError, match="32 random bytes, got 31"):
        secret_text(bytes(31))


def test_only_the_same_secret_has_the_digest() -> None:
    assert is_secret_of(digest("one"), digest("one"))
    assert not is_secret_of(digest("one"), digest("two"))
    assert not is_secret_of(digest("one"), None)
    assert "one" not in digest("one")


def test_the_csrf_token_belongs_to_one_session_and_does_not_reveal_it() -> None:
    one, other = secret_text(bytes(32)), secret_text(bytes([1] * 32))
    assert csrf_of(one) != csrf_of(other)
    assert csrf_of(one) not in (one, digest(one))


# Names and passwords


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("Ana@Example.COM", "ana@example.com"),
        (" ana ", "ana"),
        ("ＡＮＡ", "ana"),
        ("Ångström", "ångström"),
        ("Ana Ruiz", "ana ruiz"),
    ],
)
def test_one_way_to_write_a_name(name: str, kept: str) -> None:
    assert user_name(name) == kept == user_name(kept) == findable_user(name)


@loop_over(
    "name",
    [
        "",
        "  ",
        "a\nb",
        "a\x00b",
        "\ud800",
        "x" * 201,
        "redrive",
        "Application",
        "key:ci",
        "KEY:x",
        ID,
        None,
        7,
    ],
)
def test_reserved_and_invalid_names(name: object) -> None:
    with pytest.raises(InvalidValueError):
        user_name(name)
    assert findable_user(name) == ""


@given(st.text())
def test_a_name_stays_the_same_when_it_is_read_again(name: str) -> None:
    kept = findable_user(name)
    assert kept == "" or findable_user(kept) == kept


@pytest.mark.parametrize(("length", "right"), [(11, False), (12, True), (1024, True), (1025, False)])
def test_how_long_a_password_is(length: int, right: bool) -> None:
    if right:
        assert checked_password("p" * length) == "p" * length
    else:
        with pytest.raises(InvalidValueError, match="12 to 1,024 characters"):
            checked_password("p" * length)


@pytest.mark.parametrize("password", ["hunter2", "s3cret-\ud800-s3cret-s3cret", None, 123456789012])
def test_a_refused_password_is_not_in_the_message(password: object) -> None:
    with pytest.raises(InvalidValueError) as refused:
        checked_password(password)
    assert str(password)[:6] not in str(refused.value)


def test_a_password_is_the_same_from_every_keyboard() -> None:
    assert checked_password("e\u0301" * 12) == checked_password("\u00e9" * 12)


# Scopes


def test_scopes_are_some_permissions_of_the_role() -> None:
    assert checked_scopes(None, Role.VIEWER) is None
    assert (checked_scopes(["read", "READ", Permission.PLAN], Role.VIEWER) or set()) == {
        Permission.READ,
        Permission.PLAN,
    }


@pytest.mark.parametrize("scopes", [["manage"], ["read", "start"], [], "read", ["fly"], [None], 7])
def test_other_scopes_are_refused(scopes: object) -> None:
    with pytest.raises(InvalidValueError):
        checked_scopes(scopes, Role.VIEWER)  # type: ignore[arg-type]
