"""Turn a response into a prediction: an option by its index in the question, whatever its position and label were."""

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
"""`own` selects the rule that each benchmark's entry declares."""


def predict(
    protocol: str,
    question: Turn,
    request: Request,
    response: Response,
    extractor: str = "standard",
    rule: LikelihoodRule = "sum",
    baseline: Sequence[ContinuationScore] | None = None,
) -> Prediction:
    """Return the prediction in the response to one presentation of a question.

    Args:
        protocol: Label of the protocol.
        question: The question.
        request: The request.
        response: Its response.
        extractor: Name of the extraction rules.
        rule: How the log-likelihoods of tokens are combined.
        baseline: Scores of the same options without the image. None if the protocol has no baseline; empty if the
            baseline failed.

    Raises:
        UnknownNameError: The extractor does not exist.
        HookError: The extractor failed.
    """
    rules = find_extractor(extractor)
    is_likelihood = request.kind == "loglikelihood"
    unread = Prediction(
        protocol=protocol,
        method="likelihood" if is_likelihood else "generation",
        benchmark=request.benchmark,
        sample_id=request.sample_id,
        variant=request.variant,
        key=request.key,
        extractor_version=_rule_version(rule) if is_likelihood else rules.version,
        error=response.error,
        notes=response.notes,
        addresses_grader=_grader_address(question, response),
        verdict=response.verdict,
    )
    if response.error is not None:
        return replace(unread, reason="request failed", detail=response.error.kind)
    if is_likelihood and response.likeliest_option is not None:
        # Another toolkit stored only which option was the most likely one, as its position.
        choice = _shown_indices(unread, question)[response.likeliest_option]
        return replace(
            unread,
            choice=choice,
            extraction_method="likelihood",
            extractor_version="chosen-elsewhere",
        )
    if is_likelihood:
        scores = above_baseline(response.scores, baseline, rule)
        return _by_scores(unread, scores, rule)
    reason = _reason_for_no_text(response)
    if not question.options:
        parts = split_thoughts(response.text or "")
        has_only_reasoning = parts.reasoning is not None and not parts.answer
        if has_only_reasoning and parts.is_unfinished:
            reason = "reasoning cut off"
        elif has_only_reasoning:
            reason = reason or "empty"
        return replace(unread, text=parts.answer, extraction_method="verbatim", reason=reason)
    prediction = _by_reply(unread, question, response, rules)
    if reason and prediction.choice is None:
        return replace(prediction, reason=reason)
    return prediction


def _reason_for_no_text(response: Response) -> Reason | None:
    """Return why a response has no text, or None if it has text.

    If the length limit ended the reply, all its tokens were reasoning, which the server does not return.
    """
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
    """Return whether the scores of a prediction are shares (rule `softmax`), and not log-likelihoods."""
    return prediction.extractor_version == _rule_version("softmax")


def predict_conclusion(
    protocol: str, question: Turn, conclusion: Conclusion, extractor: str = "standard"
) -> Prediction:
    """Return the prediction of a protocol with several steps. If it ended without an answer, the reason is `undecided`."""
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
    """Return the prediction of the most likely option.

    Args:
        unread: The prediction without a choice.
        scores: The log-likelihood of each option; None if the baseline that is subtracted from them is missing.
        rule: How the log-likelihoods of tokens are combined.
    """
    if scores is None:
        return replace(unread, reason="no baseline")
    choice, method, reason = most_likely(scores, rule)
    notes = unread.notes
    if method == "tie":
        notes = (*notes, "tie")
    return replace(
        unread,
        choice=choice,
        extraction_method=method,
        reason=reason,
        notes=notes,
        scores=option_values(scores, rule),
    )


def _by_reply(
    unread: Prediction, question: Turn, response: Response, rules: NamedExtractor
) -> Prediction:
    """Return the prediction of the option that a reply names."""
    reply = response.text or ""
    indices = _shown_indices(unread, question)
    options = [question.options[index] for index in indices]
    sample_name = f"{unread.benchmark} {unread.sample_id}"
    reading = rules.reading(
        sample_name, reply, options, unread.variant.labels, response.finish, question.question
    )
    choice = None
    unparsed_text: str | None = reply
    if reading.choice is not None:
        choice = indices[reading.choice]
        unparsed_text = None
    return replace(
        unread,
        choice=choice,
        extraction_method=reading.extraction_method,
        reason=reading.reason,
        detail=reading.detail,
        confidence=None if reading.confidence == "none" else reading.confidence,
        probabilities=_in_question_order(reading.probabilities, indices),
        follows_format=reading.follows_format,
        unparsed_text=unparsed_text,
        mentioned=tuple(indices[position] for position in reading.mentioned),
    )


