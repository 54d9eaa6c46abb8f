"""From scores to results: one row per metric, for each benchmark, slice and dimension, and overall.

The spread between the best and the worst template, without the part that is chance alone.

Of several equally good templates one comes out best and one worst by noise, so best minus worst is above zero even
for a model that templates do not affect. Here the best and the worst are chosen on some pictures and compared on the
others (cross-fitting; Chernozhukov et al. 2018, definition 3.1), where chance favours neither.
"""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from operator import or_
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from snellen.analysis.audit.correction import audit_of, corrected_rows
from snellen.analysis.capability import (
    ALL,
    bounded_mean,
    capability_rows,
    counted_alike,
    member_names,
    missing_words,
    without_words,
)
from snellen.analysis.linearisation import (
    FIELD_TAG,
    corpus_estimates,
    document_field,
    macro_estimate,
    trend_estimates,
)
from snellen.analysis.question_means import mean_estimate, mean_over_questions, why_withheld
from snellen.analysis.ranks import average_rank_rows
from snellen.analysis.statistics import (
    CONFIDENCE,
    GroupSpread,
    estimate_mean,
    group_spread,
    interval_of,
    scaled_estimate,
    student_t,
)
from snellen.catalogue import suite_facts
from snellen.common.seeds import rng_for
from snellen.errors import DataError
from snellen.metrics.declaration import (
    OF_ANSWERED,
    ChoiceMetric,
    Metric,
    ReplyMetric,
    declared,
    metric_of,
    printed_unit,
    share,
)
from snellen.records import Estimate, Method, Prediction, Result, Score
from snellen.scoring.questions import QuestionCounts
from snellen.scoring.scored_run import ScoredBenchmark, ScoredRun, by_row, run_labels
from snellen.scoring.text_scoring import metric_row_names

FOLDS = 10
SPREAD_BOUNDS = (-1.0, 1.0)
Shares = Mapping[str, Sequence[tuple[float, str]]]
"""By template: for each presentation, 1 if right else 0, and its group (picture)."""


def template_spread(shares: Shares, *seed: str) -> Estimate:
    """Accuracy of the best template minus that of the worst, chosen on other groups than they are compared on.

    Its expectation is 0 when templates make no difference, so it can come out below 0. The interval involves no
    choice: the true spread is at least the true difference of any two templates, so it begins at the largest of their
    lower limits (Bonferroni over ordered pairs) and ends at the largest of their upper limits. `n` is the number of
    presentations compared. No value where a template was shown for fewer than two groups.
    """
    groups = sorted({group for pairs in shares.values() for _, group in pairs})
    fold_of = _folds(groups, seed)
    parts = _by_fold(shares, fold_of)
    totals = {
        name: [(math.fsum(value for value, _ in pairs), len(pairs)) for pairs in by_fold]
        for name, by_fold in parts.items()
    }
    best: list[tuple[float, str]] = []
    worst: list[tuple[float, str]] = []
    for fold in range(FOLDS):
        ranked = _ranked(totals, fold)
        if ranked:
            best += parts[ranked[-1]][fold]
            worst += parts[ranked[0]][fold]
    if not best or not worst or len({group for _, group in best + worst}) < 2:
        return Estimate(None, None, None, None, 0)
    places = {group: place for place, group in enumerate(groups)}
    value, spread = _difference(_shifts(best, places), _shifts(worst, places))
    low, high = _limits([_shifts(pairs, places) for pairs in shares.values()])
    n = min(len(best), len(worst))
    return Estimate(value, spread.error, min(low, value), max(high, value), n, groups=spread.groups)


class _Shifts(Struct, frozen=True):
    """The mean over some presentations, how far each group moves it, and which groups they are of (others move it
    by 0)."""

    mean: float
    by_group: array[float]
    has: bytearray


def _limits(templates: Sequence[_Shifts]) -> tuple[float, float]:
    lows, highs = list[float](), list[float]()
    for first, second in combinations(templates, 2):
        value, spread = _difference(first, second)
        # In the other order the difference is the negative, and its spread the same.
        for difference in (value, -value):
            low, high = interval_of(difference, spread, SPREAD_BOUNDS)
            if low is None or high is None:
                return SPREAD_BOUNDS
            ordered = len(templates) * (len(templates) - 1)
            apart = student_t(spread.df, 1 - (1 - CONFIDENCE) / ordered) / student_t(spread.df)
            lows.append(difference - apart * (difference - low))
            highs.append(high)
    return max(SPREAD_BOUNDS[0], *lows), max(highs)


