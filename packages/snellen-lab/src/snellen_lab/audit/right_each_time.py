"""Correct a metric by which a question is right only if it is each time it is asked (CircularEval).

A model is not asked further after its first wrong reply to a question. If that reply was in fact
right and only misread, later replies are missing that would have decided. The probability that
these would have been right is estimated like a survival curve.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence

from msgspec import Struct

MAX_GIVEN_UP = 0.05
"""Share of questions that may depend on a pass with fewer than `MIN_CONTINUED` labelled replies."""
MIN_CONTINUED = 5


class LabelledQuestion(Struct, frozen=True, gc=False):
    """A question that must be answered correctly each time, with the labels of its replies."""

    cell: Hashable
    weight: float
    """How many questions it represents."""
    right: Sequence[bool]
    """Whether each reply is right by its label. None was requested after the first that was not read as right."""
    promised: int
    """Number of replies for the question to count as right."""


def right_each_time(
    labelled: Sequence[LabelledQuestion], sizes: Mapping[Hashable, int]
) -> list[float] | None:
    """Return a corrected value for each labelled question.

    The weighted mean of the values is the corrected share of right questions. A question has the
    value 1 if all replies that the protocol asks for are right, and 0 if one is wrong. If asking
    ended early although all replies so far are right (because one was misread), the value is the
    probability that the missing replies would have been right, too. This probability is the product
    of the shares of right replies in the missing passes, among the labelled questions that reached
    them (Kaplan and Meier 1958). It holds if misreading does not depend on the missing replies.
    Each value also includes the question's influence on these shares. The influences sum to 0, and
    give the values the spread of the corrected number (Greenwood).

    Args:
        labelled: The labelled questions.
        sizes: Number of questions in each cell, labelled or not.

    Returns:
        A value for each question. None if asking ended early for more than `MAX_GIVEN_UP` of the
        questions, before a pass that fewer than `MIN_CONTINUED` labelled questions reached.
    """
    # Weights by which the labelled questions of a cell stand for all of its questions.
    labelled_weights: dict[Hashable, float] = defaultdict(float)
    for question in labelled:
        labelled_weights[question.cell] += question.weight
    weights = []
    for question in labelled:
        weights.append(question.weight * sizes[question.cell] / labelled_weights[question.cell])

    # The share of right replies in each pass, among the questions that reached it.
    n_passes = max((question.promised for question in labelled), default=0)
    n_reached = [0] * n_passes
    reached_weight = [0.0] * n_passes
    right_weight = [0.0] * n_passes
    for question, weight in zip(labelled, weights, strict=True):
        for index in _reached_passes(question):
            n_reached[index] += 1
            reached_weight[index] += weight
            right_weight[index] += weight * question.right[index]
    shares_right = []
    for right, reached in zip(right_weight, reached_weight, strict=True):
        shares_right.append(right / reached if reached else 1.0)

    # Questions whose value would rest on a pass that too few labelled questions reached.
    unreliable_weights = []
    for question, weight in zip(labelled, weights, strict=True):
        reached_in_missing_passes = n_reached[len(question.right) : question.promised]
        fewest_reached = min(reached_in_missing_passes, default=MIN_CONTINUED)
        if all(question.right) and fewest_reached < MIN_CONTINUED:
            unreliable_weights.append(weight)
    if math.fsum(unreliable_weights) > MAX_GIVEN_UP * math.fsum(weights):
        return None

    values = []
    # Derivative of the weighted sum of values with respect to the share right in each pass.
    slopes = [0.0] * n_passes
    for question, weight in zip(labelled, weights, strict=True):
        missing_passes = range(len(question.right), question.promised)
        value = 0.0
        if all(question.right):
            value = math.prod(shares_right[index] for index in missing_passes)
        values.append(value)
        if value:
            for index in missing_passes:
                slopes[index] += weight * value / shares_right[index]

    # To each value, the influence of the question on the shares is added.
    corrected = []
    for value, question in zip(values, labelled, strict=True):
        influences = []
        for index in _reached_passes(question):
            deviation = question.right[index] - shares_right[index]
            influences.append(slopes[index] / reached_weight[index] * deviation)
        corrected.append(value + math.fsum(influences))
    return corrected


def _reached_passes(question: LabelledQuestion) -> range:
    """Return the indexes of the replies up to and including the first wrong one."""
    for index, is_right in enumerate(question.right):
        if not is_right:
            return range(index + 1)
    return range(len(question.right))
