"""Metrics of questions that belong together: of one image, of one question about several images, of a pair.

Groups lie within the clusters that intervals are over (`group` of an entry; the image where it has none), so an
interval says what other clusters would have given. Within a cluster `groups` of the entry names the tag that the
members of a group have in common.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import ClassVar, Literal

from snellen.catalogue import BenchmarkSpec
from snellen.errors import DataError, MissingExtraError
from snellen.extraction.asked_reply import AskedReply
from snellen.metrics.declaration import (
    CorpusCountMetric,
    MetricInput,
    MetricRow,
    ReplyMetric,
    SummedMetric,
    find_metric,
    share_row,
)
from snellen.metrics.question_counts import Counts, QuestionCounts, tally_of
from snellen.metrics.questions import (
    HIDDEN_ANSWER,
    AskedQuestion,
    Unscored,
    why_unanswered,
)
from snellen.metrics.scoring_context import ScoringContext
from snellen.records import Prediction


class GroupedMetric(SummedMetric, frozen=True, kw_only=True):
    """A metric that is counted on groups of questions, such as all questions about one image."""

    computed_over: ClassVar[MetricInput] = "groups"

    @abstractmethod
    def tallies(
        self, questions: Sequence[AskedQuestion], context: ScoringContext
    ) -> list[QuestionCounts]:
        """Count each group of questions. The counts are stored under the first question of the group."""


class GroupAccuracy(GroupedMetric, frozen=True, kw_only=True):
    """The share of groups of questions in which every question is answered correctly.

    If the questions are presented several times, such as with the options in other orders, the share is the mean over
    the presentations.
    """

    kind: Literal["one", "cluster", "question", "image"]
    """Which questions form a group. `one`: each question by itself. Any other kind: the questions of a cluster, such as
    all questions about one image, that have the same value of the tag that the benchmark's `groups` names for this
    kind. If it names no tag, all questions of the cluster."""

    def tallies(
        self, questions: Sequence[AskedQuestion], context: ScoringContext
    ) -> list[QuestionCounts]:
        """Group the questions, such as by their image, and count for each group whether all its questions are right.

        Returns:
            One record for each group. It is stored under the first question of the group.
        """
        groups: dict[Hashable, list[AskedQuestion]] = defaultdict(list)
        for question in questions:
            groups[self._key(question, context.benchmark)].append(question)

        is_right = right_answer_rule(context.benchmark)
        tallies: list[QuestionCounts] = []
        for members in groups.values():
            rights = [rights_of(member, is_right) for member in members]
            tallies.append(tally_of(members[0], context.metric, all_right(rights)))
        return tallies

    def _key(self, question: AskedQuestion, spec: BenchmarkSpec) -> Hashable:
        """Return what all questions of a group have in common.

        For the kind `one`, each question is a group of its own. Otherwise it is the image, together with the value of a
        tag if the benchmark declares one for this kind of group.
        """
        if self.kind == "one":
            return _question_key(question)
        tag = spec.groups.get(self.kind, "")
        tag_value = question.sample.tags.get(tag, "")
        return question.sample.group, tag_value


Rights = Mapping[int, float] | Unscored
"""Whether a question is right, by the number of the presentation; or why there is none."""
Right = Callable[[AskedQuestion, Prediction], float]
"""Whether a reply to a question is right: 1 or 0. Raises DataError where the gold cannot be used."""


def _question_key(question: AskedQuestion) -> Hashable:
    return question.sample.id, question.number


def rights_of(question: AskedQuestion, right: Right) -> Rights:
    """Return whether each reply to a question is right: 1.0 or 0.0 by the number of its presentation.

    A reply that will never arrive counts as wrong. If this cannot be decided, such as for a question that was not asked
    yet or whose answer is hidden, the reason is returned (`Unscored`).
    """
    with_missing_as_wrong = question.missing_unbiased_as_wrong
    if not with_missing_as_wrong.answered_unbiased:
        return why_unanswered(with_missing_as_wrong)
    if with_missing_as_wrong.answer is None:
        return HIDDEN_ANSWER
    rights: dict[int, float] = {}
    try:
        for prediction in with_missing_as_wrong.answered_unbiased:
            rights[prediction.variant.test] = right(with_missing_as_wrong, prediction)
        return rights
    except (MissingExtraError, DataError) as error:
        return Unscored("metric undefined", str(error))


def right_answer_rule(spec: BenchmarkSpec) -> Right:
    """Return a function that decides whether a reply to a question of the benchmark is right: 1.0 or 0.0.

    A question with options is right if the chosen option is. An open question is right if the reply gets the best value
    of the benchmark's first metric that can be computed for a single reply: at least 1, or 0 if lower values are better,
    as for an error rate. A benchmark without such a metric is judged by `exact_match`.
    """
    metric = find_metric("exact_match")
    for name in spec.metrics:
        declared_metric = find_metric(name)
        if isinstance(declared_metric, (ReplyMetric, CorpusCountMetric)):
            metric = declared_metric
            break

    def right(question: AskedQuestion, prediction: Prediction) -> float:
        """Return 1.0 if a prediction is correct, else 0.0.

        It is compared by the chosen option, or for an open question by the text metric of the benchmark.
        """
        if question.turn.options:
            if question.answer is None:
                return 0.0
            return float(prediction.choice in question.answer.options)
        reply = AskedReply(prediction.text or "", question.turn.question)
        if isinstance(metric, CorpusCountMetric):
            value = _value_of_one_reply(metric, reply, question.reference_answers)
        elif isinstance(metric, ReplyMetric):
            value = metric.measure(reply, question.reference_answers)
        else:
            return 0.0
        return float(value is not None and _is_best_value(value, metric.rows[0]))

    return right


def _value_of_one_reply(
    metric: CorpusCountMetric, reply: str, reference_answers: Sequence[str]
) -> float | None:
    """Compute a metric over summed counts, such as the word error rate, for a single reply.

    Returns:
        The value of the metric's first row; None if it has no value for this reply.

    Raises:
        DataError: The metric cannot count the reply.
    """
    [counts] = metric.count([reply], [reference_answers])
    if isinstance(counts, str):
        raise DataError(counts)
    return metric.compute(counts)[0]


def _is_best_value(value: float, row: MetricRow) -> bool:
    """Return whether a value is the best one of a metric: at least 1, or at most 0 if lower values are better."""
    return value <= 0 if row.better == "lower" else value >= 1


def all_right(members: Sequence[Rights]) -> Counts | Unscored:
    """Return how often all questions of a group are right at once, as the counts of one group.

    Args:
        members: For each question of the group, what `rights_of` returns.

    Returns:
        Two counts: the share of presentations in which every question is right (of the presentations that all questions
        have), and 1.0, the number of groups. If a question has a reason instead, this reason. If no presentation has an
        answer to all questions, the reason `metric undefined`.
    """
    answered: list[Mapping[int, float]] = []
    for rights in members:
        if isinstance(rights, Unscored):
            return rights
        answered.append(rights)
    presentations = set.intersection(*[set(rights) for rights in answered])
    if not presentations:
        return Unscored(
            "metric undefined", "no presentation has an answer to all questions of its group"
        )
    are_all_right: list[float] = []
    for presentation in presentations:
        are_all_right.append(math.prod(rights[presentation] for rights in answered))
    share_of_presentations = math.fsum(are_all_right) / len(presentations)
    n_groups = 1.0
    return share_of_presentations, n_groups


def _share_of_groups(sums: Counts) -> tuple[float | None, ...]:
    n_right_groups, n_groups = sums
    return (n_right_groups / n_groups,)


def _group_accuracy(
    name: str, title: str, kind: Literal["one", "cluster", "question", "image"]
) -> GroupAccuracy:
    """Declare the share of groups in which every question is right."""
    row = share_row(name, title, interval="linearised", unparsed="wrong")
    return GroupAccuracy(
        description=title, rows=(row,), compute=_share_of_groups, per_question=(name,), kind=kind
    )


OVERALL_ACCURACY = _group_accuracy(
    "overall_accuracy", "accuracy over questions with and without options", "one"
)
GROUP_ACCURACY = _group_accuracy(
    "group_accuracy", "share of groups all of whose questions are right", "cluster"
)
SAME_QUESTION_ACCURACY = _group_accuracy(
    "same_question_accuracy", "share of questions right wherever they are asked", "question"
)
SAME_IMAGE_ACCURACY = _group_accuracy(
    "same_image_accuracy", "share of images all of whose questions are right", "image"
)