def _folds(groups: Sequence[str], seed: Sequence[str]) -> dict[str, int]:
    order = list(groups)
    rng_for(*seed, "template spread").shuffle(order)
    return {group: place % FOLDS for place, group in enumerate(order)}


def _by_fold(
    shares: Shares, fold_of: Mapping[str, int]
) -> dict[str, list[list[tuple[float, str]]]]:
    """For each template its presentations in each fold."""
    parts: dict[str, list[list[tuple[float, str]]]] = {
        name: [[] for _ in range(FOLDS)] for name in shares
    }
    for name, pairs in shares.items():
        for pair in pairs:
            parts[name][fold_of[pair[1]]].append(pair)
    return parts


def _ranked(totals: Mapping[str, Sequence[tuple[float, int]]], fold: int) -> list[str]:
    """Templates from worst to best on all other folds; empty if one of them does not occur there.

    `totals` has for each template and fold the sum of the values and their number.
    """
    means = {}
    for template, by_fold in totals.items():
        other_totals = [total for number, total in enumerate(by_fold) if number != fold]
        count = sum(number for _, number in other_totals)
        if not count:
            return []
        means[template] = math.fsum(value for value, _ in other_totals) / count
    return sorted(means, key=lambda template: (means[template], template))


def _shifts(pairs: Sequence[tuple[float, str]], places: Mapping[str, int]) -> _Shifts:
    """Of presentations; `places` says where each group stands."""
    count = len(pairs)
    mean = math.fsum(value for value, _ in pairs) / count
    by_group, has = array("d", bytes(8 * len(places))), bytearray(len(places))
    for value, group in pairs:
        place = places[group]
        by_group[place] += (value - mean) / count
        has[place] = True
    return _Shifts(mean, by_group, has)


def _difference(first: _Shifts, second: _Shifts) -> tuple[float, GroupSpread]:
    """Difference of two means, paired by the groups that both have."""
    groups = [
        place for place, is_measured in enumerate(map(or_, first.has, second.has)) if is_measured
    ]
    minuend, subtrahend = first.by_group, second.by_group
    return first.mean - second.mean, group_spread(
        array("d", (minuend[g] - subtrahend[g] for g in groups)), groups
    )


BY_FIELD = "field_exact_match"
MAX_SLICES = 100
"""A tag with more values than this gets no slices: it differs for nearly every sample."""
RecordT = TypeVar("RecordT", Score, QuestionCounts)
TEMPLATE_SPREAD = Metric(
    what="accuracy of the best template minus that of the worst, chosen on other pictures, so that it can be below 0 "
    "(arXiv 2310.02569, Table 25)",
    rows=(share("template_spread", better="lower", scale="", unparsed="wrong"),),
)


def results_of(run: ScoredRun) -> list[Result]:
    """All rows of a run: per benchmark, per tag and template, per dimension, overall, per pool of benchmarks."""
    if run.kept_rows is not None:
        return list(run.kept_rows)
    rows = [
        row
        for benchmark in run.benchmarks
        for row in _benchmark_rows(run.manifest.model, benchmark)
    ]
    pooled = [
        row for pool in pooled_benchmarks(run) for row in _benchmark_rows(run.manifest.model, pool)
    ]
    rows += [*_means(run, rows), *capability_rows(run, rows), *pooled]
    rows += corrected_rows(run, list(rows), audit_of(run))
    return rows if run.convention == "standard" else _as_printed(run, rows)


def results_of_all(runs: Sequence[ScoredRun]) -> list[Result]:
    """All rows of the runs to compare, which they name by `run_labels`; with each run's average rank among those scored
    by the same rules."""
    tables = [
        [replace(row, model=label) for row in results_of(run)]
        for label, run in zip(run_labels(runs), runs, strict=True)
    ]
    conventions = dict.fromkeys(run.convention for run in runs)
    alike = [
        [table for table, run in zip(tables, runs, strict=True) if run.convention == convention]
        for convention in conventions
    ]
    return [
        *(row for table in tables for row in table),
        *(row for comparable in alike for row in average_rank_rows(comparable)),
    ]


def _benchmark_rows(model: str, scored: ScoredBenchmark) -> Iterator[Result]:
    yield from _score_rows(model, scored)
    yield from _pooled_rows(model, scored)
    yield from _template_rows(model, scored)


