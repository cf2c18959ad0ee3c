"""Decision 9: one gate before persistence. What passes comes back exactly; storing a failure never fails."""

from __future__ import annotations

import json
import math
import re
import sys
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.cases import loop_over

from redrive.errors import InvalidValueError, NotStorableError
from redrive.policy.codec import JsonLimits, canonical, decode, decode_stored, encode, storable

NUL_SPELLED_OUT = "\\u0000"
SMALL = JsonLimits(size=1_024, depth=4, items=20)


class Shade(Enum):
    DARK = "dark"


class Color(StrEnum):
    RED = "red"


class Number(IntEnum):
    ONE = 1


class Point(NamedTuple):
    x: int
    y: int


@dataclass
class Order:
    number: int


# Strategies: every text that Python can hold, with frequent troublesome ones

TROUBLESOME = (
    "\0",
    "\ud800",
    "\udfff",
    "\ud83d\ude00",
    "␛",
    "␛0000",
    "␛int5",
    NUL_SPELLED_OUT,
    "\\" + NUL_SPELLED_OUT,
    "\\u\0",
)
troublesome = st.sampled_from([*TROUBLESOME, "\\", "u0000", "😀", '"'])
texts = st.lists(st.one_of(troublesome, st.text(st.characters(exclude_categories=())))).map("".join)
integers = st.one_of(st.integers(), st.integers(-(2**2048) + 1, 2**2048 - 1))
floats = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.one_of(st.none(), st.booleans(), integers, floats, texts)
values = st.recursive(
    scalars, lambda inner: st.one_of(st.lists(inner), st.dictionaries(texts, inner)), max_leaves=10
)


unhurried = settings(deadline=None)
few = settings(max_examples=50, deadline=None)


def same(left: object, right: object) -> bool:
    """Tell whether both are equal and of the same types all the way down; `-0.0` differs from `0.0`."""
    if type(left) is not type(right):
        return False
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, float):
        return repr(left) == repr(right)
    return left == right


def refusal(value: object, limits: JsonLimits = SMALL) -> str:
    with pytest.raises(NotStorableError) as caught:
        encode(value, limits=limits)
    return str(caught.value)


class TestRoundTrip:
    @few
    @given(values)
    def test_every_json_value_comes_back_equal_and_of_the_same_type(self, value: object) -> None:
        assert same(decode(encode(value)), value)

    @few
    @given(values)
    def test_the_stored_text_is_strict_json_that_databases_can_hold(self, value: object) -> None:
        text = encode(value)
        assert "\0" not in text
        assert NUL_SPELLED_OUT not in text
        assert text.encode("utf-8").decode("utf-8") == text
        json.loads(text, parse_constant=pytest.fail)

    @loop_over("text", TROUBLESOME)
    def test_each_troublesome_text_is_escaped_as_value_and_as_key(self, text: str) -> None:
        for value in (text, [f"é{text}"], {text: 1}, {f"a{text}b": [text, {text: text}]}):
            stored = encode(value)
            assert NUL_SPELLED_OUT not in stored
            assert stored.encode("utf-8").decode("utf-8") == stored
            assert same(decode(stored), value)

    @unhurried
    @given(texts, texts)
    @example("\0", "␛0000")
    @example("\ud83d\ude00", "😀")
    @example("␛", "␛241b")
    @example(NUL_SPELLED_OUT, "␛005cu0000")
    def test_two_different_texts_never_share_a_stored_form(self, left: str, right: str) -> None:
        assert (encode(left) == encode(right)) == (left == right)

    @unhurried
    @given(integers, texts)
    def test_a_large_integer_never_looks_like_a_text(self, number: int, text: str) -> None:
        assert encode(number) != encode(text)
        assert encode(number) != encode(f"␛int{number}")

    @pytest.mark.parametrize("number", [2**63 - 1, -(2**63), 0, -1])
    def test_integers_of_64_bits_are_plain_numbers(self, number: int) -> None:
        assert encode(number) == str(number)

    @pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**2048 - 1, -(2**2048) + 1])
    def test_integers_beyond_64_bits_are_kept_as_text(self, number: int) -> None:
        assert encode([number]) == f'["␛int{number}"]'
        assert same(decode(encode([number])), [number])

    def test_large_integers_come_back_under_the_strictest_interpreter_setting(self) -> None:
        before = sys.get_int_max_str_digits()
        sys.set_int_max_str_digits(640)
        try:
            assert decode(encode(2**2048 - 1)) == 2**2048 - 1
        finally:
            sys.set_int_max_str_digits(before)

    @pytest.mark.parametrize("number", [-0.0, 5e-324, sys.float_info.max, 0.1, 1e16])
    def test_floats_come_back_to_the_last_bit(self, number: float) -> None:
        assert same(decode(encode(number)), number)

    def test_a_tuple_is_the_one_value_that_comes_back_as_another_type(self) -> None:
        assert decode(encode({"a": (1, (2, 3)), "b": ()})) == {"a": [1, [2, 3]], "b": []}

    def test_a_tuple_is_also_a_list_next_to_values_that_need_escaping(self) -> None:
        assert decode(encode((1, ("\0",)))) == [1, ["\0"]]

    def test_text_beyond_ascii_stays_readable(self) -> None:
        assert encode({"Tür": "😀 ok"}) == '{"Tür":"😀 ok"}'

    @unhurried
    @given(st.dictionaries(texts, scalars))
    def test_canonical_text_does_not_depend_on_the_order_of_keys(self, value: dict[str, object]) -> None:
        backwards = dict(reversed(list(value.items())))
        assert canonical(value) == canonical(backwards)
        assert decode(canonical(value)) == value


