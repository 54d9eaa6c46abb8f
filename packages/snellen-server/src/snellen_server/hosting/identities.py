"""Accounts of people whom a proxy in front has signed in, such as oauth2-proxy with a provider of OpenID Connect.

The proxy names who asks in a header (`identity_header`), which counts only on connections from `trusted_proxies`. The
account's id is a keyed digest of that name, so the same person has the same account, and no table has the name itself.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace

from sqlalchemy import Connection

from snellen import DataError
from snellen_server.hosting.accounts import Account, account_by_id, create_account
from snellen_server.hosting.configuration import Configuration
from snellen_server.hosting.credentials import Signer
from snellen_server.hosting.services import Services

ID_LENGTH = 24
MAX_NAMESAKES = 1_000
MAX_NAME_CHARACTERS = 50
UNNAMED = "person"
"""The name of an account if the identity contains no usable name."""


def account_id_of(signer: Signer, identity: str) -> str:
    """Return the id of the account of an identity: a digest with the server's key."""
    signed = signer.signature("identity", identity.strip().casefold())
    return hashlib.sha256(signed.encode()).hexdigest()[:ID_LENGTH]


async def identified_account(services: Services, identity: str) -> Account | None:
    """Return the account of a person whom a trusted proxy has signed in.

    The account is created at the person's first request. None is returned if an administrator has
    disabled it.
    """
    account_id = account_id_of(services.signer, identity)
    account = await services.database.read(account_by_id, account_id)
    if account is None:
        account = await services.database.write(make_account, account_id, identity)
    if account.is_disabled:
        return None
    return replace(account, is_admin=account.is_admin or is_admin(services.configuration, identity))


def is_admin(configuration: Configuration, identity: str) -> bool:
    """Return whether the operator has named an identity as an administrator."""
    named = {name.strip().casefold() for name in configuration.identity_admins}
    return identity.strip().casefold() in named


def make_account(connection: Connection, account_id: str, identity: str) -> Account:
    """Create, or return, the account of a person whom a trusted proxy has signed in.

    It is named after the part of the identity before `@`, with a number if that name is taken: for
    example `anna-2`.
    """
    found = account_by_id(connection, account_id)
    if found is not None:  # another request was first
        return found
    name = shown_name(identity)
    for number in range(1, MAX_NAMESAKES):
        candidate = name if number == 1 else f"{name}-{number}"
        try:
            return create_account(connection, candidate, None, account_id=account_id)
        except DataError:
            continue
    raise DataError(f"there are too many accounts named {name!r}")


def shown_name(identity: str) -> str:
    """Return a name for an account: the letters, digits, dots and dashes of an identity before `@`.

    Example:
        >>> shown_name("anna.muster+eyes@example.org"), shown_name("<>")
        ('anna.muster-eyes', 'person')
    """
    local_part = identity.partition("@")[0]
    name = re.sub(r"[^\w.-]+", "-", local_part).strip(".-_")
    name = name[:MAX_NAME_CHARACTERS].strip(".-_")
    if len(name) < 3:
        return UNNAMED
    return name
