"""W14: Redrive redacts before it stores. I9: no secret is found in a dead letter, a log or an audit entry."""

from __future__ import annotations

import copy
import json
import traceback
from base64 import b64encode
from collections import Counter, OrderedDict, namedtuple
from dataclasses import dataclass
from enum import Enum, StrEnum
from time import process_time
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from tests.cases import loop_over
from tests.policy import redaction_corpus as corpus

from redrive.policy.redact import DEFAULT_REDACTOR, MAX_TEXT_LENGTH, Redactor
from redrive.policy.redact.marker import MARKER

PLAIN = Redactor()
KEYED = Redactor(key=b"the key of org one")
OTHER = Redactor(key=b"the key of org two")
GITHUB = "gh" + "p_" + "a1B2" * 9


# recall and false positives (W14, I9)


@pytest.mark.parametrize(("name", "least"), [("written beside", 0.98), ("held out", 0.98), ("unseen", 0.95)])
def test_w14_recall(name: str, least: float) -> None:
    samples = corpus.SETS[name][0]()
    assert 1 - len(corpus.missed(samples, PLAIN)) / len(samples) >= least


@pytest.mark.parametrize("name", corpus.SETS)
def test_w14_false_positives(name: str) -> None:
    contents = corpus.SETS[name][1]()
    assert len(corpus.wrongly_redacted(contents, PLAIN)) / len(contents) <= 0.01


def test_i9_every_sample_of_a_named_kind_is_found() -> None:
    samples = [*corpus.secret_samples(), *corpus.held_out_samples()]
    missed = Counter(sample.kind for sample, _ in corpus.missed(samples, PLAIN))
    assert set(missed) <= {"hard"}


def test_the_corpus_is_as_large_as_it_claims() -> None:
    assert len(corpus.secret_samples()) >= 600
    assert len(corpus.clean_contents()) >= 1500
    assert corpus.secret_samples() == corpus.secret_samples()


def test_clean_text_comes_back_as_the_same_object() -> None:
    for content in corpus.clean_contents():
        if isinstance(content, str):
            assert PLAIN.text(content) is content


# names

SECRET_NAMES = corpus.words("""
    password passwd pwd secret token api_key apiKey api-key APIKEY authorization Proxy-Authorization
    cookie Set-Cookie private_key client_secret access_key session session_id sessionId JSESSIONID
    csrf X-CSRF-Token otp pin cvv cvc ssn iban credentials connection_string sentry_dsn X-Api-Key
    DB_PASSWORD stripeSecretKey PGPASSWORD SECRET_KEY_BASE password2 password_hash user.password
    oauth_token_secret accessKeySecret passphrase verification_code smtp_pass card_number
""")
HARMLESS_NAMES = corpus.words("""
    monkey keyboard author authority secretary tokens_used max_tokens total_tokens prompt_tokens
    token_count tokenCount token_type token_endpoint next_page_token password_reset_at
    password_min_length has_password session_count cookie_consent public_key primary_key foreign_key
    cache_key idempotency_key sort_key key key_id api_key_id secret_name secret_arn auth_method
    shipping pinned spin compass bypass passenger signal design side tokenizer
    authorization_endpoint
""")


@loop_over("name", SECRET_NAMES)
def test_w14_a_value_under_a_secret_name_is_replaced_whatever_it_is(name: str) -> None:
    for value in ("hunter2hunter2", 481516234299, 3.5, ["hunter2"], {"a": "x"}, b"hunter2", ("x", 1)):
        redacted = PLAIN.value({name: value, "n": 1})
        assert redacted["n"] == 1
        assert MARKER.fullmatch(redacted[name])


@loop_over("name", HARMLESS_NAMES)
def test_w14_a_harmless_name_stays(name: str) -> None:
    value = {name: "plain text", "list": [{name: 12}]}
    assert PLAIN.value(value) == value


@loop_over("nothing", [None, True, False, "", [], {}, (), b""])
def test_nothing_under_a_secret_name_stays(nothing: object) -> None:
    assert PLAIN.value({"password": nothing}) == {"password": nothing}