class TestRefusals:
    """Each error says where the problem is, what it is, and what to do."""

    @loop_over(
        ("value", "type_name", "advice"),
        [
            (datetime(2026, 1, 1, tzinfo=UTC), "datetime", "value.isoformat()"),
            (date(2026, 1, 1), "date", "value.isoformat()"),
            (timedelta(1), "timedelta", "value.total_seconds()"),
            (Decimal("1.10"), "Decimal", "str(value)"),
            (UUID(int=1), "UUID", "str(value)"),
            ({1}, "set", "sorted(value)"),
            (frozenset(), "frozenset", "sorted(value)"),
            (b"x", "bytes", "base64"),
            (bytearray(b"x"), "bytearray", "base64"),
            (Shade.DARK, "Shade", "value.value"),
            (Color.RED, "Color", "str(value)"),
            (Number.ONE, "Number", "int(value)"),
            (Point(1, 2), "Point", "value._asdict()"),
            (OrderedDict(a=1), "OrderedDict", "dict(value)"),
            (defaultdict(int), "defaultdict", "dict(value)"),
            (Order(1), "Order", "fields"),
            (ValueError("no"), "ValueError", "str(value)"),
            (iter(()), "tuple_iterator", "list"),
            (object, "type", "dict"),
            (1j, "complex", "dict"),
        ],
    )
    def test_types_that_json_would_change_are_refused(
        self, value: object, type_name: str, advice: str
    ) -> None:
        message = refusal({"items": [0, {"price": value}]})
        assert message.startswith("$.items[1].price ")
        assert type_name in message
        assert advice in message

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
    def test_nan_and_infinities_are_refused(self, value: float) -> None:
        message = refusal({"items": [{"price": value}]})
        assert message.startswith("$.items[0].price ")
        assert str(value) in message
        assert "None" in message

    @pytest.mark.parametrize("key", [1, 1.5, None, True, b"a", (1,), Color.RED])
    def test_keys_that_are_not_text_are_refused(self, key: object) -> None:
        message = refusal({"a": {key: 1}})
        assert message.startswith("$.a ")
        assert type(key).__name__ in message
        assert "str(key)" in message

    def test_the_keys_1_and_text_1_do_not_collide_silently(self) -> None:
        assert "int" in refusal({"1": "text", 1: "number"})

    def test_integers_beyond_2048_bits_are_refused_without_being_written_out(self) -> None:
        assert "2,049 bits" in refusal(2**2048)
        assert "hex" in refusal([1 << 10_000_000])

    @pytest.mark.parametrize("leaf", [1, "\0"], ids=["quick", "careful"])
    def test_nesting_is_allowed_up_to_the_limit_and_refused_beyond(self, leaf: object) -> None:
        nested = leaf
        for _ in range(SMALL.depth):
            nested = [nested]
        assert decode(encode(nested, limits=SMALL)) == nested
        assert "$[0][0][0][0][0] is nested deeper than 4 levels" in refusal([nested])

    def test_cycles_are_refused(self) -> None:
        cycle: list[object] = []
        cycle.append({"again": cycle})
        assert "cycle" in refusal(cycle)

    @pytest.mark.parametrize("leaf", [1, "\0"], ids=["quick", "careful"])
    def test_items_are_counted_over_the_whole_value(self, leaf: object) -> None:
        fitting = {"a": [leaf] * 9, "b": [leaf] * 9}
        assert decode(encode(fitting, limits=SMALL)) == fitting
        assert refusal({**fitting, "c": []}).startswith("$.")
        assert "20 items" in refusal([leaf] * 21)

    def test_shared_references_cannot_multiply_beyond_the_limits(self) -> None:
        wide: object = [0] * 1_000
        for _ in range(20):
            wide = [wide] * 1_000
        assert "items" in refusal(wide, JsonLimits())
        assert "bytes" in refusal(["x" * 1_000_000] * 100_000, JsonLimits())

    @pytest.mark.parametrize("character", ["x", "é", "😀", "\0", '"'])
    def test_size_is_counted_in_bytes_of_the_stored_text(self, character: str) -> None:
        length = (SMALL.size - 2) // len(encode(character)[1:-1].encode())
        assert decode(encode(character * length, limits=SMALL)) == character * length
        assert "1,024" in refusal(character * (length + 1))

    def test_one_mebibyte_is_the_default_size(self) -> None:
        assert len(encode("x" * 1_048_574)) == 1_048_576
        assert "1,048,577 bytes" in refusal("x" * 1_048_575, JsonLimits())

    def test_paths_of_odd_keys_are_readable_and_bounded(self) -> None:
        assert refusal({"a b": {"\0": {1}}}).startswith("$['a b']['\\x00'] ")
        assert len(refusal({"k" * 900: {1}})) < 500

    @pytest.mark.parametrize("change", [{"size": 0}, {"depth": 0}, {"depth": 101}, {"items": 0}])
    def test_limits_have_bounds(self, change: dict[str, int]) -> None:
        with pytest.raises(InvalidValueError, match="allowed is"):
            JsonLimits(**change)


