"""One text for both databases: how it is read, and what an override must keep."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.cases import loop_over
from tests.store.build import new_run

from redrive.model.run import NewRun, RunEvent
from redrive.model.step import AttemptRecord, FinishedStep
from redrive.store import record, statement
from redrive.store.dialect import fields_of
from redrive.store.records import _STATEMENTS
from redrive.store.runs import _enqueue
from redrive.store.statement import SqlQuery, statements

FOLDER = files("redrive.store") / "sql"
MODULES = sorted(file.name.removesuffix(".sql") for file in FOLDER.iterdir() if file.name.count(".") == 1)
OVERRIDES = [
    (module, name, text)
    for module in MODULES
    for name, text in statement._sections(f"{module}.postgres.sql")
    if not name.startswith("_")
]


NOT_SENT = {
    ("runs", "enqueue"): {"at", "delay"},
    ("runs", "enqueue_new"): {"at", "delay", "idempotency_key", "request_hash"},
}
"""What an override does not need: both are for runs that are ready at once, and the second for those without
keys."""
_OF_ORDER = {"order_key", "after_failure"}


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own for the statements of a test."""
    (tmp_path / "sql").mkdir()
    monkeypatch.setattr(statement, "files", lambda _package: tmp_path)
    monkeypatch.setattr(statement, "_MODULES", {})
    return tmp_path / "sql"


def test_there_is_something_to_check() -> None:
    assert {"runs", "leases", "records", "limits"} <= set(MODULES)
    assert len(OVERRIDES) >= 10


def test_every_file_belongs_to_a_module() -> None:
    names = {file.name.split(".")[0] for file in FOLDER.iterdir()}

    assert names == set(MODULES)
    assert all((files("redrive.store") / f"{name}.py").is_file() for name in names - {"shared"})


def test_what_all_modules_share_are_fragments() -> None:
    for file in ("shared.sql", "shared.postgres.sql"):
        names = [name for name, _ in statement._sections(file)]
        assert names
        assert all(name.startswith("_") for name in names)


@loop_over(("module", "name", "text"), OVERRIDES)
def test_an_override_says_why_in_its_first_line(module: str, name: str, text: str) -> None:
    assert re.match(r"-- \w.{10,}\n", text), f"{module}.{name}"


@loop_over(("module", "name", "text"), OVERRIDES)
def test_an_override_takes_the_same_parameters(module: str, name: str, text: str) -> None:
    query = statements(module)[name]

    assert parameters(query.sqlite) == parameters(query.postgres) | NOT_SENT.get((module, name), set())


def parameters(query: SqlQuery) -> set[str]:
    return set(query.names) | (set() if query.then is None else parameters(query.then))


@loop_over(("module", "name", "text"), OVERRIDES)
def test_an_override_answers_with_the_same_columns(module: str, name: str, text: str) -> None:
    """As far as the texts tell: a place may be known, and a sum may be of another type."""
    query = statements(module)[name]
    known = {"'ended'": "place", "'leased'": "place", "CAST": "sum"}

    assert answer(query.sqlite.text) == [known.get(each, each) for each in answer(query.postgres.text)]


def answer(text: str) -> list[str]:
    """The names of the columns that a statement answers with; of a function, the name of the function.

    Those of a union are the names of its first part.
    """
    outermost = re.sub(r"\s+", " ", text)
    while outermost != (shorter := re.sub(r"\([^()]*\)", "", outermost)):
        outermost = shorter
    writes = re.search(r"\b(INSERT INTO|UPDATE|DELETE FROM) ", outermost.replace("FOR UPDATE", ""))
    found = re.search(r".*\bRETURNING (.*)" if writes else r"\bSELECT (.*?) FROM ", outermost)
    columns = found[1].split(",") if found else []
    return [re.sub(r"^(\w+\.)+|.*\bAS ", "", column.strip()) for column in columns]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("UPDATE a SET b = 1 RETURNING a.b, schema.a.c", ["b", "c"]),
        ("WITH x AS (DELETE FROM a RETURNING *) SELECT x.b, (SELECT 1 FROM c) AS d FROM x", ["b", "d"]),
        (
            "WITH x AS (DELETE FROM a RETURNING *)\nINSERT INTO e SELECT b FROM x\nRETURNING b, 'c'",
            ["b", "'c'"],
        ),
        ("SELECT b, count(*) FROM a WHERE c IN (SELECT d FROM e)", ["b", "count"]),
        ("SELECT b, 0 AS c FROM a UNION ALL SELECT d, 1 FROM e", ["b", "c"]),
        ("DELETE FROM a WHERE b = 1", []),
        ("INSERT INTO a SELECT b FROM c", []),
    ],
)
def test_what_a_text_answers_with(text: str, expected: list[str]) -> None:
    assert answer(text) == expected


