"""The fingerprint of a failure: failures with the same one are shown, triaged and replayed as one group.

It is a digest of the first of these that is available:

    an explicit key
    the type of the exception, the application frames, the step and the status
    the type of the exception, the normalized message, the step and the status

Line numbers, library frames and the variable parts of a message do not count, so that a group survives a
release. The fingerprint starts with the version of these rules, which every change of the rules increments.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain
from types import TracebackType

from redrive.model.fact import Fact, fact
from redrive.policy import exception

VERSION = "v1"
MAX_FRAMES = 8
MAX_PATTERN_LENGTH = 400
MAX_REMEMBERED, MAX_REMEMBERED_LENGTH = 256, 1_000
"""The number of recent fingerprints to cache, and the maximum length of their messages: failures repeat."""

_Situation = tuple[str | None, str | None, str | None]
_Places = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class TraceFrame:
    module: str
    function: str
    file: str = ""
    line: int = 0
    application: bool = True


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """A fingerprint. `reason` says why failures share it; `pattern` is the message without its variable
    parts."""

    value: str
    reason: Fact
    pattern: str

    def __str__(self) -> str:
        return self.value


def fingerprint(
    *,
    key: str | None = None,
    error_type: str | None = None,
    frames: Sequence[TraceFrame] = (),
    step: str | None = None,
    status: int | str | None = None,
    message: str | None = None,
) -> Fingerprint:
    """Compute the fingerprint of a failure; `frames` starts with the deepest, as `frames_of` returns them."""
    text = message or ""
    compute = _computed if len(text) > MAX_REMEMBERED_LENGTH or key else _remembered
    return compute(key, (error_type, step, None if status is None else str(status)), _places(frames), text)


def _computed(key: str | None, situation: _Situation, places: _Places, message: str) -> Fingerprint:
    error_type, step, status = situation
    text = normalize(message)
    pattern = _with_status(text, message, status) or _abbreviate(error_type or key or step or "failure")
    if error_type and not re.search(r"[^\W\d_]", re.sub(r"<[a-z]+>", "", text)):
        pattern = ": ".join(filter(None, (_abbreviate(error_type), text)))
    if key:
        return Fingerprint(_digest("key", key), fact("same_key", key=_abbreviate(key)), pattern)
    if places:
        return Fingerprint(*_by_places(situation, places), pattern)
    return Fingerprint(
        _digest("message", *situation, text), fact("same_message", **_known(situation)), pattern
    )


_remembered = lru_cache(MAX_REMEMBERED)(_computed)


def fingerprint_of(
    error: BaseException, *, step: str | None = None, status: int | str | None = None, key: str | None = None
) -> Fingerprint:
    """Compute the fingerprint of a caught exception."""
    return fingerprint(
        key=key,
        error_type=exception.type_name(type(error)),
        frames=frames_of(error),
        step=step,
        status=status,
        message=exception.text(error),
    )


@lru_cache(MAX_REMEMBERED)
def _by_places(situation: _Situation, places: _Places) -> tuple[str, Fact]:
    calls = [_abbreviate(".".join(place)) for place in places[:2]]
    reason = fact("same_call_path", calls=calls, **_known(situation))
    return _digest("frames", *situation, *chain(*places)), reason


def _places(frames: Iterable[TraceFrame]) -> _Places:
    places = dict.fromkeys((frame.module, frame.function) for frame in frames if frame.application)
    return tuple(places)[:MAX_FRAMES]


def _digest(*parts: str | None) -> str:
    """Hash the parts, each after its length, so that different parts never give the same bytes."""
    from hashlib import sha256  # imported here because it loads OpenSSL, so that `import redrive` stays fast

    digest = sha256()
    for part in parts:
        data = b"" if part is None else part.encode("utf-8", "surrogatepass")
        digest.update(b"-" if part is None else b"%d:" % len(data))
        digest.update(data)
    return f"{VERSION}:{digest.hexdigest()[:40]}"


def _known(situation: _Situation) -> dict[str, str]:
    named = zip(("type", "step", "status"), situation, strict=True)
    return {name: _abbreviate(part) for name, part in named if part}


def _with_status(text: str, message: str, status: str | None) -> str:
    """Put the status, which all failures of a group share, into the pattern if it is the only number."""
    if status is None or text.count("<n>") != 1 or not re.search(rf"\b{re.escape(status)}\b", message):
        return text
    return text.replace("<n>", status)


def _abbreviate(text: str) -> str:
    line = _on_one_line(text[:MAX_PATTERN_LENGTH])
    return line if len(line) <= 80 else f"{line[:79]}…"


# Frames

_MAX_READ = 50
_COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>"})
_LIBRARY = r"/(?:site|dist)-packages/|/lib/python3\.|/python3\d+/lib/|^<frozen "


def frames_of(error: BaseException) -> tuple[TraceFrame, ...]:
    """Return the functions of the traceback once each, deepest first: at most 50 application frames and 50
    library frames."""
    seen: dict[int, TracebackType] = {}
    times: Counter[int] = Counter()
    for traceback in _tracebacks(error):
        code = id(traceback.tb_frame.f_code)
        seen.setdefault(code, traceback)
        times[code] += 1
    if issubclass(type(error), RecursionError):
        seen = _without_last_calls(seen, times)
    return tuple(_bounded(map(_frame, reversed(seen.values()))))


def traceback_of(error: BaseException) -> TracebackType | None:
    """Read the traceback through BaseException, because a subclass may return anything."""
    trace: TracebackType | None = BaseException.__dict__["__traceback__"].__get__(error)
    return trace


def _tracebacks(error: BaseException) -> Iterator[TracebackType]:
    traceback = traceback_of(error)
    while traceback is not None:
        # Comprehensions have separate frames only up to Python 3.11.
        if traceback.tb_frame.f_code.co_name not in _COMPREHENSIONS:
            yield traceback
        traceback = traceback.tb_next


def _without_last_calls(seen: dict[int, TracebackType], times: Counter[int]) -> dict[int, TracebackType]:
    """Keep the repeating functions of a runaway recursion; drop the last calls, which are not its cause."""
    kept: dict[int, TracebackType] = {}
    running_away = False
    for code, traceback in seen.items():
        repeats = times[code] > 3
        running_away = running_away or repeats
        if repeats or not running_away:
            kept[code] = traceback
    return kept


def _frame(traceback: TracebackType) -> TraceFrame:
    frame = traceback.tb_frame
    module = frame.f_globals.get("__name__")
    name = module if type(module) is str else "?"
    file = frame.f_code.co_filename
    return TraceFrame(
        name, frame.f_code.co_qualname, file, traceback.tb_lineno or 0, is_application(name, file)
    )


def is_application(module: str, file: str) -> bool:
    """Return whether code belongs to the application, not to a library, Python or Redrive."""
    if module == "redrive" or module.startswith("redrive."):
        return False
    return re.search(_LIBRARY, file.replace("\\", "/").lower()) is None


def _bounded(frames: Iterable[TraceFrame]) -> Iterator[TraceFrame]:
    count = {True: 0, False: 0}
    for frame in frames:
        count[frame.application] += 1
        if count[frame.application] <= _MAX_READ:
            yield frame


# Messages

_MAX_MESSAGE_LENGTH = 20_000
_MAX_PASSES = 8
_INVISIBLE = r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]+"

# For linear time, repetitions are possessive (*+, ++), a pattern that could start anywhere in a word starts
# only at its beginning, and an unclosed quote ends with the message.
_QUOTED = r"""
    "(?:[^"\\]|\\.?)*+(?:"|\Z)
    | (?<![\w>])[bBrRuU]{0,2}+'(?:[^'\\]|\\.?|'(?=[\w<…]))*+(?:'|\Z)
    | `[^`]*+`
    | “[^“”]*+”
    | ‘[^‘’]*+’
    | «[^«»]*+»
"""
_CLOCK = r"\d\d:\d\d(?::\d\d(?:[.,]\d++)?)?(?:\ ?(?:Z|UTC|GMT|[+-]\d\d:?\d\d))?+"
_DAY = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*+,?\ )?"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*+"
_UNIT = (
    r"(?:nanoseconds?|microseconds?|milliseconds?|seconds?|minutes?|hours?|days?|weeks?"
    r"|msecs?|secs?|mins?|hrs?|ns|us|µs|ms|s|m|h|d)(?![A-Za-z_])"
)
_VARIABLE = rf"""
    (?P<kept> <(?:n|quoted|query|email|uuid|date|time|ip|address|path|duration)> )
    | (?P<url> (?<![A-Za-z0-9+.-]) [A-Za-z][A-Za-z0-9+.-]*+ :// [^\s<>"'`]++ )
    | (?P<email> (?<![\w.+-]) [\w.+-]++ @ [\w-]++ (?:\.[\w-]++)++ )
    | (?P<uuid> (?<![0-9A-Za-z]) [0-9a-fA-F]{{8}} (?:-[0-9a-fA-F]{{4}}){{3}} -[0-9a-fA-F]{{12}}
        (?![0-9A-Za-z]) )
    | (?P<date> (?<![0-9A-Za-z])
        (?: \d{{4}}[-/]\d\d[-/]\d\d (?:[T\ ]{_CLOCK})?+
          | {_DAY} \d{{1,2}}[\ -]{_MONTH}[\ -]\d{{4}} (?:\ {_CLOCK})?+
          | {_DAY} {_MONTH}\ {{1,2}}\d{{1,2}} (?:,?\ \d{{4}})?+ (?:\ {_CLOCK}(?:\ \d{{4}})?+)?+
        ) (?![0-9A-Za-z]) )
    | (?P<time> (?<![\w.:]) \d\d:\d\d:\d\d (?:[.,]\d++)?+ (?![\w:]) )
    | (?P<ip> (?<![\w.]) \d{{1,3}} (?:\.\d{{1,3}}){{3}} (?![0-9A-Za-z]|\.\d)
        | (?<![\w:.]) (?=[a-fA-F:]*+\d) (?=[\d:]*+[a-fA-F]|[\d:]*?::)
          (?:[0-9a-fA-F]{{0,4}}:){{2,7}} [0-9a-fA-F]{{0,4}} (?![\w:]) )
    | (?P<address> (?<![0-9A-Za-z]) 0[xX][0-9a-fA-F]++ )
    | (?P<path> (?<![\w<>.~/:\\]) (?:~|\.{{1,2}})?+ (?:/[\w.@%+=,~-]++)++ /?+
        | (?<![0-9A-Za-z]) [A-Za-z]:[\\/][^\s<>"'`|?*]++ )
    | (?P<hex> (?<![0-9A-Za-z]) (?=[0-9]*+[a-fA-F]) [0-9a-fA-F]{{8,}}+ (?![0-9A-Za-z]) )
    | (?P<duration> (?<![\w.]) \d++ (?:\.\d++)?+ \ ?{_UNIT} (?:\ ?\d++ (?:\.\d++)?+ \ ?{_UNIT})*+ (?![0-9]) )
    | (?P<n> (?:(?<![\w>)\]])[+-])?+ (?<![0-9A-Za-z])
        \d++ (?:[.,]\d++)*+ (?:[eE][+-]?+\d++)?+ (?![0-9A-Za-z]) )
    | (?P<word> (?<![0-9A-Za-z]) [A-Za-z]*+ [0-9] [0-9A-Za-z]*+ )
    | (?P<digits> \d++ )
