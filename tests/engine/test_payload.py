from __future__ import annotations

import datetime as dt
import enum
import uuid
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, TypedDict, TypeVar
from zoneinfo import ZoneInfo

import attrs
import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given, settings
from pydantic import BaseModel, ConfigDict, Field, RootModel, computed_field, field_validator
from tests.cases import loop_over

from redrive.engine.payload import from_json, plain_types, reader, to_json
from redrive.errors import InvalidValueError, NotStorableError, PayloadError
from redrive.model.failure import Category, ErrorClass
from redrive.policy.classify import classify
from redrive.policy.codec import DEFAULT_LIMITS, JsonLimits, JsonValue, decode, encode

NOON = dt.datetime(2024, 2, 29, 12, 0, 0, 123456, tzinfo=dt.UTC)
SOME_ID = uuid.UUID(int=7)
T = TypeVar("T")


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class Odd(enum.Enum):
    PAIR = (1, 2)


class Model(BaseModel):
    cents: int
    when: dt.datetime = NOON
    colors: set[Color] = set()


class Outer(BaseModel):
    models: list[Model] = []
    by_number: dict[int, Model] = {}


class Aliased(BaseModel):
    order_id: int = Field(alias="orderId")

    @computed_field  # type: ignore[prop-decorator]
    @property
    def doubled(self) -> int:
        return 2 * self.order_id


