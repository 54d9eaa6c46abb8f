"""Several runs compared on common questions, in one record."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, combinations, islice

from msgspec import Struct
from msgspec.structs import replace

from snellen.analysis.corrections import corrected_numbers
from snellen.analysis.headline import ALL, headlines_of
from snellen.analysis.paired.differences import (
    RESAMPLES,
    Comparison,
    Paired,
    PairedDifference,
    QuestionFlip,
    QuestionMeasures,
    RankInterval,
    flips,
    gain,
    is_shown,
    mean_differences,
    pair,
    question_values,
    seen_from,
    shared_protocol,
)
from snellen.analysis.paired.significance import Correction, adjusted, corrected_interval
from snellen.analysis.subset import check_same_builds
from snellen.errors import DataError
from snellen.metrics.declaration import SHARE
from snellen.records import METHODS, Method
from snellen.registry import unknown
from snellen.runs.run_folder import RunManifest
from snellen.scoring.scored_run import ScoredRun, run_labels

Place = tuple[str, Method]
"""Benchmark and method."""
ComparedPlace = tuple[frozenset[str], str, Method]
"""Two runs by label, benchmark and method."""
RankedOn = tuple[str, str]
"""Benchmark, or `*`, and dimension."""


def compare_runs(
    runs: Sequence[ScoredRun],
    *,
    metrics: Sequence[str] = (),
    baseline: str = "",
    correction: Correction = "holm",
    resamples: int = RESAMPLES,
    seed: int = 0,
    with_flips: bool = True,
) -> Comparison:
    """Compare runs question by question.

    Each benchmark counts by its headline metric, or by each of `metrics`, under the preferred protocol that both runs
    have. All pairs are compared, or with the label of a run as `baseline` that one with each other; p-values are
    corrected for as many, those of pairs with an instrument apart. Without `resamples` there are no ranks. Raises
    DataError for fewer than two runs and for runs on different builds of a benchmark, UnknownNameError for a label
    that no run has.
    """
    if len(runs) < 2:
        raise DataError("a comparison needs two runs or more; name another run's folder")
    check_same_builds(runs)
    labels = run_labels(runs)
    if baseline and baseline not in labels:
        raise unknown("run", baseline, labels)
    pairs = [
        (i, j)
        for i, j in combinations(range(len(runs)), 2)
        if baseline in ("", labels[i], labels[j])
    ]
    pairs = [(j, i) if labels[j] == baseline else (i, j) for i, j in pairs]
    flipped: list[QuestionFlip] = []
    by_metric = [[run_measures(run, metric) for run in runs] for metric in metrics or ("",)]
    differences: list[list[PairedDifference]] = [[] for _ in by_metric]
    paired: list[dict[ComparedPlace, Paired]] = [{} for _ in by_metric]
    for tables, of_metric, known in zip(by_metric, differences, paired, strict=True):
        for i, j in pairs:
            names = labels[i], labels[j]
            common = list(common_measures([tables[i], tables[j]]))
            pairings = [pair(names, first, second) for first, second in common]
            known |= {_place_of(pairing.result): pairing for pairing in pairings}
            of_metric += [*(pairing.result for pairing in pairings), *_means(pairings)]
            flipped += [
                flip
                for first, second in common
                if with_flips
                for flip in flips(names, first, second)
            ]
    instruments = tuple(
        label for label, run in zip(labels, runs, strict=True) if is_instrument(run.manifest)
    )
    corrected = iter(_corrected(list(chain.from_iterable(differences)), correction, instruments))
    differences = [list(islice(corrected, len(of_metric))) for of_metric in differences]
    ranks = [
        rank
        for tables, of_metric, known in zip(by_metric, differences, paired, strict=True)
        for method in (METHODS if resamples else ())
        for rank in _rank_intervals(
            labels, tables, of_metric, known, method, correction, instruments, resamples, seed
        )
    ]
    return Comparison(
        tuple(labels),
        tuple(chain.from_iterable(differences)),
        tuple(ranks),
        tuple(flipped),
        correction,
        resamples,
        _partial(labels, runs),
        baseline,
        instruments,
    )


def _rank_intervals(
    labels: Sequence[str],
    tables: Sequence[dict[Place, dict[str, QuestionMeasures]]],
    compared: Sequence[PairedDifference],
    known: Mapping[ComparedPlace, Paired],
    method: Method,
    correction: Correction,
    instruments: Collection[str],
    resamples: int,
    seed: int,
) -> list[RankInterval]:
    from snellen.analysis.paired.rank_intervals import rank_intervals

    everywhere = [measures for measures in common_measures(tables) if measures[0].method == method]
    of_method = [difference for difference in compared if difference.method == method]
    better = _shown_better(labels, everywhere, of_method, known, correction, instruments)
    return rank_intervals(labels, everywhere, better, resamples, seed)


def _shown_better(
    labels: Sequence[str],
    benchmarks: Sequence[Sequence[QuestionMeasures]],
    compared: Sequence[PairedDifference],
    known: Mapping[ComparedPlace, Paired],
    correction: Correction,
    instruments: Collection[str],
) -> dict[RankedOn, list[tuple[str, str]]]:
    """Which run is shown to be better than which other one, on the questions that all of them have a value for.

    A pair that was `compared` on the same questions counts as corrected there, the others are corrected for all pairs.
    `known` are those that were paired already.
    """
    common = [
        frozenset.intersection(*(measure.keys for measure in measures)) for measures in benchmarks
    ]
    differences: list[PairedDifference] = []
    for i, j in combinations(range(len(labels)), 2):
        paired = []
        for measures, questions in zip(benchmarks, common, strict=True):
            place = (
                frozenset((labels[i], labels[j])),
                measures[0].scored.spec.name,
                measures[0].method,
            )
            pairing = known.get(place)
            if pairing is None or pairing.result.difference.questions != len(questions):
                pairing = pair((labels[i], labels[j]), measures[i], measures[j], questions)
            paired.append(pairing)
        differences += [*(pairing.result for pairing in paired), *_means(paired)]
    by_pair = {_pair_key(difference): difference for difference in compared}
    better: dict[RankedOn, list[tuple[str, str]]] = defaultdict(list)
    for difference in _corrected(differences, correction, instruments):
        as_compared = by_pair.get(_pair_key(difference), difference)
        decisive = (
            as_compared
            if as_compared.difference.questions == difference.difference.questions
            else difference
        )
        if is_shown(decisive):
            winner, loser = (decisive.first, decisive.second)[:: 1 if gain(decisive) > 0 else -1]
            better[difference.benchmark, difference.dimension].append((winner, loser))
    return better


def _place_of(difference: PairedDifference) -> ComparedPlace:
    return frozenset((difference.first, difference.second)), difference.benchmark, difference.method


def _pair_key(difference: PairedDifference) -> tuple[object, ...]:
    return (
        frozenset((difference.first, difference.second)),
        difference.benchmark,
        difference.dimension,
    )


def run_measures(run: ScoredRun, metric: str) -> dict[Place, dict[str, QuestionMeasures]]:
    """What a run measured on each benchmark by each method, by protocol: one metric, or the benchmark's headline."""
    table: dict[Place, dict[str, QuestionMeasures]] = defaultdict(dict)
    corrected_number = corrected_numbers(run)
    for scored in run.benchmarks:
        names = [metric] if metric else headlines_of(scored)
        measured = list(question_values(scored, names))
        for measures in sorted(measured, key=lambda values: -names.index(values.metric)):
            audited = corrected_number(scored.spec.name, measures.protocol, measures.metric)
            table[scored.spec.name, measures.method][measures.protocol] = replace(
                measures, audited=audited
            )
    return table


