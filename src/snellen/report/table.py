"""A table, independent of whether a terminal, Markdown or HTML shows it; and its cells as pages and LaTeX show them.

Formatting of numbers, never without interval and n.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from snellen.catalogue import dimension_titles
from snellen.metrics.declaration import SHARE, declared, metric_of, unit_multiplier
from snellen.records import Estimate

DASH = "—"
"""The text of an empty cell."""
SHARE_POINTS = "points of a share"
LETTERS = 28
"""Longest label in a chart, in characters."""
FEW_GROUPS = 10
FEW_GROUPS_NOTE = f"fewer than {FEW_GROUPS} images or dialogues: the interval is unreliable"
LIKE_OTHERS = "Scores assume that missing questions are missing completely at random."
"""What stands once below a table with such a number."""


def metric_title(metric: str) -> str:
    """Return what a metric is called in tables."""
    return declared(metric).display_name


def dimension_title(dimension: str) -> str:
    return dimension_titles().get(dimension, dimension)


def metric_meaning(metric: str) -> str:
    """What a metric is, in one line; empty for one that declares nothing."""
    declaring = metric_of(metric)
    return declaring.what if declaring else ""


def capitalised(text: str) -> str:
    """`text` with its first letter capitalised, the rest unchanged."""
    return text[:1].upper() + text[1:]


def hint_text(column: str, hint: str) -> str:
    """What a column is, as a sentence."""
    return f"{capitalised(column)}: {hint}."


def unit_of_difference(unit: str) -> str:
    """What a difference of two values in this unit is in: of two shares in points, as it is no share itself."""
    return SHARE_POINTS if unit == SHARE else unit


def percent(share: float) -> str:
    """Format a share as `62.5%`."""
    return f"{decimal_text(100 * share, 1)}%"


def value_text(estimate: Estimate, unit: str = SHARE) -> str:
    """`62.5%`, or `0.693` in a unit that is not a share; a dash when there is no value."""
    return DASH if estimate.value is None else number_text(estimate.value, unit)


def number_text(value: float, unit: str = SHARE) -> str:
    factor, digits, sign = _style(unit)
    return f"{decimal_text(factor * value, digits)}{sign}"


def interval_text(estimate: Estimate, unit: str = SHARE) -> str:
    """`[58.1, 66.7]`, or `[no interval]` when the questions are too few to have one."""
    if estimate.low is None or estimate.high is None:
        return "[no interval]"
    factor, digits, _ = _style(unit)
    return f"[{decimal_text(factor * estimate.low, digits)}, {decimal_text(factor * estimate.high, digits)}]"


def _style(unit: str) -> tuple[int, int, str]:
    """The factor and digits of values in this unit, and the sign after them."""
    if unit == SHARE:
        return 100, 1, "%"
    if unit == SHARE_POINTS:
        return 100, 1, " points"
    return (1, 2, "") if unit_multiplier(unit) != 1 else (1, 3, "")


def count_text(estimate: Estimate) -> str:
    return f"n={estimate.n:,}"


def figure_parts(estimate: Estimate, unit: str = SHARE) -> tuple[str, str, str]:
    """Value, interval and n."""
    return value_text(estimate, unit), interval_text(estimate, unit), count_text(estimate)


def figure_text(estimate: Estimate, unit: str = SHARE) -> str:
    """`62.5% [58.1, 66.7] n=440`."""
    return " ".join(figure_parts(estimate, unit))


def superscript(number: int) -> str:
    """A footnote's number in superscript digits."""
    return str(number).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


def footnote_mark(number: int, text: str) -> str:
    """What leads from a text to a footnote; apart from a number, of which it would look like a power."""
    return " " * text[-1:].isdigit() + superscript(number)


