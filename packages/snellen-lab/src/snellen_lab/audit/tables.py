"""Runs with labels of a drawn part of the replies: how often replies were misread, and accuracies corrected by it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from msgspec.structs import replace

from snellen.plugin_api import (
    AFTER_AUDIT,
    AS_READ,
    DASH,
    NumberCell,
    ReportSection,
    Result,
    RunView,
    ScoredRun,
    Table,
    few_names,
    metric_title,
    percent,
    results_of,
)
from snellen_lab.audit.correction import (
    Audit,
    ReadingError,
    audit_of,
    corrected_rows,
    uncorrected_headlines,
)
from snellen_lab.audit.draw import read_design

READINGS_HEADER = ("reading", "replies", "labelled", "misread", "share misread", "at most")
CORRECTED_HEADER = ("benchmark", "dimension", "protocol", "metric", "as read", "after audit")
READINGS_NOTE = (
    "`misread`: of the labelled replies, those that mean another option than was read, or one where none was, or none "
    "where one was; the share is that of all replies, and at most the value in the last column with 95% confidence."
)
CORRECTED_NOTE = (
    "Corrected for misread replies. The interval holds two uncertainties: which questions were asked, and which "
    "replies were labelled."
)


def audit_tables(views: Sequence[RunView]) -> list[Table]:
    """Two tables for each run that has labels of drawn replies; a word where the run was asked more since."""
    tables: list[Table] = []
    for view in views:
        run = view.run.counterpart or view.run
        if audit := audit_of(run):
            rows = results_of(run) if view.run.counterpart else view.rows
            tables += [
                readings_table(view.label, audit),
                corrected_table(view.label, run, rows, audit),
            ]
        elif (design := read_design(view.run.folder)) and not design.is_of(view.run.folder):
            note = "The run was asked more since its replies were drawn; `snellen audit` draws again and keeps the labels."
            tables.append(Table(f"Reading error: {view.label}", READINGS_HEADER, (), notes=(note,)))
    return tables


def readings_table(label: str, audit: Audit) -> Table:
    """How often replies were misread, by how they were read."""
    who = ", ".join(rater or "one person" for rater in audit.raters)
    note = f"{audit.labelled:,} of {audit.drawn:,} replies drawn (seed {audit.design.seed}) are labelled, by {who}."
    rows = tuple(
        (
            error.reading,
            error.replies,
            error.labelled,
            error.misread,
            DASH if error.share is None else percent(error.share),
            percent(error.at_most),
        )
        for error in audit.readings
    )
    sentences = tuple(filter(None, map(_sentence, audit.readings)))
    return Table(
        f"Reading error: {label}", READINGS_HEADER, rows, notes=(note, *sentences, READINGS_NOTE)
    )


def corrected_table(label: str, run: ScoredRun, rows: Sequence[Result], audit: Audit) -> Table:
    """The numbers as read beside the corrected ones, and why headlines have none."""
    before = {_place(row): row.estimate for row in rows}
    for row in rows:
        if row.metric.endswith(AS_READ):
            before[_place(replace(row, metric=row.metric.removesuffix(AS_READ)))] = row.estimate
    cells = []
    for row in corrected_rows(run, rows, audit):
        metric = row.metric.removesuffix(AFTER_AUDIT)
        place = _place(replace(row, metric=metric))
        name = f"{metric_title(metric)}, {row.slice}" if row.slice else metric_title(metric)
        names = (row.benchmark, row.dimension, row.protocol, name)
        cells.append(
            (*names, NumberCell(row.unit, before[place]), NumberCell(row.unit, row.estimate))
        )
    without: dict[str, dict[str, None]] = defaultdict(dict)
    for headline in uncorrected_headlines(run, rows, audit):
        without[headline.why][
            f"{metric_title(headline.row.metric)} of {headline.row.benchmark}"
        ] = None
    notes = (
        CORRECTED_NOTE,
        *(f"Not corrected: {few_names(names)}; {why}." for why, names in without.items()),
    )
    title = f"Numbers after labelling {audit.labelled:,} replies: {label}"
    return Table(title, CORRECTED_HEADER, tuple(cells), label_columns=4, notes=notes)


def _place(row: Result) -> tuple[str, ...]:
    return row.benchmark, row.dimension, row.protocol, row.metric, row.slice


def _sentence(error: ReadingError) -> str:
    """In words, where nothing was misread."""
    if error.misread or not error.labelled or error.labelled == error.replies:
        return ""
    return (
        f"Of {error.replies:,} replies read as {error.reading} {error.labelled:,} are labelled and none was misread: "
        f"at most {percent(error.at_most)}."
    )


AUDIT_SECTION = ReportSection(
    "audit", "Reading error", "how often replies were misread", audit_tables, after="common"
)
