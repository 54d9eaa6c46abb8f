"""Metrics of questions that belong together: of one picture, of one question about several pictures, of a pair.

Groups lie within the clusters that intervals are over (`group` of an entry; the picture where it has none), so an
interval says what other clusters would have given. Within a cluster `groups` of the entry names the tag that the
members of a group have in common.
"""

from __future__ import annotations

import math
import statistics
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, ClassVar, Literal

from snellen.catalogue import BenchmarkSpec
from snellen.errors import DataError, MissingExtraError
from snellen.metrics.declaration import (
    CorpusCountMetric,
    Counts,
    MetricInput,
    ReplyMetric,
    SummedMetric,
    find_metric,
    metric_row,
    share,
)
from snellen.protocols.prediction import holds_shares
from snellen.records import Prediction
from snellen.scoring.questions import HIDDEN_ANSWER, AskedQuestion, QuestionCounts, Unscored, tally_of, why_unanswered


class GroupedMetric(SummedMetric, frozen=True, kw_only=True):
    """A metric that counts groups of questions."""

    computed_over: ClassVar[MetricInput] = "groups"

    @abstractmethod
    def tallies(self, questions: Sequence[AskedQuestion], name: str, spec: BenchmarkSpec) -> list[QuestionCounts]:
        """One for each group, or why it has none; it stands under the first question of the group."""


class GroupAccuracy(GroupedMetric, frozen=True, kw_only=True):
    """The share of groups all of whose questions are right; in several presentations, the mean over these."""

    kind: Literal["one", "cluster", "question", "image"]
    """`one`: each question by itself; `cluster`: all of a cluster; else those that share the tag in the entry's
    `groups`, all of the cluster where it names none."""

    def tallies(self, questions: Sequence[AskedQuestion], name: str, spec: BenchmarkSpec) -> list[QuestionCounts]:
        right = right_answer_rule(spec)
        groups: dict[Hashable, list[AskedQuestion]] = defaultdict(list)
        for question in questions:
            groups[self._key(question, spec)].append(question)
        return [
            tally_of(members[0], name, all_right([rights_of(member, right) for member in members]))
            for members in groups.values()
        ]

    def _key(self, question: AskedQuestion, spec: BenchmarkSpec) -> Hashable:
        if self.kind == "one":
            return _id(question)
        tag = spec.groups.get(self.kind, "")
        return question.sample.group, question.sample.tags.get(tag, "")


Rights = Mapping[int, float] | Unscored
"""Whether a question is right, by the number of the presentation; or why there is none."""
Right = Callable[[AskedQuestion, Prediction], float]
"""Whether a reply to a question is right: 1 or 0. Raises DataError where the gold cannot be used."""


def _id(question: AskedQuestion) -> Hashable:
    return question.sample.id, question.number


def rights_of(question: AskedQuestion, right: Right) -> Rights:
    """Whether a question is right in each presentation; an answer that never will come is not."""
    counted = question.counted_unbiased
    if not counted.unbiased:
        return why_unanswered(counted)
    if counted.answer is None:
        return HIDDEN_ANSWER
    try:
        return {prediction.variant.test: right(counted, prediction) for prediction in counted.unbiased}
    except (MissingExtraError, DataError) as error:
        return Unscored("metric undefined", str(error))


def right_answer_rule(spec: BenchmarkSpec) -> Right:
    """When a reply is right: with options by its choice; else by the benchmark's own metric, which has to be 1.

    That is the first of the entry's metrics that is computed over a reply.
    """
    metric = next(
        (metric for metric in map(find_metric, spec.metrics) if isinstance(metric, (ReplyMetric, CorpusCountMetric))),
        find_metric("exact_match"),
    )

    def right(question: AskedQuestion, prediction: Prediction) -> float:
        if question.turn.options:
            return float(question.answer is not None and prediction.choice in question.answer.options)
        reply = prediction.text or ""
        if isinstance(metric, CorpusCountMetric):
            return _counted_right(metric, reply, question.golds)
        return float(isinstance(metric, ReplyMetric) and metric.measure(reply, question.golds) >= 1)

    return right


