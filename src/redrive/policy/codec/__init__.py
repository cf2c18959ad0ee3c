"""The gate before persistence: everything that Redrive stores is JSON text from this package.

No value changes silently. It comes back equal and with the same type, or `encode` rejects it before anything
is written, with its place, the problem and the fix. One exception: the tuple.

    None, bool, str, list, dict with str keys       stored as they are
    int within 64 bits, finite float                stored as they are
    NUL, lone surrogate or ␛, in a text or a key    escaped as ␛ and four hexadecimal digits, since PostgreSQL
                                                    cannot hold the first two; so is a spelled-out NUL escape
    int beyond 64 bits, up to 2,048 bits            kept as text after ␛int: SQLite and JavaScript round it
    tuple                                           stored as a list and comes back as one
    NaN, infinities, larger integers                refused
    keys that are not str                           refused: 1 and "1" would become one key
    subclasses: enums, named tuples, OrderedDict    refused: they would come back as their base type
    bytes, set, datetime, Decimal, UUID, others     refused, with the conversion to use
    too deep (cycles too), too large, too many      refused, see `JsonLimits`

`decode` reads that text and any other JSON, except repeated keys, NaN, numbers that overflow and numbers of
more than 4,000 digits. It ignores `JsonLimits`: lowering them must not make stored work unreadable.
`decode_stored` is the fast one for text that `encode` has written; text from outside goes through `decode`.

A text or json column returns the text unchanged; PostgreSQL's jsonb does not: there 1e16 becomes an integer.

`storable` is for failures: it turns any object into a value that `encode` accepts.
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
