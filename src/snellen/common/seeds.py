"""Random choices derived by name, so that order, workers and resumption cannot change them."""

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

    # Each number, from the last one on, is swapped with one that is drawn from those up to it. As in NumPy, draws
    # from a power of two are repeated until one is small enough.
    order = list(range(count))
    for last in range(count - 1, 0, -1):
        mask = (1 << last.bit_length()) - 1
        partner = generator.getrandbits(32) & mask
        while partner > last:
            partner = generator.getrandbits(32) & mask
        order[last], order[partner] = order[partner], order[last]
    return order
