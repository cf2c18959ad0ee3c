"""G5: idempotency keys are stable, readable, and never the same for different work. G6: request hashes."""

from __future__ import annotations

import math
import re
import unicodedata
from enum import IntEnum, StrEnum
from typing import Any
from uuid import UUID

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from tests.cases import loop_over

from redrive.errors import InvalidKeyError, NotStorableError
from redrive.policy.idempotency_key import KeyParts, idempotency_key, parse_idempotency_key, request_hash


class Operation(StrEnum):
    START = "start"


class Release(IntEnum):
    SECOND = 2


unhurried = settings(deadline=None)
readable = st.characters(exclude_categories=["Cc", "Cs"])
words = st.one_of(
    st.text(st.sampled_from(":%-._~aé/ "), min_size=1, max_size=8), st.text(readable, min_size=1, max_size=8)
).filter(lambda text: not text.isspace())
operations = st.lists(words, min_size=1, max_size=3).map(tuple)
parts = st.builds(KeyParts, words, words, words, operations, words)


def key_or_reject(given_parts: KeyParts) -> str:
    try:
        return idempotency_key(*given_parts)
    except InvalidKeyError as error:
        assume("characters" not in str(error))
        raise


class TestKeys:
    @pytest.mark.parametrize(
        ("arguments", "key"),
        [
            (
                ("workflow", "user_123", "run_456", "module:resume", "v1"),
                "workflow:user_123:run_456:module:resume:v1",
            ),
            (
                ("mission", "user_123", "instance_456", "start", "v1"),
                "mission:user_123:instance_456:start:v1",
            ),
            (
                ("event", "user_123", "growEventId", "project:qscore", "v1"),
                "event:user_123:growEventId:project:qscore:v1",
            ),
        ],
    )
    def test_the_examples_of_the_convention_come_out_as_written(
        self, arguments: tuple[str, ...], key: str
    ) -> None:
        assert idempotency_key(*arguments) == key
        domain, user, entity, operation, version = arguments
        assert parse_idempotency_key(key) == (domain, user, entity, tuple(operation.split(":")), version)

    def test_an_operation_of_several_words_is_given_as_text_or_one_by_one(self) -> None:
        as_text = idempotency_key("d", "u", "e", "module:resume", "v1")
        assert as_text == idempotency_key("d", "u", "e", ("module", "resume"), "v1")
        assert as_text == idempotency_key("d", "u", "e", ["module", "resume"], "v1")
        assert as_text != idempotency_key("d", "u", "e", ("module:resume",), "v1")

    @unhurried
    @given(parts, parts)
    @example(KeyParts("a", "b:c", "d", ("e",), "f"), KeyParts("a:b", "c", "d", ("e",), "f"))
    @example(KeyParts("a", "b", "c", ("d:e",), "f"), KeyParts("a", "b", "c", ("d", "e"), "f"))
    @example(KeyParts("a", "b", "%3A", ("e",), "f"), KeyParts("a", "b", ":", ("e",), "f"))
    @example(KeyParts("a", "b", "é", ("e",), "f"), KeyParts("a", "b", "e\u0301", ("e",), "f"))
    def test_different_parts_never_give_the_same_key(self, one: KeyParts, other: KeyParts) -> None:
        assert (key_or_reject(one) == key_or_reject(other)) == (one == other)

    @unhurried
    @given(parts)
    def test_the_parts_can_be_read_back(self, given_parts: KeyParts) -> None:
        assert parse_idempotency_key(key_or_reject(given_parts)) == given_parts

    @unhurried
    @given(parts)
    def test_a_key_is_safe_in_a_header_a_url_and_a_database(self, given_parts: KeyParts) -> None:
        key = key_or_reject(given_parts)
        assert re.fullmatch(r"(?:[A-Za-z0-9._~:-]|%[0-9A-F]{2})+", key)
        assert len(key) <= 255

    def test_unicode_is_escaped_and_not_normalized(self) -> None:
        composed = idempotency_key("d", "Zoé", "e", "o", "v1")
        decomposed = idempotency_key("d", unicodedata.normalize("NFD", "Zoé"), "e", "o", "v1")
        assert composed == "d:Zo%C3%A9:e:o:v1"
        assert decomposed == "d:Zoe%CC%81:e:o:v1"

    @loop_over(
        ("part", "text"),
        [
            (42, "42"),
            (-1, "-1"),
            (2**512 - 1, str(2**512 - 1)),
            (UUID(int=255), "00000000-0000-0000-0000-0000000000ff"),
            (Operation.START, "start"),
            (Release.SECOND, "2"),
            ("a b", "a%20b"),
            ("bob@example.com", "bob%40example.com"),
            ("50%", "50%25"),
        ],
    )
    def test_text_numbers_and_uuids_are_accepted(self, part: Any, text: str) -> None:
        assert idempotency_key("d", "u", part, "o", "v1") == f"d:u:{text}:o:v1"
        assert idempotency_key("d", "u", "e", ("module", part), "v1") == f"d:u:e:module:{text}:v1"

    def test_a_single_number_can_be_the_operation(self) -> None:
        assert idempotency_key("d", "u", "e", 5, 1) == "d:u:e:5:1"