class StrictModel(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    when: dt.datetime
    ids: set[int]


class Names(RootModel[list[str]]):
    pass


class Box(BaseModel, Generic[T]):
    content: T


class Point(msgspec.Struct):
    x: int
    y: int = 0


class Circle(msgspec.Struct, tag="circle", rename="camel", omit_defaults=True):
    half_width: float = 1.0


class Square(msgspec.Struct, tag=True, rename="camel"):
    full_width: float
    label: str | msgspec.UnsetType = msgspec.UNSET


class Row(msgspec.Struct, array_like=True, tag="row"):
    a: int
    b: str


class Pair(NamedTuple):
    left: int
    right: str = "r"


class Address(TypedDict):
    street: str
    model: NotRequired[Model]


@attrs.define
class Parcel:
    weight: Decimal
    _secret: int = attrs.field(default=1, alias="_secret")


@dataclass
class Everything:
    model: Model
    point: Point
    pair: Pair
    address: Address
    shapes: list[Circle | Square]
    names: dict[Color, Model]
    counts: dict[int, float]
    levels: dict[Level, dict[dt.date, list[Model]]]
    maybe: Model | None
    parcel: Parcel
    at: dt.datetime
    span: dt.timedelta
    blob: bytes
    ids: set[uuid.UUID]
    pairs: tuple[int, ...] = ()
    _hidden: int = 5


@dataclass(slots=True)
class Tree:
    name: str
    children: list[Tree] = field(default_factory=list)


@dataclass
class Amount:
    cents: int
    currency: str = "EUR"


@dataclass
class Late:
    settled: int = field(init=False)
    raw: object = None


def everything() -> Everything:
    return Everything(
        model=Model(cents=1, colors={Color.RED, Color.BLUE}),
        point=Point(1),
        pair=Pair(1),
        address={"street": "Main\0\ud800", "model": Model(cents=2)},
        shapes=[Circle(), Square(2.5), Square(1.0, "s")],
        names={Color.RED: Model(cents=3)},
        counts={1: 1.5, 2**80: -0.0},
        levels={Level.HIGH: {NOON.date(): [Model(cents=4)]}},
        maybe=None,
        parcel=Parcel(Decimal("1.10"), 9),
        at=NOON,
        span=dt.timedelta(days=-1, microseconds=1),
        blob=b"\x00\xff",
        ids={uuid.UUID(int=3), uuid.UUID(int=2)},
        pairs=(1, 2),
        _hidden=6,
    )


def stored(value: object) -> JsonValue:
    return decode(encode(to_json(value)))


TYPED = [
    (Model(cents=1), Model),
    ([Model(cents=1)], list[Model]),
    ({"a": Model(cents=1)}, dict[str, Model]),
    (None, Model | None),
    (Model(cents=1), Model | None),
    (Outer(models=[Model(cents=1)], by_number={3: Model(cents=2)}), Outer),
    (Aliased(orderId=4), Aliased),
    (StrictModel(when=NOON, ids={1, 2}), StrictModel),
    ([StrictModel(when=NOON, ids={1, 2})], list[StrictModel]),
    (Names(["a"]), Names),
    (Box[Model](content=Model(cents=1)), Box[Model]),
    (Point(1, 2), Point),
    ([Circle(2.0), Square(1.0)], list[Circle | Square]),
    (Row(1, "b"), Row),
    (Pair(1, "x"), Pair),
    ({"street": "s"}, Address),
    ({"street": "s", "model": Model(cents=1)}, Address),
    (Parcel(Decimal("0.1"), 4), Parcel),
    (Tree("a", [Tree("b", [Tree("c")])]), Tree),
    (everything(), Everything),
    (NOON, dt.datetime),
    (NOON.replace(tzinfo=None), dt.datetime),
    (NOON.date(), dt.date),
    (dt.time(1, 2, 3), dt.time),
    (dt.timedelta(seconds=90), dt.timedelta),
    (SOME_ID, uuid.UUID),
    (Decimal("1.10"), Decimal),
    (Decimal("Infinity"), Decimal),
    (Color.RED, Color),
    (Level.HIGH, Level),
    (Rights.READ | Rights.WRITE, Rights),
    (b"\xff\0", bytes),
    ({1, 2}, set[int]),
    (frozenset({"a"}), frozenset[str]),
    ((1, "a"), tuple[int, str]),
    ({Color.RED: 1}, dict[Color, int]),
    ({SOME_ID: 1}, dict[uuid.UUID, int]),
    ([1, None], Sequence[int | None]),
    ({"a": [1]}, Mapping[str, list[int]]),
    ("a", Literal["a", "b"]),
    (5, Annotated[int, msgspec.Meta(gt=3)]),
    (Amount(1), Annotated[Amount, "a remark"]),
]


@loop_over(("value", "annotation"), TYPED)
def test_a_written_value_is_read_back_in_its_type(value: object, annotation: object) -> None:
    read = from_json(stored(value), annotation)
    assert read == value
    assert type(read) is type(value)


@loop_over(("value", "annotation"), TYPED)
def test_the_same_inside_of_containers(value: object, annotation: Any) -> None:
    read = from_json(stored({"k": [value]}), dict[str, list[annotation]])
    assert read == {"k": [value]}


PLAIN: list[JsonValue] = [
    *(None, True, 0, -1, 2**63 - 1, 0.5, -0.0, "", "ü\0\ud800␛", [], {}),
    [1, [2, [3, {"a": None}]]],
    {"a": {"b": [1.0, 1, True, "1"]}},
]


@loop_over("value", PLAIN)
def test_plain_json_passes_as_the_very_object(value: JsonValue) -> None:
    assert to_json(value) is value


@loop_over(
    ("value", "written"),
    [
        ((1, (2,)), [1, [2]]),
        ({"a": (1,)}, {"a": [1]}),
        (2**64, 2**64),
        ([2**64, 1.0], [2**64, 1.0]),
        (OrderedDict(a=1), {"a": 1}),
        (defaultdict(list, a=[NOON.date()]), {"a": ["2024-02-29"]}),
        ({"b", "a", "c"}, ["a", "b", "c"]),
        ({3, 1, 2}, [1, 2, 3]),
        ({NOON.date(): 1}, {"2024-02-29": 1}),
        (Circle(), {"type": "circle", "halfWidth": 1.0}),
        (Square(1.0), {"type": "Square", "fullWidth": 1.0}),
        (Row(1, "b"), ["row", 1, "b"]),
        (Aliased(orderId=1), {"orderId": 1}),
        (Late(raw=[Pair(1)]), {"raw": [[1, "r"]]}),
    ],
)
def test_how_it_is_written(value: object, written: JsonValue) -> None:
    assert to_json(value) == written
    assert encode(to_json(value)) == encode(written)


def test_numbers_keep_their_types() -> None:
    assert [type(each) for each in stored((1, 1.0, True, "1"))] == [int, float, bool, str]  # type: ignore[union-attr]


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no eq")

    def __hash__(self) -> int:
        return 1


class HostileModel(BaseModel):
    def model_dump(self, **options: Any) -> dict[str, Any]:
        raise KeyError("cannot")

    __hash__ = None  # type: ignore[assignment]


class HostileError(Exception):
    __str__ = Hostile.__repr__


@dataclass
class HostileData:
    fine: int = 1

    def __getattribute__(self, name: str) -> Any:
        if name == "fine":
            raise HostileError
        return object.__getattribute__(self, name)


class ArbitraryModel(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    thing: Hostile


class Text(str):
    __slots__ = ()


def cycle(kind: str) -> object:
    tree, loop, entries = Tree("a"), [], {}  # type: ignore[var-annotated]
    tree.children += [tree, tree]
    loop += [loop, loop]
    entries["a"] = entries
    return {"tree": tree, "loop": loop, "entries": entries, "late": [NOON, loop]}[kind]


def laughs() -> object:
    value: object = (1,)
    for _ in range(40):
        value = (value, value)
    return value


def nested(depth: int) -> object:
    value: object = NOON
    for _ in range(depth):
        value = [value]
    return value


REFUSED = [
    (float("nan"), "$ is nan"),
    (Late(raw=float("inf")), "$.raw is inf"),
    (Box[float](content=float("nan")), "$.content is nan"),
    ({"a": [1, {"b": object()}]}, "$.a[1].b is of type object"),
    ([NOON, {"b": complex(1)}], "$[1].b is of type complex"),
    (Late(raw={"x": deque([1])}), "$.raw.x is of type deque"),
    (Amount, "$ is of type type"),
    (Odd.PAIR, "store value.value"),
    ([Text("a")], r"$[0] is of type Text, which JSON cannot store without changing it; store str(value)"),
    (Path("/tmp"), "$ is of type"),
    (ValueError("x"), "store str(value)"),
    (2**3000, "an integer of 3,001 bits"),
    ({1: "a"}, "$ has a key of type int"),
    ({"a": {1: "a", "1": "b"}}, "$.a has a key of type int"),
    (Late(raw={1: "a", "1": "b"}), "$.raw has two keys that are equal as text"),
    ({Color.RED: 1, "red": 2}, "$ has two keys that are equal as text"),
    ({None: 1}, "$ has a key of type NoneType"),
    ({True: 1}, "$ has a key of type bool"),
    ({(1, 2): 1}, "$ has a key of type tuple"),
    ({"a": {Hostile(): 1}}, "$.a has a key of type Hostile"),
    (Hostile(), "$ is of type Hostile"),
    ({Hostile()}, "$[0] is of type Hostile"),
    ([HostileModel()], "$[0] is of type HostileModel and could not be read: 'cannot'"),
    ([HostileData()], "$[0] is of type HostileData and could not be read"),
    (ArbitraryModel(thing=Hostile()), "$ is of type ArbitraryModel and could not be read"),
    (dt.datetime(1900, 1, 1, tzinfo=ZoneInfo("Asia/Calcutta")), "store value.isoformat()"),
    (Decimal("sNaN"), "store str(value)"),
    (msgspec.UNSET, "$ is of type UnsetType"),
    (cycle("tree"), "nested deeper than 64 levels"),
    (cycle("loop"), "nested deeper than 64 levels"),
    (cycle("entries"), "nested deeper than 64 levels"),
    (cycle("late"), "nested deeper than 64 levels"),
    (nested(65), "nested deeper than 64 levels"),
    (nested(100_000), "nested deeper than 64 levels"),
    (laughs(), "exceed the limit of 100,000 items"),
    ([None] * 100_001, "exceed the limit of 100,000 items"),
    ((NOON, "x" * 2_000_000), "exceed the limit of 1,048,576 bytes"),
    (lambda: 1, "$ is of type function"),
    (iter(()), "$ is of type tuple_iterator"),
]


@loop_over(("value", "message"), REFUSED)
def test_a_value_that_cannot_be_stored_is_rejected_with_its_place(value: object, message: str) -> None:
    with pytest.raises(NotStorableError) as caught:
        to_json(value)
    assert message in str(caught.value)
    assert ";" in str(caught.value)
    assert len(str(caught.value)) < 1_000


def test_the_depth_that_the_codec_allows_is_allowed() -> None:
    assert from_json(stored(nested(64)), None) == from_json(stored(nested(64)), Any)


def test_other_limits() -> None:
    with pytest.raises(NotStorableError, match="exceed the limit of 2 items"):
        to_json((1, 2, 3), limits=JsonLimits(items=2))
    assert to_json([1, 2, 3], limits=DEFAULT_LIMITS) == [1, 2, 3]


def test_the_hour_that_clocks_repeat_can_be_stored() -> None:
    for fold in (0, 1):
        value = dt.datetime(2024, 10, 27, 2, 30, fold=fold, tzinfo=ZoneInfo("Europe/Berlin"))
        assert from_json(stored(value), dt.datetime).isoformat() == value.isoformat()


@loop_over("annotation", [None, Any, object, "Unknown", list["Unknown"], T])  # type: ignore[name-defined]  # noqa: F821
@loop_over("value", PLAIN)
def test_without_a_type_it_is_left_as_it_is(value: JsonValue, annotation: object) -> None:
    assert from_json(value, annotation) is value


MISFITS = [
    ("1", int, "payload: Expected `int`, got `str`"),
    (True, int, "Expected `int`, got `bool`"),
    (1.0, int, "Expected `int`, got `float`"),
    (1, str, "Expected `str`, got `int`"),
    ("yes", bool, "Expected `bool`, got `str`"),
    (None, Amount, "Expected `object`, got `null`"),
    ({"cents": "5"}, Amount, "Expected `int`, got `str` - at `$.cents`"),
    ({}, Amount, "Object missing required field `cents`"),
    ([{"cents": 1}, {"cents": None}], list[Amount], "at `$[1].cents`"),
    ("noon", dt.datetime, "Invalid RFC3339 encoded datetime"),
    ("green", Color, "Invalid enum value 'green'"),
    ({"x": {}}, dict[int, Any], "Expected `int`, got `str` - at `key` in `$`"),
    ({}, Address, "missing required field `street`"),
    ({"type": "oval"}, Circle | Square, "Invalid value 'oval'"),
    (3, Annotated[int, msgspec.Meta(gt=3)], "Expected `int` >= 4"),
    ({"cents": "x"}, Model, "payload: Model.cents: Input should be a valid integer"),
    ([{"cents": "x"}], list[Model], "Model.cents: Input should be a valid integer, unable"),
    ([{"cents": "x"}], list[Model], "- at `$[0]`"),
    ({"a": {}}, dict[str, Model | None], "Model.cents: Field required - at `$[...]`"),
    ({"street": "s", "model": 5}, Address, "at `$.model`"),
    ({"models": [{"cents": 1}, {}]}, Outer, "Outer.models.1.cents: Field required"),
    ({"models": [{}] * 9}, Outer, "; and 4 more"),
    ({"when": "2024-01-01T00:00:00Z", "ids": ["1"]}, StrictModel, "StrictModel.ids"),
    ([1], list[Hostile], "Hostile cannot be created from JSON - at `$[0]`"),
    ("\ud800", uuid.UUID, "payload: 'utf-8' codec can't encode character '\\ud800'"),
]


@loop_over(("value", "annotation", "message"), MISFITS)
def test_a_mismatch_names_the_expected_type_and_the_place(
    value: Any, annotation: object, message: str
) -> None:
    with pytest.raises(PayloadError) as caught:
        from_json(value, annotation)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_message_names_the_given_value() -> None:
    with pytest.raises(
        PayloadError, match=r"^payload of 'charge': Expected `int`, got `str` - at `\$.cents`$"
    ):
        from_json({"cents": "1"}, Amount, name="payload of 'charge'")


def test_the_value_is_not_in_the_message() -> None:
    with pytest.raises(PayloadError) as caught:
        from_json({"cents": "hunter2"}, Model)
    assert "hunter2" not in str(caught.value)


def test_a_misfit_is_final() -> None:
    with pytest.raises(PayloadError) as caught:
        from_json([{"cents": "x"}], list[Model])
    failure = classify(caught.value)
    assert (failure.category, failure.error_class) == (Category.VALIDATION, ErrorClass.FINAL)


def test_nesting_too_deep_to_read() -> None:
    deep: Any = {"name": "a"}
    for _ in range(100_000):
        deep = {"name": "a", "children": [deep]}
    with pytest.raises(PayloadError, match="nested too deep"):
        from_json(deep, Tree)


def test_a_bug_in_a_validator_is_not_taken_for_a_misfit() -> None:
    class Buggy(BaseModel):
        cents: int

        @field_validator("cents")
        @classmethod
        def check(cls, value: int) -> int:
            raise KeyError(value)

    with pytest.raises(KeyError):
        from_json({"cents": 1}, Buggy)


def local_dataclass() -> type:
    @dataclass
    class Inner:
        a: int

    @dataclass
    class Holder:
        inner: Inner

    return Holder


@pytest.mark.parametrize(
    "annotation", [Hostile, Hostile | None, Model | int, Amount | Tree, deque[int], Path, local_dataclass()]
)
def test_a_type_that_json_cannot_become_is_refused_before_any_value(annotation: object) -> None:
    with pytest.raises(
        InvalidValueError, match=r"cannot have the type .*; annotate it with a dataclass"
    ) as caught:
        reader(annotation)
    assert not isinstance(caught.value, PayloadError)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_json_is_equal_afterwards(value: JsonValue) -> None:
    assert stored(value) == value
    assert from_json(value, Any) is value


LEAVES = st.one_of(
    st.datetimes(timezones=st.none() | st.timezones(no_cache=True)),
    st.dates(),
    st.times(),
    st.timedeltas(),
    st.uuids(),
    st.decimals(allow_nan=False),
    st.binary(max_size=20),
    st.sampled_from(Color),
    st.sampled_from(Level),
)


@given(LEAVES)
def test_a_leaf_comes_back_or_is_refused(value: object) -> None:
    try:
        read = from_json(stored(value), type(value))
    except NotStorableError:
        assert isinstance(value, dt.datetime)
    else:
        assert read == value or str(read) == str(value)


@given(
    st.builds(
        Everything,
        model=st.builds(Model, when=st.datetimes(), cents=st.integers(-(2**63), 2**63 - 1)),
        point=st.builds(Point, x=st.integers(), y=st.integers()),
        pair=st.builds(Pair, left=st.integers(), right=st.text()),
        address=st.fixed_dictionaries({"street": st.text()}),
        shapes=st.lists(st.builds(Circle, half_width=st.floats(allow_nan=False, allow_infinity=False))),
        names=st.dictionaries(
            st.sampled_from(Color), st.builds(Model, when=st.datetimes(), cents=st.just(1))
        ),
        counts=st.dictionaries(st.integers(), st.floats(allow_nan=False, allow_infinity=False)),
        levels=st.just({}),
        maybe=st.none() | st.builds(Model, when=st.datetimes(), cents=st.just(1)),
        parcel=st.builds(Parcel, weight=st.decimals(allow_nan=False), _secret=st.integers()),
        at=st.datetimes(),
        span=st.timedeltas(),
        blob=st.binary(),
        ids=st.sets(st.uuids()),
        pairs=st.lists(st.integers()).map(tuple),
        _hidden=st.integers(),
    )
)
def test_mixed_types_come_back_equal(value: Everything) -> None:
    assert from_json(stored(value), Everything) == value


ANYTHING = st.recursive(
    st.none() | st.text() | st.integers() | st.floats() | LEAVES | st.builds(object) | st.builds(Hostile),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text() | st.integers() | st.sampled_from(Color), inner, max_size=3)
        | st.tuples(inner, inner)
        | st.builds(lambda each: Late(raw=each), inner)
        | st.builds(lambda each: Box[Any](content=each), inner)
    ),
    max_leaves=10,
)


