"""How much of a score needs the pictures: each benchmark's headline beside its controls, paired by question."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from snellen.analysis.capability import headlines_of
from snellen.analysis.dose_response import DoseResponse, dose_responses
from snellen.analysis.paired.differences import QuestionMeasures, pair, question_values
from snellen.common.degradations import DEGRADATIONS
from snellen.protocols.base import labelled_declaration
from snellen.records import Estimate
from snellen.report.run_view import RunView
from snellen.report.table import DASH, AbsentCell, Cell, NumberCell, Table, metric_title, value_text
from snellen.scoring.scored_run import ScoredBenchmark

HEADER = ("run", "benchmark", "protocol", "shown instead", "metric", "score", "control", "difference [95%] n", "chance")
NOTES = (
    "The difference is what the score owes to the pictures: the same questions with and without them, by picture. One "
    "whose interval holds 0 may owe them nothing; a control above chance is answered from the words.",
)
DOSE_HEADER = (
    "run", "benchmark", "protocol", "metric", "the picture", "clean", "degraded", "loss [95%] n",
    "half of what is above chance is lost at",
)  # fmt: skip
DOSE_NOTES = (
    "A loss is of the same questions with clean and with degraded pictures. The last column is the dose at which a "
    "curve that never rises, linear between the doses asked, reaches the middle between clean and chance; with a 95 % "
    "interval by bootstrap over pictures.",
)


def control_tables(views: Sequence[RunView]) -> list[Table]:
    """A table of controls and one of degraded pictures, of all runs; neither where nothing of the kind was asked."""
    rows = tuple((view.label, *row) for view in views for scored in view.run.benchmarks for row in _rows(scored))
    doses = tuple((view.label, *row) for view in views for scored in view.run.benchmarks for row in _dose_rows(scored))
    controls = Table("What the pictures are needed for", HEADER, rows, label_columns=5, notes=NOTES)
    responses = Table("What degraded pictures cost", DOSE_HEADER, doses, label_columns=5, notes=DOSE_NOTES)
    return [table for table in (controls, responses) if table.rows]


def _dose_rows(scored: ScoredBenchmark) -> Iterator[tuple[Cell, ...]]:
    for response in dose_responses(scored):
        clean = value_text(Estimate(response.clean, None, None, None, 0), response.unit)
        half = _half_text(response)
        for point in response.points:
            loss = NumberCell(response.unit, point.loss) if point.loss.value is not None else AbsentCell("no questions")
            yield (
                response.benchmark, response.protocol, metric_title(response.metric),
                DEGRADATIONS[response.kind].title.format(f"{point.dose:g}"), clean,
                value_text(Estimate(point.value, None, None, None, 0), response.unit), loss, half,
            )  # fmt: skip


def _half_text(response: DoseResponse) -> Cell:
    half = response.half
    if half.why_not:
        return AbsentCell(half.why_not)
    worst = response.points[-1].dose
    value, low, high = (
        f"beyond {worst:g}" if dose is None else f"{dose:.3g}" for dose in (half.value, half.low, half.high)
    )
    return value if half.value is half.low is half.high is None else f"{value} [{low}, {high}]"


def _rows(scored: ScoredBenchmark) -> Iterator[tuple[Cell, ...]]:
    headlines = headlines_of(scored)
    protocols = {protocol for protocol, _, metric in scored.score_rows if metric in headlines}
    if not any(labelled_declaration(protocol).control_of in protocols for protocol in protocols):
        return
    measured = {(values.protocol, values.metric): values for values in question_values(scored, headlines)}
    for control in measured.values():
        declared = labelled_declaration(control.protocol)
        if declared.dose is not None:
            continue
        score = measured.get((declared.control_of, control.metric))
        if score is not None:
            yield (
                scored.spec.name,
                score.protocol,
                declared.shown,
                metric_title(score.metric),
                *_figures(score, control),
            )


def _figures(score: QuestionMeasures, control: QuestionMeasures) -> Iterator[Cell]:
    result = pair((score.protocol, control.protocol), score, control).result
    unit = score.row.unit
    for value in (result.first_value, result.second_value):
        yield value_text(Estimate(value, None, None, None, 0), unit)
    if result.difference.value is None:
        yield AbsentCell("no question has a value with and without its picture")
    else:
        yield NumberCell(unit, result.difference)
    level = score.scored.chance_accuracy if score.metric == "accuracy" else None
    yield DASH if level is None else value_text(Estimate(level, None, None, None, 0), unit)
