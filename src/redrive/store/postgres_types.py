"""Types of values on connections of asyncpg: ids of runs as text, and the arrays of batches."""

from __future__ import annotations

from types import SimpleNamespace

_NO_RUN = bytes(16)


def id_bytes(text: str) -> bytes:
    """Return the 16 bytes of a run id; zeros, which no run has, for text that is not an id."""
    try:
        value = bytes.fromhex(text)
    except ValueError:
        return _NO_RUN
    return value if len(value) == len(_NO_RUN) else _NO_RUN


id_text = bytes.hex

_BUILT_IN = {"ns": "pg_catalog", "kind": b"b", "elemdelim": b",", "depth": 0}
_NO_OTHER_KIND = dict.fromkeys(
    ("basetype", "basetype_name", "range_subtype", "range_subtype_name", "attrtypoids", "attrnames")
)
ARRAYS = {
    oid: {"oid": oid, "name": name, "elemtype": element, "elemtype_name": of, **_BUILT_IN, **_NO_OTHER_KIND}
    for oid, name, element, of in (
        (1007, "_int4", 23, "integer"),
        (1016, "_int8", 20, "bigint"),
        (1022, "_float8", 701, "double precision"),
        (2951, "_uuid", 2950, "uuid"),
    )
}
"""The types of batch parameters by oid, as PostgreSQL describes them. Oids of built-in types never change."""
NOTHING_SENT = SimpleNamespace(name="nothing sent")
