"""Several runs compared on common questions, in one record."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations

from msgspec.structs import replace

from snellen.analysis.capability import ALL, counted_alike, headlines_of
from snellen.analysis.paired.differences import (
    RESAMPLES,
    Comparison,
    Paired,
    PairedDifference,
    QuestionFlip,
    QuestionMeasures,
    RankInterval,
    flips,
    mean_differences,
    mean_of_pairs,
    pair,
    question_values,
    shared_protocol,
)
from snellen.analysis.paired.significance import Correction, adjusted
from snellen.analysis.subset import check_same_builds
from snellen.common.late import import_extra
from snellen.errors import DataError
from snellen.records import METHODS, Method
from snellen.registry import unknown
from snellen.scoring.scored_run import ScoredRun, run_labels

Place = tuple[str, Method]
"""Benchmark and method."""


def compare_runs(
    runs: Sequence[ScoredRun],
    *,
    metrics: Sequence[str] = (),
    baseline: str = "",
    correction: Correction = "holm",
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Comparison:
    """Compare runs question by question.

    Each benchmark counts by its headline metric, or by each of `metrics`, under the preferred protocol that both runs
    have. All pairs are compared, or with the label of a run as `baseline` that one with each other. Without `resamples`
    there are no ranks, which need numpy. Raises DataError for fewer than two runs and for runs on different builds of a
    benchmark, UnknownNameError for a label that no run has, MissingExtraError without numpy.
    """
    if len(runs) < 2:
        raise DataError("a comparison needs two runs or more; name another run's folder")
    check_same_builds(runs)
    labels = run_labels(runs)
    if baseline and baseline not in labels:
        raise unknown("run", baseline, labels)
    pairs = [(i, j) for i, j in combinations(range(len(runs)), 2) if baseline in ("", labels[i], labels[j])]
    pairs = [(j, i) if labels[j] == baseline else (i, j) for i, j in pairs]
    differences: list[PairedDifference] = []
    flipped: list[QuestionFlip] = []
    ranks: list[RankInterval] = []
    for metric in metrics or ("",):
        tables = [run_measures(run, metric) for run in runs]
        for i, j in pairs:
            names = labels[i], labels[j]
            common = list(common_measures([tables[i], tables[j]]))
            paired = [pair(names, first, second) for first, second in common]
            differences += [*(pairing.result for pairing in paired), *_means(paired)]
            flipped += [flip for first, second in common for flip in flips(names, first, second)]
        for method in METHODS if resamples else ():
            everywhere = [measures for measures in common_measures(tables) if measures[0].method == method]
            ranks += _rank_intervals(labels, everywhere, resamples, seed)
    return Comparison(
        tuple(labels), tuple(_corrected(differences, correction)), tuple(ranks), tuple(flipped), correction, resamples,
        _partial(labels, runs),
    )  # fmt: skip


def _rank_intervals(
    labels: Sequence[str], benchmarks: Sequence[Sequence[QuestionMeasures]], resamples: int, seed: int
) -> list[RankInterval]:
    import_extra("numpy", "metrics", "rank intervals")
    from snellen.analysis.paired.rank_intervals import rank_intervals

    return rank_intervals(labels, benchmarks, resamples, seed)


def run_measures(run: ScoredRun, metric: str) -> dict[Place, dict[str, QuestionMeasures]]:
    """What a run measured on each benchmark by each method, by protocol: one metric, or the benchmark's headline."""
    table: dict[Place, dict[str, QuestionMeasures]] = defaultdict(dict)
    for scored in run.benchmarks:
        names = [metric] if metric else headlines_of(scored)
        measured = list(question_values(scored, names))
        for measures in sorted(measured, key=lambda values: -names.index(values.metric)):
            table[scored.spec.name, measures.method][measures.protocol] = measures
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
        yield from mean_differences([pairing for pairing in paired if pairing.result.method == method])


def _corrected(differences: Sequence[PairedDifference], correction: Correction) -> Iterator[PairedDifference]:
    """p-values adjusted within each scope: all benchmarks, all dimensions, all overall differences."""
    by_scope: dict[str, list[int]] = defaultdict(list)
    for i, difference in enumerate(differences):
        if difference.p is not None:
            by_scope[difference.scope].append(i)
    corrected: dict[int, float] = {}
    for places in by_scope.values():
        corrected |= zip(places, adjusted([differences[i].p or 0.0 for i in places], correction), strict=True)
    for i, difference in enumerate(differences):
        yield replace(difference, p_adjusted=corrected.get(i))


def _partial(labels: Sequence[str], runs: Sequence[ScoredRun]) -> dict[str, tuple[str, ...]]:
    holders: dict[str, list[str]] = defaultdict(list)
    for label, run in zip(labels, runs, strict=True):
        for scored in run.benchmarks:
            holders[scored.spec.name].append(label)
    return {name: tuple(has) for name, has in holders.items() if len(has) < len(labels)}


# --- one run against each of some others ------------------------------------------------------------------------------


def differences_from(
    runs: Sequence[ScoredRun], labels: Sequence[str], first: int, metric: str, method: Method
) -> list[PairedDifference]:
    """How much better the run at place `first` is than each other one, in one metric: over all common benchmarks.

    p-values are corrected by Holm as if all pairs of runs had been compared, so that `first` may be the run that did
    best. With two runs the differences by dimension follow, corrected by themselves. Raises DataError for runs on
    different builds of a benchmark.
    """
    check_same_builds(runs)
    tables = [run_measures(run, metric) for run in runs]
    paired = {
        i: [
            pair((labels[first], labels[i]), *measures)
            for measures in common_measures([tables[first], tables[i]])
            if measures[0].method == method
        ]
        for i in range(len(runs))
        if i != first
    }
    overall = [difference for pairs in paired.values() if (difference := _overall(runs[first], pairs))]
    differences = _corrected_as_one_of(overall, len(runs) * (len(runs) - 1) // 2)
    if len(runs) == 2:
        means = [mean for pairs in paired.values() for mean in mean_differences(pairs) if mean.scope == "dimension"]
        differences += _corrected_as_one_of(means, len(means))
    return differences


def _overall(run: ScoredRun, pairs: Sequence[Paired]) -> PairedDifference | None:
    """Benchmarks count alike, or questions where the suites say so."""
    usable = [paired for paired in pairs if paired.result.difference.value is not None]
    names = {paired.result.benchmark for paired in usable}
    specs = [scored.spec for scored in run.benchmarks if scored.spec.name in names]
    mean = mean_of_pairs(usable, ALL, by_questions=counted_alike(specs) == "questions") if usable else None
    return mean.result if mean else None


def _corrected_as_one_of(differences: Sequence[PairedDifference], family: int) -> list[PairedDifference]:
    """With p-values corrected for a family of comparisons; one that was not made counts as one that showed nothing."""
    p_values = [1.0 if difference.p is None else difference.p for difference in differences]
    corrected = adjusted([*p_values, *[1.0] * (family - len(differences))])
    return [replace(difference, p_adjusted=p) for difference, p in zip(differences, corrected, strict=False)]
