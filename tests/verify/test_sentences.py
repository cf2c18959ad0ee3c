"""Sentences are only for display: without them, checker, doctor, simulator, API and pages still agree."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from tests.cases import loop_over
from tests.server.admin.reading import read
from tests.server.house import House, served
from tests.store.build import ask
from tests.verify.history import History
from tests.verify.tampering import LOST_IN_TIME, RUN, tampering

import redrive
from redrive import words
from redrive.doctor import DoctorLimits, HealthReport, examine
from redrive.parts import parts_of
from redrive.policy.policy_change import Alteration
from redrive.verify import verify

FOR_PROGRAMS = {
    "closest",  # one of the known names
    "letter_look",  # compared, not shown
    "letter_state",  # the name of a state
    "machine",  # a format for programs
    "parse_duration",
    "selection_of",  # a stored value
    "to_json",  # facts; the text in it comes from `text_of`
}
"""Functions of `redrive.words` whose result is not a sentence, or more than one."""

FIELDS_FOR_PROGRAMS = {"actor", "operation"}
"""Fields of named tuples that are not sentences."""

PAGES = ("", "/runs", "/dlq", "/breakers", "/queues", "/workers", "/audit", "/replays")
LISTS = ("runs", "dead-letters", "groups", "operations", "audit")


IGNORED = {"text", "error_line", "status"}
"""Fields of answers that are sentences."""


def blank(result: Any) -> Any:
    """Replace every letter and digit, in named tuples too, so that no code can read the text."""
    if isinstance(result, str) and not isinstance(result, Enum):
        return re.sub(r"\w", "¤", result)
    if hasattr(result, "_asdict"):
        texts = {
            name: blank(value) for name, value in result._asdict().items() if name not in FIELDS_FOR_PROGRAMS
        }
        return result._replace(**texts)
    return result


def sentences() -> Iterator[FunctionType]:
    """Every function of `redrive.words`, except `FOR_PROGRAMS`."""
    for module_name in (f"{words.__name__}.{found.name}" for found in pkgutil.iter_modules(words.__path__)):
        for name, value in vars(import_module(module_name)).items():
            if isinstance(value, FunctionType) and value.__module__ == module_name:
                if name.startswith("_") or name in FOR_PROGRAMS:
                    continue
                yield value


class _Replaced:
    """A function with a blank result from `replace` to `restore`, in every place that refers to it."""

    def __init__(self, function: FunctionType, number: int) -> None:
        self._function, self._name = function, f"_original_{number}"
        self._present = function.__code__, function.__defaults__, function.__kwdefaults__

    def replace(self) -> None:
        function, (code, defaults, named_defaults) = self._function, self._present
        original = FunctionType(code, function.__globals__, function.__name__, defaults)
        original.__kwdefaults__ = named_defaults
        function.__globals__.update({self._name: original, "_blank": blank})
        made: dict[str, Any] = {}
        exec(f"def replacement(*args, **named): return _blank({self._name}(*args, **named))", made)
        self._set(made["replacement"].__code__, None, None)

    def restore(self) -> None:
        self._set(*self._present)
        del self._function.__globals__[self._name]

    def _set(self, code: CodeType, defaults: Any, named_defaults: Any) -> None:
        function = self._function
        function.__code__, function.__defaults__, function.__kwdefaults__ = code, defaults, named_defaults


@contextmanager
def blanked() -> Iterator[int]:
    """Replace all those functions. Yields their number."""
    replaced = [_Replaced(function, number) for number, function in enumerate(sentences())]
    for function in replaced:
        function.replace()
    try:
        yield len(replaced)
    finally:
        for function in replaced:
            function.restore()


def without_texts(value: Any) -> Any:
    """Return a response of the API without its sentences."""
    if isinstance(value, dict):
        return {name: without_texts(item) for name, item in value.items() if name not in IGNORED}
    return [without_texts(item) for item in value] if isinstance(value, list) else value


async def answers(house: House, key: str, history: History) -> dict[str, Any]:
    """Return the responses of the API, and the actions and links of the pages."""
    found: dict[str, Any] = {}
    async with house.client(key) as client:
        paths = [f"/api/v1/{name}" for name in LISTS]
        paths += [
            f"/api/v1/runs/{run_id}{part}"
            for run_id in history.runs.values()
            for part in ("", "/events", "/attempts")
        ]
        letters = [letter["id"] for letter in (await client.get("/api/v1/dead-letters")).json()["items"]]
        paths += [
            f"/api/v1/dead-letters/{letter_id}{part}" for letter_id in letters for part in ("", "/verdict")
        ]
        for path in paths:
            answer = await client.get(path)
            assert answer.status_code == 200, (path, answer.text)
            found[path] = without_texts(answer.json())
        pages = [f"/app/admin{page}" for page in PAGES]
        pages += [f"/app/admin/runs/{run_id}" for run_id in history.runs.values()]
        pages += [f"/app/admin/dlq/{letter_id}" for letter_id in letters]
        for path in pages:
            page = await read(client, path)
            found[path] = (page.actions, page.links)
    return found


IMPATIENT = DoctorLimits(
    leeway_seconds=0.0, silent_seconds=0.0, backlog_seconds=0.0, letter_seconds=0.0, connections=0.0
)
"""Limits at which the doctor reports much."""


def facts_of(report: HealthReport) -> list[tuple[Any, ...]]:
    """Return the doctor's findings, without values that change from moment to moment."""
    return [
        (finding.check, finding.code, finding.state, sorted(finding.fields), finding.command)
        for finding in report.findings
    ]


