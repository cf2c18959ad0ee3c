"""Edits of a payload: redaction marks keep the original value or are rejected, and single fields change."""

from __future__ import annotations

from typing import Any

import pytest

from redrive.errors import InvalidValueError
from redrive.policy.payload_edit import patched, reject_marks, restored
from redrive.policy.redact import DEFAULT_REDACTOR, Redactor

CARD = "4111111111111111"
OTHER_CARD = "5555555555554444"
ORDER: dict[str, Any] = {
    "country": "DE",
    "card": CARD,
    "password": "hunter2-hunter2",
    "note": f"paid with {CARD} yesterday",
    "number": int(CARD),
    "credentials": {"user": "ana", "password": "correct-horse"},
    "items": [{"sku": "A", "token": "tok-aaaaaaaa"}, {"sku": "B", "token": "tok-bbbbbbbb"}],
    "a.b": {"password": "dotted-dotted"},
    "environment": [{"name": "DB_PASSWORD", "value": "swordfish-1"}],
    "document": '{"password": "in-a-document"}',
}


def shown(value: Any, redactor: Redactor = DEFAULT_REDACTOR) -> Any:
    return redactor.value(value)


def kept(edited: Any, stored: Any = ORDER, redactor: Redactor = DEFAULT_REDACTOR) -> Any:
    return restored(edited, stored, redactor)


def test_the_examples_have_marks() -> None:
    view = shown(ORDER)
    for name in ("card", "password", "note", "number", "credentials", "document"):
        assert "[redacted:" in str(view[name]), name
    assert "[redacted:" in view["items"][1]["token"]
    assert "[redacted:" in view["a.b"]["password"]


@pytest.mark.parametrize("redactor", [DEFAULT_REDACTOR, Redactor(key=b"of an org")], ids=["plain", "keyed"])
def test_a_shown_payload_sent_back_is_the_original(redactor: Redactor) -> None:
    assert kept(shown(ORDER, redactor), redactor=redactor) == ORDER


def test_other_fields_change_while_marks_keep_the_original() -> None:
    edited = shown(ORDER)
    edited["country"] = "AT"
    edited["items"][1]["sku"] = "B2"
    del edited["document"]
    edited["new"] = {"a": [1]}
    changed = kept(edited)
    assert changed["card"] == CARD
    assert changed["items"] == [ORDER["items"][0], {"sku": "B2", "token": "tok-bbbbbbbb"}]
    assert (changed["country"], changed["new"], "document" in changed) == ("AT", {"a": [1]}, False)


def test_a_new_secret_replaces_the_old_one() -> None:
    assert kept({**shown(ORDER), "card": OTHER_CARD})["card"] == OTHER_CARD


@pytest.mark.parametrize(
    ("edited", "path"),
    [
        ({"pan": "[redacted:card]"}, "pan"),
        ({"country": "[redacted:card]"}, "country"),
        ({"card": "[redacted:password]"}, "card"),
        ({"card": "[redacted:card:12345678]"}, "card"),
        ({"card": "number [redacted:card]"}, "card"),
        ({"note": "paid with [redacted:card] today"}, "note"),
        ({"credentials": {"password": "[redacted:password]"}}, "credentials.password"),
        ({"password": {"old": "[redacted:password]"}}, "password.old"),
        ({"a.b": {"pin": "[redacted:pin]"}}, '["a.b"].pin'),
        ({"[redacted:card]": 1}, '["[redacted:card]"]'),
        ({"items": ["[redacted:token]"] * 2}, "items[0]"),
        ({"document": '{"password": "[redacted:password]", "more": 1}'}, "document"),
        ("[redacted:card]", "the payload itself"),
        (["[redacted:card]"], "[0]"),
    ],
    ids=str,
)
def test_a_mark_anywhere_else_is_refused_with_its_path(edited: Any, path: str) -> None:
    with pytest.raises(InvalidValueError) as refused:
        kept(edited)
    assert f"at {path}," in f"{refused.value},"
    assert "set_fields" in str(refused.value)


def test_a_payload_of_one_secret_keeps_it() -> None:
    assert kept("[redacted:card]", CARD) == CARD
    assert kept(["x", "[redacted:card]"], ["y", CARD]) == ["x", CARD]


def test_a_mark_that_was_stored_as_text_is_that_text() -> None:
    stored = {"line": "the card [redacted:card] was declined"}
    assert kept({**stored, "more": 1}, stored) == {**stored, "more": 1}


def test_a_secret_used_as_a_name_keeps_its_name() -> None:
    stored = {CARD: {"amount": 1}, OTHER_CARD: {"amount": 2}}
    edited = shown(stored)
    assert len(edited) == 2
    edited[list(edited)[1]]["amount"] = 3
    assert kept(edited, stored) == {CARD: {"amount": 1}, OTHER_CARD: {"amount": 3}}
    with pytest.raises(InvalidValueError, match="twice"):
        kept({CARD: 1, **shown({CARD: 1})}, {CARD: 1})