REFUSED_TEXTS = [
    ("", "not JSON"),
    ("{", "not JSON"),
    ("[1] x", "not JSON"),
    ("{'a': 1}", "not JSON"),
    ('"\0"', "not JSON"),
    ("NaN", "NaN"),
    ("[-Infinity]", "-Infinity"),
    ("1e999", "too large"),
    ("[-1" + "0" * 400 + ".0]", "too large"),
    ('{"a": 1, "b": 2, "a": 3}', "'a'"),
    ('{"x": {"\\u0000": 1, "␛0000": 2}}', "twice"),
    ("[" * 100_000, "deep"),
    ('{"a":' * 100_000, "deep"),
    ('{"␛0000":[' * 600 + "]}" * 600, "deep"),
    ("9" * 4_001, "4,001 digits"),
    ("[-" + "9" * 10_000_000 + "]", "digits"),
    ("1." + "9" * 10_000_000 + "e400", "too large"),
]


LENIENT = ('{"a": 1, "b": 2, "a": 3}', "9" * 4_001)
"""Texts that `decode` rejects and `decode_stored` reads."""


class TestHostileText:
    """`decode` raises only NotStorableError, and takes time in proportion to the text."""

    @unhurried
    @given(st.one_of(st.text(), st.text('[]{}",:␛\\u0241b5eE+-.NaInfity \n'), st.binary().map(repr)))
    def test_any_text_is_read_or_refused(self, text: str) -> None:
        try:
            value = decode(text)
        except NotStorableError:
            return
        assert same(decode(encode(value)), value)

    @loop_over(("text", "problem"), REFUSED_TEXTS)
    def test_rejected_values(self, text: str, problem: str) -> None:
        with pytest.raises(NotStorableError, match=problem) as caught:
            decode(text)
        assert len(str(caught.value)) < 300

    @pytest.mark.parametrize("text", [None, 5, b"{}", ["{}"]])
    def test_input_that_is_not_text_is_rejected(self, text: Any) -> None:
        with pytest.raises(NotStorableError):
            decode(text)

    def test_a_number_of_ten_megabytes_does_not_hang_when_the_interpreter_sets_no_limit(self) -> None:
        before = sys.get_int_max_str_digits()
        sys.set_int_max_str_digits(0)
        try:
            with pytest.raises(NotStorableError, match="digits"):
                decode('{"a": ' + "7" * 10_000_000 + "}")
        finally:
            sys.set_int_max_str_digits(before)

    def test_json_of_other_writers_is_read(self) -> None:
        assert decode(' {"a" : [1, 2.5e3, "\\ud83d\\ude00", "\\u00e9"]} ') == {"a": [1, 2500.0, "😀", "é"]}
        assert decode(json.dumps({"a": "\0 ␛"})) == {"a": "\0 ␛"}

    @few
    @given(values)
    def test_text_rewritten_in_ascii_on_the_way_reads_the_same(self, value: object) -> None:
        assert same(decode(json.dumps(json.loads(encode(value)), indent=1)), value)

    @pytest.mark.parametrize("text", ["␛", "␛zzzz", "␛0041", "␛int", "␛int5", "␛int-x", "␛int0" + "1" * 30])
    def test_text_that_only_resembles_an_escape_is_left_alone(self, text: str) -> None:
        assert decode(f'"{text}"') == text
        assert decode(encode(text)) == text


