"""Organizations, members and keys, as answers have them. Nothing of a secret is among it."""

from __future__ import annotations

from typing import Any

from redrive.model.identity import ApiKey, Member, Organization, SessionLine
from redrive.server.answer import when


def organization_view(organization: Organization) -> dict[str, Any]:
    return {**organization._asdict(), "created_at": when(organization.created_at)}


def member_view(member: Member) -> dict[str, Any]:
    return {
        "id": member.user_id,
        "name": member.name,
        "role": member.role,
        "active": member.active,
        "disabled": member.disabled,
        "version": member.version,
        "created_at": when(member.created_at),
        "created_by": member.created_by,
        "updated_at": when(member.updated_at),
    }


def key_view(key: ApiKey) -> dict[str, Any]:
    return {
        "id": key.id,
        "prefix": key.prefix,
        "name": key.name,
        "role": key.role,
        "scopes": key.scopes,
        "created_at": when(key.created_at),
        "created_by": key.created_by,
        "expires_at": when(key.expires_at),
        "last_used_at": when(key.last_used_at),
        "rotated_at": when(key.rotated_at),
        "previous_expires_at": when(key.previous_expires_at),
        "revoked_at": when(key.revoked_at),
        "revoked_by": key.revoked_by,
    }


def session_view(line: SessionLine) -> dict[str, Any]:
    return {
        "id": line.id,
        "org": line.org,
        "kind": line.kind,
        "created_at": when(line.created_at),
        "seen_at": when(line.seen_at),
        "expires_at": when(line.expires_at),
    }
