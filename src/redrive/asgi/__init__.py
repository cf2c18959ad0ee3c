"""Middleware for web applications. It works with every ASGI framework and imports none."""

from redrive.asgi.idempotency import IdempotencyMiddleware, Scope

__all__ = ["IdempotencyMiddleware", "Scope"]
