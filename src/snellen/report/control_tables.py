"""Tables of controls: what a score owes to the images, and what it loses when they are degraded.

A control asks the same questions with another input in place of the image, such as no image or that of another
question. If the model scores as well as with the right image, the image does not contribute.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from snellen.analysis.headline import leading_headline
from snellen.analysis.paired.differences import (
    PairedDifference,
    QuestionMeasures,
    pair,
    question_values,
)
from snellen.protocols.base import labelled_declaration
from snellen.records import Prediction, Variant
from snellen.report.degradation_tables import degradation_tables
from snellen.report.number_text import DASH, metric_title, number_or_dash
from snellen.report.reported_runs import ReportedRun
from snellen.report.table import AbsentCell, Cell, Column, NumberCell, Table, tabulate
from snellen.scoring.scored_run import ScoredBenchmark

CONTROL_NOTE = (
    "The difference is the part of the score that comes from the images: the same questions with and without "
    "them, clustered by image. If its interval contains 0, the images may not help; a control above chance means "
    "that the text alone suggests answers. Other replies: replies (for likelihood, scores) that differ from "
    "those with the correct image; if there are none, the images do not reach the model."
)
MIN_SCORE_CHANGE = 1e-4
"""Log-likelihoods, in nats, that differ by no more than this may differ by rounding alone."""


class _ControlRow(Struct, frozen=True):
    """The same questions of a benchmark with their images and with a control."""

    run: str
    score: QuestionMeasures
    """Measured with the images."""
    control: QuestionMeasures
    """Measured with `shown_instead`."""
    shown_instead: str
    paired: PairedDifference
    """Score minus control."""

    @property
    def chance(self) -> float | None:
        """Chance level of the score, which only accuracy has."""
        return self.score.scored.chance_accuracy if self.score.metric == "accuracy" else None


def control_tables(reported_runs: Sequence[ReportedRun]) -> list[Table]:
    """Return a table of controls (questions without the right image) and a table of degraded images.

    Each is returned only if a run has such results.

    Examples:
        >>> control_tables([])
        []
    """
    rows: list[_ControlRow] = []
    for reported_run in reported_runs:
        for scored in reported_run.run.benchmarks:
            rows += _control_rows(reported_run.label, scored)
    tables: list[Table] = []
    if rows:
        tables.append(_control_table(rows))
    return tables + degradation_tables(reported_runs)


def _control_table(rows: Sequence[_ControlRow]) -> Table:
    """Return a table that compares scores with those of controls, in which the model does not see the right image."""
    columns: list[Column[_ControlRow]] = [
        Column("run", lambda row: row.run, is_label=True),
        Column("benchmark", lambda row: row.score.scored.spec.name, is_label=True),
        Column("protocol", lambda row: row.score.protocol, is_label=True),
        Column("shown instead", lambda row: row.shown_instead, is_label=True),
        Column("metric", lambda row: metric_title(row.score.metric), is_label=True),
        Column("score", lambda row: number_or_dash(row.paired.first_value, row.score.row.unit)),
        Column("control", lambda row: number_or_dash(row.paired.second_value, row.score.row.unit)),
        Column("difference [95%] n", _difference_cell),
        Column("chance", lambda row: number_or_dash(row.chance, row.score.row.unit)),
        Column("other answers", lambda row: _changed_replies(row.score, row.control)),
    ]
    return tabulate("What the images contribute", columns, rows, [CONTROL_NOTE])


def _control_rows(run: str, scored: ScoredBenchmark) -> Iterator[_ControlRow]:
    """Compare the score of each protocol with that of its control, if the run has both.

    A control is a protocol that asks the same questions without the right image: for example with no image, or with
    another one. Its declaration names the protocol that it is a control of. Controls that degrade the image by some
    dose, for example by blur, are left out, because they have a table of their own.

    Args:
        run: The label of the run.
        scored: A benchmark of the run.
    """
    metric = leading_headline(scored)
    protocols: set[str] = set()
    for protocol, _, scored_metric in scored.score_rows:
        if scored_metric == metric:
            protocols.add(protocol)
    if not any(labelled_declaration(protocol).control_of in protocols for protocol in protocols):
        return

    measured: dict[tuple[str, str], QuestionMeasures] = {}
    for measures in question_values(scored, [metric]):
        measured[measures.protocol, measures.metric] = measures
    for control in measured.values():
        declaration = labelled_declaration(control.protocol)
        is_degradation = declaration.dose is not None
        score = measured.get((declaration.control_of, control.metric))
        if is_degradation or score is None:
            continue
        paired = pair((score.protocol, control.protocol), score, control).result
        yield _ControlRow(
            run=run,
            score=score,
            control=control,
            shown_instead=declaration.control_input,
            paired=paired,
        )


def _difference_cell(row: _ControlRow) -> Cell:
    if row.paired.difference.value is None:
        return AbsentCell("no question has a value both with and without its image")
    return NumberCell.of_difference(row.score.row.unit, row.paired.difference)


def _changed_replies(score: QuestionMeasures, control: QuestionMeasures) -> str:
    """Return how many replies differ from those with the right image: `12 of 40`.

    Args:
        score: The values with the right image.
        control: The values without it.

    Returns:
        The text; a dash if no question has a reply in both.
    """
    with_image: dict[tuple[str, Variant], Prediction] = {}
    with_control: dict[tuple[str, Variant], Prediction] = {}
    for prediction in score.scored.predictions:
        if prediction.error is not None or prediction.method != score.method:
            continue
        presentation = (prediction.sample_id, prediction.variant)
        if prediction.protocol == score.protocol:
            with_image[presentation] = prediction
        elif prediction.protocol == control.protocol:
            with_control[presentation] = prediction

    shared = with_image.keys() & with_control.keys()
    if not shared:
        return DASH
    changed = 0
    for presentation in shared:
        if _is_changed(with_image[presentation], with_control[presentation]):
            changed += 1
    return f"{changed:,} of {len(shared):,}"


def _is_changed(first: Prediction, second: Prediction) -> bool:
    """Return whether two predictions differ: in a log-likelihood of an option, or else in what was read."""
    if first.scores and second.scores:
        for score, other_score in zip(first.scores, second.scores, strict=True):
            if abs(score - other_score) > MIN_SCORE_CHANGE:
                return True
        return False
    return (
        first.choice != second.choice
        or first.text != second.text
        or first.unparsed_text != second.unparsed_text
    )
