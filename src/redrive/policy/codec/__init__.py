"""Encoding of stored values: everything that Redrive stores is JSON text from this package.

No value changes silently. It is read back equal and with the same type, or `encode` rejects it before
anything is written, and names its path, the problem and the fix. The only exception is the tuple.

    None, bool, str, list, dict with str keys       stored as they are
    int within 64 bits, finite float                stored as they are
    NUL, lone surrogate or ␛, in a text or a key    escaped as ␛ and four hexadecimal digits: PostgreSQL
                                                    rejects the first two; so is a spelled-out NUL escape
    int beyond 64 bits, up to 2,048 bits            stored as text after ␛int: SQLite and JavaScript round it
    tuple                                           stored as a list and read back as a list
    NaN, infinities, larger integers                rejected
    keys that are not str                           rejected: 1 and "1" would become one key
    subclasses: enums, named tuples, OrderedDict    rejected: they would be read back as their base type
    bytes, set, datetime, Decimal, UUID, others     rejected, with the conversion to use
    too deep (cycles too), too large, too many      rejected, see `JsonLimits`

`decode` reads this text and any other JSON, except repeated keys, NaN, numbers that overflow and numbers of
more than 4,000 digits. It ignores `JsonLimits`, so that lower limits never make stored work unreadable.
`decode_stored` is faster, for text written by `encode`; use `decode` for text from outside.

A text or json column returns the text unchanged; PostgreSQL's jsonb does not: there 1e16 becomes an integer.

`storable` is for failures: it converts any object to a value that `encode` accepts.
"""

from redrive.policy.codec.limits import DEFAULT_LIMITS, JsonLimits, JsonValue
from redrive.policy.codec.salvaging import storable
from redrive.policy.codec.text import canonical, decode, decode_stored, encode, plain_text

__all__ = [
    "DEFAULT_LIMITS",
    "JsonLimits",
    "JsonValue",
    "canonical",
    "decode",
    "decode_stored",
    "encode",
    "plain_text",
    "storable",
]