@given(ANYTHING)
def test_anything_is_stored_or_refused(value: object) -> None:
    try:
        written = to_json(value)
    except NotStorableError:
        return
    assert decode(encode(written)) == written
    assert to_json(written) == written


# Stored text is read in one pass if possible, with the same result as reading its value.

PLAIN_TYPES = [dict, list, str, int, float, bool, type(None)]
OTHER_TYPES: list[Any] = [
    *(dict[str, Any], dict[str, object], list[Any], dict[Any, Any], Any | None, Annotated[int, "a remark"]),
    *(int | None, float | None, int | float, str | float | bool, dict[str, Any] | list[Any] | None),
    *(dict[str, float], dict[int, int], dict[float, Any], dict[bool, int], dict[bytes, int], dict[None, int]),
    *(dict[tuple[int, int], int], list[str], list[float | None], tuple[float, ...], set[float], bytearray),
    *(Decimal, list[Decimal], dict[Decimal, int], Decimal | float, dt.datetime | int, Literal[1, "a", None]),
    *(
        Amount | None,
        list[Amount],
        dict[str, Tree],
        dict[dt.date, float],
        Annotated[float, msgspec.Meta(gt=1)],
    ),
]
ANNOTATIONS: list[Any] = [*PLAIN_TYPES, *OTHER_TYPES, *(annotation for _, annotation in TYPED)]
READERS = [(annotation, reader(annotation)) for annotation in ANNOTATIONS]

