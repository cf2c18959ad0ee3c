"""What a command connects to: a server, by its address or a context, or the database of the settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, overload

import click

from redrive.cli.client import Client, Transport
from redrive.cli.context import ContextFile, NamedContext
from redrive.cli.http_transport import HttpTransport
from redrive.cli.local_transport import LocalTransport, Purpose
from redrive.cli.options import SERVER_VARIABLE, GlobalOptions, org_option, server_options, settings_options
from redrive.errors import InvalidValueError, RedriveError
from redrive.model.identity import HOME
from redrive.settings import Settings

CONTEXT_VARIABLE = "REDRIVE_CONTEXT"
DATABASE_VARIABLES = ("REDRIVE_DATABASE_URL", "DATABASE_URL", "REDRIVE_CONFIG")

Function = Callable[..., Any]

_NOT_UNDERSTOOD = (
    "the answer of {} is not understood; is it a Redrive server, of the same version as this program?"
)


@overload
def api_options(function: Function, *, creates: bool = False) -> Function: ...
@overload
def api_options(*, creates: bool) -> Callable[[Function], Function]: ...
def api_options(function: Function | None = None, *, creates: bool = False) -> Any:
    """Give the command a client as its first argument. `creates`: make a missing database."""
    if function is None:
        return lambda function: api_options(function, creates=creates)

    @click.pass_context
    @wraps(function)
    def connected(context: click.Context, /, *arguments: Any, **options: Any) -> Any:
        purpose = Purpose(creates, bool(options.get("dry_run")))
        client = context.with_resource(_connect(context.ensure_object(GlobalOptions), purpose))
        try:
            return context.invoke(function, client, *arguments, **options)
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            if client.server is None or isinstance(error, RedriveError | UnicodeError):
                raise
            raise RedriveError(_NOT_UNDERSTOOD.format(client.where)) from error

    return server_options(settings_options(org_option(connected)))


@contextmanager
def _connect(given: GlobalOptions, purpose: Purpose) -> Iterator[Client]:
    context = current_context(given)
    transport: Transport
    if context.server is None:
        given.config = given.config or context.config
        transport = LocalTransport(given.settings(), given.org or HOME, purpose)
    elif given.org is None:
        transport = HttpTransport(context.server, context.key(), plain_http=context.plain_http)
    else:
        raise InvalidValueError(
            "--org is for a database; on a server the organization is that of the key, so use a key of it"
        )
    try:
        yield Client(transport)
    finally:
        transport.close()


def current_context(given: GlobalOptions) -> NamedContext:
    """From the command line, then the environment, then `redrive context use`.

    A database that the environment names comes before the context in use.
    """
    if given.server is not None and given.context is not None:
        raise InvalidValueError("--server and --context both say whom to ask; give one of them")
    if given.server is not None:
        return NamedContext(given.server)
    if given.context is not None:
        return ContextFile().get(given.context)
    if given.config is not None or given.arguments:
        return NamedContext()
    if server := os.environ.get(SERVER_VARIABLE, "").strip():
        return NamedContext(server)
    if name := os.environ.get(CONTEXT_VARIABLE, "").strip():
        return ContextFile().get(name)
    if any(os.environ.get(name, "").strip() for name in DATABASE_VARIABLES):
        return NamedContext()
    contexts = ContextFile()
    return contexts.get(contexts.current)


def database_settings(given: GlobalOptions) -> Settings:
    """The settings that name the database, from a context too; a named server is refused."""
    if (given.server or given.context) and current_context(given).server is not None:
        raise InvalidValueError(
            "this command looks at the database itself, which a server does not allow; start it where the "
            "database can be reached, and name that with --set database_url=… or --config"
        )
    return local_settings(given)


def local_settings(given: GlobalOptions) -> Settings:
    """The settings of this machine; a server that is the context in use does not matter."""
    context = current_context(given)
    if given.config is None and context.server is None:
        given.config = context.config
    return given.settings()
