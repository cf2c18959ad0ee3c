"""JSON on pages: balanced, limited, with redacted secrets marked; and previews of long texts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import loop_over

from redrive.server.admin.environment import environment
from redrive.server.admin.tree import (
    MAX_DEPTH,
    MAX_ENTRIES,
    MAX_LENGTH,
    MAX_ROWS,
    MAX_STRING_LENGTH,
    Tree,
    TreePart,
    TreeRow,
    beginning,
    tree_of,
)

VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=8), inner, max_size=6),
    max_leaves=40,
)

LARGE: dict[str, Any] = {
    "items": {"items": [{"sku": f"A{n}", "tags": ["a", "b"], "n": n} for n in range(20_000)]},
    "numbers": list(range(150_000)),
    "lists": [[n] for n in range(90_000)],
    "objects": {f"k{n}": {"a": 1} for n in range(45_000)},
    "text": {"body": "x" * 1_000_000},
    "key": {"k" * 1_000_000: 1},
    "escapes": ['"\\\n\u2028' * 20_000] * 6,
}


def shown(tree: Tree) -> list[tuple[str, str, str]]:
    return [(row.kind, row.key, row.text) for row in tree.rows]


def test_keys_and_values_in_order() -> None:
    value: Any = {
        "order": 7,
        "paid": False,
        "coupon": None,
        "price": 1.5,
        "tags": ["a"],
        "more": {},
        "none": [],
    }
    assert shown(tree_of(value)) == [
        ("open", "", "order, paid, coupon, price, tags, more"),
        ("number", "order", "7"),
        ("word", "paid", "false"),
        ("word", "coupon", "null"),
        ("number", "price", "1.5"),
        ("open", "tags", ""),
        ("string", "0", "a"),
        ("close", "", ""),
        ("empty", "more", "{}"),
        ("empty", "none", "[]"),
        ("close", "", ""),
    ]
    assert tree_of(value).whole
    assert json.loads(tree_of(value).copy) == value


def test_a_value_alone_and_none_at_all() -> None:
    assert shown(tree_of(7)) == [("number", "", "7")]
    assert shown(tree_of(None)) == [("word", "", "null")]


def test_redacted_values_are_marked() -> None:
    tree = tree_of(
        {
            "password": "[redacted:password]",
            "text": "key [redacted:api_key:3f9a1c52] of [REDACTED]",
            "payload": {"$sealed": "with the key 'a', which is not configured here"},
            "lost": {"$unreadable": "it was damaged"},
            "brackets": "[0] is not one",
        }
    )
    rows = {row.key: row for row in tree.rows}
    assert rows["password"].parts == (TreePart("[redacted:password]", "password"),)
    assert [part.redacted for part in rows["text"].parts] == ["", "api key", "", "secret"]
    assert (rows["payload"].kind, rows["lost"].kind) == ("sealed", "unreadable")
    assert rows["brackets"].parts == (TreePart("[0] is not one"),)
    assert tree.redacted == 2


def test_long_strings_are_folded() -> None:
    [row] = tree_of("first line\nsecond").rows
    assert (row.text, row.more, row.size) == ("first line", (TreePart("first line\nsecond"),), 17)
    [row] = tree_of("x" * 9_000).rows
    assert len(row.more[0].text) == MAX_STRING_LENGTH
    assert not tree_of("x" * 9_000).whole


def test_one_long_list_does_not_use_up_all() -> None:
    tree = tree_of({"items": [{"n": n, "m": n} for n in range(500)], "last": {"seen": True}})
    assert ("word", "seen", "true") in shown(tree)
    [rest] = [row.size for row in tree.rows if row.kind == "rest"]
    items = sum(row.kind == "open" for row in tree.rows) - 3
    assert rest == 500 - items
    assert 20 < items < MAX_ENTRIES
    assert not tree.whole


def test_values_that_are_too_deep_are_marked() -> None:
    value: Any = "bottom"
    for _ in range(40):
        value = [value]
    tree = tree_of(value)
    assert sum(row.kind == "open" for row in tree.rows) == MAX_DEPTH
    assert [row.kind for row in tree.rows].count("deep") == 1


@given(VALUES)
def test_rows_are_balanced_bounded_and_can_be_drawn(value: Any) -> None:
    tree = tree_of(value)
    level = 0
    for row in tree.rows:
        level += (row.kind == "open") - (row.kind == "close")
        assert level >= 0
    assert level == 0
    assert len(tree.rows) <= 2 * MAX_ROWS
    page = drawn(tree)
    assert page.count("<details") == page.count("</details>")
    assert page.count("<dl") == page.count("</dl>")
    assert page.count("<dd") == page.count("</dd>") == page.count("<dt")


@pytest.mark.parametrize("name", LARGE)
def test_a_large_payload_is_shown_in_part(name: str) -> None:
    text = json.dumps(LARGE[name], ensure_ascii=False)
    assert len(text) > 700_000
    tree = tree_of(LARGE[name])
    assert (tree.size, tree.cut, tree.copy) == (len(text), MAX_LENGTH, "")
    assert 0 < len(tree.rows) <= 2 * MAX_ROWS
    page = drawn(tree, "/all")
    assert len(page) < 150_000
    assert f"Showing the first {MAX_LENGTH:,} of {len(text):,} characters" in page
    assert 'href="/all"' in page


def test_stored_values_are_never_markup() -> None:
    bad = "<img src=x onerror=alert(1)>'\"&"
    page = drawn(tree_of({bad: bad, "long": bad * 20, "sealed": {"$sealed": bad}, "in": {bad: [bad]}}))
    assert "<img" not in page
    assert "&lt;img" in page


# Previews


def test_a_short_text_is_its_own_beginning() -> None:
    assert beginning('{"a": 1}') == '{"a": 1}'


@loop_over(
    ("text", "longest", "expected"),
    [
        ('{"a": 1, "b": 2}', 10, '{"a": 1}'),
        ('{"a": 1, "b": 2}', 8, '{"a": 1}'),
        ('{"a": 1, "b": 2}', 7, "{}"),
        ('{"a": "xyz"}', 9, '{"a": "xy"}'),
        ('{"abc": "xyz"}', 4, "{}"),
        ('["abc", "xyz"]', 4, '["ab"]'),
        ('"abcdef"', 4, '"abc"'),
        ('"ab\\\\\\""', 6, '"ab\\\\"'),
        ('"ab\\u00e9"', 7, '"ab"'),
        ('[[1, [2, {"a": [3', 16, '[[1, [2, {"a": []}]]]'),
        ('["[{,:", 1]', 8, '["[{,:"]'),
    ],
)
def test_it_is_cut_where_it_can_be_cut(text: str, longest: int, expected: str) -> None:
    assert beginning(text, longest) == expected


@given(VALUES.filter(lambda value: isinstance(value, dict | list | str)), st.integers(1, 400), st.booleans())
def test_every_beginning_is_json(value: Any, longest: int, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    told = json.loads(beginning(text, longest))
    assert type(told) is type(value)


@given(st.text(alphabet='{}[]",:\\u1a ', max_size=60), st.integers(1, 60))
def test_text_that_is_not_json_does_no_harm(text: str, longest: int) -> None:
    assert len(beginning(text, longest)) <= 2 * longest + 2 or len(text) <= longest


def drawn(tree: Tree, whole: str = "") -> str:
    template = environment().from_string(
        '{% from "parts/json.html" import json with context %}{{ json(tree, whole) }}'
    )
    return template.render(tree=tree, whole=whole)


def test_rows_have_defaults() -> None:
    assert TreeRow("close") == ("close", "", (), (), 0, "", False)
