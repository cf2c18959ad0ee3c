"""API keys of an organization. Only owners manage them."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path
from starlette.responses import Response

from redrive.model.identity import NewKey
from redrive.policy.access import Permission
from redrive.server.answer import answer, nothing, page
from redrive.server.api.parameter import Cursor, Size, at_most
from redrive.server.api.shape.identity import KeyPage, KeyShape, MadeKey, NewKeyRequest, Rotation
from redrive.server.api.view.identity import key_view
from redrive.server.request_context import Visiting
from redrive.server.route import Routes
from redrive.server.rule import may

routes = Routes("keys", "/api/v1/keys")

Id = Annotated[
    str, Path(alias="id", max_length=200, description="The id of a key, or its name while it is in use.")
]
MANAGE = may(Permission.MANAGE)
SECRET = may(Permission.MANAGE, repeatable=False)
"""The answer holds a secret, so it is not kept to be given again."""


@routes.get("", MANAGE, responses={200: {"model": KeyPage}})
async def list_(visit: Visiting, size: Size = 50, cursor: Cursor = None) -> Response:
    """The keys of the organization, the newest first; what they begin with, never the keys themselves."""
    found = await (await visit.directory()).keys.list(size=at_most(size, visit), cursor=cursor)
    return page([key_view(key) for key in found.keys], found.next_cursor)


@routes.post("", SECRET, status_code=201, responses={201: {"model": MadeKey}})
async def create(visit: Visiting, body: NewKeyRequest) -> Response:
    """A new key. Its text is in this answer, and nowhere else afterwards."""
    keys = (await visit.directory()).keys
    scopes, expires_in = body.scopes, body.expires_in_seconds
    return _made(await keys.create(body.name, body.role, scopes=scopes, expires_in=expires_in), 201)


@routes.get("/{id}", MANAGE, responses={200: {"model": KeyShape}})
async def get(visit: Visiting, key_id: Id) -> Response:
    """One key, without its text."""
    return answer(key_view(await (await visit.directory()).keys.get(key_id)))


@routes.post("/{id}/rotate", SECRET, responses={200: {"model": MadeKey}})
async def rotate(visit: Visiting, key_id: Id, body: Rotation | None = None) -> Response:
    """Another text for the same key; the one before stays valid for the grace."""
    asked = body or Rotation()
    keys = (await visit.directory()).keys
    grace, expires_in = asked.grace_seconds, asked.expires_in_seconds
    return _made(await keys.rotate(key_id, grace_seconds=grace, expires_in=expires_in), 200)


@routes.delete("/{id}", MANAGE, status_code=204)
async def revoke(visit: Visiting, key_id: Id) -> Response:
    """Revoke a key, for ever and at once."""
    await (await visit.directory()).keys.revoke(key_id)
    return nothing()


def _made(made: NewKey, status: int) -> Response:
    return answer({"key": key_view(made.key), "text": made.text}, status)
