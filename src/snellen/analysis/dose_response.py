"""Scores by dose of image degradation, and the dose at which half of the score above chance is lost."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from snellen.analysis.headline import leading_headline
from snellen.analysis.paired.differences import QuestionMeasures, pair, question_values
from snellen.common.degradation import DEGRADATIONS
from snellen.common.seeds import rng_for
from snellen.protocols.base import labelled_declaration
from snellen.records import Estimate
from snellen.scoring.scored_run import ScoredBenchmark

RESAMPLES = 1000
MIN_SHARE_ABOVE_CHANCE = 0.975
"""Share of the resamples whose score on clean images must be above chance; otherwise there is no half dose."""


class DosePoint(Struct, frozen=True):
    """The score at one dose, and its loss against clean images on the same questions."""

    dose: float
    value: float | None
    loss: Estimate


class DoseResponse(Struct, frozen=True):
    """A metric of one benchmark over the doses of one degradation."""

    benchmark: str
    protocol: str
    """The protocol with clean images."""
    metric: str
    unit: str
    kind: str
    clean: float
    chance: float
    points: tuple[DosePoint, ...]
    """By dose, the least damage first."""
    half: HalfDose


class HalfDose(Struct, frozen=True):
    """The dose at which half of the score above chance is lost, interpolated linearly, with a 95% interval.

    The interval is a bootstrap over images. None means that the dose is beyond the evaluated ones.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    why_not: str = ""
    """Why there is no half dose; empty if there is one."""


def dose_responses(scored: ScoredBenchmark) -> list[DoseResponse]:
    """Return how the score of a benchmark falls as its images are degraded more and more.

    A dose is the strength of a degradation, such as the width of a blur. The benchmark needs results on clean images
    and on degraded ones.

    Returns:
        One entry for each kind of degradation, sorted by name; empty if no degraded images were evaluated.

    Examples:
        >>> from snellen.plugin_api import score_run
        >>> results = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, report=False)
        >>> [scored] = score_run(results.runs[0].folder, sn.ScoringSpec()).benchmarks
        >>> dose_responses(scored)  # no images were degraded
        []
    """
    headlines = [leading_headline(scored)]
    doses = _doses_by_degradation(
        protocol for protocol, _, metric in scored.score_rows if metric in headlines
    )
    if not doses:
        return []
    measured: dict[tuple[str, str], QuestionMeasures] = {}
    for values in question_values(scored, headlines):
        measured[values.protocol, values.metric] = values

    responses: list[DoseResponse] = []
    for (clean_protocol, degradation), doses_and_labels in sorted(doses.items()):
        for (protocol, metric), clean in measured.items():
            if protocol != clean_protocol:
                continue
            degraded_by_dose: dict[float, QuestionMeasures] = {}
            for dose, label in doses_and_labels:
                if (label, metric) in measured:
                    degraded_by_dose[dose] = measured[label, metric]
            if degraded_by_dose:
                responses.append(_response(degradation, clean, degraded_by_dose))
    return responses


def _doses_by_degradation(
    protocol_labels: Iterable[str],
) -> Mapping[tuple[str, str], list[tuple[float, str]]]:
    """Collect the doses of image degradation among the protocols of a run.

    Returns:
        A mapping from (label of the same protocol with clean images, kind of degradation) to pairs of a dose and the
        label of the protocol with that dose.
    """
    doses: dict[tuple[str, str], list[tuple[float, str]]] = defaultdict(list)
    for label in dict.fromkeys(protocol_labels):
        declared = labelled_declaration(label)
        if declared.dose is not None:
            degradation, dose = declared.dose
            doses[declared.control_of, degradation].append((dose, label))
    return doses


def _response(
    degradation: str, clean: QuestionMeasures, degraded_by_dose: Mapping[float, QuestionMeasures]
) -> DoseResponse:
    """Return how the score of a benchmark falls with one kind of degradation.

    Args:
        degradation: The name of the degradation.
        clean: The values of the questions with clean images.
        degraded_by_dose: The values of the questions at each dose.
    """
    clean_dose = DEGRADATIONS[degradation].none
    doses = sorted(degraded_by_dose, key=lambda dose: abs(dose - clean_dose))  # weakest first
    points: list[DosePoint] = []
    for dose in doses:
        degraded = degraded_by_dose[dose]
        labels = (clean.protocol, degraded.protocol)
        paired = pair(labels, clean, degraded).result
        points.append(DosePoint(dose, paired.second_value, paired.difference))

    curves = [clean, *(degraded_by_dose[dose] for dose in doses)]
    common_keys = sorted(frozenset.intersection(*(curve.keys for curve in curves)))
    clean_spread = clean.spread_over(common_keys)
    clean_value = clean_spread[0] if clean_spread else math.nan
    chance = 0.0
    if clean.metric == "accuracy":
        chance = clean.scored.chance_accuracy or 0.0
    return DoseResponse(
        benchmark=clean.scored.spec.name,
        protocol=clean.protocol,
        metric=clean.metric,
        unit=clean.row.unit,
        kind=degradation,
        clean=clean_value,
        chance=chance,
        points=tuple(points),
        half=_half_dose([clean_dose, *doses], curves, common_keys, chance),
    )


