"""Secrets: random tokens, signatures with the server's key, and passwords.

Only digests of tokens are stored, so that nobody who reads the database can use them.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import re
import secrets
from base64 import urlsafe_b64encode
from functools import cache
from pathlib import Path

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from snellen import StoreError
from snellen.plugin_api import read_file

KEY_PREFIX = "snl_"
"""The beginning of each API key, by which log filters and repository scanners recognise it."""
_BYTES = 32
_SECRETS = re.compile(
    rf"{KEY_PREFIX}[A-Za-z0-9_-]{{8,}}|(?<=/invitation/)[A-Za-z0-9_-]{{8,}}|(?i:(?<=bearer ))[^\s\"',]+"
)


def new_token() -> str:
    """Return a random secret of 256 bits, made of characters that URLs and cookies allow."""
    return secrets.token_urlsafe(_BYTES)


def new_id() -> str:
    """Return a random id of 96 bits for a database row. It is not a secret."""
    return secrets.token_hex(12)


def token_digest(token: str) -> str:
    """Return the digest of a token, which is stored in its place.

    Because tokens are long and random, nobody can find a token from its digest.
    """
    return hashlib.sha256(token.encode()).hexdigest()


def redacted(text: str) -> str:
    """Return a text with all API keys and tokens replaced by `[redacted]`."""
    return _SECRETS.sub("[redacted]", text)


class Signer:
    """Signs texts with the server's key, so that it can later recognise texts that it has issued.

    A signature is for one purpose, such as "visitor", and is not valid for another.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def signature(self, purpose: str, text: str) -> str:
        digest = hmac.digest(self._key, f"{purpose}\0{text}".encode(), "sha256")
        return urlsafe_b64encode(digest).decode().rstrip("=")

    def is_valid(self, purpose: str, text: str, signature: str) -> bool:
        """Return whether a signature of `text` was made by this server for this purpose."""
        return hmac.compare_digest(
            self.signature(purpose, text).encode(), signature.encode("utf-8", "replace")
        )


def open_key(file: Path) -> bytes:
    """Return the server's secret key from a file.

    If the file does not exist, it is created with random bytes and can be read by its owner only.
    Raises StoreError if the file cannot be read or does not contain a key.
    """
    try:
        with os.fdopen(
            os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb"
        ) as key_file:
            key_file.write(secrets.token_bytes(_BYTES))
    except FileExistsError:
        pass
    try:
        key = read_file(file)
    except OSError as error:
        raise StoreError(
            f"{file} cannot be read ({error.strerror}); restore the original key"
        ) from None
    if len(key) != _BYTES:
        raise StoreError(f"{file} is not a key of {_BYTES} bytes; restore the original one")
    return key


AT_ONCE = 2
SHORTEST, LONGEST = 10, 200
_HASHER = PasswordHasher()


class Passwords:
    """Hashes and checks passwords in threads, because that takes long on purpose."""

    def __init__(self) -> None:
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def hash(self, password: str) -> str:
        async with self._gate:
            return await asyncio.to_thread(_HASHER.hash, password)

    async def is_right(self, password: str, hashed: str | None) -> bool:
        """Return whether a password has this hash; False if the hash is None (no such account).

        Both cases take equally long, so that the time does not reveal which accounts exist.
        """
        async with self._gate:
            against = await asyncio.to_thread(_hash_for_no_account) if hashed is None else hashed
            return await asyncio.to_thread(_verify, password, against) and hashed is not None


def fault_of(password: str) -> str | None:
    """Return why a text cannot be a password (too short or too long); None if it can."""
    if len(password) < SHORTEST:
        return f"a password has at least {SHORTEST} characters"
    return f"a password has at most {LONGEST} characters" if len(password) > LONGEST else None


@cache
def _hash_for_no_account() -> str:
    """Return the hash of a password that no account has.

    A password is checked against it if there is no account, so that the check takes as long as
    usual.
    """
    return _HASHER.hash("no account has this password")


def _verify(password: str, hashed: str) -> bool:
    """Return whether a password has this hash; False if the hash is damaged."""
    try:
        return _HASHER.verify(hashed, password)
    except (VerificationError, InvalidHashError):
        return False
