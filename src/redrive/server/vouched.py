"""The problem of people whom a provider or a proxy has signed in, and who are no members here."""

from __future__ import annotations

from redrive.server.problem import ProblemError


def unknown(name: str) -> ProblemError:
    who = f"as {name!r}, " if name else ""
    return ProblemError(
        403,
        "unknown_user",
        f"you have signed in there {who}but nobody here has that name and may come in",
        hint=f"ask an owner to add {name or 'you'} as a member; nobody is added by signing in",
    )