def _score_rows(model: str, scored: ScoredBenchmark) -> Iterator[Result]:
    """Rows of means over scores."""
    corpus_rows = {row for tally in scored.tallies for row in metric_row_names(tally.metric)}
    for (protocol, method, metric), records in scored.score_rows.items():
        scores = list(records)
        if metric not in corpus_rows:
            whole = ("", scores)
            for slice_name, members in (
                whole,
                *_slices(scored, scores),
                *_by_answer(scored, scores, metric),
            ):
                value = _estimate(scored, members, metric)
                row = _row(model, scored, protocol, method, metric, value, slice_name)
                yield replace(row, reason=why_withheld(value, members))
                if value.absent and not declared(metric).secondary_to:
                    answered = _estimate(
                        scored, [score for score in members if not score.absent], metric
                    )
                    yield _row(
                        model, scored, protocol, method, metric + OF_ANSWERED, answered, slice_name
                    )
        if metric == BY_FIELD:
            macro = macro_estimate(
                scored, scores, lambda score: document_field(scored.samples[score.sample_id])
            )
            yield _row(model, scored, protocol, method, f"{metric}_macro", macro)
            for slice_name, members in _fields(scored, scores):
                yield _row(
                    model,
                    scored,
                    protocol,
                    method,
                    metric,
                    mean_estimate(scored, members, metric),
                    slice_name,
                )
        if metric == "accuracy":
            rounds = [score for score in scores if scored.samples[score.sample_id].turns]
            for name, value in trend_estimates(scored, rounds).items():
                yield _with_reason(_row(model, scored, protocol, method, name, value))


def _pooled_rows(model: str, scored: ScoredBenchmark) -> Iterator[Result]:
    """Rows of corpus metrics, from the summed counts of their questions."""
    tallies_by_metric: dict[tuple[str, Method, str], list[QuestionCounts]] = defaultdict(list)
    for tally in scored.tallies:
        tallies_by_metric[tally.protocol, tally.method, tally.metric].append(tally)
    for (protocol, method, metric), tallied in tallies_by_metric.items():
        by_answer = _by_answer(scored, tallied, metric_row_names(metric)[0])
        for slice_name, members in (("", tallied), *_slices(scored, tallied), *by_answer):
            for name, value in corpus_estimates(scored, members).items():
                yield _with_reason(_row(model, scored, protocol, method, name, value, slice_name))
            if len(answered := [tally for tally in members if not tally.absent]) < len(members):
                for name, value in corpus_estimates(scored, answered).items() if answered else ():
                    yield _row(
                        model, scored, protocol, method, name + OF_ANSWERED, value, slice_name
                    )


def _with_reason(row: Result) -> Result:
    """The row of sums, with why there is none although questions were counted: not of these replies, or this slice."""
    if row.estimate.value is not None or not row.estimate.n:
        return row
    return replace(row, reason="metric undefined", detail=declared(row.metric).undefined)


def _row(
    model: str,
    scored: ScoredBenchmark,
    protocol: str,
    method: Method,
    metric: str,
    value: Estimate,
    slice_: str = "",
) -> Result:
    spec, row = scored.spec, declared(metric)
    return Result(
        model,
        spec.name,
        protocol,
        method,
        metric,
        value,
        spec.dimension,
        spec.suite,
        slice_,
        row.unit,
        row.better,
    )


def _estimate(scored: ScoredBenchmark, scores: Sequence[Score], metric: str) -> Estimate:
    """The number of one metric over these scores, by the mean that it declares."""
    declaring = metric_of(metric)
    if isinstance(declaring, ReplyMetric) and declaring.mean_over == "answers":
        if scored.golds_absent:
            raise DataError(
                f"{metric} is a mean over answers, and those of {scored.spec.name} are not here"
            )
        return macro_estimate(scored, scores, lambda score: _first_gold(scored, score))
    return mean_estimate(scored, scores, metric)


def _by_answer(
    scored: ScoredBenchmark, records: Sequence[RecordT], metric: str
) -> Iterator[tuple[str, list[RecordT]]]:
    """Records by the first gold of their question, for a metric that declares it; none with too many golds."""
    declaring = metric_of(metric)
    if declaring is None or not declaring.by_answer:
        return
    by_gold: dict[str, list[RecordT]] = defaultdict(list)
    for record in records:
        if gold := _first_gold(scored, record):
            by_gold[gold].append(record)
    if len(by_gold) <= MAX_SLICES:
        yield from ((f"answer={gold}", members) for gold, members in sorted(by_gold.items()))


