"""A table of a report: cells, columns and footnotes, independent of whether a terminal, Markdown or HTML shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Generic, TypeVar

from msgspec import Struct

from snellen.callers import for_caller
from snellen.records import Estimate
from snellen.report.number_text import (
    DASH,
    figure_text,
    footnote_mark,
    hint_text,
    number_text,
    unit_of_difference,
)

MIN_RELIABLE_GROUPS = 10
FEW_GROUPS_NOTE = f"fewer than {MIN_RELIABLE_GROUPS} images (or dialogues, or questions without an image): the interval is unreliable"
MISSING_AT_RANDOM_NOTE = "Scores assume that missing questions are missing completely at random."
"""What stands once below a table with such a number."""


class NumberCell(Struct, frozen=True):
    """A cell with an estimate, and secondary estimates beside it if something was unparsed.

    Examples:
        >>> NumberCell("share", Estimate(0.75, 0.05, 0.64, 0.83, 80)).unit
        'share'
    """

    unit: str
    estimate: Estimate
    secondary: tuple[tuple[str, Estimate], ...] = ()
    """Label and estimate: `of parsed`, over the parsed replies; `at most`, if the unparsed ones were right."""
    note: str = ""

    @staticmethod
    def of_difference(unit: str, estimate: Estimate) -> NumberCell:
        """Return a cell with a difference of two values.

        Args:
            unit: Unit of the two values. A difference of two shares is shown in points.
            estimate: The difference.

        Examples:
            >>> NumberCell.of_difference("share", Estimate(0.05, 0.02, 0.01, 0.09, 80)).unit
            'points of a share'
        """
        return NumberCell(unit_of_difference(unit), estimate)

    @property
    def text(self) -> str:
        """The number with its interval and n as text. Further numbers of the cell follow, each with its label."""
        texts = [figure_text(self.estimate, self.unit)]
        for label, estimate in self.secondary:
            texts.append(f"{label} {figure_text(estimate, self.unit)}")
        return "; ".join(texts)


class AbsentCell(Struct, frozen=True):
    """A cell without a number, and the reason for the footnote.

    Examples:
        >>> AbsentCell("the model cannot see").note
        'the model cannot see'
    """

    note: str


Cell = str | int | NumberCell | AbsentCell
"""A cell of a table: a text, a count, a number with its interval, or the reason why there is none."""


class Table(Struct, frozen=True):
    """Rows of cells under a header of as many columns.

    Examples:
        >>> table = Table("Songs", ("bird", "songs"), (("wren", 3), ("robin", 2)))
        >>> table.rows[0]
        ('wren', 3)
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    label_columns: int = 1
    """Number of columns on the left that label the row."""
    notes: tuple[str, ...] = ()
    """Sentences under the table, before the numbered footnotes."""
    spans: tuple[tuple[str, int], ...] = ()
    """Common prefix of neighbouring columns after the labels (`prefix, rest` is the full name), and their number."""
    hints: Mapping[str, str] = {}
    """What columns are, by their heading."""
    samples: Mapping[str, str] = {}
    """On a page: which samples stand behind a row, by its label, as a query of the browser of samples."""
    most_notes: int | None = None
    """Most notes and footnotes that are shown; the others are counted in one more line. None for all."""

    def text_rows(self) -> list[list[str]]:
        """Return the cells as texts, with the marks of footnotes.

        Examples:
            >>> Table("Songs", ("bird", "songs"), (("wren", 3),)).text_rows()
            [['wren', '3']]
        """
        footnotes = self.footnotes()
        return [[cell_text(cell, footnotes) for cell in row] for row in self.rows]

    @property
    def all_notes(self) -> tuple[str, ...]:
        """The explanations of the columns, then the notes of the table."""
        hints = [hint_text(name, hint) for name, hint in self.hints.items()]
        return (*hints, *self.own_notes)

    @property
    def own_notes(self) -> tuple[str, ...]:
        """The notes below the table.

        If the table may have only some of its notes, the last one says where the others are. Otherwise a note is added
        if questions without a reply are missing from a number.
        """
        if self.most_notes is not None:
            notes = self.notes[: self.most_notes]
            n_hidden = len(self.notes) + len(self._footnote_texts()) - self.most_notes
            if n_hidden <= 0:
                return notes
            noun_and_verb = "note is" if n_hidden == 1 else "notes are"
            where_to_find = for_caller("in the report and with --details", "in report(FILE)")
            return (*notes, f"{n_hidden} more {noun_and_verb} {where_to_find}.")

        for row in self.rows:
            for cell in row:
                if not isinstance(cell, NumberCell) or cell.estimate.value is None:
                    continue
                if cell.estimate.unanswered:
                    return (*self.notes, MISSING_AT_RANDOM_NOTE)
        return self.notes

    def has_numbers(self, column: int) -> bool:
        """Return whether a column has numbers and does not label the row."""
        if column < self.label_columns:
            return False
        return any(not isinstance(row[column], str) for row in self.rows)

    def footnotes(self) -> dict[str, int]:
        """Return the text of each footnote with its number, in order of appearance in the table.

        If `most_notes` limits the notes, footnotes fill what the table's own notes leave. Those about small samples are the
        first to be left out.
        """
        texts = self._footnote_texts()
        if self.most_notes is not None:
            n_allowed = max(0, self.most_notes - len(self.notes))
            is_about_small_sample = {text: FEW_GROUPS_NOTE in text for text in texts}
            by_importance = sorted(texts, key=lambda text: is_about_small_sample[text])
            kept = set(by_importance[:n_allowed])
            texts = [text for text in texts if text in kept]
        return {text: number for number, text in enumerate(texts, 1)}

    def _footnote_texts(self) -> list[str]:
        """Return the different footnotes of all cells, in order of appearance."""
        texts: dict[str, None] = {}
        for row in self.rows:
            for cell in row:
                text = footnote_of(cell)
                if text:
                    texts[text] = None
        return list(texts)


