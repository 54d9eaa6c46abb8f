"""Whole numbers by digest, for millions of them: 30 bytes each where a dict takes 200."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

MAX_DIGESTS_IN_DICT = 50_000
"""Up to this number of digests, a dictionary is used, which is faster than the table."""
_EMPTY = -1
_MAX_FILLED_SHARE = 0.75


class DigestIndex:
    """A dictionary from digests to numbers that needs little memory.

    Digests are bytes of one length, at least 8. The numbers are not negative. A few are stored in a
    dictionary, more in a hash table with open addressing.
    """

    def __init__(self, size: int, kind: str = "q") -> None:
        """Create an empty index.

        Args:
            size: Size of each digest in bytes.
            kind: Type code of the numbers, as in `array.array`.
        """
        self._size = size
        self._kind = kind
        self._few: dict[bytes, int] = {}
        self._keys = bytearray()
        self._values = array(kind)
        self._count = 0

    def __len__(self) -> int:
        return self._count or len(self._few)

    def __contains__(self, digest: bytes) -> bool:
        return self.get(digest) is not None

    def get(self, digest: bytes) -> int | None:
        """Return the number of a digest; None if it has none."""
        is_table = self._count > 0
        if not is_table:
            return self._few.get(digest)
        value = self._values[_find_slot(self._keys, self._values, digest)]
        return None if value == _EMPTY else value

    def set(self, digest: bytes, value: int) -> None:
        """Set the number of a digest, replacing an earlier one."""
        is_table = self._count > 0
        if not is_table:
            self._few[digest] = value
            if len(self._few) > MAX_DIGESTS_IN_DICT:
                self._move_to(2 * len(self._few))
            return
        slot = _find_slot(self._keys, self._values, digest)
        if self._values[slot] == _EMPTY:
            self._keys[slot * self._size : (slot + 1) * self._size] = digest
            self._count += 1
        self._values[slot] = value
        if self._count > _MAX_FILLED_SHARE * len(self._values):
            self._move_to(len(self._values) * 3 // 2)

    def _entries(self) -> Iterator[tuple[bytes | bytearray, int]]:
        """Yield all digests with their numbers."""
        if self._few:
            yield from self._few.items()
            return
        size = self._size
        for slot, value in enumerate(self._values):
            if value != _EMPTY:
                yield self._keys[slot * size : (slot + 1) * size], value

    def _move_to(self, slot_count: int) -> None:
        """Move all digests, from the dictionary or the present table, into a new table with `slot_count` slots."""
        size = self._size
        keys = bytearray(slot_count * size)
        values = array(self._kind, (_EMPTY,)) * slot_count
        for digest, value in self._entries():
            slot = _find_slot(keys, values, digest)
            keys[slot * size : (slot + 1) * size] = digest
            values[slot] = value
        self._count = len(self)
        self._keys = keys
        self._values = values
        self._few = {}


def _find_slot(keys: bytearray, values: array[int], digest: bytes | bytearray) -> int:
    """Return the slot of a hash table where a digest is, or where it would be stored if it is not
    in the table.

    Slot n consists of bytes n * size to (n + 1) * size of `keys` (the digest) and of `values[n]`
    (its number). If the slot that follows from the digest is taken by another one, the next free
    slot is used.
    """
    size = len(digest)
    slot = int.from_bytes(digest[:8], "little") % len(values)
    while values[slot] != _EMPTY and keys[slot * size : (slot + 1) * size] != digest:
        slot = (slot + 1) % len(values)
    return slot
