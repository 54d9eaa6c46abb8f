"""Metrics of one question that was asked several times: pass@k, majority vote, agreement. Pure.

A reply that names no option is not right, votes for nothing that is right, and agrees with no other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import comb

from snellen.metrics.declaration import ChoiceMetric, share
from snellen.records import Answer, Prediction


def pass_at(k: int, replies: int, right: int) -> float:
    """The chance that one of `k` replies is right, without bias from the `right` ones of so many `replies` >= k:
    1 - C(n - c, k) / C(n, k) (Chen et al. 2021, arXiv 2107.03374, equation 1)."""
    return 1.0 - comb(replies - right, k) / comb(replies, k)


def majority(predictions: Sequence[Prediction], answer: Answer) -> float:
    """Share of the most frequent choices that are right: 0 or 1 where one leads alone, and else what a coin would
    give. Replies that name no option are one more choice, which is not right."""
    votes = Counter(p.choice for p in predictions)
    most = max(votes.values())
    leading = [choice for choice, count in votes.items() if count == most]
    return sum(choice in answer.options for choice in leading) / len(leading)


def agreeing_pairs(predictions: Sequence[Prediction]) -> float:
    """Share of the pairs of replies that name the same option, 0 to 1."""
    votes = Counter(p.choice for p in predictions if p.choice is not None)
    return sum(comb(count, 2) for count in votes.values()) / comb(len(predictions), 2)


_REPEATED = {"": "needs the same question several times, e.g. repeat?k=5 at a temperature"}

REPEATS = ChoiceMetric(
    what="of questions asked several times: pass@k, right by majority vote, and pairs of replies that agree",
    rows=(
        share("pass_at_k", "pass@k", unparsed="wrong", absent_reasons=_REPEATED),
        share("majority_vote", "majority vote", unparsed="own kind", absent_reasons=_REPEATED),
        share("repeat_agreement", "agreement of replies", unparsed="wrong", absent_reasons=_REPEATED),
    ),
)
