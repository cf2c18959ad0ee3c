"""How a guard is taken away, and put back: one small change of a statement, of a function or of the tables.

All of them change the thing itself and not a name for it, so whoever has imported it before is affected too.
A patch that finds nothing to change says so: a guard that has moved must not look as if it were not needed.
"""

from __future__ import annotations
import __future__

import inspect
import re
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from types import CodeType, FunctionType
from typing import Any, Literal

from redrive.store import migration
from redrive.store.statement import SqlQuery, statement

Side = Literal["sqlite", "postgres"]

ALWAYS = r"(\g<0> OR 1 = 1)"
"""A condition that holds always, and still takes the same parameters."""


class GuardMovedError(LookupError):
    """What a patch takes away is not where it was."""


@dataclass(frozen=True, slots=True)
class Sql:
    """In a statement, `records.complete`: what `pattern` matches becomes `replacement`, on both databases."""

    name: str
    pattern: str
    replacement: str = ALWAYS
    sides: tuple[Side, ...] = ("sqlite", "postgres")

    @contextmanager
    def applied(self) -> Iterator[None]:
        texts = [(query, query.text, self._changed(side, query)) for side, query in self._queries()]
        for query, _, changed in texts:
            object.__setattr__(query, "text", changed)
        try:
            yield
        finally:
            for query, original, _ in texts:
                object.__setattr__(query, "text", original)

    def _queries(self) -> list[tuple[Side, SqlQuery]]:
        module, _, name = self.name.partition(".")
        try:
            found = statement(module, name)
        except LookupError:
            raise GuardMovedError(f"there is no statement {self.name} any more") from None
        return [(side, getattr(found, side)) for side in self.sides]

    def _changed(self, side: str, query: SqlQuery) -> str:
        changed, count = re.subn(self.pattern, self.replacement, query.text)
        if not count:
            raise GuardMovedError(f"{self.pattern!r} matches nothing in {self.name} ({side}):\n{query.text}")
        return changed


@dataclass(frozen=True, slots=True)
class Code:
    """In a function, `redrive.engine.work:Work.interrupt`: `fragment` of its text becomes `replacement`."""

    name: str
    fragment: str
    replacement: str

    @contextmanager
    def applied(self) -> Iterator[None]:
        function = self._function()
        original = function.__code__
        function.__code__ = self._changed(function)
        try:
            yield
        finally:
            function.__code__ = original

    def _function(self) -> FunctionType:
        module, _, path = self.name.partition(":")
        found: Any = import_module(module)
        for name in path.split("."):
            if name not in vars(found):
                raise GuardMovedError(f"there is no {self.name} any more")
            found = vars(found)[name]
        return _plain(found)

    def _changed(self, function: FunctionType) -> CodeType:
        text = textwrap.dedent(inspect.getsource(function))
        if text.count(self.fragment) != 1:
            raise GuardMovedError(f"{self.name} must have {self.fragment!r} exactly once:\n{text}")
        changed, place = text.replace(self.fragment, self.replacement), f"<{self.name} without a guard>"
        if not function.__closure__:
            return _first(_compiled(changed, place))
        around = "class Around:\n" + textwrap.indent(changed, "    ")  # where super() means something
        return _first(_first(_compiled(around, place)))


@dataclass(frozen=True, slots=True)
class Schema:
    """In the tables that are made from now on."""

    fragment: str
    replacement: str

    @contextmanager
    def applied(self) -> Iterator[None]:
        texts = [part for each in migration.migrations() for part in (each.text, each.sqlite, each.postgres)]
        if not any(self.fragment in text for text in texts):
            raise GuardMovedError(f"no migration has {self.fragment!r} any more")
        split = migration._statements
        migration._statements = lambda text: split(text.replace(self.fragment, self.replacement))
        try:
            yield
        finally:
            migration._statements = split


Patch = Sql | Code | Schema


def _compiled(text: str, place: str) -> CodeType:
    code: CodeType = compile(text, place, "exec", __future__.annotations.compiler_flag, dont_inherit=True)
    return code


def _first(code: CodeType) -> CodeType:
    """The first function or class in it."""
    return next(each for each in code.co_consts if isinstance(each, CodeType))


def _plain(found: Any) -> FunctionType:
    """The function itself, without what is wrapped around it."""
    if isinstance(found, property):
        found = found.fget
    if isinstance(found, cached_property):
        found = found.func
    found = getattr(found, "__func__", found)
    function = inspect.unwrap(found)
    assert isinstance(function, FunctionType), found
    return function