def test_counts_under_a_plural_stay_and_texts_do_not() -> None:
    assert PLAIN.value({"tokens": 12, "n": {"tokens": {"in": 1, "out": 2}}}) == {
        "tokens": 12,
        "n": {"tokens": {"in": 1, "out": 2}},
    }
    assert PLAIN.value({"tokens": ["hunter2"]}) == {"tokens": ["[redacted:token]"]}


def test_a_name_next_to_its_value() -> None:
    assert PLAIN.value([{"name": "DB_PASSWORD", "value": "x"}]) == [
        {"name": "DB_PASSWORD", "value": "[redacted:password]"}
    ]
    assert PLAIN.value({"loc": ["body", "password"], "input": "x"})["input"] == "[redacted:password]"
    assert PLAIN.value([["Cookie", "a=b"]]) == [["Cookie", "[redacted:cookie]"]]
    assert PLAIN.value(["x", "--token", "abc", "y"]) == ["x", "--token", "[redacted:token]", "y"]


# markers


def test_without_a_key_a_marker_reveals_nothing_of_the_secret() -> None:
    assert DEFAULT_REDACTOR.text("password=hunter2") == "password=[redacted:password]"


def test_equal_secrets_of_one_org_are_seen_to_be_equal_and_no_others() -> None:
    first, again, other = KEYED.text(f"token={GITHUB}"), KEYED.value({"password": GITHUB}), OTHER.text(GITHUB)
    assert first == f"token=[redacted:github_token:{_hash(first)}]"
    assert _hash(first) == _hash(again["password"]) != _hash(other)
    assert _hash(KEYED.value({"pin": 1234})["pin"]) == _hash(KEYED.text("pin=1234"))
    assert Redactor(key=b"k" * 500).text(GITHUB) != Redactor(key=b"k" * 501).text(GITHUB)


def _hash(text: str) -> str:
    return text.rpartition(":")[2].rstrip("]")


def test_a_marker_of_another_redactor_is_left_alone() -> None:
    text = KEYED.text(f"Authorization: Bearer {GITHUB}, password='hunter2', https://a:b@c.io")
    assert OTHER.text(text) == PLAIN.text(text) == text


def test_a_forged_marker_does_not_cover_a_secret() -> None:
    assert "hunter2" not in PLAIN.text("password=[redacted:password]hunter2hunter2")


def test_a_card_leaves_no_digit() -> None:
    card = "4111" + " 1111" * 3
    assert PLAIN.text(f"paid with {card}, 12/29") == "paid with [redacted:card], 12/29"
    assert PLAIN.value({"n": int(card.replace(" ", ""))}) == {"n": "[redacted:card]"}


def test_a_url_keeps_its_scheme_user_and_host() -> None:
    redacted = PLAIN.text(f"no answer from postgresql://ada:{GITHUB[:9]}@db.example.com:5432/app")
    assert redacted == "no answer from postgresql://ada:[redacted:url_password]@db.example.com:5432/app"


# JSON within strings


@pytest.mark.parametrize(
    ("secret", "kind"),
    [
        ("Bearer zT3L4JskvouVs6ilp4A", "base64_credentials"),
        ("basic YWRhOm15IGtpbmdkb20=", "base64_credentials"),
        *(
            (f"-----BEGIN {name}PRIVATE KEY-----\n{'MIIc' * 16}", "base64_private_key")
            for name in ("", "RSA ", "EC ", "DSA ", "OPENSSH ", "ENCRYPTED ")
        ),
    ],
)
def test_bytes_that_json_holds_as_base64_are_still_secret(secret: str, kind: str) -> None:
    text = b64encode(secret.encode()).decode()
    assert Redactor().value([["YXV0aG9yaXphdGlvbg==", text]]) == [
        ["YXV0aG9yaXphdGlvbg==", f"[redacted:{kind}]"]
    ]
    certificate = b64encode(b"-----BEGIN CERTIFICATE-----" + b"MIIc" * 16).decode()
    assert Redactor().value([certificate]) == [certificate]


