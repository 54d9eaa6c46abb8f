"""Whether a file holds what it should, by its size and digests."""

from __future__ import annotations

import hashlib
from pathlib import Path

from msgspec import Struct

BLOCK = 1 << 20


class Content(Struct, frozen=True):
    """What a file should hold, as far as that is known."""

    size: int = 0
    sha256: str = ""
    md5: str = ""
    git: str = ""
    """SHA-1 of a git blob, by which the hub names small files."""

    @property
    def is_known(self) -> bool:
        return bool(self.sha256 or self.md5 or self.git)


def content_fault(path: Path, expected: Content) -> str:
    """Why a file is not what it should be, with both digests; empty when it is. Raises OSError."""
    size = path.stat().st_size
    if expected.size and size != expected.size:
        return f"it has {size:,} bytes, not {expected.size:,}"
    for name, digest in (("sha256", expected.sha256), ("md5", expected.md5), ("git", expected.git)):
        if digest:
            found = digest_of(path, name)
            return "" if found == digest.lower() else f"its {_TITLES[name]} is {found}, not {digest.lower()}"
    return ""


_TITLES = {"sha256": "SHA-256", "md5": "MD5", "git": "git digest"}


def digest_of(path: Path, name: str) -> str:
    """The digest of a file, by the name of one of `Content`. Raises OSError."""
    digest = hashlib.new("sha1" if name == "git" else name, usedforsecurity=False)
    if name == "git":
        digest.update(f"blob {path.stat().st_size}\0".encode())
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()
