"""Compare several runs on their common questions."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations, islice
from typing import NamedTuple

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
    QuestionKey,
    QuestionMeasures,
    RankInterval,
    flips,
    gain,
    is_significant,
    mean_differences,
    oriented_from,
    pair,
    question_values,
    shared_protocol,
)
from snellen.analysis.paired.same_replies import RunReplies, same_replies, without_doubts
from snellen.analysis.paired.significance import Correction, adjusted, corrected_interval
from snellen.analysis.subset import check_same_builds
from snellen.callers import for_caller
from snellen.errors import DataError
from snellen.metrics.declaration import SHARE, judging_code
from snellen.protocols.base import first_pass_of, labelled_declaration
from snellen.records import METHODS, Method
from snellen.registry import unknown_name
from snellen.runs.run_folder import RunManifest
from snellen.runs.spec import ScoringSpec
from snellen.scoring.choice_metrics import ACCURACY
from snellen.scoring.code_digests import changed_names
from snellen.scoring.scored_run import ScoredRun, run_labels

BenchmarkAndMethod = tuple[str, Method]
"""Benchmark and method."""
PairAndBenchmark = tuple[frozenset[str], str, Method]
"""Two runs by label, benchmark and method."""
MeasuresOfRun = dict[BenchmarkAndMethod, dict[str, QuestionMeasures]]
"""The values of the questions of a run, by benchmark and method, and then by protocol."""
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
        DataError: There are fewer than two runs, they are on different builds of a benchmark, or they were scored by
            different code of the user.
        UnknownNameError: No run has the label `baseline`.
    """
    if len(runs) < 2:
        raise DataError("a comparison needs at least two runs; add the folder of another run")
    check_same_builds(runs)
    _check_same_code(runs)
    labels = run_labels(runs)
    if baseline and baseline not in labels:
        raise unknown_name("run", baseline, labels)
    pairs = _pairs_to_compare(labels, baseline)

    replies = [RunReplies(run) for run in runs]
    tables_by_metric: list[list[MeasuresOfRun]] = []
    compared_by_metric: list[_ComparedPairs] = []
    uncorrected: list[PairedDifference] = []
    flipped: list[QuestionFlip] = []
    for metric in metrics or ("",):  # an empty name stands for the headline of each benchmark
        tables = [run_measures(run, metric) for run in runs]
        compared = _compare_pairs(pairs, labels, tables, replies, with_flips=with_flips)
        tables_by_metric.append(tables)
        compared_by_metric.append(compared)
        uncorrected += compared.differences
        flipped += compared.flips

    instruments: list[str] = []
    for label, run in zip(labels, runs, strict=True):
        if is_instrument(run.manifest):
            instruments.append(label)
    differences = list(_with_corrected_p_values(uncorrected, correction, instruments))

    ranks: list[RankInterval] = []
    if resamples:
        # `differences` has those of the first metric, then those of the second, and so on.
        remaining_differences = iter(differences)
        for tables, compared in zip(tables_by_metric, compared_by_metric, strict=True):
            differences_in_metric = list(islice(remaining_differences, len(compared.differences)))
            for method in METHODS:
                ranks += _rank_intervals(
                    labels=labels,
                    tables=tables,
                    compared=differences_in_metric,
                    paired_earlier=compared.paired,
                    method=method,
                    correction=correction,
                    instruments=instruments,
                    resamples=resamples,
                    seed=seed,
                )
    return Comparison(
        labels=tuple(labels),
        differences=tuple(differences),
        ranks=tuple(ranks),
        flips=tuple(flipped),
        correction=correction,
        resamples=resamples,
        partial=_benchmarks_of_some_runs(labels, runs),
        baseline=baseline,
        instruments=tuple(instruments),
    )


def _check_same_code(runs: Sequence[ScoredRun]) -> None:
    """Raise DataError if a metric, judge or extractor of the user was changed between the scorings of two runs."""
    for first, second in combinations(runs, 2):
        names = changed_names(first.code, second.code)
        if not names:
            continue
        folders = [str(run.folder) for run in (first, second)]
        flags: list[str] = []
        for metric in second.scoring.metrics:
            judge = judging_code(metric)
            flags += ["--judge", judge] if judge else ["--metric", metric]
        if second.scoring.extractor != ScoringSpec().extractor:
            flags += ["--extractor", second.scoring.extractor]
        command = f"`{shlex.join(['snellen', 'score', *folders, *flags])}`"
        again = for_caller(command, "sn.score(FOLDER, ...) for each, with the same settings")
        raise DataError(
            f"{first.folder} and {second.folder} were scored by different versions of {', '.join(names)}, so their "
            f"numbers cannot be compared; score both again: {again}"
        )


def _pairs_to_compare(labels: Sequence[str], baseline: str) -> list[tuple[int, int]]:
    """Return the pairs of runs to compare, as indexes into `labels`.

    Without a baseline these are all pairs. Otherwise they are the baseline with each other run, the baseline first.
    """
    pairs: list[tuple[int, int]] = []
    for i, j in combinations(range(len(labels)), 2):
        if not baseline:
            pairs.append((i, j))
        elif labels[j] == baseline:
            pairs.append((j, i))
        elif labels[i] == baseline:
            pairs.append((i, j))
    return pairs