def _first_gold(scored: ScoredBenchmark, record: Score | QuestionCounts) -> str:
    """The gold that is a question's class; empty when it is hidden."""
    answer = scored.answers.get((record.sample_id, record.turn))
    if answer is None:
        return ""
    options = scored.samples[record.sample_id].rounds[record.turn].options
    return options[answer.options[0]] if answer.options else answer.texts[0]


def _slices(
    scored: ScoredBenchmark, scores: Sequence[RecordT]
) -> Iterator[tuple[str, list[RecordT]]]:
    """Scores by each value of each tag, and by round of a dialogue."""
    tags: dict[str, dict[str, list[RecordT]]] = defaultdict(lambda: defaultdict(list))
    for score in scores:
        sample = scored.samples[score.sample_id]
        for name, value in sample.tags.items():
            tags[name][value].append(score)
        if sample.turns:
            tags["round"][str(score.turn + 1)].append(score)
    for name, by_value in sorted(tags.items()):
        if len(by_value) <= MAX_SLICES:
            yield from ((f"{name}={value}", members) for value, members in sorted(by_value.items()))


def _fields(scored: ScoredBenchmark, scores: Sequence[Score]) -> Iterator[tuple[str, list[Score]]]:
    """Scores grouped by question text, for documents without a tag that names the field asked for."""
    if FIELD_TAG in {name for sample in scored.samples.values() for name in sample.tags}:
        return
    fields: dict[str, list[Score]] = defaultdict(list)
    for score in scores:
        fields[document_field(scored.samples[score.sample_id])].append(score)
    if len(fields) <= MAX_SLICES:
        yield from (
            (f"question={question}", members) for question, members in sorted(fields.items())
        )


