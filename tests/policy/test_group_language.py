"""The query language for failure groups, and which of two lists a query selects."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import loop_over

from redrive.errors import InvalidValueError
from redrive.model.dead_letter import CLOSED, DeadLetterState
from redrive.model.failure_group import GroupState
from redrive.model.query import Ago, Beginning, Between, Term, Value
from redrive.policy.query import about_groups, parse
from redrive.policy.query_language import GROUP_WORDS, GROUPS, GROUPS_ONLY, KEYS, SHARED

OF_LETTERS = sorted(set(KEYS) - set(SHARED))


def only(text: str) -> Term:
    [term] = parse(text, GROUPS).terms
    return term


@loop_over(
    ("text", "values"),
    [
        ("is:open", (DeadLetterState.OPEN,)),
        ("is:dlq", (DeadLetterState.OPEN,)),
        ("is:closed", CLOSED),
        ("is:any", tuple(DeadLetterState)),
        ("group:OPEN", ("open",)),
        ("group:regressed,Ignored", ("regressed", "ignored")),
        ("occurrences:>3", (Between(4, None),)),
        ("fp:abcdef", (Beginning("v1:abcdef"),)),
        ("since:2h", (Ago(7_200),)),
        ("category:timeout", ("timeout",)),
        ("error:ValueError", ("ValueError",)),
    ],
)
def test_the_meaning_of_a_term(text: str, values: tuple[Value, ...]) -> None:
    assert only(text).values == values


def test_the_keys_are_those_that_groups_have() -> None:
    assert set(GROUPS.readers) == {*SHARED, *GROUPS_ONLY}
    assert set(GROUP_WORDS) == {*(state.lower() for state in GroupState), "regressed"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("group:closed", "unknown value 'closed' of 'group' at position 7; use one of: open, acknowledged"),
        ("is:regressed", "unknown value 'regressed' of 'is' at position 4"),
        ("occurrences:many", "expected a number"),
        ("stop:charge", "unknown key 'stop' at position 1; did you mean 'step'?"),
        ("-since:2h", "cannot be negated"),
    ],
)
def test_an_invalid_query_is_rejected_with_its_place(text: str, told: str) -> None:
    with pytest.raises(InvalidValueError, match=re.escape(told)):
        parse(text, GROUPS)


@loop_over("key", OF_LETTERS)
def test_a_key_of_single_letters_is_distinguished_from_an_unknown_one(key: str) -> None:
    told = f"the key '{key}' at position 9 filters dead letters, not failure groups"
    with pytest.raises(InvalidValueError, match=told):
        parse(f"is:open {key}:1", GROUPS)


@pytest.mark.parametrize("key", GROUPS_ONLY)
def test_a_key_of_groups_is_refused_in_a_query_for_letters_with_a_reason(key: str) -> None:
    told = f"the key '{key.upper()}' at position 2 filters failure groups, not dead letters; remove it"
    with pytest.raises(InvalidValueError, match=told):
        parse(f"-{key.upper()}:1")


def test_a_query_for_the_letters_of_a_group_gets_a_hint() -> None:
    with pytest.raises(InvalidValueError, match=r"did you mean 'fp'\?"):
        parse("group:f216df98c93a")


# A list of groups, or of dead letters?


@pytest.mark.parametrize(
    "text",
    [
        "",
        "is:open category:timeout step:charge workflow:checkout since:2h",
        "fp:abcdef",
        '"free text"',
        "-group:resolved",
        "occurrences:>100 refused",
    ],
)
def test_keys_of_groups_select_groups(text: str) -> None:
    assert about_groups(text)
    parse(text, GROUPS)


@pytest.mark.parametrize(
    "text",
    ["queue:payments", "is:open attempts:>3", "-tag:vip", "assignee:me", "id:1", "run:1", "class:final x"],
)
def test_keys_of_single_letters_select_letters(text: str) -> None:
    assert not about_groups(text)
    parse(text)


def test_queries_that_no_list_can_show_are_rejected() -> None:
    told = "'queue' filters single dead letters and 'group' filters failure groups; remove one of them"
    with pytest.raises(InvalidValueError, match=told):
        about_groups("group:open queue:payments")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("quue:payments", "unknown key 'quue' at position 1; did you mean 'queue'?"),
        ("occurences:>3", "unknown key 'occurences' at position 1; did you mean 'occurrences'?"),
        ("is:opn", "unknown value 'opn' of 'is' at position 4; did you mean 'open'?"),
        ('"open', "is never closed"),
    ],
)
def test_queries_that_neither_list_understands_are_rejected(text: str, told: str) -> None:
    with pytest.raises(InvalidValueError, match=re.escape(told)):
        about_groups(text)


_TERMS = st.sampled_from(
    [
        *("is:open", "-is:closed", "group:open", "-group:regressed", "occurrences:2..5", "category:timeout"),
        *(
            "fp:abcdef",
            'step:"a b"',
            "since:2h",
            "until:2026-11-01",
            "text",
            '"a:b"',
            "-x",
            "queue:q",
            "tag:t",
        ),
    ]
)


@given(st.lists(_TERMS, max_size=6))
def test_the_answer_is_that_of_the_languages_themselves(terms: list[str]) -> None:
    text = " ".join(terms)
    try:
        answer = about_groups(text)
    except InvalidValueError:
        for language in (GROUPS, None):
            with pytest.raises(InvalidValueError):
                parse(text, *([language] if language else []))
        return
    query = parse(text, GROUPS) if answer else parse(text)
    again = parse(str(query), GROUPS) if answer else parse(str(query))
    assert again == query
