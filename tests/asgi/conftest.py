"""The databases of the tests of the store."""

from tests.store.conftest import database

__all__ = ["database"]