@loop_over("module", MODULES)
def test_statements_are_complete(module: str) -> None:
    for name, each in statements(module).items():
        assert each.sqlite.name == each.postgres.name == name
        for query in (each.sqlite, each.postgres):
            assert "{" not in re.sub(r"'[^']*'", "", query.text), "a placeholder that was not filled"
            assert not re.search(r"(?<!:):[a-z]", query.text), "a parameter that was not replaced"
        assert "redrive." not in each.sqlite.text
        assert ("?1" in each.sqlite.text) or not (each.sqlite.names or each.sqlite.timed)
        assert not each.postgres.timed
        assert not each.sqlite.batched


@loop_over("module", MODULES)
def test_no_parameter_begins_like_the_moment(module: str) -> None:
    """`:now` is replaced as a text: `:nowhere` would be broken."""
    for file in (f"{module}.sql", f"{module}.postgres.sql"):
        for name, text in statement._sections(file):
            assert not re.search(r":now\w", text), name


@loop_over("module", MODULES)
def test_names_are_used_once(module: str) -> None:
    for file in (f"{module}.sql", f"{module}.postgres.sql"):
        names = [name for name, _ in statement._sections(file)]
        assert len(names) == len(set(names))


@loop_over("module", MODULES)
def test_no_rule_stands_in_sql(module: str) -> None:
    """Decision 4: SQL compares and sets. It throws no dice and computes no backoff."""
    for each in statements(module).values():
        assert not re.search(r"\b(random|power|pow|exp)\s*\(", each.sqlite.text + each.postgres.text)


@loop_over(
    ("module", "name", "kind"),
    [
        ("runs", "enqueue", NewRun),
        ("runs", "enqueue_new", NewRun),
        ("runs", "enqueue_mixed", NewRun),
        ("runs", "enqueue_in_order", NewRun),
        ("records", "complete", record.Completed),
        ("records", "complete_partly", record.CompletedPartly),
        ("records", "advance", record.Advanced),
        ("records", "reschedule", record.Rescheduled),
        ("records", "stop", record.Stopped),
        ("records", "park", record.Parked),
        ("records", "insert_attempt", AttemptRecord),
        ("records", "insert_step", FinishedStep),
        ("records", "insert_event", RunEvent),
        ("records", "insert_dead_letter", record.NewDeadLetter),
        ("records", "occupy", record.Occupied),
        ("records", "progress", record.Progress),
    ],
)
def test_what_is_given_is_what_is_stored(module: str, name: str, kind: type) -> None:
    """No field is forgotten on the way."""
    query = statements(module)[name]
    set_later = {
        "org", "workflow", "step_index", "queue", "attempts", "failures", "first_failed_at", "last_failed_at",
        "created_at", "updated_at", "replay_count", "priority", "next_redrive_at", "exhausted_at",
        "last_replayed_at", "last_replayed_by", "replay_override", "resolved_by", "resolved_at", "resolution",
        "stack", "public_message", "decision", "config", "policy", "pattern", "waits",
    }  # fmt: skip
    if kind is not record.NewDeadLetter:
        set_later = {"ended_at", "output", "at"} & set(fields_of(kind)) - set(query.sqlite.names)

    if kind is NewRun and name != "enqueue_in_order":
        set_later |= _OF_ORDER

    stored = parameters(query.sqlite) | set_later
    not_sent = NOT_SENT.get((module, name), set())
    fields = {_STORED_AS.get((kind, field), field) for field in fields_of(kind)}
    assert stored == set(query.postgres.names) | set_later | not_sent == fields


