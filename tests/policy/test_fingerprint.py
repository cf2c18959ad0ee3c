"""W8: dead letters are grouped by the fingerprint of their failure, which is stable and explains itself."""

from __future__ import annotations

import json
import re
import string
import sys
import time
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.cases import loop_over

from redrive.model.fact import fact
from redrive.policy.fingerprint import Fingerprint, TraceFrame, fingerprint, frames_of, normalize
from redrive.words.fact import text_of

unhurried = settings(deadline=None)
any_text = st.text(st.characters(exclude_categories=()))
names = st.text(string.ascii_letters + "_.", min_size=1)
frames = st.lists(st.builds(TraceFrame, names, names, names, st.integers(1, 999), st.booleans()), max_size=12)

PAY = TraceFrame("shop.orders", "pay", "/app/shop/orders.py", 10)
RUN = TraceFrame("shop.main", "run", "/app/shop/main.py", 99)
LIBRARY = TraceFrame("httpx", "get", "/venv/lib/python3.11/site-packages/httpx.py", 5, application=False)


def value(**given: Any) -> str:
    return fingerprint(**given).value


class TestForms:
    def test_the_value_carries_the_version_of_the_rules(self) -> None:
        made = fingerprint(key="a")
        assert re.fullmatch(r"v1:[0-9a-f]{40}", made.value)
        assert str(made) == made.value

    def test_the_rules_of_version_1_do_not_change(self) -> None:
        """Databases contain these values. If this fails, the rules have changed and need a new version."""
        assert value(key="disk full") == "v1:aa4618e65dc26484b49e331366f266a624671970"
        assert (
            value(error_type="ValueError", frames=[PAY, RUN], step="charge", status=500)
            == "v1:a6acdd5ff44b8ded85ce6f1af849bd85fbd312af"
        )
        assert (
            value(step="charge", status=503, message="user 5 of 'x' is gone")
            == "v1:cf70d13158f5bb96f3a065e292f3288edb7846e4"
        )

    def test_a_key_takes_precedence_over_everything_else(self) -> None:
        assert value(key="a") == value(key="a", error_type="E", frames=[PAY], step="s", status=1, message="m")

    def test_frames_of_the_application_take_precedence_over_the_message(self) -> None:
        first = value(error_type="E", frames=[PAY], message="one")
        assert first == value(error_type="E", frames=[PAY], message="another")

    @pytest.mark.parametrize("given_frames", [[], [LIBRARY]])
    def test_without_frames_of_the_application_the_message_counts(
        self, given_frames: list[TraceFrame]
    ) -> None:
        first = value(error_type="E", frames=given_frames, message="cannot open")
        assert first == value(error_type="E", message="cannot open")
        assert first != value(error_type="E", frames=given_frames, message="cannot close")

    def test_an_empty_key_is_no_key(self) -> None:
        assert value(key="", message="m") == value(message="m")

    def test_an_empty_failure_has_a_fingerprint(self) -> None:
        assert fingerprint().pattern == "failure"
        assert value() != value(message="m")

    @unhurried
    @given(any_text.filter(bool), any_text.filter(bool))
    @example("\ud800", "\ud801")
    @example("?", "\ud801")
    def test_two_keys_never_collide(self, one: str, other: str) -> None:
        assert (value(key=one) == value(key=other)) == (one == other)

    @unhurried
    @given(any_text.filter(bool), names, names, frames)
    def test_a_key_never_collides_with_the_other_forms(
        self, key: str, word: str, other: str, given_frames: list[TraceFrame]
    ) -> None:
        made = value(key=key)
        assert made != value(error_type=word, frames=[*given_frames, PAY])
        assert made != value(error_type=word, step=other, message=key)
        assert made != value(message=key)

    @unhurried
    @given(st.tuples(names, names, names), st.tuples(names, names, names), frames)
    def test_type_step_and_status_each_count_in_both_forms(
        self, one: tuple[str, ...], other: tuple[str, ...], given_frames: list[TraceFrame]
    ) -> None:
        def made(situation: tuple[str, ...]) -> str:
            error_type, step, status = situation
            return value(error_type=error_type, step=step, status=status, frames=given_frames, message="m")

        assert (made(one) == made(other)) == (one == other)

    @pytest.mark.parametrize("given_frames", [[], [PAY]], ids=["message", "frames"])
    def test_parts_cannot_slip_into_one_another(self, given_frames: list[TraceFrame]) -> None:
        situations: list[dict[str, Any]] = [
            {"step": "ab"},
            {"step": "a", "status": "b"},
            {"step": "", "status": "ab"},
            {"status": "ab"},
            {"step": "ab", "status": ""},
            {"error_type": "ab"},
            {"error_type": "a", "step": "b"},
            {"step": "-"},
            {"step": "2:ab"},
        ]
        made = {value(frames=given_frames, **situation) for situation in situations}
        assert len(made) == len(situations)

    def test_a_status_is_the_same_as_number_and_as_text(self) -> None:
        assert value(status=503) == value(status="503") != value(status=502)


