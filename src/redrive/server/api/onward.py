"""Where a browser goes after signing in: to a page of this server, and to no other."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.responses import RedirectResponse, Response

from redrive.identity.sessions import UserSessions
from redrive.identity.sign_in import NewSession
from redrive.server.api.session import begun
from redrive.server.cookie import set_session
from redrive.server.site import Site

MAX_LENGTH = 2_000
# One slash and no backslash: browsers take two of either for another host. Nothing that they would skip.
LOCAL = r"^/([!-.0-\[\]-~][!-\[\]-~]*)?$"

NextPath = Annotated[
    str | None,
    Query(
        alias="next",
        max_length=MAX_LENGTH,
        pattern=LOCAL,
        description="A path of this server to go to afterwards; without it, the answer tells who it is",
    ),
]


async def onward(site: Site, sessions: UserSessions, new: NewSession, path: str | None) -> Response:
    """Signed in."""
    if path is None:
        return await begun(site, sessions, new, "")
    site.authenticator.forget()  # the session that they had before has ended
    response = RedirectResponse(path, 303)
    set_session(response, site, new.token)
    return response
