"""One run against each of some others: the mean difference over all that both were asked, and by dimension."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from snellen.analysis.capability import ALL
from snellen.analysis.coverage import counted_alike
from snellen.analysis.paired.comparison import common_measures, run_measures
from snellen.analysis.paired.differences import Paired, mean_differences, mean_of_pairs, pair
from snellen.analysis.paired.records import PairedDifference
from snellen.analysis.paired.significance import adjusted
from snellen.analysis.subset import check_same_builds
from snellen.records import Method
from snellen.scoring.scored_run import ScoredRun


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
    differences = _corrected(overall, len(runs) * (len(runs) - 1) // 2)
    if len(runs) == 2:
        means = [mean for pairs in paired.values() for mean in mean_differences(pairs) if mean.scope == "dimension"]
        differences += _corrected(means, len(means))
    return differences


def _overall(run: ScoredRun, pairs: Sequence[Paired]) -> PairedDifference | None:
    """Benchmarks count alike, or questions where the suites say so."""
    usable = [paired for paired in pairs if paired.result.difference.value is not None]
    names = {paired.result.benchmark for paired in usable}
    specs = [scored.spec for scored in run.benchmarks if scored.spec.name in names]
    mean = mean_of_pairs(usable, ALL, by_questions=counted_alike(specs) == "questions") if usable else None
    return mean.result if mean else None


def _corrected(differences: Sequence[PairedDifference], family: int) -> list[PairedDifference]:
    """With p-values corrected for a family of comparisons; one that was not made counts as one that showed nothing."""
    p_values = [1.0 if difference.p is None else difference.p for difference in differences]
    corrected = adjusted([*p_values, *[1.0] * (family - len(differences))])
    return [replace(difference, p_adjusted=p) for difference, p in zip(differences, corrected, strict=False)]
