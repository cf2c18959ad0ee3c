"""Commands that look at the database itself: a server cannot do that for them."""

from __future__ import annotations

from redrive.cli.contexts import Context, Contexts
from redrive.cli.given import Given
from redrive.config import Settings
from redrive.errors import InvalidValueError


def settings_of_database(given: Given) -> Settings:
    """The settings that name it, also those of a context; refused where a server was named."""
    context = _context(given)
    if given.server is not None or (given.context is not None and context.server is not None):
        raise InvalidValueError(
            "this command looks at the database itself, which a server does not allow; start it where the "
            "database can be reached, and name that with --set database_url=… or --config"
        )
    if given.config is None and not given.arguments:
        given.config = context.config
    return given.settings()


def _context(given: Given) -> Context:
    """A server that is only the usual context, and was not asked for now, does not matter."""
    contexts = Contexts()
    return contexts.get(given.context or contexts.current)