class TestFrames:
    def test_line_numbers_and_files_do_not_count(self) -> None:
        moved = TraceFrame(PAY.module, PAY.function, "/srv/other/orders.py", 4_711)
        assert value(error_type="E", frames=[PAY]) == value(error_type="E", frames=[moved])

    def test_library_frames_do_not_count(self) -> None:
        assert value(error_type="E", frames=[LIBRARY, PAY, LIBRARY, RUN]) == value(
            error_type="E", frames=[PAY, RUN]
        )

    def test_function_module_and_order_count(self) -> None:
        ways = [
            [PAY, RUN],
            [RUN, PAY],
            [PAY],
            [TraceFrame("shop.orders", "refund")],
            [TraceFrame("shop.bills", "pay")],
        ]
        assert len({value(error_type="E", frames=way) for way in ways}) == len(ways)

    def test_module_and_function_cannot_slip_into_one_another(self) -> None:
        assert value(frames=[TraceFrame("a", "b.c")]) != value(frames=[TraceFrame("a.b", "c")])

    def test_only_the_eight_deepest_count(self) -> None:
        many = [TraceFrame("shop", f"function{number}") for number in range(20)]
        assert value(error_type="E", frames=many) == value(error_type="E", frames=many[:8])
        assert value(error_type="E", frames=many) != value(error_type="E", frames=many[:7])


def caught(action: Callable[[], object]) -> BaseException:
    try:
        action()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def raising_in(file: str, module: Any = "shop") -> BaseException:
    """Make an exception whose deepest frame claims to come from the file."""
    space: dict[str, Any] = {"__name__": module}
    exec(compile("def fail():\n    raise ValueError('no')", file, "exec"), space)
    return caught(space["fail"])


def parse(text: str) -> object:
    return json.loads(text)


def parse_all(texts: list[str]) -> object:
    return [parse(text) for text in texts]


def dive(depth: int) -> int:
    return dive(depth - 1) + glance() if depth else glance()


def glance() -> int:
    return wink()


def wink() -> int:
    return 0


def ping(depth: int) -> int:
    return pong(depth + 1) + 1


def pong(depth: int) -> int:
    return ping(depth + 1) + 1


def peeking(depth: int) -> int:
    if depth % 3 == 0:
        glance()
    return peeking(depth + 1)


class Parser:
    def read(self) -> object:
        return parse("{")


