"""A real OpenID provider as a process of its own: `python -m tests.server.openid_provider PORT`.

Canaille, in memory, with the people and the clients of the tests. Its redirect addresses are those of House.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
from tests.servers import HOST, _comes_up, _free_port

CALLBACK = "http://localhost:8400/api/v1/session/oidc/callback"
SECRET = "of the client: 100% & more"
PASSWORD = "a password at the provider"
CLIENTS = {
    "by-header": "client_secret_basic",
    "by-form": "client_secret_post",
    "public": "none",
    "unlucky": "client_secret_basic",
}
"""One code of each at a time: the memory of Canaille confuses those of one client that are not redeemed."""
PEOPLE = ("ana", "bob", "mallory")
UNVERIFIED = "mallory"


class OpenIdProvider(NamedTuple):
    issuer: str


@contextlib.contextmanager
def openid_provider() -> Iterator[OpenIdProvider]:
    port = _free_port()
    command = [sys.executable, "-m", "tests.server.openid_provider", str(port)]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2], stderr=subprocess.DEVNULL) as process:
        try:
            assert _comes_up(process, lambda: _answers(port)), "the provider does not start"
            yield OpenIdProvider(f"http://{HOST}:{port}")
        finally:
            process.send_signal(signal.SIGTERM)


def _answers(port: int) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(f"http://{HOST}:{port}/.well-known/openid-configuration").status_code == 200
    return False


def main(port: int) -> None:
    from canaille import create_app  # type: ignore[import-untyped]
    from werkzeug.serving import make_server

    app = create_app(
        {
            "SECRET_KEY": "only for tests",
            "SERVER_NAME": f"{HOST}:{port}",
            "PREFERRED_URL_SCHEME": "http",
            "CANAILLE": {"DATABASE": "memory", "JAVASCRIPT": False, "CAPTCHA_ENABLED": False},
            "CANAILLE_OIDC": {},
        }
    )
    mapping = app.config["CANAILLE_OIDC"]["USERINFO_MAPPING"]
    mapping["EMAIL_VERIFIED"] = f"{{% if user.user_name != '{UNVERIFIED}' %}}true{{% endif %}}"
    with app.app_context():
        _populate()
    make_server(HOST, port, app, threaded=True).serve_forever()


def _populate() -> None:
    from canaille.app import models  # type: ignore[import-untyped]
    from canaille.backends import Backend  # type: ignore[import-untyped]

    for name in PEOPLE:
        user = models.User(
            user_name=name,
            formatted_name=name.title(),
            family_name=name.title(),
            emails=[f"{name}@example.com"],
            password=PASSWORD,
        )
        Backend.instance.save(user)
    for name, way in CLIENTS.items():
        client = models.Client(
            client_id=name,
            client_name=name,
            client_secret=None if way == "none" else SECRET,
            client_uri="http://127.0.0.1",
            redirect_uris=[CALLBACK],
            grant_types=["authorization_code"],
            response_types=["code"],
            scope=["openid", "email", "profile"],
            token_endpoint_auth_method=way,
        )
        Backend.instance.save(client)
        client.audience = [client]
        Backend.instance.save(client)


if __name__ == "__main__":
    main(int(sys.argv[1]))