def _counted_right(metric: CorpusCountMetric, reply: str, golds: Sequence[str]) -> float:
    [counts] = metric.count([reply], [golds])
    if isinstance(counts, str):
        raise DataError(counts)
    value = metric.compute(counts)[0]
    return float(value is not None and value >= 1)


def all_right(members: Sequence[Rights]) -> Counts | Unscored:
    """Whether all members are right, mean over presentations, and 1; why not where one member has no value.

    Presentations count in which all members were answered.
    """
    answered: list[Mapping[int, float]] = []
    for rights in members:
        if isinstance(rights, Unscored):
            return rights
        answered.append(rights)
    tests = set.intersection(*map(set, answered))
    if not tests:
        return Unscored("metric undefined", "no presentation has an answer to all questions of its group")
    return math.fsum(math.prod(rights[test] for rights in answered) for test in tests) / len(tests), 1.0


def _share_of_groups(sums: Counts) -> tuple[float | None, ...]:
    right, groups = sums
    return (right / groups,)


def _group_accuracy(name: str, title: str, kind: Literal["one", "cluster", "question", "image"]) -> GroupAccuracy:
    row = share(name, title, interval="linearised", unparsed="wrong")
    return GroupAccuracy(what=title, rows=(row,), compute=_share_of_groups, per_question=(name,), kind=kind)


OVERALL_ACCURACY = _group_accuracy("overall_accuracy", "accuracy over questions with and without options", "one")
GROUP_ACCURACY = _group_accuracy("group_accuracy", "share of groups all of whose questions are right", "cluster")
SAME_QUESTION_ACCURACY = _group_accuracy(
    "same_question_accuracy", "share of questions right wherever they are asked", "question"
)
SAME_IMAGE_ACCURACY = _group_accuracy(
    "same_image_accuracy", "share of pictures all of whose questions are right", "image"
)


# --- one question about several pictures: the option that is likeliest on their average (LVLM-eHub, A.3) --------------


Weighing = Callable[[Sequence[float]], Sequence[float]]
"""Log-likelihoods of the options about one picture -> their weights in the average over pictures."""
Listing = Callable[[Sequence[str], Sequence[int]], Sequence[int]]
"""Options and the places of the right ones -> the places of those that are weighed, the first of tied ones first."""


def all_options(options: Sequence[str], right: Sequence[int]) -> Sequence[int]:
    """Those of the question, in its own order."""
    return range(len(options))


class PictureMean(GroupedMetric, frozen=True, kw_only=True):
    """Accuracy of the option with the greatest weight on average over a question's pictures, in each presentation.

    Its rows: the mean over presentations (prefixes) of the accuracy, its sample standard deviation over them
    (none for one), and the share of presentations in which several options are exactly the most likely.
    """

    weigh: Weighing
    first_of_tied: bool = False
    """Whether the first of tied options is chosen; otherwise a tie is not right."""
    of_shares: bool = True
    """Whether it can be told from shares (the rule `softmax`) and not only from log-likelihoods."""
    listed: Listing = all_options
    """Which options are weighed, and in which order."""

    def tallies(self, questions: Sequence[AskedQuestion], name: str, spec: BenchmarkSpec) -> list[QuestionCounts]:
        """One for each question that a protocol of likelihoods asks; it stands under the sample of its first picture.

        Nothing where the entry names no tag. A question of which a picture was not answered is not counted, and says
        why.
        """
        by_question: dict[str, list[AskedQuestion]] = defaultdict(list)
        for question in questions:
            if (tag := spec.groups.get("pictures")) and _is_scored(question):
                by_question[question.sample.tags.get(tag, question.sample.id)].append(question)
        return [tally_of(members[0], name, _count_pictures(self, members)) for members in by_question.values()]


