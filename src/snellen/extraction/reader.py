"""How probable it is that a reply means each option, or none: a logistic model of its features.

The model is a conditional logit (McFadden 1974): each option and "gives no answer" has the sum of its features' weights
as its score, and probabilities are the softmax of the scores. The weights in `reader_weights.json` were learnt from
replies of real models with their authors' extracted answers (training/reader); what is not in the file weighs nothing.
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
    """Feature -> weight."""
    text = files("snellen.extraction").joinpath(WEIGHTS).read_text("utf-8")
    table: dict[str, float] = json.loads(text)
    return table


def probabilities(described: ReplyFeatures) -> tuple[float, ...]:
    """For each option, and last for "gives no answer"; they add up to 1."""
    scores = [_score(features) for features in (*described.options, described.none)]
    highest = max(scores)
    exponentials = [math.exp(score - highest) for score in scores]
    total = math.fsum(exponentials)
    return tuple(exponential / total for exponential in exponentials)


def _score(features: Features) -> float:
    table = weights()
    return math.fsum(table.get(name, 0.0) * value for name, value in features.items())
