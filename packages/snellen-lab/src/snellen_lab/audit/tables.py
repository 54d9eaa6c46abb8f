"""Report tables of audits: how often replies were misread, and the corrected numbers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from msgspec.structs import replace

from snellen.plugin_api import (
    AFTER_AUDIT,
    AS_READ,
    NumberCell,
    ReportedRun,
    ReportSection,
    Result,
    ScoredRun,
    Table,
    aggregate_run,
    declared_row,
    few_names,
    percent_text,
)
from snellen_lab.audit.correction import corrected_rows, uncorrected_headlines
from snellen_lab.audit.draw import read_design
from snellen_lab.audit.run_audit import Audit, ReadingError, audit_of
from snellen_lab.cell_texts import percent_or_dash

READINGS_HEADER = ("reading", "replies", "labelled", "misread", "share misread", "at most")
CORRECTED_HEADER = ("benchmark", "dimension", "protocol", "metric", "as read", "after audit")
READINGS_NOTE = (
    "`misread`: of the labelled replies, those that mean another option than was read, or one where none was, or none "
    "where one was; the share is that of all replies, and at most the value in the last column with 95% confidence."
)
CORRECTED_NOTE = (
    "Corrected for misread replies. The interval covers two uncertainties: which questions were asked, and which "
    "replies were labelled."
)


def audit_tables(reported_runs: Sequence[ReportedRun]) -> list[Table]:
    """Return two tables for each run with labels of drawn replies.

    If a run has received replies since the draw, it has one table with a note instead.
    """
    tables: list[Table] = []
    for reported_run in reported_runs:
        run = reported_run.run.counterpart or reported_run.run
        audit = audit_of(run)
        if audit is not None:
            rows = aggregate_run(run) if reported_run.run.counterpart else reported_run.rows
            tables.append(readings_table(reported_run.label, audit))
            tables.append(corrected_table(reported_run.label, run, rows, audit))
            continue
        design = read_design(reported_run.run.folder)
        if design is not None and not design.is_of(reported_run.run.folder):
            note = "The run has received replies since the draw; `snellen audit` draws again and keeps the labels."
            tables.append(
                Table(f"Reading error: {reported_run.label}", READINGS_HEADER, (), notes=(note,))
            )
    return tables


def readings_table(label: str, audit: Audit) -> Table:
    """Return a table of reading errors, with a row for each reading."""
    raters = ", ".join(rater or "one person" for rater in audit.raters)
    notes = [
        f"{audit.labelled_replies:,} of {audit.drawn_replies:,} replies drawn (seed {audit.design.seed}) are labelled, by {raters}."
    ]
    rows = []
    for error in audit.readings:
        row = (
            error.reading,
            error.replies,
            error.labelled,
            error.misread,
            percent_or_dash(error.share),
            percent_text(error.at_most),
        )
        rows.append(row)
        sentence = _no_misread_sentence(error)
        if sentence:
            notes.append(sentence)
    notes.append(READINGS_NOTE)
    return Table(f"Reading error: {label}", READINGS_HEADER, tuple(rows), notes=tuple(notes))


def _no_misread_sentence(error: ReadingError) -> str:
    """Return a sentence that none of the labelled replies was misread.

    It is "" if one was misread, if none is labelled, or if all replies are labelled.
    """
    if error.misread or not error.labelled or error.labelled == error.replies:
        return ""
    return (
        f"Of {error.replies:,} replies read as {error.reading} {error.labelled:,} are labelled and none was misread: "
        f"at most {percent_text(error.at_most)}."
    )


def corrected_table(label: str, run: ScoredRun, rows: Sequence[Result], audit: Audit) -> Table:
    """Return a table of the numbers as read and the corrected ones, with notes on headlines that have none."""
    estimates_as_read = {_row_key(row): row.estimate for row in rows}
    for row in rows:
        # If numbers were corrected already, the number as read has a row of its own.
        if row.metric.endswith(AS_READ):
            plain_row = replace(row, metric=row.metric.removesuffix(AS_READ))
            estimates_as_read[_row_key(plain_row)] = row.estimate

    table_rows = []
    for row in corrected_rows(run, rows, audit):
        metric = row.metric.removesuffix(AFTER_AUDIT)
        as_read = estimates_as_read[_row_key(replace(row, metric=metric))]
        title = declared_row(metric).display_name
        if row.slice:
            title = f"{title}, {row.slice}"
        table_rows.append(
            (
                row.benchmark,
                row.dimension,
                row.protocol,
                title,
                NumberCell(row.unit, as_read),
                NumberCell(row.unit, row.estimate),
            )
        )

    uncorrected: dict[str, dict[str, None]] = defaultdict(dict)
    for headline in uncorrected_headlines(run, rows, audit):
        name = f"{declared_row(headline.row.metric).display_name} of {headline.row.benchmark}"
        uncorrected[headline.why][name] = None
    notes = [CORRECTED_NOTE]
    for why, names in uncorrected.items():
        notes.append(f"Not corrected: {few_names(names)}; {why}.")
    return Table(
        f"Numbers after labelling {audit.labelled_replies:,} replies: {label}",
        CORRECTED_HEADER,
        tuple(table_rows),
        label_columns=4,
        notes=tuple(notes),
    )


def _row_key(row: Result) -> tuple[str, ...]:
    return row.benchmark, row.dimension, row.protocol, row.metric, row.slice


AUDIT_SECTION = ReportSection(
    "audit", "Reading error", "how often replies were misread", audit_tables, after="common"
)
