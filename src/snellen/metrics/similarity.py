"""Semantic similarity of captions, by a sentence-embedding model that runs offline."""

from __future__ import annotations

from collections.abc import Sequence

from snellen.errors import DataError
from snellen.extraction.semantic_matching import embed
from snellen.metrics.captions import CorpusScore, References
from snellen.metrics.declaration import corpus_metric


def caption_similarity(replies: Sequence[str], references: References) -> CorpusScore:
    """Cosine of the embeddings of a caption and its nearest reference, -1 to 1 (LVLM-eHub, figure A.2).

    Raises MissingExtraError without the model, DataError for a caption without a reference.
    """
    if any(not group for group in references):
        raise DataError("a caption has no reference; give at least one, or leave the question out")
    vectors = embed([text for reply, group in zip(replies, references, strict=True) for text in (reply, *group)])
    values, offset = [], 0
    for group in references:
        values.append(float((vectors[offset + 1 : offset + 1 + len(group)] @ vectors[offset]).max()))
        offset += 1 + len(group)
    return CorpusScore(sum(values) / len(values) if values else 0.0, tuple(values))


CAPTION_SIMILARITY = corpus_metric(
    caption_similarity, unit="cosine", low=-1.0, high=1.0, scale="cosine", title="caption similarity"
)