def _in_question_order(
    probabilities: Sequence[float], shown_options: Sequence[int]
) -> tuple[float, ...]:
    """Return the probabilities of options in the question's own order; that of "no option" stays last.

    `(0.7, 0.2, 0.1)` for options shown in the order `(1, 0)` gives `(0.2, 0.7, 0.1)`.

    Args:
        probabilities: The probability of each option in the order shown, then that of "no option"; may be empty.
        shown_options: Indices of the options in the order shown.
    """
    if not probabilities:
        return ()
    by_option = dict(zip(shown_options, probabilities, strict=False))
    ordered = [by_option[option] for option in range(len(shown_options))]
    ordered.append(probabilities[-1])
    return tuple(round(probability, 4) for probability in ordered)


def _shown_indices(prediction: Prediction, question: Turn) -> Sequence[int]:
    """Return the question's index of each option, in the order shown."""
    return prediction.variant.order or range(len(question.options))


def _grader_address(question: Turn, response: Response) -> str:
    """Return the part of a reply that addresses a grader; empty if there is none."""
    if not response.text:
        return ""
    question_text = "\n".join((question.question, *question.options))
    return grader_address(response.text, question_text)


def above_baseline(
    scores: Sequence[ContinuationScore],
    baseline: Sequence[ContinuationScore] | None,
    rule: LikelihoodRule,
) -> Sequence[ContinuationScore] | None:
    """Return the log-likelihoods of options minus those without the image (pointwise mutual information, in nats).

    Args:
        scores: Log-likelihood of each option.
        baseline: Log-likelihood of the same options without the image; None if it was not requested.
        rule: `conditional` never subtracts the baseline, `pmi` requires one, other rules subtract one if it exists.

    Returns:
        The differences; None if a required baseline is missing, or has other options. An impossible option stays so.
    """
    if rule == "conditional" or (baseline is None and rule != "pmi"):
        return scores
    if baseline is None or len(baseline) != len(scores):
        return None
    differences: list[ContinuationScore] = []
    for score, baseline_score in zip(scores, baseline, strict=True):
        if score.is_impossible:
            differences.append(score)
        else:
            differences.append(replace(score, sum=score.sum - baseline_score.sum))
    return differences


def reduce_score(score: ContinuationScore, rule: LikelihoodRule) -> float:
    """Return the score of one continuation under a rule.

    `sum` is the sum of its tokens' log-likelihoods in nats (ReForm-Eval, equation 1, with logarithms summed), `mean`
    their mean, and `byte` the sum per byte. `softmax` orders options as `mean` does (LVLM-eHub, equations 1 and 2);
    `pmi` and `conditional` as `sum`. A continuation of probability zero has the score `IMPOSSIBLE` under every rule.
    """
    if score.is_impossible:
        return IMPOSSIBLE
    if rule in ("mean", "softmax"):
        return score.sum / max(score.tokens, 1)
    if rule == "byte":
        return score.sum / max(score.bytes, 1)
    return score.sum


def option_values(scores: Sequence[ContinuationScore], rule: LikelihoodRule) -> tuple[float, ...]:
    """Return the value to show for each option: its score or, for the rule `softmax`, its probability among the options."""
    values = [reduce_score(score, rule) for score in scores]
    if rule != "softmax" or not values:
        return tuple(values)
    highest = max(values)  # subtracted so that no exponential overflows
    weights = [math.exp(value - highest) for value in values]
    total = math.fsum(weights)
    return tuple(weight / total for weight in weights)


def most_likely(
    scores: Sequence[ContinuationScore], rule: LikelihoodRule
) -> tuple[int | None, ExtractionMethod | None, NoMostLikelyReason | None]:
    """Find the most likely of several continuations of a prompt.

    Args:
        scores: Log-likelihoods of the tokens of each continuation.
        rule: How to reduce them to one number, such as their sum or mean.

    Returns:
        The index of the continuation with the highest score, the method (`tie` if several share the score; then the
        first one wins), and None. If a score is NaN, or all of several scores are equal: None, None, and the reason.
    """
    values = [reduce_score(score, rule) for score in scores]
    if not values or any(math.isnan(value) for value in values):
        return None, None, "not a number"
    highest = max(values)
    are_all_equal = len(values) > 1 and min(values) == highest
    if are_all_equal:
        return None, None, "all alike"
    is_tie = values.count(highest) > 1
    method: ExtractionMethod = "tie" if is_tie else "likelihood"
    return values.index(highest), method, None