def test_json_in_a_string_is_redacted_as_json() -> None:
    inner = json.dumps({"credentials": {"user": "ada", "key": "hunter2"}, "n": [1, 2.5, None]})
    redacted = json.loads(json.loads(PLAIN.text(json.dumps({"body": inner})))["body"])
    assert redacted == {"credentials": "[redacted:credentials]", "n": [1, 2.5, None]}


def test_json_without_a_secret_is_returned_byte_for_byte() -> None:
    text = '{ "tokens_used":15,\t"max_tokens" : 4096, "x": 1.10, "x2": NaN, "u": "\\u00e9" }\n'
    assert PLAIN.text(text) is text


def test_json_with_a_name_twice_is_still_redacted() -> None:
    assert "hunter2" not in PLAIN.text('{"password": "hunter2", "password": null}')


def test_json_stays_ascii_if_it_was() -> None:
    assert PLAIN.text('{"password": "x", "u": "\\ud800"}').isascii()


def test_broken_and_truncated_json_is_redacted_as_text() -> None:
    assert "hunter2" not in PLAIN.text('{"a": [{"password": "hunter2", "b": ')
    assert "hunter2" not in PLAIN.text('{"a": {"password": "hunter2')


# exception messages


def test_i9_a_traceback_keeps_its_frames_and_loses_its_secrets() -> None:
    try:
        raise ConnectionError(f"Max retries exceeded with url: /v1?page=2&token={GITHUB} (Caused by timeout)")
    except ConnectionError as error:
        text = "".join(traceback.format_exception(error))
    redacted = PLAIN.text(text)
    assert GITHUB not in redacted
    assert "/v1?page=2&token=[redacted:github_token] (Caused by timeout)" in redacted
    assert redacted.count("\n") == text.count("\n")


def test_i9_an_error_as_a_value_is_its_redacted_repr() -> None:
    assert PLAIN.value({"error": ValueError("password=hunter2")}) == {
        "error": "ValueError('password=[redacted:password]')"
    }


def test_the_source_lines_of_a_traceback_stay() -> None:
    line = "    return connect(user=user, password=self.password, token=token, api_key=get_key())"
    assert PLAIN.text(line) is line


# settings


def test_extra_keys_are_secret_in_values_and_texts() -> None:
    redactor = Redactor(extra_keys=["customerNumber", "größe"])
    assert redactor.value({"customer_number": 7}) == {"customer_number": "[redacted:customer_number]"}
    assert redactor.text("Customer-Number: 70001") == "Customer-Number: [redacted:customer_number]"
    assert redactor.value({"größe": "x"}) == {"größe": "[redacted:custom]"}


def test_allowed_keys_stay_but_tokens_under_them_do_not() -> None:
    redactor = Redactor(allow_keys=["session_id"])
    assert redactor.value({"sessionId": "abc"}) == {"sessionId": "abc"}
    assert redactor.value({"session_id": GITHUB}) == {"session_id": "[redacted:github_token]"}


def test_extra_patterns_are_secret_and_never_cut_into_a_marker() -> None:
    redactor = Redactor(key=b"k", extra_patterns=[r"EMP-\d+", r"[a-z0-9]+"])
    redacted = redactor.text("EMP-123 token=hunter2")
    assert "123" not in redacted
    assert redactor.text(redacted) == redacted


# hostile values


class Liar:
    """An object whose every attribute raises or lies."""

    @property
    def __class__(self) -> Any:
        raise RuntimeError("no")

    @__class__.setter
    def __class__(self, _: Any) -> None:
        raise RuntimeError("no")

    def __repr__(self) -> str:
        raise RuntimeError("no")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    def __hash__(self) -> int:
        return 7

    __str__ = __repr__


class Quitter:
    def __repr__(self) -> str:
        raise SystemExit


class LyingText(str):
    def lower(self) -> str:
        return "nothing here"

    def __len__(self) -> int:
        return 0

    __str__ = __repr__ = lower


