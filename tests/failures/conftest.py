"""The databases of the tests of the store."""

from tests.store.conftest import database, postgres_database, schema

__all__ = ["database", "postgres_database", "schema"]
