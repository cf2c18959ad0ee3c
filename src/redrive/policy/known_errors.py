"""What the errors of the standard library and of well-known clients mean. Data only.

Keys are `package:ClassName` (see probe.type_keys), HTTP statuses, SQLSTATEs, gRPC and AWS codes.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import NamedTuple

from redrive.model.failure import Category, Delivery, ErrorClass

C, D, E = Category, Delivery, ErrorClass


class Meaning(NamedTuple):
    category: Category
    delivery: Delivery = Delivery.MAYBE_SEEN
    error_class: ErrorClass | None = None


Table = MappingProxyType[str, Meaning]

CLASS_OF_CATEGORY = MappingProxyType(
    {
        C.TIMEOUT: E.RETRYABLE,
        C.NETWORK: E.RETRYABLE,
        C.PROVIDER_5XX: E.RETRYABLE,
        C.RESOURCE: E.RETRYABLE,
        C.RATE_LIMIT: E.RATE_LIMITED,
    }
)
"""Every other category is final (W5)."""

_NEVER_CONNECTED = Meaning(C.NETWORK, D.NEVER_SEEN)
_CONNECTION_LOST = Meaning(C.NETWORK)
_ANSWER_CUT_SHORT = Meaning(C.NETWORK, D.SEEN)
_CONNECT_TIMEOUT = Meaning(C.TIMEOUT, D.NEVER_SEEN)
_TIMEOUT = Meaning(C.TIMEOUT)
_BAD_REQUEST = Meaning(C.VALIDATION, D.NEVER_SEEN)
_BAD_ANSWER = Meaning(C.VALIDATION, D.SEEN)
_NOT_CONFIGURED = Meaning(C.MISSING_CONFIG, D.NEVER_SEEN)
_USED_UP = Meaning(C.RESOURCE)


def _named(package: str, meaning: Meaning, names: str) -> dict[str, Meaning]:
    return {f"{package}:{name}": meaning for name in names.split()}


def _httpx(package: str) -> dict[str, Meaning]:
    return {
        **_named(package, _CONNECT_TIMEOUT, "ConnectTimeout PoolTimeout"),
        **_named(package, _TIMEOUT, "TimeoutException"),
        **_named(package, _NEVER_CONNECTED, "ConnectError ProxyError"),
        **_named(package, _CONNECTION_LOST, "NetworkError RemoteProtocolError"),
        **_named(package, _BAD_REQUEST, "UnsupportedProtocol LocalProtocolError InvalidURL"),
        **_named(package, _BAD_ANSWER, "DecodingError TooManyRedirects"),
    }


def _language_model_client(package: str) -> dict[str, Meaning]:
    return {
        **_named(package, _TIMEOUT, "APITimeoutError"),
        **_named(package, _CONNECTION_LOST, "APIConnectionError"),
        **_named(
            package,
            _BAD_ANSWER,
            "APIResponseValidationError ContentFilterFinishReasonError LengthFinishReasonError",
        ),
    }


LIBRARY_ERRORS: Table = MappingProxyType(
    {
        **_httpx("httpx"),
        **_httpx("httpx2"),
        **_named("httpcore", _CONNECT_TIMEOUT, "ConnectTimeout PoolTimeout"),
        **_named("httpcore", _TIMEOUT, "TimeoutException"),
        **_named("httpcore", _NEVER_CONNECTED, "ConnectError ProxyError"),
        **_named("httpcore", _CONNECTION_LOST, "NetworkError RemoteProtocolError"),
        **_named("requests", _CONNECT_TIMEOUT, "ConnectTimeout"),
        **_named("requests", _TIMEOUT, "Timeout"),
        **_named("requests", _NEVER_CONNECTED, "ProxyError SSLError"),
        **_named("requests", _CONNECTION_LOST, "ConnectionError"),
        **_named("requests", _ANSWER_CUT_SHORT, "ChunkedEncodingError ContentDecodingError"),
        **_named("requests", _BAD_ANSWER, "JSONDecodeError TooManyRedirects"),
        **_named("requests", _BAD_REQUEST, "InvalidURL MissingSchema InvalidSchema InvalidHeader"),
        **_named("urllib3", _CONNECT_TIMEOUT, "ConnectTimeoutError"),
        **_named("urllib3", _NEVER_CONNECTED, "NewConnectionError NameResolutionError ProxyError SSLError"),
        **_named("urllib3", _TIMEOUT, "TimeoutError"),
        **_named("urllib3", _USED_UP, "EmptyPoolError FullPoolError"),
        **_named("urllib3", _ANSWER_CUT_SHORT, "IncompleteRead InvalidChunkLength DecodeError"),
        **_named("urllib3", _CONNECTION_LOST, "ProtocolError"),
        **_named("urllib3", _BAD_REQUEST, "LocationValueError"),
        **_named("aiohttp", _CONNECT_TIMEOUT, "ConnectionTimeoutError"),
        **_named("aiohttp", _TIMEOUT, "ServerTimeoutError"),
        **_named("aiohttp", _NEVER_CONNECTED, "ClientConnectorError ClientSSLError"),
        **_named("aiohttp", _CONNECTION_LOST, "ClientConnectionError"),
        **_named("aiohttp", _ANSWER_CUT_SHORT, "ClientPayloadError"),
        **_named("aiohttp", _BAD_ANSWER, "ContentTypeError TooManyRedirects"),
        **_named("aiohttp", _BAD_REQUEST, "InvalidURL"),
        **_language_model_client("openai"),
        **_language_model_client("anthropic"),
        **_named("botocore", _CONNECT_TIMEOUT, "ConnectTimeoutError"),
        **_named("botocore", _TIMEOUT, "ReadTimeoutError"),
        **_named("botocore", _NEVER_CONNECTED, "EndpointConnectionError ProxyConnectionError SSLError"),
        **_named("botocore", _CONNECTION_LOST, "HTTPClientError"),
        **_named("botocore", _NOT_CONFIGURED, "NoCredentialsError PartialCredentialsError NoRegionError"),
        **_named("botocore", _NOT_CONFIGURED, "CredentialRetrievalError ProfileNotFound"),
        **_named("botocore", _BAD_REQUEST, "ParamValidationError ValidationError"),
        **_named("redis", _TIMEOUT, "TimeoutError"),
        **_named("redis", _USED_UP, "BusyLoadingError OutOfMemoryError MaxConnectionsError"),
        **_named("redis", _NEVER_CONNECTED, "MasterDownError ClusterDownError TryAgainError"),
        **_named("redis", Meaning(C.NETWORK, D.SEEN), "ReadOnlyError"),
        **_named("redis", Meaning(C.PERMISSION, D.SEEN), "AuthenticationError AuthorizationError"),
        **_named("redis", Meaning(C.PERMISSION, D.SEEN), "NoPermissionError"),
        **_named("redis", Meaning(C.CONFLICT, D.SEEN, E.RETRYABLE), "WatchError"),
        **_named("redis", _CONNECTION_LOST, "ConnectionError"),
        **_named("redis", _BAD_REQUEST, "DataError"),
        **_named("redis", _BAD_ANSWER, "ResponseError"),
        **_named("apsw", _USED_UP, "BusyError LockedError FullError NoMemError"),
        **_named("pydantic", _BAD_REQUEST, "ValidationError"),
        **_named("pydantic_core", _BAD_REQUEST, "ValidationError"),
        **_named("msgspec", _BAD_REQUEST, "ValidationError"),
        **_named("jsonschema", _BAD_REQUEST, "ValidationError"),
        **_named("marshmallow", _BAD_REQUEST, "ValidationError"),
        **_named("redrive", _TIMEOUT, "AttemptTimeoutError"),
        **_named("redrive", _BAD_ANSWER, "HttpContentError"),
        **_named("redrive", _BAD_REQUEST, "InvalidValueError"),
    }
)
"""Looked at before statuses and codes: these types say more than what they carry."""

GENERAL_ERRORS: Table = MappingProxyType(
    {
        **_named("asyncio", Meaning(C.CANCELLED), "CancelledError"),
        **_named("concurrent", Meaning(C.CANCELLED), "CancelledError"),
        **_named("builtins", Meaning(C.CANCELLED), "KeyboardInterrupt SystemExit GeneratorExit"),
        **_named("builtins", _TIMEOUT, "TimeoutError"),
        **_named("subprocess", _TIMEOUT, "TimeoutExpired"),
        **_named("builtins", _NEVER_CONNECTED, "ConnectionRefusedError"),
        **_named("builtins", _CONNECTION_LOST, "ConnectionError"),
        **_named("socket", _NEVER_CONNECTED, "gaierror herror"),
        **_named("ssl", _NEVER_CONNECTED, "SSLCertVerificationError"),
        **_named("ssl", _CONNECTION_LOST, "SSLError"),
        **_named("http", _ANSWER_CUT_SHORT, "IncompleteRead"),
        **_named("http", _CONNECTION_LOST, "HTTPException"),
        **_named("urllib", _CONNECTION_LOST, "URLError ContentTooShortError"),
        **_named("asyncio", _CONNECTION_LOST, "IncompleteReadError"),
        **_named("psycopg", _CONNECTION_LOST, "OperationalError"),
        **_named("psycopg_pool", _CONNECT_TIMEOUT, "PoolTimeout"),
        **_named("sqlalchemy", _CONNECT_TIMEOUT, "TimeoutError"),
        **_named("builtins", _USED_UP, "MemoryError"),
        **_named("builtins", Meaning(C.PERMISSION), "PermissionError"),
        **_named("builtins", _NOT_CONFIGURED, "ImportError"),
        **_named("builtins", Meaning(C.VALIDATION), "ValueError"),
    }
)
"""Looked at last: what is left when nothing more telling was found."""

STATUSES: MappingProxyType[int, Meaning] = MappingProxyType(
    {
        400: Meaning(C.VALIDATION, D.SEEN),
        401: Meaning(C.PERMISSION, D.SEEN),
        403: Meaning(C.PERMISSION, D.SEEN),
        407: Meaning(C.PERMISSION, D.SEEN),
        408: Meaning(C.TIMEOUT, D.SEEN),
        409: Meaning(C.CONFLICT, D.SEEN),
        412: Meaning(C.CONFLICT, D.SEEN),
        422: Meaning(C.VALIDATION, D.SEEN),
        425: Meaning(C.PROVIDER_4XX, D.SEEN, E.RETRYABLE),
        429: Meaning(C.RATE_LIMIT, D.SEEN),
        501: Meaning(C.PROVIDER_5XX, D.SEEN, E.FINAL),
        505: Meaning(C.PROVIDER_5XX, D.SEEN, E.FINAL),
        511: Meaning(C.PROVIDER_5XX, D.SEEN, E.FINAL),
    }
)
OTHER_4XX = Meaning(C.PROVIDER_4XX, D.SEEN)
OTHER_5XX = Meaning(C.PROVIDER_5XX, D.SEEN)

SPENT_QUOTA_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})
SPENT_QUOTA = Meaning(C.RESOURCE, D.SEEN, E.FINAL)
"""Providers answer 429 for a spent quota too; no wait brings it back."""

SQLSTATES: Table = MappingProxyType(
    {
        "08001": _NEVER_CONNECTED,
        "08004": _NEVER_CONNECTED,
        "08": _CONNECTION_LOST,
        "22": _BAD_ANSWER,
        "23505": Meaning(C.CONFLICT, D.SEEN),
        "23": _BAD_ANSWER,
        "25006": Meaning(C.NETWORK, D.SEEN),
        "28": Meaning(C.PERMISSION, D.SEEN),
        "40": Meaning(C.CONFLICT, D.SEEN, E.RETRYABLE),
        "42501": Meaning(C.PERMISSION, D.SEEN),
        "42": _BAD_ANSWER,
        "3D": Meaning(C.MISSING_CONFIG, D.SEEN),
        "53": Meaning(C.RESOURCE, D.SEEN),
        "55P03": Meaning(C.RESOURCE, D.SEEN),
        "57014": Meaning(C.TIMEOUT, D.SEEN),
        "57P03": _NEVER_CONNECTED,
        "57P": _CONNECTION_LOST,
        "58": Meaning(C.RESOURCE, D.SEEN),
    }
)
"""By the whole code, then its first three, then its first two characters (the class)."""

GRPC_CODES: Table = MappingProxyType(
    {
        "CANCELLED": Meaning(C.CANCELLED),
        "INVALID_ARGUMENT": _BAD_ANSWER,
        "FAILED_PRECONDITION": _BAD_ANSWER,
        "OUT_OF_RANGE": _BAD_ANSWER,
        "DEADLINE_EXCEEDED": _TIMEOUT,
        "NOT_FOUND": OTHER_4XX,
        "UNIMPLEMENTED": OTHER_4XX,
        "ALREADY_EXISTS": Meaning(C.CONFLICT, D.SEEN),
        "ABORTED": Meaning(C.CONFLICT, D.SEEN, E.RETRYABLE),
        "PERMISSION_DENIED": Meaning(C.PERMISSION, D.SEEN),
        "UNAUTHENTICATED": Meaning(C.PERMISSION, D.SEEN),
        "RESOURCE_EXHAUSTED": Meaning(C.RATE_LIMIT, D.SEEN),
        "INTERNAL": OTHER_5XX,
        "UNAVAILABLE": _CONNECTION_LOST,
    }
)

_THROTTLED = Meaning(C.RATE_LIMIT, D.SEEN)
AWS_CODES: Table = MappingProxyType(
    {
        **dict.fromkeys(
            (
                "Throttling",
                "ThrottlingException",
                "ThrottledException",
                "RequestThrottled",
                "RequestThrottledException",
                "TooManyRequestsException",
                "ProvisionedThroughputExceededException",
                "RequestLimitExceeded",
                "BandwidthLimitExceeded",
                "LimitExceededException",
                "SlowDown",
                "PriorRequestNotComplete",
                "TransactionInProgressException",
                "EC2ThrottledException",
            ),
            _THROTTLED,
        ),
        "RequestTimeout": _TIMEOUT,
        "RequestTimeoutException": _TIMEOUT,
        "ExpiredToken": Meaning(C.PERMISSION, D.SEEN),
        "AccessDenied": Meaning(C.PERMISSION, D.SEEN),
        "AccessDeniedException": Meaning(C.PERMISSION, D.SEEN),
        "ConditionalCheckFailedException": Meaning(C.CONFLICT, D.SEEN),
    }
)

SQLITE_BUSY = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL", "SQLITE_NOMEM", "SQLITE_IOERR")
USED_UP = _USED_UP
UNREACHABLE = _NEVER_CONNECTED
