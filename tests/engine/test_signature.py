from __future__ import annotations

import functools
import inspect
import types
from collections.abc import AsyncIterator, Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Generic, Optional, TypeVar

import hypothesis.strategies as st
import pytest
from hypothesis import given
from pydantic import BaseModel
from tests.cases import loop_over

from redrive.engine.signature import Signature
from redrive.errors import InvalidValueError, PayloadError
from redrive.policy.codec import JsonValue, encode

if TYPE_CHECKING:
    from elsewhere import Known  # type: ignore[import-not-found]

T = TypeVar("T")


class Context(Generic[T]):
    pass


@dataclass
class Order:
    cents: int
    currency: str = "EUR"


class Settings(BaseModel):
    limit: int


CONTEXT: Context[None] = Context()
CONFIG: JsonValue = {"limit": 3}
ORDER: JsonValue = {"cents": 5}


def arguments(signature: Signature, payload: JsonValue, config: JsonValue = None) -> Any:
    return signature.arguments(encode(payload), CONTEXT, encode(config))


def nothing() -> None: ...
def untyped(payload): ...  # type: ignore[no-untyped-def]
def typed(order: Order) -> None: ...
def model(settings: Settings) -> None: ...
def many_models(settings: list[Settings]) -> None: ...
def optional(order: Order | None) -> None: ...
def defaulted(order: Order | None = None, /) -> None: ...
def with_default(count: int = 7) -> None: ...
def untyped_default(payload: Any = 7) -> None: ...
def by_name(context: Any, order: Order) -> None: ...
def by_type(order: Order, ctx: Context[None]) -> None: ...
def by_bare_type(ctx: Context, order: Order) -> None: ...  # type: ignore[type-arg]
def by_optional(ctx: Context[int] | None, order: Order) -> None: ...
def by_old_optional(ctx: Optional[Context[int]], order: Order) -> None: ...  # noqa: UP045
def by_annotated(ctx: Annotated[Context[int], "a remark"], order: Order) -> None: ...
def only_context(context: Any) -> None: ...
def twice(context: Any, other: Context[None]) -> None: ...
def configured(order: Order, config: Settings, context: Any) -> None: ...
def only_config(config: dict[str, int]) -> None: ...
def default_config(config: Settings | None = None) -> None: ...
def untyped_config(order: Order, config) -> None: ...  # type: ignore[no-untyped-def]
def keyword(*, order: Order) -> None: ...
def unknown_type(order: Known) -> None: ...
def unknown_inside(order: list[Known]) -> None: ...
def json_value(order: JsonValue) -> None: ...


SINGLE: list[tuple[Callable[..., Any], JsonValue, Any]] = [
    (nothing, ORDER, {}),
    (untyped, ORDER, {"payload": ORDER}),
    (untyped, None, {"payload": None}),
    (typed, ORDER, {"order": Order(5)}),
    (model, CONFIG, {"settings": Settings(limit=3)}),
    (many_models, [CONFIG], {"settings": [Settings(limit=3)]}),
    (optional, ORDER, {"order": Order(5)}),
    (optional, None, {"order": None}),
    (with_default, None, {}),
    (with_default, 0, {"count": 0}),
    (untyped_default, None, {}),
    (untyped_default, 0, {"payload": 0}),
    (by_name, ORDER, {"context": CONTEXT, "order": Order(5)}),
    (by_type, ORDER, {"ctx": CONTEXT, "order": Order(5)}),
    (by_bare_type, ORDER, {"ctx": CONTEXT, "order": Order(5)}),
    (by_optional, ORDER, {"ctx": CONTEXT, "order": Order(5)}),
    (by_old_optional, ORDER, {"ctx": CONTEXT, "order": Order(5)}),
    (by_annotated, ORDER, {"ctx": CONTEXT, "order": Order(5)}),
    (only_context, ORDER, {"context": CONTEXT}),
    (twice, ORDER, {"context": CONTEXT, "other": CONTEXT}),
    (configured, ORDER, {"order": Order(5), "config": Settings(limit=3), "context": CONTEXT}),
    (only_config, ORDER, {"config": CONFIG}),
    (untyped_config, ORDER, {"order": Order(5), "config": CONFIG}),
    (keyword, ORDER, {"order": Order(5)}),
    (unknown_type, ORDER, {"order": ORDER}),
    (unknown_inside, ORDER, {"order": ORDER}),
    (json_value, ORDER, {"order": ORDER}),
]


