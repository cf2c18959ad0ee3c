"""A chain of errors is printed exactly as Python prints it, although most of it comes from a cache."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.cases import loop_over

from redrive.engine.evidence import MAX_FRAMES, MAX_LINKS, MAX_STACK_LENGTH, clean, evidence_of
from redrive.policy.redact import DEFAULT_REDACTOR, Redactor

SECRET = "sk_live_" + "51HxQ2eAbCdEfGhIjKlMnOpQr"


def stack_of(error: BaseException, redactor: Redactor = DEFAULT_REDACTOR) -> str:
    return evidence_of(error, classifier=None, redactor=redactor, step="pay", now=0.0).stack


def printed_by_python(error: BaseException) -> str:
    trace = error.__traceback__
    while trace and trace.tb_next and trace.tb_frame.f_globals["__name__"].startswith("redrive."):
        trace = trace.tb_next
    formatted = traceback.TracebackException(type(error), error, trace, limit=-MAX_FRAMES, compact=True)
    return clean("".join(formatted.format()), MAX_STACK_LENGTH, Redactor())


def check(make: Callable[[], BaseException]) -> None:
    """Compare twice: the second time, the tracebacks come from the cache."""
    for _ in range(2):
        error = make()
        expected = printed_by_python(error)
        assert stack_of(error, Redactor()) == expected
        assert stack_of(error) == expected


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    try:
        if cause is None:
            raise error
        raise error from cause
    except BaseException as caught:
        return caught


def raised_in_context(error: BaseException, context: BaseException) -> BaseException:
    try:
        try:
            raise context
        except BaseException:
            raise error  # noqa: B904
    except BaseException as caught:
        return caught


def raised_in_suppressed_context(error: BaseException, context: BaseException) -> BaseException:
    try:
        try:
            raise context
        except BaseException:
            raise error from None
    except BaseException as caught:
        return caught


WAYS = (lambda error, cause: raised(error, cause), raised_in_context, raised_in_suppressed_context)


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise SystemExit("hostile")


class EmptyError(Exception):
    """An error that is false in a boolean context."""

    def __len__(self) -> int:
        return 0


class LyingTypeError(Exception):
    __module__ = None  # type: ignore[assignment]


def noted(error: BaseException, *notes: Any) -> BaseException:
    for note in notes:
        error.add_note(note)
    return error


def with_hostile_notes() -> BaseException:
    error = ValueError("x")
    error.__notes__ = 5  # type: ignore[assignment]
    return raised(error, raised(KeyError("inner")))


def syntax_error() -> BaseException:
    try:
        compile("def broken(:\n    pass\n", "<configuration>", "exec")
    except SyntaxError as error:
        return error
    raise AssertionError


def name_error() -> BaseException:
    try:
        SECRETS  # type: ignore[name-defined]  # noqa: B018
    except NameError as error:
        return error
    raise AssertionError


def recursion_error() -> BaseException:
    def endless(number: int) -> int:
        return endless(number + 1) + 1

    try:
        endless(0)
    except RecursionError as error:
        return error
    raise AssertionError


def recursion_of(depth: int) -> BaseException:
    def descend(number: int) -> None:
        if number == 0:
            raise ValueError("deep enough")
        descend(number - 1)

    try:
        descend(depth)
    except ValueError as error:
        return error
    raise AssertionError


def on_several_lines() -> BaseException:
    try:
        raised(
            ValueError(
                "\n".join(["first", "second"]),
            ),
            None,
        ).args[5]
    except IndexError as error:
        return error
    raise AssertionError


WITHOUT_SOURCE = """
def charge():
    try:
        {}['amount']
    except KeyError as error:
        raise ValueError('no amount') from error
