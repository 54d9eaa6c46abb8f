"""Random generators that are seeded by names, so that the order of work, workers and resuming do not matter."""

from __future__ import annotations

import hashlib
import random


def rng_for(*names: str | int) -> random.Random:
    """Return a random generator that depends on `names` alone: the same on any machine, in any order of calls.

    The convention is `rng_for(benchmark, sample_id, purpose, seed)`. Names are joined with their
    lengths, so ("a", "bc") and ("ab", "c") give different generators.

    Examples:
        >>> rng_for("mmbench", "q7", "order", 0).random() == rng_for("mmbench", "q7", "order", 0).random()
        True
    """
    key = ""
    for name in names:
        text = str(name)
        key += f"{len(text)}:{text}"
    digest = hashlib.blake2b(key.encode(), digest_size=16).digest()
    return random.Random(int.from_bytes(digest))


def numpy_permutation(count: int, seed: int) -> list[int]:
    """Return the numbers from 0 to `count - 1` in the order of `numpy.random.RandomState(seed).permutation(count)`.

    It needs no NumPy. The first k numbers are `RandomState(seed).choice(count, k, replace=False)`. The generator is
    Python's own, MT19937, seeded by Knuth's rule as NumPy seeds it (Matsumoto and Nishimura 1998, revised 2002).
    """
    state: list[int] = []
    word = seed & 0xFFFFFFFF
    for index in range(1, 625):
        state.append(word)
        word = (1812433253 * (word ^ (word >> 30)) + index) & 0xFFFFFFFF
    generator = random.Random()
    generator.setstate((3, (*state, 624), None))

    # Fisher-Yates shuffle: each number, from the last to the second, is swapped with a random one up to it. As NumPy
    # does, a random index is drawn below a power of two, until it is small enough.
    order = list(range(count))
    for last in range(count - 1, 0, -1):
        mask = (1 << last.bit_length()) - 1
        drawn = generator.getrandbits(32) & mask
        while drawn > last:
            drawn = generator.getrandbits(32) & mask
        order[last], order[drawn] = order[drawn], order[last]
    return order
