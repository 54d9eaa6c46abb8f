"""Metrics of choices: functions of the predictions of one question, and their declarations.

A reply counts as its most probable reading; a reply without an answer is not correct. Two bounds show how much depends
on that: `_lower` counts each reply with an unsure reading (`Prediction.is_unsure`) as wrong, `_upper` counts it and
each reply without an answer as correct. `_of_parsed` leaves out the replies without an answer. A doubt (`ReadingDoubt`)
sums up the probabilities of the readings; intervals and comparisons take the error of reading from it. None means
unscored, which is not wrong.

All functions take the predictions in order of presentation.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from math import comb
from typing import Any

from msgspec.structs import replace

from snellen.metrics.declaration import (
    ChoiceMetric,
    MetricRow,
    metric_row,
    share_row,
)
from snellen.records import Answer, Prediction, ReadingDoubt

Passes = tuple[Prediction, ...]
"""Presentations of one question, in their order."""

# --- accuracy --------------------------------------------------------------------------------------------------------


def accuracy(predictions: Sequence[Prediction], answer: Answer) -> float:
    """Return the share of predictions whose choice is correct, in [0, 1]; an unparsed reply is not correct."""
    correct = sum(prediction.choice in answer.options for prediction in predictions)
    return correct / len(predictions)


def accuracy_of_parsed(predictions: Sequence[Prediction], answer: Answer) -> float | None:
    """Return the share of parsed predictions whose choice is correct, in [0, 1], or None if no reply was parsed."""
    parsed = [prediction for prediction in predictions if prediction.choice is not None]
    if not parsed:
        return None
    return accuracy(parsed, answer)


def without_unsure(predictions: Sequence[Prediction]) -> Passes:
    """Return the predictions, with each unsure reading replaced by a reply without an answer."""
    replaced: list[Prediction] = []
    for prediction in predictions:
        if prediction.is_unsure:
            prediction = replace(prediction, choice=None)
        replaced.append(prediction)
    return tuple(replaced)


def accuracy_lower(predictions: Sequence[Prediction], answer: Answer) -> float:
    """Return `accuracy` with every unsure reading counted as wrong."""
    return accuracy(without_unsure(predictions), answer)


def accuracy_upper(predictions: Sequence[Prediction], answer: Answer) -> float:
    """Return `accuracy` with every unsure reading and every reply without an answer counted as correct."""
    possibly_correct = 0
    for prediction in without_unsure(predictions):
        if prediction.choice is None or prediction.choice in answer.options:
            possibly_correct += 1
    return possibly_correct / len(predictions)


def unsure_rate(predictions: Sequence[Prediction]) -> float:
    """Return the share of predictions whose reading is less probable than `SURE`, in [0, 1]."""
    return sum(prediction.is_unsure for prediction in predictions) / len(predictions)


def accuracy_doubt(predictions: Sequence[Prediction], answer: Answer) -> ReadingDoubt | None:
    """Return which values `accuracy` may have if some replies can be read in more than one way.

    An extractor may say for each option how probable it is that the reply means it. The result has the mean and the
    variance of the accuracy under these probabilities, and the accuracy if all unsure readings are wrong or all are
    right. It is None if no reading has probabilities, because all are then certain.
    """
    if not any(prediction.probabilities for prediction in predictions):
        return None
    probabilities = [prediction.probability_of(answer.options) for prediction in predictions]
    variances = [probability * (1 - probability) for probability in probabilities]
    correct_or_unsure = 0
    for prediction in predictions:
        if prediction.is_unsure or prediction.choice in answer.options:
            correct_or_unsure += 1
    n = len(predictions)
    return ReadingDoubt(
        expected=math.fsum(probabilities) / n,
        variance=math.fsum(variances) / n**2,
        least=accuracy_lower(predictions, answer),
        most=correct_or_unsure / n,
    )


def unparsed_rate(predictions: Sequence[Prediction]) -> float:
    """Return the share of predictions without an option, in [0, 1]."""
    return sum(prediction.choice is None for prediction in predictions) / len(predictions)


# --- CircularEval ----------------------------------------------------------------------------------------------------


def circular(predictions: Sequence[Prediction], answer: Answer, rotations: int) -> float | None:
    """Return the verdict of CircularEval (MMBench 4.1).

    The order of the passes does not matter, so stopping early and asking all rotations give the same value.

    Returns:
        1.0 if all rotations are correct. 0.0 if one is wrong or unparsed, or if two disagree. None if a rotation was
        never answered and the others do not settle the verdict.
    """
    if any(prediction.choice is None for prediction in predictions):
        return 0.0
    return circular_of_parsed(predictions, answer, rotations)


def circular_of_parsed(
    predictions: Sequence[Prediction], answer: Answer, rotations: int
) -> float | None:
    """Return the verdict over all option orders of a question, from readable replies alone.

    Args:
        predictions: The prediction for each order that was answered.
        answer: The correct answer.
        rotations: The number of orders.

    Returns:
        1.0 if the same correct option is chosen in all orders, and 0.0 if one reply is wrong or two disagree. None if a
        reply that is missing or could not be read might still decide.
    """
    choices = {prediction.choice for prediction in predictions if prediction.choice is not None}
    have_different_choices = len(choices) > 1
    has_wrong_choice = not choices.issubset(answer.options)
    if have_different_choices or has_wrong_choice:
        return 0.0
    if not _are_all_parsed(predictions, rotations):
        return None
    return 1.0


def circular_upper(
    predictions: Sequence[Prediction], answer: Answer, rotations: int
) -> float | None:
    """Return the highest value that circular accuracy of a question can have, whatever its unclear replies mean.

    Every rotation whose reply is unsure or unparsed, and every one not asked because of it, is taken as correct.

    Args:
        predictions: All presentations, including those that failed.
        answer: The ground truth.
        rotations: Rotations of the question.

    Returns:
        The verdict, or None if a rotation that could still decide was not answered for another reason.
    """
    answered = without_unsure(
        [prediction for prediction in predictions if prediction.error is None]
    )
    verdict = circular_of_parsed(answered, answer, rotations)
    if verdict is not None:
        return verdict
    has_failed = len(answered) < len(predictions)
    has_unparsed = any(prediction.choice is None for prediction in answered)
    if has_unparsed and not has_failed:
        return 1.0
    return None


def circular_doubt(predictions: Sequence[Prediction], answer: Answer) -> ReadingDoubt | None:
    """Return how uncertain the verdict over all option orders is, if some replies could be read in more than one way.

    A question counts as correct if the same correct option is chosen in every order. So its probability of being
    correct is the sum, over the correct options, of the product of their probabilities in all orders.

    Args:
        predictions: The prediction for each order, with the probability of each reading.
        answer: The correct answer.

    Returns:
        The expected verdict, its variance and its range; None if all readings are certain.
    """
    if not any(prediction.probabilities for prediction in predictions):
        return None
    probability_correct = 0.0
    may_be_correct = False
    for option in answer.options:
        probabilities = [prediction.probability_of((option,)) for prediction in predictions]
        probability_correct += math.prod(probabilities)
        if all(prediction.is_unsure or prediction.choice == option for prediction in predictions):
            may_be_correct = True
    is_sure = not any(prediction.is_unsure for prediction in predictions)
    choices = {prediction.choice for prediction in predictions}
    has_correct_choice = len(choices & set(answer.options)) == 1
    return ReadingDoubt(
        expected=probability_correct,
        variance=probability_correct * (1 - probability_correct),
        least=float(is_sure and has_correct_choice),
        most=float(may_be_correct),
    )


def consistency(predictions: Sequence[Prediction], rotations: int) -> float | None:
    """Return whether all rotations choose the same option, correct or not.

    Returns:
        1.0 if they do, 0.0 if two disagree or one is unparsed, and None if a rotation was never answered.
    """
    if settles(predictions):
        return 0.0
    if not _are_all_parsed(predictions, rotations):
        return None
    return 1.0


def settles(predictions: Sequence[Prediction]) -> bool:
    """Return whether a question has already failed circular evaluation, whatever its correct answer is.

    It has failed if a reply names no option, or if two replies (to different orders of the options) name different
    options.
    """
    choices = {prediction.choice for prediction in predictions}
    return len(choices) > 1 or None in choices


def _are_all_parsed(predictions: Sequence[Prediction], rotations: int) -> bool:
    """Return whether every rotation received a reply that names an option."""
    if len(predictions) != rotations:
        return False
    return all(prediction.choice is not None for prediction in predictions)


# --- format and stability --------------------------------------------------------------------------------------------


def hit_rate(predictions: Sequence[Prediction]) -> float:
    """Return the share of replies that name one of the labels shown (ReForm-Eval 4.3.3), in [0, 1]."""
    return sum(prediction.follows_format for prediction in predictions) / len(predictions)


def tie_rate(predictions: Sequence[Prediction]) -> float:
    """Return the share of predictions in which several options are exactly equally likely, in [0, 1]."""
    ties = 0
    for prediction in predictions:
        if prediction.extraction_method == "tie" or prediction.reason == "all alike":
            ties += 1
    return ties / len(predictions)


def instability(predictions: Sequence[Prediction]) -> float:
    """Return the entropy in nats of the options chosen over the presentations (ReForm-Eval 3.3.2).

    It is 0 if all choices agree, and at most the log of the number of presentations, or of options plus one, whichever
    is less. "Unparsed" counts as one more option.
    """
    return _entropy(prediction.choice for prediction in predictions)


def legacy_instability(predictions: Sequence[Prediction]) -> float:
    """Return `instability` as it was published: every different text without a readable option is a choice of its own.

    A model that rambles differently each time is therefore less stable than one that repeats the same unreadable text.
    """
    kinds: list[object] = []
    for prediction in predictions:
        is_unparsed = prediction.choice is None
        kinds.append(prediction.unparsed_text if is_unparsed else prediction.choice)
    return _entropy(kinds)


def _entropy(kinds: Iterable[object]) -> float:
    """Return the entropy in nats of values, by how often each occurs."""
    counts = list(Counter(kinds).values())
    return _entropy_of_counts(counts)


def _entropy_of_counts(counts: Sequence[int]) -> float:
    """Return the entropy in nats of a distribution that is given by counts."""
    total = sum(counts)
    entropy = 0.0
    for count in counts:
        if count:
            share = count / total
            entropy += -share * math.log(share)
    return entropy


def greatest_instability(presentations: int, kinds: int) -> float:
    """Return the greatest possible `instability`, in nats, for some presentations and kinds of answers.

    It is reached if the presentations are spread evenly: five presentations over three kinds of answers as 2, 2 and 1.
    """
    per_kind, remainder = divmod(presentations, kinds)
    counts = [per_kind + 1] * remainder + [per_kind] * (kinds - remainder)
    return _entropy_of_counts(counts)


# --- repeated questions ----------------------------------------------------------------------------------------------
# An unparsed reply is not correct, votes for no correct option, and agrees with no other reply.


def pass_at(k: int, replies: int, correct: int) -> float:
    """Return the unbiased estimate of the chance that one of `k` replies is correct.

    This is 1 - C(n - c, k) / C(n, k) (Chen et al. 2021, arXiv 2107.03374, equation 1).

    Args:
        k: Replies per attempt.
        replies: Replies that were sampled (n), at least `k`.
        correct: Correct replies among them (c).
    """
    return 1.0 - comb(replies - correct, k) / comb(replies, k)


def majority(predictions: Sequence[Prediction], answer: Answer) -> float:
    """Score a question that was asked several times by a majority vote over the replies.

    Replies without a readable option vote together for one further choice, which is wrong.

    Returns:
        1.0 if the most frequent choice is correct and 0.0 if it is wrong. If several choices are tied, the share of the
        correct ones among them.
    """
    votes = Counter(prediction.choice for prediction in predictions)
    most_votes = max(votes.values())
    leading_choices = [choice for choice, n_votes in votes.items() if n_votes == most_votes]
    n_correct = sum(choice in answer.options for choice in leading_choices)
    return n_correct / len(leading_choices)


def agreeing_pairs(predictions: Sequence[Prediction]) -> float:
    """Return, of all pairs of replies to a question, the share in which both choose the same option.

    A reply without a readable option agrees with no other reply. For the choices A, A, B it is 1/3.
    """
    votes: Counter[int] = Counter()
    for prediction in predictions:
        if prediction.choice is not None:
            votes[prediction.choice] += 1
    n_agreeing_pairs = sum(comb(n_votes, 2) for n_votes in votes.values())
    return n_agreeing_pairs / comb(len(predictions), 2)


# --- declarations ----------------------------------------------------------------------------------------------------


_REASONS_WITHOUT_ROTATIONS = {
    "likelihood": "likelihood does not show the options, so all rotations are one request",
    "": "no circular protocol in this run, or no questions that it applies to",
}
_REASONS_WITHOUT_PRESENTATIONS = {
    "": "needs several presentations of a question, e.g. instability?m=5"
}


def _accuracy_rows(name: str, title: str, absent: dict[str, str]) -> tuple[MetricRow, ...]:
    """Declare a headline and the rows next to it, which treat unsure readings and missing answers differently."""
    return (
        share_row(name, title, unparsed="wrong", absent_reasons=absent),
        share_row(
            f"{name}_of_parsed",
            f"{title} of parsed replies",
            unparsed="left out",
            undefined="no reply names an option",
            secondary_to=name,
            sliced=False,
            label="of parsed",
        ),
        share_row(
            f"{name}_lower",
            f"{title}, unsure as wrong",
            unparsed="wrong",
            secondary_to=name,
            sliced=False,
            label="at least",
        ),
        share_row(
            f"{name}_upper",
            f"{title}, unsure or unparsed as right",
            unparsed="right",
            secondary_to=name,
            sliced=False,
            label="at most",
        ),
    )


def _entropy_row(name: str, **declared: Any) -> MetricRow:
    """Declare the row of an entropy, in nats, where lower is better."""
    return metric_row(
        name,
        unit="nats",
        low=0.0,
        better="lower",
        scale="nats",
        absent_reasons=_REASONS_WITHOUT_PRESENTATIONS,
        **declared,
    )


ACCURACY = ChoiceMetric(
    description="share of the answered questions whose reply is correct; an unparsed reply counts as wrong",
    rows=_accuracy_rows("accuracy", "accuracy", {}),
)
CIRCULAR_ACCURACY = ChoiceMetric(
    description="share of the questions that are answered correctly under every rotation; an unparsed reply counts as wrong",
    rows=_accuracy_rows("circular_accuracy", "circular accuracy", _REASONS_WITHOUT_ROTATIONS),
)
CIRCULAR_DROP = ChoiceMetric(
    description="share of the questions that are answered correctly in the first rotation, but not in all",
    rows=(
        share_row(
            "circular_drop",
            better="lower",
            unparsed="wrong",
            sliced=False,
            absent_reasons=_REASONS_WITHOUT_ROTATIONS,
        ),
    ),
)
CONSISTENCY = ChoiceMetric(
    description="share of the questions for which the replies to all rotations name the same option, correct or not",
    rows=(
        share_row(
            "consistency", unparsed="wrong", sliced=False, absent_reasons=_REASONS_WITHOUT_ROTATIONS
        ),
    ),
)


def _maximum_over_options(presentations: int, options: int) -> float:
    """Return the greatest instability of a question, where unparsed replies count as one more option."""
    return greatest_instability(presentations, options + 1)


def _maximum_over_texts(presentations: int, options: int) -> float:
    """Return the greatest instability of a question as published, where each unparsed text is another choice."""
    return greatest_instability(presentations, presentations)


INSTABILITY = ChoiceMetric(
    description="entropy of the choices over presentations, in nats; unparsed replies count as one more choice",
    rows=(
        _entropy_row(
            "instability",
            unparsed="own kind",
            question_maximum=_maximum_over_options,
        ),
    ),
)
LEGACY_INSTABILITY = ChoiceMetric(
    description="as published: each text of an unparsed reply counts as a choice of its own",
    rows=(
        _entropy_row(
            "legacy_instability",
            unparsed="kinds by text",
            secondary_to="instability",
            question_maximum=_maximum_over_texts,
        ),
    ),
)
HIT_RATE = ChoiceMetric(
    description="share of the replies that name one of the labels shown",
    rows=(
        share_row(
            "hit_rate",
            "hit rate",
            unparsed="wrong",
            sliced=False,
            absent_reasons={
                "likelihood": "the hit rate is about replies, and a likelihood has no reply"
            },
        ),
    ),
)
UNSURE_RATE = ChoiceMetric(
    description="share of the replies that were read with less than 90% certainty",
    rows=(
        share_row(
            "unsure_rate",
            "unsure readings",
            better="lower",
            unparsed="counted",
            sliced=False,
            absent_reasons={"likelihood": "the likelihood method has no replies to read"},
        ),
    ),
)
UNPARSED_RATE = ChoiceMetric(
    description="share of the replies in which no option was found",
    rows=(
        share_row(
            "unparsed_rate", "unparsed rate", better="lower", unparsed="counted", sliced=False
        ),
    ),
)
TIE_RATE = ChoiceMetric(
    description="share of the presentations whose most likely options are exactly even",
    rows=(share_row("tie_rate", "tie rate", better="neither", unparsed="counted", sliced=False),),
)
CHOICE_METRICS = (
    ACCURACY,
    CIRCULAR_ACCURACY,
    CIRCULAR_DROP,
    CONSISTENCY,
    INSTABILITY,
    HIT_RATE,
    UNPARSED_RATE,
    UNSURE_RATE,
    TIE_RATE,
)
"""Metrics of every question with options, in the order of the tables."""

_REASONS_WITHOUT_REPETITIONS = {
    "": "needs the same question several times, e.g. repeat?k=5 at a temperature"
}

REPEATS = ChoiceMetric(
    description="of questions asked several times: pass@k, right by majority vote, and pairs of replies that agree",
    rows=(
        share_row(
            "pass_at_k", "pass@k", unparsed="wrong", absent_reasons=_REASONS_WITHOUT_REPETITIONS
        ),
        share_row(
            "majority_vote",
            "majority vote",
            unparsed="own kind",
            absent_reasons=_REASONS_WITHOUT_REPETITIONS,
        ),
        share_row(
            "repeat_agreement",
            "agreement of replies",
            unparsed="wrong",
            absent_reasons=_REASONS_WITHOUT_REPETITIONS,
        ),
    ),
)
