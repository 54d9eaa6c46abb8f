"""A reconciliation as tables and sentences: why two results on the same questions differ.

The bridge leads from the first number to the second, with a step for each cause, such as another reading of replies. An
item is what one result has for a question: reply, reading, correct answers and verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from msgspec import Struct
from msgspec.structs import replace

from snellen.analysis.reconciling import (
    CAUSES,
    BridgeStep,
    Cause,
    Difference,
    ReconciledItem,
    Reconciliation,
)
from snellen.report.content import PageHead, PageSection, TableBlock
from snellen.report.markdown import escape_markdown, markdown_tables
from snellen.report.rendering import offline_document
from snellen.report.report_section import ReportSection
from snellen.report.table import Column, Table, tabulate

EXAMPLES_PER_CAUSE = 2
"""Number of examples of each cause."""
RECONCILIATION_TITLE = "Why the numbers differ"
MAX_EXAMPLE_LETTERS = 160
"""Greatest number of characters of a text in an example."""


class _BridgeRow(Struct, frozen=True):
    """A row of the bridge: the first number, a step, or the second number."""

    label: str
    number: Fraction
    """Total after the step."""
    step: BridgeStep | None = None


def bridge_table(reconciliation: Reconciliation) -> Table:
    """Return a table that leads from the first of two results to the second, one cause of differences after the other.

    Each row says how many questions a cause concerns and what the number in percent is after it.
    """
    total = reconciliation.first_number
    rows = [_BridgeRow(reconciliation.first_label, total)]
    for step in reconciliation.steps:
        total += step.change
        rows.append(_BridgeRow(step.description, total, step))
    rows.append(_BridgeRow(reconciliation.second_label, reconciliation.second_number))

    columns: list[Column[_BridgeRow]] = [
        Column("step", lambda row: row.label, is_label=True),
        Column("questions", lambda row: row.step.questions if row.step else ""),
        Column("up", lambda row: row.step.gains or "" if row.step else ""),
        Column("down", lambda row: row.step.losses or "" if row.step else ""),
        Column("points", lambda row: _points_text(row.step.change) if row.step else ""),
        Column("number", lambda row: _percent_text(row.number)),
    ]
    note = (
        f"Both results contain {reconciliation.common:,} questions. Up and down count the questions whose verdict is "
        "higher or lower in the second result. The steps add up exactly to the difference."
    )
    return tabulate("From the first number to the second", columns, rows, [note])


def bridge_summary(reconciliation: Reconciliation) -> list[str]:
    """Return the sentences that open a reconciliation: both numbers, their difference, and its largest step."""
    gap = reconciliation.second_number - reconciliation.first_number
    sentences = [
        f"{reconciliation.first_label}: {_percent_text(reconciliation.first_number)}. "
        f"{reconciliation.second_label}: {_percent_text(reconciliation.second_number)}. "
        f"Difference: {_points_text(gap)} points.",
        f"The verdicts differ on {len(reconciliation.differences):,} of {reconciliation.common:,} questions.",
    ]
    largest = max(reconciliation.steps, key=lambda step: abs(step.change), default=None)
    if largest is not None and largest.change:
        sentences.append(
            f"The largest step: {largest.description} ({_points_text(largest.change)} points)."
        )
    if reconciliation.same_verdict_other_reading:
        sentences.append(
            f"On {reconciliation.same_verdict_other_reading:,} further questions, replies or readings differ but the "
            "verdicts are equal."
        )
    for note in reconciliation.notes:
        sentences.append(f"{note}.")
    return sentences


def examples(
    reconciliation: Reconciliation, n_examples: int = EXAMPLES_PER_CAUSE
) -> list[tuple[str, list[Difference]]]:
    """Return the description of each cause with its first differences.

    Args:
        reconciliation: The reconciliation.
        n_examples: Number of differences of each cause.
    """
    by_cause: dict[Cause, list[Difference]] = {}
    for difference in reconciliation.differences:
        by_cause.setdefault(difference.cause, []).append(difference)
    return [
        (description, by_cause[cause][:n_examples])
        for cause, description in CAUSES.items()
        if cause in by_cause
    ]


def example_lines(difference: Difference, labels: Sequence[str]) -> list[str]:
    """Return lines that show one question with different verdicts: its text, and the reply and reading of each result.

    Args:
        difference: The question as both results have it.
        labels: Labels of the two results.
    """
    first = difference.first
    second = difference.second
    question = first.question or second.question or first.prompt or second.prompt
    lines = [f"{difference.name}: {_shorten(question)}"]
    for label, item in zip(labels, (first, second), strict=True):
        clauses = [f"reply {_quoted(item.reply)}"]
        if item.reading:
            clauses.append(f"read as {_quoted(item.reading)}")
        elif item.reading is not None:
            clauses.append("nothing read")
        correct = " / ".join(_quoted(gold) for gold in item.correct_answers)
        clauses.append(f"correct: {correct}")
        clauses.append(f"verdict {float(item.verdict):g}")
        lines.append(f"  {label}: {', '.join(clauses)}")
    return lines


def as_values(reconciliation: Reconciliation) -> dict[str, object]:
    """Return a reconciliation as values of JSON. Numbers are shares, 0 to 1."""
    steps: list[dict[str, object]] = []
    for step in reconciliation.steps:
        steps.append(
            {
                "cause": step.cause,
                "words": step.description,
                "questions": step.questions,
                "up": step.gains,
                "down": step.losses,
                "change": float(step.change),
            }
        )
    differences: list[dict[str, object]] = []
    for difference in reconciliation.differences:
        differences.append(
            {
                "name": difference.name,
                "cause": difference.cause,
                "first": _item_values(difference.first),
                "second": _item_values(difference.second),
            }
        )
    return {
        "first": reconciliation.first_label,
        "second": reconciliation.second_label,
        "first_number": float(reconciliation.first_number),
        "second_number": float(reconciliation.second_number),
        "common": reconciliation.common,
        "only_first": reconciliation.only_first,
        "only_second": reconciliation.only_second,
        "steps": steps,
        "differences": differences,
        "notes": list(reconciliation.notes),
    }


def _item_values(item: ReconciledItem) -> dict[str, object]:
    """Return one side's reading of a question as values of JSON."""
    return {
        "reply": item.reply,
        "reading": item.reading,
        "golds": list(item.correct_answers),
        "options": list(item.options),
        "verdict": float(item.verdict),
    }