class TestFramesOf:
    def test_the_deepest_comes_first_with_its_module_function_file_and_line(self) -> None:
        found = [frame for frame in frames_of(caught(Parser().read)) if frame.application]
        assert [frame.function for frame in found] == ["parse", "Parser.read", "caught"]
        assert found[0].module == __name__
        assert found[0].file == __file__
        assert found[0].line == parse.__code__.co_firstlineno + 1

    def test_the_standard_library_is_not_the_application(self) -> None:
        found = frames_of(caught(lambda: parse("{")))
        assert {frame.application for frame in found if frame.module.startswith("json")} == {False}

    @pytest.mark.parametrize(
        "file",
        [
            "/srv/venv/lib/python3.12/site-packages/httpx/_client.py",
            "/usr/lib/python3/dist-packages/requests/api.py",
            "/usr/lib/python3.11/json/decoder.py",
            "/home/ada/.pyenv/versions/3.11.7/lib/python3.11/asyncio/base_events.py",
            r"C:\Users\bob\AppData\Local\Programs\Python\Python312\Lib\json\decoder.py",
            r"C:\venv\Lib\site-packages\httpx\_client.py",
            "<frozen importlib._bootstrap>",
        ],
    )
    def test_files_of_libraries_are_recognized(self, file: str) -> None:
        assert not frames_of(raising_in(file))[0].application

    @pytest.mark.parametrize(
        "file", ["/app/shop.py", "shop.py", r"C:\code\shop.py", "<string>", "/home/lib/x.py", ""]
    )
    def test_other_files_are_of_the_application(self, file: str) -> None:
        assert frames_of(raising_in(file))[0].application

    @pytest.mark.parametrize(("module", "own"), [("redrive.engine.executor", True), ("redrives", False)])
    def test_redrive_itself_is_not_the_application(self, module: str, own: bool) -> None:
        assert frames_of(raising_in("/app/src/redrive/x.py", module))[0].application is not own

    def test_an_exception_that_was_never_raised_has_no_frames(self) -> None:
        assert frames_of(ValueError()) == ()

    def test_comprehensions_leave_no_frame_as_in_newer_pythons(self) -> None:
        functions = [frame.function for frame in frames_of(caught(lambda: parse_all(["{"])))]
        assert not [name for name in functions if "listcomp" in name]
        assert functions.index("parse") + 1 == functions.index("parse_all")

    def test_a_hostile_exception_is_read_all_the_same(self) -> None:
        class Hostile(Exception):
            @property
            def __traceback__(self) -> TracebackType | None:  # type: ignore[override]
                raise KeyboardInterrupt

        def fail() -> None:
            raise Hostile

        assert frames_of(caught(fail))[0].function.endswith("fail")

    @pytest.mark.parametrize("module", [None, 5, [], "\ud800"])
    def test_odd_module_names_do_no_harm(self, module: object) -> None:
        found = frames_of(raising_in("/app/x.py", module))
        assert value(error_type="E", frames=found).startswith("v1:")

    def test_long_ways_are_bounded_and_keep_the_application(self) -> None:
        space: dict[str, Any] = {"__name__": "shop"}
        exec("def f0():\n    raise ValueError", space)
        for number in range(1, 300):
            file = "/app/shop.py" if number == 299 else "/x/site-packages/library.py"
            source = f"def f{number}():\n    f{number - 1}()"
            exec(compile(source, file, "exec"), space)
        found = frames_of(caught(space["f299"]))
        assert len(found) <= 100
        assert [frame.function for frame in found if frame.application] == ["f0", "f299", "caught"]


