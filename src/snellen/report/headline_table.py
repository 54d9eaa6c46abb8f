"""The first two tables of every report.

The first has the headline of each benchmark, which is the value of its most important metric, for each model, and the
mean last. The second has what limits these numbers: unparsed replies, lost questions, instability.

A model has a `ModelMethodRow` for each method that its run used: generation, likelihood.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from snellen.analysis.headline import OVERALL, headline_metrics
from snellen.analysis.ranks import mean_ranks
from snellen.catalogue import published_number_of
from snellen.catalogue.published_number import (
    OWN_DECODING,
    OWN_JUDGE_WORDING,
    OWN_NUMBER,
    OWN_WORDING,
    PublishedNumber,
)
from snellen.metrics.declaration import SHARE, as_read, declared_row, find_metric
from snellen.records import Estimate, Result
from snellen.report.number_text import (
    DASH,
    decimal_text,
    metric_title,
    number_text,
    percent_text,
)
from snellen.report.reply_notes import grader_notes, unread_notes
from snellen.report.reported_runs import (
    MEAN_DESCRIPTIONS,
    HeadlineEstimate,
    ModelMethodRow,
    ReportedRun,
    benchmarks_of,
    benchmarks_with_options,
    method_rows,
)
from snellen.report.table import AbsentCell, Cell, Column, NumberCell, Table, tabulate
from snellen.report.wording import asked_wording, judge_wording

MAX_NOTES = 3
"""Footnotes below the first table; a report and `--details` have all others."""
MAX_TITLE_LETTERS = 20
CIRCULAR_ACCURACY = "circular_accuracy"
SIDE_METRICS = (
    CIRCULAR_ACCURACY,
    "instability",
    "hit_rate",
    "unparsed_rate",
    "unsure_rate",
    "pass_at_k",
    "majority_vote",
)
"""Metrics of the second table."""


# --- the first table -------------------------------------------------------------------------------------------------


class _HeadlineRow(Struct, frozen=True):
    """The headline of one benchmark, or the mean of all benchmarks, for each model and method."""

    label: str
    """Name of the benchmark, or what the mean is over."""
    metric: str
    chance: str
    """Chance level as text, or the range of levels if the models were asked different questions."""
    cells: tuple[Cell, ...]
    """One cell for each model and method."""


def headline_table(reported_runs: Sequence[ReportedRun], *, values_alone: bool = False) -> Table:
    """Return the main table of results: a row for each benchmark, a column for each model and method, and a row of means.

    Args:
        reported_runs: The runs.
        values_alone: Whether to show intervals only for the means, so that more models fit side by side.
    """
    model_rows = method_rows(reported_runs)
    rows = [_benchmark_row(model_rows, name) for name in benchmarks_of(reported_runs)]
    if values_alone:
        rows = [_without_intervals(row) for row in rows]
    if len(rows) > 1:
        rows.append(_mean_row(model_rows))

    columns: list[Column[_HeadlineRow]] = [
        Column("benchmark", lambda row: row.label, is_label=True),
        Column("metric", lambda row: row.metric, is_label=True),
        Column("chance", lambda row: row.chance, is_label=True),
    ]
    names = _model_names(model_rows)
    for index, model_row in enumerate(model_rows):
        columns.append(_model_column(names[model_row.label], index))
    return tabulate("Result", columns, rows, _notes(model_rows), most_notes=MAX_NOTES)


def _model_column(heading: str, index: int) -> Column[_HeadlineRow]:
    return Column(heading, lambda row: row.cells[index])


def headline_by_model(reported_runs: Sequence[ReportedRun]) -> Table:
    """Return the table of results with a row for each model and method, and a column for each benchmark.

    It is used for more models than fit side by side as columns. The first number of a row is the mean, with its
    interval; the numbers of the benchmarks have no intervals.
    """
    model_rows = method_rows(reported_runs)
    benchmark_rows = [_benchmark_row(model_rows, name) for name in benchmarks_of(reported_runs)]
    first_row = benchmark_rows[0]
    other_rows = benchmark_rows[1:]
    if other_rows:
        first_row = _mean_row(model_rows)
        other_rows = benchmark_rows

    names = _model_names(model_rows)
    rows: list[tuple[Cell, ...]] = []
    for index, model_row in enumerate(model_rows):
        values = [_value_alone(row.cells[index]) for row in other_rows]
        rows.append((names[model_row.label], first_row.cells[index], *values))
    header = ("model", first_row.label, *(row.label for row in other_rows))
    return Table(
        "Result", header, tuple(rows), notes=tuple(_notes(model_rows)), most_notes=MAX_NOTES
    )


def _model_names(model_rows: Sequence[ModelMethodRow]) -> dict[str, str]:
    """Return a short name for the results of each model by one method, by their label: `{"A, generation": "A"}`.

    The method is part of the name only if there are several methods.
    """
    has_several_methods = len({model_row.method for model_row in model_rows}) > 1
    names: dict[str, str] = {}
    for model_row in model_rows:
        names[model_row.label] = (
            model_row.label if has_several_methods else model_row.reported_run.label
        )
    return names


def _benchmark_row(model_rows: Sequence[ModelMethodRow], benchmark: str) -> _HeadlineRow:
    """Return the row of a benchmark in the results table.

    It has the metric, the chance level, and for each model the headline number or the reason why there is none.

    Args:
        model_rows: The results of each model by one method.
        benchmark: The benchmark.
    """
    metrics: dict[str, None] = {}
    chance_levels: list[_ChanceLevel] = []
    cells: list[Cell] = []
    for model_row in model_rows:
        headline = model_row.headlines.get(benchmark)
        if headline is None:
            cells.append(AbsentCell(_why_absent(model_row, benchmark)))
            continue
        metrics[short_title(headline.metric)] = None
        chance_levels.append(_ChanceLevel(model_row.chances.get(benchmark), headline.unit))
        cells.append(
            NumberCell(
                headline.unit, headline.estimate, _estimates_before_correction(model_row, headline)
            )
        )
    return _HeadlineRow(
        label=benchmark,
        metric=" or ".join(metrics),
        chance=_chance_text(chance_levels),
        cells=tuple(cells),
    )


def _without_intervals(row: _HeadlineRow) -> _HeadlineRow:
    cells = tuple(_value_alone(cell) for cell in row.cells)
    return _HeadlineRow(row.label, row.metric, row.chance, cells)


def _value_alone(cell: Cell) -> Cell:
    """Return the text of a number without its interval: `62.5%` or `0.693`. Other cells are returned unchanged."""
    if not isinstance(cell, NumberCell):
        return cell
    value = cell.estimate.value or 0.0
    if cell.unit == SHARE:
        return percent_text(value)
    return decimal_text(value, 3)


def short_title(metric: str) -> str:
    """Return the title of a metric, or its name in words if the title is a sentence."""
    title = metric_title(metric)
    return title if len(title) <= MAX_TITLE_LETTERS else metric.replace("_", " ")


class _ChanceLevel(NamedTuple):
    """The number that random guessing is expected to reach, None if there is no such number, and its unit."""

    value: float | None
    unit: str


def _chance_text(levels: Sequence[_ChanceLevel]) -> str:
    """Return the chance levels of several models as one text: `25.0%` if all are equal, otherwise `5.0% to 25.0%`.

    Args:
        levels: The chance level of each model.

    Returns:
        The text, or a dash if any model has no chance level.
    """
    value_by_text: dict[str, float] = {}
    for level in levels:
        if level.value is None:
            return DASH
        value_by_text[number_text(level.value, level.unit)] = level.value
    texts = sorted(value_by_text, key=value_by_text.__getitem__)
    if not texts:
        return DASH
    if len(texts) == 1:
        return texts[0]
    return f"{texts[0]} to {texts[-1]}"


def _why_absent(model_row: ModelMethodRow, benchmark: str) -> str:
    """Return why a model has no headline of a benchmark by this method."""
    scored = model_row.reported_run.benchmark(benchmark)
    if scored is None:
        return "not part of the run"
    for metric in headline_metrics(scored):
        number = model_row.lookup(metric, benchmark)
        if number is not None:
            return why_without_value(model_row, number, metric, benchmark)
    return "not measured by the protocols of this run"


def why_without_value(
    model_row: ModelMethodRow, number: HeadlineEstimate, metric: str, benchmark: str = ""
) -> str:
    """Return why an estimate has no value.

    Args:
        model_row: The model and method.
        number: The estimate, without a value.
        metric: The metric row.
        benchmark: Name of the benchmark, or an empty text for a mean over benchmarks.
    """
    estimate = number.estimate
    if number.reason:
        return number.reason
    if estimate.n and declared_row(metric).undefined:
        return declared_row(metric).undefined
    if estimate.unanswered and not estimate.unscored:
        if estimate.errors:
            return "no question was answered; see the errors"
        return "no question was asked to the end"
    scored_benchmarks = [
        scored
        for scored in model_row.reported_run.run.benchmarks
        if benchmark in ("", scored.spec.name)
    ]
    if not any(scored.answers for scored in scored_benchmarks):
        return "the answers are hidden"
    return "no reply could be scored; see the counts"


# --- its last row ----------------------------------------------------------------------------------------------------


def _mean_row(model_rows: Sequence[ModelMethodRow]) -> _HeadlineRow:
    """Return the last row of the results table: the mean over benchmarks for each model.

    If the benchmarks have no common scale, it is the mean rank of each model instead.
    """
    headlines = [model_row.headline for model_row in model_rows if model_row.headline is not None]
    if all(headline.estimate.value is None for headline in headlines):
        return _HeadlineRow("mean rank", "", "", tuple(_rank_cells(model_rows)))

    labels: dict[str, None] = {}
    for headline in headlines:
        if headline.over:
            labels[MEAN_DESCRIPTIONS[headline.over]] = None
    chance_levels: list[_ChanceLevel] = []
    for model_row in model_rows:
        if model_row.headlines:
            unit = model_row.headline.unit if model_row.headline else SHARE
            chance_levels.append(_ChanceLevel(model_row.chance, unit))
    n_most = max(len(model_row.headlines) for model_row in model_rows)
    return _HeadlineRow(
        label=" or ".join(labels),
        metric="",
        chance=_chance_text(chance_levels),
        cells=tuple(_mean_cell(model_row, n_most) for model_row in model_rows),
    )


def _mean_cell(model_row: ModelMethodRow, n_most: int) -> Cell:
    """Return the mean of a model, with a note if another model has values on more benchmarks (`n_most`)."""
    headline = model_row.headline
    if headline is None:
        return AbsentCell("no benchmark has a value")
    if headline.estimate.value is None:
        return AbsentCell(f"{headline.detail} have no common scale")
    n_benchmarks = len(model_row.headlines)
    note = ""
    if n_benchmarks < n_most:
        note = f"of {n_benchmarks} of {n_most} benchmarks"
    return NumberCell(
        headline.unit, headline.estimate, _estimates_before_correction(model_row, headline), note
    )


def _estimates_before_correction(
    model_row: ModelMethodRow, result: Result
) -> tuple[tuple[str, Estimate], ...]:
    """Return the estimate of a result before its correction by an audit, with a label for the table cell.

    In an audit (`snellen audit`) people label some replies by hand. Results are then corrected for the errors that the
    extractor makes. Table cells show both estimates.

    Args:
        model_row: The results of the model by the method of the result.
        result: The result that the cell shows.

    Returns:
        One pair of a label and an estimate, or an empty tuple if the result was not corrected.
    """
    uncorrected_metric = as_read(declared_row(result.metric))
    dimension = result.dimension if result.benchmark == OVERALL else ""
    uncorrected_result = model_row.reported_run.find_result(
        result.protocol, uncorrected_metric.name, result.benchmark, dimension
    )
    if uncorrected_result is None:
        return ()
    return ((uncorrected_metric.label, uncorrected_result.estimate),)


def _rank_cells(model_rows: Sequence[ModelMethodRow]) -> list[Cell]:
    """Return a cell with the mean rank of each model, in the order of the models.

    Models are ranked on each benchmark among those with the same method (generation or likelihood), and only on
    benchmarks that all of these have. A model without a mean rank has a cell that says why.
    """
    model_rows_by_method: dict[str, list[ModelMethodRow]] = defaultdict(list)
    for model_row in model_rows:
        model_rows_by_method[model_row.method].append(model_row)

    cell_by_label: dict[str, Cell] = {}
    for ranked_rows in model_rows_by_method.values():
        ranks = mean_ranks([model_row.headlines for model_row in ranked_rows])
        for model_row, rank in zip(ranked_rows, ranks, strict=True):
            if rank is None:
                reason = "no common scale, and ranks need several models"
                cell_by_label[model_row.label] = AbsentCell(reason)
            else:
                cell_by_label[model_row.label] = decimal_text(rank, 2)
    return [cell_by_label[model_row.label] for model_row in model_rows]


# --- its notes -------------------------------------------------------------------------------------------------------


def _notes(model_rows: Sequence[ModelMethodRow]) -> list[str]:
    """Return notes on what limits the meaning of the results table.

    They are about unusual replies, models that answered different questions, and runs scored by other rules.
    """
    reported_runs = list(
        {model_row.reported_run.label: model_row.reported_run for model_row in model_rows}.values()
    )
    notes = [*grader_notes(reported_runs), *unread_notes(reported_runs)]

    # A mean names the benchmarks, and the part of their questions, that it covers (`members`).
    coverages_by_method: dict[str, set[str]] = defaultdict(set)
    for model_row in model_rows:
        if model_row.headline is not None:
            coverages_by_method[model_row.method].add(model_row.headline.members)
    for method, coverages in coverages_by_method.items():
        if len(coverages) > 1:
            notes.append(
                f"Under {method}, the models answered different questions, so their means are not comparable."
            )

    for reported_run in reported_runs:
        is_scored_as_in_a_paper = reported_run.run.convention != "standard"
        if is_scored_as_in_a_paper:
            extractors = " and ".join(reported_run.run.extractors)
            notes.append(
                f"{reported_run.label}: as published; replies are parsed with {extractors}."
            )
    notes.extend(_correction_notes(reported_runs))
    notes.extend(_reproduction_notes(reported_runs))
    notes.extend(_wording_notes(reported_runs))
    return notes


def _correction_notes(reported_runs: Sequence[ReportedRun]) -> list[str]:
    """Return a note that names the benchmarks whose ground truths were corrected by lists of errata, if there are any."""
    corrected: list[str] = []
    for benchmark in benchmarks_of(reported_runs):
        for reported_run in reported_runs:
            scored = reported_run.benchmark(benchmark)
            if scored is not None and scored.n_corrected:
                corrected.append(f"{benchmark} {scored.n_corrected:,}")
                break
    if not corrected:
        return []
    return [f"Scored with errata, ground truths corrected: {', '.join(corrected)}."]


def _reproduction_notes(reported_runs: Sequence[ReportedRun]) -> list[str]:
    """Return notes that warn about benchmarks whose published numbers Snellen could not reproduce, or not all of them.

    Snellen compares its own scores with numbers that papers print ("printed figures"). Benchmarks for which all of them
    were reproduced, or for which none is known, have no note.

    Returns:
        At most two notes: one that lists the benchmarks for which no printed figure was reproduced, and one that lists
        those for which only some were.
    """
    benchmarks_without: list[str] = []
    benchmarks_with_some: list[str] = []
    for benchmark in benchmarks_of(reported_runs):
        published = _published_number(reported_runs, benchmark)
        if published is None:
            continue
        n_printed = len(published.reproductions)
        if not published.is_reproduced:
            benchmarks_without.append(benchmark)
        elif published.n_reproduced < n_printed:
            benchmarks_with_some.append(f"{benchmark} {published.mark}")

    notes: list[str] = []
    if benchmarks_without:
        names = ", ".join(benchmarks_without)
        notes.append(f"{OWN_NUMBER}, no printed figure of it was reproduced: {names}.")
    if benchmarks_with_some:
        names = ", ".join(benchmarks_with_some)
        notes.append(f"Not every printed figure was reproduced: {names}.")
    return notes


def _wording_notes(reported_runs: Sequence[ReportedRun]) -> list[str]:
    """Return notes that name the benchmarks that were not asked, or not judged, in the words of their makers.

    Runs with prompts that the user chose, such as those of another harness, have no note on what was asked.

    Returns:
        At most four notes: on scores of a judge in Snellen's words, on benchmarks in Snellen's words because no prompt
        is known, on those in the words of others, and on those of which no decoding was published.
    """
    judged_in_own_words: dict[str, None] = {}
    in_own_words: dict[str, None] = {}
    in_words_of_others: dict[str, None] = {}
    in_own_decoding: dict[str, None] = {}
    for reported_run in reported_runs:
        manifest = reported_run.run.manifest
        for scored in reported_run.run.benchmarks:
            published = published_number_of(scored.spec)
            if published is None:
                continue
            name = scored.spec.name
            for protocol, _, metric in scored.score_rows:
                if judge_wording(scored.spec, metric):
                    judged_in_own_words[f"{name} ({metric})"] = None
                wording = asked_wording(manifest, scored.spec, protocol)
                if wording is None:
                    continue
                if published.no_decoding and wording.by != "user":
                    in_own_decoding[name] = None
                if wording.by == "snellen" and not published.prompt:
                    reason = f" ({published.no_prompt})" if published.no_prompt else ""
                    in_own_words[f"{name}{reason}"] = None
                elif wording.by == "others":
                    in_words_of_others[f"{name} ({published.prompt_by})"] = None

    notes: list[str] = []
    if judged_in_own_words:
        names = ", ".join(judged_in_own_words)
        notes.append(f"{OWN_JUDGE_WORDING}, so not the published score: {names}.")
    if in_own_words:
        names = ", ".join(in_own_words)
        notes.append(f"{OWN_WORDING}, no prompt with a source is known: {names}.")
    if in_words_of_others:
        names = ", ".join(in_words_of_others)
        notes.append(f"In the published wording of others than the makers: {names}.")
    if in_own_decoding:
        names = ", ".join(in_own_decoding)
        notes.append(f"{OWN_DECODING}, none was published: {names}.")
    return notes


def _published_number(
    reported_runs: Sequence[ReportedRun], benchmark: str
) -> PublishedNumber | None:
    """Return what is known about the published numbers of a benchmark, and about the attempts to reproduce them.

    Returns:
        The record; None if no run used the benchmark, or if no published number of it is known.
    """
    for reported_run in reported_runs:
        scored = reported_run.benchmark(benchmark)
        if scored is not None:
            return published_number_of(scored.spec)
    return None


# --- the second table ------------------------------------------------------------------------------------------------


def side_table(reported_runs: Sequence[ReportedRun]) -> Table | None:
    """Return a table of what limits the main results of each model, such as replies that could not be read.

    A column is left out if it says nothing, for example if no request failed.

    Returns:
        A table with a row for each model and method; None if there is nothing to show.
    """
    model_rows = method_rows(reported_runs)
    names = _model_names(model_rows)
    metric_columns: list[Column[ModelMethodRow]] = []
    is_circular_headline = all(
        _is_metric_of_all_headlines(CIRCULAR_ACCURACY, model_row) for model_row in model_rows
    )
    for metric in SIDE_METRICS:
        if metric == CIRCULAR_ACCURACY and is_circular_headline:
            metric = "accuracy"  # the first table has the other
        if any(_is_worth_showing(metric, model_row) for model_row in model_rows):
            metric_columns.append(_side_column(metric))
    count_columns: list[Column[ModelMethodRow]] = [
        Column("requests failed", _n_failed),
        Column("no reply", _n_without_reply),
        Column("not asked", _n_not_asked),
        Column("no ground truth", _n_unscored),
    ]
    count_columns = [
        column
        for column in count_columns
        if any(column.cell(model_row) for model_row in model_rows)
    ]
    if not metric_columns and not count_columns:
        return None

    notes: list[str] = []
    scopes = {_option_scope(reported_run) for reported_run in reported_runs}
    if metric_columns and scopes != {""}:
        notes.append(f"Over benchmarks with options: {', '.join(sorted(scopes - {''}))}.")
    if any(_is_worth_showing(CIRCULAR_ACCURACY, model_row) for model_row in model_rows):
        notes.append(
            "Circular accuracy: the share of questions that are correct in every option order."
        )
    if any(_is_worth_showing("hit_rate", model_row) for model_row in model_rows):
        notes.append(
            "Hit rate: the share of replies that name an option's label, such as (A). A reply that names the option "
            "itself is read, too."
        )
    model_column = Column[ModelMethodRow](
        "model", lambda model_row: names[model_row.label], is_label=True
    )
    columns = [model_column, *metric_columns, *count_columns]
    return tabulate("Replies and stability", columns, model_rows, notes)


def _is_metric_of_all_headlines(metric: str, model_row: ModelMethodRow) -> bool:
    """Return whether a metric is the headline metric of all benchmarks of a model."""
    headlines = model_row.headlines.values()
    return bool(headlines) and all(result.metric == metric for result in headlines)


def _is_worth_showing(metric: str, model_row: ModelMethodRow) -> bool:
    """Return whether the second table has to show a metric of a model.

    The shares of replies that could not be read (`unparsed_rate`), or not with confidence (`unsure_rate`), are shown if
    they are above 0. The share of replies that name the label of an option, such as `(A)` (`hit_rate`), is shown if it
    is below 1, unless all replies could be read. Any other metric is shown if it has a value.
    """
    number = model_row.overall(metric)
    if number is None or number.estimate.value is None:
        return False
    if metric in ("unparsed_rate", "unsure_rate"):
        return number.estimate.value > 0
    if metric == "hit_rate":
        unparsed = model_row.overall("unparsed_rate")
        all_were_read = unparsed is not None and unparsed.estimate.value == 0
        return number.estimate.value < 1 and not all_were_read
    return True


def _side_column(metric: str) -> Column[ModelMethodRow]:
    return Column(metric_title(metric), lambda model_row: _side_cell(model_row, metric))


def _side_cell(model_row: ModelMethodRow, metric: str) -> Cell:
    """Return a cell with a number that limits the results of a model, such as the share of replies that were not read.

    If it covers other benchmarks than the accuracy, the cell has a note that says so. Without a number, it is a
    dash.
    """
    number = model_row.overall(metric)
    if number is None or number.estimate.value is None:
        return DASH
    note = ""
    accuracy = model_row.overall("accuracy")
    if accuracy is not None and accuracy.members != number.members:
        note = f"of {number.members} only"
    return NumberCell(number.unit, number.estimate, note=note)


def _n_failed(model_row: ModelMethodRow) -> int:
    """Return how many requests of a run failed.

    They are not counted by method. So a run with a row for generation and one for likelihood has its number in the
    first of them, and 0 in the other.
    """
    first_row = model_row.reported_run.method_rows[0]
    if model_row.method != first_row.method:
        return 0
    return model_row.reported_run.run.failed


def _n_without_reply(model_row: ModelMethodRow) -> int:
    """Return the questions of the headlines that lost their reply, summed over benchmarks."""
    estimates = [headline.estimate for headline in model_row.headlines.values()]
    return sum(estimate.errors + estimate.absent for estimate in estimates)


def _n_not_asked(model_row: ModelMethodRow) -> int:
    return sum(headline.estimate.not_asked for headline in model_row.headlines.values())


def _n_unscored(model_row: ModelMethodRow) -> int:
    return sum(headline.estimate.unscored for headline in model_row.headlines.values())


def _option_scope(reported_run: ReportedRun) -> str:
    """Return on how many benchmarks of a run questions have options: `12 of 14`; empty if on all."""
    n_benchmarks = len(reported_run.run.benchmarks)
    n_with_options = len(list(benchmarks_with_options(reported_run)))
    if n_with_options == n_benchmarks:
        return ""
    return f"{n_with_options} of {n_benchmarks}"


class _RequestedNumber(NamedTuple):
    """A number that the user asked for, and the label of its run."""

    run: str
    result: Result


def requested_metrics_table(reported_runs: Sequence[ReportedRun]) -> Table | None:
    """Return a table of the metrics that the user asked for, without those that the results table shows anyway.

    Returns:
        A table with a row for each run, benchmark and metric; None if the user asked for none.
    """
    rows: list[_RequestedNumber] = []
    for reported_run in reported_runs:
        requested: set[str] = set()
        for name in reported_run.run.scoring.metrics:
            requested.update(find_metric(name).names)
        shown_already: set[tuple[str, str]] = set()
        for headline_by_benchmark in reported_run.headlines.values():
            for headline in headline_by_benchmark.values():
                shown_already.add((headline.benchmark, headline.metric))
        for result in reported_run.rows:
            is_mean_over_benchmarks = result.benchmark == OVERALL
            is_of_part = bool(result.slice)
            if result.metric not in requested or is_mean_over_benchmarks or is_of_part:
                continue
            if (result.benchmark, result.metric) not in shown_already:
                rows.append(_RequestedNumber(reported_run.label, result))
    if not rows:
        return None

    columns: list[Column[_RequestedNumber]] = [
        Column("run", lambda row: row.run, is_label=True),
        Column("benchmark", lambda row: row.result.benchmark, is_label=True),
        Column("metric", lambda row: metric_title(row.result.metric), is_label=True),
        Column("value", lambda row: NumberCell(row.result.unit, row.result.estimate)),
    ]
    return tabulate("Metrics on request", columns, rows)