class TestStoredText:
    """`decode_stored` returns what `decode` returns and is as safe; it only ignores repeated keys."""

    @few
    @given(values)
    def test_every_json_value_comes_back_equal_and_of_the_same_type(self, value: object) -> None:
        assert same(decode_stored(encode(value)), value)
        assert same(decode_stored(canonical(value)), value)
        assert same(decode_stored(json.dumps(json.loads(encode(value)), indent=1)), value)

    @unhurried
    @given(st.one_of(st.text(), st.text('[]{}",:␛\\u0241b5eE+-.NaInfity \n'), st.binary().map(repr)))
    def test_any_text_is_read_or_refused_like_by_decode(self, text: str) -> None:
        try:
            value = decode(text)
        except NotStorableError as refusal:
            if "twice" not in str(refusal):
                with pytest.raises(NotStorableError, match=re.escape(str(refusal))):
                    decode_stored(text)
        else:
            assert same(decode_stored(text), value)

    @loop_over(("text", "problem"), [case for case in REFUSED_TEXTS if case[0] not in LENIENT])
    def test_rejected_values(self, text: str, problem: str) -> None:
        with pytest.raises(NotStorableError, match=problem):
            decode_stored(text)

    @pytest.mark.parametrize("text", [None, 5, b"{}", ["{}"]])
    def test_input_that_is_not_text_is_rejected(self, text: Any) -> None:
        with pytest.raises(NotStorableError):
            decode_stored(text)

    def test_of_a_repeated_key_the_last_value_counts(self) -> None:
        assert decode_stored('{"a": 1, "b": 2, "a": 3}') == {"a": 3, "b": 2}

    def test_a_number_of_ten_megabytes_does_not_hang_when_the_interpreter_sets_no_limit(self) -> None:
        before = sys.get_int_max_str_digits()
        sys.set_int_max_str_digits(0)
        try:
            with pytest.raises(NotStorableError, match="digits"):
                decode_stored('{"a": ' + "7" * 10_000_000 + "}")
        finally:
            sys.set_int_max_str_digits(before)


# Failures


class Refuses:
    """An object that raises on every access."""

    def __init__(self, error: BaseException) -> None:
        object.__setattr__(self, "error", error)

    def _refuse(self, *args: object) -> Any:
        raise object.__getattribute__(self, "error")

    __str__ = __repr__ = __iter__ = __len__ = __hash__ = __eq__ = __bool__ = __format__ = _refuse
    __getattribute__ = __getitem__ = __int__ = __float__ = __index__ = __call__ = _refuse

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise object.__getattribute__(self, "error")