class TestRecursion:
    @pytest.fixture(autouse=True)
    def deep(self) -> Any:
        before = sys.getrecursionlimit()
        yield sys.setrecursionlimit
        sys.setrecursionlimit(before)

    def test_a_deep_recursion_is_one_frame(self) -> None:
        def fail(depth: int) -> None:
            if not depth:
                raise ValueError
            fail(depth - 1)

        shallow, deep = (frames_of(caught(partial(fail, depth))) for depth in (5, 500))
        assert [frame.function for frame in shallow] == [frame.function for frame in deep]
        assert sum(frame.function.endswith("fail") for frame in deep) == 1

    @pytest.mark.parametrize("action", [lambda: ping(0), lambda: peeking(0), lambda: dive(10**9)])
    def test_runaway_recursions_group_whatever_the_depth_they_end_at(
        self, action: Callable[[], object], deep: Callable[[int], None]
    ) -> None:
        made = set()
        for limit in (*range(400, 412), 3_000):
            deep(limit)
            error = caught(action)
            assert isinstance(error, RecursionError)
            made.add(value(error_type="RecursionError", frames=frames_of(error)))
        assert len(made) == 1

    def test_other_errors_keep_the_function_they_were_raised_in(self) -> None:
        found = frames_of(caught(lambda: sink(100)))
        assert [frame.function for frame in found][:2] == ["glare", "sink"]

    def test_ten_thousand_frames_are_read_in_proportion(self, deep: Callable[[int], None]) -> None:
        deep(11_000)
        errors = [caught(partial(fall, limit)) for limit in (1_000, 10_000)]
        short, long = (seconds(partial(frames_of, error)) for error in errors)
        assert long < 40 * short + 0.05
        assert frames_of(errors[0])[0].function == frames_of(errors[1])[0].function == "fall"


def sink(depth: int) -> None:
    return sink(depth - 1) if depth else glare()


def glare() -> None:
    raise ValueError


def fall(depth: int) -> None:
    if not depth:
        raise ValueError
    fall(depth - 1)


def seconds(action: Callable[[], object]) -> float:
    def once() -> float:
        start = time.thread_time()
        action()
        return time.thread_time() - start

    return min(once() for _ in range(3))


# The variable parts of messages: one strategy for each kind

quotable = st.text(st.characters(exclude_characters="\"'`\\", exclude_categories=["Cs"]))
VARIABLE: dict[str, st.SearchStrategy[str]] = {
    "number": st.one_of(st.integers().map(str), st.floats(allow_nan=False, allow_infinity=False).map(str)),
    "grouped number": st.integers(1_000, 10**12).map("{:,}".format),
    "uuid": st.uuids().map(str),
    "hex id": st.text("0123456789abcdef", min_size=8, max_size=64),
    "upper hex id": st.text("0123456789ABCDEF", min_size=8, max_size=64),
    "address": st.integers(0, 2**64).map(hex),
    "ip": st.ip_addresses(v=4).map(str),
    "email": st.from_regex(r"[a-z0-9.]{1,9}x@[a-z0-9-]{1,9}\.(com|org|co\.uk)", fullmatch=True),
    "single quoted": quotable.map(lambda text: f"'{text}'"),
    "double quoted": quotable.map(lambda text: f'"{text}"'),
    "quoted JSON": quotable.map(json.dumps).map(json.dumps),
    "backquoted": quotable.map(lambda text: f"`{text}`"),
    "bytes": st.binary().map(lambda data: repr(data.replace(b"'", b""))),
    "path": st.from_regex(r"(/[a-z0-9_.-]{1,9}){2,5}", fullmatch=True),
    "windows path": st.from_regex(r"[A-Z]:(\\[A-Za-z0-9_]{1,9}){1,5}", fullmatch=True),
    "date": st.datetimes().map(lambda at: at.isoformat(timespec="milliseconds") + "Z"),
    "http date": st.datetimes().map(lambda at: f"{at:%a, %d %b} {at.year:04} {at:%H:%M:%S} GMT"),
    "duration": st.tuples(st.integers(0, 10**6), st.sampled_from(["ms", "s", " seconds", "m", " hours"])).map(
        lambda pair: f"{pair[0]}{pair[1]}"
    ),
    "name with number": st.integers(0, 99_999).map("worker{}".format),
    "url with id": st.integers(0).map("https://api.example.com/v1/users/{}/orders".format),
    "url with query": st.integers(0).map("https://api.example.com/users?id={}".format),
    "url with secret": st.text(string.ascii_letters, min_size=1).map("postgres://bob:{}@db/x".format),
}
SENTENCES = (
    "{}",
    "cannot load {}",
    "order {} is gone",
    "can't take {}, isn't it?",
    "({}) [{}]",
    "{}: no such user",
)