@pytest.mark.parametrize(
    "change",
    [
        lambda items: items[1:],
        lambda items: items[:1],
        lambda items: [*items, {"sku": "C"}],
        lambda items: [{"sku": "C", "token": "tok-cccccccc"}, *items],
        lambda items: items[::-1],
        lambda items: [items[1], {"sku": "C", "token": "tok-cccccccc"}],
    ],
    ids=["first removed", "last removed", "appended", "prepended", "reversed", "moved"],
)
def test_a_list_whose_items_moved_has_no_marks(change: Any) -> None:
    """A mark says only that a secret is there, not which: a position could get another's secret."""
    items = shown(ORDER["items"])
    with pytest.raises(InvalidValueError, match=r"items\[\d\]\.token"):
        kept({"items": change(items)})


def test_a_list_without_marks_may_change_freely() -> None:
    stored = {"tags": ["a", "b"], "password": "hunter2-hunter2"}
    edited = {**shown(stored), "tags": ["b", "c", "a"]}
    assert kept(edited, stored) == {"tags": ["b", "c", "a"], "password": "hunter2-hunter2"}


def test_a_new_payload_has_no_marks() -> None:
    value: Any
    for value in (None, 7, "redacted", {"a": ["[redacted]"]}):
        reject_marks(value)
    for value in (
        "[redacted:card]",
        {"a": ["x", {"b": "and [redacted:token:0123abcd]."}]},
        {"[redacted:pin]": 1},
    ):
        with pytest.raises(InvalidValueError, match=r"redaction mark"):
            reject_marks(value)


# Single fields


def changed(sets: dict[str, Any], removes: tuple[str, ...] = (), stored: Any = ORDER) -> Any:
    return patched(stored, sets, removes, DEFAULT_REDACTOR)


def test_single_fields_are_set_and_removed() -> None:
    result = changed(
        {
            "country": "AT",
            "items[1].sku": "B2",
            "items[0].size": {"cm": 3},
            "items[2]": {"sku": "C"},
            '["a.b"].password': "another-password",
            "credentials.user": "ben",
            "phone": None,
        },
        ("note", "environment[0].name"),
    )
    assert result["country"] == "AT"
    assert result["items"] == [
        {"sku": "A", "token": "tok-aaaaaaaa", "size": {"cm": 3}},
        {"sku": "B2", "token": "tok-bbbbbbbb"},
        {"sku": "C"},
    ]
    assert result["a.b"] == {"password": "another-password"}
    assert result["credentials"] == {"user": "ben", "password": "correct-horse"}
    assert (result["phone"], "note" in result, result["card"]) == (None, False, CARD)
    assert result["environment"] == [{"value": "swordfish-1"}]
    assert ORDER["country"] == "DE"
    assert len(ORDER["items"]) == 2


def test_items_are_removed_by_the_numbers_they_had() -> None:
    stored = {"items": list("abcde")}
    assert changed({"items[4]": "E"}, ("items[0]", "items[2]"), stored) == {"items": ["b", "d", "E"]}


def test_an_item_of_a_list_is_the_payload() -> None:
    assert changed({"[1]": "x"}, (), ["a", "b"]) == ["a", "x"]


def test_a_name_that_is_redacted_is_found_by_its_mark() -> None:
    stored = {CARD: {"amount": 1}}
    assert changed({'["[redacted:card]"].amount': 2}, (), stored) == {CARD: {"amount": 2}}


@pytest.mark.parametrize(
    ("sets", "removes", "message"),
    [
        ({"adress.country": "DE"}, (), "no field adress; its fields are country, card"),
        ({"items[0].price.net": 1}, (), r"items\[0\] has no field price; its fields are sku, token"),
        ({"country.code": 1}, (), "country is a string"),
        ({"items.sku": 1}, (), "items is a list"),
        ({"country[0]": 1}, (), "country is a string"),
        ({"credentials[0]": 1}, (), "credentials is an object"),
        ({"items[3]": 1}, (), r"items has 2 items"),
        ({"items[7].sku": 1}, (), r"items has 2 items"),
        ({}, ("phone",), "no field phone"),
        ({}, ("items[2]",), "items has 2 items"),
        ({"items[0]": 1, "items[0].sku": 2}, (), "overlap"),
        ({"country": 1}, ("country",), "overlap"),
        ({}, ("country", "country"), "overlap"),
        ({"pan": "[redacted:card]"}, (), "at pan"),
        ({"items[0]": {"token": "[redacted:card]"}}, (), r"at items\[0\]\.token"),
    ],
    ids=str,
)
def test_a_field_that_cannot_be_changed_is_named(sets: Any, removes: Any, message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        changed(sets, removes)


def test_names_that_are_secrets_are_not_listed() -> None:
    with pytest.raises(InvalidValueError) as refused:
        changed({"x.y": 1}, (), {CARD: 1})
    assert CARD not in str(refused.value)
    with pytest.raises(InvalidValueError) as refused:
        changed({"credentials.a.b": 1})
    assert "user" not in str(refused.value)


def test_a_mark_set_in_its_own_place_changes_nothing() -> None:
    assert changed({"card": "[redacted:card]", "items[0]": shown(ORDER["items"])[0]}) == ORDER