@loop_over(("function", "payload", "expected"), SINGLE)
def test_the_arguments_of_a_function(function: Callable[..., Any], payload: JsonValue, expected: Any) -> None:
    signature = Signature.of(function, Context)
    args, kwargs = arguments(signature, payload, CONFIG)
    assert (args, kwargs) == ((), expected)
    signature.check(payload)
    inspect.signature(function).bind(*args, **kwargs)


def two(order: Order, count: int) -> None: ...
def two_untyped(a, b=2): ...  # type: ignore[no-untyped-def]
def half_typed(a, b: int = 2, c: Settings | None = None): ...  # type: ignore[no-untyped-def]
def odd_names(__a: int, __init__: int = 2) -> None: ...
def all_defaults(a: int = 1, b: int = 2) -> None: ...
def mixed(settings: Settings, context: Any, count: int, *, config: Any, label: str = "x") -> None: ...


SEVERAL: list[tuple[Callable[..., Any], JsonValue, Any]] = [
    (two, {"order": ORDER, "count": 1}, {"order": Order(5), "count": 1}),
    (two_untyped, {"a": 1}, {"a": 1}),
    (two_untyped, {"a": 1, "b": None}, {"a": 1, "b": None}),
    (half_typed, {"a": ORDER}, {"a": ORDER}),
    (half_typed, {"a": 1, "b": 1, "c": CONFIG}, {"a": 1, "b": 1, "c": Settings(limit=3)}),
    (odd_names, {"__a": 1, "__init__": 2}, {"__a": 1, "__init__": 2}),
    (odd_names, {"__a": 1}, {"__a": 1}),
    (all_defaults, {}, {}),
    (all_defaults, None, {}),
    (all_defaults, {"b": 1}, {"b": 1}),
    (
        mixed,
        {"settings": CONFIG, "count": 1},
        {"settings": Settings(limit=3), "count": 1, "context": CONTEXT, "config": CONFIG},
    ),
]


@loop_over(("function", "payload", "expected"), SEVERAL)
def test_several_parameters_are_given_by_name(
    function: Callable[..., Any], payload: JsonValue, expected: Any
) -> None:
    signature = Signature.of(function, Context)
    assert arguments(signature, payload, CONFIG) == ((), expected)
    signature.check(payload)


def plain(payload: dict, config: dict) -> None: ...  # type: ignore[type-arg]
def plain_entries(a: list[Any], b: dict[str, Any], config: dict[str, Any]) -> None: ...


@loop_over(
    ("function", "payload"),
    [
        (untyped_config, ORDER),
        (plain, {"a": [1]}),
        (plain_entries, {"a": [1], "b": {"c": [2]}}),
        (two_untyped, {"a": [1], "b": {}}),
    ],
)
def test_every_reading_gives_new_objects(function: Callable[..., Any], payload: JsonValue) -> None:
    signature, config = Signature.of(function, Context), {"limits": [3]}
    stored, stored_config = encode(payload), encode(config)
    _, first = signature.arguments(stored, CONTEXT, stored_config)
    expected = deepcopy(first)
    empty(first)
    assert first != expected
    assert signature.arguments(stored, CONTEXT, stored_config) == ((), expected)


def empty(value: Any) -> None:
    """Empty every mutable object in a value."""
    for inner in value.values() if isinstance(value, dict) else value:
        if isinstance(inner, dict | list):
            empty(inner)
    value.clear()


