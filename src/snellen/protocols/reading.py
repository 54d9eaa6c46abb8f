"""From a response to a prediction: an option by identity, whatever its place and mark were. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from snellen import registry
from snellen.extract import EXTRACTORS, VERSIONS
from snellen.records import ContinuationScore, Prediction, Request, Response, Turn

LikelihoodRule = Literal["sum", "mean", "byte"]
LIKELIHOOD_RULES: tuple[LikelihoodRule, ...] = ("sum", "mean", "byte")


def check_extractor(name: str) -> None:
    """Raise UnknownNameError for an extractor that does not exist."""
    if name not in EXTRACTORS:
        raise registry.unknown("extractor", name, EXTRACTORS)


def predict(
    protocol: str,
    question: Turn,
    request: Request,
    response: Response,
    extractor: str = "standard",
    rule: LikelihoodRule = "sum",
) -> Prediction:
    """How the response to one presentation of `question` is read.

    Raises UnknownNameError for an extractor that does not exist; never for what a model replied.
    """
    check_extractor(extractor)
    likelihood = request.kind == "loglikelihood"
    choice, text, way, hit = None, None, "", False
    notes = response.notes
    reader = f"likelihood-{rule}-1" if likelihood else VERSIONS[extractor]
    if response.error is not None:
        way = "error"
    elif likelihood:
        choice, way = most_likely(response.scores, rule)
        if way == "tie":
            notes = (*notes, "tie")
    elif question.options:
        places = request.variant.order or tuple(range(len(question.options)))
        shown = [question.options[i] for i in places]
        reading = EXTRACTORS[extractor](response.text or "", shown, request.variant.marks)
        choice = None if reading.choice is None else places[reading.choice]
        way, hit = reading.way, reading.hit
    else:
        text, way = response.text, "text"
    return Prediction(
        protocol=protocol,
        method="likelihood" if likelihood else "generation",
        benchmark=request.benchmark,
        sample_id=request.sample_id,
        variant=request.variant,
        key=request.key,
        choice=choice,
        text=text,
        way=way,
        hit=hit,
        reader=reader,
        error=response.error,
        notes=notes,
    )


def reduce_score(score: ContinuationScore, rule: LikelihoodRule) -> float:
    """One continuation's score: `sum` of its tokens' log-likelihoods in nats (ReForm-Eval, equation 1,
    with the sum taken over logarithms), their `mean` (LVLM-eHub's prefix score), or per `byte`."""
    if rule == "sum":
        return score.sum
    return score.sum / max(score.tokens if rule == "mean" else score.bytes, 1)


def most_likely(scores: Sequence[ContinuationScore], rule: LikelihoodRule) -> tuple[int | None, str]:
    """Index of the most likely continuation and how it was found.

    NaN and scores that are all the same decide nothing. An exact tie for the best goes to the lower
    index and is said so.
    """
    values = [reduce_score(score, rule) for score in scores]
    if not values or any(math.isnan(value) for value in values):
        return None, "nan"
    best = max(values)
    if min(values) == best and len(values) > 1:
        return None, "identical"
    return values.index(best), "tie" if values.count(best) > 1 else "likelihood"
