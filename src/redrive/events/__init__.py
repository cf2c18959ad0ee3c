"""Events: streams, their stored events, and the projectors that process each event once."""

from redrive.events.entry import StreamEntry
from redrive.events.projector import Projector
from redrive.events.stream import DedupeBy, Stream
from redrive.model.run import AfterFailure
from redrive.model.stream import Event

__all__ = ["AfterFailure", "DedupeBy", "Event", "Projector", "Stream", "StreamEntry"]
