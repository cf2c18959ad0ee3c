"""Errors of real clients, which they raise themselves against a misbehaving server.

Every client meets every mishap: G3 (what to retry), D1 (error classes), W5 (categories), and whether the
other side can have seen the request, which decides whether a repetition is harmless.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import smtplib
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

import aiohttp
import botocore.config
import botocore.session
import grpc
import grpc.aio
import httpx
import httpx2
import pytest
import requests
import requests.adapters
import urllib3
from tests.cases import loop_over
from tests.misbehaving import (
    HOST,
    Behavior,
    Exchange,
    MisbehavingServer,
    answer,
    answer_json,
    broken_encoding,
    close,
    close_on_accept,
    drip,
    full_backlog,
    garbage,
    huge_header,
    invalid_json,
    redirect_loop,
    refused_port,
    reset,
    reset_on_accept,
    silence,
    truncated,
    truncated_chunks,
)

from redrive.model.failure import Category, Delivery, ErrorClass, Failure
from redrive.policy.classify import classify
from redrive.policy.retry_after import MAX_HINT_SECONDS

NOW = 1_750_000_000.0
PATIENT, IMPATIENT = 20.0, 0.5
"""Seconds; on a slow machine, no other mishap may become a timeout."""

# The first is too long for a name, so the resolver fails without a query; .invalid never exists.
NO_SUCH_HOST = "a." * 124 + "invalid"

NEVER, MAYBE, SEEN = Delivery.NEVER_SEEN, Delivery.MAYBE_SEEN, Delivery.SEEN


class Verdict(NamedTuple):
    category: Category
    error_class: ErrorClass
    delivery: Delivery
    http_status: int | None = None
    retry_after: float | None = None


NETWORK_NEVER = Verdict(Category.NETWORK, ErrorClass.RETRYABLE, NEVER)
NETWORK_MAYBE = Verdict(Category.NETWORK, ErrorClass.RETRYABLE, MAYBE)
NETWORK_SEEN = Verdict(Category.NETWORK, ErrorClass.RETRYABLE, SEEN)
TIMEOUT_NEVER = Verdict(Category.TIMEOUT, ErrorClass.RETRYABLE, NEVER)
TIMEOUT_MAYBE = Verdict(Category.TIMEOUT, ErrorClass.RETRYABLE, MAYBE)
INVALID_MAYBE = Verdict(Category.VALIDATION, ErrorClass.FINAL, MAYBE)
INVALID_SEEN = Verdict(Category.VALIDATION, ErrorClass.FINAL, SEEN)
SERVER_TROUBLE = Verdict(Category.PROVIDER_5XX, ErrorClass.RETRYABLE, SEEN)


def verdict(error: BaseException) -> Verdict:
    failure = classify(error, now=NOW)
    assert_complete(failure)
    return Verdict(*(getattr(failure, name) for name in Verdict._fields))


def assert_complete(failure: Failure) -> None:
    assert failure.rule
    assert failure.error_type
    assert failure.public_code
    assert failure.public_message


def raised(call: Callable[[], object]) -> Exception:
    """Return the error of a call that must fail, with its causes and contexts."""
    try:
        result = call()
    except Exception as error:
        return error
    raise AssertionError(f"the call was to fail, but gave {result!r}")


# --- the clients ----------------------------------------------------------------------------------


TLS = ssl.create_default_context()
"""Shared, because making it takes longer than everything else here."""


class Client(Protocol):
    __name__: str

    def __call__(self, url: str, timeout: float = PATIENT) -> object: ...


def httpx_sync(url: str, timeout: float = PATIENT) -> object:
    with httpx.Client(timeout=timeout, follow_redirects=True, trust_env=False, verify=TLS) as client:
        return client.get(url).raise_for_status().json()


def httpx_async(url: str, timeout: float = PATIENT) -> object:
    async def call() -> object:
        async with httpx.AsyncClient(
            timeout=timeout, follow_redirects=True, trust_env=False, verify=TLS
        ) as client:
            return (await client.get(url)).raise_for_status().json()

    return asyncio.run(call())


def httpx2_sync(url: str, timeout: float = PATIENT) -> object:
    with httpx2.Client(timeout=timeout, follow_redirects=True, trust_env=False, verify=TLS) as client:
        return client.get(url).raise_for_status().json()


def requests_session(url: str, timeout: float = PATIENT) -> object:
    with requests.Session() as session:
        session.trust_env = False
        response = session.get(url, timeout=timeout)
        response.raise_for_status()
        return response.json()


def urllib3_once(url: str, timeout: float = PATIENT) -> object:
    with urllib3.PoolManager(retries=False, timeout=timeout) as pool:
        return pool.request("GET", url).json()


def urllib3_retrying(url: str, timeout: float = PATIENT) -> object:
    forced = urllib3.Retry(
        1, backoff_factor=0, status_forcelist=range(400, 600), respect_retry_after_header=False
    )
    with urllib3.PoolManager(retries=forced, timeout=timeout) as pool:
        return pool.request("GET", url).json()


def aiohttp_session(url: str, timeout: float = PATIENT) -> object:
    async def call() -> object:
        limits = aiohttp.ClientTimeout(sock_connect=timeout, sock_read=timeout)
        async with (
            aiohttp.ClientSession(timeout=limits, raise_for_status=True) as session,
            session.get(url) as response,
        ):
            return await response.json(content_type=None)

    return asyncio.run(call())


def urllib_request(url: str, timeout: float = PATIENT) -> object:
    try:
        with urllib.request.urlopen(url, timeout=timeout) as response:
            return response.read()
    except urllib.error.HTTPError as error:
        error.close()
        raise


def http_client(url: str, timeout: float = PATIENT) -> object:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout)
    with contextlib.closing(connection):
        connection.request("GET", parts.path)
        return connection.getresponse().read()


QUESTION: Any = [{"role": "user", "content": "?"}]


def openai_client(url: str, timeout: float = PATIENT) -> object:
    import openai

    http = openai.DefaultHttpxClient(verify=TLS)
    with openai.OpenAI(
        base_url=url, api_key="key", max_retries=0, timeout=timeout, http_client=http
    ) as client:
        return client.chat.completions.create(model="model", messages=QUESTION)


def openai_async_client(url: str, timeout: float = PATIENT) -> object:
    import openai

    async def call() -> object:
        http = openai.DefaultAsyncHttpxClient(verify=TLS)
        async with openai.AsyncOpenAI(
            base_url=url, api_key="key", max_retries=0, timeout=timeout, http_client=http
        ) as client:
            return await client.chat.completions.create(model="model", messages=QUESTION)

    return asyncio.run(call())


def anthropic_client(url: str, timeout: float = PATIENT) -> object:
    import anthropic

    http = anthropic.DefaultHttpxClient(verify=TLS)
    with anthropic.Anthropic(
        base_url=url, api_key="key", max_retries=0, timeout=timeout, http_client=http
    ) as client:
        return client.messages.create(model="model", max_tokens=5, messages=QUESTION)


def anthropic_async_client(url: str, timeout: float = PATIENT) -> object:
    import anthropic

    async def call() -> object:
        http = anthropic.DefaultAsyncHttpxClient(verify=TLS)
        async with anthropic.AsyncAnthropic(
            base_url=url, api_key="key", max_retries=0, timeout=timeout, http_client=http
        ) as client:
            return await client.messages.create(model="model", max_tokens=5, messages=QUESTION)

    return asyncio.run(call())


AMAZON = botocore.session.Session()


def amazon(service: str, url: str, timeout: float, use: Callable[[Any], object]) -> object:
    client = AMAZON.create_client(
        service,
        region_name="us-east-1",
        endpoint_url=url,
        aws_access_key_id="id",
        aws_secret_access_key="secret",
        config=botocore.config.Config(
            retries={"max_attempts": 0}, connect_timeout=timeout, read_timeout=timeout, proxies={}
        ),
    )
    with contextlib.closing(client):
        return use(client)


def dynamodb(url: str, timeout: float = PATIENT) -> object:
    return amazon("dynamodb", url, timeout, lambda client: client.list_tables())


def s3(url: str, timeout: float = PATIENT) -> object:
    return amazon(
        "s3", url, timeout, lambda client: client.get_object(Bucket="bucket", Key="key")["Body"].read()
    )


HTTP_CLIENTS: tuple[Client, ...] = (
    httpx_sync,
    httpx_async,
    httpx2_sync,
    requests_session,
    urllib3_once,
    urllib3_retrying,
    aiohttp_session,
    urllib_request,
    http_client,
    openai_client,
    openai_async_client,
    anthropic_client,
    anthropic_async_client,
    dynamodb,
    s3,
)
RAISE_FOR_STATUS = tuple(
    client for client in HTTP_CLIENTS if client not in (urllib3_once, urllib3_retrying, http_client)
)
PARSE_JSON = (
    httpx_sync,
    httpx_async,
    httpx2_sync,
    requests_session,
    urllib3_once,
    aiohttp_session,
    openai_client,
    anthropic_client,
)

every_client = pytest.mark.parametrize("client", HTTP_CLIENTS)


# --- no connection --------------------------------------------------------------------------------


@every_client
def test_refused_connection_is_a_network_error_that_was_never_seen(client: Client) -> None:
    """G3, W5: the connection is refused."""
    assert verdict(raised(lambda: client(f"http://{HOST}:{refused_port()}/"))) == NETWORK_NEVER


@every_client
def test_unknown_host_is_a_network_error_that_was_never_seen(client: Client) -> None:
    """G3, W5."""
    assert verdict(raised(lambda: client(f"http://{NO_SUCH_HOST}/"))) == NETWORK_NEVER


@every_client
def test_connect_timeout_was_never_seen_where_the_client_can_tell(client: Client) -> None:
    """G3. The standard library raises the same TimeoutError for connecting and for reading."""
    cannot_tell = client in (urllib_request, http_client)
    with full_backlog() as port:
        error = raised(lambda: client(f"http://{HOST}:{port}/", IMPATIENT))
    assert verdict(error) == (TIMEOUT_MAYBE if cannot_tell else TIMEOUT_NEVER)


# --- no response, or half of one ------------------------------------------------------------------


@dataclass(frozen=True)
class Mishap:
    name: str
    behavior: Behavior
    expected: Verdict
    unlike: tuple[tuple[Client, Verdict], ...] = ()
    immune: tuple[Client, ...] = ()
    timeout: float = PATIENT

    def expected_of(self, client: Client) -> Verdict:
        return dict(self.unlike).get(client, self.expected)


TELL_WHERE_THE_ANSWER_BROKE = (requests_session, aiohttp_session, urllib_request, http_client, s3)
NOT_PARSING = tuple(client for client in HTTP_CLIENTS if client not in PARSE_JSON)

MISHAPS = (
    Mishap("silence", silence(), TIMEOUT_MAYBE, timeout=IMPATIENT),
    Mishap("drip", drip(60), TIMEOUT_MAYBE, timeout=IMPATIENT),
    Mishap("reset", reset(), NETWORK_MAYBE),
    Mishap("close", close(), NETWORK_MAYBE),
    Mishap("close on accept", close_on_accept(), NETWORK_MAYBE),
    Mishap("garbage", garbage(), NETWORK_MAYBE),
    Mishap("huge header", huge_header(), NETWORK_MAYBE),
    Mishap(
        "truncated body",
        truncated(),
        NETWORK_MAYBE,
        unlike=tuple((client, NETWORK_SEEN) for client in TELL_WHERE_THE_ANSWER_BROKE),
        immune=(dynamodb,),  # it accepts any content
    ),
    Mishap(
        "truncated chunks",
        truncated_chunks(),
        NETWORK_MAYBE,
        unlike=tuple((client, NETWORK_SEEN) for client in TELL_WHERE_THE_ANSWER_BROKE),
    ),
    Mishap(
        "broken encoding",
        broken_encoding(),
        NETWORK_SEEN,
        immune=(urllib_request, http_client, dynamodb, s3),
    ),
    Mishap(
        "invalid JSON",
        invalid_json(),
        INVALID_MAYBE,
        unlike=((requests_session, INVALID_SEEN),),
        immune=(*NOT_PARSING, openai_async_client, anthropic_async_client),
    ),
    Mishap(
        "redirect loop",
        redirect_loop(),
        INVALID_SEEN,
        unlike=(
            (requests_session, INVALID_SEEN._replace(http_status=302)),
            (urllib_request, INVALID_SEEN._replace(http_status=302)),
        ),
        immune=(urllib3_once, http_client, dynamodb, s3),
    ),
)
CASES = [
    pytest.param(mishap, client, id=f"{mishap.name}-{client.__name__}")
    for mishap in MISHAPS
    for client in HTTP_CLIENTS
    if client not in mishap.immune
]


@pytest.mark.parametrize(("mishap", "client"), CASES)
def test_mishap_after_the_connection(mishap: Mishap, client: Client, server: MisbehavingServer) -> None:
    """G3: network errors and timeouts are retried, unreadable content is not.

    No error may claim that a request was never seen once it has been sent.
    """
    server.otherwise(mishap.behavior)
    assert verdict(raised(lambda: client(server.url + "/", mishap.timeout))) == mishap.expected_of(client)


@every_client
def test_reset_before_the_request_was_read(client: Client, server: MisbehavingServer) -> None:
    """The reset may reach the client while it connects, sends or reads: it never looks like a response."""
    server.otherwise(reset_on_accept())
    found = verdict(raised(lambda: client(server.url + "/")))
    assert found in (NETWORK_MAYBE, NETWORK_NEVER)
    assert server.requests == []


@pytest.mark.parametrize("client", [client for client in HTTP_CLIENTS if client is not http_client])
def test_plain_text_for_a_tls_client(client: Client, server: MisbehavingServer) -> None:
    """The handshake fails. If a client has one type for that and for later failures, each result is right."""
    one_type = (requests_session, urllib3_once, urllib3_retrying, urllib_request, dynamodb, s3)
    found = verdict(raised(lambda: client(f"https://{HOST}:{server.port}/")))
    assert found == (NETWORK_MAYBE if client in one_type else NETWORK_NEVER)
    assert server.requests == []


# --- statuses -------------------------------------------------------------------------------------

STATUSES = {
    400: (Category.VALIDATION, ErrorClass.FINAL),
    401: (Category.PERMISSION, ErrorClass.FINAL),
    403: (Category.PERMISSION, ErrorClass.FINAL),
    404: (Category.PROVIDER_4XX, ErrorClass.FINAL),
    408: (Category.TIMEOUT, ErrorClass.RETRYABLE),
    409: (Category.CONFLICT, ErrorClass.FINAL),
    410: (Category.PROVIDER_4XX, ErrorClass.FINAL),
    413: (Category.PROVIDER_4XX, ErrorClass.FINAL),
    418: (Category.PROVIDER_4XX, ErrorClass.FINAL),
    422: (Category.VALIDATION, ErrorClass.FINAL),
    425: (Category.PROVIDER_4XX, ErrorClass.RETRYABLE),
    429: (Category.RATE_LIMIT, ErrorClass.RATE_LIMITED),
    500: (Category.PROVIDER_5XX, ErrorClass.RETRYABLE),
    501: (Category.PROVIDER_5XX, ErrorClass.FINAL),
    502: (Category.PROVIDER_5XX, ErrorClass.RETRYABLE),
    503: (Category.PROVIDER_5XX, ErrorClass.RETRYABLE),
    504: (Category.PROVIDER_5XX, ErrorClass.RETRYABLE),
    529: (Category.PROVIDER_5XX, ErrorClass.RETRYABLE),
}


@pytest.mark.parametrize("client", RAISE_FOR_STATUS)
def test_every_status_as_every_client_reports_it(client: Client, server: MisbehavingServer) -> None:
    """G3, D1. One server and one test per client, because a new server per status would add nothing."""
    found = {}
    for status in STATUSES:
        server.otherwise(answer(status))
        found[status] = verdict(raised(lambda: client(server.url + "/")))
    assert found == {status: Verdict(*meaning, SEEN, status) for status, meaning in STATUSES.items()}


HINTS = {
    "7": 7.0,
    "0": 0.0,
    "1.5": 1.5,
    formatdate(NOW + 90, usegmt=True): 90.0,
    formatdate(NOW - 90, usegmt=True): 0.0,
    "soon": None,
    "-5": None,
    "": None,
    "nan": None,
    "99999999999": MAX_HINT_SECONDS,
    "9" * 60: MAX_HINT_SECONDS,
    "9" * 1000: None,
}


@pytest.mark.parametrize("client", RAISE_FOR_STATUS)
@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_as_every_client_hands_it_on(
    client: Client, status: int, server: MisbehavingServer
) -> None:
    """D4: seconds, a date, nonsense, a negative and a huge number."""
    found = {}
    for value in HINTS:
        server.otherwise(answer(status, {"Retry-After": value}))
        found[value] = verdict(raised(lambda: client(server.url + "/"))).retry_after
    assert found == HINTS


@pytest.mark.parametrize("client", RAISE_FOR_STATUS)
def test_retry_after_in_milliseconds(client: Client, server: MisbehavingServer) -> None:
    """Two minutes in milliseconds are two minutes, and the more precise header wins."""
    server.otherwise(answer(429, {"Retry-After": "121", "Retry-After-Ms": "120000"}))
    assert verdict(raised(lambda: client(server.url + "/"))).retry_after == 120.0


# --- peculiarities of single clients ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (503, SERVER_TROUBLE),
        (500, SERVER_TROUBLE),
        (429, Verdict(Category.RATE_LIMIT, ErrorClass.RATE_LIMITED, SEEN)),
    ],
)
def test_urllib3_giving_up_on_a_status_it_was_told_to_retry(
    status: int, expected: Verdict, server: MisbehavingServer
) -> None:
    """G3. The status is only in the text of the innermost error."""
    server.otherwise(answer(status))
    assert verdict(raised(lambda: urllib3_retrying(server.url + "/"))) == expected
    assert len(server.requests) == 2


def test_requests_with_a_retrying_adapter(server: MisbehavingServer) -> None:
    """G3: the most common set-up of requests wraps the urllib3 error twice."""
    server.otherwise(answer(502))
    adapter = requests.adapters.HTTPAdapter(max_retries=urllib3.Retry(1, status_forcelist=[502]))
    with requests.Session() as session:
        session.mount("http://", adapter)
        error = raised(lambda: session.get(server.url, timeout=PATIENT))
    assert verdict(error) == SERVER_TROUBLE


@pytest.mark.parametrize(
    ("status", "expected"),
    [(200, INVALID_SEEN._replace(http_status=200)), (502, SERVER_TROUBLE._replace(http_status=502))],
)
async def test_aiohttp_asked_for_json_and_given_an_error_page(
    status: int, expected: Verdict, server: MisbehavingServer
) -> None:
    """G3: an HTML page from a gateway is the gateway's fault, not the caller's."""
    server.otherwise(answer(status, {"Content-Type": "text/html"}, "<html>"))
    async with aiohttp.ClientSession() as session, session.get(server.url) as response:
        with pytest.raises(aiohttp.ContentTypeError) as caught:
            await response.json()
    assert verdict(caught.value) == expected


async def test_aiohttp_total_timeout(server: MisbehavingServer) -> None:
    """G3."""
    server.otherwise(silence())
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=IMPATIENT)) as session:
        with pytest.raises(TimeoutError) as caught:
            await session.get(server.url)
    assert verdict(caught.value) == TIMEOUT_MAYBE


def test_httpx_pool_timeout_was_never_sent(server: MisbehavingServer) -> None:
    """No connection was free, so the client sent nothing."""
    server.otherwise(drip(10))
    with (
        httpx.Client(limits=httpx.Limits(max_connections=1), trust_env=False, verify=TLS) as client,
        client.stream("GET", server.url),
    ):
        error = raised(lambda: client.get(server.url, timeout=IMPATIENT))
    assert isinstance(error, httpx.PoolTimeout)
    assert verdict(error) == TIMEOUT_NEVER
    assert len(server.requests) == 1


@loop_over(
    "call",
    [
        lambda: httpx_sync("ftp://127.0.0.1/"),
        lambda: httpx_sync("http://[::1"),
        lambda: requests_session("nonsense"),
        lambda: requests_session("ftp://127.0.0.1/"),
        lambda: requests_session("http://"),
        lambda: urllib3_once("http://[::1"),
        lambda: aiohttp_session("http://"),
        lambda: http_client("http://127.0.0.1/with a space"),
        lambda: openai_client("nonsense"),
        lambda: anthropic_client("nonsense"),
    ],
)
def test_a_request_that_cannot_be_sent_is_not_retried(call: Callable[[], object]) -> None:
    """W5: validation is final, and the client sent nothing."""
    assert verdict(raised(call)) == Verdict(Category.VALIDATION, ErrorClass.FINAL, NEVER)


async def test_asyncio_failing_on_every_address_of_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """G3: asyncio then raises an OSError with only a text."""
    loop = asyncio.get_running_loop()

    async def two_addresses(*_arguments: object, **_options: object) -> list[Any]:
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 0, "", (address, refused_port()))
            for address in ("127.0.0.1", "127.0.0.2")
        ]

    monkeypatch.setattr(loop, "getaddrinfo", two_addresses)
    with pytest.raises(OSError, match="Multiple exceptions") as caught:
        await loop.create_connection(asyncio.Protocol, "two-addresses.invalid", 1)
    assert verdict(caught.value) == NETWORK_NEVER


# --- a TLS connection that breaks after the request -----------------------------------------------


def tls_context(side: int) -> ssl.SSLContext:
    """Return a TLS context without certificates."""
    context = ssl.SSLContext(side)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("AECDH-AES256-SHA:@SECLEVEL=0")
    return context


class TlsBreaker:
    """Reads one request over TLS, then responds in plain text, which breaks the client's TLS."""

    def __init__(self) -> None:
        self.received = b""
        self.listener = socket.create_server((HOST, 0))
        self.url = f"https://{HOST}:{self.listener.getsockname()[1]}/"
        self.thread = threading.Thread(target=self.serve, daemon=True)

    def serve(self) -> None:
        accepted, _ = self.listener.accept()
        with tls_context(ssl.PROTOCOL_TLS_SERVER).wrap_socket(accepted, server_side=True) as secure:
            self.received = secure.recv(1000)
            with socket.socket(fileno=secure.detach()) as bare:
                bare.sendall(b"HTTP/1.1 400 in plain text\r\n\r\n")


