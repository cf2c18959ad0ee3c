"""An OpenID provider that lies on request: a real HTTP server with its own keys.

It has no sign-in page. The test acts as the browser: it reads the address of the redirect and returns with
any code. PKCE and the nonce are honest unless a test says otherwise.
"""

from __future__ import annotations

import json
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from joserfc import jws
from joserfc.jwk import ECKey, Key, KeySet, OKPKey, RSAKey
from tests.servers import HOST

CLIENT, SECRET = "redrive", "the-secret-of-the-client"
ACCESS = "the-access-token"
DRIPS = 100
EVERY = list(jws.JWSRegistry.algorithms)

Change = Callable[[dict[str, Any]], dict[str, Any]]
Answer = tuple[int, dict[str, str], bytes]

RSA = RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})
NEXT = RSAKey.generate_key(2048, {"kid": "two", "use": "sig"})
STRANGE = RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})
CURVE = ECKey.generate_key("P-256", {"kid": "curve"})
EDWARDS = OKPKey.generate_key("Ed25519", {"kid": "edwards"})


class FaultyProvider:
    """An OpenID provider. Its attributes change what it returns.

    person    the user who has signed in there
    claims    changes the claims of the ID token
    header    of the ID token; `signing` is the key that signs it
    token     returned in place of the ID token
    answers   responses in place of the honest ones, by path
    drips     whether it sends blanks for two seconds before each response
    asked     the paths of the requests so far
    """

    def __init__(self, port: int) -> None:
        self.issuer = f"http://{HOST}:{port}"
        self.released = threading.Event()
        self.reset("somebody")

    def reset(self, person: str) -> None:
        """Make the provider honest again."""
        self.person = person
        self.keys: list[Key] = [RSA, CURVE, EDWARDS]
        self.claims: Change = dict
        self.signing: Key = RSA
        self.header: dict[str, Any] = {"alg": "RS256", "kid": "one"}
        self.token: str | None = None
        self.metadata: Change = dict
        self.userinfo: dict[str, Any] = {}
        self.answers: dict[str, Answer] = {}
        self.drips = False
        self.sent: dict[str, str] = {}
        self.asked: list[str] = []

    def meet(self, location: str) -> str:
        """Record the visit of a browser, and return the state that the browser must bring back."""
        self.sent = {name: values[0] for name, values in parse_qs(urlsplit(location).query).items()}
        return self.sent["state"]

    def answer(self, path: str, form: dict[str, str], headers: Any) -> Answer:
        self.asked.append(path)
        if path in self.answers:
            return self.answers[path]
        match path:
            case "/.well-known/openid-configuration":
                return _json(self.metadata(self._metadata()))
            case "/keys":
                return _json(KeySet(list(self.keys)).as_dict(private=False))
            case "/token":
                return self._granted(form)
            case "/userinfo":
                honest = headers["Authorization"] == f"Bearer {ACCESS}"
                return _json(self.userinfo if honest else {})
            case "/hang":
                self.released.wait(30)
        return 404, {}, b""

    def _metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize?tenant=1",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
        }

    def _granted(self, form: dict[str, str]) -> Answer:
        shown = urlsafe_b64encode(sha256(form["code_verifier"].encode()).digest()).rstrip(b"=").decode()
        if shown != self.sent["code_challenge"] or form["redirect_uri"] != self.sent["redirect_uri"]:
            return _json({"error": "invalid_grant"}, 400)
        return _json(
            {"access_token": ACCESS, "token_type": "Bearer", "id_token": self.token or self.signed()}
        )

    def signed(self) -> str:
        now = int(time.time())
        honest = {
            "iss": self.issuer,
            "aud": CLIENT,
            "sub": f"subject of {self.person}",
            "iat": now,
            "exp": now + 300,
            "nonce": self.sent["nonce"],
            "email": self.person,
            "email_verified": True,
        }
        payload = json.dumps(self.claims(honest))
        return jws.serialize_compact(self.header, payload, self.signing, algorithms=EVERY)


def _json(value: Any, status: int = 200) -> Answer:
    return status, {"Content-Type": "application/json"}, json.dumps(value).encode()


@contextmanager
def faulty_provider() -> Iterator[FaultyProvider]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._tell({})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self._tell({name: values[0] for name, values in parse_qs(body).items()})

        def _tell(self, form: dict[str, str]) -> None:
            status, headers, body = provider.answer(urlsplit(self.path).path, form, self.headers)
            blanks = DRIPS if provider.drips else 0
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(blanks + len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(ConnectionError):  # the client no longer waits for the rest
                for _ in range(blanks):
                    self.wfile.write(b" ")
                    provider.released.wait(2 / DRIPS)
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Keep requests out of the output of the tests."""

    with ThreadingHTTPServer((HOST, 0), Handler) as server:
        provider = FaultyProvider(server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield provider
        finally:
            provider.released.set()
            server.shutdown()
            thread.join()
