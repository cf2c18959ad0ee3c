"""A real OpenID provider in a separate process: `python -m tests.server.openid_provider PORT`.

Canaille, in memory, with the users and clients of the tests. Its redirect addresses are those of House.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.servers import HOST

CALLBACK = "http://localhost:8400/api/v1/session/oidc/callback"
SECRET = "of the client: 100% & more"
PASSWORD = "a password at the provider"
CLIENTS = {
    "by-header": "client_secret_basic",
    "by-form": "client_secret_post",
    "public": "none",
    "unlucky": "client_secret_basic",
}
"""Canaille in memory mixes up unredeemed codes of one client, so each client has one code at a time."""
PEOPLE = ("ana", "bob", "mallory")
UNVERIFIED = "mallory"
START_TIMEOUT = 120.0


class OpenIdProvider(NamedTuple):
    issuer: str


@contextlib.contextmanager
def openid_provider() -> Iterator[OpenIdProvider]:
    with socket.socket() as candidate:
        candidate.bind((HOST, 0))
        port = candidate.getsockname()[1]
    command = [sys.executable, "-m", "tests.server.openid_provider", str(port)]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2], stderr=subprocess.DEVNULL) as process:
        try:
            _wait_for(process, port)
            yield OpenIdProvider(f"http://{HOST}:{port}")
        finally:
            process.terminate()


def _wait_for(process: subprocess.Popen[bytes], port: int) -> None:
    """Wait for the port: the provider opens it when it is ready."""
    deadline = time.monotonic() + START_TIMEOUT
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection((HOST, port), 1):
            return
        time.sleep(0.05)
    raise RuntimeError("the OpenID provider does not start")


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