@pytest.fixture
def tls_breaker() -> Iterator[TlsBreaker]:
    breaker = TlsBreaker()
    breaker.thread.start()
    yield breaker
    breaker.thread.join()
    breaker.listener.close()


class TlsAdapter(requests.adapters.HTTPAdapter):
    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        super().init_poolmanager(*arguments, ssl_context=tls_context(ssl.PROTOCOL_TLS_CLIENT), **options)


def post_by_urllib3(url: str) -> object:
    context = tls_context(ssl.PROTOCOL_TLS_CLIENT)
    with urllib3.PoolManager(ssl_context=context, retries=False, timeout=PATIENT) as pool:
        return pool.request("POST", url, body=b"charge the card")


def post_by_requests(url: str) -> object:
    with requests.Session() as session:
        session.trust_env = False
        session.mount("https://", TlsAdapter())
        return session.post(url, data=b"charge the card", verify=False, timeout=PATIENT)


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
@pytest.mark.parametrize("post", [post_by_urllib3, post_by_requests])
def test_tls_that_breaks_after_the_request_was_read_may_have_been_seen(
    post: Callable[[str], object], tls_breaker: TlsBreaker
) -> None:
    """An SSLError doesn't prove that nothing was sent: here the server has read the whole request."""
    error = raised(lambda: post(tls_breaker.url))
    assert tls_breaker.received.startswith(b"POST")
    assert verdict(error) == NETWORK_MAYBE


