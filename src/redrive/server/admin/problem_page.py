"""Problems as pages: what happened, why, and what to do next."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from redrive.policy.redact import Redactor
from redrive.server.admin.environment import PAGES, Preferences, html
from redrive.server.api.session import is_local_path
from redrive.server.problem import TITLES, ProblemError

SIGN_IN = "/app/sign-in"
_OF_THE_API = ("no_route", "method_not_allowed", "invalid_request")


def is_page(request: Request) -> bool:
    path = request.url.path
    return path in (PAGES, SIGN_IN) or path.startswith(f"{PAGES}/")


def problem_page(request: Request, problem: ProblemError, request_id: str, redactor: Redactor) -> Response:
    if problem.status_code == 401:
        return _to_sign_in(request)
    if problem.code == "other_organization" and "hx-request" in request.headers:
        return Response(status_code=409, headers={"HX-Refresh": "true"})
    response = html(
        request,
        "problem.html",
        problem.status_code,
        preferences=Preferences.of(request),
        title=TITLES.get(problem.status_code, "Something went wrong"),
        detail=_detail(problem, redactor),
        hint="" if problem.code in _OF_THE_API else _capitalized(problem.hint),
        status=problem.status_code,
        request_id=request_id,
    )
    response.headers.update(problem.headers or {})
    return response


def _detail(problem: ProblemError, redactor: Redactor) -> str:
    """Return the problem's detail as a sentence."""
    text = redactor.text(problem.detail) if problem.code != "no_route" else "this page doesn't exist"
    return f"{_capitalized(text)}{'' if text.endswith(('.', '?', '!')) else '.'}"


def _capitalized(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _to_sign_in(request: Request) -> Response:
    """Send the caller to the sign-in page, and from there to the page that they asked for."""
    by_script = "hx-request" in request.headers
    address = f"{SIGN_IN}?next={quote(_wanted(request, by_script), safe='/')}"
    if by_script:  # htmx would follow a redirect and put the sign-in page into the other page
        return Response(status_code=401, headers={"HX-Redirect": address})
    return RedirectResponse(address, 303)


def _wanted(request: Request, by_script: bool) -> str:
    """Return the address that was asked for; for a script, that of the page that it runs on."""
    if by_script:
        current = urlsplit(request.headers.get("hx-current-url", PAGES))
        return local(f"{current.path}?{current.query}" if current.query else current.path)
    path, query = request.scope["raw_path"].decode("latin-1"), request.scope["query_string"].decode("latin-1")
    return local(f"{path}?{query}" if query else path)


def local(path: str | None) -> str:
    """Return the path if it is one of this server and not too long, otherwise the first page."""
    return path if path is not None and is_local_path(path) else PAGES
