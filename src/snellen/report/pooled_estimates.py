"""Estimates pooled over the questions of all benchmarks: by tag, by option position, by template."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator
from functools import cache

from msgspec import Struct

from snellen.analysis.aggregate import scored_predictions
from snellen.analysis.statistics import estimate_mean
from snellen.protocols.base import labelled_declaration
from snellen.records import Estimate, Prediction
from snellen.report.run_view import ModelMethodRow
from snellen.scoring.scored_run import ScoredBenchmark

MOST_VALUES = 12
"""A tag with more values than this identifies rather than groups."""
ORDERED = ("easy", "medium", "hard")

_declared = cache(labelled_declaration)
OptionPosition = tuple[int, int]
"""Number of options shown, and position from 0."""


class _Pool:
    """Pooled values, and the groups (pictures of a benchmark) that they come from."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self.groups: list[Hashable] = []

    def add(self, value: float, scored: ScoredBenchmark, sample_id: str) -> None:
        self.values.append(value)
        self.groups.append((scored.spec.name, scored.samples[sample_id].group))

    def estimate(self) -> Estimate:
        return estimate_mean(self.values, self.groups)


class PositionEstimates(Struct, frozen=True):
    """For each position: how often it is chosen, and how often the answer is right when the gold is there."""

    chosen: dict[OptionPosition, Estimate]
    right: dict[OptionPosition, Estimate]


def accuracy_by_tag(line: ModelMethodRow) -> dict[str, dict[str, Estimate]]:
    """Accuracy by tag and value, over the benchmarks that carry the tag; tags with 2 to 12 values."""
    pools: dict[str, dict[str, _Pool]] = defaultdict(lambda: defaultdict(_Pool))
    for scored, protocol in _measured(line):
        for score in scored.scores:
            if score.protocol == protocol and score.metric == "accuracy" and score.value is not None:
                for tag, value in scored.samples[score.sample_id].tags.items():
                    pools[tag][value].add(score.value, scored, score.sample_id)
    return {
        tag: {value: values[value].estimate() for value in sorted(values, key=_level)}
        for tag, values in sorted(pools.items())
        if 2 <= len(values) <= MOST_VALUES
    }


def accuracy_by_template(line: ModelMethodRow) -> dict[str, Estimate]:
    """Accuracy of presentations by template, for template families of which several were used."""
    pools: dict[str, _Pool] = defaultdict(_Pool)
    for scored, protocol in _measured(line):
        for prediction, value in scored_predictions(scored):
            if prediction.protocol == protocol:
                pools[prediction.variant.template].add(value, scored, prediction.sample_id)
    families: dict[str, list[str]] = defaultdict(list)
    for name in pools:
        families[name.rpartition(".")[0]].append(name)
    return {name: pools[name].estimate() for names in families.values() if len(names) > 1 for name in sorted(names)}


def by_option_position(line: ModelMethodRow) -> PositionEstimates:
    """Estimates by option position, from replies only: likelihoods do not depend on position."""
    chosen: dict[OptionPosition, _Pool] = defaultdict(_Pool)
    right: dict[OptionPosition, _Pool] = defaultdict(_Pool)
    for scored, protocol in _measured(line):
        for prediction in scored.predictions:
            places = _places(prediction) if prediction.protocol == protocol else None
            if places is None or prediction.error is not None:
                continue
            for place, option in enumerate(places) if prediction.choice is not None else ():
                chosen[len(places), place].add(float(option == prediction.choice), scored, prediction.sample_id)
            answer = scored.answers.get((prediction.sample_id, prediction.turn))
            if answer and len(answer.options) == 1:
                gold = answer.options[0]
                right[len(places), places.index(gold)].add(
                    float(prediction.choice == gold), scored, prediction.sample_id
                )
    return PositionEstimates(
        *({place: pools[place].estimate() for place in sorted(pools)} for pools in (chosen, right))
    )


def _measured(line: ModelMethodRow) -> Iterator[tuple[ScoredBenchmark, str]]:
    """Each benchmark, with the protocol whose accuracy the tables show."""
    for scored in line.view.run.benchmarks:
        if number := line.lookup("accuracy", scored.spec.name):
            yield scored, number.protocol


def _places(prediction: Prediction) -> tuple[int, ...] | None:
    """Options in the order shown; None if none were shown, if earlier replies decided what was shown, or if another
    model chose."""
    labels = prediction.variant.labels
    declared = _declared(prediction.protocol)
    if not labels or declared.conclude or (declared.stops_early and not declared.is_unbiased(prediction.variant)):
        return None
    return prediction.variant.order or tuple(range(len(labels)))


def _level(value: str) -> tuple[int, float, str]:
    if value in ORDERED:
        return ORDERED.index(value), 0.0, value
    try:
        return len(ORDERED), float(value), value
    except ValueError:
        return len(ORDERED) + 1, 0.0, value
