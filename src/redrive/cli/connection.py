"""Connect a command to a server, given by URL or context, or to the configured database."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, overload

import click

from redrive.cli.client import ApiError, ApiRequest, Client, Transport
from redrive.cli.context import ContextFile, NamedContext
from redrive.cli.http_transport import HttpTransport
from redrive.cli.options import SERVER_VARIABLE, GlobalOptions, org_option, server_options, settings_options
from redrive.cli.outcome import missing_extra
from redrive.cli.terminal import notice
from redrive.errors import InvalidValueError, NotFoundError, RedriveError
from redrive.model.identity import HOME, OPERATOR
from redrive.parts import parts_of
from redrive.settings import Settings

if TYPE_CHECKING:
    from redrive.app import Redrive

CONTEXT_VARIABLE = "REDRIVE_CONTEXT"
DATABASE_VARIABLES = ("REDRIVE_DATABASE_URL", "DATABASE_URL", "REDRIVE_CONFIG")

Function = Callable[..., Any]
T = TypeVar("T")


@overload
def api_options(function: Function, *, creates: bool = False) -> Function: ...
@overload
def api_options(*, creates: bool) -> Callable[[Function], Function]: ...
def api_options(function: Function | None = None, *, creates: bool = False) -> Any:
    """Pass a client to the command as its first argument.

    `creates`: create a missing database, except in a dry run. Only `redrive migrate` upgrades an older one.
    """
    if function is None:
        return lambda function: api_options(function, creates=creates)

    @click.pass_context
    @wraps(function)
    def connected(context: click.Context, /, *arguments: Any, **options: Any) -> Any:
        makes = creates and not options.get("dry_run")
        client = context.with_resource(_connect(context.ensure_object(GlobalOptions), creates=makes))
        try:
            return context.invoke(function, client, *arguments, **options)
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            if client.server is None or isinstance(error, RedriveError | UnicodeError):
                raise
            raise RedriveError(
                f"{client.where} returned an unexpected response; check that it is a Redrive server of the "
                f"same version as this program"
            ) from error

    return server_options(settings_options(org_option(connected)))


@contextmanager
def _connect(given: GlobalOptions, *, creates: bool) -> Iterator[Client]:
    context = current_context(given)
    transport: Transport
    if context.server is None:
        given.config = given.config or context.config
        transport = LocalTransport(given, creates=creates)
    elif given.app is not None:
        raise InvalidValueError(
            "--app only works with a database; a server starts runs of its own application"
        )
    elif given.org is None:
        transport = HttpTransport(context.server, context.key(), plain_http=context.plain_http)
    else:
        raise InvalidValueError(
            "--org only works with a database; on a server, the API key determines the organization. Use a "
            "key of that organization"
        )
    try:
        yield Client(transport)
    finally:
        transport.close()


class LocalTransport:
    """Runs the API in this process, on the configured database: no server, no sign-in.

    Acts as the operator, with all rights, because access to the database implies them anyway.
    """

    server = None

    def __init__(self, given: GlobalOptions, *, creates: bool) -> None:
        from redrive.app import Redrive  # slow to import, so only where it is needed
        from redrive.cli.application import application
        from redrive.doctor.version import place_of

        try:
            from redrive.server.in_process import InProcess
        except ModuleNotFoundError as error:
            raise missing_extra("this command", error) from None
        org = given.org or HOME
        if given.app is None:
            self._app = Redrive(settings=given.settings(), log=False)
        else:
            self._app = application(given.app, given, ())
        self._api = InProcess(self._app, org, OPERATOR)
        self.where = f"database {place_of(parts_of(self._app).database)}"
        self._runner = asyncio.Runner()
        try:
            self._runner.run(open_database(self._app, org, creates=creates))
        except BaseException:
            self.close()
            raise

    def send(self, request: ApiRequest) -> tuple[int, Mapping[str, str], bytes]:
        from redrive.server.problem import ProblemError

        try:
            return self._runner.run(interruptible(self._api.ask(*request)))
        except asyncio.CancelledError:
            # Python 3.11 forgets a Ctrl-C that comes just before the loop starts.
            raise KeyboardInterrupt from None
        except ProblemError as problem:
            body = {"detail": problem.detail, "code": problem.code, "hint": problem.hint, **problem.more}
            raise ApiError(problem.status_code, body) from problem

    def close(self) -> None:
        self._runner.run(self._app.close())
        self._runner.close()


async def interruptible(action: Awaitable[T]) -> T:
    """Raise `CancelledError` on Ctrl-C even if the action reports its cancellation as another error."""
    task = asyncio.current_task()
    try:
        return await action
    except Exception as error:
        if task is not None and task.cancelling():
            raise asyncio.CancelledError from error
        raise


def run_on_database(given: GlobalOptions, action: Callable[[Redrive], Awaitable[T]]) -> T:
    """Run the action on the database of the settings or the context; reject a server.

    The action has to open the database if it needs to, because opening it migrates its tables.
    """
    from redrive.app import Redrive  # slow to import, so only where it is needed

    if (given.server or given.context) and current_context(given).server is not None:
        raise InvalidValueError(
            "this command needs the database and can't use a server; run it where the database is "
            "reachable, with --set database_url=… or --config"
        )

    async def run() -> T:
        app = Redrive(settings=local_settings(given), log=False)
        try:
            return await action(app)
        finally:
            await app.close()

    return asyncio.run(run())


async def open_database(app: Redrive, org: str, *, creates: bool = False) -> None:
    """Open the database if its tables have this version. With `creates`, create it if it is missing.

    An older database is rejected: opening it would migrate it while old workers use it.
    """
    from redrive.doctor.version import missing_file, read_version

    missing = missing_file(parts_of(app).database)
    if missing is not None and not creates:
        raise NotFoundError(
            f"database {missing} does not exist; a worker or `redrive migrate` creates it. If it is "
            f"elsewhere, change to that directory or use --set database_url=…, --server … or --context …"
        )
    if missing is None:
        found = await read_version(parts_of(app).database)
        if found.version:
            found.require_current()
        elif not creates:
            raise NotFoundError(
                f"database {found.place} has no Redrive tables; check that it is the right one, or create "
                f"them with `redrive migrate`"
            )
    await app.open()
    if missing is not None:
        notice(f"Created database {missing}.")
    members = app.members(org=org, by=OPERATOR)
    await members.organizations.view()  # fails for an unknown name; an empty list would hide it


def current_context(given: GlobalOptions) -> NamedContext:
    """Return the context of the command line, else of the environment, else of `redrive context use`.

    A database named in the environment takes precedence over the context in use.
    """
    if given.server is not None and given.context is not None:
        raise InvalidValueError("--server and --context can't be combined; use one of them")
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


def local_settings(given: GlobalOptions) -> Settings:
    """Return the settings of this machine, even if the context in use is a server."""
    context = current_context(given)
    if given.config is None and context.server is None:
        given.config = context.config
    return given.settings()
