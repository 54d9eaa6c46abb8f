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
CERTAIN = 0.975
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
    """Return the dose response of each degradation that was evaluated in addition to clean images, sorted by name.

    Examples:
        >>> from snellen.plugin_api import score_run
        >>> results = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, report=False)
        >>> [scored] = score_run(results.runs[0].folder, sn.ScoringSpec()).benchmarks
        >>> dose_responses(scored)  # no images were degraded
        []
    """
    headlines = [leading_headline(scored)]
    doses = _doses(protocol for protocol, _, metric in scored.score_rows if metric in headlines)
    if not doses:
        return []
    measured = {}
    for values in question_values(scored, headlines):
        measured[values.protocol, values.metric] = values
    responses = []
    for (clean_protocol, degradation), labels in sorted(doses.items()):
        for (protocol, metric), clean in measured.items():
            if protocol != clean_protocol:
                continue
            degraded_by_dose = {}
            for dose, label in labels:
                if (label, metric) in measured:
                    degraded_by_dose[dose] = measured[label, metric]
            if degraded_by_dose:
                responses.append(_response(degradation, clean, degraded_by_dose))
    return responses


def _doses(labels: Iterable[str]) -> Mapping[tuple[str, str], list[tuple[float, str]]]:
    """Return the doses and their protocol labels, by protocol with clean images and kind of degradation."""
    doses: dict[tuple[str, str], list[tuple[float, str]]] = defaultdict(list)
    for label in dict.fromkeys(labels):
        declared = labelled_declaration(label)
        if declared.dose is not None:
            degradation, dose = declared.dose
            doses[declared.control_of, degradation].append((dose, label))
    return doses


def _response(
    degradation: str, clean: QuestionMeasures, degraded_by_dose: Mapping[float, QuestionMeasures]
) -> DoseResponse:
    """Return the response to one kind of degradation. `degraded_by_dose` has the measures at each dose."""
    clean_dose = DEGRADATIONS[degradation].none
    ordered = sorted(degraded_by_dose, key=lambda dose: abs(dose - clean_dose))
    points = []
    for dose in ordered:
        paired = pair(
            (clean.protocol, degraded_by_dose[dose].protocol), clean, degraded_by_dose[dose]
        ).result
        points.append(DosePoint(dose, paired.second_value, paired.difference))
    keys = sorted(clean.keys.intersection(*(degraded_by_dose[dose].keys for dose in ordered)))
    overall = clean.spread_over(keys)
    chance = (clean.scored.chance_accuracy or 0.0) if clean.metric == "accuracy" else 0.0
    curves = [clean, *(degraded_by_dose[dose] for dose in ordered)]
    return DoseResponse(
        clean.scored.spec.name,
        clean.protocol,
        clean.metric,
        clean.row.unit,
        degradation,
        overall[0] if overall else math.nan,
        chance,
        tuple(points),
        _half_dose([clean_dose, *ordered], curves, keys, chance),
    )


def _half_dose(
    doses: Sequence[float],
    curves: Sequence[QuestionMeasures],
    keys: Sequence[tuple[str, int]],
    chance: float,
) -> HalfDose:
    """Return the half dose, at which half of the accuracy above chance is lost, with its bootstrap interval.

    Args:
        doses: Doses of a degradation, the clean images first.
        curves: Values of the questions at each dose.
        keys: The questions that have a value at every dose.
        chance: Accuracy of guessing.
    """
    clean = curves[0]
    if not keys or any(curve.counted_by or curve.censored for curve in curves):
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
        half_dose = _crossing(doses, _means(resampled_groups), chance)
        if half_dose is not None:
            half_doses.append(half_dose)
    if len(half_doses) < CERTAIN * RESAMPLES:
        return HalfDose(why_not="not surely above chance on clean images")

    # Sorted by damage, the least first: a dose can be less than that of clean images.
    half_doses.sort(key=lambda dose: abs(dose - doses[0]) if math.isfinite(dose) else math.inf)
    last = len(half_doses) - 1
    return HalfDose(
        value=_finite(_crossing(doses, _means(sums_by_group), chance)),
        low=_finite(half_doses[round(0.025 * last)]),
        high=_finite(half_doses[round(0.975 * last)]),
    )


def _finite(dose: float | None) -> float | None:
    """Return the dose, or None if it is beyond the evaluated doses."""
    return None if dose is None or math.isinf(dose) else dose


def _means(sums: Sequence[tuple[list[float], int]]) -> list[float]:
    """Return the mean at each dose, given for each image group the sums at each dose and the number of questions."""
    total = sum(count for _, count in sums)
    return [
        math.fsum(values) / total for values in zip(*(values for values, _ in sums), strict=True)
    ]


def _crossing(doses: Sequence[float], means: Sequence[float], chance: float) -> float | None:
    """Return the dose at which the falling curve through the means has lost half of its height above chance.

    Infinity if the curve stays above it, None if the score on clean images is not above chance.
    """
    fitted = falling(means)
    half = chance + (fitted[0] - chance) / 2
    if fitted[0] <= chance:
        return None
    for (dose, value), (next_dose, next_value) in pairwise(zip(doses, fitted, strict=True)):
        if next_value <= half < value:
            return dose + (next_dose - dose) * (value - half) / (value - next_value)
    return math.inf


def falling(values: Sequence[float]) -> list[float]:
    """Return the non-increasing sequence with the least squared distance to `values`.

    Neighbours that rise are averaged (pool adjacent violators; Barlow et al. 1972, chapter 1).
    """
    blocks: list[tuple[float, int]] = []
    for value in values:
        mean, count = value, 1
        while blocks and blocks[-1][0] < mean:
            before, members = blocks.pop()
            mean, count = (before * members + mean * count) / (members + count), members + count
        blocks.append((mean, count))
    return [mean for mean, count in blocks for _ in range(count)]