"""


def normalize(message: str) -> str:
    """Replace the variable parts of a message by placeholders; return at most 400 characters."""
    text = message[:_MAX_MESSAGE_LENGTH]
    for _ in range(_MAX_PASSES):
        before, text = text, _normalized_once(text)
        if text == before:
            return text
    return "<message>"


def _normalized_once(text: str) -> str:
    text = _compiled(_QUOTED).sub("<quoted>", _on_one_line(text))
    return _truncate(_compiled(_VARIABLE).sub(_placeholder, text))


@cache  # compiled on first use, so that `import redrive` stays fast
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.VERBOSE | re.DOTALL)


def _on_one_line(text: str) -> str:
    return " ".join(re.sub(_INVISIBLE, " ", text).split())


def _placeholder(match: re.Match[str]) -> str:
    kind = match.lastgroup or ""
    if kind == "kept":
        return match[0]
    if kind == "url":
        return _normalized_url(match[0])
    if kind == "word":
        return _normalized_word(match[0])
    return "<n>" if kind in ("hex", "digits") else f"<{kind}>"


def _normalized_word(word: str) -> str:
    """Normalize a word with digits: `user42` is a name with a number, `3MqLiJ2e` is an id."""
    name = word.rstrip("0123456789")
    return f"{name}<n>" if len(word) < 16 and name.isalpha() else "<n>"


def _normalized_url(url: str) -> str:
    scheme, rest = url.split("://", 1)
    place, mark, query = rest.partition("?")
    host, *segments = place.split("/")
    parts = [host.rpartition("@")[2], *segments]
    path = "/".join(_compiled(_VARIABLE).sub(_placeholder, part) for part in parts)
    return f"{scheme}://{path}{mark}{'<query>' if query else ''}"


def _truncate(text: str) -> str:
    if len(text) <= MAX_PATTERN_LENGTH:
        return text
    return re.sub(r"<[a-z]*$", "", text[: MAX_PATTERN_LENGTH - 1]) + "…"
