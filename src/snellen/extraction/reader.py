"""Probabilities that a reply means each option or gives no answer, by a logistic model of its features.

The model is a conditional logit (McFadden 1974). The score of an option, and of "gives no answer", is the sum of its
features' values times their weights; the probabilities are the softmax of the scores. The weights in
`reader_weights.json` were learnt from replies of real models with the answers that their authors extracted
(training/reader). A feature that is not in the file has the weight 0.
"""

from __future__ import annotations

import json
import math
from functools import cache
from importlib.resources import files

from snellen.extraction.features import Features, ReplyFeatures

WEIGHTS = "reader_weights.json"


@cache
def weights() -> dict[str, float]:
    """Return the weight of each feature, by its name."""
    text = files("snellen.extraction").joinpath(WEIGHTS).read_text("utf-8")
    table: dict[str, float] = json.loads(text)
    return table


def probabilities(described: ReplyFeatures) -> tuple[float, ...]:
    """Return the probability that a reply means each option, and last that it gives no answer. They add up to 1.

    They are the softmax of the scores of a linear model.

    Args:
        described: Features of the reply for each option, and for "no answer".
    """
    scores = [_score(features) for features in (*described.options, described.none)]
    highest = max(scores)
    exponentials = [math.exp(score - highest) for score in scores]
    total = math.fsum(exponentials)
    return tuple(exponential / total for exponential in exponentials)


def _score(features: Features) -> float:
    """Return the sum of the values of some features times their weights."""
    weight_of = weights()
    terms = [weight_of.get(name, 0.0) * value for name, value in features.items()]
    return math.fsum(terms)