REFUSED: list[tuple[Callable[..., Any], JsonValue, str]] = [
    (typed, None, "payload of 'typed': Expected `object`, got `null`"),
    (typed, {"cents": "5"}, "payload of 'typed': Expected `int`, got `str` - at `$.cents`"),
    (model, {}, "payload of 'model': Settings.limit: Field required"),
    (with_default, "7", "payload of 'with_default': Expected `int`, got `str`"),
    (two, None, "payload of 'two': expected an object with 'count', 'order', got null"),
    (two, [1], "payload of 'two': expected an object with 'count', 'order', got `list`"),
    (two, {}, "payload of 'two': 'count', 'order' missing"),
    (two, {"order": ORDER}, "payload of 'two': 'count' missing"),
    (two, {"order": ORDER, "cuont": 1}, "'count' missing, and 'cuont' is unknown; did you mean 'count'?"),
    (two, {"order": ORDER, "count": 1, "zzz": 1}, "'zzz' is unknown; use one of: count, order"),
    (two, {"order": {"cents": None}, "count": 1}, "Expected `int`, got `null` - at `$.order.cents`"),
    (two, {"order": ORDER, "count": "1"}, "Expected `int`, got `str` - at `$.count`"),
    (half_typed, {"a": 1, "c": {"limit": "x"}}, "Settings.limit: Input should be a valid integer"),
    (half_typed, {"a": 1, "c": {"limit": "x"}}, "at `$.c`"),
    (two_untyped, {"b": 1}, "'a' missing"),
    (two_untyped, {"a": 1, "x" * 10_000: 1}, "is unknown"),
    (two_untyped, {"a": 1, "\ud800\0\n": 1}, r"'\ud800\x00\n' is unknown"),
]


@loop_over(("function", "payload", "message"), REFUSED)
def test_a_payload_that_does_not_fit(function: Callable[..., Any], payload: JsonValue, message: str) -> None:
    signature = Signature.of(function, Context)
    for attempt in (signature.check, partial(arguments, signature, config=CONFIG)):
        with pytest.raises(PayloadError) as caught:
            attempt(payload)
        assert message in str(caught.value)
        assert len(str(caught.value)) < 300


def test_a_config_that_does_not_fit() -> None:
    signature = Signature.of(configured, Context, "shop.charge")
    signature.check(ORDER)
    with pytest.raises(PayloadError, match=r"^config of 'shop.charge': Settings.limit: Field required$"):
        arguments(signature, ORDER, {})


def test_a_missing_config_leaves_the_default() -> None:
    assert arguments(Signature.of(default_config, Context), None) == ((), {})


def positional(a: int, b: str = "b", c: str = "c", /, d: int = 4) -> None: ...
def positional_context(context: Any, order: Order, /) -> None: ...


@pytest.mark.parametrize(
    ("function", "payload", "expected"),
    [
        (defaulted, None, ((None,), {})),
        (defaulted, ORDER, ((Order(5),), {})),
        (positional, {"a": 1, "c": "x", "d": 5}, ((1, "b", "x"), {"d": 5})),
        (positional_context, ORDER, ((CONTEXT, Order(5)), {})),
        (len, [1], (([1],), {})),
    ],
)
def test_positional_only_parameters(function: Callable[..., Any], payload: JsonValue, expected: Any) -> None:
    assert arguments(Signature.of(function, Context), payload) == expected


class Service:
    def method(self, order: Order, context: Any) -> None: ...
    async def async_method(self, order: Order, context: Any) -> None: ...
    @classmethod
    def class_method(cls, order: Order, context: Any) -> None: ...
    @staticmethod
    def static_method(order: Order, context: Any) -> None: ...
    def __call__(self, order: Order, context: Any) -> None: ...


class AsyncService:
    async def __call__(self, order: Order, context: Any) -> None: ...


