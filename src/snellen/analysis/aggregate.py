"""Aggregate scores into results per benchmark, slice, dimension and run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from msgspec.structs import replace

from snellen.analysis.capability import capability_rows
from snellen.analysis.corrections import corrected_rows
from snellen.analysis.coverage import member_names, missing_words, without_words
from snellen.analysis.headline import ALL, HEADLINE, bounded_mean, counted_alike
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
    estimate_mean,
    scaled_estimate,
)
from snellen.analysis.template_deviation import template_deviation
from snellen.catalogue import suite_facts
from snellen.errors import DataError
from snellen.metrics.declaration import (
    OF_ANSWERED,
    ChoiceMetric,
    ReplyMetric,
    declared,
    find_metric,
    metric_of,
    printed_unit,
)
from snellen.metrics.question_counts import QuestionCounts
from snellen.records import Convention, Estimate, Method, Prediction, Result, Score
from snellen.scoring.choice_metrics import LEGACY_INSTABILITY
from snellen.scoring.published_means import PUBLISHED_MEAN
from snellen.scoring.scored_run import ScoredBenchmark, ScoredRun, by_row, run_labels

AS_PUBLISHED_ONLY = LEGACY_INSTABILITY.names
"""Rows that only tables of a run scored as published have."""
BY_FIELD = "field_exact_match"
MAX_SLICES = 100
"""A tag with more values than this gets no slices: it differs for nearly every sample."""
RecordT = TypeVar("RecordT", Score, QuestionCounts)


def results_of(run: ScoredRun) -> list[Result]:
    """Return all rows of a run: per benchmark, tag, template, dimension and pool of benchmarks, and for all of it."""
    if run.kept_rows is not None:
        return _with_headline(run, run.kept_rows)
    model = run.manifest.model
    rows: list[Result] = []
    for benchmark in run.benchmarks:
        rows.extend(_benchmark_rows(model, benchmark))
    means = [*_means(run, rows), *capability_rows(run, rows)]
    rows.extend(means)
    for pool in pooled_benchmarks(run):
        rows.extend(_benchmark_rows(model, pool))
    rows = corrected_rows(run, rows)
    if run.convention != "standard":
        return _as_printed(run, rows)
    return [row for row in rows if row.metric not in AS_PUBLISHED_ONLY]


def _with_headline(run: ScoredRun, kept: Sequence[Result]) -> list[Result]:
    """Return kept rows, with the number of the run if they are from a version that did not have it."""
    rows = list(kept)
    if all(row.metric != HEADLINE for row in rows):
        rows.extend(row for row in capability_rows(run, kept) if row.metric == HEADLINE)
    return rows


def results_of_all(runs: Sequence[ScoredRun]) -> list[Result]:
    """Return all rows of several runs, called by their labels (`run_labels`), with the average rank of each run."""
    rows: list[Result] = []
    tables_by_convention: dict[Convention, list[list[Result]]] = defaultdict(list)
    for run, label in zip(runs, run_labels(runs), strict=True):
        table = [replace(row, model=label) for row in results_of(run)]
        rows.extend(table)
        tables_by_convention[run.convention].append(table)

    # Ranks are meaningful only among runs scored by the same rules.
    for tables in tables_by_convention.values():
        rows.extend(average_rank_rows(tables))
    return rows


def _benchmark_rows(model: str, scored: ScoredBenchmark) -> Iterator[Result]:
    yield from _score_rows(model, scored)
    yield from _pooled_rows(model, scored)
    yield from _template_rows(model, scored)


def _score_rows(model: str, scored: ScoredBenchmark) -> Iterator[Result]:
    """Yield rows of means over scores."""
    corpus_rows = {row for tally in scored.tallies for row in find_metric(tally.metric).names}
    for (protocol, method, metric), records in scored.score_rows.items():
        scores = list(records)
        place = (model, scored, protocol, method)
        if metric not in corpus_rows:
            parts = [("", scores)]
            if declared(metric).sliced:
                parts += _slices(scored, scores)
                parts += _by_answer(scored, scores, metric)
            for slice_name, members in parts:
                value = _estimate(scored, members, metric)
                row = _row(*place, metric, value, slice_name)
                yield replace(row, reason=why_withheld(value, members))
                if value.absent and not declared(metric).secondary_to:
                    present = [score for score in members if not score.absent]
                    answered = _estimate(scored, present, metric)
                    yield _row(*place, metric + OF_ANSWERED, answered, slice_name)
        if metric == BY_FIELD:
            macro = macro_estimate(
                scored, scores, lambda score: document_field(scored.samples[score.sample_id])
            )
            yield _row(*place, f"{metric}_macro", macro)
            for slice_name, members in _fields(scored, scores):
                value = mean_estimate(scored, members, metric)
                yield _row(*place, metric, value, slice_name)
        if metric == "accuracy":
            rounds = [score for score in scores if scored.samples[score.sample_id].turns]
            for name, value in trend_estimates(scored, rounds).items():
                yield _with_reason(_row(*place, name, value))


def _pooled_rows(model: str, scored: ScoredBenchmark) -> Iterator[Result]:
    """Yield rows of corpus metrics, from the summed counts of their questions."""
    tallies_by_metric: dict[tuple[str, Method, str], list[QuestionCounts]] = defaultdict(list)
    for tally in scored.tallies:
        tallies_by_metric[tally.protocol, tally.method, tally.metric].append(tally)
    for (protocol, method, metric), tallied in tallies_by_metric.items():
        place = (model, scored, protocol, method)
        parts = [("", tallied)]
        if (
            metric != PUBLISHED_MEAN
        ):  # it weighs the parts of a benchmark, and a slice has few of them
            parts += _slices(scored, tallied)
            parts += _by_answer(scored, tallied, find_metric(metric).names[0])
        for slice_name, members in parts:
            for name, value in corpus_estimates(scored, members).items():
                if declared(name).sliced or not slice_name:
                    yield _with_reason(_row(*place, name, value, slice_name))
            answered = [tally for tally in members if not tally.absent]
            if answered and len(answered) < len(members):
                for name, value in corpus_estimates(scored, answered).items():
                    yield _row(*place, name + OF_ANSWERED, value, slice_name)


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
    """Accuracy per template and its standard deviation over templates."""
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
        values = {name: [value for value, _ in pairs] for name, pairs in by_template.items()}
        deviation = template_deviation(values)
        yield _row(model, scored, protocol, method, "template_deviation", deviation)


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
    """Yield means over the benchmarks of a dimension, and over all benchmarks, for rows that declare a scale.

    Questions have equal weight if all suites concerned say so and the metric is a mean over questions, else benchmarks.
    """
    specs = {scored.spec.name: scored.spec for scored in run.benchmarks}
    groups: dict[tuple[str, Method, str, str], list[Result]] = defaultdict(list)
    for row in rows:
        if not row.slice and declared(row.metric).scale:
            key = (row.protocol, row.method, row.metric)
            if row.dimension:
                groups[*key, row.dimension].append(row)
            groups[*key, ALL].append(row)

    for (protocol, method, metric, dimension), results in groups.items():
        declaration = declared(metric)
        pooled = None
        if counted_alike(specs[result.benchmark] for result in results) == "questions":
            pooled = mean_over_questions(run, results)
        value = pooled or bounded_mean([result.estimate for result in results], declaration)

        names = [result.benchmark for result in results if result.estimate.value is not None]
        if isinstance(metric_of(metric), ChoiceMetric):
            scope = "" if dimension == ALL else dimension
            partial = missing_words(run, names, value, with_options=True, dimension=scope)
        else:
            partial = without_words({result.benchmark for result in results}.difference(names))

        reason = None
        if value.value is None:
            reason = next((result.reason for result in results if result.reason), None)
        suites = {result.suite for result in results}
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
            reason=reason,
            over="questions" if pooled else "benchmarks",
            members=member_names(run, names),
            partial=partial,
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
    kinds = [set(map(_kind, m.scores)) | set(map(_kind, m.tallies)) for m in members]
    # The parts of a published mean are those of one benchmark, so that there is no such mean of a pool.
    common = {kind for kind in set.intersection(*kinds) if kind[1] != PUBLISHED_MEAN}

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
