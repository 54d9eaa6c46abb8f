"""One question about several images: the option that is likeliest on their average (LVLM-eHub, A.3)."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import Any

from snellen.formats.json_files import packaged_toml
from snellen.metrics.declaration import metric_row, share_row
from snellen.metrics.question_counts import Counts, QuestionCounts, tally_of
from snellen.metrics.questions import HIDDEN_ANSWER, AskedQuestion, Unscored, why_unanswered
from snellen.metrics.scoring_context import ScoringContext
from snellen.protocols.prediction import holds_shares
from snellen.records import Prediction
from snellen.scoring.grouped import GroupedMetric

LEAST_LOSS = 1e-9
Weighing = Callable[[Sequence[float]], Sequence[float]]
"""Log-likelihoods of the options about one image -> their weights in the average over images."""
Listing = Callable[[Sequence[str], Sequence[int]], Sequence[int]]
"""Function of the options and the indices of the correct ones, which returns the indices of the options to compare.

If several options have the same greatest weight, the first one in this order may be chosen."""


def all_options(options: Sequence[str], right: Sequence[int]) -> Sequence[int]:
    """Return the indices of all options, in the order of the question."""
    return range(len(options))


class PictureMean(GroupedMetric, frozen=True, kw_only=True):
    """Accuracy for questions that are asked about several images of the same thing, by likelihood.

    For example, "What colour is a lemon?" may be asked about ten photos of lemons. The log-likelihoods of the
    options are turned into weights for each photo, the weights are averaged over the photos, and the option with
    the greatest average is the model's answer. This is repeated for each wording of the question (a presentation).

    Its three rows of results are the accuracy averaged over presentations, the standard deviation of the accuracy
    between them (none for a single presentation), and the share of presentations in which several options have
    exactly the same, greatest weight.
    """

    weigh: Weighing
    first_of_tied: bool = False
    """Whether the first of several options with the same greatest weight is chosen. Otherwise such a tie is wrong."""
    of_shares: bool = True
    """Whether the metric can also be computed from shares (likelihood rule `softmax`). Otherwise it needs
    log-likelihoods."""
    listed: Listing = all_options
    """Which options are weighed, and in which order."""

    def tallies(
        self, questions: Sequence[AskedQuestion], context: ScoringContext
    ) -> list[QuestionCounts]:
        """Count each question that was asked by likelihood, once for all its images.

        Samples that show images of the same question have the same value of a tag, whose name is in the benchmark's
        declaration under `images`. The counts of a question are stored with the first of its samples. If a response is
        missing for one of the images, the question is marked as unscored.

        Returns:
            The counts of each question; an empty list if the benchmark declares no such tag.
        """
        tag = context.benchmark.groups.get("images")
        if not tag:
            return []
        members_by_question: dict[str, list[AskedQuestion]] = defaultdict(list)
        for question in questions:
            if _is_scored(question):
                name = question.sample.tags.get(tag, question.sample.id)
                members_by_question[name].append(question)
        tallies = []
        for members in members_by_question.values():
            counts = _count_images(self, members)
            tallies.append(tally_of(members[0], context.metric, counts))
        return tallies


def _is_scored(question: AskedQuestion) -> bool:
    return bool(question.turn.options) and question.protocol.method == "likelihood"


def softmax(values: Sequence[float]) -> list[float]:
    """Return the softmax of values, exp(v_i) / sum_j exp(v_j), which adds up to 1 (LVLM-eHub, equation 2)."""
    highest = max(values)
    weights = [math.exp(value - highest) for value in values]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def _count_images(metric: PictureMean, members: Sequence[AskedQuestion]) -> Counts | Unscored:
    """Return the counts of one question that was asked about several images.

    Args:
        metric: The metric, which says how log-likelihoods become weights, and which options are compared.
        members: The same question with each of its images.

    Returns:
        A tuple of 2 n + 1 numbers for n presentations: for each presentation 1.0 if the option with the greatest
        average weight is correct, otherwise 0.0; then n times 1.0, which add up to the number of questions; then
        the number of presentations with a tie. If the question cannot be scored, for example because its answer is
        hidden, the reason is returned instead.
    """
    first = members[0]
    if first.answer is None:
        return HIDDEN_ANSWER
    for member in members:
        if (
            member.turn.options != first.turn.options
            or member.reference_answers != first.reference_answers
        ):
            return Unscored("metric undefined", "the options or answers of its images differ")
    n_presentations = first.declaration.n_presentations(first.sample)
    compared_options = metric.listed(first.turn.options, first.answer.options)
    correct: list[float] = []
    tie_count = 0
    for presentation in range(n_presentations):
        predictions: list[Prediction] = []
        for member in members:
            prediction = _prediction_of(member, presentation)
            if prediction is None:
                return why_unanswered(member)
            predictions.append(prediction)
        has_shares = any(holds_shares(prediction) for prediction in predictions)
        if has_shares and not metric.of_shares:
            return Unscored(
                "metric undefined", "it needs log-likelihoods, not shares (--likelihood-rule mean)"
            )
        weights = _mean_weights(metric, predictions, compared_options)
        if weights is None:
            return Unscored("not a number")

        highest = max(weights)
        best_options: list[int] = []
        for option, weight in zip(compared_options, weights, strict=True):
            if weight == highest:
                best_options.append(option)
        is_tie = len(best_options) > 1
        tie_count += is_tie
        has_winner = not is_tie or metric.first_of_tied
        correct.append(float(has_winner and best_options[0] in first.answer.options))
    return (*correct, *[1.0] * n_presentations, float(tie_count))


def _prediction_of(question: AskedQuestion, presentation: int) -> Prediction | None:
    """Return what was read from the reply to one presentation of a question; None if it has no reply.

    Args:
        question: The question with one image.
        presentation: The index of the presentation.
    """
    for prediction in question.answered:
        if prediction.variant.test == presentation:
            return prediction
    return None


def _mean_weights(
    metric: PictureMean, predictions: Sequence[Prediction], shown_options: Sequence[int]
) -> list[float] | None:
    """Return the weight of each compared option, averaged over the images of a question.

    Args:
        metric: Turns the log-likelihoods of the options into weights. Scores that are shares already are taken as
            they are.
        predictions: The prediction for each image, with a score for each option.
        shown_options: Indices of the options that are compared, in the order of the result.

    Returns:
        One weight for each of these options; None if a prediction has no scores, or one that is not finite.
    """
    weights_by_image: list[Sequence[float]] = []
    for prediction in predictions:
        if not prediction.scores or not all(math.isfinite(score) for score in prediction.scores):
            return None
        scores = [prediction.scores[option] for option in shown_options]
        if holds_shares(prediction):
            weights_by_image.append(scores)
        else:
            weights_by_image.append(metric.weigh(scores))
    means: list[float] = []
    for weights_of_option in zip(*weights_by_image, strict=True):
        means.append(math.fsum(weights_of_option) / len(predictions))
    return means


def rows_over_images(sums: Counts) -> tuple[float | None, ...]:
    """Turn the summed counts of all questions (see `_count_images`) into the three results of the metric.

    Args:
        sums: 2 n + 1 numbers for n presentations: the number of correct questions in each presentation, the number
            of questions in each presentation, and the number of ties in all of them.

    Returns:
        The accuracy averaged over presentations, its standard deviation between presentations (None for a single
        one), and the share of ties.
    """
    n_presentations = (len(sums) - 1) // 2
    correct_counts = sums[:n_presentations]
    question_counts = sums[n_presentations:-1]
    tie_count = sums[-1]
    accuracies: list[float] = []
    for n_correct, n_questions in zip(correct_counts, question_counts, strict=True):
        accuracies.append(n_correct / n_questions)
    deviation = statistics.stdev(accuracies) if n_presentations > 1 else None
    return statistics.fmean(accuracies), deviation, tie_count / math.fsum(question_counts)


def picture_mean(
    weigh: Weighing, description: str, name_prefix: str = "", **rules: Any
) -> PictureMean:
    """Declare a metric of this kind.

    Its rows of results are called `picture_mean_accuracy`, `picture_mean_std` and `picture_mean_tie_rate`, each
    with the prefix in front.
    """
    title = name_prefix.replace("_", " ")
    rows = (
        share_row(
            f"{name_prefix}picture_mean_accuracy",
            f"{title}accuracy over images",
            interval="linearised",
            unparsed="wrong",
        ),
        metric_row(
            f"{name_prefix}picture_mean_std",
            unit="share",
            title=f"{title}standard deviation over prefixes",
            better="lower",
            scale="",
            interval="linearised",
            unparsed="wrong",
        ),
        share_row(
            f"{name_prefix}picture_mean_tie_rate",
            f"{title}tie rate over images",
            interval="linearised",
            better="neither",
            scale="",
            unparsed="counted",
        ),
    )
    per_question = (rows[0].name, rows[2].name)
    return PictureMean(
        description=description,
        rows=rows,
        compute=rows_over_images,
        per_question=per_question,
        weigh=weigh,
        **rules,
    )


PICTURE_MEAN = picture_mean(
    softmax,
    "accuracy of the option with the greatest mean share over a question's images (arXiv 2306.09265, A.3)",
)


# --- as published ---------------------------------------------------------------------------------------------------


def inverse_losses(scores: Sequence[float]) -> list[float]:
    """Turn log-likelihoods per token into weights that add up to 1: the softmax of 1 / loss (LVLM-eHub, ImageNetVC).

    The loss is minus the log-likelihood. An image for which the model is very sure outweighs the others. The
    original scored only the first token of each option; here all tokens count.
    """
    return softmax([1 / max(-score, LEAST_LOSS) for score in scores])


def published_candidates(options: Sequence[str], right: Sequence[int]) -> Sequence[int]:
    """Return the options that the original ImageNetVC code compares, in its own order.

    The order matters for ties: the original uses numpy's arg max, which takes the first of the options with the
    greatest weight. For the subset `others`, the original compares only options of the same kind as the correct
    answer, such as numbers.

    Args:
        options: The texts of the options.
        right: The indices of the correct ones.

    Returns:
        Indices of options in the order of the published list that contains a correct option. If the options do not
        include a whole published list, all indices in the order of the question.
    """
    index_of_option = {option: index for index, option in enumerate(options)}
    correct_options = [options[index] for index in right]
    for published_list in _published_candidates():
        has_whole_list = all(option in index_of_option for option in published_list)
        has_correct_option = any(option in published_list for option in correct_options)
        if has_whole_list and has_correct_option:
            return [index_of_option[option] for option in published_list]
    return all_options(options, right)


@cache
def _published_candidates() -> Collection[Sequence[str]]:
    candidates = packaged_toml(
        "snellen.suites.lvlm_ehub", "imagenetvc_candidates.toml", dict[str, tuple[str, ...]]
    )
    return candidates.values()


LEGACY_PICTURE_MEAN = picture_mean(
    inverse_losses,
    "the same as published: softmax of 1 / loss averaged over images, the first of tied candidates in the published "
    "lists chosen",
    "legacy_",
    first_of_tied=True,
    of_shares=False,
    listed=published_candidates,
)
