"""For web applications, whatever their framework: middleware that speaks ASGI and imports nothing else."""

from redrive.asgi.idempotency import IdempotencyMiddleware, Scope

__all__ = ["IdempotencyMiddleware", "Scope"]
