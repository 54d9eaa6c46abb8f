"""An index of digests behaves as a dict does."""

from __future__ import annotations

import random

import pytest

from snellen.formats import digest_index
from snellen.formats.digest_index import DigestIndex


@pytest.mark.parametrize("few", [4, 10, 100_000])
@pytest.mark.parametrize("size", [8, 12, 16])
def test_an_index_holds_what_a_dict_holds(
    few: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digest_index, "MAX_DIGESTS_IN_DICT", few)
    rng = random.Random(size)
    known: dict[bytes, int] = {}
    index = DigestIndex(size)
    # Digests that begin alike stand beside one another.
    digests = [bytes(4) + rng.randbytes(size - 4) for _ in range(500)] + [
        rng.randbytes(size) for _ in range(3000)
    ]
    for digest in rng.choices(digests, k=6000):
        assert (digest in index, index.get(digest)) == (digest in known, known.get(digest))
        known[digest] = number = rng.randrange(1 << 40)
        index.set(digest, number)
    assert len(index) == len(known) and all(
        index.get(digest) == number for digest, number in known.items()
    )
    assert all((digest in index) == (digest in known) for digest in digests)
