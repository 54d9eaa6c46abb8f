"""Headlines that cover a whole benchmark: questions with options and open ones together, and means that papers print.

`question_score` gives each question the score of its kind: accuracy if it has options, else the first metric of open
questions. `published_mean` weighs such scores as an entry declares: every value of a tag alike (`mean_over`, the 14
tasks of BLINK), or the mean of several rows (`mean_of`, HallusionBench's aAcc, qAcc and fAcc).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from snellen.catalogue import BenchmarkSpec
from snellen.metrics.declaration import (
    DEFAULT_TEXT_METRICS,
    SHARE,
    Metric,
    SummedMetric,
    declared_row,
    find_metric,
    share_row,
)
from snellen.metrics.question_counts import Counts, QuestionCounts
from snellen.records import Sample, Score

QUESTION_SCORE = "question_score"
QUESTION_SCORE_METRIC = Metric(
    description="mean over all questions: accuracy where there are options, else the first metric of open questions",
    rows=(share_row(QUESTION_SCORE, "score over all questions", unparsed="wrong"),),
)
PUBLISHED_MEAN = "published_mean"
_SUMS_PER_PART = 3
"""Number of sums for each part of a published mean: of its scores, of its questions, and of its weight, which is added
once for each question."""


def _mean_of_parts(sums: Counts) -> tuple[float | None, ...]:
    """Return the weighted mean over parts of a benchmark of the mean score of each part.

    Args:
        sums: For each part three numbers: the sum of its scores, the number of its questions, and that number times the
            weight of the part. Parts without a question are left out.
    """
    weighted_total = 0.0
    total_weight = 0.0
    for start in range(0, len(sums), _SUMS_PER_PART):
        score_sum, n_questions, weighted_count = sums[start : start + _SUMS_PER_PART]
        if n_questions:
            weight = weighted_count / n_questions
            weighted_total += weight * score_sum / n_questions
            total_weight += weight
    if not total_weight:
        return (None,)
    return (weighted_total / total_weight,)


PUBLISHED_MEAN_METRIC = SummedMetric(
    description="the mean that the paper of a benchmark prints: over parts of it, or over several of its numbers",
    rows=(
        share_row(
            PUBLISHED_MEAN,
            "published mean",
            interval="linearised",
            unparsed="wrong",
            undefined="no part of the mean has a value",
        ),
    ),
    compute=_mean_of_parts,
)


class HeadlineRule(Struct, frozen=True):
    """How the headline of a benchmark (the one number for it) is computed from the scores of its questions."""

    spec: BenchmarkSpec
    is_mixed: bool
    """Whether some questions have options and others are open."""
    parts: Mapping[str, float]
    """The weight of each value of the tag `mean_over`, or of each row of `mean_of`."""

    @property
    def rows(self) -> frozenset[str]:
        """Names of the metrics whose scores the published mean is computed from."""
        needed_rows = set(self.spec.mean_of)
        if self.is_mixed or self.spec.mean_over:
            needed_rows |= {"accuracy", _text_row(self.spec)}
        return frozenset(needed_rows)


def headline_rule(spec: BenchmarkSpec, samples: Iterable[Sample]) -> HeadlineRule:
    """Determine how the headline number of a benchmark is computed as a mean over parts of its questions.

    A part is all samples with the same value of a tag (`mean_over`). Parts usually have equal weight; values that begin
    with the same prefix in `counted_together` share the weight of one part.
    """
    kinds_of_question: set[bool] = set()  # True for questions with options, False for open ones
    tag_values: set[str] = set()
    for sample in samples:
        kinds_of_question.update(bool(turn.options) for turn in sample.rounds)
        if spec.mean_over:
            tag_values.add(sample.tags.get(spec.mean_over, ""))
    text_row = declared_row(_text_row(spec))
    has_both_kinds = len(kinds_of_question) == 2
    is_mixed = has_both_kinds and text_row.scale == SHARE and text_row.better == "higher"
    if spec.mean_of:
        return HeadlineRule(spec, is_mixed, dict.fromkeys(spec.mean_of, 1.0))

    values_by_part: dict[str, list[str]] = defaultdict(list)
    for value in sorted(tag_values):
        part = value
        for prefix in spec.counted_together:
            if value.startswith(prefix):
                part = prefix
                break
        values_by_part[part].append(value)
    weights: dict[str, float] = {}
    for values in values_by_part.values():
        for value in values:
            weights[value] = 1 / len(values)
    return HeadlineRule(spec, is_mixed, weights)


def _text_row(spec: BenchmarkSpec) -> str:
    """Return the name of the first row of the metric that scores open questions of a benchmark."""
    metrics = spec.metrics or DEFAULT_TEXT_METRICS
    first_metric = find_metric(metrics[0])
    return first_metric.names[0]


class HeadlineScores:
    """Collects the scores of one protocol from which the headline of a benchmark is computed."""

    def __init__(self, rule: HeadlineRule) -> None:
        self._rule = rule
        self._text_row = _text_row(rule.spec)
        self._scores: dict[tuple[str, int], dict[str, Score]] = defaultdict(dict)

    def watch(self, scores: Iterable[Score]) -> Iterator[Score]:
        """Yield scores unchanged, and remember those that the published mean is computed from."""
        needed_rows = self._rule.rows
        for score in scores:
            if score.metric in needed_rows:
                self._scores[score.sample_id, score.turn][score.metric] = score
            yield score

    def question_scores(self) -> Iterator[Score]:
        """Yield one score for each question, if the benchmark has both questions with options and open questions.

        It is the accuracy of a question with options, and the first text metric of an open one. Nothing is yielded for
        any other benchmark.
        """
        if not self._rule.is_mixed:
            return
        for by_row in self._scores.values():
            score = self._score_of_kind(by_row)
            if score is not None:
                yield replace(score, metric=QUESTION_SCORE)

    def tallies(self, samples: Mapping[str, Sample]) -> list[QuestionCounts]:
        """Return what each question adds to the published mean; empty if the benchmark declares no such mean."""
        spec = self._rule.spec
        tallies: list[QuestionCounts] = []
        for score_by_row in self._scores.values():
            if spec.mean_of:
                score_by_part = {
                    row: score_by_row[row] for row in spec.mean_of if row in score_by_row
                }
            elif spec.mean_over:
                score = self._score_of_kind(score_by_row)
                if score is None:
                    continue
                part_name = samples[score.sample_id].tags.get(spec.mean_over, "")
                score_by_part = {part_name: score}
            else:
                return []
            if score_by_part:
                tallies.append(self._tally(score_by_part))
        return tallies

    def _score_of_kind(self, by_row: Mapping[str, Score]) -> Score | None:
        """Return the accuracy of a question with options, else its score by the first metric of open ones."""
        return by_row.get("accuracy") or by_row.get(self._text_row)

    def _tally(self, by_part: Mapping[str, Score]) -> QuestionCounts:
        """Return what one question adds to the sums of each part of a published mean (see `_mean_of_parts`).

        Args:
            by_part: The score of the question, under the names of the parts that it belongs to.
        """
        counts: list[float] = []
        for part_name, weight in self._rule.parts.items():
            score = by_part.get(part_name)
            if score is None or score.value is None:
                counts += [0.0] * _SUMS_PER_PART
            else:
                counts += [score.value, 1.0, weight]
        first: Score = next(iter(by_part.values()))
        has_value = any(score.value is not None for score in by_part.values())
        return QuestionCounts(
            protocol=first.protocol,
            method=first.method,
            benchmark=first.benchmark,
            sample_id=first.sample_id,
            turn=first.turn,
            metric=PUBLISHED_MEAN,
            counts=tuple(counts) if has_value else (),
            reason=first.reason,
            detail=first.detail,
        )


def published_chance(rule: HeadlineRule, samples: Iterable[Sample]) -> float | None:
    """Return the expected value of a published mean over parts of a benchmark if a model only guesses.

    A guess is correct with probability 1 / (number of options), and never at an open question.

    Returns:
        The value; None if no question has options, or if the mean is over metrics and not over parts.
    """
    if not rule.spec.mean_over:
        return None
    chances_by_part: dict[str, list[float]] = defaultdict(list)
    has_options = False
    for sample in samples:
        part_name = sample.tags.get(rule.spec.mean_over, "")
        for turn in sample.rounds:
            if turn.options:
                has_options = True
            chance = 1 / len(turn.options) if turn.options else 0.0
            chances_by_part[part_name].append(chance)
    if not has_options:
        return None

    counts: list[float] = []
    for part_name, weight in rule.parts.items():
        chances = chances_by_part.get(part_name, [])
        counts += [sum(chances), float(len(chances)), weight * len(chances)]
    return _mean_of_parts(tuple(counts))[0]
