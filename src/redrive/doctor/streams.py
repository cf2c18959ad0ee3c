"""Judge the streams: whether consumers read them, and whether Redis removed entries unread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from shlex import quote

from redrive.doctor.finding import Finding, note, ok, warn
from redrive.model.finding import FindingCode
from redrive.model.stream import StreamState
from redrive.model.stream_condition import StreamCondition, stream_condition
from redrive.words.fact import text_of

CONSUME = "redrive stream consume MODULE:ATTRIBUTE"


def judge_streams(streams: Sequence[StreamState], now: float) -> Iterator[Finding]:
    """Judge each stream by its last report. A stream that no consumer has read has none."""
    if not streams:
        yield ok(FindingCode.NO_STREAM)
        return
    well = [stream for stream in streams if stream_condition(stream, now) in _WELL]
    if well:
        yield ok(FindingCode.STREAMS_READ, streams=len(well))
    for stream in streams:
        yield from _judge(stream, now)
        if stream.known_gaps:
            yield note(
                FindingCode.STREAM_GAPS, stream=stream.name, org=stream.org, gaps=len(stream.known_gaps)
            )


_WELL = (StreamCondition.READING, StreamCondition.HELD)


def _judge(stream: StreamState, now: float) -> Iterator[Finding]:
    """Give the finding of a stream that is not read as it should be."""
    name, org = stream.name, stream.org
    view, resume = f"redrive stream view {quote(name)}", f"redrive stream resume {quote(name)}"
    match stream_condition(stream, now):
        case StreamCondition.FAILING:
            error = "" if stream.last_error is None else text_of(stream.last_error)
            yield warn(FindingCode.STREAM_FAILING, view, stream=name, org=org, error=error)
        case StreamCondition.SILENT:
            seconds = now - (stream.reported_at or now)
            yield warn(FindingCode.STREAM_SILENT, CONSUME, stream=name, org=org, seconds=seconds)
        case StreamCondition.BEHIND:
            seconds = now - (stream.oldest_at or now)
            yield warn(FindingCode.STREAM_BEHIND, view, stream=name, org=org, seconds=seconds, lag=stream.lag)
        case StreamCondition.PAUSED:
            yield warn(FindingCode.STREAM_PAUSED, resume, stream=name, org=org, by=stream.paused_by)