class LyingMapping(dict[str, str]):
    def items(self) -> Any:
        raise RuntimeError("no")

    __iter__ = keys = values = items


@dataclass
class Settings:
    host: str
    password: str


Login = namedtuple("Login", ["user", "password"])


class Mode(StrEnum):
    FAST = "fast"


class Level(Enum):
    HIGH = 1


def test_objects_that_raise_become_a_marker() -> None:
    assert PLAIN.value([Liar(), Quitter()]) == ["[redacted:unprintable]", "[redacted:unprintable]"]
    assert PLAIN.value({Liar(): 1, "a": 2}) == {"[redacted:unprintable]": 1, "a": 2}
    assert PLAIN.value({"password": Liar()}) == {"password": "[redacted:unprintable]"}


def test_subclasses_are_read_as_their_base_types() -> None:
    assert PLAIN.value(LyingText("password=hunter2")) == "password=[redacted:password]"
    assert PLAIN.text(LyingText("password=hunter2")) == "password=[redacted:password]"
    assert PLAIN.value(LyingMapping(password="x", a="b")) == {"password": "[redacted:password]", "a": "b"}
    assert PLAIN.value(OrderedDict(pin=1)) == {"pin": "[redacted:pin]"}
    assert PLAIN.value(MappingProxyType({"pin": 1})) == {"pin": "[redacted:pin]"}
    assert PLAIN.value(Login("ada", "x")) == ("ada", "[redacted:password]")
    assert PLAIN.value(Mode.FAST) == "fast"


def test_other_objects_become_their_redacted_repr() -> None:
    assert PLAIN.value(Settings("db", "x")) == "Settings(host='db', password='[redacted:password]')".replace(
        "test_redact.", ""
    )
    assert PLAIN.value([Level.HIGH, {GITHUB}]) == ["<Level.HIGH: 1>", "{'[redacted:github_token]'}"]
    assert PLAIN.value(bytearray(b"password=hunter2")) == b"password=[redacted:password]"
    assert PLAIN.value(b"\xff\x00 clean") == b"\xff\x00 clean"


def test_a_value_that_contains_itself_ends() -> None:
    loop: dict[str, Any] = {"a": []}
    loop["a"].append(loop)
    assert PLAIN.value(loop) == {"a": ["[redacted:cycle]"]}


def test_a_value_too_deep_is_cut_and_nothing_raised() -> None:
    deep: Any = "password=hunter2"
    for _ in range(100_000):
        deep = [deep]
    redacted = PLAIN.value(deep)
    assert PLAIN.value(redacted) == redacted
    assert repr(redacted).count("[") == 64 + 1
    assert "hunter2" not in PLAIN.text('{"a":' * 50_000 + '"x"' + "}" * 50_000 + " password=hunter2")


def test_one_part_shared_over_and_over_is_walked_once() -> None:
    shared: Any = {"password": "hunter2"}
    for _ in range(60):
        shared = [shared, shared]
    redacted = PLAIN.value(shared)
    for _ in range(60):
        redacted = redacted[1]
    assert redacted == {"password": "[redacted:password]"}


def test_keys_that_are_secrets_are_redacted_and_none_is_lost() -> None:
    others = [GITHUB[:-1] + letter for letter in "xyz"]
    assert PLAIN.value(dict.fromkeys([*others, "a", 1, None, (2, GITHUB)], 0)) == {
        "[redacted:github_token]": 0,
        "[redacted:github_token]#2": 0,
        "[redacted:github_token]#3": 0,
        "a": 0,
        1: 0,
        None: 0,
        (2, "[redacted:github_token]"): 0,
    }