# --- Amazon ---------------------------------------------------------------------------------------

THROTTLED = Verdict(Category.RATE_LIMIT, ErrorClass.RATE_LIMITED, SEEN)


def amazon_json(code: str) -> str:
    return json.dumps({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "no"})


def amazon_xml(code: str) -> str:
    return f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>no</Message></Error>"


@pytest.mark.parametrize(
    ("client", "status", "body", "expected"),
    [
        (dynamodb, 400, amazon_json("ProvisionedThroughputExceededException"), THROTTLED),
        (dynamodb, 400, amazon_json("ThrottlingException"), THROTTLED),
        (dynamodb, 400, amazon_json("RequestLimitExceeded"), THROTTLED),
        (
            dynamodb,
            400,
            amazon_json("ConditionalCheckFailedException"),
            Verdict(Category.CONFLICT, ErrorClass.FINAL, SEEN),
        ),
        (
            dynamodb,
            400,
            amazon_json("TransactionConflictException"),
            Verdict(Category.CONFLICT, ErrorClass.RETRYABLE, SEEN),
        ),
        (
            dynamodb,
            400,
            amazon_json("ExpiredTokenException"),
            Verdict(Category.PERMISSION, ErrorClass.FINAL, SEEN),
        ),
        (dynamodb, 400, amazon_json("ValidationException"), INVALID_SEEN),
        (dynamodb, 500, amazon_json("InternalServerError"), SERVER_TROUBLE),
        (s3, 503, amazon_xml("SlowDown"), THROTTLED),
        (s3, 400, amazon_xml("RequestTimeout"), TIMEOUT_MAYBE),
        (s3, 403, amazon_xml("AccessDenied"), Verdict(Category.PERMISSION, ErrorClass.FINAL, SEEN)),
        (s3, 404, amazon_xml("NoSuchKey"), Verdict(Category.PROVIDER_4XX, ErrorClass.FINAL, SEEN)),
        (s3, 500, amazon_xml("InternalError"), SERVER_TROUBLE),
    ],
)
def test_amazon_errors_are_in_the_body(
    client: Client, status: int, body: str, expected: Verdict, server: MisbehavingServer
) -> None:
    """G3, D1: the code in the body takes precedence over the status, which is 400 for throttling too."""
    server.otherwise(answer(status, body=body))
    assert verdict(raised(lambda: client(server.url + "/"))) == expected._replace(http_status=status)


