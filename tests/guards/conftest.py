"""Database fixtures shared with the store tests."""

from tests.store.conftest import database, postgres_database, schema

__all__ = ["database", "postgres_database", "schema"]
