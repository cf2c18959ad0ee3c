"""The query language: its meaning, its errors, and that its text is canonical."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import loop_over

from redrive.errors import InvalidValueError
from redrive.model.dead_letter import CLOSED, HEALS_ITSELF, LIVE, NEEDS_YOU, DeadLetterState, Prospect
from redrive.model.failure import Category
from redrive.model.query import TEXT, Ago, Beginning, Between, Moment, Query, Term, Value, Who
from redrive.policy.query import MAX_QUERY_LENGTH, MAX_TERMS, MAX_VALUES, parse
from redrive.policy.query_language import DEAD_LETTERS, KEYS, RUNS, Language

WHOLE = "v1:" + "0123456789" * 4


def only(text: str) -> Term:
    [term] = parse(text).terms
    return term


def test_the_example_of_the_pages() -> None:
    query = parse(
        "is:open category:timeout step:charge workflow:checkout queue:payments fp:0a1b2c attempts:>3 "
        'since:2h "free text"'
    )

    assert query.terms == (
        Term("is", (DeadLetterState.OPEN,)),
        Term("category", ("timeout",)),
        Term("step", ("charge",)),
        Term("workflow", ("checkout",)),
        Term("queue", ("payments",)),
        Term("fp", (Beginning("v1:0a1b2c"),)),
        Term("attempts", (Between(4, None),)),
        Term("since", (Ago(7_200),)),
        Term(TEXT, ("free text",)),
    )


@pytest.mark.parametrize("text", ["", "   ", "\t\n "])
def test_an_empty_query_selects_everything(text: str) -> None:
    assert parse(text) == Query()
    assert str(parse(text)) == ""


@loop_over(
    ("text", "key", "values"),
    [
        ("is:pending", "is", (DeadLetterState.OPEN,)),
        ("is:REPLAYED", "is", (DeadLetterState.RESOLVED,)),
        ("is:live", "is", LIVE),
        ("is:closed", "is", CLOSED),
        ("is:any", "is", tuple(DeadLetterState)),
        ("is:needs-you", "is", NEEDS_YOU),
        ("is:Heals-Itself", "is", HEALS_ITSELF),
        ("is:scheduled,unscheduled", "is", tuple(Prospect)),
        ("is:open,live", "is", LIVE),
        ("IS:Open", "is", (DeadLetterState.OPEN,)),
        ("category:timeout,network,timeout", "category", ("timeout", "network")),
        ("class:final", "class", ("final",)),
        ("effect:unsafe", "effect", ("unsafe",)),
        ("redrive:custom:nightly", "redrive", ("custom:nightly",)),
        ("redrive:linear", "redrive", ("linear",)),
        (f"fp:{WHOLE}", "fp", (WHOLE,)),
        (f"fp:{WHOLE[3:].upper()}", "fp", (WHOLE,)),
        ("fp:v2:abcdef", "fp", (Beginning("v2:abcdef"),)),
        ("assignee:me,none,ana", "assignee", (Who.ME, Who.NOBODY, "ana")),
        ('assignee:"me"', "assignee", ("me",)),
        ('step:"a, \\"b\\"",c', "step", ('a, "b"', "c")),
        ("run:a:b", "run", ("a:b",)),
        ("status:500..599", "status", (Between(500, 599),)),
        ("attempts:3", "attempts", (Between(3, 3),)),
        ("attempts:=3", "attempts", (Between(3, 3),)),
        ("replays:>=3", "replays", (Between(3, None),)),
        ("redrives:<3", "redrives", (Between(None, 2),)),
        ("priority:<=-3", "priority", (Between(None, -3),)),
        ("priority:-3..-1,7", "priority", (Between(-3, -1), Between(7, 7))),
        ("since:90s", "since", (Ago(90),)),
        ("until:1w", "until", (Ago(604_800),)),
        ("since:2026-11-01", "since", (Moment(1_793_491_200.0),)),
        ("since:2026-11-01T02:00:00+02:00", "since", (Moment(1_793_491_200.0),)),
        ("until:2026-11-01T00:00:00.25Z", "until", (Moment(1_793_491_200.25),)),
        ("reset", TEXT, ("reset",)),
        ('"a \\\\ b"', TEXT, ("a \\ b",)),
        ('"is:open"', TEXT, ("is:open",)),
    ],
)
def test_the_meaning_of_a_term(text: str, key: str, values: tuple[Value, ...]) -> None:
    assert only(text) == Term(key, values)
    assert only(f"-{text}" if key not in ("since", "until") else text).values == values


@pytest.mark.parametrize("text", ["-category:timeout", "-reset", '-"a b"', "-is:closed"])
def test_a_minus_negates(text: str) -> None:
    assert only(text).negated
    assert not only(text[1:]).negated


@loop_over(
    ("text", "message"),
    [
        ("catgory:x", "unknown key 'catgory' at position 1; did you mean 'category'?"),
        ("is:open  -stp:x", "unknown key 'stp' at position 11; did you mean 'step'?"),
        (
            "http://host",
            "unknown key 'http' at position 1; use one of: is, .*put text that contains a colon in quotes",
        ),
        ("is:opne", "unknown value 'opne' of 'is' at position 4; did you mean 'open'?"),
        ("category:timeout,timout", "unknown value 'timout' of 'category' at position 18; did you mean"),
        ("category:zzz", "unknown value 'zzz' .*; use one of: timeout, network"),
        ("class:fin", "did you mean 'final'"),
        ("effect:idempotant", "did you mean 'idempotent'"),
        ("redrive:exponentail", "did you mean 'exponential'"),
        ("fp:abc", "or at least its first 6 digits"),
        ("fp:xyzxyz", "a fingerprint"),
        (f"fp:{WHOLE}0", "a fingerprint"),
        ("attempts:many", "expected a number"),
        ("attempts:5..3", "expected a number"),
        ("attempts:1234567890", "expected a number"),
        ("attempts:٣", "expected a number"),
        ("since:yesterday", "expected a time"),
        ("since:2026-13-01", "expected a time"),
        ("since:2026-11-01T09:30:00", "needs a time zone"),
        ("since:0001-01-01", "a year from 1971"),
        ("since:1h,2h", "'since' at position 1 has too many values"),
        ("-until:1h", "'until' at position 2 cannot be negated"),
        ("step:", "'step' at position 1 has no value"),
        ("step:a,,b", "an empty one"),
        ("step:a,", "an empty one"),
        ('step:""', "it is empty"),
        ('step:"a""b"', "an empty one"),
        ('is:open "abc', "the quote at position 9 is never closed"),
        ('a"b"', "quotes in the middle"),
        ("-", "at position 2 is empty"),
        ('""', "at position 1 is empty"),
        (":x", "unknown key '' at position 1"),
        ("step:a\x00b", "cannot be printed"),
        ("step:\ud800", "cannot be printed"),
        ('"a\nb"', "cannot be printed"),
    ],
)
def test_an_invalid_query_is_rejected_with_its_place(text: str, message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        parse(text)


def test_a_query_is_bounded() -> None:
    assert len(parse("a " * MAX_TERMS).terms) == MAX_TERMS
    with pytest.raises(InvalidValueError, match=f"at most {MAX_TERMS} terms, this one has {MAX_TERMS + 1}"):
        parse("a " * (MAX_TERMS + 1))
    assert len(only("id:" + ",".join(map(str, range(MAX_VALUES)))).values) == MAX_VALUES
    with pytest.raises(InvalidValueError, match="too many values"):
        parse("id:" + ",".join(map(str, range(MAX_VALUES + 1))))
    assert parse("x" * MAX_QUERY_LENGTH)
    with pytest.raises(InvalidValueError, match="at most 4,000 characters, this one has 4,001"):
        parse("x" * (MAX_QUERY_LENGTH + 1))


def test_only_text_is_parsed() -> None:
    with pytest.raises(InvalidValueError, match="must be of type str"):
        parse(None)  # type: ignore[arg-type]


@loop_over(
    ("text", "canonical"),
    [
        ("  is:pending   category:Timeout ", "is:open category:timeout"),
        ("is:exhausted,open,replaying", "is:live"),
        ("is:exhausted,unscheduled -is:replaying,scheduled", "is:needs-you -is:heals-itself"),
        ("is:scheduled is:open,scheduled", "is:scheduled is:open,scheduled"),
        ("attempts:>3 replays:<2 priority:1..1", "attempts:>=4 replays:<=1 priority:1"),
        ("since:120m until:3600s since:90s since:0h", "since:2h until:1h since:90s since:0s"),
        ("since:2026-11-01", "since:2026-11-01T00:00:00+00:00"),
        ('"word" "two words"', 'word "two words"'),
        ('assignee:me,"me"', 'assignee:me,"me"'),
    ],
)
def test_the_canonical_text(text: str, canonical: str) -> None:
    assert str(parse(text)) == canonical
    assert str(parse(canonical)) == canonical


def test_me_is_the_caller() -> None:
    query = parse('assignee:me,none -assignee:"me" step:x')

    assert query.asked_by("none").terms[0].values == ("none", Who.NOBODY)
    assert str(query.asked_by("ana")) == 'assignee:ana,none -assignee:"me" step:x'
    assert str(query) == 'assignee:me,none -assignee:"me" step:x'


PRINTABLE = st.text(
    st.characters(exclude_categories=("C", "Z"), include_characters=" "), min_size=1, max_size=12
)
WORDS = PRINTABLE.filter(str.isprintable)
NUMBERS = st.integers(-999_999_999, 999_999_999)
BETWEEN = st.one_of(
    st.builds(Between, NUMBERS, st.none()),
    st.builds(Between, st.none(), NUMBERS),
    st.tuples(NUMBERS, NUMBERS).map(lambda pair: Between(min(pair), max(pair))),
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "is": st.sampled_from(DeadLetterState),
    "category": st.sampled_from([each.value for each in Category]),
    "assignee": st.one_of(st.sampled_from(Who), WORDS),
    "fp": st.text("0123456789abcdef", min_size=6, max_size=39).map(lambda text: Beginning(f"v1:{text}")),
    "attempts": BETWEEN,
    "step": WORDS,
    "tag": WORDS,
}
TERMS = st.one_of(
    *(
        st.builds(
            Term, st.just(key), st.lists(each, min_size=1, max_size=4, unique=True).map(tuple), st.booleans()
        )
        for key, each in VALUES.items()
    ),
    st.builds(Term, st.just(TEXT), st.tuples(WORDS), st.booleans()),
    st.builds(
        Term,
        st.sampled_from(["since", "until"]),
        st.tuples(st.one_of(st.builds(Ago, st.integers(0, 999_999)), st.builds(Moment, st.floats(1e8, 9e9)))),
        st.just(False),
    ),
)


@given(st.lists(TERMS, max_size=6))
def test_the_canonical_text_parses_to_the_same(terms: list[Term]) -> None:
    query = _as_parsed(Query(tuple(terms)))

    assert _as_parsed(parse(str(query))) == query


def _as_parsed(query: Query) -> Query:
    """Return the query with sorted states and times in microseconds; parsing keeps the rest exactly."""
    return Query(tuple(term._replace(values=_plain(term)) for term in query.terms))


def _plain(term: Term) -> tuple[Value, ...]:
    if term.key == "is":
        return tuple(sorted(term.values, key=str))
    return tuple(Moment(round(value.at, 5)) if isinstance(value, Moment) else value for value in term.values)


@given(st.text(max_size=60))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        query = parse(text)
    except InvalidValueError:
        return
    assert parse(str(query)) == query


@loop_over("key", KEYS)
def test_every_key_can_be_mistyped(key: str) -> None:
    with pytest.raises(InvalidValueError, match=f"unknown key '{key}q' at position 1"):
        parse(f"{key}q:1")


@pytest.mark.parametrize(
    ("written", "own"),
    [
        ("state:OPEN", "is:open"),
        ("-state:resolved", "-is:resolved"),
        ("STATE:failed", "is:open"),
        ("fingerprint:v1:4f0c2dab", "fp:v1:4f0c2dab"),
    ],
)
def test_14_other_names_of_keys_are_accepted(written: str, own: str) -> None:
    assert parse(written) == parse(own)


@pytest.mark.parametrize("language", [DEAD_LETTERS, RUNS], ids=["dead letters", "runs"])
def test_a_wrong_state_lists_each_state_under_one_name_only(language: Language) -> None:
    """Half of the 25 listed words were synonyms of the other half."""
    with pytest.raises(InvalidValueError) as caught:
        parse("is:zzzzz", language)
    listed = str(caught.value).partition("use one of: ")[2].split(", ")
    meanings = {word: parse(f"is:{word}", language).terms[0] for word in listed}
    assert len({frozenset(term.values) for term in meanings.values()}) == len(listed) < 20
