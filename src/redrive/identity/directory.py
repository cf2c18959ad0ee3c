"""The directory: who belongs to an organization, and by what they show it. On behalf of one principal."""

from __future__ import annotations

from redrive.identity.accounts import Accounts
from redrive.identity.keys import Keys
from redrive.identity.members import Members
from redrive.identity.organizations import Organizations
from redrive.identity.services import IdentityServices
from redrive.policy.principal import Principal


class Directory:
    """
    organizations  making them, for owners of the home one
    members        adding, changing and removing them
    accounts       links, passwords, and locking people out
    keys           creating, rotating and revoking them
    """

    def __init__(self, kit: IdentityServices, principal: Principal) -> None:
        self.principal = principal
        self.organizations = Organizations(kit, principal)
        self.members = Members(kit, principal)
        self.accounts = Accounts(kit, principal)
        self.keys = Keys(kit, principal)
