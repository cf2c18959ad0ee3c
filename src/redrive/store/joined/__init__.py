"""Joining the user's transaction over their own connection to PostgreSQL, with any supported driver.

The rows exist if and only if the user's transaction commits. This package never begins, commits or rolls back
a transaction, and does not convert errors of the driver.
"""

from redrive.store.joined.session import JoinedSession, joined_session

__all__ = ["JoinedSession", "joined_session"]
