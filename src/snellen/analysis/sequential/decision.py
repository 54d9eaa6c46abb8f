"""Which of two models is better on a benchmark of which both were asked the same random part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Literal

from snellen.analysis.capability import protocol_preference
from snellen.analysis.sequential.estimates import (
    AIMS,
    Key,
    SequentialEstimate,
    bounds_of_questions,
    drawn_pictures,
    parts_of,
    population_of,
    scores_of,
    sequence_interval,
)
from snellen.analysis.sequential.rule import StoppingRule, rule_of
from snellen.building.benchmark import RandomPart
from snellen.scoring.scored_run import ScoredBenchmark, ScoredRun, run_labels

Verdict = Literal["first", "second", "equivalent", "equal", "undecided"]


class SequentialDifference(SequentialEstimate, frozen=True, kw_only=True):
    """How much higher the first model scores than the second, with an interval for the whole benchmark.

    `n` counts questions that have a value in both runs, `asked` those asked of each model.
    """

    first: str
    second: str
    verdict: Verdict
    """Which is better; `equal` for a benchmark asked to its end, `equivalent` within the margin that was given."""


def sequential_differences(
    first: ScoredRun, second: ScoredRun, equivalent: Mapping[str, float] = MappingProxyType({})
) -> list[SequentialDifference]:
    """The difference on each benchmark of which both runs were asked the same part, by the preferred protocol of each
    method. `equivalent` is by benchmark the greatest difference that does not matter, in the unit of the values; 0, or
    none, where any matters."""
    labels, parts = run_labels([first, second]), parts_of(first)
    by_name = {scored.spec.name: scored for scored in second.benchmarks}
    return [
        difference
        for scored in first.benchmarks
        if (part := parts.get(scored.spec.name)) is not None and part == parts_of(second).get(scored.spec.name)
        for difference in _differences(
            (labels[0], labels[1]), (scored, by_name[scored.spec.name]), part, equivalent.get(scored.spec.name, 0.0)
        )
    ]


def _differences(
    labels: tuple[str, str], pair: tuple[ScoredBenchmark, ScoredBenchmark], part: RandomPart, equivalent: float
) -> Iterator[SequentialDifference]:
    rule = rule_of(part.rule)
    first, second = (scores_of(scored, rule.metric) for scored in pair)
    n_asked = sum(len(sample.rounds) for sample in pair[0].samples.values())
    shared = sorted(first.keys() & second.keys(), key=lambda key: protocol_preference(key[0]))
    preferred = {method: (protocol, method) for protocol, method in reversed(shared)}
    for protocol, method in preferred.values():
        own_scores, rival_scores = first[protocol, method], second[protocol, method]
        gaps = {
            key: (own_scores[key].value or 0.0) - (rival_scores[key].value or 0.0)
            for key in own_scores.keys() & rival_scores.keys()
            if own_scores[key].value is not None and rival_scores[key].value is not None
        }
        bounds = _difference_bounds(bounds_of_questions(own_scores, rule), bounds_of_questions(rival_scores, rule))
        aims = tuple(dict.fromkeys([aim / 2 for aim in (*([equivalent / rule.span] if equivalent else []), *AIMS)]))
        shares = sequence_interval(drawn_pictures(pair[0], part, bounds), population_of(part), aims)
        low, high = (rule.span * (2 * share - 1) for share in shares)
        yield SequentialDifference(
            pair[0].spec.name, protocol, method, rule.metric, rule.row.unit,
            sum(gaps.values()) / len(gaps) if gaps else None, low, high, len(gaps), part, n_asked,
            first=labels[0], second=labels[1], verdict=_verdict(low, high, rule, part, equivalent),
        )  # fmt: skip


def _difference_bounds(
    first: dict[Key, tuple[float, float]], second: dict[Key, tuple[float, float]]
) -> dict[Key, tuple[float, float]]:
    """Of each question that counts in both runs, the least and the greatest difference, from -1 and 1 to 0 and 1."""
    return {
        key: ((1 + first[key][0] - second[key][1]) / 2, (1 + first[key][1] - second[key][0]) / 2)
        for key in sorted(first.keys() & second.keys())
    }


def _verdict(low: float, high: float, rule: StoppingRule, part: RandomPart, equivalent: float) -> Verdict:
    better, worse = (low, high) if rule.row.better != "lower" else (-high, -low)
    rounding = 1e-9 * rule.span
    if equivalent and -equivalent <= low and high <= equivalent:
        return "equivalent"
    if better > rounding:
        return "first"
    if worse < -rounding:
        return "second"
    return "equal" if part.is_whole and high - low <= 2 * rounding else "undecided"
