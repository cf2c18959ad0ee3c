"""Names that another system vouches for: a provider, or a proxy."""

from __future__ import annotations

from unicodedata import normalize

from redrive.policy.credential import findable_user
from redrive.server.problem import ProblemError


def vouched_name(text: object) -> str:
    """The name of a user, or "". People who type theirs may write it in many ways, which are made one. Where
    another system says it, two of these may be two accounts there, so that only the plain one is taken."""
    if not isinstance(text, str) or text != normalize("NFKC", text) or text != text.strip():
        return ""
    return findable_user(text)


def unknown(name: str) -> ProblemError:
    who = f"as {name!r}, " if name else ""
    return ProblemError(
        403,
        "unknown_user",
        f"you have signed in there {who}but nobody here has that name and may come in",
        hint=f"ask an owner to add {name or 'you'} as a member; nobody is added by signing in",
    )
