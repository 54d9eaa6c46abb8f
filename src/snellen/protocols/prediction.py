"""From a response to a prediction: an option by identity, whatever its place and label were. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from snellen.extraction import NamedExtractor, find_extractor
from snellen.extraction.grader_address import grader_address
from snellen.extraction.thoughts import split_thoughts
from snellen.protocols.base import Conclusion
from snellen.reasons import NoMostLikelyReason, Reason
from snellen.records import (
    IMPOSSIBLE,
    ContinuationScore,
    ExtractionMethod,
    Prediction,
    Request,
    Response,
    Turn,
)

LikelihoodRule = Literal["sum", "mean", "byte", "softmax", "pmi", "conditional"]
RuleChoice = Literal["own", LikelihoodRule]
"""`own` is the extractor that each benchmark's entry names."""


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
    Raises UnknownNameError for an extractor that does not exist, HookError for one that fails; never for what a model
    replied.
    """
    rules = find_extractor(extractor)
    likelihood = request.kind == "loglikelihood"
    unread = Prediction(
        protocol=protocol,
        method="likelihood" if likelihood else "generation",
        benchmark=request.benchmark,
        sample_id=request.sample_id,
        variant=request.variant,
        key=request.key,
        extractor_version=_rule_version(rule) if likelihood else rules.version,
        error=response.error,
        notes=response.notes,
        addresses_grader=_grader_address(question, response),
    )
    if response.error is not None:
        return replace(unread, reason="request failed", detail=response.error.kind)
    if likelihood and response.chosen is not None:
        choice = _places(unread, question)[response.chosen]
        return replace(
            unread,
            choice=choice,
            extraction_method="likelihood",
            extractor_version="chosen-elsewhere",
        )
    if likelihood:
        return _by_scores(unread, above_baseline(response.scores, baseline, rule), rule)
    reason = _why_nothing_is_said(response)
    if not question.options:
        parts = split_thoughts(response.text or "")
        if parts.reasoning is not None and not parts.answer:
            reason = "reasoning cut off" if parts.is_unfinished else reason or "empty"
        return replace(unread, text=parts.answer, extraction_method="verbatim", reason=reason)
    prediction = _by_reply(unread, question, response, rules)
    return (
        replace(prediction, reason=reason) if reason and prediction.choice is None else prediction
    )


def _why_nothing_is_said(response: Response) -> Reason | None:
    """None for a reply with a text. Of one that the length limit ended before any answer, all that was written is
    reasoning, which a server does not show."""
    if (response.text or "").strip():
        return None
    match response.finish:
        case "length":
            return "reasoning cut off"
        case "tool_calls" | "function_call":
            return "tool call"
        case _:
            return "empty"


def _rule_version(rule: LikelihoodRule) -> str:
    return f"likelihood-{rule}-1"


def holds_shares(prediction: Prediction) -> bool:
    """Whether its scores are shares of the options (rule `softmax`), and not log-likelihoods."""
    return prediction.extractor_version == _rule_version("softmax")


def predict_conclusion(
    protocol: str, question: Turn, conclusion: Conclusion, extractor: str = "standard"
) -> Prediction:
    """How the answer to which several steps led is read; one that ended without an answer is `undecided`."""
    prediction = predict(protocol, question, conclusion.request, conclusion.response, extractor)
    if not conclusion.undecided:
        return prediction
    text = conclusion.response.text
    return replace(
        prediction,
        choice=None,
        text=None,
        extraction_method=None,
        reason="undecided",
        confidence=None,
        probabilities=(),
        follows_format=False,
        unparsed_text=text,
    )


def _by_scores(
    unread: Prediction, scores: Sequence[ContinuationScore] | None, rule: LikelihoodRule
) -> Prediction:
    """The most likely option; `scores` are None where the baseline is missing."""
    if scores is None:
        return replace(unread, reason="no baseline")
    choice, method, reason = most_likely(scores, rule)
    return replace(
        unread,
        choice=choice,
        extraction_method=method,
        reason=reason,
        notes=(*unread.notes, "tie") if method == "tie" else unread.notes,
        scores=option_values(scores, rule),
    )


def _by_reply(
    unread: Prediction, question: Turn, response: Response, rules: NamedExtractor
) -> Prediction:
    """The option that the reply names, by identity."""
    places, reply = _places(unread, question), response.text or ""
    options = [question.options[place] for place in places]
    of = f"{unread.benchmark} {unread.sample_id}"
    reading = rules.reading(
        of, reply, options, unread.variant.labels, response.finish, question.question
    )
    return replace(
        unread,
        choice=None if reading.choice is None else places[reading.choice],
        extraction_method=reading.extraction_method,
        reason=reading.reason,
        detail=reading.detail,
        confidence=None if reading.confidence == "none" else reading.confidence,
        probabilities=_by_identity(reading.probabilities, places),
        follows_format=reading.follows_format,
        unparsed_text=reply if reading.choice is None else None,
        mentioned=tuple(places[place] for place in reading.mentioned),
    )


def _by_identity(probabilities: Sequence[float], places: Sequence[int]) -> tuple[float, ...]:
    """Probabilities of the options in the order shown, and of none, in the order of the question's options."""
    if not probabilities:
        return ()
    by_identity = dict(zip(places, probabilities, strict=False))
    shares = [by_identity[option] for option in range(len(places))]
    return tuple(round(share, 4) for share in (*shares, probabilities[-1]))


def _places(prediction: Prediction, question: Turn) -> Sequence[int]:
    """The options in the order shown."""
    return prediction.variant.order or range(len(question.options))


def _grader_address(question: Turn, response: Response) -> str:
    return (
        grader_address(response.text, "\n".join((question.question, *question.options)))
        if response.text
        else ""
    )


def above_baseline(
    scores: Sequence[ContinuationScore],
    baseline: Sequence[ContinuationScore] | None,
    rule: LikelihoodRule,
) -> Sequence[ContinuationScore] | None:
    """The scores less what the options score without the picture (pointwise mutual information, in nats).

    None when a baseline is needed and missing. `conditional` leaves it out; `pmi` insists on one.
    """
    if rule == "conditional" or (baseline is None and rule != "pmi"):
        return scores
    if baseline is None or len(baseline) != len(scores):
        return None
    return [
        score if score.is_impossible else replace(score, sum=score.sum - base.sum)
        for score, base in zip(scores, baseline, strict=True)
    ]


def reduce_score(score: ContinuationScore, rule: LikelihoodRule) -> float:
    """One continuation's score: `sum` of its tokens' log-likelihoods in nats (ReForm-Eval, equation 1,
    with the sum taken over logarithms), their `mean`, or the sum per `byte`.

    `softmax` orders options as `mean` does (LVLM-eHub, equations 1 and 2), `pmi` and `conditional` as `sum`. By any
    rule a continuation of probability zero has `IMPOSSIBLE`.
    """
    if score.is_impossible:
        return IMPOSSIBLE
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
