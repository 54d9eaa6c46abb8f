"""From a response to a prediction: an option by identity, whatever its place and mark were. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, get_args

from msgspec.structs import replace

from snellen import registry
from snellen.extract import EXTRACTORS, VERSIONS
from snellen.records import ContinuationScore, Prediction, Request, Response, Turn

LikelihoodRule = Literal["sum", "mean", "byte", "softmax", "pmi", "conditional"]
LIKELIHOOD_RULES: tuple[LikelihoodRule, ...] = get_args(LikelihoodRule)
NO_BASELINE = "no baseline"


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
    baseline: Sequence[ContinuationScore] | None = None,
) -> Prediction:
    """How the response to one presentation of `question` is read.

    `baseline` is what the same options score without the picture; None when the protocol asks for none,
    empty when it did and nothing came.
    Raises UnknownNameError for an extractor that does not exist; never for what a model replied.
    """
    check_extractor(extractor)
    likelihood = request.kind == "loglikelihood"
    choice, text, way, hit = None, None, "", False
    scores: tuple[float, ...] = ()
    notes = response.notes
    reader = f"likelihood-{rule}-1" if likelihood else VERSIONS[extractor]
    if response.error is not None:
        way = "error"
    elif likelihood:
        above = above_baseline(response.scores, baseline, rule)
        choice, way = most_likely(above, rule) if above is not None else (None, NO_BASELINE)
        scores = option_values(above or (), rule)
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
        scores=scores,
    )


def above_baseline(
    scores: Sequence[ContinuationScore], baseline: Sequence[ContinuationScore] | None, rule: LikelihoodRule
) -> Sequence[ContinuationScore] | None:
    """The scores less what the options score without the picture (pointwise mutual information, in nats).

    None when a baseline is needed and missing. `conditional` leaves it out; `pmi` insists on one.
    """
    if rule == "conditional" or (baseline is None and rule != "pmi"):
        return scores
    if baseline is None or len(baseline) != len(scores):
        return None
    return [replace(score, sum=score.sum - base.sum) for score, base in zip(scores, baseline, strict=True)]


def reduce_score(score: ContinuationScore, rule: LikelihoodRule) -> float:
    """One continuation's score: `sum` of its tokens' log-likelihoods in nats (ReForm-Eval, equation 1,
    with the sum taken over logarithms), their `mean`, or the sum per `byte`.

    `softmax` orders options as `mean` does (LVLM-eHub, equations 1 and 2), `pmi` and `conditional` as `sum`.
    """
    if rule in ("mean", "softmax"):
        return score.sum / max(score.tokens, 1)
    return score.sum / max(score.bytes, 1) if rule == "byte" else score.sum


def option_values(scores: Sequence[ContinuationScore], rule: LikelihoodRule) -> tuple[float, ...]:
    """What is shown of each option: its reduced score, or for `softmax` its share of one among the candidates."""
    values = [reduce_score(score, rule) for score in scores]
    if rule != "softmax" or not values:
        return tuple(values)
    weights = [math.exp(value - max(values)) for value in values]
    return tuple(weight / math.fsum(weights) for weight in weights)


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