def _half_dose(
    doses: Sequence[float],
    curves: Sequence[QuestionMeasures],
    keys: Sequence[tuple[str, int]],
    chance: float,
) -> HalfDose:
    """Return the dose at which half of the score above chance is lost, with a 95% bootstrap interval.

    Image groups are drawn with replacement `RESAMPLES` times, and the dose is computed each time. The ends of the
    interval are the doses that 2.5% and 97.5% of the resamples do not exceed.

    Args:
        doses: Doses of a degradation; the first is that of clean images.
        curves: The values of the questions at each dose.
        keys: The questions that have a value at every dose.
        chance: Accuracy of guessing.

    Returns:
        The dose and its interval, or a `HalfDose` without a value that says why it has none: the metric is not a mean
        over questions, or the score on clean images is not significantly above chance.
    """
    clean = curves[0]
    is_plain_mean = not any(curve.counted_by or curve.censored for curve in curves)
    if not keys or not is_plain_mean:
        return HalfDose(why_not="only of a mean over questions that were answered at every dose")

    keys_by_group: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for key in keys:
        keys_by_group[clean.group(key)].append(key)
    sums_by_group: list[tuple[list[float], int]] = []  # sum at each dose, and number of questions
    for group_keys in keys_by_group.values():
        sums = [math.fsum(curve.values[key] for key in group_keys) for curve in curves]
        sums_by_group.append((sums, len(group_keys)))

    purpose = f"half dose {clean.protocol} {clean.metric}"
    rng = rng_for(clean.scored.spec.name, "", purpose, 0)
    half_doses: list[float] = []
    for _ in range(RESAMPLES):
        resampled_groups = rng.choices(sums_by_group, k=len(sums_by_group))
        half_dose = _dose_of_half_loss(doses, _mean_score_by_dose(resampled_groups), chance)
        if half_dose is not None:
            half_doses.append(half_dose)
    if len(half_doses) < MIN_SHARE_ABOVE_CHANCE * RESAMPLES:
        return HalfDose(why_not="not surely above chance on clean images")

    # Sorted by damage, the least first: a dose can be less than that of clean images.
    clean_dose = doses[0]

    def damage(dose: float) -> float:
        return abs(dose - clean_dose) if math.isfinite(dose) else math.inf

    half_doses.sort(key=damage)
    last = len(half_doses) - 1
    return HalfDose(
        value=_finite(_dose_of_half_loss(doses, _mean_score_by_dose(sums_by_group), chance)),
        low=_finite(half_doses[round(0.025 * last)]),
        high=_finite(half_doses[round(0.975 * last)]),
    )


def _finite(dose: float | None) -> float | None:
    """Return the dose, or None if it is beyond the evaluated doses."""
    return None if dose is None or math.isinf(dose) else dose


def _mean_score_by_dose(sums: Sequence[tuple[list[float], int]]) -> list[float]:
    """Return the mean score at each dose.

    Args:
        sums: For each image group, the list of its summed scores at each dose, and its number of questions.
    """
    n_questions = sum(count for _, count in sums)
    group_sums = [sums_at_doses for sums_at_doses, _ in sums]
    means: list[float] = []
    for sums_at_dose in zip(*group_sums, strict=True):
        means.append(math.fsum(sums_at_dose) / n_questions)
    return means


def _dose_of_half_loss(
    doses: Sequence[float], means: Sequence[float], chance: float
) -> float | None:
    """Return the dose at which the mean score has lost half of its height above chance.

    The means are first fitted by a falling curve, which is linear between doses.

    Returns:
        Infinity if no dose lowers the score that far; None if the score on clean images is not above chance.
    """
    fitted = non_increasing_fit(means)
    clean_score = fitted[0]
    if clean_score <= chance:
        return None
    half = chance + (clean_score - chance) / 2
    for (dose, score), (next_dose, next_score) in pairwise(zip(doses, fitted, strict=True)):
        if next_score <= half < score:
            return dose + (next_dose - dose) * (score - half) / (score - next_score)
    return math.inf


def non_increasing_fit(values: Sequence[float]) -> list[float]:
    """Return the non-increasing sequence that is nearest to `values` by the sum of squared distances.

    Neighbours that rise are replaced by their mean until none do (pool adjacent violators; Barlow et al. 1972,
    chapter 1). For example, [3, 1, 2] becomes [3, 1.5, 1.5].
    """
    blocks: list[tuple[float, int]] = []  # the mean of a block of neighbours, and its length
    for value in values:
        mean = value
        length = 1
        while blocks and blocks[-1][0] < mean:
            previous_mean, previous_length = blocks.pop()
            total_length = previous_length + length
            mean = (previous_mean * previous_length + mean * length) / total_length
            length = total_length
        blocks.append((mean, length))

    fitted: list[float] = []
    for mean, length in blocks:
        fitted.extend([mean] * length)
    return fitted