class _ComparedPairs(NamedTuple):
    """The comparison of several pairs of runs in one metric, before p-values are corrected."""

    differences: list[PairedDifference]
    """Differences on each benchmark, followed by their means, for one pair after the other."""
    paired: dict[PairAndBenchmark, Paired]
    flips: list[QuestionFlip]


def _compare_pairs(
    pairs: Sequence[tuple[int, int]],
    labels: Sequence[str],
    tables: Sequence[MeasuresOfRun],
    replies: Sequence[RunReplies],
    *,
    with_flips: bool,
) -> _ComparedPairs:
    """Compare pairs of runs in one metric.

    Args:
        pairs: The pairs, as indexes of runs.
        labels: The label of each run.
        tables: The values of the questions of each run.
        replies: The replies of each run. Questions to which two runs replied alike have no uncertain difference.
        with_flips: Whether to list the questions that only one run of a pair has right.
    """
    compared = _ComparedPairs([], {}, [])
    for i, j in pairs:
        names = (labels[i], labels[j])
        common = list(common_measures([tables[i], tables[j]]))
        paired_of_runs: list[Paired] = []
        for first, second in common:
            same = same_replies(replies[i], replies[j], (first, second))
            paired = pair(names, without_doubts(first, same), without_doubts(second, same))
            all_are_same = bool(same) and same == first.keys & second.keys
            result = replace(paired.result, same_replies=all_are_same)
            paired_of_runs.append(replace(paired, result=result))
        for paired in paired_of_runs:
            compared.paired[_pair_and_benchmark(paired.result)] = paired
            compared.differences.append(paired.result)
        compared.differences.extend(_mean_differences_by_method(paired_of_runs))
        if with_flips:
            for first, second in common:
                compared.flips.extend(flips(names, first, second))
    return compared


def _rank_intervals(
    labels: Sequence[str],
    tables: Sequence[MeasuresOfRun],
    compared: Sequence[PairedDifference],
    paired_earlier: Mapping[PairAndBenchmark, Paired],
    method: Method,
    correction: Correction,
    instruments: Collection[str],
    resamples: int,
    seed: int,
) -> list[RankInterval]:
    """Rank the runs by one method, on the questions for which all of them have a value.

    Args:
        labels: The label of each run.
        tables: The values of the questions of each run.
        compared: The differences between the runs, with corrected p-values.
        paired_earlier: Paired questions of the comparison, which are reused if they are the same questions.
        method: Generation or likelihood.
        correction: Method of correction for multiple comparisons.
        instruments: Labels of the runs that are reference baselines and not models.
        resamples: Number of bootstrap resamples.
        seed: Seed of the resamples.
    """
    from snellen.analysis.paired.rank_intervals import rank_intervals

    measures_by_benchmark = [
        measures for measures in common_measures(tables) if measures[0].method == method
    ]
    differences = [difference for difference in compared if difference.method == method]
    significant_pairs = _significant_pairs(
        labels, measures_by_benchmark, differences, paired_earlier, correction, instruments
    )
    return rank_intervals(labels, measures_by_benchmark, significant_pairs, resamples, seed)