def test_amazon_without_credentials_is_missing_configuration(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, server: MisbehavingServer
) -> None:
    """W5."""
    nowhere = tmp_path_factory.mktemp("nowhere") / "absent"
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(nowhere))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(nowhere))
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    client = botocore.session.Session().create_client(
        "dynamodb", region_name="us-east-1", endpoint_url=server.url
    )
    with contextlib.closing(client):
        error = raised(client.list_tables)
    assert verdict(error) == Verdict(Category.MISSING_CONFIG, ErrorClass.FINAL, NEVER)


# --- gRPC -----------------------------------------------------------------------------------------

GRPC = {
    "CANCELLED": NETWORK_MAYBE,
    "UNKNOWN": Verdict(Category.UNKNOWN, ErrorClass.FINAL, MAYBE),
    "INVALID_ARGUMENT": INVALID_SEEN,
    "DEADLINE_EXCEEDED": TIMEOUT_MAYBE,
    "NOT_FOUND": Verdict(Category.PROVIDER_4XX, ErrorClass.FINAL, SEEN),
    "ALREADY_EXISTS": Verdict(Category.CONFLICT, ErrorClass.FINAL, SEEN),
    "PERMISSION_DENIED": Verdict(Category.PERMISSION, ErrorClass.FINAL, SEEN),
    "UNAUTHENTICATED": Verdict(Category.PERMISSION, ErrorClass.FINAL, SEEN),
    "RESOURCE_EXHAUSTED": Verdict(Category.RATE_LIMIT, ErrorClass.RATE_LIMITED, SEEN),
    "FAILED_PRECONDITION": INVALID_SEEN,
    "ABORTED": Verdict(Category.CONFLICT, ErrorClass.RETRYABLE, SEEN),
    "OUT_OF_RANGE": INVALID_SEEN,
    "UNIMPLEMENTED": Verdict(Category.PROVIDER_4XX, ErrorClass.FINAL, SEEN),
    "INTERNAL": SERVER_TROUBLE,
    "UNAVAILABLE": NETWORK_MAYBE,
    "DATA_LOSS": Verdict(Category.UNKNOWN, ErrorClass.FINAL, MAYBE),
}


