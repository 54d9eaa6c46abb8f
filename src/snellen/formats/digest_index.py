"""Whole numbers by digest, for millions of them: 30 bytes each where a dict takes 200."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

FEW = 50_000
"""Up to this many are held in a dict, which is faster."""
_EMPTY = -1
_FULL = 0.75


class DigestIndex:
    """Numbers from 0 by digests, which are bytes of one length, at least 8: a hash table of open addressing."""

    def __init__(self, size: int, kind: str = "q") -> None:
        """`size` is that of a digest in bytes, `kind` the type of the numbers in an array."""
        self._size, self._kind = size, kind
        self._few: dict[bytes, int] = {}
        self._keys, self._values, self._count = bytearray(), array(kind), 0

    def __len__(self) -> int:
        return self._count or len(self._few)

    def __contains__(self, digest: bytes) -> bool:
        return self.get(digest) is not None

    def get(self, digest: bytes) -> int | None:
        """The number of a digest; None for one that has none."""
        if not self._count:
            return self._few.get(digest)
        value = self._values[self._slot(digest)]
        return None if value == _EMPTY else value

    def set(self, digest: bytes, value: int) -> None:
        """Set the number of a digest, replacing an earlier one."""
        if not self._count:
            self._few[digest] = value
            if len(self._few) > FEW:
                self._move_to(2 * len(self._few))
            return
        slot = self._slot(digest)
        if self._values[slot] == _EMPTY:
            self._keys[slot * self._size : (slot + 1) * self._size] = digest
            self._count += 1
        self._values[slot] = value
        if self._count > _FULL * len(self._values):
            self._move_to(len(self._values) * 3 // 2)

    def _slot(self, digest: bytes | bytearray) -> int:
        """Where a digest stands, or would stand."""
        keys, values, size, slots = self._keys, self._values, self._size, len(self._values)
        slot = int.from_bytes(digest[:8], "little") % slots
        while values[slot] != _EMPTY and keys[slot * size : (slot + 1) * size] != digest:
            slot = (slot + 1) % slots
        return slot

    def _move_to(self, slots: int) -> None:
        keys, values, size = self._keys, self._values, self._size
        stored = (
            (keys[slot * size : (slot + 1) * size], value)
            for slot, value in enumerate(values)
            if value != _EMPTY
        )
        before: Iterable[tuple[bytes | bytearray, int]] = self._few.items() if self._few else stored
        count = len(self)
        self._keys, self._values = bytearray(slots * size), array(self._kind, (_EMPTY,)) * slots
        for digest, value in before:
            slot = self._slot(digest)
            self._keys[slot * size : (slot + 1) * size] = digest
            self._values[slot] = value
        self._few = {}
        self._count = count
