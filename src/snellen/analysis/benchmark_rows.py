"""Results of one benchmark: for each metric, over all its questions and over slices of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from snellen.analysis.choice_values import scored_predictions
from snellen.analysis.group_means import estimate_mean
from snellen.analysis.linearisation import (
    DOCUMENT_FIELD_TAG,
    corpus_estimates,
    document_field,
    macro_estimate,
    trend_estimates,
)
from snellen.analysis.question_means import mean_estimate, why_withheld
from snellen.analysis.template_deviation import template_deviation
from snellen.errors import DataError
from snellen.metrics.declaration import (
    OF_ANSWERED,
    ReplyMetric,
    declared_row,
    find_metric,
    metric_of,
)
from snellen.metrics.question_counts import QuestionCounts
from snellen.records import Estimate, Method, Result, Score
from snellen.scoring.published_means import PUBLISHED_MEAN
from snellen.scoring.scored_run import ScoredBenchmark

FIELD_METRIC = "field_exact_match"
MAX_SLICES_PER_TAG = 100
"""A tag with more values than this is not sliced: it differs for nearly every sample."""
RecordT = TypeVar("RecordT", Score, QuestionCounts)


def benchmark_rows(model: str, scored: ScoredBenchmark) -> Iterator[Result]:
    """Yield the rows of one benchmark: means over scores, metrics of the corpus, and rows by prompt template."""
    yield from _score_rows(model, scored)
    yield from _corpus_rows(model, scored)
    yield from _template_rows(model, scored)


def _score_rows(model: str, scored: ScoredBenchmark) -> Iterator[Result]:
    """Yield the result rows that are means over the scores of single questions.

    Each metric has a row for the benchmark and one for each slice of its questions, such as those with the tag
    `level=hard`. If the model did not answer some questions, a further row has the mean over the answered ones.
    Benchmarks of documents also have a mean over fields, and dialogues the trend of the accuracy over rounds.
    """
    corpus_metrics: set[str] = set()
    for tally in scored.tallies:
        corpus_metrics.update(find_metric(tally.metric).names)

    for (protocol, method, metric), records in scored.score_rows.items():
        scores = list(records)
        make_row = partial(_row, model, scored, protocol, method)
        if metric not in corpus_metrics:
            slices = [("", scores)]
            if declared_row(metric).sliced:
                slices.extend(_slices(scored, scores))
                slices.extend(_slices_by_answer(scored, scores, metric))
            for slice_name, members in slices:
                estimate = _estimate(scored, members, metric)
                row = make_row(metric, estimate, slice_name)
                yield replace(row, reason=why_withheld(estimate, members))
                if estimate.absent and not declared_row(metric).secondary_to:
                    answered = [score for score in members if not score.absent]
                    estimate_of_answered = _estimate(scored, answered, metric)
                    yield make_row(metric + OF_ANSWERED, estimate_of_answered, slice_name)

        if metric == FIELD_METRIC:

            def field_of(score: Score) -> str:
                return document_field(scored.samples[score.sample_id])

            yield make_row(f"{metric}_macro", macro_estimate(scored, scores, field_of))
            for slice_name, members in _slices_by_question(scored, scores):
                yield make_row(metric, mean_estimate(scored, members, metric), slice_name)

        if metric == "accuracy":
            in_dialogues = [score for score in scores if scored.samples[score.sample_id].turns]
            for name, estimate in trend_estimates(scored, in_dialogues).items():
                yield _with_reason(make_row(name, estimate))


def _corpus_rows(model: str, scored: ScoredBenchmark) -> Iterator[Result]:
    """Yield the result rows of metrics that are computed from sums over all questions, such as a corpus BLEU.

    Each question contributes counts (a `QuestionCounts`). If the model did not answer some questions, a further row is
    computed from the answered ones.
    """
    tallies_by_metric: dict[tuple[str, Method, str], list[QuestionCounts]] = defaultdict(list)
    for tally in scored.tallies:
        tallies_by_metric[tally.protocol, tally.method, tally.metric].append(tally)

    for (protocol, method, metric), tallies in tallies_by_metric.items():
        make_row = partial(_row, model, scored, protocol, method)
        slices = [("", tallies)]
        # A published mean weighs the parts of a benchmark, and a slice has few of them.
        if metric != PUBLISHED_MEAN:
            slices.extend(_slices(scored, tallies))
            slices.extend(_slices_by_answer(scored, tallies, find_metric(metric).names[0]))
        for slice_name, members in slices:
            for name, estimate in corpus_estimates(scored, members).items():
                is_of_benchmark = not slice_name
                if is_of_benchmark or declared_row(name).sliced:
                    yield _with_reason(make_row(name, estimate, slice_name))
            answered = [tally for tally in members if not tally.absent]
            if answered and len(answered) < len(members):
                for name, estimate in corpus_estimates(scored, answered).items():
                    yield make_row(name + OF_ANSWERED, estimate, slice_name)


def _template_rows(model: str, scored: ScoredBenchmark) -> Iterator[Result]:
    """Yield the accuracy with each prompt template, and the standard deviation of these accuracies.

    Nothing is yielded if all prompts of the benchmark were made from one template.
    """
    templates = {prediction.variant.template for prediction in scored.predictions}
    if len(templates) < 2:
        return
    # Pairs of 1.0 if correct (else 0.0) and the image group of the question, by template.
    pairs_by_template: dict[tuple[str, Method], dict[str, list[tuple[float, str]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    # All presentations of a sample are consecutive. They share one pair object per value, which saves memory.
    shared_pairs: dict[float, tuple[float, str]] = {}
    sample_id = None
    for prediction, value in scored_predictions(scored):
        if prediction.sample_id != sample_id:
            sample_id = prediction.sample_id
            shared_pairs = {}
        value_and_group = shared_pairs.get(value)
        if value_and_group is None:
            value_and_group = (value, scored.samples[prediction.sample_id].group)
            shared_pairs[value] = value_and_group
        key = (prediction.protocol, prediction.method)
        pairs_by_template[key][prediction.variant.template].append(value_and_group)

    for (protocol, method), pairs_of_template in pairs_by_template.items():
        if len(pairs_of_template) < 2:
            continue
        values_by_template: dict[str, list[float]] = {}
        for template, values_and_groups in sorted(pairs_of_template.items()):
            values = [value for value, _ in values_and_groups]
            groups = [group for _, group in values_and_groups]
            accuracy = estimate_mean(values, groups)
            slice_name = f"template={template}"
            yield _row(model, scored, protocol, method, "accuracy", accuracy, slice_name)
            values_by_template[template] = values

        deviation = template_deviation(values_by_template)
        yield _row(model, scored, protocol, method, "template_deviation", deviation)


def _row(
    model: str,
    scored: ScoredBenchmark,
    protocol: str,
    method: Method,
    metric: str,
    estimate: Estimate,
    slice_name: str = "",
) -> Result:
    """Return an estimate as a result of a benchmark; the metric declares its unit and which direction is better."""
    declaration = declared_row(metric)
    return Result(
        model=model,
        benchmark=scored.spec.name,
        protocol=protocol,
        method=method,
        metric=metric,
        estimate=estimate,
        dimension=scored.spec.dimension,
        suite=scored.spec.suite,
        slice=slice_name,
        unit=declaration.unit,
        better=declaration.better,
    )


def _with_reason(row: Result) -> Result:
    """Add why a row has no value although it has questions: the metric is undefined for them."""
    if row.estimate.value is not None or not row.estimate.n:
        return row
    return replace(row, reason="metric undefined", detail=declared_row(row.metric).undefined)


def _estimate(scored: ScoredBenchmark, scores: Sequence[Score], metric: str) -> Estimate:
    """Estimate the mean of a metric from the scores of questions.

    Most metrics are a mean over questions. Some are declared as a mean over classes of questions, where a class is all
    questions with the same correct answer; each class then has the same weight.

    Raises:
        DataError: The metric is a mean over classes, and the correct answers are not available.
    """
    declaration = metric_of(metric)
    is_over_answers = isinstance(declaration, ReplyMetric) and declaration.mean_over == "answers"
    if not is_over_answers:
        return mean_estimate(scored, scores, metric)
    if scored.answers_missing:
        raise DataError(
            f"{metric} is a mean over answers, but those of {scored.spec.name} are not available"
        )
    return macro_estimate(scored, scores, lambda score: _first_answer(scored, score))


# --- slices -----------------------------------------------------------------------------------------------------------


def _slices(
    scored: ScoredBenchmark, records: Sequence[RecordT]
) -> Iterator[tuple[str, list[RecordT]]]:
    """Group records of questions into slices, such as `level=hard` or `round=2`.

    There is a slice for each value of each tag of the samples, and for each round of a dialogue.

    Yields:
        The name of a slice and its records.
    """
    tags: dict[str, dict[str, list[RecordT]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        sample = scored.samples[record.sample_id]
        for tag, value in sample.tags.items():
            tags[tag][value].append(record)
        if sample.turns:
            tags["round"][str(record.turn + 1)].append(record)
    for tag, records_by_value in sorted(tags.items()):
        yield from _named_slices(tag, records_by_value)


def _slices_by_answer(
    scored: ScoredBenchmark, records: Sequence[RecordT], metric: str
) -> Iterator[tuple[str, list[RecordT]]]:
    """Group records of questions by the correct answer, into slices such as `answer=yes`.

    Yields:
        The name of a slice and its records. Nothing if the declaration of the metric does not ask for these slices.
    """
    declaration = metric_of(metric)
    if declaration is None or not declaration.by_answer:
        return
    records_by_answer: dict[str, list[RecordT]] = defaultdict(list)
    for record in records:
        answer = _first_answer(scored, record)
        if answer:
            records_by_answer[answer].append(record)
    yield from _named_slices("answer", records_by_answer)


def _slices_by_question(
    scored: ScoredBenchmark, scores: Sequence[Score]
) -> Iterator[tuple[str, list[Score]]]:
    """Group scores by the text of their question, into slices such as `question=What is the date?`.

    In benchmarks of documents, the question names the field to read. Nothing is yielded if a tag of the samples already
    names the field.
    """
    for sample in scored.samples.values():
        if DOCUMENT_FIELD_TAG in sample.tags:
            return
    scores_by_question: dict[str, list[Score]] = defaultdict(list)
    for score in scores:
        question = document_field(scored.samples[score.sample_id])
        scores_by_question[question].append(score)
    yield from _named_slices("question", scores_by_question)


def _named_slices(
    tag: str, records_by_value: dict[str, list[RecordT]]
) -> Iterator[tuple[str, list[RecordT]]]:
    """Yield slices named `TAG=VALUE` with their records, sorted by value; nothing if there are more than `MAX_SLICES_PER_TAG`."""
    if len(records_by_value) > MAX_SLICES_PER_TAG:
        return
    for value, records in sorted(records_by_value.items()):
        yield f"{tag}={value}", records


def _first_answer(scored: ScoredBenchmark, record: Score | QuestionCounts) -> str:
    """Return the text of the first correct answer to a question; empty if the correct answers are not available."""
    answer = scored.answers.get((record.sample_id, record.turn))
    if answer is None:
        return ""
    if not answer.options:
        return answer.texts[0]
    question = scored.samples[record.sample_id].rounds[record.turn]
    return question.options[answer.options[0]]