WORDS = ["", "1", "1.5", "true", "red", "AAE=", "2024-02-29", "2024-02-29T12:00:00Z", "PT90S", str(SOME_ID)]
NAMES = ["cents", "x", "y", "type", "halfWidth", "fullWidth", "street", "model", "weight", "name", "children"]
LIKELY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([1.0, -0.0, 1e16, *WORDS, "circle", "Square", "row", "NaN", "␛", "\0", "\ud800"])
    | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(NAMES + WORDS) | st.text(max_size=2), inner, max_size=4)
    ),
    max_leaves=12,
)


def outcome(function: Callable[..., Any], *args: object) -> object:
    """Return the result of the function, or its error, as text."""
    try:
        value = function(*args)
    except (PayloadError, TypeError) as error:
        return f"{type(error)} {error}"
    return type(value), repr(value)


@settings(deadline=None)
@given(LIKELY | st.sampled_from([stored(value) for value, _ in TYPED]))
def test_text_is_read_like_its_value(value: JsonValue) -> None:
    text = encode(value)
    for annotation, read in READERS:
        assert outcome(read, text) == outcome(from_json, decode(text), annotation), annotation


@given(LIKELY)
def test_values_of_plain_types_fit_as_they_are(value: JsonValue) -> None:
    for annotation in ANNOTATIONS:
        if type(value) in plain_types(annotation):
            assert from_json(value, annotation) == value
            assert type(from_json(value, annotation)) is type(value)


