"""Compares every response that a test receives with the OpenAPI document."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import httpx
import jsonschema_rs
from fastapi import FastAPI

from redrive.server.api import NOUNS
from redrive.server.api.reference import document

_PARAMETER = re.compile(r"\{[^}]+\}")
_known: list[OpenApiCheck] = []


class OpenApiCheck:
    """Checks responses. Building the document is slow and gives the same result for all applications."""

    def __init__(self, api: FastAPI) -> None:
        self._document: dict[str, Any] = document(api)
        paths: list[str] = list(self._document["paths"])
        self._patterns = [(_pattern(path), path) for path in paths]
        self._aliases = [(alias, noun.prefix) for noun in NOUNS for alias in noun.aliases]
        self._validator = cache(self._new_validator)

    async def check(self, response: httpx.Response) -> None:
        """Raise AssertionError if the response differs from the document.

        Register this as a response hook.
        """
        await response.aread()
        method, path = (
            response.request.method.lower(),
            response.request.url.raw_path.decode().partition("?")[0],
        )
        template, status = self._template(method, path), response.status_code
        if template is None:
            assert status in (404, 405), f"{method} {path} is not documented"
            return
        if status == 204:
            assert "204" in self._document["paths"][template][method]["responses"], f"{method} {path}"
            assert response.content == b""
            return
        validator = self._validator(template, method, str(status), response.headers.get("content-type", ""))
        validator.validate(response.json())

    def _template(self, method: str, path: str) -> str | None:
        known = [(alias, prefix) for alias, prefix in self._aliases if path.startswith(alias)]
        spellings = [path, *(path.replace(alias, prefix, 1) for alias, prefix in known)]
        for pattern, template in self._patterns:
            if method in self._document["paths"][template] and any(map(pattern.fullmatch, spellings)):
                return template
        return None

    def _new_validator(self, template: str, method: str, status: str, kind: str) -> Any:
        responses = self._document["paths"][template][method]["responses"]
        content = responses[status if status < "400" else "default"]["content"]
        return jsonschema_rs.validator_for(
            {**content[kind]["schema"], "components": self._document["components"]}
        )


def truthful(client: httpx.AsyncClient, api: FastAPI) -> httpx.AsyncClient:
    if not _known:
        _known.append(OpenApiCheck(api))
    client.event_hooks = {"request": [], "response": [_known[0].check]}
    return client


def _pattern(template: str) -> re.Pattern[str]:
    return re.compile("[^/]+".join(re.escape(part) for part in _PARAMETER.split(template)))
