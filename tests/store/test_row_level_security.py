"""The second wall between orgs: row-level security on PostgreSQL (W13, I8). Each policy is load-bearing: the
same look finds nothing through it, and finds everything when it is switched off."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import md5
from typing import Any

import asyncpg
import pytest
from tests.cases import loop_over
from tests.servers import PostgresServer
from tests.store.build import ask
from tests.store.version_0_1 import create_tables, work

from redrive.errors import IsolationError, StatementTimeoutError, StoreError
from redrive.model.id import MARK_OF_ORDER
from redrive.store.postgres import PostgresDatabase
from redrive.store.postgres_migration import quoted
from redrive.store.row_level_security import HOME, RIGHTS, SHARED, TENANT_RIGHTS, _missing, tenant_role

FORBIDDEN = {
    "migrations",
    "organizations",
    "users",
    "memberships",
    "api_keys",
    "sessions",
    "one_time_tokens",
}
"""Nothing that is done for an org needs them. A new table belongs here, or into a list of the wall."""

OF_A_RUN = ("steps", "attempts", "run_events")
WORK = ("ready", "idle", "leases", "ended")
"""The tables that hold the work of runs; the view `runs` shows all of it."""

MINE, THEIRS = "acme", "globex"
DENIED = asyncpg.InsufficientPrivilegeError
ADMINISTRATORS = re.compile(r"Ask an administrator to run:\n(.*;)$", re.DOTALL)


@pytest.fixture
async def admin(live_postgres: PostgresServer) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(live_postgres.url)
    yield connection
    await connection.close()


async def drop_role(admin: Any, *names: str) -> None:
    for name in names:
        if await admin.fetchval("SELECT 1 FROM pg_roles WHERE rolname = $1", name):
            await admin.execute(f"DROP OWNED BY {quoted(name)} CASCADE; DROP ROLE {quoted(name)}")


@pytest.fixture
async def bare(postgres_database: PostgresDatabase, admin: Any) -> AsyncIterator[PostgresDatabase]:
    """Tables without a role for tenants; if a test makes one, it is removed."""
    yield postgres_database
    await drop_role(admin, tenant_role(postgres_database.schema))


@pytest.fixture
async def walled(bare: PostgresDatabase) -> PostgresDatabase:
    await bare.enable_row_level_security()
    return bare


@asynccontextmanager
async def connected(url: str, schema: str, org: str | None) -> AsyncIterator[Any]:
    """A raw connection of the restricted role: what a statement without any filter could do."""
    settings = {"role": tenant_role(schema), "search_path": schema}
    connection = await asyncpg.connect(url, server_settings=settings)
    if org is not None:
        await connection.execute("SELECT set_config('redrive_tenant.org', $1, false)", org)
    try:
        yield connection
    finally:
        await connection.close()


# Rows of two orgs


async def row_of(admin: Any, schema: str, table: str, org: str, **changes: Any) -> dict[str, Any]:
    """Something in every column that needs it, different for each org."""
    columns = await admin.fetch(
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = $1 "
        "AND table_name = $2 AND is_nullable = 'NO' AND column_default IS NULL",
        schema,
        table,
    )
    values = {"text": "{} of " + org, "uuid": run_of(org)}
    row = {name: values[kind].format(name) if kind in values else 1 for name, kind in columns}
    if "org" in row:
        row["org"] = org
    if table in ("run_inputs", *WORK):
        row["id"] = run_of(org)
    if "place" in row:
        row["place"] = {"ready": "ready", "idle": "held"}[table]
    if table in OF_A_RUN:
        row["run_id"] = run_of(org)
    if table == "run_order":  # settled, so that no trigger looks for the run
        row |= {"run_id": run_of(org)[:28] + MARK_OF_ORDER, "pending": 0}
    return {**row, **changes}


def run_of(org: str) -> str:
    return md5(org.encode(), usedforsecurity=False).hexdigest()


async def insert(connection: Any, schema: str, table: str, row: dict[str, Any]) -> None:
    names, places = ", ".join(row), ", ".join(f"${number}" for number in range(1, len(row) + 1))
    await connection.execute(f"INSERT INTO {schema}.{table} ({names}) VALUES ({places})", *row.values())


async def furnish(admin: Any, schema: str, *tables: str) -> None:
    """A row of each org in each table, and the inputs of the runs that they may belong to."""
    for org in (MINE, THEIRS):
        for each in dict.fromkeys(("run_inputs", *tables)):
            await insert(admin, schema, each, await row_of(admin, schema, each, org))


async def empty(admin: Any, schema: str) -> None:
    """Remove what another case has furnished."""
    await admin.execute(f"TRUNCATE {', '.join(f'{schema}.{table}' for table in TENANT_RIGHTS)}")


async def holes(tenant: Any, admin: Any, schema: str, table: str) -> set[str]:
    """What can be done to the other org's rows by whoever stands for `MINE`."""
    place, column = f"{schema}.{table}", "run_id" if table in OF_A_RUN else "org"
    mine, theirs = (run_of(MINE), run_of(THEIRS)) if table in OF_A_RUN else (MINE, THEIRS)
    assert await tenant.fetchval(f"SELECT count(*) FROM {place} WHERE {column} = $1", mine), table
    found = set()
    if await tenant.fetchval(f"SELECT count(*) FROM {place} WHERE {column} = $1", theirs):
        found.add("SELECT")
    if await inserts(tenant, schema, table, await fresh_row(admin, schema, table)):
        found.add("INSERT")
    if "UPDATE" in TENANT_RIGHTS[table]:
        change = f"UPDATE {place} SET {column} = {column} WHERE {column} = $1"
        move = f"UPDATE {place} SET {column} = $2 WHERE {column} = $1"
        found |= {"UPDATE"} if await changes(tenant, change, theirs) else set()
        found |= {"MOVE"} if await changes(tenant, move, mine, f"{theirs}") else set()
    if "DELETE" in TENANT_RIGHTS[table] and await changes(
        tenant, f"DELETE FROM {place} WHERE {column} = $1", theirs
    ):
        found.add("DELETE")
    return found


