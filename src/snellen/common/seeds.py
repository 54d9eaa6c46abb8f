"""Random choices derived by name, so that order, workers and resumption cannot change them."""

from __future__ import annotations

import hashlib
import random


def rng_for(*names: str | int) -> random.Random:
    """A generator that depends on `names` alone: the same on any machine, in any order.

    The convention is `rng_for(benchmark, sample_id, purpose, seed)`. Names are joined with their
    lengths, so ("a", "bc") and ("ab", "c") give different generators.

    Examples:
        >>> rng_for("mmbench", "q7", "order", 0).random() == rng_for("mmbench", "q7", "order", 0).random()
        True
    """
    spelled = "".join(f"{len(str(name))}:{name}" for name in names)
    return random.Random(int.from_bytes(hashlib.blake2b(spelled.encode(), digest_size=16).digest()))


def numpy_permutation(count: int, seed: int) -> list[int]:
    """`numpy.random.RandomState(seed).permutation(count)`, of which `choice(count, k, replace=False)` is the beginning.

    The generator is Python's own, MT19937, seeded by Knuth's rule as NumPy seeds it (Matsumoto and Nishimura 1998,
    revised 2002); places are exchanged from the last one on, each with one drawn by rejection.
    """
    key, word = list[int](), seed & 0xFFFFFFFF
    for place in range(1, 625):
        key.append(word)
        word = (1812433253 * (word ^ (word >> 30)) + place) & 0xFFFFFFFF
    generator = random.Random()
    generator.setstate((3, (*key, 624), None))
    order = list(range(count))
    for last in range(count - 1, 0, -1):
        mask = (1 << last.bit_length()) - 1
        while (drawn := generator.getrandbits(32) & mask) > last:
            pass
        order[last], order[drawn] = order[drawn], order[last]
    return order
