"""The cookie of a session: out of reach for scripts, and not sent along by other sites' forms."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from redrive.server.site import Site


def set_session(response: Response, site: Site, token: str) -> None:
    response.set_cookie(
        site.authenticator.cookie,
        token,
        max_age=round(site.app.settings.session_days * 86_400),
        path="/",
        secure=site.is_secure,
        httponly=True,
        samesite="lax",
    )


def drop_session(response: Response, site: Site) -> None:
    response.delete_cookie(
        site.authenticator.cookie, path="/", secure=site.is_secure, httponly=True, samesite="lax"
    )


def session_token(request: Request, site: Site) -> str | None:
    return request.cookies.get(site.authenticator.cookie)