_STORED_AS: dict[tuple[type, str], str] = {(NewRun, "correlation_id"): "given_correlation_id"}


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        ([{}], "enqueue"),
        ([{}, {}], "enqueue"),
        ([{"delay": -1.0}], "enqueue"),
        ([{"delay": 0.5}], "enqueue_mixed"),
        ([{"delay": 0.5}, {"delay": 0.5}], "enqueue_mixed"),
        ([{"at": 1.0}, {"at": 1.0}], "enqueue_mixed"),
        ([{}, {"delay": 0.5}], "enqueue_mixed"),
        ([{}, {"at": 1.0}], "enqueue_mixed"),
        ([{}, {"queue": "mail"}], "enqueue_mixed"),
    ],
)
def test_only_runs_that_are_ready_at_once_are_stored_without_their_times(
    when: list[dict[str, Any]], expected: str
) -> None:
    assert _enqueue([new_run(**changes) for changes in when]) is statements("runs")[expected]


WRITES = [
    *("complete", "complete_step", "complete_partly", "advance", "advance_step", "hand_over", "reschedule"),
    *("stop", "park", "occupy", "progress"),
]


def test_every_change_is_among_the_writes() -> None:
    assert set(_STATEMENTS.values()) < set(WRITES) < set(statements("records"))


@loop_over("change", WRITES)
def test_every_write_of_a_worker_is_fenced(change: str) -> None:
    text = re.sub(r"\s+", " ", statements("records")[change].sqlite.text)

    assert re.findall(r"\b(?:UPDATE|DELETE FROM|INSERT INTO) (\w+)", text) == ["runs"]
    condition = text.rpartition(" WHERE ")[2]
    for fence in (r"id = ", r"token = ", r"epoch = ", r"place \|\| '' = 'leased'"):
        assert re.search(rf"(^| AND )run\.{fence}", condition), text
    assert " OR " not in condition


@loop_over("change", WRITES)
def test_every_write_of_a_worker_needs_its_lease_on_postgresql(change: str) -> None:
    """A run has a lease or none. The write deletes or changes it, and moves only what it has deleted."""
    text = re.sub(r"\s+", " ", statements("records")[change].postgres.text)
    fence = "lease.id = batch.id AND lease.token = batch.token AND lease.epoch = batch.epoch"

    assert re.findall(r"\b(?:UPDATE|DELETE FROM) (redrive\S+ AS \w+)", text) == ["redrive.leases AS lease"]
    [condition] = re.findall(rf" WHERE {re.escape(fence)}(.*?)(?: RETURNING |$)", text)
    assert " OR " not in condition
    inserts = re.findall(r"INSERT INTO redrive\.(\w+) \([^)]*\) SELECT .*? FROM (\w+)", text)
    assert len(inserts) == text.count("INSERT INTO")
    assert {table for table, _ in inserts} <= {"ready", "idle", "ended", "steps"}
    assert {source for _, source in inserts} <= set(re.findall(r"(\w+) AS \( (?:DELETE FROM|UPDATE)", text))


@loop_over(("name", "columns"), [("begin_alone", ("id", "token", "epoch")), ("renew", ("id", "token"))])
def test_a_lease_is_prolonged_and_marked_by_its_holder_alone(name: str, columns: tuple[str, ...]) -> None:
    query = statements("leases")[name]
    for text in (query.sqlite.text, query.postgres.text):
        for column in columns:
            assert re.search(rf"\b{column} = (batch\.{column}|[?$]\d)", text), text
    assert "place = 'leased'" in query.sqlite.text
    assert re.findall(r"\bUPDATE (\S+)", query.postgres.text.replace("FOR UPDATE", "")) == ["redrive.leases"]


# Reading


