"""Score a question with options by the metrics that its protocol supports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import takewhile

from msgspec.structs import replace

from snellen.metrics.questions import (
    HIDDEN_ANSWER,
    NOT_ASKED,
    NOT_ROTATED,
    AnswerSequence,
    AskedQuestion,
    Unscored,
    has_baseline,
    why_unanswered,
    why_unparsed,
)
from snellen.records import Answer, Score
from snellen.scoring.choice_metrics import (
    ACCURACY,
    CIRCULAR_ACCURACY,
    REPEATS,
    Passes,
    accuracy,
    accuracy_doubt,
    accuracy_lower,
    accuracy_of_parsed,
    accuracy_upper,
    agreeing_pairs,
    circular,
    circular_doubt,
    circular_of_parsed,
    circular_upper,
    consistency,
    hit_rate,
    instability,
    legacy_instability,
    majority,
    pass_at,
    settles,
    tie_rate,
    unparsed_rate,
    unsure_rate,
    without_unsure,
)

NO_LABELS = Unscored("metric undefined", "options were listed without labels")

Verdict = Callable[[Passes], float | None]
"""Function of the first passes of a question that returns a value, or None if they do not settle it."""


def score_choice(question: AskedQuestion) -> Iterator[Score]:
    """Yield a score for each choice metric that the protocol of a question supports."""
    declared = question.declaration
    passes = _with_baseline(question.answered_unbiased)
    yield from _accuracy_scores(question, passes)
    yield _score_or_unanswered(question, "unparsed_rate", unparsed_rate, passes)
    if declared.circular:
        yield from _circular_scores(question)
    if question.protocol.method == "generation":
        yield _score_or_unanswered(question, "unsure_rate", unsure_rate, passes)
        yield _hit_rate_score(question, passes)
    else:
        yield _score_or_unanswered(question, "tie_rate", tie_rate, passes)
    if declared.repeated_for:
        yield from _repeat_scores(question)
    if declared.instability:
        yield from _instability_scores(question)


def _with_baseline(passes: Passes) -> Passes:
    """Return the passes without those whose baseline request (the options without the image) failed."""
    return tuple(prediction for prediction in passes if has_baseline(prediction))


def _score_or_unanswered(
    question: AskedQuestion, name: str, rate: Callable[[Passes], float], passes: Passes
) -> Score:
    """Return the score of a question in a metric, or a score without a value if no reply to it was received.

    Args:
        question: The question.
        name: The name of the metric.
        rate: Function that computes the value from the replies.
        passes: The replies, one for each way in which the question was presented.
    """
    if not passes:
        return question.score(name, why_unanswered(question), 1)
    return question.score(name, rate(passes), len(passes))


def _hit_rate_score(question: AskedQuestion, passes: Passes) -> Score:
    """Return the share of replies that name a label, or a score without a value if options were shown without labels."""
    if passes and not any(prediction.variant.labels for prediction in passes):
        return question.score("hit_rate", NO_LABELS, len(passes))
    return _score_or_unanswered(question, "hit_rate", hit_rate, passes)


# --- accuracy --------------------------------------------------------------------------------------------------------


def _accuracy_scores(asked: AskedQuestion, asked_passes: Passes) -> Iterator[Score]:
    """Yield the four accuracy scores of a question: accuracy, that of readable replies only, and a lower and upper bound.

    Args:
        asked: The question with its replies.
        asked_passes: The replies, one for each presentation of the question.
    """
    question = asked.missing_unbiased_as_wrong
    # Usually nothing is missing, and the passes need not be computed again.
    passes = asked_passes if question is asked else _with_baseline(question.answered_unbiased)
    answer = question.answer
    if answer is None or not passes:
        absence = why_unanswered(question)
        if answer is None and _with_baseline(question.answered):
            absence = HIDDEN_ANSWER
        for name in ACCURACY.names:
            yield question.score(name, absence)
        return

    headline_name, parsed_name, lower_name, upper_name = ACCURACY.names
    n_passes = len(passes)
    doubt = accuracy_doubt(passes, answer)
    yield question.score(headline_name, accuracy(passes, answer), n_passes, doubt=doubt)
    parsed_accuracy = accuracy_of_parsed(passes, answer)
    if parsed_accuracy is None:
        yield question.score(parsed_name, why_unparsed(passes), n_passes)
    else:
        yield question.score(parsed_name, parsed_accuracy, n_passes)
    yield question.score(lower_name, accuracy_lower(passes, answer), n_passes)
    yield question.score(upper_name, accuracy_upper(passes, answer), n_passes)


# --- CircularEval ----------------------------------------------------------------------------------------------------


def _circular_scores(question: AskedQuestion) -> Iterator[Score]:
    """Yield the scores of a question that compare its replies to several rotations of the options.

    If the question has fewer than two rotations, or its correct answer is hidden, a score says so in place of a value.
    """
    answer = question.answer
    rotations = question.declaration.n_presentations(question.sample)
    names = (*CIRCULAR_ACCURACY.names, "circular_drop")
    if rotations < 2:
        for name in (*names, "consistency"):
            yield question.score(name, NOT_ROTATED)
        return

    yield _score_by_first_passes(
        question, "consistency", lambda passes: consistency(passes, rotations)
    )
    if answer is None:
        absence = HIDDEN_ANSWER if question.answered else _why_incomplete(question)
        for name in names:
            yield question.score(name, absence)
        return
    yield from _circular_verdicts(question, answer, rotations)


def _circular_verdicts(question: AskedQuestion, answer: Answer, rotations: int) -> Iterator[Score]:
    """Yield the circular scores of a question (MMBench): is it answered correctly under every rotation of its options?

    The scores are this verdict (1.0 or 0.0), the verdict from readable replies alone, the lowest and the highest
    verdict that unsure readings allow, and `circular_drop`: the accuracy of the first rotation minus the verdict.
    """
    # Rotations that the protocol left out, as the result was certain without them, are not missing.
    is_settled = _has_ended(question, _first_passes(question))
    with_missing_as_wrong = question if is_settled else question.missing_as_wrong
    first_passes = _first_passes(with_missing_as_wrong)
    has_ended = _has_ended(with_missing_as_wrong, first_passes)

    def verdict(passes: Passes) -> float | None:
        return circular(passes, answer, rotations)

    def verdict_of_parsed(passes: Passes) -> float | None:
        return circular_of_parsed(passes, answer, rotations)

    def lower(passes: Passes) -> float | None:
        return circular(without_unsure(passes), answer, rotations)

    def upper(passes: Passes) -> float | None:
        if has_ended and len(passes) == len(first_passes):
            return circular_upper(passes, answer, rotations)
        return circular_of_parsed(without_unsure(passes), answer, rotations)

    def drop(passes: Passes) -> float | None:
        """Return by how much the accuracy in the first rotation exceeds that in all rotations."""
        value = verdict(passes)
        if value is None:
            return None
        return accuracy(passes[:1], answer) - value

    headline_name, of_parsed_name, lower_name, upper_name = CIRCULAR_ACCURACY.names
    headline = _score_by_first_passes(with_missing_as_wrong, headline_name, verdict)
    if headline.value is not None:
        deciding_passes = first_passes[: headline.steps]
        doubt = circular_doubt(deciding_passes, answer)
        headline = replace(headline, doubt=doubt)
    yield headline
    yield _score_by_first_passes(with_missing_as_wrong, of_parsed_name, verdict_of_parsed)
    yield _score_by_first_passes(with_missing_as_wrong, lower_name, lower)
    yield _score_by_first_passes(with_missing_as_wrong, upper_name, upper)
    yield _score_by_first_passes(question, "circular_drop", drop)


def _score_by_first_passes(question: AskedQuestion, name: str, verdict: Verdict) -> Score:
    """Score a question that is presented several times (such as with rotated options), until the verdict is certain.

    One wrong reply can decide it; then later replies are ignored. If they counted, a failed request among them would
    leave the question without a score, more often for some models than for others.

    Args:
        question: The question with its replies.
        name: The name of the metric.
        verdict: Function from the first replies to the value; None if they do not decide it yet.
    """
    passes = _first_passes(question)
    rotations = question.declaration.n_presentations(question.sample)
    for steps in range(1, len(passes) + 1):
        value = verdict(passes[:steps])
        if value is not None:
            return question.score(name, value, rotations, AnswerSequence(steps))
    has_ended = _has_ended(question, passes)
    absence = why_unparsed(passes) if has_ended else _why_incomplete(question)
    return question.score(
        name, absence, rotations, AnswerSequence(len(passes), broken=not has_ended)
    )


def _first_passes(question: AskedQuestion) -> Passes:
    """Return the passes before the first that failed."""
    return tuple(takewhile(lambda prediction: prediction.error is None, question.predictions))


def _has_ended(question: AskedQuestion, passes: Passes) -> bool:
    """Return whether the protocol needs no further presentations of a question, because it has all or the result is certain."""
    declared = question.declaration
    if len(passes) == declared.n_presentations(question.sample):
        return True
    return declared.stops_early and settles(passes)


def _why_incomplete(question: AskedQuestion) -> Unscored:
    """Return why not all presentations of a question have a reply: one failed, or some were not sent yet."""
    if len(question.answered) < len(question.predictions):
        return why_unanswered(question)
    return NOT_ASKED


# --- repeated and varied questions -----------------------------------------------------------------------------------


def _repeat_scores(question: AskedQuestion) -> Iterator[Score]:
    """Yield the scores of a question that was sent several times: pass@k, majority vote, and agreement.

    pass@k is computed from the received replies alone, because its expectation does not depend on their number. The
    majority vote needs all replies, because a majority of fewer replies is less often correct.
    """
    answered = question.answered
    answer = question.answer
    k = question.declaration.repeated_for
    n = len(answered) or 1
    too_few = _why_incomplete(question)
    absence = HIDDEN_ANSWER if answer is None and answered else too_few
    is_complete = len(answered) == question.declaration.n_presentations(question.sample)
    pass_name, vote_name, agreement_name = REPEATS.names

    if answer is None or len(answered) < k:
        yield question.score(pass_name, absence, n)
    else:
        n_correct = sum(prediction.choice in answer.options for prediction in answered)
        yield question.score(pass_name, pass_at(k, len(answered), n_correct), n)

    if answer is None or not is_complete:
        yield question.score(vote_name, absence, n)
    else:
        yield question.score(vote_name, majority(answered, answer), n)

    if len(answered) > 1:
        yield question.score(agreement_name, agreeing_pairs(answered), n)
    else:
        yield question.score(agreement_name, too_few, n)


def _instability_scores(question: AskedQuestion) -> Iterator[Score]:
    """Yield how much the chosen option varies if a question is presented differently.

    The scores have no value if not all presentations received a reply.
    """
    passes = _with_baseline(question.answered)
    n = len(passes) or 1
    if len(passes) < question.declaration.n_presentations(question.sample):
        absence = why_unanswered(question)
        yield question.score("instability", absence, n)
        yield question.score("legacy_instability", absence, n)
        return
    yield question.score("instability", instability(passes), n)
    yield question.score("legacy_instability", legacy_instability(passes), n)
