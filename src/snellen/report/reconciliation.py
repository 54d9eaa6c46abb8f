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

EXAMPLES = 2
"""Number of examples of each cause."""
TITLE = "Why the numbers differ"
LONGEST = 160
"""Greatest number of characters of a text in an example."""


class _BridgeRow(Struct, frozen=True):
    """A row of the bridge: the first number, a step, or the second number."""

    label: str
    number: Fraction
    """Total after the step."""
    step: BridgeStep | None = None


def bridge_table(found: Reconciliation) -> Table:
    """Return the bridge from the first number to the second, with totals in percent after each step."""
    total = found.first_number
    rows = [_BridgeRow(found.first_label, total)]
    for step in found.steps:
        total += step.change
        rows.append(_BridgeRow(step.words, total, step))
    rows.append(_BridgeRow(found.second_label, found.second_number))

    columns: list[Column[_BridgeRow]] = [
        Column("step", lambda row: row.label, is_label=True),
        Column("questions", lambda row: row.step.questions if row.step else ""),
        Column("up", lambda row: row.step.gains or "" if row.step else ""),
        Column("down", lambda row: row.step.losses or "" if row.step else ""),
        Column("points", lambda row: _points_text(row.step.change) if row.step else ""),
        Column("number", lambda row: _percent_text(row.number)),
    ]
    note = (
        f"Both results contain {found.common:,} questions. Up and down count the questions whose verdict is "
        "higher or lower in the second result. The steps add up exactly to the difference."
    )
    return tabulate("From the first number to the second", columns, rows, [note])


def bridge_summary(found: Reconciliation) -> list[str]:
    """Return the sentences that open a reconciliation: both numbers, their difference, and its largest step."""
    gap = found.second_number - found.first_number
    sentences = [
        f"{found.first_label}: {_percent_text(found.first_number)}. "
        f"{found.second_label}: {_percent_text(found.second_number)}. "
        f"Difference: {_points_text(gap)} points.",
        f"The verdicts differ on {len(found.differences):,} of {found.common:,} questions.",
    ]
    largest = max(found.steps, key=lambda step: abs(step.change), default=None)
    if largest is not None and largest.change:
        sentences.append(
            f"The largest step: {largest.words} ({_points_text(largest.change)} points)."
        )
    if found.same_verdict_other_reading:
        sentences.append(
            f"On {found.same_verdict_other_reading:,} further questions, replies or readings differ but the "
            "verdicts are equal."
        )
    for note in found.notes:
        sentences.append(f"{note}.")
    return sentences


def examples(found: Reconciliation, most: int = EXAMPLES) -> list[tuple[str, list[Difference]]]:
    """Return the description of each cause with its first differences.

    Args:
        found: The reconciliation.
        most: Number of differences of each cause.
    """
    by_cause: dict[Cause, list[Difference]] = {}
    for difference in found.differences:
        by_cause.setdefault(difference.cause, []).append(difference)
    return [(words, by_cause[cause][:most]) for cause, words in CAUSES.items() if cause in by_cause]


def example_lines(difference: Difference, labels: Sequence[str]) -> list[str]:
    """Return a difference as lines: the question, and what each result has for it.

    Args:
        difference: The difference.
        labels: Labels of the two results.
    """
    first = difference.first
    second = difference.second
    question = first.question or second.question or first.prompt or second.prompt
    lines = [f"{difference.name}: {_shorten(question)}"]
    for label, item in zip(labels, (first, second), strict=True):
        parts = [f"reply {_quoted(item.reply)}"]
        if item.reading:
            parts.append(f"read as {_quoted(item.reading)}")
        elif item.reading is not None:
            parts.append("nothing read")
        correct = " / ".join(_quoted(gold) for gold in item.golds)
        parts.append(f"correct: {correct}")
        parts.append(f"verdict {float(item.verdict):g}")
        lines.append(f"  {label}: {', '.join(parts)}")
    return lines


def as_values(found: Reconciliation) -> dict[str, object]:
    """Return a reconciliation as values of JSON. Numbers are shares, 0 to 1."""
    steps: list[dict[str, object]] = []
    for step in found.steps:
        steps.append(
            {
                "cause": step.cause,
                "words": step.words,
                "questions": step.questions,
                "up": step.gains,
                "down": step.losses,
                "change": float(step.change),
            }
        )
    differences: list[dict[str, object]] = []
    for difference in found.differences:
        differences.append(
            {
                "name": difference.name,
                "cause": difference.cause,
                "first": _item_values(difference.first),
                "second": _item_values(difference.second),
            }
        )
    return {
        "first": found.first_label,
        "second": found.second_label,
        "first_number": float(found.first_number),
        "second_number": float(found.second_number),
        "common": found.common,
        "only_first": found.only_first,
        "only_second": found.only_second,
        "steps": steps,
        "differences": differences,
        "notes": list(found.notes),
    }