def common_measures(
    tables: Sequence[dict[Place, dict[str, QuestionMeasures]]],
) -> Iterator[tuple[QuestionMeasures, ...]]:
    """What runs have in common, each place under one protocol of all; numbers by different rules are not."""
    for place in tables[0]:
        if all(place in table for table in tables):
            protocol = shared_protocol([table[place] for table in tables])
            measures = () if protocol is None else tuple(table[place][protocol] for table in tables)
            if len({measure.metric for measure in measures}) == 1:
                yield measures


def _means(paired: Sequence[Paired]) -> Iterator[PairedDifference]:
    for method in METHODS:
        of_method = [pairing for pairing in paired if pairing.result.method == method]
        yield from mean_differences(of_method)


def is_instrument(manifest: RunManifest) -> bool:
    """Whether what was asked is no model but one of Snellen's references, such as a reader of the answers."""
    return manifest.model.startswith("snellen:") and "instrument" in manifest.fingerprint


def _corrected(
    differences: Sequence[PairedDifference], correction: Correction, instruments: Collection[str]
) -> Iterator[PairedDifference]:
    """p-values adjusted within each kind: all benchmarks, all dimensions, or all overall differences by one method,
    between models or with an instrument."""
    by_kind: dict[tuple[str, Method, bool], list[int]] = defaultdict(list)
    for i, difference in enumerate(differences):
        if difference.p is not None:
            by_kind[difference.scope, difference.method, _has_any(difference, instruments)].append(
                i
            )
    corrected: dict[int, PairedDifference] = {}
    for places in by_kind.values():
        p_values = adjusted([differences[i].p or 0.0 for i in places], correction)
        family = 1 if correction == "none" else len(places)
        corrected |= {
            i: _as_one_of(differences[i], p, family) for i, p in zip(places, p_values, strict=True)
        }
    for i, difference in enumerate(differences):
        yield corrected.get(i, difference)