async def fresh_row(admin: Any, schema: str, table: str) -> dict[str, Any]:
    """Another one of the other org, that no constraint refuses."""
    row = await row_of(admin, schema, table, THEIRS)
    changed = {name: f"new {value}" for name, value in row.items() if str(value).endswith(f" of {THEIRS}")}
    changed.pop("run_id", None)
    numbers: dict[str, Any] = {name: 2 for name in ("sequence", "number", "step_index") if name in row}
    return {**row, **changed, **numbers}


def refused_by_a_right(error: Exception) -> bool:
    """Then the policy was not asked at all."""
    return "row-level security" not in str(error)


async def inserts(tenant: Any, schema: str, table: str, row: dict[str, Any]) -> bool:
    transaction = tenant.transaction()
    await transaction.start()
    try:
        await insert(tenant, schema, table, row)
    except DENIED as error:
        return refused_by_a_right(error)
    except asyncpg.UniqueViolationError:
        return True  # it came as far as the index
    finally:
        await transaction.rollback()
    return True


async def changes(tenant: Any, text: str, *values: str) -> bool:
    """Whether it changes anything; it is rolled back."""
    transaction = tenant.transaction()
    await transaction.start()
    try:
        return not (await tenant.execute(text, *values)).endswith(" 0")
    except DENIED as error:
        return refused_by_a_right(error)
    except asyncpg.UniqueViolationError:
        return True
    finally:
        await transaction.rollback()


def everything(table: str) -> set[str]:
    rights = set(TENANT_RIGHTS[table].split(", "))
    return rights | {"MOVE"} if "UPDATE" in rights else rights


@loop_over("table", TENANT_RIGHTS)
async def test_each_policy_alone_isolates_orgs_i8(
    live_postgres: PostgresServer, walled: PostgresDatabase, admin: Any, table: str
) -> None:
    """One schema serves all tables: each is open for its own look only."""
    schema = walled.schema
    await empty(admin, schema)
    await furnish(admin, schema, table)
    # What the triggers of dead letters write has policies of its own, which refuse it as well.
    await admin.execute(f"ALTER TABLE {schema}.{table} DISABLE TRIGGER USER")
    async with connected(live_postgres.url, schema, MINE) as tenant:
        assert await holes(tenant, admin, schema, table) == set()

        await admin.execute(f"ALTER TABLE {schema}.{table} DISABLE ROW LEVEL SECURITY")
        assert await holes(tenant, admin, schema, table) == everything(table)
    await admin.execute(f"ALTER TABLE {schema}.{table} ENABLE ROW LEVEL SECURITY, ENABLE TRIGGER USER")


