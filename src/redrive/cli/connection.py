"""What a command connects to: a server, by its address or a context, or the database of the settings."""

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
    """Give the command a client as its first argument.

    `creates`: make a missing database, unless it is a dry run. Only `redrive migrate` changes an older one.
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
                f"the answer of {client.where} is not understood; is it a Redrive server, of the same "
                f"version as this program?"
            ) from error

    return server_options(settings_options(org_option(connected)))


@contextmanager
def _connect(given: GlobalOptions, *, creates: bool) -> Iterator[Client]:
    context = current_context(given)
    transport: Transport
    if context.server is None:
        given.config = given.config or context.config
        transport = LocalTransport(given.settings(), given.org or HOME, creates=creates)
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


class LocalTransport:
    """The API in this process, on the database of the settings: without a server and without signing in.

    Acts as the operator, with all rights: who can open the database could do everything anyway.
    """

    server = None

    def __init__(self, settings: Settings, org: str, *, creates: bool) -> None:
        from redrive.app import Redrive  # slow to import, so only where it is needed
        from redrive.doctor.version import place_of

        try:
            from redrive.server.in_process import InProcess
        except ModuleNotFoundError as error:
            raise missing_extra("this command", error) from None
        self._app = Redrive(settings=settings, log=False)
        self._api = InProcess(self._app, org, OPERATOR)
        self.where = f"the database {place_of(parts_of(self._app).database)}"
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
        except ProblemError as problem:
            body = {"detail": problem.detail, "code": problem.code, "hint": problem.hint, **problem.more}
            raise ApiError(problem.status_code, body) from problem

    def close(self) -> None:
        self._runner.run(self._app.close())
        self._runner.close()


async def interruptible(action: Awaitable[T]) -> T:
    """Let Ctrl-C end the action as such, even if it reports its cancellation as another error."""
    task = asyncio.current_task()
    try:
        return await action
    except Exception as error:
        if task is not None and task.cancelling():
            raise asyncio.CancelledError from error
        raise


def run_on_database(given: GlobalOptions, action: Callable[[Redrive], Awaitable[T]]) -> T:
    """Run the action on the database that the settings or a context name; a named server is refused.

    The action opens the database itself if it needs to: opening it migrates its tables.
    """
    from redrive.app import Redrive  # slow to import, so only where it is needed

    if (given.server or given.context) and current_context(given).server is not None:
        raise InvalidValueError(
            "this command looks at the database itself, which a server does not allow; start it where the "
            "database can be reached, and name that with --set database_url=… or --config"
        )

    async def run() -> T:
        app = Redrive(settings=local_settings(given), log=False)
        try:
            return await action(app)
        finally:
            await app.close()

    return asyncio.run(run())


async def open_database(app: Redrive, org: str, *, creates: bool = False) -> None:
    """Open the database if it exists and has tables of this version, or if `creates`, make it.

    Opening an older database would migrate it while workers of the old version use it.
    """
    from redrive.doctor.version import missing_file, read_version

    missing = missing_file(parts_of(app).database)
    if missing is not None and not creates:
        raise NotFoundError(
            f"there is no database {missing}; a worker or `redrive migrate` makes one. If it is elsewhere, "
            f"go there, or name it: --set database_url=…, --server …, --context …"
        )
    if missing is None:
        found = await read_version(parts_of(app).database)
        if found.version:
            found.require_current()
        elif not creates:
            raise NotFoundError(
                f"the database {found.place} has no tables of Redrive; is it the right one? "
                f"`redrive migrate` makes them"
            )
    await app.open()
    if missing is not None:
        notice(f"There was no database {missing}; it was made now.")
    members = app.members(org=org, by=OPERATOR)
    await members.organizations.view()  # an empty list would not tell that its name is wrong


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


def local_settings(given: GlobalOptions) -> Settings:
    """The settings of this machine; a server that is the context in use does not matter."""
    context = current_context(given)
    if given.config is None and context.server is None:
        given.config = context.config
    return given.settings()
