"""The API in this process, on the database of the settings: without a server and without signing in."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from redrive.cli.client import ApiError, ApiRequest
from redrive.cli.terminal import notice
from redrive.errors import NotFoundError, RedriveError
from redrive.model.identity import OPERATOR

if TYPE_CHECKING:
    from redrive.app import Redrive
    from redrive.server.in_process import InProcess
    from redrive.settings import Settings


class Purpose(NamedTuple):
    """
    creates  make a missing database; only `redrive migrate` brings an older one up to date
    dry_run  change nothing, so refuse a database that would have to be made
    """

    creates: bool
    dry_run: bool


class LocalTransport:
    """Acts as the operator, with all rights: who can open the database could do everything anyway."""

    server = None

    def __init__(self, settings: Settings, org: str, purpose: Purpose) -> None:
        from redrive.doctor.version import place_of

        self._api = _api(settings, org)
        self._app: Redrive = self._api.app
        self.where = f"the database {place_of(self._app.database)}"
        self._runner = asyncio.Runner()
        try:
            self._runner.run(self._open(org, purpose))
        except BaseException:
            self.close()
            raise

    def send(self, request: ApiRequest) -> tuple[int, Mapping[str, str], bytes]:
        from redrive.server.problem import ProblemError

        try:
            return self._runner.run(self._api.ask(*request))
        except ProblemError as problem:
            body = {"detail": problem.detail, "code": problem.code, "hint": problem.hint, **problem.more}
            raise ApiError(problem.status_code, body) from problem

    def close(self) -> None:
        self._runner.run(self._app.close())
        self._runner.close()

    async def _open(self, org: str, purpose: Purpose) -> None:
        from redrive.doctor.version import missing_file

        missing = missing_file(self._app.database)
        makes = purpose.creates and not purpose.dry_run
        if missing is not None and not makes:
            raise no_database(missing)
        if missing is None:
            await refuse_old_tables(self._app, makes=makes)
        await self._app.open()
        if missing is not None:
            notice(f"There was no database {missing}; it was made now.")
        directory = await self._app.directory(org=org, by=OPERATOR)
        await directory.organizations.get()  # an empty list would not tell that its name is wrong


def no_database(path: str) -> NotFoundError:
    return NotFoundError(
        f"there is no database {path}; a worker or `redrive migrate` makes one. If it is elsewhere, go "
        f"there, or name it: --set database_url=…, --server …, --context …"
    )


async def refuse_old_tables(app: Redrive, *, makes: bool = False) -> None:
    """Refuse tables of another version: opening them would migrate them under workers of the old version.

    `makes`: a database without tables is accepted.
    """
    from redrive.doctor.version import read_version

    found = await read_version(app.database)
    if not found.version and not makes:
        raise NotFoundError(
            f"the database {found.place} has no tables of Redrive; is it the right one? `redrive migrate` "
            f"makes them"
        )
    if found.version:
        found.require_current()


def _api(settings: Settings, org: str) -> InProcess:
    from redrive.app import Redrive  # slow to import, so only where it is needed

    try:
        from redrive.server.in_process import InProcess
    except ModuleNotFoundError as error:
        raise missing_extra("this command", error) from None
    return InProcess(Redrive(settings=settings, log=False), org, OPERATOR)


def missing_extra(what: str, error: ModuleNotFoundError, extra: str = "server") -> Exception:
    """An error that says what to install, unless the missing module is one of ours."""
    if (error.name or "").startswith("redrive"):
        return error
    return RedriveError(f"{what} needs {error.name}, which is not installed: pip install 'redrive[{extra}]'")