def _significant_pairs(
    labels: Sequence[str],
    benchmarks: Sequence[Sequence[QuestionMeasures]],
    compared: Sequence[PairedDifference],
    paired_earlier: Mapping[PairAndBenchmark, Paired],
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
        paired_earlier: Paired questions of earlier comparisons, which are reused if they are the same questions.
        correction: Method of correction for multiple comparisons.
        instruments: Labels of the runs that are reference baselines and not models.
    """
    common_questions: list[frozenset[QuestionKey]] = []
    for measures in benchmarks:
        keys_by_run = [measures_of_run.keys for measures_of_run in measures]
        common_questions.append(frozenset.intersection(*keys_by_run))

    differences: list[PairedDifference] = []
    for i, j in combinations(range(len(labels)), 2):
        names = (labels[i], labels[j])
        paired_of_runs: list[Paired] = []
        for measures, questions in zip(benchmarks, common_questions, strict=True):
            key = (frozenset(names), measures[0].scored.spec.name, measures[0].method)
            paired = paired_earlier.get(key)
            if paired is None or paired.result.difference.questions != len(questions):
                paired = pair(names, measures[i], measures[j], questions)
            paired_of_runs.append(paired)
        differences += [paired.result for paired in paired_of_runs]
        differences += _mean_differences_by_method(paired_of_runs)

    compared_by_pair = {_pair_key(difference): difference for difference in compared}
    significant: dict[RankedOn, list[tuple[str, str]]] = defaultdict(list)
    for difference in _with_corrected_p_values(differences, correction, instruments):
        decisive = difference
        earlier = compared_by_pair.get(_pair_key(difference))
        if earlier is not None:
            is_on_same_questions = earlier.difference.questions == difference.difference.questions
            if is_on_same_questions:
                decisive = earlier
        if not is_significant(decisive):
            continue
        if gain(decisive) > 0:
            better_and_worse = (decisive.first, decisive.second)
        else:
            better_and_worse = (decisive.second, decisive.first)
        significant[difference.benchmark, difference.dimension].append(better_and_worse)
    return significant


def _pair_and_benchmark(difference: PairedDifference) -> PairAndBenchmark:
    """Return the key of a difference on a benchmark. The order of its two runs does not matter."""
    runs = frozenset((difference.first, difference.second))
    return runs, difference.benchmark, difference.method


def _pair_key(difference: PairedDifference) -> tuple[object, ...]:
    """Return the key of a difference on a benchmark or in a dimension. The order of its two runs does not matter."""
    runs = frozenset((difference.first, difference.second))
    return runs, difference.benchmark, difference.dimension


def run_measures(run: ScoredRun, metric: str) -> MeasuresOfRun:
    """Collect the values of all questions of a run, so that it can be compared with another run.

    Args:
        run: The scored run.
        metric: A metric, or empty for the preferred metric of each benchmark.

    Returns:
        The values of the questions, by (benchmark, method) and then by protocol.
    """
    measures_by_benchmark: MeasuresOfRun = defaultdict(dict)
    corrected_number = corrected_numbers(run)
    for scored in run.benchmarks:
        metrics = [metric] if metric else headline_metrics(scored)
        measured = list(question_values(scored, metrics))
        # The preferred metric is the first of `metrics`. It comes last here, so that it overwrites the others.
        measured.sort(key=lambda measures: -metrics.index(measures.metric))
        for measures in measured:
            audited = corrected_number(scored.spec.name, measures.protocol, measures.metric)
            key = (scored.spec.name, measures.method)
            measures_by_benchmark[key][measures.protocol] = replace(measures, audited=audited)
    return measures_by_benchmark


def common_measures(
    tables: Sequence[MeasuresOfRun],
) -> Iterator[tuple[QuestionMeasures, ...]]:
    """Yield, for each benchmark and method that all runs have, the values of each run under a protocol that they share.

    If one run used a circular protocol and another one asked each question once, the accuracy of the circular run in
    the first order of options is comparable. A benchmark is skipped if the runs share no protocol, or if their
    preferred metrics differ.

    Args:
        tables: For each run, the result of `run_measures`.
    """
    for key in tables[0]:
        if not all(key in table for table in tables):
            continue
        measures_by_protocol = [table[key] for table in tables]
        protocol = shared_protocol(measures_by_protocol)
        if protocol is None:
            measures_by_protocol = [_by_first_pass(measures) for measures in measures_by_protocol]
            protocol = shared_protocol(measures_by_protocol)
        if protocol is None:
            continue
        common = tuple(measures[protocol] for measures in measures_by_protocol)
        if len({measures.metric for measures in common}) == 1:
            yield common


def _by_first_pass(measures: Mapping[str, QuestionMeasures]) -> dict[str, QuestionMeasures]:
    """Return the measures of a run, with a circular protocol under the name of the protocol that is like its first pass.

    A circular protocol asks a question several times, each time with its options in another order, and may stop at the
    first wrong reply. Its accuracy is then that of the first pass alone, and gets the name that `first_pass_of` gives
    this pass, such as `vanilla`. Other metrics, and other protocols, keep their names.

    Args:
        measures: The measures of a run in the preferred metric of a benchmark, by protocol.
    """
    measures_by_label: dict[str, QuestionMeasures] = {}
    for protocol, measure in measures.items():
        label = protocol
        has_unbiased_first_pass_only = labelled_declaration(protocol).unbiased == (0,)
        if measure.metric == ACCURACY.names[0] and has_unbiased_first_pass_only:
            label = first_pass_of(protocol)
        measures_by_label.setdefault(label, measure)
    return measures_by_label


def _mean_differences_by_method(paired: Sequence[Paired]) -> Iterator[PairedDifference]:
    """Yield the mean differences of two runs over benchmarks and dimensions, for generation and for likelihood.

    Args:
        paired: The differences of the two runs on single benchmarks.
    """
    for method in METHODS:
        paired_by_method = [each for each in paired if each.result.method == method]
        yield from mean_differences(paired_by_method)


def is_instrument(manifest: RunManifest) -> bool:
    """Return whether a run is of an instrument: a reference baseline of Snellen, such as the oracle, and not a model."""
    return manifest.model.startswith("snellen:") and "instrument" in manifest.fingerprint


def _with_corrected_p_values(
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
            corrected[index] = _with_corrected_p(differences[index], p_adjusted, n_compared)
    for index, difference in enumerate(differences):
        yield corrected.get(index, difference)


def _with_corrected_p(
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


def _benchmarks_of_some_runs(
    labels: Sequence[str], runs: Sequence[ScoredRun]
) -> dict[str, tuple[str, ...]]:
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


def correct_for_all_pairs(difference: PairedDifference, comparison: Comparison) -> PairedDifference:
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
    return _with_corrected_p(difference, p_adjusted, n_pairs)