@loop_over(
    ("annotation", "expected"),
    [
        *((kind, {kind}) for kind in PLAIN_TYPES),
        (dict[str, Any], {dict}),
        (list[Any], {list}),
        (list[object], set()),
        (float | None, {float, type(None)}),
        (dict[str, Any] | list[Any] | str, {dict, list, str}),
        (Any, set(PLAIN_TYPES)),
        ("Unknown", set(PLAIN_TYPES)),
        (dict[str, int], set()),
        (dict[int, Any], set()),
        (list[str], set()),
        (list[int] | None, set()),
        (Annotated[int, msgspec.Meta(gt=3)], set()),
        (Literal[1], set()),
        (Amount, set()),
        (Level, set()),
        (tuple, set()),
    ],
)
def test_types_of_which_every_value_fits(annotation: object, expected: set[type]) -> None:
    assert plain_types(annotation) == expected


def test_text_with_a_large_integer_or_a_surrogate_is_read_in_its_type() -> None:
    value = {"street": "\ud800\0", "number": 2**80}
    assert reader(dict[str, str | int])(encode(value)) == value


def test_text_that_is_not_json_is_not_storable() -> None:
    for annotation in (dict, Amount, Model, None):
        with pytest.raises(NotStorableError, match="not JSON"):
            reader(annotation)("{")


@given(
    JSON, st.sampled_from([Everything, Model, list[Model], int | str, Address, Tree, Row, dict[int, Point]])
)
def test_any_json_is_read_or_refused(value: JsonValue, annotation: object) -> None:
    with suppress(PayloadError):
        from_json(value, annotation)
