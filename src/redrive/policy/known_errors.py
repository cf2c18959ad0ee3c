"""The meanings of errors of the standard library and of well-known clients. Data only.

Keys are `package:ClassName` (see exception.type_keys), HTTP statuses, SQLSTATEs, gRPC and AWS codes.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import NamedTuple

from redrive.model.failure import Category, Delivery, ErrorClass

C, D, E = Category, Delivery, ErrorClass


class ErrorMeaning(NamedTuple):
    category: Category
    delivery: Delivery = Delivery.MAYBE_SEEN
    error_class: ErrorClass | None = None


Table = MappingProxyType[str, ErrorMeaning]

CLASS_OF_CATEGORY = MappingProxyType(
    {
        C.TIMEOUT: E.RETRYABLE,
        C.NETWORK: E.RETRYABLE,
        C.PROVIDER_5XX: E.RETRYABLE,
        C.RESOURCE: E.RETRYABLE,
        C.RATE_LIMIT: E.RATE_LIMITED,
    }
)
"""The classes of categories; all other categories are final."""

_NEVER_CONNECTED = ErrorMeaning(C.NETWORK, D.NEVER_SEEN)
_CONNECTION_LOST = ErrorMeaning(C.NETWORK)
_ANSWER_CUT_SHORT = ErrorMeaning(C.NETWORK, D.SEEN)
_CONNECT_TIMEOUT = ErrorMeaning(C.TIMEOUT, D.NEVER_SEEN)
_TIMEOUT = ErrorMeaning(C.TIMEOUT)
_BAD_REQUEST = ErrorMeaning(C.VALIDATION, D.NEVER_SEEN)
_BAD_ANSWER = ErrorMeaning(C.VALIDATION, D.SEEN)
_NOT_CONFIGURED = ErrorMeaning(C.MISSING_CONFIG, D.NEVER_SEEN)
_NOT_VALID = ErrorMeaning(C.VALIDATION)
_USED_UP = ErrorMeaning(C.RESOURCE)
_NONE_LEFT = ErrorMeaning(C.RESOURCE, D.NEVER_SEEN)
_REFUSED_FOR_NOW = ErrorMeaning(C.RESOURCE, D.SEEN)
_DENIED = ErrorMeaning(C.PERMISSION, D.SEEN)
_THROTTLED = ErrorMeaning(C.RATE_LIMIT, D.SEEN)
_EXISTS_ALREADY = ErrorMeaning(C.CONFLICT, D.SEEN)
_LOST_A_RACE = ErrorMeaning(C.CONFLICT, D.SEEN, E.RETRYABLE)
OTHER_4XX = ErrorMeaning(C.PROVIDER_4XX, D.SEEN)
OTHER_5XX = ErrorMeaning(C.PROVIDER_5XX, D.SEEN)


def _named(package: str, meaning: ErrorMeaning, names: str) -> dict[str, ErrorMeaning]:
    return {f"{package}:{name}": meaning for name in names.split()}


def _httpx(package: str) -> dict[str, ErrorMeaning]:
    return {
        **_named(package, _CONNECT_TIMEOUT, "ConnectTimeout PoolTimeout"),
        **_named(package, _TIMEOUT, "TimeoutException"),
        **_named(package, _NEVER_CONNECTED, "ConnectError ProxyError"),
        **_named(package, _CONNECTION_LOST, "NetworkError RemoteProtocolError"),
        **_named(package, _BAD_REQUEST, "UnsupportedProtocol LocalProtocolError InvalidURL"),
        **_named(package, _ANSWER_CUT_SHORT, "DecodingError"),
        **_named(package, _BAD_ANSWER, "TooManyRedirects"),
    }


def _language_model_client(package: str) -> dict[str, ErrorMeaning]:
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
        **_named("requests", _NEVER_CONNECTED, "ProxyError"),
        **_named("requests", _CONNECTION_LOST, "ConnectionError SSLError"),
        **_named("requests", _ANSWER_CUT_SHORT, "ChunkedEncodingError ContentDecodingError"),
        **_named("requests", _BAD_ANSWER, "JSONDecodeError TooManyRedirects"),
        **_named("requests", _BAD_REQUEST, "InvalidURL MissingSchema InvalidSchema InvalidHeader"),
        **_named("urllib3", _CONNECT_TIMEOUT, "ConnectTimeoutError"),
        **_named("urllib3", _NEVER_CONNECTED, "NewConnectionError NameResolutionError ProxyError"),
        **_named("urllib3", _TIMEOUT, "TimeoutError"),
        **_named("urllib3", _USED_UP, "EmptyPoolError FullPoolError"),
        **_named("urllib3", _ANSWER_CUT_SHORT, "IncompleteRead InvalidChunkLength DecodeError"),
        **_named("urllib3", _CONNECTION_LOST, "ProtocolError SSLError"),
        **_named("urllib3", _BAD_REQUEST, "LocationValueError"),
        **_named("aiohttp", _CONNECT_TIMEOUT, "ConnectionTimeoutError"),
        **_named("aiohttp", _TIMEOUT, "ServerTimeoutError"),
        **_named("aiohttp", _NEVER_CONNECTED, "ClientConnectorError ClientSSLError"),
        **_named("aiohttp", _CONNECTION_LOST, "ClientConnectionError HttpProcessingError"),
        **_named("aiohttp", _ANSWER_CUT_SHORT, "ClientPayloadError"),
        **_named("aiohttp", _BAD_ANSWER, "ContentTypeError TooManyRedirects"),
        **_named("aiohttp", _BAD_REQUEST, "InvalidURL"),
        **_language_model_client("openai"),
        **_language_model_client("anthropic"),
        **_named("botocore", _CONNECT_TIMEOUT, "ConnectTimeoutError"),
        **_named("botocore", _TIMEOUT, "ReadTimeoutError"),
        **_named("botocore", _NEVER_CONNECTED, "EndpointConnectionError ProxyConnectionError"),
        **_named("botocore", _CONNECTION_LOST, "HTTPClientError SSLError"),
        **_named("botocore", _ANSWER_CUT_SHORT, "ResponseStreamingError IncompleteReadError"),
        **_named("botocore", _BAD_ANSWER, "ResponseParserError"),
        **_named("botocore", _NOT_CONFIGURED, "NoCredentialsError PartialCredentialsError NoRegionError"),
        **_named("botocore", _NOT_CONFIGURED, "CredentialRetrievalError ProfileNotFound"),
        **_named("botocore", _BAD_REQUEST, "ParamValidationError ValidationError"),
        **_named("redis", _TIMEOUT, "TimeoutError"),
        **_named("redis", _NONE_LEFT, "MaxConnectionsError"),
        **_named("redis", _REFUSED_FOR_NOW, "BusyLoadingError OutOfMemoryError"),
        **_named("redis", _NEVER_CONNECTED, "MasterDownError ClusterDownError TryAgainError"),
        **_named("redis", ErrorMeaning(C.NETWORK, D.SEEN), "ReadOnlyError"),
        **_named("redis", _DENIED, "AuthenticationError AuthorizationError NoPermissionError"),
        **_named("redis", _LOST_A_RACE, "WatchError"),
        **_named("redis", _EXISTS_ALREADY, "LockError"),
        **_named("redis", _CONNECTION_LOST, "ConnectionError"),
        **_named("redis", _BAD_REQUEST, "DataError"),
        **_named("redis", _BAD_ANSWER, "ResponseError"),
        **_named("apsw", _USED_UP, "BusyError LockedError FullError NoMemError"),
        **_named("grpc", _TIMEOUT, "FutureTimeoutError"),
        **_named("grpc", ErrorMeaning(C.CANCELLED), "FutureCancelledError"),
        **_named("psycopg", _CONNECT_TIMEOUT, "ConnectionTimeout"),
        **_named("smtplib", _CONNECTION_LOST, "SMTPServerDisconnected"),
        **_named("pydantic", _NOT_VALID, "ValidationError"),
        **_named("pydantic_core", _NOT_VALID, "ValidationError"),
        **_named("msgspec", _NOT_VALID, "ValidationError"),
        **_named("jsonschema", _NOT_VALID, "ValidationError"),
        **_named("marshmallow", _NOT_VALID, "ValidationError"),
        **_named("redrive", _TIMEOUT, "AttemptTimeoutError"),
        **_named("redrive", _USED_UP, "ProcessDiedError"),
        **_named("redrive", _BAD_ANSWER, "HttpContentError"),
        **_named("redrive", _BAD_REQUEST, "InvalidValueError"),
    }
)
"""Types that are checked before statuses and codes, because they say more than the codes they carry."""

GENERAL_ERRORS: Table = MappingProxyType(
    {
        **_named("asyncio", ErrorMeaning(C.CANCELLED), "CancelledError"),
        **_named("concurrent", ErrorMeaning(C.CANCELLED), "CancelledError"),
        **_named("builtins", ErrorMeaning(C.CANCELLED), "KeyboardInterrupt SystemExit GeneratorExit"),
        **_named("builtins", _TIMEOUT, "TimeoutError"),
        **_named("subprocess", _TIMEOUT, "TimeoutExpired"),
        **_named("builtins", _NEVER_CONNECTED, "ConnectionRefusedError"),
        **_named("builtins", _CONNECTION_LOST, "ConnectionError"),
        **_named("socket", _NEVER_CONNECTED, "gaierror herror"),
        **_named("ssl", _NEVER_CONNECTED, "SSLCertVerificationError"),
        **_named("ssl", _CONNECTION_LOST, "SSLError"),
        **_named("http", _ANSWER_CUT_SHORT, "IncompleteRead"),
        **_named("http", _BAD_REQUEST, "InvalidURL"),
        **_named("http", _CONNECTION_LOST, "HTTPException"),
        **_named("urllib", _CONNECTION_LOST, "URLError ContentTooShortError"),
        **_named("urllib", _BAD_ANSWER, "HTTPError"),
        **_named("asyncio", _CONNECTION_LOST, "IncompleteReadError"),
        **_named("psycopg", _CONNECTION_LOST, "OperationalError"),
        **_named("psycopg_pool", _CONNECT_TIMEOUT, "PoolTimeout"),
        **_named("sqlalchemy", _CONNECT_TIMEOUT, "TimeoutError"),
        **_named("builtins", _USED_UP, "MemoryError"),
        **_named("builtins", ErrorMeaning(C.PERMISSION), "PermissionError"),
        **_named("builtins", _NOT_CONFIGURED, "ImportError"),
        **_named("builtins", _NOT_VALID, "ValueError"),
    }
)
"""Types that are checked last, if nothing more specific was found."""

WRAPPERS = frozenset(
    {
        "aiohttp:ClientResponseError",
        "anthropic:APIConnectionError",
        "anthropic:APITimeoutError",
        "openai:APIConnectionError",
        "openai:APITimeoutError",
        "requests:ConnectionError",
        "urllib:URLError",
    }
)
"""Types (not their subclasses) that wrap errors of many kinds: the inner error decides."""

STATUS_FIRST = frozenset({"aiohttp:ContentTypeError"})
"""Types that mean a bad answer, unless its status shows that the server is in trouble."""

Phrases = tuple[tuple[str, ErrorMeaning], ...]
PHRASES: MappingProxyType[str, Phrases] = MappingProxyType(
    {
        # asyncio, if a host name has several addresses and none can be reached
        "builtins:OSError": (("Multiple exceptions: [Errno", _NEVER_CONNECTED),),
        "asyncpg:InterfaceError": (("connection is closed", _NEVER_CONNECTED),),
        # asyncpg, if the server ends the connection at the very moment a statement starts
        "asyncpg:InternalClientError": (("another operation", _CONNECTION_LOST),),
        "psycopg:OperationalError": (
            ("password authentication failed", _DENIED),
            ("no password supplied", _DENIED),
            ("pg_hba.conf", _DENIED),
            ("does not exist", ErrorMeaning(C.MISSING_CONFIG, D.SEEN)),
            ("too many clients", _NONE_LEFT),
            ("too many connections", _NONE_LEFT),
            ("remaining connection slots", _NONE_LEFT),
            ("connection failed", _NEVER_CONNECTED),
            ("failed to resolve host", _NEVER_CONNECTED),
            ("the connection is closed", _NEVER_CONNECTED),
        ),
        "redis:ConnectionError": (
            ("max number of clients", _NONE_LEFT),
            ("No connection available", _NONE_LEFT),
            (" connecting to ", _NEVER_CONNECTED),
        ),
        "redis:TimeoutError": (("Timeout connecting", _CONNECT_TIMEOUT),),
        "redis:ResponseError": (
            ("BUSY Redis", _REFUSED_FOR_NOW),
            ("NOREPLICAS ", _REFUSED_FOR_NOW),
            ("MISCONF ", _REFUSED_FOR_NOW),
            ("BUSYGROUP ", _EXISTS_ALREADY),
        ),
        "redis:LockError": (("Unable to acquire lock", _NONE_LEFT),),
        # urllib3, after its own retries for the statuses that the application has listed
        "urllib3:ResponseError": (
            ("too many redirects", _BAD_ANSWER),
            ("too many 429 ", _THROTTLED),
            ("error responses", OTHER_5XX),
        ),
    }
)
"""Types (not their subclasses) whose errors differ only in their text: the first matching phrase decides."""

STATUSES: MappingProxyType[int, ErrorMeaning] = MappingProxyType(
    {
        400: ErrorMeaning(C.VALIDATION, D.SEEN),
        401: _DENIED,
        403: _DENIED,
        407: _DENIED,
        408: ErrorMeaning(C.TIMEOUT, D.SEEN),
        409: _EXISTS_ALREADY,
        412: _EXISTS_ALREADY,
        422: ErrorMeaning(C.VALIDATION, D.SEEN),
        425: ErrorMeaning(C.PROVIDER_4XX, D.SEEN, E.RETRYABLE),
        429: _THROTTLED,
        501: ErrorMeaning(C.PROVIDER_5XX, D.SEEN, E.FINAL),
        505: ErrorMeaning(C.PROVIDER_5XX, D.SEEN, E.FINAL),
        511: ErrorMeaning(C.PROVIDER_5XX, D.SEEN, E.FINAL),
    }
)

_SPENT_QUOTA = ErrorMeaning(C.RESOURCE, D.SEEN, E.FINAL)
SPENT_QUOTA_CODES: Table = MappingProxyType(
    dict.fromkeys(("insufficient_quota", "billing_hard_limit_reached", "billing_not_active"), _SPENT_QUOTA)
)
"""Codes of a used-up quota: providers answer 429 for it too, but waiting does not help."""

MODEL_ERRORS: Table = MappingProxyType(
    {
        "api_error": OTHER_5XX,
        "overloaded_error": OTHER_5XX,
        "server_error": OTHER_5XX,
        "timeout_error": ErrorMeaning(C.TIMEOUT, D.SEEN),
        "rate_limit_error": _THROTTLED,
        "rate_limit_exceeded": _THROTTLED,
        "authentication_error": _DENIED,
        "permission_error": _DENIED,
        "billing_error": _SPENT_QUOTA,
        "content_filter": _BAD_ANSWER,
        "context_length_exceeded": _BAD_ANSWER,
        "invalid_request_error": _BAD_ANSWER,
        "not_found_error": OTHER_4XX,
        "request_too_large": OTHER_4XX,
    }
)
"""Errors of a language model after its stream has started, when the status is 200 already."""

SQLSTATES: Table = MappingProxyType(
    {
        "08001": _NEVER_CONNECTED,
        "08004": _NEVER_CONNECTED,
        "08": _CONNECTION_LOST,
        "22": _BAD_ANSWER,
        "23505": _EXISTS_ALREADY,
        "23": _BAD_ANSWER,
        "25006": ErrorMeaning(C.NETWORK, D.SEEN),
        "25P03": ErrorMeaning(C.TIMEOUT, D.SEEN),
        "25P04": ErrorMeaning(C.TIMEOUT, D.SEEN),
        "28": _DENIED,
        "40003": _CONNECTION_LOST,
        "40": _LOST_A_RACE,
        "42501": _DENIED,
        "42": _BAD_ANSWER,
        "3D": ErrorMeaning(C.MISSING_CONFIG, D.SEEN),
        "53300": _NONE_LEFT,
        "53": _REFUSED_FOR_NOW,
        "55P03": _REFUSED_FOR_NOW,
        "57014": ErrorMeaning(C.TIMEOUT, D.SEEN),
        "57P03": _NEVER_CONNECTED,
        "57P": _CONNECTION_LOST,
        "58": _REFUSED_FOR_NOW,
    }
)
"""Looked up by the whole code, then by its first three, then by its first two characters (the class)."""

GRPC_CODES: Table = MappingProxyType(
    {
        "CANCELLED": _CONNECTION_LOST,
        "INVALID_ARGUMENT": _BAD_ANSWER,
        "FAILED_PRECONDITION": _BAD_ANSWER,
        "OUT_OF_RANGE": _BAD_ANSWER,
        "DEADLINE_EXCEEDED": _TIMEOUT,
        "NOT_FOUND": OTHER_4XX,
        "UNIMPLEMENTED": OTHER_4XX,
        "ALREADY_EXISTS": _EXISTS_ALREADY,
        "ABORTED": _LOST_A_RACE,
        "PERMISSION_DENIED": _DENIED,
        "UNAUTHENTICATED": _DENIED,
        "RESOURCE_EXHAUSTED": _THROTTLED,
        "INTERNAL": OTHER_5XX,
        "UNAVAILABLE": _CONNECTION_LOST,
    }
)

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
        **dict.fromkeys(("ExpiredToken", "ExpiredTokenException", "UnrecognizedClientException"), _DENIED),
        **dict.fromkeys(("AccessDenied", "AccessDeniedException"), _DENIED),
        "ConditionalCheckFailedException": _EXISTS_ALREADY,
        "TransactionConflictException": _LOST_A_RACE,
    }
)

SMTP_CODES: Table = MappingProxyType(
    {"4": OTHER_5XX, "5": OTHER_4XX, **dict.fromkeys(("530", "534", "535", "538"), _DENIED)}
)
"""Looked up by the whole code, then by its first digit. In SMTP, 4 means "try again" and 5 "never"."""

SQLITE_NAMES: Table = MappingProxyType(
    {
        **dict.fromkeys(("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_NOMEM", "SQLITE_IOERR"), _USED_UP),
        "SQLITE_FULL": _USED_UP,
        "SQLITE_CONSTRAINT_UNIQUE": _EXISTS_ALREADY,
        "SQLITE_CONSTRAINT_PRIMARYKEY": _EXISTS_ALREADY,
        "SQLITE_CONSTRAINT": _BAD_ANSWER,
        "SQLITE_MISMATCH": _BAD_ANSWER,
        "SQLITE_TOOBIG": _BAD_ANSWER,
        "SQLITE_AUTH": _DENIED,
        "SQLITE_PERM": _DENIED,
        "SQLITE_READONLY": _DENIED,
        "SQLITE_CANTOPEN": _NOT_CONFIGURED,
    }
)
"""Looked up by the whole name, then by its first two words."""

USED_UP = _USED_UP
UNREACHABLE = _NEVER_CONNECTED