async def runs_seen(tenant: Any, schema: str) -> list[str]:
    """Without any filter."""
    return [row[0].hex for row in await tenant.fetch(f"SELECT id FROM {schema}.runs ORDER BY org")]


@pytest.mark.parametrize("table", WORK)
async def test_the_view_of_runs_keeps_orgs_apart_and_nothing_else_does_i8(
    live_postgres: PostgresServer, walled: PostgresDatabase, admin: Any, table: str
) -> None:
    """It is read with the rights of its owner, so that the policies of the tables below do not count."""
    schema = walled.schema
    await furnish(admin, schema, table)
    text = await admin.fetchval("SELECT pg_get_viewdef(CAST($1 AS regclass))", f"{schema}.runs")
    open_text, where, condition = text.rpartition("WHERE")
    assert where
    assert "redrive_tenant.org" in condition
    async with connected(live_postgres.url, schema, MINE) as tenant:
        assert await runs_seen(tenant, schema) == [run_of(MINE)]
        for name in ("run_inputs", *WORK):
            await admin.execute(f"ALTER TABLE {schema}.{name} DISABLE ROW LEVEL SECURITY")
        assert await runs_seen(tenant, schema) == [run_of(MINE)]
        for wanted in (run_of(THEIRS), THEIRS):
            look = f"SELECT count(*) FROM {schema}.runs WHERE encode(uuid_send(id), 'hex') = $1 OR org = $1"
            assert await tenant.fetchval(look, wanted) == 0

        await admin.execute(f"CREATE OR REPLACE VIEW {schema}.runs AS {open_text}")
        for name in ("run_inputs", *WORK):
            await admin.execute(f"ALTER TABLE {schema}.{name} ENABLE ROW LEVEL SECURITY")
        assert await runs_seen(tenant, schema) == [run_of(MINE), run_of(THEIRS)]


async def test_nothing_is_written_through_the_view_of_runs(
    live_postgres: PostgresServer, walled: PostgresDatabase, admin: Any
) -> None:
    """Tests may write there, see tests/runs_view.py; an org may not, not even its own runs."""
    schema = walled.schema
    await furnish(admin, schema, "ready")
    async with connected(live_postgres.url, schema, MINE) as tenant:
        for text in (
            f"INSERT INTO {schema}.runs (id, org, place) VALUES (gen_random_uuid(), '{MINE}', 'ready')",
            f"UPDATE {schema}.runs SET priority = 9",
            f"DELETE FROM {schema}.runs",
        ):
            with pytest.raises(DENIED, match="permission denied for view runs"):
                await tenant.execute(text)


@pytest.mark.parametrize("table", HOME)
async def test_only_the_home_org_changes_shared_state(
    live_postgres: PostgresServer, walled: PostgresDatabase, admin: Any, table: str
) -> None:
    schema = walled.schema
    await insert(admin, schema, table, await row_of(admin, schema, table, "nobody"))
    row = await row_of(admin, schema, table, "somebody")
    change, look = f"UPDATE {schema}.{table} SET name = name", f"SELECT count(*) FROM {schema}.{table}"
    async with (
        connected(live_postgres.url, schema, MINE) as tenant,
        connected(live_postgres.url, schema, "default") as home,
    ):
        assert [await each.fetchval(look) for each in (tenant, home)] == [1, 1]
        assert [await changes(each, change) for each in (tenant, home)] == [False, True]
        assert [await inserts(each, schema, table, row) for each in (tenant, home)] == [False, True]

        await admin.execute(f"ALTER TABLE {schema}.{table} DISABLE ROW LEVEL SECURITY")
        assert await changes(tenant, change)
        assert await inserts(tenant, schema, table, row)


async def test_a_decision_is_made_for_every_table(walled: PostgresDatabase, admin: Any) -> None:
    """Deny by default: a table that somebody adds is out of reach, and this fails until it is decided on."""
    found = await admin.fetch(
        "SELECT relname, relrowsecurity FROM pg_class JOIN pg_namespace AS space ON space.oid = relnamespace "
        "WHERE nspname = $1 AND relkind IN ('r', 'p', 'v', 'm', 'f')",
        walled.schema,
    )
    secured = {row[0]: row[1] for row in found}

    assert set(secured) == {*TENANT_RIGHTS, *HOME, *SHARED, *FORBIDDEN}
    assert {table for table, on in secured.items() if on} == {*TENANT_RIGHTS, *HOME}
    assert not FORBIDDEN & set(RIGHTS)


