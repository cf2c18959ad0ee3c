"""Rules: what a route requires of its caller. A route without one stops the server from starting."""

from __future__ import annotations

from typing import NamedTuple

from redrive.policy.access import Permission


class AccessRule(NamedTuple):
    """
    permission  what the caller must be allowed to do; None: nobody has to be signed in
    signed_in   somebody must be signed in although nothing is asked of them
    home        only from the organization that the installation belongs to
    repeatable  an Idempotency-Key makes the answer be kept and given again; not where it holds a secret
    own_key     the route takes the Idempotency-Key itself
    heavy       counted more strictly: signing in
    tolerant    parameters that it does not know are passed over, as a standard asks for
    uncounted   answering takes no longer than refusing: a flood of strangers must not make the server look
                ill, nor colleagues behind one address leave each other without the files of the pages
    """

    permission: Permission | None = None
    signed_in: bool = False
    home: bool = False
    repeatable: bool = True
    own_key: bool = False
    heavy: bool = False
    tolerant: bool = False
    uncounted: bool = False

    @property
    def is_public(self) -> bool:
        return self.permission is None and not self.signed_in

    @property
    def changes_access(self) -> bool:
        """After a change here, somebody may have fewer rights than a moment ago."""
        return self.permission is Permission.MANAGE or self.signed_in


PUBLIC = AccessRule(repeatable=False)
UNCOUNTED = AccessRule(repeatable=False, uncounted=True)
SIGNING_IN = AccessRule(repeatable=False, heavy=True)
SIGNED_IN = AccessRule(signed_in=True, repeatable=False)


def may(
    permission: Permission, *, home: bool = False, repeatable: bool = True, own_key: bool = False
) -> AccessRule:
    return AccessRule(permission, home=home, repeatable=repeatable, own_key=own_key)