@pytest.mark.asyncio(loop_scope="module")
async def test_the_doctor_reads_no_sentence(history: History) -> None:
    async def examined() -> HealthReport:
        return await examine(history.app, keys=(), limits=IMPATIENT)

    report = await examined()
    assert {"breaker_forced", "letters_need_you", "queue_paused", "worker_silent"} <= {
        finding.code for finding in report.findings
    }
    with blanked():
        again = await examined()
        assert facts_of(again) == facts_of(report)
        assert again.is_well() == report.is_well()
        told = [
            text for finding in again.findings for text in (finding.seen, finding.meaning, finding.advice)
        ]
        assert [text for text in told if re.search("[A-Za-z0-9]", text)] == []


SPOILING = (
    RUN.format(f"held_by = 'task:' || 'ship', {LOST_IN_TIME}"),
    "UPDATE redrive.runs SET epoch = 0 WHERE place = 'ended'",
    "UPDATE redrive.dead_letters SET attempts = 9, state = 'OPEN'",
    "DELETE FROM redrive.audit WHERE sequence = 1",
)
"""Changes that make the checker report much."""


@pytest.mark.asyncio(loop_scope="module")
async def test_the_checker_reads_no_sentence(history: History) -> None:
    """It also needs no sentence to find that no worker knows a waiting run's task."""
    async with tampering(history) as session:
        for text in SPOILING:
            await ask(session, text, id=history.runs["limited"])
        verdict = await verify(session)
        assert {"work_unknown", "contradiction", "letter_different", "audit_entries_missing"} <= {
            found.code for found in verdict.findings
        }
        with blanked():
            again = await verify(session)
            assert [(found.subject, found.code) for found in again.findings] == [
                (found.subject, found.code) for found in verdict.findings
            ]
            told = [found.text for found in again.findings]
            assert [text for text in told if re.search("[A-Za-z0-9]", text)] == []


@pytest.mark.asyncio(loop_scope="module")
async def test_no_code_reads_a_sentence(history: History) -> None:
    app = history.app
    alteration = Alteration(attempts=9)
    async with served(app) as house:
        key = await house.key()
        verdict = await verify(parts_of(app).database)
        simulated = await app.failures().what_if(alteration, since=0.0)
        seen = await answers(house, key, history)
        with blanked() as number:
            assert number > 20
            assert words.explain.__code__.co_name == "replacement"
            again = await verify(parts_of(app).database)
            assert (again.sound, again.checked) == (verdict.sound, verdict.checked)
            assert await app.failures().what_if(alteration, since=0.0) == simulated
            assert await answers(house, key, history) == seen
    assert simulated.attempts > 0


PARSING = (
    r"explanation( NOT)? I?LIKE",
    r"""\.split\(["']; ["']\)""",
    r"(startswith|endswith|removeprefix|removesuffix)\([A-Z_]*(NOTE|ADVICE|CAREFUL|SENTENCE|TEXT)\b",
    r"(re\.compile|fullmatch|search|LIKE|~)\W[^)]*"
    r"(the server asked for|at most|under way|in progress|did you mean|left out|won't help)",
)
"""Code that parsed sentences in the past, and similar code."""

READERS = {".py", ".sql", ".html", ".js"}


def is_parsing(line: str) -> bool:
    return any(re.search(pattern, line) for pattern in PARSING)


def test_no_source_has_a_known_pattern_of_parsing_a_sentence() -> None:
    found = [
        f"{path}:{number}"
        for path in sorted(Path(redrive.__file__).parent.rglob("*.*"))
        if path.suffix in READERS
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if is_parsing(line)
    ]
    assert found == []


@loop_over(
    "line",
    [
        "WHERE explanation LIKE '%; the server asked for %'",
        "parts = attempt.explanation.split('; ')",
        "if text.startswith(_NOTE):",
        '_LEFT_OUT = re.compile(r"… [\\d,]{1,20} characters left out …")',
        "found = re.search(r'at most (\\d+) attempts', text)",
    ],
)
def test_the_known_patterns_find_such_a_line(line: str) -> None:
    assert is_parsing(line)
