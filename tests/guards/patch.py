"""Patches that switch a guard off and on again: one small change to a statement, a function or the tables.

A patch changes the object itself, not a name that refers to it, so earlier imports are affected too. A patch
that finds nothing to change raises GuardMovedError: a guard that has moved must not look unnecessary.
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
"""A condition that is always true and still uses the same parameters."""


class GuardMovedError(LookupError):
    """The code that a patch changes is no longer there."""


@dataclass(frozen=True, slots=True)
class Sql:
    """Replaces the matches of `pattern` in a statement, such as `records.complete`, on these databases."""

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
            raise GuardMovedError(f"the statement {self.name} no longer exists") from None
        return [(side, getattr(found, side)) for side in self.sides]

    def _changed(self, side: str, query: SqlQuery) -> str:
        changed, count = re.subn(self.pattern, self.replacement, query.text)
        if not count:
            raise GuardMovedError(f"{self.pattern!r} matches nothing in {self.name} ({side}):\n{query.text}")
        return changed


@dataclass(frozen=True, slots=True)
class Code:
    """Replaces `fragment` in the source of a function, such as `redrive.engine.work:Work.interrupt`."""

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
                raise GuardMovedError(f"{self.name} no longer exists")
            found = vars(found)[name]
        return _plain(found)

    def _changed(self, function: FunctionType) -> CodeType:
        text = textwrap.dedent(inspect.getsource(function))
        if text.count(self.fragment) != 1:
            raise GuardMovedError(f"{self.name} must contain {self.fragment!r} exactly once:\n{text}")
        changed, place = text.replace(self.fragment, self.replacement), f"<{self.name} without a guard>"
        if not function.__closure__:
            return _first(_compiled(changed, place))
        around = "class Around:\n" + textwrap.indent(changed, "    ")  # so that super() works
        return _first(_first(_compiled(around, place)))


@dataclass(frozen=True, slots=True)
class Schema:
    """Replaces `fragment` in the migrations, for tables created while the patch is applied."""

    fragment: str
    replacement: str

    @contextmanager
    def applied(self) -> Iterator[None]:
        texts = [part for each in migration.migrations() for part in (each.text, each.sqlite, each.postgres)]
        if not any(self.fragment in text for text in texts):
            raise GuardMovedError(f"no migration contains {self.fragment!r} any longer")
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
    """Return the first function or class in this code."""
    return next(each for each in code.co_consts if isinstance(each, CodeType))


def _plain(found: Any) -> FunctionType:
    """Return the function without its wrappers."""
    if isinstance(found, property):
        found = found.fget
    if isinstance(found, cached_property):
        found = found.func
    found = getattr(found, "__func__", found)
    function = inspect.unwrap(found)
    assert isinstance(function, FunctionType), found
    return function