async def test_the_role_has_the_rights_that_are_listed_and_no_others(
    walled: PostgresDatabase, admin: Any
) -> None:
    kinds = ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER")
    role, schema = tenant_role(walled.schema), walled.schema
    for table in {*RIGHTS, *FORBIDDEN}:
        text = "SELECT has_table_privilege($1, $2, $3)"
        held = [kind for kind in kinds if await admin.fetchval(text, role, f"{schema}.{table}", kind)]
        assert ", ".join(held) == RIGHTS.get(table, ""), table

    [attributes] = await admin.fetch(
        "SELECT rolcanlogin, rolsuper, rolbypassrls, rolcreaterole, rolcreatedb FROM pg_roles "
        "WHERE rolname = $1",
        role,
    )
    assert list(attributes) == [False] * 5
    assert not await admin.fetchval("SELECT has_schema_privilege($1, $2, 'CREATE')", role, schema)


@pytest.mark.parametrize("org", [None, "", "ACME", "acme "])
async def test_without_the_right_org_nothing_is_there(
    live_postgres: PostgresServer, walled: PostgresDatabase, admin: Any, org: str | None
) -> None:
    await furnish(admin, walled.schema, *TENANT_RIGHTS)
    async with connected(live_postgres.url, walled.schema, org) as tenant:
        for table in (*TENANT_RIGHTS, "runs"):
            assert await tenant.fetchval(f"SELECT count(*) FROM {walled.schema}.{table}") == 0, table


async def test_other_users_of_the_tables_see_what_they_have_always_seen(
    live_postgres: PostgresServer, walled: PostgresDatabase, admin: Any, plain_user: str
) -> None:
    """Workers need not be the owner."""
    schema = walled.schema
    await admin.execute(
        f"GRANT USAGE ON SCHEMA {schema} TO {plain_user};"
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {plain_user};"
        f"GRANT {quoted(tenant_role(schema))} TO {plain_user}"
    )
    await furnish(admin, schema, "steps", "ready")
    database = PostgresDatabase(live_postgres.at(user=plain_user), schema=schema)
    try:
        for table in ("run_inputs", "ready", "steps", "queues"):
            row = await row_of(
                admin, schema, table, "third", **({"run_id": "gone"} if table == "steps" else {})
            )
            names = ", ".join(row)
            places = ", ".join(f":{name}" for name in row)
            await ask(database, f"INSERT INTO redrive.{table} ({names}) VALUES ({places})", **row)
        assert len(await ask(database, "SELECT 1 FROM redrive.runs")) == 3
        assert len(await ask(database, "UPDATE redrive.steps SET name = name RETURNING run_id")) == 3
        assert len(await ask(database, "DELETE FROM redrive.queues RETURNING name")) == 1
        await database.enable_row_level_security()
        for table in ("steps", "ready", "runs"):
            assert len(await ask(database.tenant(MINE, 5), f"SELECT 1 FROM redrive.{table}")) == 1
    finally:
        await database.close()


# Making it


@pytest.fixture
async def plain_user(admin: Any) -> AsyncIterator[str]:
    name = f"user_{uuid.uuid4().hex}"
    await admin.execute(f"CREATE ROLE {name} LOGIN")
    yield name
    await drop_role(admin, name)


@asynccontextmanager
async def owned(
    server: PostgresServer, admin: Any, user: str, schema: str
) -> AsyncIterator[PostgresDatabase]:
    """Tables that belong to a user who is no superuser."""
    await admin.execute(f"CREATE SCHEMA {schema} AUTHORIZATION {user}")
    database = PostgresDatabase(server.at(user=user), schema=schema)
    try:
        await database.migrate()
        yield database
    finally:
        await database.close()
        await admin.execute(f"DROP SCHEMA {schema} CASCADE")
        await drop_role(admin, tenant_role(schema))


async def orgs_seen(database: PostgresDatabase, org: str) -> list[str]:
    return [row[0] for row in await ask(database.tenant(org, 5), "SELECT org FROM redrive.runs")]


async def test_an_owner_who_may_create_roles_makes_it_alone(
    live_postgres: PostgresServer, admin: Any, plain_user: str, schema: str
) -> None:
    await admin.execute(f"ALTER ROLE {plain_user} CREATEROLE")
    async with owned(live_postgres, admin, plain_user, schema) as database:
        await database.enable_row_level_security()

        await furnish(admin, schema, "steps", "ready")
        assert await orgs_seen(database, MINE) == [MINE]
        assert len(await ask(database, "SELECT org FROM redrive.runs")) == 2