class HostileMeta(type):
    def __getattribute__(cls, name: str) -> Any:
        raise SystemExit(name)

    def __instancecheck__(cls, instance: object) -> bool:
        raise SystemExit

    def __subclasscheck__(cls, subclass: type) -> bool:
        raise SystemExit


def hostile_class() -> type:
    """Make the class when needed: pytest would fail on one at the top level of the module."""
    return HostileMeta("Hostile", (), {})


class HostileList(list[Any]):
    def __iter__(self) -> Iterator[Any]:
        raise KeyboardInterrupt

    __len__ = __getitem__ = copy = __iter__  # type: ignore[assignment]


class HostileDict(dict[Any, Any]):
    def items(self) -> Any:
        raise KeyboardInterrupt

    __iter__ = keys = __len__ = __getitem__ = items  # type: ignore[assignment]


class HostileText(str):
    def __str__(self) -> str:
        raise KeyboardInterrupt

    __len__ = __getitem__ = __format__ = encode = isascii = __eq__ = __str__  # type: ignore[assignment]
    __hash__ = str.__hash__


class HostileNumber(int):
    def __pos__(self) -> int:
        raise KeyboardInterrupt

    __int__ = __index__ = bit_length = __str__ = __repr__ = __pos__  # type: ignore[assignment]


class HostileError(Exception):
    def __str__(self) -> str:
        raise GeneratorExit


class Answers:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def __str__(self) -> str:
        return self.answer  # type: ignore[no-any-return]


class Clears:
    """Empties its own list while the list is being written."""

    def __init__(self, owner: list[Any]) -> None:
        self.owner = owner

    def __str__(self) -> str:
        self.owner.clear()
        return "cleared"


def recursing() -> object:
    class Recursing:
        def __str__(self) -> str:
            return str(self)

    return Recursing()


def cyclic() -> object:
    cycle: dict[str, Any] = {"name": "loop"}
    cycle["list"] = [cycle, (cycle,), {1}]
    return cycle


def nested(levels: int) -> object:
    value: object = object
    for level in range(levels):
        value = [value] if level % 2 else {"inner": value}
    return value


def clearing() -> object:
    owner: list[Any] = [1]
    owner += [Clears(owner), 2, {3}]
    return owner


HOSTILE: dict[str, Callable[[], object]] = {
    "raises Exception": lambda: Refuses(ValueError("no")),
    "raises KeyboardInterrupt": lambda: Refuses(KeyboardInterrupt()),
    "raises SystemExit": lambda: Refuses(SystemExit()),
    "raises itself a hostile error": lambda: Refuses(HostileError()),
    "raises MemoryError": lambda: Refuses(MemoryError()),
    "of a hostile class": lambda: type.__call__(hostile_class()),
    "hostile class": hostile_class,
    "hostile list": lambda: HostileList([1, "a", object]),
    "hostile dict": lambda: HostileDict({"a": 1, 2: {3}}),
    "hostile text": lambda: [HostileText("kept\0"), {HostileText("key"): 1}],
    "hostile number": lambda: [HostileNumber(5), HostileNumber(2**3000)],
    "hostile error": lambda: HostileError("x"),
    "text is a number": lambda: Answers(5),
    "text is hostile": lambda: Answers(HostileText("kept")),
    "text is 50 MB": lambda: Answers("x" * 50_000_000),
    "recursing": recursing,
    "cyclic": cyclic,
    "nested 100,000 deep": lambda: nested(100_000),
    "clears its owner": clearing,
    "50 MB text": lambda: "head" + "x" * 50_000_000 + "tail",
    "5 MB of NUL": lambda: "\0" * 5_000_000,
    "5 MB of lone surrogates": lambda: {"\ud800" * 5_000_000: "\udfff"},
    "5 MB bytes": lambda: b"\xff" * 5_000_000,
    "many items": lambda: list(range(150_000)),
    "many entries": lambda: {number: number for number in range(150_000)},
    "a large set": lambda: set(range(120_000)),
    "keys of one name": lambda: {Answers("same"): number for number in range(20_000)},
    "shared and wide": lambda: [[["x" * 1_000] * 1_000] * 1_000] * 1_000,
    "not a number": lambda: {"a": [math.nan, -math.inf], math.nan: 1},
    "huge integer": lambda: 1 << 10_000_000,
    "generator": lambda: (number for number in range(3)),
    "endless iterator": lambda: iter(int, 1),
    "exception": lambda: ValueError("no", {"secret": object}),
    "exception group": lambda: ExceptionGroup("all", [ValueError("no"), TypeError("type")]),
    "memory": lambda: memoryview(b"abc"),
    "frozen set of sets": lambda: frozenset({frozenset({1}), frozenset({"a"})}),
}


