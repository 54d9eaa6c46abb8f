"""From a response to a prediction: an option by identity, whatever its place and label were. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, get_args

from msgspec.structs import replace

from snellen.extraction import find_extractor
from snellen.extraction.grader_address import grader_address
from snellen.reasons import NoMostLikelyReason, Reason
from snellen.records import ContinuationScore, ExtractionMethod, Prediction, ReadingConfidence, Request, Response, Turn

LikelihoodRule = Literal["sum", "mean", "byte", "softmax", "pmi", "conditional"]
LIKELIHOOD_RULES: tuple[LikelihoodRule, ...] = get_args(LikelihoodRule)


def check_extractor(name: str) -> None:
    """Raise UnknownNameError for an extractor that does not exist."""
    find_extractor(name)


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
    empty when it asked and got none.
    Raises UnknownNameError for an extractor that does not exist; never for what a model replied.
    """
    reading_rules = find_extractor(extractor)
    likelihood = request.kind == "loglikelihood"
    choice: int | None = None
    method: ExtractionMethod | None = None
    reason: Reason | None = None
    text, detail, follows_format = None, "", False
    confidence: ReadingConfidence | None = None
    unparsed_text: str | None = None
    scores: tuple[float, ...] = ()
    notes = response.notes
    version = f"likelihood-{rule}-1" if likelihood else reading_rules.version
    if response.error is not None:
        reason, detail = "request failed", response.error.kind
    elif likelihood and response.chosen is not None:
        places = request.variant.order or tuple(range(len(question.options)))
        choice, method, version = places[response.chosen], "likelihood", "chosen-elsewhere"
    elif likelihood:
        above = above_baseline(response.scores, baseline, rule)
        if above is None:
            reason = "no baseline"
        else:
            choice, method, reason = most_likely(above, rule)
        scores = option_values(above or (), rule)
        if method == "tie":
            notes = (*notes, "tie")
    elif question.options:
        places = request.variant.order or tuple(range(len(question.options)))
        options = [question.options[i] for i in places]
        reading = reading_rules.read(
            response.text or "", options, request.variant.labels, finish=response.finish, question=question.question
        )
        choice = None if reading.choice is None else places[reading.choice]
        method, reason, detail = reading.extraction_method, reading.reason, reading.detail
        follows_format = reading.follows_format
        confidence = None if reading.confidence == "none" else reading.confidence
        unparsed_text = (response.text or "") if choice is None else None
    else:
        text, method = response.text, "verbatim"
    return Prediction(
        protocol=protocol,
        method="likelihood" if likelihood else "generation",
        benchmark=request.benchmark,
        sample_id=request.sample_id,
        variant=request.variant,
        key=request.key,
        choice=choice,
        text=text,
        extraction_method=method,
        reason=reason,
        detail=detail,
        confidence=confidence,
        follows_format=follows_format,
        extractor_version=version,
        error=response.error,
        notes=notes,
        scores=scores,
        unparsed_text=unparsed_text,
        addresses_grader=_grader_address(question, response),
    )


def _grader_address(question: Turn, response: Response) -> str:
    return grader_address(response.text, "\n".join((question.question, *question.options))) if response.text else ""


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
    """The value shown for each option: its reduced score, or for `softmax` its share of the total."""
    values = [reduce_score(score, rule) for score in scores]
    if rule != "softmax" or not values:
        return tuple(values)
    weights = [math.exp(value - max(values)) for value in values]
    return tuple(weight / math.fsum(weights) for weight in weights)


def most_likely(
    scores: Sequence[ContinuationScore], rule: LikelihoodRule
) -> tuple[int | None, ExtractionMethod | None, NoMostLikelyReason | None]:
    """Index of the most likely continuation and how it was found, or why there is none.

    NaN and scores that are all equal decide nothing. An exact tie for the best goes to the lower
    index and is noted.
    """
    values = [reduce_score(score, rule) for score in scores]
    if not values or any(math.isnan(value) for value in values):
        return None, None, "not a number"
    best = max(values)
    if min(values) == best and len(values) > 1:
        return None, None, "all alike"
    return values.index(best), "tie" if values.count(best) > 1 else "likelihood", None