async def test_an_owner_who_may_not_is_told_what_an_administrator_has_to_run(
    live_postgres: PostgresServer, admin: Any, plain_user: str, schema: str
) -> None:
    async with owned(live_postgres, admin, plain_user, schema) as database:
        with pytest.raises(StoreError, match=f'CREATE ROLE "{tenant_role(schema)}" NOLOGIN') as raised:
            await database.enable_row_level_security()

        told = ADMINISTRATORS.search(str(raised.value))
        assert told is not None
        role = quoted(tenant_role(schema))
        assert [line.strip() for line in told[1].splitlines()] == [
            f"CREATE ROLE {role} NOLOGIN;",
            f'GRANT {role} TO "{plain_user}";',
        ]
        await admin.execute(told[1])
        await database.enable_row_level_security()
        assert await database.administrator_statements() == []
        await furnish(admin, schema, "steps", "ready")
        assert await orgs_seen(database, THEIRS) == [THEIRS]


async def test_a_user_without_a_schema_needs_one_from_an_administrator(
    live_postgres: PostgresServer, admin: Any, plain_user: str, schema: str
) -> None:
    database = PostgresDatabase(live_postgres.at(user=plain_user), schema=schema)
    statements = await database.administrator_statements()
    role = quoted(tenant_role(schema))
    assert statements == [
        f'CREATE SCHEMA "{schema}" AUTHORIZATION "{plain_user}"',
        f"CREATE ROLE {role} NOLOGIN",
        f'GRANT {role} TO "{plain_user}"',
    ]
    try:
        await admin.execute("; ".join(statements))
        await database.migrate()
        await database.enable_row_level_security()
        assert await orgs_seen(database, MINE) == []
    finally:
        await database.close()
        await admin.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        await drop_role(admin, tenant_role(schema))


@pytest.mark.parametrize("pooler", [False, True])
async def test_a_single_organization_is_served_without_the_role(
    live_postgres: PostgresServer, admin: Any, plain_user: str, schema: str, pooler: bool
) -> None:
    async with owned(live_postgres, admin, plain_user, schema) as tables:
        database = PostgresDatabase(live_postgres.at(user=plain_user), schema=schema, pooler=pooler)
        with pytest.raises(IsolationError):
            await database.enable_row_level_security()
        await database.serve_only(MINE)
        try:
            await furnish(admin, schema, "steps", "ready")
            assert MINE in await orgs_seen(database, MINE)
            with pytest.raises(StatementTimeoutError):
                await ask(database.tenant(MINE, 0.2), "SELECT pg_sleep(30)")
            with pytest.raises(IsolationError, match="print-sql"):
                database.tenant(THEIRS, 5)

            await admin.execute("; ".join(await tables.administrator_statements()))
            await database.enable_row_level_security()
            assert await orgs_seen(database, THEIRS) == [THEIRS]
        finally:
            await database.close()


async def test_a_user_who_may_only_use_the_tables_gets_advice(
    live_postgres: PostgresServer, walled: PostgresDatabase, admin: Any, plain_user: str
) -> None:
    """Rights that one may not pass on are passed on with a warning only: it must be noticed nevertheless."""
    schema = walled.schema
    role = tenant_role(schema)
    await admin.execute(
        f"GRANT USAGE ON SCHEMA {schema} TO {plain_user}; GRANT {role} TO {plain_user};"
        f"GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA {schema} TO {plain_user};"
        f"REVOKE INSERT ON {schema}.run_inputs FROM {role}"
    )
    database = PostgresDatabase(live_postgres.at(user=plain_user), schema=schema)
    grant = rf'GRANT SELECT, INSERT, UPDATE ON "{schema}"\.run_inputs TO "{role}";$'
    with pytest.raises(StoreError, match=grant):
        await database.enable_row_level_security()
    await database.close()


async def test_made_again_nothing_is_left_to_do(walled: PostgresDatabase, admin: Any) -> None:
    assert await _missing(admin, walled.schema) == []
    await walled.enable_row_level_security()

    await admin.execute(f"REVOKE SELECT ON {walled.schema}.audit FROM {tenant_role(walled.schema)}")
    assert len(await _missing(admin, walled.schema)) == 1
    await walled.enable_row_level_security()
    assert await _missing(admin, walled.schema) == []


