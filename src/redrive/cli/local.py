"""Commands that look at the database itself: a server cannot do that for them."""

from __future__ import annotations

from redrive.cli.given import Given
from redrive.cli.reach import chosen_context
from redrive.errors import InvalidValueError
from redrive.settings import Settings


def settings_of_database(given: Given) -> Settings:
    """The settings that name it, also those of a context; refused where a server was named."""
    if (given.server or given.context) and chosen_context(given).server is not None:
        raise InvalidValueError(
            "this command looks at the database itself, which a server does not allow; start it where the "
            "database can be reached, and name that with --set database_url=… or --config"
        )
    return settings_here(given)


def settings_here(given: Given) -> Settings:
    """A server that is only the usual context, and was not asked for now, does not matter."""
    context = chosen_context(given)
    if given.config is None and context.server is None:
        given.config = context.config
    return given.settings()