@dataclass(frozen=True)
class StandIn:
    """A placeholder for a hostile value while Hypothesis inspects it."""

    name: str


def with_hostile(value: object) -> object:
    if isinstance(value, StandIn):
        return HOSTILE[value.name]()
    if isinstance(value, list | tuple):
        return type(value)([with_hostile(item) for item in value])
    if isinstance(value, dict):
        return {key: with_hostile(item) for key, item in value.items()}
    return value


class TestStorable:
    """W8 and decision 9: a dead letter can always be written, whatever the failure carries."""

    @loop_over("limits", [JsonLimits(), SMALL])
    @loop_over("make", HOSTILE.values())
    def test_hostile_values_become_something_that_encode_accepts(
        self, make: Callable[[], object], limits: JsonLimits
    ) -> None:
        kept = storable({"payload": [make()]}, limits=limits)
        assert same(decode(encode(kept, limits=limits)), kept)
        assert kept != "<not storable>"

    @few
    @given(values)
    def test_a_value_that_encode_accepts_is_kept_unchanged(self, value: object) -> None:
        assert same(storable(value), value)

    anything = st.recursive(
        st.one_of(
            scalars,
            st.floats(),
            st.binary(),
            st.datetimes(),
            st.decimals(),
            st.uuids(),
            st.complex_numbers(),
            st.sampled_from(list(HOSTILE)[:14]).map(StandIn),
        ),
        lambda inner: st.one_of(
            st.lists(inner),
            st.lists(inner).map(tuple),
            st.dictionaries(st.one_of(scalars, st.binary(), st.dates()), inner),
            st.sets(st.one_of(scalars, st.binary())),
            inner.map(lambda value: [[[[[value]]]]]),
        ),
        max_leaves=30,
    )

    @unhurried
    @given(anything.map(lambda value: lambda: with_hostile(value)))
    def test_anything_becomes_something_that_encode_accepts(self, make: Callable[[], object]) -> None:
        value = make()
        kept = storable(value, limits=SMALL)
        assert same(decode(encode(kept, limits=SMALL)), kept)
        assert encode(storable(value, limits=SMALL)) == encode(kept), "not deterministic"

    def test_a_long_text_keeps_its_head_and_tail_and_the_number_of_missing_characters(self) -> None:
        kept = storable("head" + "x" * 50_000_000 + "tail")
        assert isinstance(kept, str)
        assert kept.startswith("headxxx")
        assert kept.endswith("xxxtail")
        missing = int(kept.split("… ")[1].split(" characters")[0].replace(",", ""))
        assert missing == 50_000_008 - (len(kept) - len(f"… {missing:,} characters left out …"))
        assert len(kept) > 500_000, "cut far more than needed"

    def test_a_long_text_does_not_shorten_its_neighbors(self) -> None:
        kept: Any = storable(
            {"message": "x" * 50_000_000, "stack": "frame\n" * 1_000, "list": list(range(500))}
        )
        assert kept["stack"] == "frame\n" * 1_000
        assert kept["list"] == list(range(500))

    def test_a_long_list_keeps_its_head_and_tail(self) -> None:
        kept: Any = storable(list(range(1_000_000)))
        missing = 1_000_000 - (len(kept) - 1)
        assert kept[0] == 0
        assert kept[-1] == 999_999
        assert [item for item in kept if isinstance(item, str)] == [f"… {missing:,} items left out …"]

    def test_a_long_dict_has_the_number_of_missing_entries(self) -> None:
        kept: Any = storable({str(number): number for number in range(150_000)})
        assert kept["…"] == f"{150_000 - (len(kept) - 1):,} entries left out"

    def test_common_values_are_kept_readable(self) -> None:
        value = {
            "at": datetime(2026, 1, 2, tzinfo=UTC),
            "price": Decimal("1.10"),
            "tags": {"b", "a"},
            "read": "müde".encode(),
            "raw": b"ok \xff",
            "rate": math.nan,
            "color": Color.RED,
            "number": Number.ONE,
            "mixed": {2, "b", "a", None, 10},
            "error": ValueError("no such user"),
            "point": Point(1, 2),
        }
        assert storable(value) == {
            "at": "2026-01-02 00:00:00+00:00",
            "price": "1.10",
            "tags": ["a", "b"],
            "read": "müde",
            "raw": "b'ok \\xff'",
            "rate": "nan",
            "color": "red",
            "number": 1,
            "mixed": [None, 10, 2, "a", "b"],
            "error": "ValueError: no such user",
            "point": [1, 2],
        }

    def test_keys_that_would_meet_are_numbered(self) -> None:
        kept = storable({1: "a", "1": "b", Answers("1"): "c", "1 (2)": "d"})
        assert kept == {"1": "a", "1 (2)": "b", "1 (3)": "c", "1 (2) (2)": "d"}

    def test_cycles_and_depth_are_marked_where_they_begin(self) -> None:
        cycle: dict[str, Any] = {"a": {1}}
        cycle["self"] = cycle
        assert storable(cycle) == {"a": [1], "self": "<dict: contains itself>"}
        assert storable([[[[["x"]]]], {1}], limits=SMALL) == [[[["<list: nested too deep>"]]], [1]]

    def test_a_shared_value_without_a_cycle_is_kept_each_time(self) -> None:
        shared = {1: "x"}
        assert storable([shared, shared]) == [{"1": "x"}, {"1": "x"}]

    def test_the_original_is_not_changed_and_not_shared(self) -> None:
        original: dict[str, Any] = {"a": [1]}
        kept: Any = storable(original)
        kept["a"].append(2)
        assert original == {"a": [1]}

    def test_a_text_that_raises_names_the_type_and_the_error(self) -> None:
        assert storable(HostileError()) == "<HostileError: its text raised GeneratorExit>"

    def test_an_interrupt_from_outside_is_not_swallowed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupted(*args: object, **options: object) -> str:
            raise KeyboardInterrupt

        monkeypatch.setattr("redrive.policy.codec.salvaging.encode", interrupted)
        with pytest.raises(KeyboardInterrupt):
            storable("x")

    @pytest.mark.parametrize("error", [MemoryError, RecursionError])
    def test_a_machine_at_its_limits_still_stores_something(
        self, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
    ) -> None:
        def exhausted(*args: object, **options: object) -> str:
            raise error

        monkeypatch.setattr("redrive.policy.codec.salvaging.encode", exhausted)
        assert storable("x") == "<not storable>"


def seconds(action: Callable[[], object]) -> float:
    def once() -> float:
        start = time.thread_time()
        action()
        return time.thread_time() - start

    return min(once() for _ in range(3))


@pytest.mark.parametrize(
    "make",
    [
        lambda size: {str(number): "\0" for number in range(size)},
        lambda size: {Answers("same"): number for number in range(size)},
        lambda size: [{number} for number in range(size)],
        lambda size: "\ud800" * size * 20,
    ],
    ids=["escaped", "keys of one name", "sets", "surrogates"],
)
def test_the_work_grows_in_proportion_to_the_value(make: Callable[[int], object]) -> None:
    """Tenfold input may take up to forty times as long, much less than the hundredfold of quadratic work."""
    small, large = make(2_000), make(20_000)
    assert seconds(lambda: storable(large)) < 40 * seconds(lambda: storable(small)) + 0.05
