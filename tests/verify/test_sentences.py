"""Sentences are only shown: with all replaced, the checker, the simulator, the API and the pages agree."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from tests.server.admin.reading import read
from tests.server.house import House, served
from tests.verify.history import History

import redrive
from redrive import words
from redrive.parts import parts_of
from redrive.policy.policy_change import Alteration
from redrive.verify import verify

FOR_PROGRAMS = {"machine"}
"""Functions of `redrive.words` whose text is a format for programs."""

PAGES = ("", "/runs", "/dlq", "/breakers", "/queues", "/workers", "/audit", "/replays")
LISTS = ("runs", "dead-letters", "groups", "operations", "audit")


IGNORED = {"text", "error_line", "status"}
"""Fields of answers that are sentences."""


def blank(text: object) -> object:
    """Replace every letter and digit, so that nothing can be read out of the text."""
    return re.sub(r"\w", "¤", text) if isinstance(text, str) else text


def sentences() -> Iterator[FunctionType]:
    """Every function of `redrive.words` that returns a text."""
    for module_name in (f"{words.__name__}.{found.name}" for found in pkgutil.iter_modules(words.__path__)):
        for name, value in vars(import_module(module_name)).items():
            if not isinstance(value, FunctionType) or value.__module__ != module_name:
                continue
            if value.__annotations__.get("return") == "str" and name not in FOR_PROGRAMS:
                yield value


class _Replaced:
    """A function whose text is blank from `replace` to `restore`, wherever the function is referred to."""

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
    """An answer of the API without the sentences in it."""
    if isinstance(value, dict):
        return {name: without_texts(item) for name, item in value.items() if name not in IGNORED}
    return [without_texts(item) for item in value] if isinstance(value, list) else value


async def answers(house: House, key: str, history: History) -> dict[str, Any]:
    """What the API answers, and what the pages let a person do and where they lead."""
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


@pytest.mark.asyncio(loop_scope="module")
async def test_nothing_reads_a_sentence(history: History) -> None:
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
    r"explanation LIKE",
    r"""\.split\("; "\)""",
    r"(startswith|endswith|removeprefix|removesuffix)\([A-Z]*(NOTE|ADVICE|CAREFUL|SENTENCE|TEXT)\b",
    r"re\.compile\([^)]*(the server asked for|at most|under way|in progress|did you mean|position)",
)


def test_no_source_has_a_known_pattern_of_parsing_a_sentence() -> None:
    found = [
        f"{path}:{number}"
        for path in sorted(Path(redrive.__file__).parent.rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if any(re.search(pattern, line) for pattern in PARSING)
    ]
    assert found == []