async def test_a_server_that_runs_during_a_migration_continues(
    live_postgres: PostgresServer, schema: str, admin: Any
) -> None:
    """What triggers write to new tables, they write as the role: it needs its rights at once."""
    role = tenant_role(schema)
    database = PostgresDatabase(live_postgres.url, schema=schema)
    try:
        await create_tables(database)
        await admin.execute(f"CREATE ROLE {role} NOLOGIN")
        await database.enable_row_level_security()
        letter = next(row for row in work()["dead_letters"] if row["state"] == "OPEN")
        await insert(admin, schema, "dead_letters", letter | {"id": "old", "org": MINE})

        await database.migrate()

        close = "UPDATE redrive.dead_letters SET state = 'RESOLVED', updated_at = 5 RETURNING id"
        assert await ask(database.tenant(THEIRS, 5), close) == []
        assert await ask(database.tenant(MINE, 5), close) == [("old",)]
        assert await _missing(admin, schema) == []
    finally:
        await database.close()
        await drop_role(admin, role)


async def test_where_no_one_has_made_it_a_migration_does_not(bare: PostgresDatabase, admin: Any) -> None:
    assert not await admin.fetchval("SELECT 1 FROM pg_roles WHERE rolname = $1", tenant_role(bare.schema))


async def test_many_make_it_at_once(bare: PostgresDatabase, admin: Any) -> None:
    others = [bare.another() for _ in range(6)]

    await asyncio.gather(*[each.enable_row_level_security() for each in others])

    assert await _missing(admin, bare.schema) == []
    for each in others:
        await each.close()


async def test_two_databases_of_one_server_share_the_role(
    live_postgres: PostgresServer, bare: PostgresDatabase, admin: Any
) -> None:
    """Their locks are not shared, so both may try to make it in the same moment."""
    name = f"second_{uuid.uuid4().hex}"
    await admin.execute(f"CREATE DATABASE {name}")
    second = PostgresDatabase(live_postgres.at(database=name), schema=bare.schema)
    try:
        await second.migrate()
        await asyncio.gather(bare.enable_row_level_security(), second.enable_row_level_security())
        assert await orgs_seen(second, MINE) == await orgs_seen(bare, MINE) == []
    finally:
        await second.close()
        await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.parametrize(
    ("harm", "named"),
    [
        *(
            (f"ALTER TABLE {{schema}}.{table} DISABLE ROW LEVEL SECURITY", f"can use {table} without")
            for table in ("run_inputs", *WORK)
        ),
        ("GRANT SELECT ON {schema}.users TO PUBLIC", "can use users without"),
        ("GRANT UPDATE (hash) ON {schema}.api_keys TO {role}", "can use api_keys without"),
        (
            "CREATE VIEW {schema}.all_runs AS SELECT 1; GRANT SELECT ON {schema}.all_runs TO {role}",
            "all_runs",
        ),
        ("ALTER ROLE {role} BYPASSRLS", "NOSUPERUSER NOBYPASSRLS"),
    ],
)
async def test_a_table_without_row_level_security_is_rejected(
    walled: PostgresDatabase, admin: Any, harm: str, named: str
) -> None:
    await walled.enable_row_level_security()
    await admin.execute(harm.format(schema=walled.schema, role=tenant_role(walled.schema)))

    with pytest.raises(StoreError, match=named):
        await walled.enable_row_level_security()


@pytest.mark.parametrize("schema_name", ["redrive", "a", "s" * 63, "ä" * 31, 'My "x"', "redrive_tenant"])
def test_the_name_of_the_role_fits_and_says_that_it_is_a_tenant(schema_name: str) -> None:
    name = tenant_role(schema_name)

    assert name.endswith("redrive_tenant")
    assert len(name.encode()) <= 63
    assert name != tenant_role(f"{schema_name}2"[-63:] if len(schema_name) < 31 else "other")


async def test_a_schema_with_a_difficult_name(live_postgres: PostgresServer, admin: Any) -> None:
    name = f'My "{uuid.uuid4().hex}" größe redrive.'
    database = PostgresDatabase(live_postgres.url, schema=name)
    try:
        await database.migrate()
        await database.enable_row_level_security()
        assert await orgs_seen(database, MINE) == []
    finally:
        await database.close()
        await admin.execute(f"DROP SCHEMA {quoted(name)} CASCADE")
        await drop_role(admin, tenant_role(name))