ItemT = TypeVar("ItemT")


class Column(Struct, Generic[ItemT], frozen=True):
    """A column of a table, declared once: its heading, the cell of each item, and what it means."""

    heading: str
    cell: Callable[[ItemT], Cell]
    hint: str = ""
    """What the column is, for the notes under the table."""
    is_label: bool = False
    """Whether the column labels the row. Label columns are on the left."""


def tabulate(
    title: str,
    columns: Sequence[Column[ItemT]],
    items: Iterable[ItemT],
    notes: Sequence[str] = (),
    *,
    most_notes: int | None = None,
) -> Table:
    """Make a table with a row for each item.

    Args:
        title: Title of the table.
        columns: Its columns from left to right.
        items: What the rows are about.
        notes: Sentences under the table.
        most_notes: Most notes and footnotes to show. By default all are shown.

    Example:
        >>> columns = [Column("word", str, is_label=True), Column("letters", len)]
        >>> tabulate("Words", columns, ["cat", "horse"]).rows
        (('cat', 3), ('horse', 5))
    """
    rows = []
    for item in items:
        rows.append(tuple(column.cell(item) for column in columns))
    return Table(
        title=title,
        header=tuple(column.heading for column in columns),
        rows=tuple(rows),
        label_columns=sum(column.is_label for column in columns),
        notes=tuple(notes),
        hints={column.heading: column.hint for column in columns if column.hint},
        most_notes=most_notes,
    )


def footnote_of(cell: Cell) -> str:
    """Return the footnote of a table cell: its own note and a note on its estimate, such as that it has few images.

    Returns:
        The text; empty if there is nothing to say.
    """
    if isinstance(cell, AbsentCell):
        return cell.note
    if not isinstance(cell, NumberCell):
        return ""
    note = estimate_note(cell.estimate, partial(number_text, unit=cell.unit))
    return "; ".join(text for text in (cell.note, note) if text)


def estimate_note(estimate: Estimate, format_value: Callable[[float], str]) -> str:
    """Return what limits a number: missing questions, or groups too few for an interval; empty if nothing does.

    Args:
        estimate: The number.
        format_value: Formats a value in the unit of the number.
    """
    return "; ".join(_limitations(estimate, format_value))


def _limitations(estimate: Estimate, format_value: Callable[[float], str]) -> Iterator[str]:
    """Yield what limits an estimate: few groups, questions without a reply, no value."""
    if estimate.value is not None and estimate.groups:
        if estimate.low is None or estimate.high is None:
            yield (
                "no interval: only one image or dialogue (two for a value that is not a mean), or all values of "
                "an unbounded metric are equal"
            )
        elif estimate.groups < MIN_RELIABLE_GROUPS:
            yield FEW_GROUPS_NOTE
    if estimate.absent:
        yield f"{estimate.absent:,} of {estimate.n:,} questions have no reply and are scored as wrong"
    if estimate.value is None:
        return
    if estimate.not_asked:
        yield f"{estimate.not_asked:,} of {estimate.questions:,} questions are incomplete for this value"
    if estimate.errors:
        yield f"{estimate.errors:,} of {estimate.questions:,} questions are incomplete, because requests failed"
    if estimate.unanswered and estimate.least is not None and estimate.most is not None:
        least = format_value(estimate.least)
        most = format_value(estimate.most)
        yield f"the bounds are {least} and {most}"


def cell_text(cell: Cell, footnotes: dict[str, int]) -> str:
    """Return a cell as one line of text.

    Args:
        cell: The cell.
        footnotes: Numbers of the footnotes of its table (`Table.footnotes`).


    Examples:
        >>> cell_text(NumberCell("share", Estimate(0.75, 0.05, 0.64, 0.83, 80)), {})
        '75.0% [64.0, 83.0] n=80'
    """
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int):
        return f"{cell:,}"
    text = cell.text if isinstance(cell, NumberCell) else DASH
    number = footnotes.get(footnote_of(cell))
    if number is None:
        return text
    return text + footnote_mark(number, text)
