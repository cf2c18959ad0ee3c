"""What may be saved as a view: only what its page will understand when somebody comes back to it."""

from __future__ import annotations

from enum import StrEnum

from redrive.errors import InvalidValueError
from redrive.model.failure_group import GroupSort
from redrive.model.query import Order
from redrive.model.saved_view import Looking, Shown, ViewedPage
from redrive.policy.bounds import choice
from redrive.policy.criterion import DEAD_LETTERS
from redrive.policy.group_language import GROUPS, about_groups
from redrive.policy.query import parse
from redrive.policy.run_language import RUNS

MAX_SAVED_LENGTH = 2_000
"""As much as an address may hold."""


def require_understood(looking: Looking) -> None:
    """By the language of the page; and the order must be one of the list that it shows."""
    if len(looking.query) > MAX_SAVED_LENGTH:
        raise InvalidValueError(
            f"a query that is saved has at most {MAX_SAVED_LENGTH:,} characters, this one has "
            f"{len(looking.query):,}"
        )
    if looking.page is ViewedPage.RUNS:
        parse(looking.query, RUNS)
        _refuse_any(looking)
    elif _shows_groups(looking):
        parse(looking.query, GROUPS)
        _require_order(looking.sort, GroupSort)
    else:
        parse(looking.query, DEAD_LETTERS)
        _require_order(looking.sort, Order)


def _shows_groups(looking: Looking) -> bool:
    if not looking.view:
        return about_groups(looking.query)
    return choice("view", looking.view, Shown) is Shown.GROUPS


def _require_order(sort: str, orders: type[StrEnum]) -> None:
    if sort:
        choice("sort", sort, orders)


def _refuse_any(looking: Looking) -> None:
    for name in ("view", "sort"):
        if getattr(looking, name):
            raise InvalidValueError(f"the page of runs has no {name}; leave it out")
