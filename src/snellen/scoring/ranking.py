"""Where the right option stands among all of a question's options, by likelihood (VisDial: among a hundred).

The rule of LVLM-eHub, which reads the file's order instead of scores, is `legacy.visdial_reciprocal_rank`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import ClassVar

from snellen.errors import DataError
from snellen.metrics.declaration import Metric, MetricInput, metric_row, share_row
from snellen.metrics.questions import HIDDEN_ANSWER, AskedQuestion, Unscored, Value, why_unanswered
from snellen.metrics.scoring_context import MetricScores, ScoringContext
from snellen.records import Answer, Score


def gold_rank(scores: Sequence[float], gold: int) -> float:
    """Return the rank of the correct option among all options, 1 for the highest score.

    Options with equal scores share the mean of their ranks. A model that scores all n options equally thus has the rank
    (n + 1) / 2, wherever the correct one is.

    Args:
        scores: The score of each option.
        gold: The index of the correct option.

    Raises:
        DataError: A score is not a number, or there is no option with this index.
    """
    _check_scores(scores)
    if not 0 <= gold < len(scores):
        raise DataError(
            f"ranking: gold {gold} but candidates are 0-{len(scores) - 1}; set answer_base in the spec"
        )
    gold_score = scores[gold]
    n_better = sum(score > gold_score for score in scores)
    n_equal = sum(score == gold_score for score in scores)  # with the correct option itself
    return n_better + (n_equal + 1) / 2


def ndcg(scores: Sequence[float], relevance: Sequence[float]) -> float:
    """Return the normalised discounted cumulative gain of a ranking, as the VisDial challenge of 2018 defines it.

    The gain is the sum of relevance / log2(rank + 1) over the first K ranks, where K is the number of options with a
    relevance above 0. It is divided by the gain of the ideal order. Options with equal scores share the mean of the
    discounts 1 / log2(rank + 1) of their ranks.

    Args:
        scores: The score of each option; the options are ranked by it, the highest first.
        relevance: The relevance of each option.

    Returns:
        A number in [0, 1].

    Raises:
        DataError: The lengths differ, a relevance is negative, or none is above 0.
    """
    _check_scores(scores)
    if len(scores) != len(relevance) or min(relevance) < 0 or max(relevance) == 0:
        raise DataError(
            f"NDCG: {len(scores)} scores but {len(relevance)} relevance values; give one value per score, none "
            "negative and at least one above 0"
        )
    n_relevant = sum(value > 0 for value in relevance)
    discounts: list[float] = []
    for index in range(len(scores)):
        is_counted = index < n_relevant
        discounts.append(1 / math.log2(index + 2) if is_counted else 0.0)

    order = sorted(range(len(scores)), key=lambda option: -scores[option])
    gain = 0.0
    start = 0
    while start < len(order):
        # From `start` to `end` are options with equal scores.
        end = start
        while end < len(order) and scores[order[end]] == scores[order[start]]:
            end += 1
        mean_discount = sum(discounts[start:end]) / (end - start)
        gain += mean_discount * sum(relevance[option] for option in order[start:end])
        start = end

    ideal_order = sorted(relevance, reverse=True)
    ideal_gains = [value * discount for value, discount in zip(ideal_order, discounts, strict=True)]
    return gain / sum(ideal_gains)


def _check_scores(scores: Sequence[float]) -> None:
    """Raise DataError if there are no scores, or if one is not a number."""
    if not scores or any(math.isnan(score) for score in scores):
        raise DataError(
            f"ranking: {len(scores)} candidate scores, or some that are not numbers; score all candidates again"
        )


# --- as a metric: the rows of all questions whose options were scored by likelihood -----------------------------------


RECALLS = (1, 5, 10)


class OptionRanking(Metric, frozen=True, kw_only=True):
    """How high the correct option is ranked: MRR, R@1, R@5, R@10 and mean rank (Das et al. 2017, 5.2).

    If several options are correct, the highest-ranked one counts. Options with equal scores share the mean of their
    ranks, so a tie for the first place is not a hit at 1. NDCG (the VisDial challenge of 2018) is added if the
    benchmark says how relevant each option is.
    """

    computed_over: ClassVar[MetricInput] = "ranks"

    def score(self, questions: Sequence[AskedQuestion], context: ScoringContext) -> MetricScores:
        """Score the questions whose options were ranked by likelihood."""
        return MetricScores(self._scores(questions))

    def _scores(self, questions: Sequence[AskedQuestion]) -> Iterator[Score]:
        """Yield the scores of multiple-choice questions whose options were scored by their likelihood; others are skipped."""
        for question in questions:
            if not question.turn.options or question.protocol.method != "likelihood":
                continue
            for row, value in self.measure(question).items():
                yield question.score(row, value, len(question.answered) or 1)

    def measure(self, question: AskedQuestion) -> dict[str, Value]:
        """Rank the options of a question by their likelihood, and measure the rank of the best correct one.

        Returns:
            For each number of the metric (such as `mrr` or `recall_at_5`), its mean over the presentations of the
            question, or the reason why there is none. `ndcg` is missing if the benchmark does not say how relevant each
            option is.
        """
        answer = question.answer or Answer(question.sample.id)
        row_names = self.names
        if not answer.relevance:
            row_names = row_names[:-1]  # the last one is `ndcg`
        if not question.answered:
            return dict.fromkeys(row_names, why_unanswered(question))
        if not answer.options:
            return dict.fromkeys(row_names, HIDDEN_ANSWER)

        ranks: list[float] = []
        try:
            for prediction in question.answered:
                ranks_of_correct = [gold_rank(prediction.scores, gold) for gold in answer.options]
                ranks.append(min(ranks_of_correct))
        except DataError as error:  # an option without a likelihood
            return dict.fromkeys(row_names, Unscored("metric undefined", str(error)))

        values: dict[str, Value] = {"mrr": _mean_of([1 / rank for rank in ranks])}
        for k in RECALLS:
            values[f"recall_at_{k}"] = _mean_of([rank <= k for rank in ranks])
        values["mean_rank"] = _mean_of(ranks)
        if answer.relevance:
            values["ndcg"] = _ndcg(question, answer.relevance)
        return values


def _ndcg(question: AskedQuestion, relevance: Sequence[float]) -> Value:
    """Return the mean NDCG (normalised discounted cumulative gain) over presentations, or why there is none."""
    try:
        values = [ndcg(prediction.scores, relevance) for prediction in question.answered]
        return _mean_of(values)
    except DataError as error:  # no option is right at all
        return Unscored("metric undefined", str(error))


def _mean_of(values: Sequence[float]) -> float:
    return sum(values) / len(values)


RANKING = OptionRanking(
    description="MRR, recall at 1, 5 and 10, and mean rank of the right option, and NDCG, by likelihood (Das et al. 2017)",
    rows=(
        metric_row(
            "mrr",
            title="MRR",
            unit="1 / rank",
            low=0.0,
            high=1.0,
            interval="proportion",
            scale="reciprocal rank",
            unparsed="left out",
        ),
        *(share_row(f"recall_at_{k}", f"recall at {k}", unparsed="left out") for k in RECALLS),
        metric_row(
            "mean_rank", unit="rank", low=1.0, better="lower", scale="rank", unparsed="left out"
        ),
        share_row(
            "ndcg",
            "NDCG",
            scale="ndcg",
            unparsed="left out",
            limit="annotators may find another option better than the right one, and the order of all of them counts",
        ),
    ),
)