def decorator(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


class Wrapper:
    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> None: ...


def three(order: Order, context: Any, count: int) -> None: ...
async def async_three(order: Order, context: Any, count: int) -> None: ...


@loop_over(
    ("function", "name", "is_async"),
    [
        (Service().method, "method", False),
        (Service().async_method, "async_method", True),
        (Service.class_method, "class_method", False),
        (Service.static_method, "static_method", False),
        (Service(), "Service", False),
        (AsyncService(), "AsyncService", True),
        (functools.partial(AsyncService()), "AsyncService", True),
        (decorator(by_name), "by_name", False),
        (Wrapper(by_name), "by_name", False),
        (functools.lru_cache(by_name), "by_name", False),
        (functools.partial(three, count=1), "three", False),
        (functools.partial(functools.partial(async_three, count=1)), "async_three", True),
        (lambda order, context: None, "<lambda>", False),
    ],
)
def test_everything_that_can_be_called(function: Callable[..., Any], name: str, is_async: bool) -> None:
    signature = Signature.of(function, Context)
    assert (signature.name, signature.is_async, signature.unresolved) == (name, is_async, ())
    expected = ORDER if name == "<lambda>" else Order(5)
    assert arguments(signature, ORDER) == ((), {"order": expected, "context": CONTEXT})


def test_parameters_that_a_partial_binds_are_not_required() -> None:
    signature = Signature.of(functools.partial(three, Order(1), CONTEXT), Context)
    assert arguments(signature, 4) == ((), {"count": 4})


@pytest.mark.parametrize(
    "annotation", ["Context", "Context[Known]", "redrive.Context[Known] | None", "Optional[Context]"]
)
def test_a_context_that_only_the_type_checker_imports(annotation: str) -> None:
    module = types.ModuleType("user_code")
    source = f"def task(ctx: {annotation}, order: Known, count: int): ..."
    exec(compile(f"from __future__ import annotations\n{source}", "user_code", "exec"), module.__dict__)
    signature = Signature.of(module.task, Context)
    assert signature.unresolved == ("order",)
    _, kwargs = arguments(signature, {"order": ORDER, "count": 1})
    assert kwargs == {"ctx": CONTEXT, "order": ORDER, "count": 1}


def test_one_unknown_name_does_not_spoil_the_others() -> None:
    def task(known: Order, unknown: Known, local: Local) -> None: ...

    class Local: ...

    signature = Signature.of(task, Context)
    assert signature.unresolved == ("unknown", "local")
    _, kwargs = arguments(signature, {"known": ORDER, "unknown": ORDER, "local": 1})
    assert kwargs == {"known": Order(5), "unknown": ORDER, "local": 1}


def variadic(*orders: Order) -> None: ...
def keywords(**orders: Order) -> None: ...
def unreadable(service: Service) -> None: ...
def unreadable_among(order: Order, service: Service) -> None: ...
def unreadable_config(config: Service) -> None: ...
def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> AsyncIterator[int]:
    yield 1


@loop_over(
    ("function", "message"),
    [
        (variadic, r"task 'variadic' has the parameter \*orders.*; name every parameter"),
        (keywords, r"task 'keywords' has the parameter \*\*orders"),
        (generator, "task 'generator' is a generator"),
        (async_generator, "task 'async_generator' is a generator"),
        (functools.partial(generator), "task 'generator' is a generator"),
        (Order, "task 'Order' is a class; register a function"),
        (5, "task 'int' is of type int; register a function"),
        (None, "is of type NoneType; register a function"),
        (dict.update, "task 'update' has no readable signature"),
        (unreadable, "payload of 'unreadable' cannot have the type Service"),
        (unreadable_among, "'service' in the payload of 'unreadable_among' cannot have the type Service"),
        (unreadable_config, "config of 'unreadable_config' cannot have the type Service"),
    ],
)
def test_objects_that_cannot_be_tasks(function: Any, message: str) -> None:
    with pytest.raises(InvalidValueError, match=message) as caught:
        Signature.of(function, Context)
    assert not isinstance(caught.value, PayloadError)


FINITE = st.floats(allow_nan=False, allow_infinity=False)
SMALL_INTEGERS = st.integers(-(2**100), 2**100)
JSON = st.recursive(
    st.none() | st.booleans() | SMALL_INTEGERS | FINITE | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "order", "count"]), inner, max_size=3)
        | st.just({"order": {"cents": 1}, "count": 1})
    ),
    max_leaves=8,
)
SIGNATURES = [
    Signature.of(each, Context)
    for each in (typed, two, two_untyped, half_typed, all_defaults, positional, model, plain, plain_entries)
]


@given(JSON, st.sampled_from(SIGNATURES))
def test_only_checked_commands_can_be_called(payload: JsonValue, signature: Signature) -> None:
    try:
        signature.check(payload)
    except PayloadError:
        with pytest.raises(PayloadError):
            arguments(signature, payload, CONFIG)
    else:
        arguments(signature, payload, CONFIG)
