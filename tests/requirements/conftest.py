"""Served applications, for requirements about HTTP."""

from tests.server.conftest import house, shared_schema, small_house

__all__ = ["house", "shared_schema", "small_house"]
