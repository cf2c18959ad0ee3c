"""The gate before persistence: all that Redrive stores is JSON text made here.

Nothing changes silently on the way. A value comes back equal and of the same type, or `encode` refuses it
before anything is written, saying where it is, what is wrong and what to do. One exception: the tuple.

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
more than 4,000 digits. It knows no `JsonLimits`: lowering them must not make stored work unreadable.

A text or json column gives back what it got. PostgreSQL's jsonb does not: the float 1e16 becomes an integer.

`storable` is for failures. It takes anything at all and makes something of it that `encode` accepts.
"""

from redrive.policy.codec.limits import DEFAULT_LIMITS, JsonLimits, JsonValue
from redrive.policy.codec.salvaging import storable
from redrive.policy.codec.text import canonical, decode, encode, plain_text

__all__ = [
    "DEFAULT_LIMITS",
    "JsonLimits",
    "JsonValue",
    "canonical",
    "decode",
    "encode",
    "plain_text",
    "storable",
]
