"""Many cases in one test.

    @loop_over("name", ["worker_threads", "worker_concurrency"])
    @loop_over("value", [True, None, "5"])
    def test_values_that_are_not_numbers(name: str, value: object) -> None: ...

`loop_over` has the arguments of `pytest.mark.parametrize`, and the test may be async. All cases share the
fixtures of the test, and a failure names every case that failed. It is for tables of values; `parametrize`
is for cases that need separate fixtures.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

import pytest
from _pytest._io.saferepr import saferepr

MAX_VALUE_LENGTH = 100

_Test = Callable[..., Any]


class FailedCases(AssertionError):
    """The cases of a test that failed, each with its error."""

    def __init__(self, cases: Sequence[str]) -> None:
        super().__init__(f"{len(cases)} failed:\n" + "\n".join(cases))
        self.cases = cases


def loop_over(names: str | tuple[str, ...], values: Iterable[Any]) -> Callable[[_Test], _Test]:
    """Call the test once for each of `values`, and fail at the end with all cases that failed."""
    table = list(_arguments((names,) if isinstance(names, str) else names, values))
    assert table, "a test needs at least one case"

    def decorate(test: _Test) -> _Test:
        @wraps(test)
        def run_all(*fixtures: Any, **others: Any) -> None:
            failures = _Failures()
            for arguments in table:
                with failures.of(arguments):
                    test(*fixtures, **others, **arguments)
            failures.raise_all()

        @wraps(test)
        async def await_all(*fixtures: Any, **others: Any) -> None:
            failures = _Failures()
            for arguments in table:
                with failures.of(arguments):
                    await test(*fixtures, **others, **arguments)
            failures.raise_all()

        looped: _Test = await_all if inspect.iscoroutinefunction(test) else run_all
        _set_signature(looped, test, without=table[0])
        return looped

    return decorate


class _Failures:
    def __init__(self) -> None:
        self._cases: list[str] = []

    @contextmanager
    def of(self, arguments: dict[str, Any]) -> Iterator[None]:
        try:
            yield
        except FailedCases as inner:
            self._cases += [f"{_describe(arguments)}, {case}" for case in inner.cases]
        except (Exception, pytest.fail.Exception) as error:
            self._cases.append(f"{_describe(arguments)}: {type(error).__name__}: {error}")

    def raise_all(self) -> None:
        if self._cases:
            raise FailedCases(self._cases)


def _arguments(names: tuple[str, ...], values: Iterable[Any]) -> Iterator[dict[str, Any]]:
    for value in values:
        yield dict(zip(names, (value,) if len(names) == 1 else value, strict=True))


def _describe(arguments: dict[str, Any]) -> str:
    return ", ".join(f"{name}={saferepr(value, MAX_VALUE_LENGTH)}" for name, value in arguments.items())


def _set_signature(looped: _Test, test: _Test, without: Iterable[str]) -> None:
    """Show pytest the fixtures of the test only, as it asks for every parameter it sees."""
    signature = inspect.signature(test)
    parameters = dict(signature.parameters)
    for name in without:
        del parameters[name]
    looped.__signature__ = signature.replace(parameters=list(parameters.values()))  # type: ignore[attr-defined]
