"""Estimates over the questions of all benchmarks together: by tag, by place of options, by template."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator
from functools import cache

from msgspec import Struct

from snellen.analysis.aggregate import judged_results
from snellen.analysis.statistics import estimate_mean
from snellen.protocols.base import labelled_declaration
from snellen.records import Estimate, Prediction
from snellen.report.run_view import MethodRow
from snellen.scoring.scored_run import ScoredBenchmark

MOST_VALUES = 12
"""A tag with more values than this is a name, not a level."""
ORDERED = ("easy", "medium", "hard")

_declared = cache(labelled_declaration)
Place = tuple[int, int]
"""How many options are shown, and which place from 0."""


class _Pool:
    """Values of one part, and the groups (pictures of a benchmark) they come from."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self.groups: list[Hashable] = []

    def add(self, value: float, one: ScoredBenchmark, sample_id: str) -> None:
        self.values.append(value)
        self.groups.append((one.spec.name, one.samples[sample_id].group))

    def estimate(self) -> Estimate:
        return estimate_mean(self.values, self.groups)


class Places(Struct, frozen=True):
    """By place: how often it is chosen, and how often the answer is right when the gold stands there."""

    chosen: dict[Place, Estimate]
    right: dict[Place, Estimate]


def by_tag(line: MethodRow) -> dict[str, dict[str, Estimate]]:
    """Accuracy by tag and value, over the benchmarks that carry the tag; tags with 2 to 12 values."""
    pools: dict[str, dict[str, _Pool]] = defaultdict(lambda: defaultdict(_Pool))
    for one, protocol in _measured(line):
        for score in one.scores:
            if score.protocol == protocol and score.metric == "accuracy" and score.value is not None:
                for tag, value in one.samples[score.sample_id].tags.items():
                    pools[tag][value].add(score.value, one, score.sample_id)
    return {
        tag: {value: values[value].estimate() for value in sorted(values, key=_level)}
        for tag, values in sorted(pools.items())
        if 2 <= len(values) <= MOST_VALUES
    }


def by_template(line: MethodRow) -> dict[str, Estimate]:
    """Accuracy of presentations by template, where a question was put with several."""
    pools: dict[str, _Pool] = defaultdict(_Pool)
    for one, protocol in _measured(line):
        for prediction, value in judged_results(one):
            if prediction.protocol == protocol:
                pools[prediction.variant.template].add(value, one, prediction.sample_id)
    families: dict[str, list[str]] = defaultdict(list)
    for name in pools:
        families[name.rpartition(".")[0]].append(name)
    return {name: pools[name].estimate() for names in families.values() if len(names) > 1 for name in sorted(names)}


def by_place(line: MethodRow) -> Places:
    """Of replies only: a likelihood sees no places."""
    chosen: dict[Place, _Pool] = defaultdict(_Pool)
    right: dict[Place, _Pool] = defaultdict(_Pool)
    for one, protocol in _measured(line):
        for prediction in one.predictions:
            places = _places(prediction) if prediction.protocol == protocol else None
            if places is None or prediction.error is not None:
                continue
            for place, option in enumerate(places) if prediction.choice is not None else ():
                chosen[len(places), place].add(float(option == prediction.choice), one, prediction.sample_id)
            answer = one.answers.get((prediction.sample_id, prediction.turn))
            if answer and len(answer.options) == 1:
                gold = answer.options[0]
                right[len(places), places.index(gold)].add(float(prediction.choice == gold), one, prediction.sample_id)
    return Places(*({place: pools[place].estimate() for place in sorted(pools)} for pools in (chosen, right)))


def _measured(line: MethodRow) -> Iterator[tuple[ScoredBenchmark, str]]:
    """Each benchmark and the protocol whose accuracy the tables show."""
    for one in line.sheet.run.benchmarks:
        if found := line.at("accuracy", one.spec.name):
            yield one, found.protocol


def _places(prediction: Prediction) -> tuple[int, ...] | None:
    """Options in the order shown; None where none were, or where earlier replies chose what was shown."""
    labels = prediction.variant.labels
    declared = _declared(prediction.protocol)
    if not labels or (declared.stops_early and not declared.is_unbiased(prediction.variant)):
        return None
    return prediction.variant.order or tuple(range(len(labels)))


def _level(value: str) -> tuple[int, float, str]:
    if value in ORDERED:
        return ORDERED.index(value), 0.0, value
    try:
        return len(ORDERED), float(value), value
    except ValueError:
        return len(ORDERED) + 1, 0.0, value