def _item_values(item: ReconciledItem) -> dict[str, object]:
    return {
        "reply": item.reply,
        "reading": item.reading,
        "golds": list(item.golds),
        "options": list(item.options),
        "verdict": float(item.verdict),
    }


def as_markdown(found: Reconciliation) -> str:
    """Return a reconciliation as a section in Markdown."""
    sentences = [f"- {escape_markdown(sentence)}" for sentence in bridge_summary(found)]
    tables = markdown_tables(reconciliation_tables(found), 3)
    return "\n".join([f"## {TITLE}", "", *sentences, "", *tables])


def as_html(found: Reconciliation) -> str:
    """Return a reconciliation as an HTML page that opens offline."""
    head = PageHead(
        "Reconciliation",
        (found.first_label, found.second_label),
        facts=((found.common, "common questions"), (len(found.differences), "other verdicts")),
        findings=tuple(bridge_summary(found)),
    )
    title = f"{found.first_label} and {found.second_label}"
    blocks = tuple(TableBlock(table, "summary") for table in reconciliation_tables(found))
    return offline_document(title, head, [PageSection("why", TITLE, blocks)])


# --- in a report of runs ----------------------------------------------------------------------------------------------


def reconciliation_section(found: Reconciliation) -> ReportSection:
    """Return the section of a report that explains why another result on the same questions differs."""
    lead = f"from {found.first_label} to {found.second_label}"
    tables = reconciliation_tables(found)
    return ReportSection("why", TITLE, lead, lambda views: tables, after="comparison")


def reconciliation_tables(found: Reconciliation) -> list[Table]:
    """Return the bridge and, if verdicts differ, the examples of each cause."""
    bridge = bridge_table(found)
    notes = [f"{note}." for note in found.notes]
    tables = [replace(bridge, notes=(*bridge.notes, *notes))]
    shown = _example_table(found)
    if shown.rows:
        tables.append(shown)
    return tables


class _ExampleRow(Struct, frozen=True):
    """What one result has for an example of a cause."""

    cause: str
    question: str
    result: str
    """Label of the result."""
    item: ReconciledItem


def _example_table(found: Reconciliation) -> Table:
    """Return the first differences of each cause, with a row for each of the two results."""
    rows: list[_ExampleRow] = []
    for cause, differences in examples(found):
        for difference in differences:
            name = difference.name
            text = difference.first.question or difference.first.prompt
            if text:
                name = f"{name}: {_shorten(text)}"
            rows.append(_ExampleRow(cause, name, found.first_label, difference.first))
            rows.append(_ExampleRow(cause, name, found.second_label, difference.second))
    columns: list[Column[_ExampleRow]] = [
        Column("cause", lambda row: row.cause, is_label=True),
        Column("question", lambda row: row.question, is_label=True),
        Column("result", lambda row: row.result, is_label=True),
        Column("reply", lambda row: _shorten(row.item.reply, missing="none")),
        Column("read as", lambda row: _shorten(row.item.reading, missing="not recorded")),
        Column("right answer", lambda row: " / ".join(map(_shorten, row.item.golds))),
        Column("verdict", lambda row: f"{float(row.item.verdict):g}"),
    ]
    return tabulate("Examples of each cause", columns, rows)


def _percent_text(share: Fraction) -> str:
    return f"{float(share) * 100:.2f}%"


def _points_text(change: Fraction) -> str:
    """Return a change of a share in percentage points with its sign: `+1.25`."""
    return f"{float(change) * 100:+.2f}"


def _shorten(text: str | None, missing: str = "") -> str:
    """Return a text on one line, cut after `LONGEST` characters; `missing` for None."""
    if text is None:
        return missing
    one_line = " ".join(text.split())
    if len(one_line) <= LONGEST:
        return one_line
    return f"{one_line[: LONGEST - 4]} ..."


def _quoted(text: str | None) -> str:
    return "none" if text is None else repr(_shorten(text))
