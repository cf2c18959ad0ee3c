"""Row-level security on PostgreSQL, which isolates orgs in addition to the org filters of the statements.

The migrations enable row-level security on the tables; it applies to every role whose name ends in
`redrive_tenant`. This module creates that role for a schema, without login, and grants it the privileges that
requests need. It has no access to tables that are not listed, such as users, keys and sessions, and may not
change or remove history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from redrive.errors import IsolationError, StoreError
from redrive.store.postgres_hint import MAX_NAME_LENGTH
from redrive.store.postgres_migration import quoted

SUFFIX = "redrive_tenant"

_READ, _ADD, _CHANGE = "SELECT", "SELECT, INSERT", "SELECT, INSERT, UPDATE"
_ADD_AND_REMOVE = "SELECT, INSERT, DELETE"
_ALL = "SELECT, INSERT, UPDATE, DELETE"

TENANT_RIGHTS: Mapping[str, str] = {
    "run_inputs": _CHANGE,
    "ready": _ALL,
    "idle": _ALL,
    "leases": _CHANGE,
    "ended": _ALL,
    "run_order": _ALL,
    "order_keys": _ALL,
    "steps": _ALL,
    "attempts": _ADD,
    "run_events": _ADD,
    "dead_letters": _CHANGE,
    "dead_letter_settings": _ADD,
    "dead_letter_notes": _ADD,
    "dead_letter_dependencies": _ALL,
    "dead_letter_counts": _ADD,
    "dead_letter_figures": _ADD,
    "failure_groups": _CHANGE,
    "failure_group_versions": _CHANGE,
    "replay_operations": _CHANGE,
    "replays": _CHANGE,
    "audit_heads": _CHANGE,
    "audit": _ADD,
    "idempotency_keys": _ALL,
    "saved_views": _ADD_AND_REMOVE,
    "dead_letter_strategies": _ALL,
    "tallies": _ADD,
    "events": _CHANGE,
    "projections": _CHANGE,
    "rebuilds": _CHANGE,
    "streams": _CHANGE,
    "dead_entries": _ADD,
    "outbox": _ALL,
}
"""Tables whose rows belong to one org each, and are visible to it alone."""

HOME: Mapping[str, str] = {"queues": _CHANGE, "breakers": _CHANGE}
"""Tables that all orgs can read and only the home org can change."""

SHARED: Mapping[str, str] = {
    "runs": _READ,
    "definitions": _ADD,
    "limits": _CHANGE,
    "workers": _READ,
    "processors": _READ,
}
"""Tables that belong to no org and are visible to all. `runs` is a view that shows each org its own runs."""

RIGHTS: Mapping[str, str] = {**TENANT_RIGHTS, **HOME, **SHARED}

_LOCK = "SELECT pg_catalog.pg_advisory_xact_lock($1)"
_ROLE = """SELECT rolsuper OR rolbypassrls FROM pg_catalog.pg_roles WHERE rolname = $1"""
_RIGHTS = """SELECT current_user AS "user",
    EXISTS (SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1)
        OR pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE') AS may_create_schema,
    NOT EXISTS (
        SELECT 1 FROM pg_catalog.pg_class AS class
        JOIN pg_catalog.pg_namespace AS space ON space.oid = class.relnamespace
        WHERE space.nspname = $1 AND class.relkind IN ('r', 'p', 'v')
            AND NOT pg_catalog.pg_has_role(class.relowner, 'USAGE')
    ) AS owns_tables,
    me.rolsuper OR me.rolcreaterole AND (
        pg_catalog.current_setting('server_version_num')::integer < 160000
        OR COALESCE((
            SELECT pg_catalog.pg_has_role(role.oid, 'MEMBER WITH ADMIN OPTION')
            FROM pg_catalog.pg_roles AS role WHERE role.rolname = $2
        ), true)
    ) AS may_grant_role
FROM pg_catalog.pg_roles AS me WHERE me.rolname = current_user"""
_IS_MEMBER = "SELECT pg_catalog.pg_has_role(current_user, CAST($1 AS name), $2)"
_MAY_ENTER = "SELECT pg_catalog.has_schema_privilege(CAST($1 AS name), $2, 'USAGE')"
_MISSING = """SELECT DISTINCT wanted.name
FROM unnest(CAST($3 AS text[]), CAST($4 AS text[])) AS wanted (name, privilege)
JOIN pg_catalog.pg_namespace AS space ON space.nspname = $2
JOIN pg_catalog.pg_class AS class ON class.relnamespace = space.oid AND class.relname = wanted.name
WHERE NOT pg_catalog.has_table_privilege(CAST($1 AS name), class.oid, wanted.privilege)
ORDER BY 1"""
_HOLES = """SELECT class.relname
FROM pg_catalog.pg_class AS class
JOIN pg_catalog.pg_namespace AS space ON space.oid = class.relnamespace
WHERE space.nspname = $2 AND class.relkind IN ('r', 'p', 'v', 'm', 'f')
    AND class.relname <> ALL (CAST($3 AS text[]))
    AND pg_catalog.has_any_column_privilege(CAST($1 AS name), class.oid, 'SELECT, INSERT, UPDATE')
    AND (class.relname <> ALL (CAST($4 AS text[])) OR NOT class.relrowsecurity)
