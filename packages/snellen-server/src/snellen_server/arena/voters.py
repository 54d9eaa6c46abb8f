"""What the arena stores about voters: pseudonyms of networks, repeated questions, invitations.

The pseudonym of a network can no longer be traced after its key was deleted.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from datetime import timedelta
from ipaddress import ip_network
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from snellen import DataError
from snellen_server.arena.battles import arena_invitation, arena_network_key, arena_voter
from snellen_server.hosting.credentials import Signer, new_id, new_token, token_digest
from snellen_server.hosting.database import MissingError
from snellen_server.hosting.tables import utc_now

SECONDS_A_DAY = 86_400
IPV6_PREFIX = 48
"""What one customer of a provider has at most, so that it is one network."""


def current_period(days: int) -> int:
    """Return the number of the current period, counted from 1970, where a period is `days` days."""
    return int(utc_now().timestamp()) // (days * SECONDS_A_DAY)


def network_key(connection: Connection, period: int) -> bytes:
    """Return the random key for the pseudonyms of networks in a period; the first call creates it."""
    query = select(arena_network_key.c.key).where(arena_network_key.c.period == period)
    key: bytes | None = connection.execute(query).scalar()
    if key is not None:
        return key
    try:
        with connection.begin_nested():
            new = {"period": period, "key": secrets.token_bytes(32)}
            connection.execute(insert(arena_network_key).values(new))
    except IntegrityError:  # another process was first
        pass
    return connection.execute(query).scalar_one()


def forget_network_keys(connection: Connection, before: int) -> int:
    """Delete the keys of all periods before `before`, and return how many were deleted.

    The pseudonyms of these periods can then no longer be traced to networks.
    """
    statement = delete(arena_network_key).where(arena_network_key.c.period < before)
    return connection.execute(statement).rowcount


def network_pseudonym(network: str, key: bytes) -> str | None:
    """Return the pseudonym of a network: a keyed digest of it.

    An IPv4 network is a /24; IPv6 networks are first widened to the /48 around them. None is
    returned if the text is not a network, because the caller's address is unknown.
    """
    try:
        place = ip_network(network)
    except ValueError:
        return None
    if place.version == 6 and place.prefixlen > IPV6_PREFIX:
        place = place.supernet(new_prefix=IPV6_PREFIX)
    return hmac.digest(key, str(place).encode(), "sha256")[:12].hex()


def question_digest(signer: Signer, battle: Row[Any]) -> str:
    """Return a digest, under the server's key, of a battle's images and first question, to find repetitions.

    Case, the number of spaces, and punctuation at the end of the question make no difference.
    """
    question = battle.turns[0]["prompt"] if battle.turns else ""
    words = question.casefold().split()
    normalised = " ".join(words).rstrip(" .?!")
    images = ",".join(battle.images)
    signature = signer.signature("arena question", f"{images}\0{normalised}")
    return hashlib.sha256(signature.encode()).hexdigest()[:24]


def create_invitation(connection: Connection, title: str, seats: int, days: int) -> str:
    """Create an invitation that `seats` visitors can accept, and return its secret token."""
    token = new_token()
    now = utc_now()
    connection.execute(
        insert(arena_invitation).values(
            digest=token_digest(token),
            title=title,
            seats=seats,
            taken=0,
            created=now,
            expires=now + timedelta(days=days),
        )
    )
    return token


def take_seat(connection: Connection, actor: str, token: str) -> None:
    """Let a visitor accept an invitation, which gives their votes the trust class "invited".

    Accepting the same invitation again has no effect.

    Raises:
        MissingError: There is no such invitation, or it has expired.
        DataError: As many visitors as it allows have accepted it already.
    """
    digest = token_digest(token)
    is_this_invitation = arena_invitation.c.digest == digest
    is_valid = is_this_invitation & (arena_invitation.c.expires > utc_now())
    invitation = connection.execute(select(arena_invitation).where(is_valid)).one_or_none()
    if invitation is None:
        raise MissingError("this invitation does not exist or has expired; ask for another one")
    voter = connection.execute(
        select(arena_voter.c.invitation).where(arena_voter.c.actor == actor)
    ).one_or_none()
    if voter is not None and voter.invitation == digest:
        return
    has_free_seat = arena_invitation.c.taken < arena_invitation.c.seats
    take_one = update(arena_invitation).where(is_valid & has_free_seat)
    one_more = {"taken": arena_invitation.c.taken + 1}
    if not connection.execute(take_one.values(one_more)).rowcount:
        raise DataError("all seats of this invitation are taken; ask for another one")
    if voter is None:
        connection.execute(
            insert(arena_voter).values(actor=actor, pseudonym=new_id(), invitation=digest)
        )
    else:
        statement = update(arena_voter).where(arena_voter.c.actor == actor)
        connection.execute(statement.values(invitation=digest))


def list_invitations(connection: Connection) -> list[Row[Any]]:
    """Return all invitations, the newest first."""
    query = select(arena_invitation).order_by(arena_invitation.c.created.desc())
    return list(connection.execute(query))
