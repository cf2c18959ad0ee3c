"""What can go wrong between a person, their provider and us: told shortly to them, and fully to the log.

Neither ever holds a code, a token or a secret.
"""

from __future__ import annotations

import logging

from redrive import structured
from redrive.server.problem import ProblemError

LOGGER = logging.getLogger("redrive.server")
BEGIN = "/api/v1/session/oidc"
AGAIN = f"begin again at {BEGIN}"


def not_configured() -> ProblemError:
    hint = "sign in by a password or a link; or set oidc_issuer and oidc_client_id"
    return ProblemError(404, "oidc_off", "this server knows no OpenID provider", hint=hint)


def stale() -> ProblemError:
    detail = "this sign-in was not begun in this browser, is too old, or was finished already"
    return ProblemError(400, "sign_in_stale", detail, hint=AGAIN)


def denied(error: str) -> ProblemError:
    """The provider has sent the browser back with an error instead of a code."""
    if error == "access_denied":
        return ProblemError(403, "oidc_denied", "the provider says that access was denied", hint=AGAIN)
    _log("answer", error)
    detail = f"the provider has answered {error!r} instead of signing anybody in"
    return ProblemError(403, "oidc_denied", detail, hint="the log of the server has it too; ask its operator")


def untrusted(why: str) -> ProblemError:
    _log("id_token", why)
    detail = f"what the provider says cannot be trusted: {why}"
    return ProblemError(401, "token_refused", detail, hint=AGAIN)


def code_refused() -> ProblemError:
    _log("token", "invalid_grant")
    return ProblemError(401, "code_refused", "the provider does not take its code back", hint=AGAIN)


def misconfigured(why: str) -> ProblemError:
    _log("token", why)
    detail = "the provider refuses this server, not you"
    hint = "check oidc_client_id, its secret, and the redirect address at the provider; the log tells more"
    return ProblemError(503, "oidc_misconfigured", detail, hint=hint)


def unavailable(step: str, error: Exception) -> ProblemError:
    _log(step, str(error))
    detail = "the OpenID provider cannot be used at the moment"
    hint = "try again a little later; the log of the server tells more"
    return ProblemError(503, "oidc_unavailable", detail, hint=hint, headers={"Retry-After": "5"})


def unverified() -> ProblemError:
    detail = "the provider knows your e-mail address, but has not verified it"
    return ProblemError(403, "email_unverified", detail, hint="verify it there, then sign in again")


def _log(step: str, why: str) -> None:
    structured.write(LOGGER, logging.WARNING, {"event": "oidc_failed", "step": step, "error": why})
