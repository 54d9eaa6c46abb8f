"""Distractors that are near to the answer in meaning."""

from __future__ import annotations

from snellen.common.sentence_embeddings import embed
from snellen.reformulation.distractor_sources import DistractorRanking, SourceContext
from snellen.reformulation.near_distractors import rank_by_vectors


def near_meaning(context: SourceContext) -> DistractorRanking:
    """Rank candidates by how near they are to the answer in meaning. Raises MissingExtraError without the model."""
    return rank_by_vectors(context, embed)