NAMES = ("domain", "user_id", "entity_id", "operation", "version")


class TestRefusals:
    @loop_over("name", NAMES)
    @loop_over(
        ("part", "problem"),
        [
            ("", "empty"),
            (" \u2003", "blank"),
            ("a\0b", "control"),
            ("a\nb", "control"),
            ("\x7f", "control"),
            ("\x85a", "control"),
            ("\ud800", "surrogates"),
            ("a\udfff", "surrogates"),
            (True, "bool"),
            (1.5, "float"),
            (math.nan, "float"),
            (None, "NoneType"),
            (b"a", "bytes"),
            ({"a": 1}, "dict"),
            (2**512, "513 bits"),
            (1 << 10_000_000, "bits"),
        ],
    )
    def test_parts_that_cannot_be_distinguished_are_refused_by_name(
        self, name: str, part: object, problem: str
    ) -> None:
        arguments: dict[str, Any] = dict.fromkeys(NAMES, "x") | {name: part}
        with pytest.raises(InvalidKeyError, match=f"^{name} .*{problem}"):
            idempotency_key(**arguments)

    @loop_over("operation", ["a::b", ":a", "a:", ":", (), [], ("a", ""), (None,), (("a",),)])
    def test_an_operation_has_no_empty_words(self, operation: Any) -> None:
        with pytest.raises(InvalidKeyError, match=r"^operation "):
            idempotency_key("d", "u", "e", operation, "v1")

    def test_a_key_has_at_most_255_characters_and_the_message_says_what_to_do(self) -> None:
        assert len(idempotency_key("d", "u", "x" * 246, "o", "v1")) == 255
        with pytest.raises(InvalidKeyError, match=r"256 characters, 247 of them in 'xxx.*request_hash"):
            idempotency_key("d", "u", "x" * 247, "o", "v1")
        assert len(idempotency_key("d", "u", request_hash("x" * 247), "o", "v1")) < 255

    def test_a_very_long_part_is_refused_with_a_short_message(self) -> None:
        with pytest.raises(InvalidKeyError) as caught:
            idempotency_key("d", "u", "é" * 100_000, "o", "v1")
        assert len(str(caught.value)) < 400

    @loop_over(
        "key",
        [
            "",
            "a:b:c:d",
            "a:b:c::e",
            ":b:c:d:e",
            "a:b:c:d:",
            "a:b:c:d:é",
            "a:b:c:d:%3a",
            "a:b:c:d:%41",
            "a:b:c:d:%4",
            "a:b:c:d:%FF",
            "a:b:c:d:%00",
            "a:b:c:d:e f",
            "a:b:c:d:%20",
            "a:b:c:d:%ED%A0%80",
            "a:b:c:d:\ud800",
            "a:b:c:" + "d" * 300 + ":e",
            None,
            b"a:b:c:d:e",
        ],
    )
    def test_texts_that_no_parts_give_are_not_read(self, key: Any) -> None:
        with pytest.raises(InvalidKeyError):
            parse_idempotency_key(key)

    @unhurried
    @given(st.one_of(st.text(), st.text(":%aC3A9é ")))
    def test_any_text_is_the_key_of_its_parts_or_refused(self, text: str) -> None:
        try:
            read = parse_idempotency_key(text)
        except InvalidKeyError:
            return
        assert idempotency_key(*read) == text


json_values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=4)),
    max_leaves=12,
)


def reordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: reordered(item) for key, item in reversed(value.items())}
    return [reordered(item) for item in value] if isinstance(value, list) else value


class TestRequestHash:
    @unhurried
    @given(json_values)
    def test_g6_the_same_request_has_the_same_hash_whatever_the_order_of_keys(self, value: object) -> None:
        assert request_hash(value) == request_hash(reordered(value))

    @unhurried
    @given(json_values, json_values)
    def test_g6_different_requests_have_different_hashes(self, one: object, other: object) -> None:
        assert (request_hash(one) == request_hash(other)) == (spelled(one) == spelled(other))

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ([1, 2], [2, 1]),
            ({"a": 1}, {"a": "1"}),
            ({"a": 1}, {"a": 1.0}),
            ({"a": 1}, {"a": True}),
            ({"a": None}, {}),
            ("a\0", "a␛0000"),
            ({"a": {"b": 1}}, {"a": {"c": 1}}),
        ],
    )
    def test_g6_a_different_type_or_order_of_a_list_is_another_request(
        self, one: object, other: object
    ) -> None:
        assert request_hash(one) != request_hash(other)

    def test_g6_the_hash_does_not_change_between_releases(self) -> None:
        """Hashes live as long as their keys: a change here turns retried requests into conflicts."""
        assert (
            request_hash({"b": [1, 2.5, None], "a": "é\0"})
            == "5ac317c801af4b64b04be6fb5f4a0a1adaf4b05cbbdda0bd255397742b1dd6fa"
        )

    def test_a_request_that_cannot_be_stored_has_no_hash(self) -> None:
        with pytest.raises(NotStorableError, match=r"^\$\.at "):
            request_hash({"at": {1, 2}})


def spelled(value: object) -> str:
    """Write a value so that two texts differ if the values differ in more than the order of keys."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{key!r}:{spelled(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(spelled, value)) + "]"
    return repr(value)