"""


def without_source(module: str = "shop", file: str = "<generated>") -> BaseException:
    place: dict[str, Any] = {"__name__": module}
    exec(compile(WITHOUT_SOURCE, file, "exec"), place)
    try:
        place["charge"]()
    except ValueError as error:
        return error
    raise AssertionError


def of_the_same_type_at_two_lines() -> BaseException:
    first = second = None
    try:
        raise ValueError("the same")
    except ValueError as error:
        first = error
    try:
        raise ValueError("the same")
    except ValueError as error:
        second = error
    second.__cause__ = first
    return second


def in_a_circle() -> BaseException:
    first, second = raised(ValueError("first")), raised(ValueError("second"))
    first.__cause__, second.__cause__ = second, first
    return first


def its_own_context() -> BaseException:
    first, second = raised(ValueError("first")), raised(ValueError("second"))
    first.__context__, second.__context__ = second, first
    return first


def of_links(number: int) -> BaseException:
    error = raised(ValueError(0))
    for link in range(1, number):
        error = raised(ValueError(link), error)
    return error


INVOKER = """
def invoke(task, error):
    try:
        task(error)
    except BaseException as caught:
        return caught
"""


def fail_with(error: BaseException) -> None:
    raise error


def through_redrive(error: BaseException) -> BaseException:
    """Raise the error through a frame of Redrive.

    The traceback of the error omits the frame, and that of a cause keeps it.
    """
    place: dict[str, Any] = {"__name__": "redrive.engine.invoker"}
    exec(compile(INVOKER, "invoker.py", "exec"), place)
    caught: BaseException = place["invoke"](fail_with, error)
    return caught


def grouped() -> BaseException:
    return raised(BaseExceptionGroup("several", [raised(ValueError("one")), raised(KeyError("two"))]))


CHAINS: dict[str, Callable[[], BaseException]] = {
    "cause": lambda: raised(ValueError("outer"), raised(KeyError("inner"))),
    "context": lambda: raised_in_context(ValueError("outer"), KeyError("inner")),
    "suppressed context": lambda: raised_in_suppressed_context(ValueError("outer"), KeyError("inner")),
    "cause of a context": lambda: raised_in_context(ValueError("a"), raised(KeyError("b"), OSError("c"))),
    "context of a cause": lambda: raised(ValueError("a"), raised_in_context(KeyError("b"), OSError("c"))),
    "suppressed within": lambda: raised(
        ValueError("a"), raised_in_suppressed_context(KeyError("b"), OSError("c"))
    ),
    "never raised": lambda: raised(ValueError("outer"), KeyError("never raised")),
    "outer never raised": lambda: _caused(ValueError("outer"), raised(KeyError("inner"))),
    "notes": lambda: noted(raised(ValueError("a"), noted(raised(KeyError("b")), "at\nnight")), "by day", ""),
    "notes that are no text": with_hostile_notes,
    "syntax error": lambda: raised(ValueError("outer"), syntax_error()),
    "syntax error last": lambda: raised(syntax_error(), KeyError("inner")),
    "suggestion": lambda: raised(ValueError("outer"), name_error()),
    "unprintable": lambda: raised(UnprintableError(), raised(UnprintableError())),
    "empty": lambda: raised(ValueError("outer"), raised(EmptyError(), raised(KeyError("inner")))),
    "type without a module": lambda: raised(LyingTypeError("a"), raised(LyingTypeError("b"))),
    "no message": lambda: raised(ValueError(), raised(KeyError())),
    "runaway recursion": lambda: raised(ValueError("outer"), recursion_error()),
    "runaway recursion last": lambda: raised(recursion_error(), raised(KeyError("inner"))),
    "recursion": lambda: raised(ValueError("outer"), recursion_of(20)),
    "as many frames as printed": lambda: raised(ValueError("outer"), recursion_of(MAX_FRAMES - 2)),
    "more frames than printed": lambda: raised(ValueError("outer"), recursion_of(MAX_FRAMES + 5)),
    "long message": lambda: raised(ValueError("y" * 20_000), raised(KeyError("z " * 20_000))),
    "huge message": lambda: raised(ValueError("outer"), raised(KeyError("word " * 60_000))),
    "huge messages": lambda: raised(ValueError("line\n" * 60_000), raised(KeyError("word " * 60_000))),
    "message of several lines": lambda: raised(ValueError("a\n\nb\n"), raised(OSError("c\r\nd"))),
    "any text": lambda: raised(ValueError("\x00 \ud800 ␛ é"), raised(OSError("\x00\x1b[31m red \x1b[0m"))),
    "statement of several lines": lambda: raised(ValueError("outer"), on_several_lines()),
    "without source": without_source,
    "without source in another module": lambda: without_source("store"),
    "without source in another file": lambda: without_source("shop", "<other>"),
    "same type at two lines": of_the_same_type_at_two_lines,
    "circle": in_a_circle,
    "circle of contexts": its_own_context,
    "as many links as remembered": lambda: of_links(MAX_LINKS),
    "one link more": lambda: of_links(MAX_LINKS + 1),
    "many links": lambda: of_links(300),
    "group": lambda: raised(grouped(), raised(KeyError("inner"))),
    "group within": lambda: raised(ValueError("outer"), grouped()),
    "empty cause": lambda: raised(EmptyError("outer"), raised(KeyError("inner"))),
    "through Redrive": lambda: through_redrive(raised(ValueError("outer"), raised(KeyError("inner")))),
    "cause through Redrive": lambda: raised(ValueError("outer"), through_redrive(KeyError("inner"))),
    "secret within": lambda: raised(ValueError("outer"), raised(KeyError(f"api_key={SECRET}"))),
    "secret outside": lambda: raised(ValueError(f"refused {SECRET}"), raised(KeyError("inner"))),
    "secret in a note": lambda: raised(ValueError("a"), noted(KeyError("b"), f"password: {SECRET[:12]}")),
    "quote left open": lambda: raised(ValueError("outer"), raised(KeyError(f'password="{SECRET[:9]} x'))),
    "bracket left open": lambda: raised(ValueError("outer"), raised(ValueError(f"secret={{{SECRET[:9]}"))),
}


def _caused(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


def test_frames_of_redrive_are_left_out_unless_a_cause_passed_them() -> None:
    assert "invoker.py" not in stack_of(CHAINS["through Redrive"]())
    assert "invoker.py" in stack_of(CHAINS["cause through Redrive"]())
    first = through_redrive(KeyError("inner"))
    assert "invoker.py" not in stack_of(first)
    assert "invoker.py" in stack_of(raised(ValueError("outer"), first))


@loop_over("name", CHAINS)
def test_a_chain_is_printed_as_python_prints_it(name: str) -> None:
    check(CHAINS[name])


MESSAGES = st.one_of(
    st.text(st.characters(codec=None), max_size=60),
    st.sampled_from(["connection refused", f"api_key={SECRET}", "a\nb", "the token was rejected", ""]),
)
KINDS = st.sampled_from([ValueError, KeyError, OSError, UnprintableError, EmptyError, ConnectionError])
LINKS = st.lists(st.tuples(KINDS, MESSAGES, st.sampled_from(WAYS), st.booleans()), min_size=1, max_size=10)


@given(LINKS)
def test_any_chain_is_printed_as_python_prints_it(links: list[Any]) -> None:
    error = raised(TimeoutError("the first"))
    for kind, message, way, has_note in links:
        error = way(noted(kind(message), message) if has_note else kind(message), error)
    assert stack_of(error) == printed_by_python(error)


def test_a_hostile_cause_does_not_keep_an_error_from_being_stored() -> None:
    def hostile(self: Any) -> Any:
        raise SystemExit("hostile")

    for name in ("__cause__", "__context__", "__suppress_context__", "__notes__", "__traceback__"):
        kind = type("HostileError", (Exception,), {name: property(hostile)})
        assert stack_of(raised(ValueError("outer"), raised(kind("inner"))))
