"""Accounts, invitations, sessions, API keys, the audit log, and the export of personal data.

All functions take a database connection that is inside a transaction.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from snellen import DataError
from snellen_server.hosting.configuration import Configuration
from snellen_server.hosting.credentials import KEY_PREFIX, new_id, new_token, token_digest
from snellen_server.hosting.database import MissingError
from snellen_server.hosting.features import PersonalData, installed_features
from snellen_server.hosting.tables import account, api_key, audit, invitation, session, utc_now


def note(connection: Connection, actor: str, action: str, subject: str = "", **detail: Any) -> None:
    """Write an entry to the audit log, which records what people and administrators did.

    Secrets and network addresses must not be put into an entry.

    Args:
        connection: The transaction to write in.
        actor: Who did it: `account:ID`, `visitor:ID` or `command line`.
        action: What was done, such as "password changed".
        subject: What it was done to, such as the id of an account. It is cut at 200 characters.
        detail: Further values to store, by name.
    """
    connection.execute(
        insert(audit).values(
            at=utc_now(), actor=actor, action=action, subject=subject[:200], detail=detail
        )
    )


INVITATION_HOURS = 48
NO_INVITATION = "this link has been used or has expired; ask for a new one"
MAX_KEYS = 20
LOOK_ALIKE = {"LATIN", "GREEK", "CYRILLIC"}
_NAME = re.compile(r"[\w][\w .-]{1,62}[\w]")


@dataclass(frozen=True)
class Account:
    """A person who is registered on this server under a name."""

    id: str
    name: str
    is_admin: bool
    created: datetime
    is_disabled: bool = False

    @property
    def actor(self) -> str:
        """Return the account as the audit log names it: `account:ID`."""
        return f"account:{self.id}"


@dataclass(frozen=True)
class ApiKey:
    """The stored description of an API key: its title, scopes and dates, without the secret token."""

    id: str
    title: str
    scopes: tuple[str, ...]
    created: datetime
    expires: datetime | None


def fold_name(name: str) -> str:
    """Return a name in lower case, with full-width letters made plain and blanks reduced to one.

    Names that differ only in these respects, such as "Anna  B" and "anna b", give the same text and
    cannot both be registered.
    """
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


# --- invitations -------------------------------------------------------------------------------------------------


def invite(
    connection: Connection, actor: str, *, is_admin: bool = False, account_id: str | None = None
) -> str:
    """Create an invitation, and return the secret token that its link contains.

    The link can be used once, within `INVITATION_HOURS` hours. It creates a new account or, if
    `account_id` is given, sets a new password for that account.
    """
    token = new_token()
    now = utc_now()
    connection.execute(
        insert(invitation).values(
            digest=token_digest(token),
            account_id=account_id,
            is_admin=is_admin,
            created=now,
            expires=now + timedelta(hours=INVITATION_HOURS),
        )
    )
    note(connection, actor, "invited", account_id or "", is_admin=is_admin)
    return token


def find_invitation(connection: Connection, token: str) -> Row[Any]:
    """Return an invitation by its secret token, together with the name of its account.

    The name is None if the invitation is for a new account. Raises MissingError if the invitation
    does not exist, was used or has expired.
    """
    query = (
        select(invitation, account.c.name)
        .outerjoin(account, account.c.id == invitation.c.account_id)
        .where(invitation.c.digest == token_digest(token), invitation.c.expires > utc_now())
    )
    row = connection.execute(query).one_or_none()
    if row is None:
        raise MissingError(NO_INVITATION)
    return row


def accept_invitation(connection: Connection, token: str, name: str, password_hash: str) -> Account:
    """Use an invitation: create the account that it is for, or set a new password for an existing account.

    Args:
        connection: The transaction to write in.
        token: The secret token of the invitation.
        name: Name of a new account; ignored for an existing one.
        password_hash: Hash of the password.

    Raises:
        MissingError: If there is no such invitation, or it has been used.
        DataError: If the name cannot be used.
    """
    row = find_invitation(connection, token)
    # If two requests use the invitation at the same time, only one of them deletes it.
    deletion = connection.execute(delete(invitation).where(invitation.c.digest == row.digest))
    if not deletion.rowcount:
        raise MissingError(NO_INVITATION)
    if row.account_id is None:
        return create_account(connection, name, password_hash, is_admin=row.is_admin)
    is_account = account.c.id == row.account_id
    connection.execute(update(account).where(is_account).values(password=password_hash))
    connection.execute(delete(session).where(session.c.account_id == row.account_id))
    note(connection, f"account:{row.account_id}", "password changed", row.account_id)
    return _account(connection.execute(select(account).where(is_account)).one())


# --- accounts ----------------------------------------------------------------------------------------------------


def create_account(
    connection: Connection,
    name: str,
    password: str | None,
    *,
    is_admin: bool = False,
    account_id: str = "",
) -> Account:
    """Create an account.

    Args:
        connection: A database connection in a transaction.
        name: Its name. No other account may have it, or a name that differs in case or blanks only.
        password: Hash of the password; None if nobody signs in with a password.
        is_admin: Whether it is an administrator's.
        account_id: Its id; by default a random one.

    Raises:
        DataError: The name is taken, too short or too long, or has characters that are not allowed.
    """
    shown_name = " ".join(unicodedata.normalize("NFC", name).split())
    if not _NAME.fullmatch(shown_name):
        raise DataError(
            "a name has 3 to 64 letters, digits, dots, dashes and blanks, and begins and ends with a letter or digit"
        )
    alphabets = {unicodedata.name(letter, "").partition(" ")[0] for letter in fold_name(shown_name)}
    if len(alphabets & LOOK_ALIKE) > 1:
        raise DataError(
            "a name does not mix Latin, Greek and Cyrillic letters, because they look alike"
        )
    new_account = Account(account_id or new_id(), shown_name, is_admin, utc_now())
    try:
        with connection.begin_nested():
            row = {
                **asdict(new_account),
                "folded_name": fold_name(shown_name),
                "password": password,
            }
            connection.execute(insert(account).values(row))
    except IntegrityError:
        raise DataError("this name is taken; choose another") from None
    note(connection, new_account.actor, "account made", new_account.id, is_admin=is_admin)
    return new_account


def list_accounts(connection: Connection) -> list[Account]:
    """Return all accounts, the oldest first."""
    return [
        _account(row) for row in connection.execute(select(account).order_by(account.c.created))
    ]


def account_by_id(connection: Connection, account_id: str) -> Account | None:
    """Return the account with this id, also if it is disabled; None if there is no such account."""
    row = connection.execute(select(account).where(account.c.id == account_id)).one_or_none()
    return _account(row) if row else None


def find_account(connection: Connection, name: str) -> tuple[Account, str | None] | None:
    """Return the account with this name and the hash of its password (None if it has no password).

    Case and blanks in the name do not matter. None is returned if there is no such account, or if
    it is disabled.
    """
    row = connection.execute(
        select(account).where(
            account.c.folded_name == fold_name(name), account.c.is_disabled.is_(False)
        )
    ).one_or_none()
    return (_account(row), row.password) if row else None


def change_password(
    connection: Connection, of: Account, password_hash: str, current_session: str
) -> None:
    """Store a new password for an account, and end all its sessions except the current one.

    Args:
        connection: The transaction to write in.
        of: The account.
        password_hash: Hash of the new password.
        current_session: Token of the session that remains.
    """
    statement = update(account).where(account.c.id == of.id).values(password=password_hash)
    connection.execute(statement)
    is_other_session = session.c.digest != token_digest(current_session)
    connection.execute(delete(session).where(session.c.account_id == of.id, is_other_session))
    note(connection, of.actor, "password changed", of.id)


def set_disabled(connection: Connection, actor: str, account_id: str, *, is_disabled: bool) -> None:
    """Disable an account, which ends its sessions and makes its keys invalid, or enable it again.

    `actor` is the administrator who does so, for the audit log.
    """
    statement = update(account).where(account.c.id == account_id).values(is_disabled=is_disabled)
    connection.execute(statement)
    if is_disabled:
        connection.execute(delete(session).where(session.c.account_id == account_id))
    action = "account disabled" if is_disabled else "account enabled"
    note(connection, actor, action, account_id)


def has_admin(connection: Connection) -> bool:
    """Return whether there is an administrator."""
    return bool(
        connection.execute(
            select(func.count()).select_from(account).where(account.c.is_admin)
        ).scalar_one()
    )


# --- sessions ----------------------------------------------------------------------------------------------------


def begin_session(connection: Connection, made_for: Account, days: int, replacing: str = "") -> str:
    """Sign an account in: start a session that lasts `days` days, and return its secret token.

    The earlier session of the same browser, whose token is `replacing`, is ended.
    """
    token = new_token()
    now = utc_now()
    connection.execute(delete(session).where(session.c.digest == token_digest(replacing)))
    connection.execute(
        insert(session).values(
            digest=token_digest(token),
            account_id=made_for.id,
            created=now,
            expires=now + timedelta(days=days),
        )
    )
    note(connection, made_for.actor, "signed in", made_for.id)
    return token


def end_session(connection: Connection, token: str) -> None:
    connection.execute(delete(session).where(session.c.digest == token_digest(token)))


def end_sessions(connection: Connection, of: Account) -> None:
    """Sign an account out everywhere."""
    connection.execute(delete(session).where(session.c.account_id == of.id))
    note(connection, of.actor, "signed out everywhere", of.id)


def session_account(connection: Connection, token: str) -> Account | None:
    """Return the account that is signed in with this session token; None if the session has ended."""
    accounts_of_sessions = select(account).join(session, session.c.account_id == account.c.id)
    query = _enabled(accounts_of_sessions).where(
        session.c.digest == token_digest(token), session.c.expires > utc_now()
    )
    row = connection.execute(query).one_or_none()
    return _account(row) if row else None


# --- keys --------------------------------------------------------------------------------------------------------


def create_key(
    connection: Connection, of: Account, title: str, scopes: Iterable[str], days: int | None = None
) -> tuple[str, ApiKey]:
    """Create an API key, and return its secret token with the description that is stored.

    Only a digest of the token is stored, so this is the only time that it can be shown. Raises
    DataError if the account has `MAX_KEYS` keys already.
    """
    if len(list_keys(connection, of)) >= MAX_KEYS:
        raise DataError(f"an account has at most {MAX_KEYS} keys; delete one first")
    token = KEY_PREFIX + new_token()
    now = utc_now()
    expires = now + timedelta(days=days) if days else None
    new_key = ApiKey(
        new_id(),
        title.strip(),
        tuple(sorted(set(scopes))),
        now,
        expires,
    )
    connection.execute(
        insert(api_key).values(
            {**asdict(new_key), "account_id": of.id, "digest": token_digest(token)}
        )
    )
    note(connection, of.actor, "key made", new_key.id, scopes=list(new_key.scopes))
    return token, new_key


def list_keys(connection: Connection, of: Account) -> Sequence[ApiKey]:
    """Return the API keys of an account, the oldest first, without their tokens."""
    query = select(api_key).where(api_key.c.account_id == of.id).order_by(api_key.c.created)
    keys = []
    for row in connection.execute(query):
        keys.append(ApiKey(row.id, row.title, tuple(row.scopes), row.created, row.expires))
    return keys


def delete_key(connection: Connection, of: Account, key_id: str) -> None:
    """Delete an API key of an account. Raises MissingError if the account has no such key."""
    statement = delete(api_key).where(api_key.c.id == key_id, api_key.c.account_id == of.id)
    deleted = connection.execute(statement).rowcount
    if not deleted:
        raise MissingError("this account has no such key")
    note(connection, of.actor, "key deleted", key_id)


def key_account(connection: Connection, token: str) -> tuple[Account, frozenset[str]] | None:
    """Return the account that an API key belongs to, and the key's scopes.

    None if there is no such key, it has expired or its account is disabled.
    """
    accounts_of_keys = select(account, api_key.c.scopes, api_key.c.expires).join(
        api_key, api_key.c.account_id == account.c.id
    )
    query = _enabled(accounts_of_keys).where(api_key.c.digest == token_digest(token))
    row = connection.execute(query).one_or_none()
    if row is None:
        return None
    if row.expires is not None and row.expires <= utc_now():
        return None
    return _account(row), frozenset(row.scopes)


def _enabled(query: Select[Any]) -> Select[Any]:
    """Restrict a query that selects accounts to those that are not disabled."""
    return query.where(account.c.is_disabled.is_(False))


def _account(row: Row[Any]) -> Account:
    return Account(row.id, row.name, row.is_admin, row.created, row.is_disabled)


def export_person(connection: Connection, actor: str) -> dict[str, list[dict[str, Any]]]:
    """Return all data about a person, for JSON: the name of each table with its rows.

    Args:
        connection: The transaction to read in.
        actor: The person: `account:ID` or `visitor:ID`.
    """
    rows_by_table = {}
    for data, condition in _rows_about(actor):
        columns = [column for column in data.table.c if column.name not in data.hidden]
        rows = []
        for row in connection.execute(select(*columns).where(condition)).mappings():
            rows.append({str(name): _plain(value) for name, value in row.items()})
        rows_by_table[data.table.name] = rows
    return rows_by_table


def erase_person(connection: Connection, actor: str, asked_by: str) -> dict[str, int]:
    """Delete all data about a person, with their account, or remove the person from rows that must remain.

    Args:
        connection: The transaction to write in.
        actor: The person: `account:ID` or `visitor:ID`.
        asked_by: Who wants it, for the audit log: the person or an administrator.

    Returns:
        The number of deleted or changed rows for each table.
    """
    changed = {}
    for data, condition in _rows_about(actor):
        if data.on_erasure is None:
            statement = delete(data.table).where(condition)
        else:
            statement = update(data.table).where(condition).values(data.on_erasure)
        changed[data.table.name] = connection.execute(statement).rowcount
    # The audit log must not name a person who has just been erased.
    noted_actor = "erased" if asked_by == actor else asked_by
    note(connection, noted_actor, "person erased", detail=changed)
    return changed


def purge(connection: Connection, configuration: Configuration) -> dict[str, int]:
    """Delete the rows whose retention period is over.

    Returns:
        The number of deleted rows for each table that has a retention period, by the table's name.
    """
    deleted = {}
    for data in _declared():
        days = data.keep_days(configuration)
        if data.time_column is not None and days is not None:
            before = utc_now() - timedelta(days=days)
            result = connection.execute(
                delete(data.table).where(data.table.c[data.time_column] < before)
            )
            deleted[data.table.name] = result.rowcount
    return deleted


def find_actor(connection: Connection, name: str) -> str:
    """Return `account:ID` for the account with this name, also if it is disabled.

    Raises DataError if there is no such account.
    """
    account_id = connection.execute(
        select(account.c.id).where(account.c.folded_name == fold_name(name))
    ).scalar()
    if account_id is None:
        raise DataError(f"there is no account named {name!r} here")
    return f"account:{account_id}"


def _declared() -> Sequence[PersonalData]:
    """Return the tables with personal data that the installed features declare."""
    return [data for feature in installed_features() for data in feature.personal]


def _rows_about(actor: str) -> Iterator[tuple[PersonalData, ColumnElement[bool]]]:
    """Yield each table with data about a person, and the condition that selects the person's rows.

    `actor` is `account:ID` or `visitor:ID`. The table of accounts comes last, because others refer to it.
    """
    kind, _, actor_id = actor.partition(":")
    for data in sorted(_declared(), key=lambda data: data.table is account):
        id_column = data.account_column if kind == "account" else data.visitor_column
        conditions = []
        if id_column:
            conditions.append(data.table.c[id_column] == actor_id)
        if data.actor_column:
            conditions.append(data.table.c[data.actor_column] == actor)
        if conditions:
            yield data, or_(*conditions)


def _plain(value: Any) -> Any:
    """Return a database value as JSON can hold it: a time as ISO 8601 text, others unchanged."""
    return value.isoformat() if isinstance(value, datetime) else value
