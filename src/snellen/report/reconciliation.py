"""A reconciliation in words: the bridge as a table, examples of each cause, and sentences around them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from msgspec.structs import replace

from snellen.analysis.reconciling import CAUSES, Cause, Difference, Reconciliation
from snellen.report.content import Head, Section, TableBlock
from snellen.report.markdown import escape, markdown_tables
from snellen.report.rendering import offline_document
from snellen.report.report_section import ReportSection
from snellen.report.table import Table

EXAMPLES = 2
"""Examples of each cause."""
TITLE = "Why the numbers differ"
LONGEST = 160
"""Characters of a text in an example."""


def bridge_table(found: Reconciliation) -> Table:
    """The bridge from the first number to the second, a row for each step, with running totals in percent."""
    total = found.first_number
    rows: list[tuple[str | int, ...]] = [(found.first_label, "", "", "", "", _percent(total))]
    for step in found.steps:
        total += step.change
        rows.append(
            (
                step.words,
                step.questions,
                step.gained or "",
                step.lost or "",
                _points(step.change),
                _percent(total),
            )
        )
    rows.append((found.second_label, "", "", "", "", _percent(found.second_number)))
    header = ("step", "questions", "up", "down", "points", "number")
    notes = (
        f"{found.common:,} questions are in both results. Up and down: questions whose verdict is higher or lower in the "
        "second. The steps add up exactly.",
    )
    return Table("From the first number to the second", header, tuple(rows), notes=notes)


def bridge_summary(found: Reconciliation) -> list[str]:
    """Sentences that open a reconciliation."""
    gap = found.second_number - found.first_number
    sentences = [
        f"{found.first_label}: {_percent(found.first_number)}. {found.second_label}: {_percent(found.second_number)}. "
        f"Difference: {_points(gap)} points.",
        f"The verdicts differ on {len(found.differences):,} of {found.common:,} questions.",
    ]
    largest = max(found.steps, key=lambda step: abs(step.change), default=None)
    if largest is not None and largest.change:
        sentences.append(f"The largest step: {largest.words} ({_points(largest.change)} points).")
    if found.same_verdict_other_reading:
        sentences.append(
            f"On {found.same_verdict_other_reading:,} further questions replies or readings differ, and the verdicts do not."
        )
    return [*sentences, *(f"{note}." for note in found.notes)]


def examples(found: Reconciliation, most: int = EXAMPLES) -> list[tuple[str, list[Difference]]]:
    """The first differences of each cause, with the cause in words."""
    by_cause: dict[Cause, list[Difference]] = {}
    for difference in found.differences:
        by_cause.setdefault(difference.cause, []).append(difference)
    return [(words, by_cause[cause][:most]) for cause, words in CAUSES.items() if cause in by_cause]


def example_lines(difference: Difference, labels: Sequence[str]) -> list[str]:
    """A difference in a few lines: what was asked, and what each side has."""
    first, second = difference.first, difference.second
    question = first.question or second.question or first.prompt or second.prompt
    lines = [f"{difference.name}: {_short(question)}"]
    for label, item in zip(labels, (first, second), strict=True):
        parts = [f"reply {_quoted(item.reply)}"]
        if item.reading is not None:
            parts.append(f"read as {_quoted(item.reading)}" if item.reading else "nothing read")
        parts.append(f"right {' / '.join(map(_quoted, item.golds))}")
        parts.append(f"verdict {float(item.verdict):g}")
        lines.append(f"  {label}: {', '.join(parts)}")
    return lines


def as_values(found: Reconciliation) -> dict[str, object]:
    """The whole reconciliation as values of JSON; numbers are shares."""
    return {
        "first": found.first_label,
        "second": found.second_label,
        "first_number": float(found.first_number),
        "second_number": float(found.second_number),
        "common": found.common,
        "only_first": found.only_first,
        "only_second": found.only_second,
        "steps": [
            {
                "cause": step.cause,
                "words": step.words,
                "questions": step.questions,
                "up": step.gained,
                "down": step.lost,
                "change": float(step.change),
            }
            for step in found.steps
        ],
        "differences": [
            {
                "name": difference.name,
                "cause": difference.cause,
                "first": _item(difference, first=True),
                "second": _item(difference, first=False),
            }
            for difference in found.differences
        ],
        "notes": list(found.notes),
    }


def as_markdown(found: Reconciliation) -> str:
    """The reconciliation as a section of a report in Markdown."""
    sentences = [f"- {escape(sentence)}" for sentence in bridge_summary(found)]
    tables = markdown_tables(reconciliation_tables(found), 3)
    return "\n".join([f"## {TITLE}", "", *sentences, "", *tables])


def as_html(found: Reconciliation) -> str:
    """The reconciliation as a page that opens offline."""
    head = Head(
        "Reconciliation",
        (found.first_label, found.second_label),
        facts=((found.common, "common questions"), (len(found.differences), "other verdicts")),
        findings=tuple(bridge_summary(found)),
    )
    title = f"{found.first_label} and {found.second_label}"
    blocks = tuple(TableBlock(table, "summary") for table in reconciliation_tables(found))
    return offline_document(title, head, [Section("why", TITLE, blocks)])


# --- in a report of runs ----------------------------------------------------------------------------------------------


def reconciliation_section(found: Reconciliation) -> ReportSection:
    """Return the section of a report that explains why another result on the same questions differs."""
    lead = f"from {found.first_label} to {found.second_label}"
    tables = reconciliation_tables(found)
    return ReportSection("why", TITLE, lead, lambda views: tables, after="comparison")


def reconciliation_tables(found: Reconciliation) -> list[Table]:
    """Return the bridge and, if verdicts differ, the examples of each cause."""
    bridge = bridge_table(found)
    bridge = replace(bridge, notes=(*bridge.notes, *(f"{note}." for note in found.notes)))
    shown = _examples_table(found)
    return [bridge, shown] if shown.rows else [bridge]


def _examples_table(found: Reconciliation) -> Table:
    """The first differences of each cause, with a row for each of the two results."""
    rows: list[tuple[str | int, ...]] = []
    for words, members in examples(found):
        for difference in members:
            sides = ((found.first_label, difference.first), (found.second_label, difference.second))
            question = difference.first.question or difference.first.prompt
            name = f"{difference.name}: {_short(question)}" if question else difference.name
            for label, item in sides:
                reading = "not recorded" if item.reading is None else _short(item.reading)
                reply = "none" if item.reply is None else _short(item.reply)
                golds = " / ".join(map(_short, item.golds))
                verdict = f"{float(item.verdict):g}"
                rows.append((words, name, label, reply, reading, golds, verdict))
    header = ("cause", "question", "result", "reply", "read as", "right answer", "verdict")
    return Table("Examples of each cause", header, tuple(rows), label_columns=3)


def _item(difference: Difference, *, first: bool) -> dict[str, object]:
    item = difference.first if first else difference.second
    return {
        "reply": item.reply,
        "reading": item.reading,
        "golds": list(item.golds),
        "options": list(item.options),
        "verdict": float(item.verdict),
    }


def _percent(value: Fraction) -> str:
    return f"{float(value) * 100:.2f}%"


def _points(value: Fraction) -> str:
    return f"{float(value) * 100:+.2f}"


def _short(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= LONGEST else f"{plain[: LONGEST - 4]} ..."


def _quoted(text: str | None) -> str:
    return "none" if text is None else repr(_short(text))
