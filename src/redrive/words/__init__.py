"""Text for people: durations, numbers, suggestions and sentences, rendered from facts of `redrive.model`.

The command line, the admin pages, `doctor`, `verify`, the demo, logs and HTTP problems all use these
functions, so they say the same thing in the same words. Nothing here reads a clock, a file or a database.
"""

from redrive.words.decision import explain
from redrive.words.fact import paragraph, text_of

__all__ = ["explain", "paragraph", "text_of"]
