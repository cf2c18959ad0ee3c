"""The OpenID provider of a server, and what people are told if signing in with it fails."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from redrive.app import Redrive
from redrive.errors import InvalidValueError
from redrive.identity.oidc import CodeRefusedError, OpenIdError, ProviderUnavailableError, TokenRefusedError
from redrive.log_line import write_log_line
from redrive.server.problem import ProblemError
from redrive.settings.addresses import is_loopback

if TYPE_CHECKING:
    from redrive.identity.oidc.provider import OpenIdProvider

LOGGER = logging.getLogger("redrive.server")
AGAIN = "start again at /api/v1/session/oidc"


def provider_of(app: Redrive) -> OpenIdProvider | None:
    """Build the provider that the settings name. Checks before the server starts that nothing is missing."""
    settings = app.settings
    if settings.oidc_issuer is None or settings.oidc_client_id is None:
        return None
    if settings.server_url is None and not is_loopback(settings.server_host):
        raise InvalidValueError(
            "oidc_issuer needs server_url, the address to which the provider sends people back; set it"
        )
    try:
        from redrive.identity.oidc.connection import OpenIdClient
        from redrive.identity.oidc.provider import OpenIdProvider
    except ImportError as error:
        raise InvalidValueError(
            f"oidc_issuer is set, but {error.name} is not installed: pip install 'redrive[oidc]'"
        ) from error
    client = OpenIdClient(settings.oidc_client_id, settings.read_oidc_client_secret(), settings.oidc_scopes)
    return OpenIdProvider(settings.oidc_issuer, client, settings.oidc_name_claim, app.clock)


def problem_of(error: OpenIdError) -> ProblemError:
    """Tell the log all about a failed sign-in, and the person what to do."""
    _log(error.step, error.reason)
    if isinstance(error, TokenRefusedError):
        detail = f"what the provider says cannot be trusted: {error.reason}"
        return ProblemError(401, "token_refused", detail, hint=AGAIN)
    if isinstance(error, CodeRefusedError):
        return ProblemError(401, "code_refused", "the provider does not accept its own code", hint=AGAIN)
    if isinstance(error, ProviderUnavailableError):
        detail = "the OpenID provider cannot be used at the moment"
        hint = "try again a little later; the log of the server tells more"
        return ProblemError(503, "oidc_unavailable", detail, hint=hint, headers={"Retry-After": "5"})
    detail = "the provider refuses this server, not you"
    hint = "check oidc_client_id, its secret, and the redirect address at the provider; the log tells more"
    return ProblemError(503, "oidc_misconfigured", detail, hint=hint)


def not_configured() -> ProblemError:
    hint = "sign in with a password or a link, or set oidc_issuer and oidc_client_id"
    return ProblemError(404, "oidc_off", "this server has no OpenID provider", hint=hint)


def stale() -> ProblemError:
    detail = "this sign-in was not started in this browser, is too old, or was finished already"
    return ProblemError(400, "sign_in_stale", detail, hint=AGAIN)


def denied(error: str) -> ProblemError:
    """The provider has sent the browser back with an error instead of a code."""
    if error == "access_denied":
        return ProblemError(403, "oidc_denied", "the provider says that access was denied", hint=AGAIN)
    _log("answer", error)
    detail = f"the provider answered {error!r} and signed nobody in"
    return ProblemError(
        403, "oidc_denied", detail, hint="ask the operator of this server; its log has the error"
    )


def unverified() -> ProblemError:
    detail = "the provider knows your e-mail address, but has not verified it"
    return ProblemError(403, "email_unverified", detail, hint="verify it there, then sign in again")


def _log(step: str, reason: str) -> None:
    write_log_line(LOGGER, logging.WARNING, {"event": "oidc_failed", "step": step, "error": reason})