ORDER BY 1"""


class _Role(NamedTuple):
    """What exists of the tenant role."""

    exists: bool
    is_ours: bool = False
    may_enter: bool = False


def tenant_role(schema: str) -> str:
    name = SUFFIX if schema == "redrive" else f"{schema}_{SUFFIX}"
    if len(name.encode()) <= MAX_NAME_LENGTH:
        return name
    return f"{sha256(schema.encode()).hexdigest()[:32]}_{SUFFIX}"


async def enable_row_level_security(connection: Any, schema: str, place: str) -> None:
    """Create the tenant role and its privileges in the current transaction, if they are missing."""
    if await _missing(connection, schema):
        await connection.execute(_LOCK, _lock_key(schema))
        await _grant(connection, schema, place)
    await _require_no_hole(connection, schema, place)


async def administrator_statements(connection: Any, schema: str) -> list[str]:
    """List the statements that this user lacks the rights to run itself.

    The owner of the tables grants the privileges on them to the role as soon as it may use the role.
    """
    rights = await connection.fetchrow(_RIGHTS, schema, tenant_role(schema))
    user, space = quoted(rights["user"]), quoted(schema)
    create_schema = [] if rights["may_create_schema"] else [f"CREATE SCHEMA {space} AUTHORIZATION {user}"]
    missing = await _missing(connection, schema)
    if rights["owns_tables"]:
        grant = f"GRANT {quoted(tenant_role(schema))} TO "
        missing = [text for text in missing if text.startswith(("CREATE ROLE ", grant))]
        if rights["may_grant_role"]:
            missing = []
    return create_schema + missing


async def grant_new_tables(connection: Any, schema: str) -> None:
    """Grant an existing tenant role its privileges on tables that a migration has just created.

    Servers that already run use this role, and triggers of their tables write to the new ones.
    """
    name = tenant_role(schema)
    if await connection.fetch(_ROLE, name):
        for text in _grants(name, schema, await _without_rights(connection, name, schema)):
            await connection.execute(text)


async def _grant(connection: Any, schema: str, place: str) -> None:
    import asyncpg

    for_administrator = await administrator_statements(connection, schema)
    try:
        for text in await _missing(connection, schema):
            await connection.execute(text)
    except asyncpg.InsufficientPrivilegeError as error:
        raise _lacking(for_administrator, place) from error
    # PostgreSQL only warns about a privilege that the user may not grant.
    if missing := await _missing(connection, schema):
        raise _lacking(missing, place)


async def _missing(connection: Any, schema: str) -> list[str]:
    """Return the statements that are needed to complete the role and its privileges."""
    name = tenant_role(schema)
    role = await _look(connection, name, schema)
    tables = await _without_rights(connection, name, schema) if role.exists else list(RIGHTS)
    spelled, space = quoted(name), quoted(schema)
    user = quoted(await connection.fetchval("SELECT current_user"))
    return [
        *([] if role.exists else [f"CREATE ROLE {spelled} NOLOGIN"]),
        *([] if role.is_ours else [f"GRANT {spelled} TO {user}"]),
        *([] if role.may_enter else [f"GRANT USAGE ON SCHEMA {space} TO {spelled}"]),
        *_grants(name, schema, tables),
    ]


def _grants(name: str, schema: str, tables: Sequence[str]) -> list[str]:
    spelled, space = quoted(name), quoted(schema)
    return [f"GRANT {RIGHTS[table]} ON {space}.{table} TO {spelled}" for table in tables]


async def _look(connection: Any, name: str, schema: str) -> _Role:
    found = await connection.fetch(_ROLE, name)
    if not found:
        return _Role(exists=False)
    if found[0][0]:
        raise StoreError(
            f"the role {name!r} bypasses row-level security, so organizations would not be isolated. Ask an "
            f"administrator to run: ALTER ROLE {quoted(name)} NOSUPERUSER NOBYPASSRLS"
        )
    # Since version 16, a member of a role may not necessarily switch to it.
    kind = "SET" if connection.get_server_version().major >= 16 else "MEMBER"
    is_ours = await connection.fetchval(_IS_MEMBER, name, kind)
    return _Role(True, is_ours, await connection.fetchval(_MAY_ENTER, name, schema))


async def _without_rights(connection: Any, name: str, schema: str) -> list[str]:
    wanted = [(table, right) for table, rights in RIGHTS.items() for right in rights.split(", ")]
    tables, rights = zip(*wanted, strict=True)
    return [row[0] for row in await connection.fetch(_MISSING, name, schema, tables, rights)]


async def _require_no_hole(connection: Any, schema: str, place: str) -> None:
    """Raise StoreError if the role can read a table without row-level security.

    An operator may have disabled it for a table, or granted more privileges to the role or to PUBLIC.
    """
    name = tenant_role(schema)
    walled = [*TENANT_RIGHTS, *HOME]
    holes = [row[0] for row in await connection.fetch(_HOLES, name, schema, list(SHARED), walled)]
    if holes:
        raise StoreError(
            f"organizations in {place} would not be isolated: the role {name!r} can use {', '.join(holes)} "
            f"without row-level security. Enable it (ALTER TABLE … ENABLE ROW LEVEL SECURITY), or revoke the "
            f"privileges from the role and from PUBLIC (REVOKE ALL ON …)"
        )


def _lacking(statements: Sequence[str], place: str) -> IsolationError:
    lines = "".join(f"\n  {text};" for text in statements)
    return IsolationError(
        f"this database user of {place} cannot create the role that Redrive needs to isolate organizations. "
        f"Ask an administrator to run:{lines}",
        statements=statements,
    )


def _lock_key(schema: str) -> int:
    digest = sha256(f"redrive wall {schema}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