class Aborting(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Ends every call with the status in the method's name; `slow` waits first."""

    def service(self, details: Any) -> Any:
        name = details.method.rpartition("/")[2]

        def call(_request: bytes, context: Any) -> bytes:
            if name == "slow":
                time.sleep(2 * IMPATIENT)
                return b""
            context.abort(grpc.StatusCode[name], "as ordered")
            raise AssertionError

        return grpc.unary_unary_rpc_method_handler(call)


@pytest.fixture(scope="module")
def grpc_address() -> Iterator[str]:
    running = grpc.server(ThreadPoolExecutor(4), handlers=[Aborting()])
    port = running.add_insecure_port(f"{HOST}:0")
    running.start()
    yield f"{HOST}:{port}"
    running.stop(1).wait()


def grpc_call(address: str, method: str) -> object:
    with grpc.insecure_channel(address) as channel:
        return channel.unary_unary(f"/service/{method}")(
            b"", timeout=IMPATIENT if method == "slow" else PATIENT
        )


def grpc_aio_call(address: str, method: str) -> object:
    async def call() -> object:
        async with grpc.aio.insecure_channel(address) as channel:
            return await channel.unary_unary(f"/service/{method}")(
                b"", timeout=IMPATIENT if method == "slow" else PATIENT
            )

    return asyncio.run(call())


GrpcCall = Callable[[str, str], object]
both_grpc = pytest.mark.parametrize("call", [grpc_call, grpc_aio_call])


def test_the_table_of_grpc_statuses_is_complete() -> None:
    assert set(GRPC) == {code.name for code in grpc.StatusCode} - {"OK"}


@both_grpc
@pytest.mark.parametrize("status", GRPC)
def test_grpc_status(call: GrpcCall, status: str, grpc_address: str) -> None:
    """G3, D1. A call that the other side cancelled is a failure, not an interruption by us."""
    assert verdict(raised(lambda: call(grpc_address, status))) == GRPC[status]


@both_grpc
def test_grpc_refused(call: GrpcCall) -> None:
    """G3."""
    assert verdict(raised(lambda: call(f"{HOST}:{refused_port()}", "slow"))) == NETWORK_MAYBE


@both_grpc
def test_grpc_deadline(call: GrpcCall, grpc_address: str) -> None:
    """G3."""
    assert verdict(raised(lambda: call(grpc_address, "slow"))) == TIMEOUT_MAYBE


@both_grpc
@pytest.mark.parametrize("behavior", [reset_on_accept(), close_on_accept()])
def test_grpc_connection_that_does_not_last(
    call: GrpcCall, behavior: Behavior, server: MisbehavingServer
) -> None:
    """G3."""
    server.otherwise(behavior)
    assert verdict(raised(lambda: call(f"{HOST}:{server.port}", "slow"))) == NETWORK_MAYBE


def test_grpc_futures(grpc_address: str) -> None:
    """A result that is late is a timeout; a call that this side cancelled is cancelled."""
    with grpc.insecure_channel(grpc_address) as channel:
        slow = channel.unary_unary("/service/slow")
        late = slow.future(b"", timeout=5)
        assert verdict(raised(lambda: late.result(timeout=0.05))) == TIMEOUT_MAYBE
        late.cancel()
        assert classify(raised(late.result)).category is Category.CANCELLED


# --- mail -----------------------------------------------------------------------------------------


def mail_server(*replies: bytes) -> Behavior:
    """Serve a greeting, and one more reply for each line it reads."""

    def play(exchange: Exchange) -> None:
        lines = exchange.connection.makefile("rb")
        with lines:
            for reply in replies:
                exchange.send(reply + b"\r\n")
                lines.readline()

    return Behavior(play, reads_request=False)


def send_mail(port: int) -> object:
    with smtplib.SMTP(HOST, port, timeout=PATIENT, local_hostname="here") as mail:
        return mail.sendmail("me@here", ["you@there"], "Subject: hello\r\n\r\nhello")


@pytest.mark.parametrize(
    ("replies", "expected"),
    [
        ([b"421 too busy"], SERVER_TROUBLE),
        ([b"220 hello", b"250 here", b"250 from", b"451 greylisted", b"250 reset"], SERVER_TROUBLE),
        (
            [b"220 hello", b"250 here", b"250 from", b"550 no such user", b"250 reset"],
            Verdict(Category.PROVIDER_4XX, ErrorClass.FINAL, SEEN),
        ),
        (
            [b"220 hello", b"250 here", b"530 log in first", b"250 reset"],
            Verdict(Category.PERMISSION, ErrorClass.FINAL, SEEN),
        ),
        ([b"220 hello", b"250 here"], NETWORK_MAYBE),
    ],
)
def test_mail(replies: list[bytes], expected: Verdict, server: MisbehavingServer) -> None:
    """W7's outbound messages: greylisting (4xx) passes, a rejection (5xx) stays."""
    server.otherwise(mail_server(*replies))
    assert verdict(raised(lambda: send_mail(server.port))) == expected


def test_no_mail_server() -> None:
    """G3."""
    assert verdict(raised(lambda: send_mail(refused_port()))) == NETWORK_NEVER


# --- the server itself ----------------------------------------------------------------------------


def test_the_server_serves_many_at_once_and_counts_them(server: MisbehavingServer) -> None:
    """The server sees fifty held requests at once, and stops without waiting for them."""
    server.otherwise(silence())
    sockets = [socket.create_connection((HOST, server.port)) for _ in range(50)]
    try:
        for index, connection in enumerate(sockets):
            connection.sendall(f"POST /{index} HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi".encode())
        assert server.wait_for(50)
        assert {request.path for request in server.requests} == {f"/{index}" for index in range(50)}
        assert {request.body for request in server.requests} == {b"hi"}
    finally:
        for connection in sockets:
            connection.close()


def test_the_server_lets_go_of_a_client_that_has_gone(server: MisbehavingServer) -> None:
    server.otherwise(silence())
    with socket.create_connection((HOST, server.port)) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert server.wait_for(1)
        assert server.open_connections == 1
    ends = time.monotonic() + PATIENT
    while server.open_connections and time.monotonic() < ends:
        time.sleep(0.005)
    assert server.open_connections == 0


def test_the_server_follows_its_script_then_its_paths(server: MisbehavingServer) -> None:
    server.on("/busy", answer(503))
    server.script(answer_json({"first": 1}), answer(201))
    server.otherwise(answer(404))
    with httpx.Client(base_url=server.url, trust_env=False) as client:
        found = [client.get(path).status_code for path in ("/a", "/b", "/busy", "/c")]
        echoed = client.post("/busy", content=iter([b"in ", b"chunks"]), headers={"X-Name": "value"})
    assert found == [200, 201, 503, 404]
    assert echoed.status_code == 503
    last = server.requests[-1]
    assert (last.method, last.path, last.body) == ("POST", "/busy", b"in chunks")
    assert last.headers["x-name"] == "value"
    assert {request.connection for request in server.requests} == {1}
