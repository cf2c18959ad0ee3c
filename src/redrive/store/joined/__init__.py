"""Joining a transaction of the user's: over their own connection to PostgreSQL, whichever driver it is of.

What is written so exists exactly if their transaction commits. Nothing here begins, commits or rolls back,
and what the driver raises reaches the user as it is.
"""

from redrive.store.joined.session import JoinedSession, joined_session

__all__ = ["JoinedSession", "joined_session"]