def _as_one_of(difference: PairedDifference, p_adjusted: float, family: int) -> PairedDifference:
    """With the p-value corrected for a family of so many differences, and the interval that agrees with it."""
    if difference.p is None:
        return replace(difference, p_adjusted=p_adjusted)
    low, high = corrected_interval(difference.difference, difference.p, p_adjusted, family)
    if difference.unit == SHARE and low is not None and high is not None:
        low, high = max(low, -1.0), min(high, 1.0)
    return replace(difference, p_adjusted=p_adjusted, low_corrected=low, high_corrected=high)


def _partial(labels: Sequence[str], runs: Sequence[ScoredRun]) -> dict[str, tuple[str, ...]]:
    holders: dict[str, list[str]] = defaultdict(list)
    for label, run in zip(labels, runs, strict=True):
        for scored in run.benchmarks:
            holders[scored.spec.name].append(label)
    return {name: tuple(has) for name, has in holders.items() if len(has) < len(labels)}


# --- what a page says of its runs ------------------------------------------------------------------------------------


class ComparedRuns(Struct, frozen=True, dict=True):
    """Runs and how they compare: what all sentences and tables of a page rest on, so that none of them corrects for
    another number of comparisons."""

    runs: Sequence[ScoredRun]
    headline: Comparison
    """Of these runs in the headlines of their benchmarks."""

    @cached_property
    def circular(self) -> Comparison:
        """In circular accuracy, which is not a headline."""
        own = self.headline
        return self.in_metric("circular_accuracy") if own.circular is None else own.in_circular

    @property
    def in_both(self) -> Comparison:
        """In the headlines, and in circular accuracy."""
        return replace(self.headline, circular=self.circular.differences)

    def in_metric(self, metric: str) -> Comparison:
        """The same pairs in one metric, corrected for as many; without ranks and questions that flipped."""
        own = self.headline
        return compare_runs(
            self.runs,
            metrics=(metric,),
            baseline=own.baseline,
            correction=own.correction,
            resamples=0,
            with_flips=False,
        )


def differences_of(
    comparison: Comparison, first: str, second: str, method: Method, metric: str
) -> Iterator[PairedDifference]:
    """The differences between two runs by one method, in one metric or with an empty one in the headlines."""
    for difference in comparison.differences:
        is_of_both = {difference.first, difference.second} == {first, second}
        if is_of_both and difference.method == method and metric in ("", difference.metric):
            yield seen_from(difference, first)


def overall_of(differences: Iterable[PairedDifference]) -> PairedDifference | None:
    """Of the differences between two runs in one metric the one over all benchmarks that both have it for: the row over
    all, or that of the only dimension or benchmark; None without such a row."""
    rows = [difference for difference in differences if difference.difference.value is not None]
    single = [row for row in rows if row.scope == "benchmark"]
    same_dimension = len({row.dimension for row in single}) == 1
    for scope, is_over_all in (
        ("overall", True),
        ("benchmark", len(single) == 1),
        ("dimension", same_dimension),
    ):
        if is_over_all and (of_scope := [row for row in rows if row.scope == scope]):
            return replace(of_scope[0], benchmark=ALL, dimension=ALL)
    return None


def _has_any(difference: PairedDifference, labels: Collection[str]) -> bool:
    return difference.first in labels or difference.second in labels


def as_one_of(difference: PairedDifference, comparison: Comparison) -> PairedDifference:
    """A difference between two of the runs that were compared, corrected for as many pairs of its kind (Bonferroni)."""
    is_with_instrument = _has_any(difference, comparison.instruments)
    alike = {
        frozenset((other.first, other.second))
        for other in comparison.differences
        if _has_any(other, comparison.instruments) == is_with_instrument
    }
    family = len(alike)
    p = 1.0 if difference.p is None else difference.p
    return _as_one_of(difference, min(1.0, family * p), family)
