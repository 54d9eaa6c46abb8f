"""Secrets: random tokens, which are kept as digests only, and signatures by the server's key."""

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
"""What an API key begins with, so that logs and scanners of repositories find it."""
_BYTES = 32
_SECRETS = re.compile(
    rf"{KEY_PREFIX}[A-Za-z0-9_-]{{8,}}|(?<=/invitation/)[A-Za-z0-9_-]{{8,}}|(?i:(?<=bearer ))[^\s\"',]+"
)


def new_token() -> str:
    """256 random bits in characters that addresses and cookies allow."""
    return secrets.token_urlsafe(_BYTES)


def new_id() -> str:
    """96 random bits: names a row, proves nothing."""
    return secrets.token_hex(12)


def token_digest(token: str) -> str:
    """Return the digest of a token that is stored. As tokens are long and random, it does not reveal them."""
    return hashlib.sha256(token.encode()).hexdigest()


def redacted(text: str) -> str:
    """`text` without the keys and tokens in it."""
    return _SECRETS.sub("[redacted]", text)


class Signer:
    """Signs texts with a key, for one purpose each: a signature for one purpose is worth nothing for another."""

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
    """Return the key in `file`, which is made when it is not there, readable by its owner alone. Raises StoreError."""
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
    """Hashes and checks passwords, in threads."""

    def __init__(self) -> None:
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def hash(self, password: str) -> str:
        async with self._gate:
            return await asyncio.to_thread(_HASHER.hash, password)

    async def is_right(self, password: str, hashed: str | None) -> bool:
        """Return whether a password is right; takes as long if none is stored."""
        async with self._gate:
            against = await asyncio.to_thread(_nobodys) if hashed is None else hashed
            return await asyncio.to_thread(_verify, password, against) and hashed is not None


def fault_of(password: str) -> str | None:
    """Why it will not do as a password, or None."""
    if len(password) < SHORTEST:
        return f"a password has at least {SHORTEST} characters"
    return f"a password has at most {LONGEST} characters" if len(password) > LONGEST else None


@cache
def _nobodys() -> str:
    """Checked when there is no such account, so that the time tells nothing of whether there is."""
    return _HASHER.hash("no account has this password")


def _verify(password: str, hashed: str) -> bool:
    """Return whether a password has this hash; a damaged hash belongs to none."""
    try:
        return _HASHER.verify(hashed, password)
    except (VerificationError, InvalidHashError):
        return False