def _is_scored(question: AskedQuestion) -> bool:
    return bool(question.turn.options) and question.protocol.method == "likelihood"


def softmax(values: Sequence[float]) -> list[float]:
    """exp(s_i) / sum_j exp(s_j) (LVLM-eHub, equation 2)."""
    best = max(values)
    weights = [math.exp(value - best) for value in values]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def _count_pictures(metric: PictureMean, members: Sequence[AskedQuestion]) -> Counts | Unscored:
    """Right in each presentation, one for each presentation, and how many were ties."""
    first = members[0]
    if first.answer is None:
        return HIDDEN_ANSWER
    if any((m.turn.options, m.golds) != (first.turn.options, first.golds) for m in members):
        return Unscored("metric undefined", "the options or answers of its pictures differ")
    presentations = first.declaration.n_presentations(first.sample)
    places = metric.listed(first.turn.options, first.answer.options)
    right, ties = [], 0
    for test in range(presentations):
        tests = [next((p for p in m.came if p.variant.test == test), None) for m in members]
        answered = [prediction for prediction in tests if prediction is not None]
        if len(answered) < len(tests):
            return why_unanswered(members[tests.index(None)])
        if not metric.of_shares and any(map(holds_shares, answered)):
            return Unscored("metric undefined", "it needs log-likelihoods, not shares (--likelihood-rule mean)")
        means = _mean_weights(metric, answered, places)
        if means is None:
            return Unscored("not a number")
        best = [place for place, value in zip(places, means, strict=True) if value == max(means)]
        ties += len(best) > 1
        right.append(float(best[0] in first.answer.options and (len(best) == 1 or metric.first_of_tied)))
    return (*right, *[1.0] * presentations, float(ties))


def _mean_weights(metric: PictureMean, pictures: Sequence[Prediction], places: Sequence[int]) -> list[float] | None:
    """The weights of the options there, averaged over pictures; None where a score is missing or not a number."""
    if not all(p.scores and all(map(math.isfinite, p.scores)) for p in pictures):
        return None
    scores = [[p.scores[place] for place in places] for p in pictures]
    weights = [s if holds_shares(p) else metric.weigh(s) for p, s in zip(pictures, scores, strict=True)]
    return [math.fsum(column) / len(weights) for column in zip(*weights, strict=True)]


def rows_over_pictures(sums: Counts) -> tuple[float | None, ...]:
    """The rows of a `PictureMean` from its summed counts."""
    presentations = (len(sums) - 1) // 2
    right, totals, ties = sums[:presentations], sums[presentations:-1], sums[-1]
    shares = [count / total for count, total in zip(right, totals, strict=True)]
    spread = statistics.stdev(shares) if presentations > 1 else None
    return statistics.fmean(shares), spread, ties / math.fsum(totals)


def picture_mean(weigh: Weighing, description: str, name_prefix: str = "", **rules: Any) -> PictureMean:
    """Declare one, with rows `picture_mean_accuracy`, `picture_mean_std` and `picture_mean_tie_rate` after a prefix."""
    title = name_prefix.replace("_", " ")
    rows = (
        share(
            f"{name_prefix}picture_mean_accuracy", f"{title}accuracy over pictures", interval="linearised",
            unparsed="wrong",
        ),
        metric_row(
            f"{name_prefix}picture_mean_std", unit="share", title=f"{title}standard deviation over prefixes",
            better="lower", scale="", interval="linearised", unparsed="wrong",
        ),
        share(
            f"{name_prefix}picture_mean_tie_rate", f"{title}tie rate over pictures", interval="linearised",
            better="neither", scale="", unparsed="counted",
        ),
    )  # fmt: skip
    per_question = (rows[0].name, rows[2].name)
    return PictureMean(
        what=description, rows=rows, compute=rows_over_pictures, per_question=per_question, weigh=weigh, **rules
    )


PICTURE_MEAN = picture_mean(
    softmax, "accuracy of the option with the greatest mean share over a question's pictures (arXiv 2306.09265, A.3)"
)
