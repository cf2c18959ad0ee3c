"""API keys of an organization. Only owners manage them."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path
from pydantic import Field
from starlette.responses import Response

from redrive.identity.keys import MAX_GRACE_SECONDS, MAX_LIFETIME_SECONDS
from redrive.model.identity import ApiKey, NewKey
from redrive.policy.access import Permission
from redrive.policy.user_text import MAX_WORD_LENGTH
from redrive.server.access_control import may
from redrive.server.answer import answer, nothing, page
from redrive.server.api.members import RoleName
from redrive.server.api.request import Cursor, RequestBody, Size, at_most
from redrive.server.api.resource import Resource
from redrive.server.request_context import Visiting
from redrive.server.route import Routes

routes = Routes("keys", "/api/v1/keys")

Id = Annotated[
    str,
    Path(alias="id", max_length=200, description="The id of a key, or the name of a key that is not revoked"),
]
MANAGE = may(Permission.MANAGE)
SECRET = may(Permission.MANAGE, repeatable=False)
"""The response contains a secret, so it is not stored for repeated requests."""

Scope = Annotated[Permission, Field(strict=False)]


class NewKeyRequest(RequestBody):
    """`scopes` limits the key to some of the permissions of its role."""

    name: Annotated[str, Field(min_length=1, max_length=MAX_WORD_LENGTH)]
    role: RoleName
    scopes: Annotated[list[Scope] | None, Field(min_length=1, max_length=len(Permission))] = None
    expires_in_seconds: Annotated[float | None, Field(ge=60, le=MAX_LIFETIME_SECONDS)] = None


class Rotation(RequestBody):
    """`expires_in_seconds` sets a new expiry. Without it, the expiry of the key stays."""

    grace_seconds: Annotated[float, Field(ge=0, le=MAX_GRACE_SECONDS)] = 0.0
    expires_in_seconds: Annotated[float | None, Field(ge=60, le=MAX_LIFETIME_SECONDS)] = None


KEY = Resource(
    ApiKey, "KeyShape", hidden=("org",), types={"scopes": list[Permission] | None}, properties=("prefix",)
)
MADE_KEY = Resource(
    NewKey,
    "MadeKey",
    description="A new key. `text` is the key itself; it is returned only once and not stored.",
)


@routes.get("", MANAGE, returns=KEY.page("KeyPage"))
async def list_(visit: Visiting, size: Size = 50, cursor: Cursor = None) -> Response:
    """List the API keys of the organization, newest first, without their secrets."""
    found = await visit.members.keys.list(size=at_most(size, visit), cursor=cursor)
    return page(KEY.views(found.keys), found.next_cursor)


@routes.post("", SECRET, status_code=201, returns=MADE_KEY.model)
async def create(visit: Visiting, body: NewKeyRequest) -> Response:
    """Create an API key. Only this response contains its text."""
    keys = visit.members.keys
    scopes, expires_in = body.scopes, body.expires_in_seconds
    made = await keys.create(body.name, body.role, scopes=scopes, expires_in=expires_in)
    return answer(MADE_KEY.view(made), 201)


@routes.get("/{id}", MANAGE, returns=KEY.model)
async def get(visit: Visiting, key_id: Id) -> Response:
    """Get an API key, without its text."""
    return answer(KEY.view(await visit.members.keys.view(key_id)))


@routes.post("/{id}/rotate", SECRET, returns=MADE_KEY.model)
async def rotate(visit: Visiting, key_id: Id, body: Rotation | None = None) -> Response:
    """Rotate an API key. The previous text stays valid for the grace period."""
    asked = body or Rotation()
    keys = visit.members.keys
    grace, expires_in = asked.grace_seconds, asked.expires_in_seconds
    made = await keys.rotate(key_id, grace_seconds=grace, expires_in=expires_in)
    return answer(MADE_KEY.view(made))


@routes.delete("/{id}", MANAGE, status_code=204)
async def revoke(visit: Visiting, key_id: Id) -> Response:
    """Revoke an API key immediately and permanently."""
    await visit.members.keys.revoke(key_id)
    return nothing()
