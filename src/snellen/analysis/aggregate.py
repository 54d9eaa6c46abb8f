"""From scores to results: a row a metric, for benchmarks, their slices, dimensions and the whole."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from msgspec.structs import asdict, replace

from snellen.analysis.as_published import as_printed
from snellen.analysis.capability import ALL, capability_rows, scaled_mean
from snellen.analysis.linearisation import (
    FIELD_TAG,
    corpus_estimates,
    field_of,
    macro_estimate,
    trend_estimates,
)
from snellen.analysis.ranks import average_rank_rows
from snellen.analysis.statistics import Bounds, estimate_mean
from snellen.analysis.template_spread import template_spread
from snellen.metrics.declaration import Metric, MetricRow, declared, share
from snellen.records import Estimate, Method, Prediction, Result, Score
from snellen.scoring.corpus_counts import QuestionCounts
from snellen.scoring.scored_run import ScoredBenchmark, ScoredRun, run_labels
from snellen.scoring.text_scoring import rows_of

BY_FIELD = "field_exact_match"
MOST_PARTS = 100
"""A tag that is different for nearly every sample tells nothing by itself."""
PartT = TypeVar("PartT", Score, QuestionCounts)
TEMPLATE_SPREAD = Metric(
    what="best minus worst accuracy over templates (arXiv 2310.02569, Table 25)",
    rows=(share("template_spread", better="lower", scale="", unparsed="wrong"),),
)


def results_of(run: ScoredRun) -> list[Result]:
    """All rows of a run: per benchmark, per tag and template, per dimension, overall."""
    rows = [row for benchmark in run.benchmarks for row in _benchmark_rows(run.manifest.model, benchmark)]
    rows += [*_means(rows), *capability_rows(run, rows)]
    return rows if run.convention == "standard" else as_printed(run, rows)


def results_of_all(runs: Sequence[ScoredRun]) -> list[Result]:
    """All rows of several runs that are compared, with the average rank of each; their models are `run_labels`."""
    tables = [
        [replace(row, model=label) for row in results_of(run)]
        for label, run in zip(run_labels(runs), runs, strict=True)
    ]
    return [*(row for table in tables for row in table), *average_rank_rows(tables)]


def _benchmark_rows(model: str, scored: ScoredBenchmark) -> Iterator[Result]:
    by: dict[tuple[str, Method, str], list[Score]] = defaultdict(list)
    for score in scored.scores:
        by[score.protocol, score.method, score.metric].append(score)
    whole = {row for tally in scored.tallies for row in rows_of(tally.metric)}
    for (protocol, method, metric), scores in by.items():
        for part, chosen in (("", scores), *_slices(scored, scores)) if metric not in whole else ():
            yield _row(model, scored, protocol, method, metric, estimated(scored, chosen, metric), part)
        if metric == BY_FIELD:
            yield _row(model, scored, protocol, method, f"{metric}_macro", macro_estimate(scored, scores))
            for part, chosen in _fields(scored, scores):
                yield _row(model, scored, protocol, method, metric, estimated(scored, chosen, metric), part)
        if metric == "accuracy":
            rounds = [score for score in scores if scored.samples[score.sample_id].turns]
            for name, value in trend_estimates(scored, rounds).items():
                yield _row(model, scored, protocol, method, name, value)
    yield from _pooled_rows(model, scored)
    yield from _template_rows(model, scored)


def _pooled_rows(model: str, scored: ScoredBenchmark) -> Iterator[Result]:
    """Rows of metrics of the whole, from the summed counts of their questions."""
    by: dict[tuple[str, Method, str], list[QuestionCounts]] = defaultdict(list)
    for tally in scored.tallies:
        by[tally.protocol, tally.method, tally.metric].append(tally)
    for (protocol, method, _), tallied in by.items():
        for part, chosen in (("", tallied), *_slices(scored, tallied)):
            for name, value in corpus_estimates(scored, chosen).items():
                yield _row(model, scored, protocol, method, name, value, part)


def _row(
    model: str, scored: ScoredBenchmark, protocol: str, method: Method, metric: str, value: Estimate, part: str = ""
) -> Result:
    spec, row = scored.spec, declared(metric)
    return Result(
        model, spec.name, protocol, method, metric, value, spec.dimension, spec.suite, part, row.unit, row.better
    )


def estimated(scored: ScoredBenchmark, scores: Sequence[Score], metric: str) -> Estimate:
    """The mean of one metric over these scores, with its interval."""
    known = [score for score in scores if score.value is not None]
    errors = sum(score.never_answered for score in scores)
    row = declared(metric)
    return estimate_mean(
        [score.value for score in known if score.value is not None],
        [scored.samples[score.sample_id].group for score in known],
        bounds=_bounds(scored, known, row),
        unscored=len(scores) - len(known) - errors,
        errors=errors,
    )


def _bounds(scored: ScoredBenchmark, known: Sequence[Score], row: MetricRow) -> Bounds:
    """Between which values the mean of these questions lies, by what the metric declares."""
    low = -math.inf if row.low is None else row.low
    if row.greatest and known:
        most = [row.greatest(score.n_presentations, _options(scored, score)) for score in known]
        return low, math.fsum(most) / len(most)
    return low, math.inf if row.high is None else row.high


def _options(scored: ScoredBenchmark, score: Score) -> int:
    return len(scored.samples[score.sample_id].rounds[score.turn].options)


def _slices(scored: ScoredBenchmark, scores: Sequence[PartT]) -> Iterator[tuple[str, list[PartT]]]:
    """Scores by each value of each tag, and by round of a dialogue."""
    tags: dict[str, dict[str, list[PartT]]] = defaultdict(lambda: defaultdict(list))
    for score in scores:
        sample = scored.samples[score.sample_id]
        for name, value in sample.tags.items():
            tags[name][value].append(score)
        if sample.turns:
            tags["round"][str(score.turn + 1)].append(score)
    for name, parts in sorted(tags.items()):
        if len(parts) <= MOST_PARTS:
            yield from ((f"{name}={value}", chosen) for value, chosen in sorted(parts.items()))


def _fields(scored: ScoredBenchmark, scores: Sequence[Score]) -> Iterator[tuple[str, list[Score]]]:
    """Scores by question, where no tag says which field of a document a question asks for."""
    if FIELD_TAG in {name for sample in scored.samples.values() for name in sample.tags}:
        return
    fields: dict[str, list[Score]] = defaultdict(list)
    for score in scores:
        fields[field_of(scored.samples[score.sample_id])].append(score)
    if len(fields) <= MOST_PARTS:
        yield from ((f"question={question}", chosen) for question, chosen in sorted(fields.items()))


def _template_rows(model: str, scored: ScoredBenchmark) -> Iterator[Result]:
    """Accuracy per template and the spread between the best and the worst (ReForm-Eval, Table 25)."""
    if len({prediction.variant.template for prediction in scored.predictions}) < 2:
        return
    right: dict[tuple[str, Method], dict[str, list[tuple[float, str]]]] = defaultdict(lambda: defaultdict(list))
    for prediction, value in judged_results(scored):
        right[prediction.protocol, prediction.method][prediction.variant.template].append(
            (value, scored.samples[prediction.sample_id].group)
        )
    for (protocol, method), templates in right.items():
        if len(templates) < 2:
            continue
        for template, pairs in sorted(templates.items()):
            share = estimate_mean([value for value, _ in pairs], [group for _, group in pairs])
            yield _row(model, scored, protocol, method, "accuracy", share, f"template={template}")
        spread = template_spread(templates, scored.spec.name, protocol)
        yield _row(model, scored, protocol, method, "template_spread", spread)


def judged_results(scored: ScoredBenchmark) -> Iterator[tuple[Prediction, float]]:
    """Each answered presentation whose gold is known, with 1 when its choice is correct and 0 when not, or unparsed."""
    for prediction in scored.predictions:
        answer = scored.answers.get((prediction.sample_id, prediction.turn))
        if answer and answer.options and prediction.error is None:
            yield prediction, float(prediction.choice in answer.options)


def _means(rows: Sequence[Result]) -> Iterator[Result]:
    """Unweighted means over the benchmarks of a dimension, and over all benchmarks, of rows that declare a scale."""
    groups: dict[tuple[str, str, Method, str, str], list[Result]] = defaultdict(list)
    for row in rows:
        if not row.slice and declared(row.metric).scale:
            key = (row.model, row.protocol, row.method, row.metric)
            groups[*key, row.dimension].append(row)
            groups[*key, ALL].append(row)
    for (model, protocol, method, metric, dimension), parts in groups.items():
        declaration = declared(metric)
        value = scaled_mean([part.estimate for part in parts], declaration)
        suites = {part.suite for part in parts}
        suite = suites.pop() if len(suites) == 1 else ""
        yield Result(
            model, ALL, protocol, method, metric, value, dimension, suite, "", declaration.unit, declaration.better
        )


def flat_row(row: Result) -> dict[str, Any]:
    """A result as one level of plain values."""
    fields = asdict(row)
    return {**{name: value for name, value in fields.items() if name != "estimate"}, **asdict(row.estimate)}