class TestNormalize:
    @loop_over("kind", VARIABLE)
    def test_what_varies_does_not_split_a_group(self, kind: str) -> None:
        @settings(max_examples=50, deadline=None)
        @given(st.sampled_from(SENTENCES), VARIABLE[kind], VARIABLE[kind])
        def check(sentence: str, one: str, other: str) -> None:
            left, right = sentence.replace("{}", one), sentence.replace("{}", other)
            assert normalize(left) == normalize(right)
            assert value(step="s", message=left) == value(step="s", message=right)

        check()

    @loop_over(
        ("message", "normal"),
        [
            ("User 42 has -3.5 of 1,000 points", "User <n> has <n> of <n> points"),
            ("KeyError: 'name'", "KeyError: <quoted>"),
            ("can't open the users' file 'a.txt'", "can't open the users' file <quoted>"),
            ("no user 'it's me' or 'it\\' s'", "no user <quoted> or <quoted>"),
            ("b'\\x00' is not \"text\"", "<quoted> is not <quoted>"),
            ('cut off: {"message": "no such', "cut off: {<quoted>: <quoted>"),
            ("<Task at 0x7f00>", "<Task at <address>>"),
            ("10.0.0.5:8080 and [fe80::1]:80", "<ip>:<n> and [<ip>]:<n>"),
            ("std::vector and a::b", "std::vector and a::b"),
            ("row 3f2504e0-4f89-11d3-9a0c-0305e82c3301", "row <uuid>"),
            (
                "POST https://bob:pw@api.example.com/v1/c/ch_3MqLiJ2e?k=v 503",
                "POST https://api.example.com/v<n>/c/ch_<n>?<query> <n>",
            ),
            ("no such file: /var/lib/app/5.txt", "no such file: <path>"),
            ("and/or 1/2", "and/or <n>/<n>"),
            ("at 2026-01-02T03:04:05.678+01:00 for 1m 30.5s", "at <date> for <duration>"),
            ("until Mon, 05 Jan 2026 10:00:00 GMT", "until <date>"),
            ("took 5 ms, 3 hours and 12:30:45", "took <duration>, <duration> and <time>"),
            ("mail to bob@example.com bounced", "mail to <email> bounced"),
            ("worker42 commit deadbeef", "worker<n> commit <n>"),
            ("  two\n\tlines\0 ", "two lines"),
            ("nested “outer “inner” rest”", "nested <quoted>"),
            ("", ""),
        ],
    )
    def test_messages_stay_readable(self, message: str, normal: str) -> None:
        assert normalize(message) == normal

    def test_words_count(self) -> None:
        assert value(message="cannot open") != value(message="cannot close")
        assert value(message="GET https://a.example.com/users") != value(
            message="GET https://a.example.com/orders"
        )

    @unhurried
    @given(any_text)
    def test_normal_text_is_left_as_it_is(self, message: str) -> None:
        normal = normalize(message)
        assert normalize(normal) == normal

    @unhurried
    @given(
        st.lists(
            st.sampled_from(
                [
                    *"5aE-+.,:/\\'\"`“”‘’«» <>…@?#_é٣\n\0",
                    "0x",
                    "::",
                    "<n>",
                    "ms",
                    "http://x",
                    "deadbeef",
                    "x" * 99,
                    "b'",
                    "1.2.3.4",
                    "May ",
                    "10:20:30",
                ]
            ),
            max_size=300,
        ).map("".join)
    )
    def test_normal_text_is_left_as_it_is_in_the_tangle_too(self, message: str) -> None:
        normal = normalize(message)
        assert normalize(normal) == normal
        assert normal != "<message>", "did not come to rest"

    @unhurried
    @given(any_text, st.integers(1, 10_000))
    def test_the_length_is_bounded(self, message: str, times: int) -> None:
        assert len(normalize(message * times)) <= 400

    @unhurried
    @given(any_text)
    def test_unprintable_characters_are_removed(self, message: str) -> None:
        assert not re.search(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]", normalize(message))

    @loop_over(
        "piece",
        [
            *"\"'`“‘«a15/.-@:\\~<_%",
            "' a",
            "'a ",
            "b'",
            '\\"',
            "a@",
            "1.",
            "1,",
            "f:",
            "::",
            "a.",
            "/a",
            "//",
            "http://",
            "a+",
            "5 s ",
            "5s",
            "Mon, ",
            "May 1",
            "0x",
            "<n",
            "<n>",
            "-1",
            "1e",
            "a1",
            "f0-",
            "1:",
            "\\u",
            "C:\\",
            "~/",
            "../",
        ],
    )
    def test_the_time_grows_in_proportion_to_the_message(self, piece: str) -> None:
        """Tenfold input may take up to forty times as long, less than the hundredfold of quadratic work."""
        short, long = (piece * (size // len(piece)) + "\\" for size in (2_000, 20_000))
        assert seconds(partial(normalize, long)) < 40 * seconds(partial(normalize, short)) + 0.02

    def test_fifty_megabytes_cost_no_more_than_their_beginning(self) -> None:
        beginning = "x 5 'y' " * 2_500
        long = beginning * 2_500
        assert normalize(long) == normalize(beginning)
        assert seconds(partial(normalize, long)) < 20 * seconds(partial(normalize, beginning)) + 0.02

    @loop_over("offset", range(8))
    def test_a_long_message_ends_with_a_sign_and_not_within_a_placeholder(self, offset: int) -> None:
        normal = normalize("x" * offset + " 'a'" * 1_000)
        assert re.fullmatch(r"x* ?(<quoted> ?)+…", normal)


class TestForOperators:
    def test_each_form_has_its_reason_as_facts(self) -> None:
        by_key = fingerprint(key="disk full", message="disk 5 is full")
        by_frames = fingerprint(error_type="ValueError", frames=[PAY, RUN], step="charge", message="no")
        by_message = fingerprint(step="charge", status=503, message="user 5 is gone")
        assert by_key == Fingerprint(by_key.value, fact("same_key", key="disk full"), "disk <n> is full")
        calls = ["shop.orders.pay", "shop.main.run"]
        assert by_frames.reason == fact("same_call_path", calls=calls, type="ValueError", step="charge")
        assert by_message.reason == fact("same_message", step="charge", status="503")
        assert by_message.pattern == "user <n> is gone"

    def test_without_a_message_the_type_is_the_pattern(self) -> None:
        assert fingerprint(error_type="ValueError", step="s").pattern == "ValueError"

    @unhurried
    @given(any_text, any_text, any_text, any_text, frames)
    def test_reason_and_pattern_are_one_printable_line_of_bounded_length(
        self, key: str, error_type: str, step: str, message: str, given_frames: list[TraceFrame]
    ) -> None:
        for chosen in (None, key * 50):
            made = fingerprint(
                key=chosen, error_type=error_type * 50, frames=given_frames, step=step, message=message * 50
            )
            for line in (text_of(made.reason), made.pattern):
                assert len(line) <= 500
                assert line.splitlines() in ([line], [])
                line.encode("utf-8")


@pytest.mark.parametrize(
    ("message", "status", "pattern"),
    [
        ("POST /labels answered 422", 422, "POST <path> answered 422"),
        ("POST /labels answered 422 after 3 tries", 422, "POST <path> answered <n> after <n> tries"),
        ("attempt 7 failed", 422, "attempt <n> failed"),
        ("POST /labels answered 422", None, "POST <path> answered <n>"),
    ],
)
def test_a_pattern_says_the_status_that_its_failures_have_in_common(
    message: str, status: int | None, pattern: str
) -> None:
    found = fingerprint(error_type="HttpStatusError", status=status, message=message)
    assert found.pattern == pattern
