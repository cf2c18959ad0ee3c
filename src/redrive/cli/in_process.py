"""The API in this process, on the database of the settings: no server has to run, and nobody to sign in."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from redrive.cli.client import AnswerError, Question
from redrive.cli.text import notice
from redrive.errors import NotFoundError, RedriveError
from redrive.model.identity import OPERATOR

if TYPE_CHECKING:
    from redrive.app import Redrive
    from redrive.config import Settings
    from redrive.server.in_process import InProcess


class LocalApi:
    """Whoever can open the database can do everything anyway; the audit says that it was the operator."""

    server = None

    def __init__(self, settings: Settings, org: str, *, creates: bool) -> None:
        self.where = "this database"
        self._api = _imported(settings, org)
        self._app: Redrive = self._api.app
        self._runner = asyncio.Runner()
        try:
            self._runner.run(self._opened(org, creates))
        except BaseException:
            self.close()
            raise

    def ask(self, question: Question) -> tuple[int, Mapping[str, str], bytes]:
        from redrive.server.problem import ProblemError

        try:
            return self._runner.run(self._api.ask(*question))
        except ProblemError as problem:
            told = {"detail": problem.detail, "code": problem.code, "hint": problem.hint, **problem.more}
            raise AnswerError(problem.status_code, told) from problem

    def close(self) -> None:
        self._runner.run(self._app.close())
        self._runner.close()

    async def _opened(self, org: str, creates: bool) -> None:
        missing = missing_file(self._app)
        if missing is not None and not creates:
            raise no_database(missing)
        await self._app.open()
        if missing is not None:
            notice(f"There was no database {missing}; it was made now.")
        directory = await self._app.directory(org=org, by=OPERATOR)
        await directory.organizations.get()  # a list of nothing would not tell that its name is wrong


def missing_file(app: Redrive) -> str | None:
    """A database that has to be made is often one that was looked for in the wrong directory."""
    path: str | None = getattr(app.database, "path", None)
    return None if path is None or Path(path).exists() else path


def no_database(path: str) -> NotFoundError:
    return NotFoundError(
        f"there is no database {path}; start the command where it is, or say which one: "
        f"--set database_url=…, --server …, --context …"
    )


def _imported(settings: Settings, org: str) -> InProcess:
    from redrive.app import Redrive  # takes longer than all the rest to load, so only where it is needed

    try:
        from redrive.server.in_process import InProcess
    except ModuleNotFoundError as error:
        raise missing_extra("this command", error) from None
    return InProcess(Redrive(settings=settings, log=False), org, OPERATOR)


def missing_extra(what: str, error: ModuleNotFoundError) -> Exception:
    """What to install, unless the fault is ours."""
    if (error.name or "").startswith("redrive"):
        return error
    return RedriveError(f"{what} needs {error.name}, which is not installed: pip install 'redrive[server]'")