def _template_rows(model: str, scored: ScoredBenchmark) -> Iterator[Result]:
    """Accuracy per template and the spread between the best and the worst (ReForm-Eval, Table 25)."""
    templates = (prediction.variant.template for prediction in scored.predictions)
    first = next(templates, "")
    if all(template == first for template in templates):
        return
    right: dict[tuple[str, Method], dict[str, list[tuple[float, str]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    shared_pairs: dict[
        float, tuple[float, str]
    ] = {}  # of one sample, whose presentations follow one another
    sample_id = None
    for prediction, value in scored_predictions(scored):
        if prediction.sample_id != sample_id:
            sample_id = prediction.sample_id
            shared_pairs = {}
        pair = shared_pairs.get(value) or shared_pairs.setdefault(
            value, (value, scored.samples[prediction.sample_id].group)
        )
        right[prediction.protocol, prediction.method][prediction.variant.template].append(pair)
    for (protocol, method), by_template in right.items():
        if len(by_template) < 2:
            continue
        for template, pairs in sorted(by_template.items()):
            share = estimate_mean([value for value, _ in pairs], [group for _, group in pairs])
            yield _row(model, scored, protocol, method, "accuracy", share, f"template={template}")
        spread = template_spread(by_template, scored.spec.name, protocol)
        yield _row(model, scored, protocol, method, "template_spread", spread)


def scored_predictions(scored: ScoredBenchmark) -> Iterator[tuple[Prediction, float]]:
    """Each answered presentation with a known gold, and 1 if its choice is correct, 0 if it is wrong or unparsed."""
    for prediction in scored.predictions:
        if (value := value_of(scored, prediction)) is not None:
            yield prediction, value


def value_of(scored: ScoredBenchmark, prediction: Prediction) -> float | None:
    """1 if the choice of an answered presentation is correct, 0 if it is wrong or unparsed; None without a gold."""
    answer = scored.answers.get((prediction.sample_id, prediction.turn))
    if not answer or not answer.options or prediction.error is not None:
        return None
    return float(prediction.choice in answer.options)


def _means(run: ScoredRun, rows: Sequence[Result]) -> Iterator[Result]:
    """Means over the benchmarks of a dimension, and over all benchmarks, for rows that declare a scale.

    Questions count alike where all suites concerned say so and the metric is a mean over questions, else benchmarks.
    """
    specs = {scored.spec.name: scored.spec for scored in run.benchmarks}
    groups: dict[tuple[str, Method, str, str], list[Result]] = defaultdict(list)
    for row in rows:
        if not row.slice and declared(row.metric).scale:
            key = (row.protocol, row.method, row.metric)
            groups[*key, row.dimension].append(row)
            groups[*key, ALL].append(row)
    for (protocol, method, metric, dimension), results in groups.items():
        declaration = declared(metric)
        over = counted_alike(specs[result.benchmark] for result in results)
        pooled = mean_over_questions(run, results) if over == "questions" else None
        value = pooled or bounded_mean([result.estimate for result in results], declaration)
        suites, reasons = (
            {result.suite for result in results},
            (result.reason for result in results),
        )
        names = [result.benchmark for result in results if result.estimate.value is not None]
        scope = "" if dimension == ALL else dimension
        yield Result(
            run.manifest.model,
            ALL,
            protocol,
            method,
            metric,
            value,
            dimension,
            suites.pop() if len(suites) == 1 else "",
            "",
            declaration.unit,
            declaration.better,
            reason=next(filter(None, reasons), None) if value.value is None else None,
            over="questions" if pooled else "benchmarks",
            members=member_names(run, names),
            partial=missing_words(run, names, value, with_options=True, dimension=scope)
            if isinstance(metric_of(metric), ChoiceMetric)
            else without_words({result.benchmark for result in results}.difference(names)),
        )


def _as_printed(run: ScoredRun, rows: Sequence[Result]) -> list[Result]:
    """The rows, marked as published, on the scale that each benchmark's suite prints its unit in.

    A mean over benchmarks is on their scale if they share one, else unscaled.
    """
    everything = (*run.benchmarks, *pooled_benchmarks(run))
    scales = {
        scored.spec.name: scored.published.scale if scored.published else {}
        for scored in everything
    }

    def factor(row: Result) -> float:
        factors = {
            scale.get(row.unit, 1.0)
            for name, scale in scales.items()
            if row.benchmark in (name, ALL)
        }
        return factors.pop() if len(factors) == 1 else 1.0

    return [_printed(replace(row, convention=run.convention), factor(row)) for row in rows]


def _printed(row: Result, factor: float) -> Result:
    if factor == 1:
        return row
    return replace(
        row, estimate=scaled_estimate(row.estimate, factor), unit=printed_unit(row.unit, factor)
    )


# --- pools of benchmarks ---------------------------------------------------------------------------------------------
# Questions of several of them about one picture stay one group, so that the interval knows what they share.


def pooled_benchmarks(run: ScoredRun) -> Iterator[ScoredBenchmark]:
    """The pools of which the run has every benchmark, each as a benchmark of its own, named SUITE/POOL."""
    scored = {benchmark.spec.name: benchmark for benchmark in run.benchmarks}
    for suite in suite_facts().values():
        for pool, shorts in suite.pools.items():
            members = [
                scored[name] for short in shorts if (name := f"{suite.name}/{short}") in scored
            ]
            if len(members) == len(shorts):
                yield _pooled(f"{suite.name}/{pool}", members)


def _pooled(name: str, members: Sequence[ScoredBenchmark]) -> ScoredBenchmark:
    """All questions of the members under ids that name their benchmark, with the numbers that every member has."""
    common = set.intersection(
        *(set(map(_kind, m.scores)) | set(map(_kind, m.tallies)) for m in members)
    )

    def own(member: ScoredBenchmark, sample: str) -> str:
        return f"{member.spec.name}/{sample}"

    def renamed(member: ScoredBenchmark, records: Iterable[RecordT]) -> Iterator[RecordT]:
        for record in records:
            if _kind(record) in common:
                yield replace(record, sample_id=own(member, record.sample_id))

    return ScoredBenchmark(
        spec=replace(members[0].spec, name=name),
        samples={
            own(m, key): replace(sample, id=own(m, key))
            for m in members
            for key, sample in m.samples.items()
        },
        predictions=(),
        score_rows=by_row(record for m in members for record in renamed(m, m.scores)),
        answers={
            (own(m, key), turn): answer
            for m in members
            for (key, turn), answer in m.answers.items()
        },
        tallies=tuple(record for m in members for record in renamed(m, m.tallies)),
        published=members[0].published,
    )


def _kind(record: Score | QuestionCounts) -> tuple[str, str]:
    return record.protocol, record.metric