@pytest.mark.parametrize("padding", range(-30, 31, 15))
def test_a_secret_across_the_cut_of_a_long_text_does_not_survive(padding: int) -> None:
    text = (
        "word " * ((MAX_TEXT_LENGTH + padding) // 5 - 10)
        + "x" * padding
        + f" {GITHUB} password=hunter2hunter2 " * 3
    )
    redacted = PLAIN.text(text)
    assert not corpus.survives(GITHUB, redacted)
    assert not corpus.survives("hunter2hunter2", redacted)
    assert len(redacted) <= MAX_TEXT_LENGTH
    assert PLAIN.text(redacted) == redacted


def test_a_text_that_grows_past_the_limit_stays_within_it() -> None:
    redacted = PLAIN.text("pin=1 " * 40_000)
    assert len(redacted) <= MAX_TEXT_LENGTH
    assert redacted.endswith("[redacted:rest]")
    assert PLAIN.text(redacted) == redacted


# hostile texts: ten times the length takes about ten times as long

UNITS = [
    *(
        "a",
        "a=",
        "a_b_",
        "aB",
        "A1b2-",
        "1",
        "4111 ",
        "4111-",
        "\\",
        '\\"',
        '"',
        "'",
        "{",
        "[",
        '{"a":',
        '["',
        "<a ",
    ),
    *(
        "password=",
        "password:",
        "password ",
        "4password:",
        'token="',
        'token=\\"',
        "token='",
        "secret={",
        "secret=(",
    ),
    *(
        "secret=<",
        "token=a,",
        "token=a;",
        "token=a&",
        "token=\\n",
        "token%3D",
        "token -> ",
        "--token ",
        "<password>",
    ),
    *(
        "<password ",
        "name='token', value=",
        "), ('token', '",
        "api key:",
        "?key=",
        "?code=",
        "&token=",
        "cookie: ",
    ),
    *(
        "cookie=a;",
        '"cookie: a=b;',
        "authorization: a ",
        "authorization=Digest a=",
        "passphrase: a b c ",
        "Bearer a",
    ),
    *(
        "basic ",
        "a://",
        "a://b:",
        "a://b:c/",
        "://aaaaaaaaaaaaaaaaaaaa1:",
        "@tcp(",
        "root:a@tcp(",
        "jdbc:oracle:x:",
    ),
    *(
        "-u a:",
        "login ",
        "mysql ",
        "redis-cli ",
        "password is ",
        "password\n  input_value=",
        "auth code ",
        "eyJ-",
    ),
    *(
        "eyJabcdefghij.",
        "rdk_0123456789abcdef0123456789abcdef_-",
        "gh" + "p_",
        "xo" + "xb-",
        "-----BEGIN " + "PRIVATE KEY-----",
        "-----BEGIN ",
        "EAAA",
    ),
    *(
        "[redacted:token]",
        "[redacted:token:",
        "token=[redacted:token]",
        "\x1b[0m",
        "&quot;",
        "hooks.slack.com/services/",
    ),
]


def _seconds(value: Any) -> float:
    def once() -> float:
        fresh = Redactor()  # its cache is still empty
        started = process_time()
        fresh.value(value)
        return process_time() - started

    return min(once() for _ in range(2))


@loop_over("unit", UNITS)
def test_the_time_grows_with_the_length_of_the_text_only(unit: str) -> None:
    small, large = (unit * (size // len(unit)) for size in (1_000, 10_000))
    assert _seconds(large) < 40 * max(_seconds(small), 0.0005)


@loop_over("unit", UNITS)
def test_the_time_grows_with_the_length_of_a_value_only(unit: str) -> None:
    small, large = (f"token={unit * (size // len(unit))}" for size in (2_000, 20_000))
    assert _seconds(large) < 40 * max(_seconds(small), 0.0005)


@pytest.mark.parametrize("unit", ["a_", "Ab", "password", "x-", "[redacted:x]"])
def test_the_time_grows_with_the_length_of_a_name_only(unit: str) -> None:
    small, large = ({unit * (size // len(unit)): "x"} for size in (3_000, 30_000))
    assert _seconds(large) < 40 * max(_seconds(small), 0.0005)


def test_the_time_grows_with_the_number_of_equal_markers_only() -> None:
    small, large = ({GITHUB + str(number): 0 for number in range(size)} for size in (300, 3_000))
    assert _seconds(large) < 40 * max(_seconds(small), 0.0005)


# properties

FRAGMENTS = st.sampled_from(
    [
        *UNITS,
        GITHUB,
        "hunter2",
        " ",
        "\n",
        "Authorization: Bearer ",
        "}",
        "]",
        ")",
        "null",
        ",",
        "https://a:b@c.io",
    ]
)
TEXTS = st.one_of(
    st.text(max_size=40),
    st.lists(FRAGMENTS, max_size=8).map("".join),
    st.lists(FRAGMENTS, max_size=4).map(json.dumps),
    st.sampled_from(
        [sample.content for sample in corpus.secret_samples() if isinstance(sample.content, str)]
    ),
)
KEYS = st.one_of(
    TEXTS, st.sampled_from(corpus.NAMES), st.integers(), st.none(), st.booleans(), st.binary(max_size=8)
)
LEAVES = st.one_of(TEXTS, st.none(), st.booleans(), st.integers(), st.floats(), st.binary(max_size=30))
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.tuples(inner, inner),
        st.dictionaries(KEYS, inner, max_size=4),
        st.dictionaries(st.sampled_from(["name", "value", "loc", "input"]), inner, max_size=3),
    ),
    max_leaves=12,
)
THOROUGH = settings(max_examples=150, deadline=None)


@THOROUGH
@given(TEXTS)
@example("token=[redacted:x][redacted:y] z")
@example('"password": "')
@example("auth: Bearer: token: secret=")
def test_redacting_a_text_twice_changes_nothing_more(text: str) -> None:
    for redactor in (PLAIN, KEYED):
        redacted = redactor.text(text)
        assert redactor.text(redacted) == redacted
        assert PLAIN.text(redacted) == redacted


@THOROUGH
@given(VALUES)
@example(["-Token 000=", "0"])
@example({"name": None, "value": "0", "loc": "AK" + "IA" + "0" * 16})
def test_redacting_a_value_twice_changes_nothing_more(value: Any) -> None:
    redacted = KEYED.value(value)
    assert repr(KEYED.value(redacted)) == repr(redacted)


@THOROUGH
@given(VALUES)
def test_the_value_is_not_touched_and_its_structure_kept(value: Any) -> None:
    before = copy.deepcopy(value)
    redacted = PLAIN.value(value)
    assert repr(value) == repr(before)
    assert _same_shape(value, redacted)


def _same_shape(before: Any, after: Any) -> bool:
    if isinstance(after, str) and MARKER.fullmatch(after):
        return True
    if type(before) is not type(after):
        return False
    if isinstance(before, dict):
        return len(before) == len(after) and all(map(_same_shape, before.values(), after.values()))
    if isinstance(before, list | tuple):
        return len(before) == len(after) and all(map(_same_shape, before, after))
    return isinstance(before, str | bytes) or repr(before) == repr(after)


@settings(deadline=None)
@given(st.text(min_size=6, max_size=30), st.sampled_from(corpus.NAMES))
def test_i9_no_piece_of_a_value_under_a_secret_name_survives(secret: str, name: str) -> None:
    canary = f"Canary{secret}9"
    around = json.dumps({"x": [{name: "[redacted:]"}]}, ensure_ascii=False)
    assume(not corpus.survives(canary, around))  # the name already contains a secret such as "_token"
    assert not corpus.survives(canary, json.dumps(PLAIN.value({"x": [{name: canary}]}), ensure_ascii=False))
    assert not corpus.survives(canary, PLAIN.text(json.dumps({"x": [{name: canary}]}, ensure_ascii=False)))


@settings(deadline=None)
@given(st.text(min_size=1, max_size=30).filter(lambda text: not MARKER.fullmatch(text)))
def test_the_same_key_gives_the_same_marker_and_another_key_another(secret: str) -> None:
    marker = KEYED.value({"token": secret})["token"]
    assert marker == Redactor(key=b"the key of org one").value({"token": secret})["token"]
    assert marker != OTHER.value({"token": secret})["token"]
