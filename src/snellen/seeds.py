"""Random choices derived by name, so that order, workers and resumption cannot change them."""

from __future__ import annotations

import hashlib
import random


def rng_for(*names: str | int) -> random.Random:
    """A generator that depends on `names` alone: the same on any machine, in any order.

    The convention is `rng_for(benchmark, sample_id, purpose, seed)`. Names are joined with their
    lengths, so ("a", "bc") and ("ab", "c") give different generators.
    """
    spelled = "".join(f"{len(str(name))}:{name}" for name in names)
    return random.Random(int.from_bytes(hashlib.blake2b(spelled.encode(), digest_size=16).digest()))
