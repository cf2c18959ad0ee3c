"""Assembly: routes become an application. What surrounds them is the business of whoever serves it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from redrive.server.route import Routes, refuse_without_rule
from redrive.server.site import Site

VERSION = "1"

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


def assembled(
    site: Site, nouns: Iterable[Routes], on_error: Callable[..., Any], lifespan: Lifespan | None = None
) -> FastAPI:
    """`on_error` takes the place of FastAPI's own handlers, which it has for some errors."""
    api = FastAPI(
        title="Redrive",
        version=VERSION,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        exception_handlers={RequestValidationError: on_error, HTTPException: on_error},
    )
    api.state.site = site
    for noun in nouns:
        api.router.routes.extend(noun.built())
    refuse_without_rule(api.router.routes)
    return api
