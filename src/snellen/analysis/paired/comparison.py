"""Compare several runs on their common questions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, combinations, islice

from msgspec import Struct
from msgspec.structs import replace

from snellen.analysis.corrections import corrected_numbers
from snellen.analysis.headline import OVERALL, headline_metrics
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
    oriented_from,
    pair,
    question_values,
    shared_protocol,
)
from snellen.analysis.paired.same_replies import RunReplies, same_replies, without_doubts
from snellen.analysis.paired.significance import Correction, adjusted, corrected_interval
from snellen.analysis.subset import check_same_builds
from snellen.errors import DataError
from snellen.metrics.declaration import SHARE
from snellen.records import METHODS, Method
from snellen.registry import unknown_name
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

    On each benchmark, two runs are compared under the preferred protocol that both have. P-values are corrected for the
    number of compared pairs. Pairs with an instrument (`is_instrument`) are corrected separately.

    Args:
        runs: The runs, at least two.
        metrics: Metrics to compare in; by default the headline metric of each benchmark.
        baseline: Label of the run that is compared with each other run; by default all pairs are compared.
        correction: Method of correction for multiple comparisons.
        resamples: Bootstrap resamples for the ranks. There are no ranks if it is 0.
        seed: Seed of the resamples.
        with_flips: Whether to list the questions that only one run of a pair has right.

    Raises:
        DataError: There are fewer than two runs, or they are on different builds of a benchmark.
        UnknownNameError: No run has the label `baseline`.
    """
    if len(runs) < 2:
        raise DataError("a comparison needs at least two runs; add the folder of another run")
    check_same_builds(runs)
    labels = run_labels(runs)
    if baseline and baseline not in labels:
        raise unknown_name("run", baseline, labels)
    pairs = [
        (i, j)
        for i, j in combinations(range(len(runs)), 2)
        if baseline in ("", labels[i], labels[j])
    ]
    pairs = [(j, i) if labels[j] == baseline else (i, j) for i, j in pairs]
    replies = [RunReplies(run) for run in runs]
    flipped: list[QuestionFlip] = []
    # One list element per metric in the following three.
    by_metric = [[run_measures(run, metric) for run in runs] for metric in metrics or ("",)]
    differences: list[list[PairedDifference]] = [[] for _ in by_metric]
    paired: list[dict[ComparedPlace, Paired]] = [{} for _ in by_metric]
    for tables, of_metric, paired_before in zip(by_metric, differences, paired, strict=True):
        for i, j in pairs:
            names = labels[i], labels[j]
            common = list(common_measures([tables[i], tables[j]]))
            pairings: list[Paired] = []
            for first, second in common:
                same = same_replies(replies[i], replies[j], (first, second))
                pairing = pair(names, without_doubts(first, same), without_doubts(second, same))
                is_same = bool(same) and same == first.keys & second.keys
                result = replace(pairing.result, same_replies=is_same)
                pairings.append(replace(pairing, result=result))
            paired_before |= {_place_of(pairing.result): pairing for pairing in pairings}
            of_metric += [pairing.result for pairing in pairings]
            of_metric += _means(pairings)
            if with_flips:
                for first, second in common:
                    flipped += flips(names, first, second)
    instruments = tuple(
        label for label, run in zip(labels, runs, strict=True) if is_instrument(run.manifest)
    )
    corrected = iter(_corrected(list(chain.from_iterable(differences)), correction, instruments))
    differences = [list(islice(corrected, len(of_metric))) for of_metric in differences]
    ranks = [
        rank
        for tables, of_metric, paired_before in zip(by_metric, differences, paired, strict=True)
        for method in (METHODS if resamples else ())
        for rank in _rank_intervals(
            labels,
            tables,
            of_metric,
            paired_before,
            method,
            correction,
            instruments,
            resamples,
            seed,
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
    paired_before: Mapping[ComparedPlace, Paired],
    method: Method,
    correction: Correction,
    instruments: Collection[str],
    resamples: int,
    seed: int,
) -> list[RankInterval]:
    """Rank the runs, for one method (generation or likelihood), on the questions for which all of them have a value."""
    from snellen.analysis.paired.rank_intervals import rank_intervals

    everywhere = [measures for measures in common_measures(tables) if measures[0].method == method]
    of_method = [difference for difference in compared if difference.method == method]
    better = _shown_better(labels, everywhere, of_method, paired_before, correction, instruments)
    return rank_intervals(labels, everywhere, better, resamples, seed)


def _shown_better(
    labels: Sequence[str],
    benchmarks: Sequence[Sequence[QuestionMeasures]],
    compared: Sequence[PairedDifference],
    paired_before: Mapping[ComparedPlace, Paired],
    correction: Correction,
    instruments: Collection[str],
) -> dict[RankedOn, list[tuple[str, str]]]:
    """Return the pairs (better run, worse run) with a significant difference, by benchmark and dimension.

    Only questions for which all runs have a value count.

    Args:
        labels: The labels of the runs.
        benchmarks: For each benchmark, the measures of each run.
        compared: Differences whose p-values are corrected already. They are used if they are on the same questions; all
            others are corrected for the number of all pairs.
        paired_before: Paired questions of earlier comparisons, which are reused if they are the same questions.
        correction: Method of correction for multiple comparisons.
        instruments: Labels of the runs that are not models.
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
            pairing = paired_before.get(place)
            if pairing is None or pairing.result.difference.questions != len(questions):
                pairing = pair((labels[i], labels[j]), measures[i], measures[j], questions)
            paired.append(pairing)
        differences += [*(pairing.result for pairing in paired), *_means(paired)]
    by_pair = {_pair_key(difference): difference for difference in compared}
    better: dict[RankedOn, list[tuple[str, str]]] = defaultdict(list)
    for difference in _corrected(differences, correction, instruments):
        decisive = difference
        as_compared = by_pair.get(_pair_key(difference), difference)
        if as_compared.difference.questions == difference.difference.questions:
            decisive = as_compared
        if not is_shown(decisive):
            continue
        winner, loser = decisive.first, decisive.second
        if gain(decisive) <= 0:
            winner, loser = loser, winner
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
    """Collect the values of all questions of a run, so that it can be compared with another run.

    Args:
        run: The scored run.
        metric: A metric, or empty for the preferred metric of each benchmark.

    Returns:
        By (benchmark, method) and then by protocol, the values of the questions.
    """
    measures_by_place: dict[Place, dict[str, QuestionMeasures]] = defaultdict(dict)
    corrected_number = corrected_numbers(run)
    for scored in run.benchmarks:
        metrics = [metric] if metric else headline_metrics(scored)
        measured = list(question_values(scored, metrics))
        # The preferred metric is the first of `metrics`. It comes last here, so that it overwrites the others.
        measured.sort(key=lambda measures: -metrics.index(measures.metric))
        for measures in measured:
            audited = corrected_number(scored.spec.name, measures.protocol, measures.metric)
            place = (scored.spec.name, measures.method)
            measures_by_place[place][measures.protocol] = replace(measures, audited=audited)
    return measures_by_place


def common_measures(
    tables: Sequence[dict[Place, dict[str, QuestionMeasures]]],
) -> Iterator[tuple[QuestionMeasures, ...]]:
    """Yield, for each benchmark and method that all runs have, the values of each run under a protocol that they share.

    A benchmark is skipped if the runs share no protocol, or if their preferred metrics differ.

    Args:
        tables: For each run, the result of `run_measures`.
    """
    for place in tables[0]:
        if not all(place in table for table in tables):
            continue
        protocol = shared_protocol([table[place] for table in tables])
        if protocol is None:
            continue
        measures = tuple(table[place][protocol] for table in tables)
        if len({measure.metric for measure in measures}) == 1:
            yield measures


def _means(paired: Sequence[Paired]) -> Iterator[PairedDifference]:
    for method in METHODS:
        of_method = [pairing for pairing in paired if pairing.result.method == method]
        yield from mean_differences(of_method)


def is_instrument(manifest: RunManifest) -> bool:
    """Return whether a run is of an instrument: a reference baseline of Snellen, such as the oracle, and not a model."""
    return manifest.model.startswith("snellen:") and "instrument" in manifest.fingerprint


def _corrected(
    differences: Sequence[PairedDifference], correction: Correction, instruments: Collection[str]
) -> Iterator[PairedDifference]:
    """Correct the p-values of differences for multiple comparisons.

    Differences of one kind are corrected together. Their kind is the scope (benchmark, dimension or overall), the
    method, and whether one of the two runs is an instrument, that is, a reference such as random guessing.

    Args:
        differences: The differences between runs.
        correction: The method of correction, such as Holm's.
        instruments: The labels of runs that are instruments.

    Yields:
        The differences in their order. One without a p-value is unchanged.
    """
    indices_by_kind: dict[tuple[str, Method, bool], list[int]] = defaultdict(list)
    for index, difference in enumerate(differences):
        if difference.p is not None:
            has_instrument = _has_any(difference, instruments)
            kind = (difference.scope, difference.method, has_instrument)
            indices_by_kind[kind].append(index)

    corrected: dict[int, PairedDifference] = {}
    for indices in indices_by_kind.values():
        p_values = [differences[index].p or 0.0 for index in indices]
        n_compared = 1 if correction == "none" else len(indices)
        for index, p_adjusted in zip(indices, adjusted(p_values, correction), strict=True):
            corrected[index] = _as_one_of(differences[index], p_adjusted, n_compared)
    for index, difference in enumerate(differences):
        yield corrected.get(index, difference)


def _as_one_of(
    difference: PairedDifference, p_adjusted: float, n_compared: int
) -> PairedDifference:
    """Add a corrected p-value to a difference, and the interval that agrees with that p-value.

    Args:
        difference: The difference of two runs.
        p_adjusted: Its p-value, corrected for multiple comparisons.
        n_compared: The number of differences that are corrected together.
    """
    if difference.p is None:
        return replace(difference, p_adjusted=p_adjusted)
    low, high = corrected_interval(difference.difference, difference.p, p_adjusted, n_compared)
    if difference.unit == SHARE and low is not None and high is not None:
        # The difference of two shares is between -1 and 1.
        low = max(low, -1.0)
        high = min(high, 1.0)
    return replace(difference, p_adjusted=p_adjusted, low_corrected=low, high_corrected=high)


def _partial(labels: Sequence[str], runs: Sequence[ScoredRun]) -> dict[str, tuple[str, ...]]:
    """Return the benchmarks that are missing in some runs, with the labels of the runs that have them."""
    labels_by_benchmark: dict[str, list[str]] = defaultdict(list)
    for label, run in zip(labels, runs, strict=True):
        for scored in run.benchmarks:
            labels_by_benchmark[scored.spec.name].append(label)

    partial: dict[str, tuple[str, ...]] = {}
    for benchmark, holders in labels_by_benchmark.items():
        if len(holders) < len(labels):
            partial[benchmark] = tuple(holders)
    return partial


# --- comparisons shared by a page ------------------------------------------------------------------------------------


class ComparedRuns(Struct, frozen=True, dict=True):
    """Runs with their comparisons, shared by all sentences and tables of a page.

    Because they are shared, all parts of the page correct for the same number of comparisons.
    """

    runs: Sequence[ScoredRun]
    headline: Comparison
    """Comparison in the headline metrics of the benchmarks."""

    @cached_property
    def circular(self) -> Comparison:
        """Comparison in circular accuracy."""
        if self.headline.circular is not None:
            return self.headline.in_circular
        return self.in_metric("circular_accuracy")

    @property
    def in_both(self) -> Comparison:
        """Comparison in the headline metrics, with the differences in circular accuracy added."""
        return replace(self.headline, circular=self.circular.differences)

    def in_metric(self, metric: str) -> Comparison:
        """Compare the same pairs in another metric, with the same correction but without ranks and flips."""
        return compare_runs(
            self.runs,
            metrics=(metric,),
            baseline=self.headline.baseline,
            correction=self.headline.correction,
            resamples=0,
            with_flips=False,
        )


def differences_of(
    comparison: Comparison, first: str, second: str, method: Method, metric: str
) -> Iterator[PairedDifference]:
    """Yield the differences between two runs, as value of `first` minus value of `second`.

    Args:
        comparison: A comparison of two or more runs.
        first: The label of a run.
        second: The label of another run.
        method: Only differences by this method, generation or likelihood.
        metric: Only differences in this metric; if empty, in any metric.
    """
    for difference in comparison.differences:
        is_of_both = {difference.first, difference.second} == {first, second}
        if is_of_both and difference.method == method and metric in ("", difference.metric):
            yield oriented_from(difference, first)


def overall_difference(differences: Iterable[PairedDifference]) -> PairedDifference | None:
    """Select the overall difference between two runs from all their differences in one metric.

    If there is no row over all benchmarks, the row of the only benchmark or of the only dimension takes its place and
    is relabelled as overall.

    Returns:
        The row; None if there is no such row, or if it has no value.
    """
    rows = [difference for difference in differences if difference.difference.value is not None]
    benchmark_rows = [row for row in rows if row.scope == "benchmark"]
    scopes = ["overall"]
    if len(benchmark_rows) == 1:
        scopes.append("benchmark")
    if len({row.dimension for row in benchmark_rows}) == 1:
        scopes.append("dimension")
    for scope in scopes:
        for row in rows:
            if row.scope == scope:
                return replace(row, benchmark=OVERALL, dimension=OVERALL)
    return None


def _has_any(difference: PairedDifference, labels: Collection[str]) -> bool:
    return difference.first in labels or difference.second in labels


def as_one_of(difference: PairedDifference, comparison: Comparison) -> PairedDifference:
    """Correct the p-value of one more difference between two compared runs (Bonferroni).

    It is multiplied by the number of pairs of runs in the comparison. If one of the two runs is an instrument (a
    reference such as random guessing), only pairs with an instrument count, otherwise only pairs without one.
    """
    has_instrument = _has_any(difference, comparison.instruments)
    pairs: set[frozenset[str]] = set()
    for compared in comparison.differences:
        if _has_any(compared, comparison.instruments) == has_instrument:
            pairs.add(frozenset((compared.first, compared.second)))
    n_pairs = len(pairs)
    p = 1.0 if difference.p is None else difference.p
    p_adjusted = min(1.0, n_pairs * p)
    return _as_one_of(difference, p_adjusted, n_pairs)