def test_a_second_part_has_its_own_parameters_on_sqlite(loaded: Path) -> None:
    (loaded / "a.sql").write_text("-- name: one\nUPDATE a SET b = :b WHERE c = :c RETURNING c;\nSELECT :c\n")

    first = statement.statements("a")["one"].sqlite

    assert (first.text, first.names) == ("UPDATE a SET b = ?1 WHERE c = ?2 RETURNING c", ("b", "c"))
    assert first.then is not None
    assert (first.then.text, first.then.names, first.then.then) == ("SELECT ?1", ("c",), None)


def test_parameters_are_numbered_in_order_of_appearance(loaded: Path) -> None:
    (loaded / "a.sql").write_text("-- name: one\nSELECT :b, :a_c, :b FROM redrive.runs WHERE x::text = :a\n")

    query = statement.statements("a")["one"]

    assert query.sqlite == SqlQuery(
        "one", "SELECT ?1, ?2, ?1 FROM runs WHERE x::text = ?3", ("b", "a_c", "a")
    )
    text = "SELECT $1, $2, $1 FROM redrive.runs WHERE x::text = $3"
    assert query.postgres == SqlQuery("one", text, ("b", "a_c", "a"))
    assert query.sqlite.arguments({"a": 1, "b": 2, "a_c": 3, "more": 4}) == (2, 3, 1)


def test_the_moment_comes_first_on_sqlite_and_from_the_server_on_postgresql(loaded: Path) -> None:
    (loaded / "a.sql").write_text("-- name: one\nSELECT :a + :now, :now - :b\n")

    query = statement.statements("a")["one"]

    assert query.sqlite == SqlQuery("one", "SELECT ?2 + ?1, ?1 - ?3", ("a", "b"), timed=True)
    assert query.postgres.names == ("a", "b")
    assert query.postgres.text.count("now()") == 2


def test_fragments_stand_for_their_text_in_both_files(loaded: Path) -> None:
    (loaded / "a.sql").write_text(
        "-- name: _f\nx = :x\n\n-- name: one\nSELECT {_f}\n\n-- name: two\nSELECT {_f}, {_f}\n"
    )
    (loaded / "a.postgres.sql").write_text("-- name: two\n-- Because it must.\nSELECT 2, {_f}\n")

    found = statement.statements("a")

    assert set(found) == {"one", "two"}
    assert found["one"].sqlite.text == "SELECT x = ?1"
    assert found["one"].postgres.text == "SELECT x = $1"
    assert found["two"].sqlite.text == "SELECT x = ?1, x = ?1"
    assert found["two"].postgres.text == "SELECT 2, x = $1"


def test_only_an_override_that_unnests_serves_a_batch(loaded: Path) -> None:
    (loaded / "a.sql").write_text("-- name: one\nSELECT :a\n\n-- name: two\nSELECT :a, :b\n")
    (loaded / "a.postgres.sql").write_text(
        "-- name: two\n-- One round trip.\nSELECT unnest(CAST(:a\n AS double precision[])), :b\n"
    )

    found = statement.statements("a")

    assert [found[name].postgres.batched for name in ("one", "two")] == [False, True]
    assert found["two"].postgres.columns([(1.5, "x"), (2.5, "x")]) == [[1.5, 2.5], "x"]
    with pytest.raises(ValueError, match="must have the same 'b'"):
        found["two"].postgres.columns([(1.5, "x"), (2.5, "y")])


def test_an_override_of_nothing_is_refused(loaded: Path) -> None:
    (loaded / "a.sql").write_text("-- name: one\nSELECT 1\n")
    (loaded / "a.postgres.sql").write_text("-- name: onne\n-- A slip.\nSELECT 1\n")

    with pytest.raises(LookupError, match="onne"):
        statement.statement("a", "one")


def test_a_statement_that_does_not_exist() -> None:
    with pytest.raises(KeyError):
        statement.statement("runs", "unknown")


@pytest.mark.parametrize(("names", "expected"), [(("a",), (1,)), (("b", "a"), (2, 1))])
def test_a_row_gives_its_attributes(names: tuple[str, ...], expected: tuple[int, ...]) -> None:
    assert SqlQuery("q", "", names).reader(SimpleNamespace(a=1, b=2)) == expected
