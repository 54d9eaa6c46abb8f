"""How a score falls with the dose of a degradation, and the dose at which half of what it had over chance is lost."""

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
"""Share of the resamples that must be above chance on clean pictures, for a half of it to mean something."""


class DosePoint(Struct, frozen=True):
    """The score at one dose, and what it is less than that on clean pictures, by the same questions."""

    dose: float
    value: float | None
    loss: Estimate


class DoseResponse(Struct, frozen=True):
    """A metric of one benchmark over the doses of one degradation."""

    benchmark: str
    protocol: str
    """The protocol whose questions were asked with clean pictures."""
    metric: str
    unit: str
    kind: str
    clean: float
    chance: float
    points: tuple[DosePoint, ...]
    """By dose, the least damage first."""
    half: HalfDose


class HalfDose(Struct, frozen=True):
    """The dose at which half of the score over chance is lost, linear between doses, with a 95% interval by bootstrap
    over pictures. None stands for a dose beyond those that were asked."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    why_not: str = ""
    """Why there is none."""


def dose_responses(scored: ScoredBenchmark) -> list[DoseResponse]:
    """For each degradation of which one dose or more was asked beside clean pictures, in the order of their names."""
    headlines = [leading_headline(scored)]
    doses = _doses(protocol for protocol, _, metric in scored.score_rows if metric in headlines)
    if not doses:
        return []
    measured = {
        (values.protocol, values.metric): values for values in question_values(scored, headlines)
    }
    responses = []
    for (inner, kind), labels in sorted(doses.items()):
        for (protocol, metric), clean in measured.items():
            worse = {
                dose: measured[label, metric]
                for dose, label in labels
                if (label, metric) in measured
            }
            if protocol == inner and worse:
                responses.append(_response(kind, clean, worse))
    return responses


def _doses(labels: Iterable[str]) -> Mapping[tuple[str, str], list[tuple[float, str]]]:
    """By the protocol that is controlled and the kind of damage, the doses with their labels."""
    doses: dict[tuple[str, str], list[tuple[float, str]]] = defaultdict(list)
    for label in dict.fromkeys(labels):
        declared = labelled_declaration(label)
        if declared.dose is not None:
            kind, dose = declared.dose
            doses[declared.control_of, kind].append((dose, label))
    return doses


def _response(
    kind: str, clean: QuestionMeasures, worse: Mapping[float, QuestionMeasures]
) -> DoseResponse:
    none = DEGRADATIONS[kind].none
    ordered = sorted(worse, key=lambda dose: abs(dose - none))
    points = []
    for dose in ordered:
        paired = pair((clean.protocol, worse[dose].protocol), clean, worse[dose]).result
        points.append(DosePoint(dose, paired.second_value, paired.difference))
    keys = sorted(clean.keys.intersection(*(worse[dose].keys for dose in ordered)))
    overall = clean.spread_over(keys)
    chance = (clean.scored.chance_accuracy or 0.0) if clean.metric == "accuracy" else 0.0
    curves = [clean, *(worse[dose] for dose in ordered)]
    return DoseResponse(
        clean.scored.spec.name,
        clean.protocol,
        clean.metric,
        clean.row.unit,
        kind,
        overall[0] if overall else math.nan,
        chance,
        tuple(points),
        _half_dose([none, *ordered], curves, keys, chance),
    )


def _half_dose(
    doses: Sequence[float],
    curves: Sequence[QuestionMeasures],
    keys: Sequence[tuple[str, int]],
    chance: float,
) -> HalfDose:
    if not keys or any(curve.counted_by or curve.censored for curve in curves):
        return HalfDose(why_not="only of a mean over questions that were answered at every dose")
    groups: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for key in keys:
        groups[curves[0].group(key)].append(key)
    sums = [
        ([math.fsum(curve.values[key] for key in members) for curve in curves], len(members))
        for members in groups.values()
    ]
    rng = rng_for(
        curves[0].scored.spec.name, "", f"half dose {curves[0].protocol} {curves[0].metric}", 0
    )
    drawn = [
        _crossing(doses, _means(rng.choices(sums, k=len(sums))), chance) for _ in range(RESAMPLES)
    ]
    seen = [crossing for crossing in drawn if crossing is not None]
    if len(seen) < CERTAIN * RESAMPLES:
        return HalfDose(why_not="not surely above chance on clean pictures")
    best = _crossing(doses, _means(sums), chance)
    low: float | None
    high: float | None
    away = sorted(seen, key=lambda dose: abs(dose - doses[0]) if math.isfinite(dose) else math.inf)
    low, high = away[round(0.025 * (len(away) - 1))], away[round(0.975 * (len(away) - 1))]
    value, low, high = (
        None if dose is None or math.isinf(dose) else dose for dose in (best, low, high)
    )
    return HalfDose(value, low, high)


def _means(sums: Sequence[tuple[list[float], int]]) -> list[float]:
    total = sum(count for _, count in sums)
    return [
        math.fsum(values) / total for values in zip(*(values for values, _ in sums), strict=True)
    ]


def _crossing(doses: Sequence[float], means: Sequence[float], chance: float) -> float | None:
    """Where the falling curve through the means reaches half; infinity where it does not, None where there is nothing
    to lose."""
    fitted = falling(means)
    half = chance + (fitted[0] - chance) / 2
    if fitted[0] <= chance:
        return None
    for (dose, value), (next_dose, next_value) in pairwise(zip(doses, fitted, strict=True)):
        if next_value <= half < value:
            return dose + (next_dose - dose) * (value - half) / (value - next_value)
    return math.inf


def falling(values: Sequence[float]) -> list[float]:
    """The nearest sequence that never rises, in squared distance: neighbours that rise are averaged (Barlow et al.
    1972, chapter 1)."""
    blocks: list[tuple[float, int]] = []
    for value in values:
        mean, count = value, 1
        while blocks and blocks[-1][0] < mean:
            before, members = blocks.pop()
            mean, count = (before * members + mean * count) / (members + count), members + count
        blocks.append((mean, count))
    return [mean for mean, count in blocks for _ in range(count)]
