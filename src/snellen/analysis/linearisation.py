"""Numbers that follow from sums over all questions, with intervals from how each picture or dialogue moves them.

They are no means over questions (BLEU, F1, the trend over the rounds of a dialogue), but smooth functions of sums,
so near the value found they change as a sum of deviations does, whose standard error is known (Taylor linearisation).
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from operator import mul

from msgspec.structs import replace

from snellen.analysis.statistics import NO_BOUNDS, UNIT_INTERVAL, Bounds, group_spread, interval_of
from snellen.metrics.corpus import Counts, corpus_count_metric
from snellen.metrics.declaration import Metric, metric_row, share
from snellen.metrics.dialogue import round_trend
from snellen.records import Estimate, Sample, Score
from snellen.scoring.corpus_counts import QuestionCounts
from snellen.scoring.scored_run import ScoredBenchmark

STEP = 1e-4
"""Of central differences, relative to the sum."""
ROUND_TREND = Metric(
    what="of dialogues: correlation and slope of accuracy against the number of the round (arXiv 2310.02569, A.8)",
    rows=(
        metric_row("round_correlation", unit="r", low=-1.0, high=1.0, better="neither", interval="linearised"),
        metric_row("round_slope", unit="share per round", low=-1.0, high=1.0, better="neither", interval="linearised"),
    ),
)
FIELD_MACRO = Metric(
    what="mean over a document's fields of each field's own exact match, so that a rare field counts alike",
    rows=(share("field_exact_match_macro", "field exact match, mean of fields", interval="linearised"),),
)
TREND_BOUNDS = (-1.0, 1.0)
FEWEST_ROUNDS = 3
FIELD_TAG = "key"
Of = Callable[[Counts], Sequence[float | None]]


def corpus_estimates(scored: ScoredBenchmark, tallied: Sequence[QuestionCounts]) -> dict[str, Estimate]:
    """Each row of one metric over the questions tallied."""
    first = tallied[0]
    pooled = corpus_count_metric(first.metric)
    known = [one for one in tallied if one.counts]
    errors = sum(one.never_answered for one in tallied)
    counts = [one.counts for one in known]
    groups = [scored.samples[one.sample_id].group for one in known]
    estimates = linearised(counts, groups, pooled.of, len(pooled.rows))
    lost = len(tallied) - len(known) - errors
    return {row: _counted(one, len(known), lost, errors) for row, one in zip(pooled.names, estimates, strict=True)}


def trend_estimates(scored: ScoredBenchmark, scores: Sequence[Score]) -> dict[str, Estimate]:
    """Correlation and slope of accuracy against the number of the round; empty below three rounds.

    `scores` are the accuracies of all rounds. Rounds weigh alike, as ReForm-Eval has it (A.8, Table 21); dialogues
    are what is independent.
    """
    rounds = max((score.turn for score in scores), default=-1) + 1
    if rounds < FEWEST_ROUNDS:
        return {}
    known = [score for score in scores if score.value is not None]
    by_dialogue: dict[str, list[float]] = defaultdict(lambda: [0.0] * (2 * rounds))
    for score in known:
        by_dialogue[score.sample_id][score.turn] += score.value or 0.0
        by_dialogue[score.sample_id][rounds + score.turn] += 1

    def of(sums: Counts) -> tuple[float | None, float | None]:
        if not all(sums[rounds:]):
            return None, None  # a round that no dialogue has reached
        trend = round_trend([right / n for right, n in zip(sums[:rounds], sums[rounds:], strict=True)])
        return trend.correlation, trend.slope

    groups = [scored.samples[name].group for name in by_dialogue]
    estimates = linearised(
        [tuple(one) for one in by_dialogue.values()], groups, of, len(ROUND_TREND.names), TREND_BOUNDS
    )
    errors = sum(score.never_answered for score in scores)
    lost = len(scores) - len(known) - errors
    return {row: _counted(one, len(known), lost, errors) for row, one in zip(ROUND_TREND.names, estimates, strict=True)}


def field_of(sample: Sample) -> str:
    """What a question about a document asks for: its tag `key`, or the question itself."""
    return sample.tags.get(FIELD_TAG) or sample.question


def macro_estimate(scored: ScoredBenchmark, scores: Sequence[Score]) -> Estimate:
    """Mean over fields of each field's own mean, so that a rare field counts as much as a common one.

    A field that has no scored question is left out.
    """
    known = [score for score in scores if score.value is not None]
    fields = {field: i for i, field in enumerate(sorted({field_of(scored.samples[s.sample_id]) for s in known}))}
    by_document: dict[str, list[float]] = defaultdict(lambda: [0.0] * (2 * len(fields)))
    for score in known:
        sample = scored.samples[score.sample_id]
        counts, place = by_document[sample.group], fields[field_of(sample)]
        counts[place] += score.value or 0.0
        counts[len(fields) + place] += 1

    def of(sums: Counts) -> tuple[float]:
        means = [right / n for right, n in zip(sums[: len(fields)], sums[len(fields) :], strict=True) if n]
        return (statistics.fmean(means),)

    [one] = linearised([tuple(counts) for counts in by_document.values()], list(by_document), of, 1)
    errors = sum(score.never_answered for score in scores)
    return _counted(one, len(known), len(scores) - len(known) - errors, errors)


def _counted(one: Estimate, n: int, unscored: int, errors: int) -> Estimate:
    return replace(one, n=n, unscored=unscored, errors=errors)


def linearised(
    counts: Sequence[Counts], groups: Sequence[Hashable], of: Of, rows: int, bounds: Bounds = UNIT_INTERVAL
) -> list[Estimate]:
    """A value for each row with its 95 % interval, from a sum of deviations (Woodruff 1971; Binder 1983, section 4).

    A question deviates by sum_j dvalue/dsum_j count_j, the first-order change of the value when it is counted once
    more. These deviations go the way of a mean's: by group, with Student's t, within the bounds. No interval for one
    group, nor where the value is undefined nearby; one out of the bounds is taken to have none.
    """
    if not counts:
        return [Estimate(None, None, None, None, 0)] * rows
    sums = _summed(counts)
    values = of(sums)
    gradients = _gradients(of, sums, rows)
    return [
        _estimate(value, gradient, counts, groups, bounds) for value, gradient in zip(values, gradients, strict=True)
    ]


def _estimate(
    value: float | None,
    gradient: Sequence[float] | None,
    counts: Sequence[Counts],
    groups: Sequence[Hashable],
    bounds: Bounds,
) -> Estimate:
    n = len(counts)
    if value is None or gradient is None:
        return Estimate(value, None, None, None, n, groups=len(set(groups)))
    shifts = [sum(map(mul, gradient, one)) for one in counts]
    middle = math.fsum(shifts) / n
    spread = group_spread([shift - middle for shift in shifts], groups)
    low, high = interval_of(value, spread, bounds if bounds[0] <= value <= bounds[1] else NO_BOUNDS)
    return Estimate(value, spread.error if spread.groups > 1 else None, low, high, n, groups=spread.groups)


def _gradients(of: Of, sums: Counts, rows: int) -> list[list[float] | None]:
    """dvalue/dsum_j for each row, by central differences; None where a value near by is not defined.

    A sum of zero is one of counts that are all zero, so its derivative matters to no question.
    """
    columns: list[Sequence[float | None]] = []
    for j, total in enumerate(sums):
        if not total:
            columns.append([0.0] * rows)
            continue
        step = abs(total) * STEP
        above, below = (of((*sums[:j], total + sign * step, *sums[j + 1 :])) for sign in (1, -1))
        columns.append(
            [
                None if high is None or low is None else (high - low) / (2 * step)
                for high, low in zip(above, below, strict=True)
            ]
        )
    gradients: list[list[float] | None] = []
    for row in zip(*columns, strict=True):
        slopes = [slope for slope in row if slope is not None]
        gradients.append(slopes if len(slopes) == len(row) else None)
    return gradients


def _summed(counts: Sequence[Counts]) -> Counts:
    return tuple(map(math.fsum, zip(*counts, strict=True)))