def counts_text(counts: dict[str, int]) -> str:
    """`no-match 12, empty 3`, the most frequent first; a dash when there is nothing."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} {count:,}" for name, count in ordered) or DASH


def decimal_text(value: float, digits: int) -> str:
    """`value` with `digits` decimals; never `-0.0`."""
    # Adding zero turns a rounded -0.0 into 0.0.
    return f"{round(value, digits) + 0.0:.{digits}f}"


def shorten(label: str, letters: int = LETTERS) -> str:
    """Cut a label to so many letters, the last of which is then an ellipsis."""
    return label if len(label) <= letters else f"{label[: letters - 1]}…"


def shorten_inside(label: str, letters: int) -> str:
    """`vendor/…-6-7B`: the end tells models of one family from each other."""
    if len(label) <= letters:
        return label
    return f"{label[: letters // 2 - 1]}…{label[letters // 2 - letters :]}"


class NumberCell(Struct, frozen=True):
    """A cell with an estimate, and secondary estimates beside it if something was unparsed."""

    unit: str
    estimate: Estimate
    secondary: tuple[tuple[str, Estimate], ...] = ()
    """Label and estimate: `of parsed`, over the parsed replies; `at most`, if the unparsed ones were right."""
    note: str = ""

    @property
    def text(self) -> str:
        figures = (
            f"{label} {figure_text(estimate, self.unit)}" for label, estimate in self.secondary
        )
        return "; ".join((figure_text(self.estimate, self.unit), *figures))


class AbsentCell(Struct, frozen=True):
    """A cell without a number, and the reason for the footnote."""

    note: str


Cell = str | int | NumberCell | AbsentCell
"""A cell of a table: a text, a count, a number with its interval, or the reason why there is none."""


class Table(Struct, frozen=True):
    """Rows of cells under a header of as many columns."""

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

    @property
    def all_notes(self) -> tuple[str, ...]:
        """What the columns are, then the notes."""
        return (*(hint_text(name, hint) for name, hint in self.hints.items()), *self.own_notes)

    @property
    def own_notes(self) -> tuple[str, ...]:
        """The notes, then what holds of all numbers that are of fewer questions than they should be."""
        if self.most_notes is not None:
            hidden = self._hidden_notes()
            more = "note is" if hidden == 1 else "notes are"
            advice = (f"{hidden} more {more} in the report and in --details.",) if hidden else ()
            return (*self.notes[: self.most_notes], *advice)
        estimates = (
            cell.estimate for row in self.rows for cell in row if isinstance(cell, NumberCell)
        )
        is_of_fewer = any(
            estimate.value is not None and estimate.unanswered for estimate in estimates
        )
        return (*self.notes, LIKE_OTHERS) if is_of_fewer else self.notes

    def _hidden_notes(self) -> int:
        every = len(self.notes) + len(dict.fromkeys(self._noted()))
        return max(0, every - (self.most_notes or 0))

    def has_numbers(self, column: int) -> bool:
        """Whether the column is one of numbers, and no label."""
        return column >= self.label_columns and any(
            not isinstance(row[column], str) for row in self.rows
        )

    def footnotes(self) -> dict[str, int]:
        """Return the number of each footnote, in order of appearance.

        If there is room for some only, those about lost questions take precedence over those about few groups.
        """
        notes = list(dict.fromkeys(self._noted()))
        if self.most_notes is not None:
            room = max(0, self.most_notes - len(self.notes))
            by_weight = sorted(notes, key=lambda note: FEW_GROUPS_NOTE in note)
            shown = set(by_weight[:room])
            notes = [note for note in notes if note in shown]
        return {note: i for i, note in enumerate(notes, 1)}

    def _noted(self) -> Iterator[str]:
        for row in self.rows:
            for cell in row:
                if note := footnote_of(cell):
                    yield note


def footnote_of(cell: Cell) -> str:
    """The footnote of a cell, from the cell and its estimate; empty without one."""
    if isinstance(cell, NumberCell):
        note = estimate_note(cell.estimate, partial(number_text, unit=cell.unit))
        return "; ".join(filter(None, (cell.note, note)))
    return cell.note if isinstance(cell, AbsentCell) else ""


def estimate_note(estimate: Estimate, shown: Callable[[float], str]) -> str:
    """What to know of a number; empty when nothing. `shown` writes a value in its unit."""
    return "; ".join(_notes(estimate, shown))


def _notes(estimate: Estimate, shown: Callable[[float], str]) -> Iterator[str]:
    if estimate.value is not None and estimate.groups:
        if estimate.low is None or estimate.high is None:
            yield (
                "no interval: one picture or dialogue alone, two for a number that is no mean, or no two different "
                "values of a metric without bounds"
            )
        elif estimate.groups < FEW_GROUPS:
            yield FEW_GROUPS_NOTE
    if estimate.absent:
        yield f"{estimate.absent:,} of {estimate.n:,} questions without an answer count as not right"
    if estimate.value is None:
        return
    if estimate.not_asked:
        yield f"{estimate.not_asked:,} of {estimate.questions:,} questions were not asked as far as this number needs"
    if estimate.errors:
        yield f"{estimate.errors:,} of {estimate.questions:,} questions were not answered in full, as requests failed"
    if estimate.unanswered and estimate.least is not None and estimate.most is not None:
        yield f"at worst it is from {shown(estimate.least)} to {shown(estimate.most)}"


def cell_text(cell: Cell, footnotes: dict[str, int]) -> str:
    """The cell on one line."""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int):
        return f"{cell:,}"
    text = cell.text if isinstance(cell, NumberCell) else DASH
    number = footnotes.get(footnote_of(cell))
    return text if number is None else text + footnote_mark(number, text)


# --- tables as cells of a page ---------------------------------------------------------------------------------------


FOLDED = 10
"""Rows that stand in the open; three more are not worth folding."""
WIDE = 7
"""Columns of numbers from which on an interval may take two lines, so that seven models fit side by side."""


class Figure(Struct, frozen=True):
    """A value, its interval and its n as texts; `label` where it is beside another."""

    value: str
    interval: str
    count: str
    label: str = ""


class ShownCell(Struct, frozen=True):
    """A cell; `scope` is empty where it labels nothing.

    On a page the labels of a row that has several stand in columns of their own (`is_apart`) and once more `together`
    in the first: the page shows the ones, or on a narrow screen the other, which stays in sight.
    """

    text: str = ""
    figures: tuple[Figure, ...] = ()
    is_absent: bool = False
    note: int | None = None
    scope: Literal["", "col", "colgroup", "row", "rowgroup"] = ""
    rows: int = 1
    columns: int = 1
    is_number: bool = False
    hint: str = ""
    samples: str = ""
    is_apart: bool = False
    together: tuple[ShownCell, ...] = ()


class ShownTable(Struct, frozen=True):
    """Rows of cells under one row of headings, or two where neighbouring columns share a prefix."""

    title: str
    head: tuple[tuple[ShownCell, ...], ...]
    rows: tuple[tuple[ShownCell, ...], ...]
    folded: tuple[tuple[ShownCell, ...], ...]
    """Further rows of a long table, shown when asked for."""
    notes: tuple[str, ...]
    footnotes: tuple[tuple[int, str], ...]
    is_wide: bool


def figure_of(estimate: Estimate, unit: str, label: str = "") -> Figure:
    return Figure(*figure_parts(estimate, unit), label)


def shown_table(table: Table, *, on_page: bool = False) -> ShownTable:
    """The cells of a table; on a page, of a long one the first rows apart from the others, and several labels together
    once more."""
    numbers, count = table.footnotes(), len(table.rows)
    shown = FOLDED if on_page and count > FOLDED + 3 else count
    rows, head = tuple(_row(table, place, numbers, shown) for place in range(count)), _head(table)
    if on_page and table.label_columns > 1:
        rows, head = _labels_together(table, rows), _heading_together(table, head)
    return ShownTable(
        table.title,
        head,
        rows[:shown],
        rows[shown:],
        table.all_notes,
        tuple((number, note) for note, number in numbers.items()),
        len(table.header) - table.label_columns >= WIDE,
    )


def _head(table: Table) -> tuple[tuple[ShownCell, ...], ...]:
    labels, rest = table.header[: table.label_columns], table.header[table.label_columns :]
    hints = table.hints
    names = [
        ShownCell(name, scope="col", rows=2 if table.spans else 1, hint=hints.get(name, ""))
        for name in labels
    ]
    if not table.spans:
        sides = (table.has_numbers(table.label_columns + place) for place in range(len(rest)))
        above = (
            ShownCell(name, scope="col", is_number=side, hint=hints.get(name, ""))
            for name, side in zip(rest, sides, strict=True)
        )
        return ((*names, *above),)
    spans = (ShownCell(name, scope="colgroup", columns=count) for name, count in table.spans)
    prefixes = [f"{name}, " for name, count in table.spans for _ in range(count)]
    below = (
        ShownCell(name.removeprefix(prefix), scope="col", is_number=True)
        for name, prefix in zip(rest, prefixes, strict=True)
    )
    return (*names, *spans), tuple(below)


def _row(table: Table, place: int, numbers: dict[str, int], fold: int) -> tuple[ShownCell, ...]:
    cells = []
    begins = place in (0, fold) or table.rows[place - 1][0] != table.rows[place][0]
    for column, cell in enumerate(table.rows[place]):
        text, figures = _content(cell)
        note = numbers.get(footnote_of(cell))
        is_absent = not text and not figures and not isinstance(cell, str)
        if column >= table.label_columns:
            cells.append(
                ShownCell(text, figures, is_absent, note, is_number=table.has_numbers(column))
            )
        elif column or table.label_columns == 1:
            cells.append(
                ShownCell(
                    text, figures, is_absent, note, "row", samples=table.samples.get(text, "")
                )
            )
        elif begins:
            rows, samples = _run_length(table, place, fold), table.samples.get(text, "")
            cells.append(
                ShownCell(text, figures, is_absent, note, "rowgroup", rows, samples=samples)
            )
    return tuple(cells)


Rows = tuple[tuple[ShownCell, ...], ...]


def _labels_together(table: Table, rows: Rows) -> Rows:
    labels = [tuple(cell for cell in row if cell.scope)[-table.label_columns + 1 :] for row in rows]
    firsts = (
        ShownCell(_content(row[0])[0], samples=table.samples.get(_content(row[0])[0], ""))
        for row in table.rows
    )
    return tuple(
        (ShownCell(scope="row", together=(first, *others)), *_apart(row))
        for first, others, row in zip(firsts, labels, rows, strict=True)
    )


def _heading_together(table: Table, head: Rows) -> Rows:
    top, *below = head
    labels = top[: table.label_columns]
    together = ShownCell(
        ", ".join(label.text for label in labels), scope="col", rows=top[0].rows, together=labels
    )
    return ((together, *_apart(labels), *top[table.label_columns :]), *below)


def _apart(cells: Sequence[ShownCell]) -> tuple[ShownCell, ...]:
    return tuple(replace(cell, is_apart=True) if cell.scope else cell for cell in cells)


def _run_length(table: Table, place: int, fold: int) -> int:
    """Number of rows from `place` on, on this side of the fold, that begin with the same label."""
    label, end = table.rows[place][0], fold if place < fold else len(table.rows)
    return sum(1 for _ in takewhile(lambda row: row[0] == label, table.rows[place:end]))


def _content(cell: Cell) -> tuple[str, tuple[Figure, ...]]:
    if isinstance(cell, str):
        return cell, ()
    if isinstance(cell, int):
        return f"{cell:,}", ()
    if not isinstance(cell, NumberCell):
        return "", ()
    beside = (figure_of(estimate, cell.unit, label) for label, estimate in cell.secondary)
    return "", (figure_of(cell.estimate, cell.unit), *beside)
