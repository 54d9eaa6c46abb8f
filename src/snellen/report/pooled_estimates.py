"""Estimates pooled over the questions of all benchmarks: by tag, by option position, by template."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from snellen.analysis.aggregate import value_of
from snellen.analysis.option_letters import order_shown
from snellen.analysis.statistics import estimate_mean
from snellen.records import Estimate, Prediction, Sample
from snellen.report.run_view import ModelMethodRow
from snellen.scoring.scored_run import ScoredBenchmark

MOST_VALUES = 12
"""A tag with more values than this identifies rather than groups."""
ORDERED = ("easy", "medium", "hard")
OptionPosition = tuple[int, int]
"""Number of options shown, and position from 0."""


class PositionEstimates(Struct, frozen=True):
    """For each position: how often it is chosen, and how often the answer is right when the gold is there."""

    chosen: dict[OptionPosition, Estimate]
    right: dict[OptionPosition, Estimate]
    labels: dict[int, set[tuple[str, ...]]]
    """What options were called in their positions, by their number."""
    protocols: frozenset[str]


def accuracy_by_tag(line: ModelMethodRow) -> dict[str, dict[str, Estimate]]:
    """Accuracy by tag and value, over the benchmarks that carry the tag; tags with 2 to 12 values."""
    pools: dict[str, dict[str, ValuePool]] = defaultdict(lambda: defaultdict(ValuePool))
    groups = Groups()
    for scored, protocol in _measured(line):
        for score in scored.scores_of("accuracy", protocol):
            if score.value is not None:
                sample = scored.samples[score.sample_id]
                group = groups.number(scored, sample)
                for tag, value in sample.tags.items():
                    if value in pools[tag] or len(pools[tag]) <= MOST_VALUES:
                        pools[tag][value].add(score.value, group)
    return {
        tag: {value: values[value].estimate() for value in sorted(values, key=_level)}
        for tag, values in sorted(pools.items())
        if 2 <= len(values) <= MOST_VALUES
    }


def accuracy_by_template(line: ModelMethodRow) -> dict[str, Estimate]:
    """Accuracy of presentations by template, for template families of which several were used."""
    pools: dict[str, ValuePool] = defaultdict(ValuePool)
    groups = Groups()
    for scored, protocol in _measured(line):
        for prediction, sample in with_samples(scored):
            if (
                prediction.protocol == protocol
                and (value := value_of(scored, prediction)) is not None
            ):
                pools[prediction.variant.template].add(value, groups.number(scored, sample))
    families: dict[str, list[str]] = defaultdict(list)
    for name in pools:
        families[name.rpartition(".")[0]].append(name)
    return {
        name: pools[name].estimate()
        for names in families.values()
        if len(names) > 1
        for name in sorted(names)
    }


def by_option_position(line: ModelMethodRow) -> PositionEstimates:
    """Estimates by option position, from replies only: likelihoods do not depend on position."""
    chosen: dict[int, ValuePool] = defaultdict(ValuePool)  # by number of options: which position
    right: dict[OptionPosition, ValuePool] = defaultdict(ValuePool)
    labels: dict[int, set[tuple[str, ...]]] = defaultdict(set)
    protocols, groups = set(), Groups()
    for scored, protocol in _measured(line):
        protocols.add(protocol)
        for prediction, sample in with_samples(scored):
            places = order_shown(prediction) if prediction.protocol == protocol else None
            if places is None or prediction.error is not None:
                continue
            group = groups.number(scored, sample)
            labels[len(places)].add(prediction.variant.labels)
            if prediction.choice is not None:
                chosen[len(places)].add(places.index(prediction.choice), group)
            answer = scored.answers.get((prediction.sample_id, prediction.turn))
            if answer and len(answer.options) == 1:
                gold = answer.options[0]
                right[len(places), places.index(gold)].add(float(prediction.choice == gold), group)
    return PositionEstimates(
        {
            (count, place): chosen[count].share_of(place)
            for count in sorted(chosen)
            for place in range(count)
        },
        {place: right[place].estimate() for place in sorted(right)},
        labels,
        frozenset(protocols),
    )


def _measured(line: ModelMethodRow) -> Iterator[tuple[ScoredBenchmark, str]]:
    """Each benchmark, with the protocol whose accuracy the tables show."""
    for scored in line.view.run.benchmarks:
        if number := line.lookup("accuracy", scored.spec.name):
            yield scored, number.protocol


def _level(value: str) -> tuple[int, float, str]:
    if value in ORDERED:
        return ORDERED.index(value), 0.0, value
    try:
        return len(ORDERED), float(value), value
    except ValueError:
        return len(ORDERED) + 1, 0.0, value


# --- pools of values -------------------------------------------------------------------------------------------------


class Groups:
    """Numbers for groups (pictures of a benchmark), the same number for the same group."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}

    def number(self, scored: ScoredBenchmark, sample: Sample) -> int:
        """The number of a sample's group."""
        return self._numbers.setdefault((scored.spec.name, sample.group), len(self._numbers))


class ValuePool:
    """Pooled values, and the numbers of the groups that they come from."""

    def __init__(self) -> None:
        self._values = array("d")
        self._groups = array("i")

    def __len__(self) -> int:
        return len(self._values)

    def add(self, value: float, group: int) -> None:
        self._values.append(value)
        self._groups.append(group)

    def estimate(self) -> Estimate:
        return estimate_mean(self._values, self._groups)

    def share_of(self, value: float) -> Estimate:
        """How often a value occurs."""
        return estimate_mean(array("d", (stored == value for stored in self._values)), self._groups)


def with_samples(scored: ScoredBenchmark) -> Iterator[tuple[Prediction, Sample]]:
    """Each presentation with its sample, which is looked up once for all of its presentations that follow."""
    sample = None
    for prediction in scored.predictions:
        if sample is None or sample.id != prediction.sample_id:
            sample = scored.samples[prediction.sample_id]
        yield prediction, sample