def as_markdown(reconciliation: Reconciliation) -> str:
    """Return a reconciliation as a section in Markdown."""
    sentences = [f"- {escape_markdown(sentence)}" for sentence in bridge_summary(reconciliation)]
    tables = markdown_tables(reconciliation_tables(reconciliation), 3)
    return "\n".join([f"## {RECONCILIATION_TITLE}", "", *sentences, "", *tables])


def as_html(reconciliation: Reconciliation) -> str:
    """Return a reconciliation as an HTML page that opens offline."""
    head = PageHead(
        "Reconciliation",
        (reconciliation.first_label, reconciliation.second_label),
        facts=(
            (reconciliation.common, "common questions"),
            (len(reconciliation.differences), "other verdicts"),
        ),
        findings=tuple(bridge_summary(reconciliation)),
    )
    title = f"{reconciliation.first_label} and {reconciliation.second_label}"
    blocks = tuple(TableBlock(table, "summary") for table in reconciliation_tables(reconciliation))
    return offline_document(title, head, [PageSection("why", RECONCILIATION_TITLE, blocks)])


# --- in a report of runs ----------------------------------------------------------------------------------------------


def reconciliation_section(reconciliation: Reconciliation) -> ReportSection:
    """Return the section of a report that explains why another result on the same questions differs."""
    lead = f"from {reconciliation.first_label} to {reconciliation.second_label}"
    tables = reconciliation_tables(reconciliation)
    return ReportSection(
        "why", RECONCILIATION_TITLE, lead, lambda reported_runs: tables, after="comparison"
    )


def reconciliation_tables(reconciliation: Reconciliation) -> list[Table]:
    """Return tables that explain why two results on the same questions differ.

    The first one leads from one number to the other, cause by cause. The second has examples of each cause, if there
    are any.
    """
    bridge = bridge_table(reconciliation)
    notes = [f"{note}." for note in reconciliation.notes]
    tables = [replace(bridge, notes=(*bridge.notes, *notes))]
    example_table = _example_table(reconciliation)
    if example_table.rows:
        tables.append(example_table)
    return tables


class _ExampleRow(Struct, frozen=True):
    """What one result has for an example of a cause."""

    cause: str
    question: str
    result: str
    """Label of the result."""
    item: ReconciledItem


def _example_table(reconciliation: Reconciliation) -> Table:
    """Return a table of questions on which two results differ, for each cause the first few.

    Each question has two rows, one for each result, with its reply, what was read from it, and the verdict.
    """
    rows: list[_ExampleRow] = []
    for cause, differences in examples(reconciliation):
        for difference in differences:
            name = difference.name
            text = difference.first.question or difference.first.prompt
            if text:
                name = f"{name}: {_shorten(text)}"
            rows.append(_ExampleRow(cause, name, reconciliation.first_label, difference.first))
            rows.append(_ExampleRow(cause, name, reconciliation.second_label, difference.second))
    columns: list[Column[_ExampleRow]] = [
        Column("cause", lambda row: row.cause, is_label=True),
        Column("question", lambda row: row.question, is_label=True),
        Column("result", lambda row: row.result, is_label=True),
        Column("reply", lambda row: _shorten(row.item.reply, missing="none")),
        Column("read as", lambda row: _shorten(row.item.reading, missing="not recorded")),
        Column("correct answer", lambda row: " / ".join(map(_shorten, row.item.correct_answers))),
        Column("verdict", lambda row: f"{float(row.item.verdict):g}"),
    ]
    return tabulate("Examples of each cause", columns, rows)


def _percent_text(share: Fraction) -> str:
    return f"{float(share) * 100:.2f}%"


def _points_text(change: Fraction) -> str:
    """Return a change of a share in percentage points with its sign: `+1.25`."""
    return f"{float(change) * 100:+.2f}"


def _shorten(text: str | None, missing: str = "") -> str:
    """Return a text on one line, cut after `MAX_EXAMPLE_LETTERS` characters; `missing` for None."""
    if text is None:
        return missing
    one_line = " ".join(text.split())
    if len(one_line) <= MAX_EXAMPLE_LETTERS:
        return one_line
    return f"{one_line[: MAX_EXAMPLE_LETTERS - 4]} ..."


def _quoted(text: str | None) -> str:
    return "none" if text is None else repr(_shorten(text))
