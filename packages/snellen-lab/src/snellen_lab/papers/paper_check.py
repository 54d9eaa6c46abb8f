"""Recompute values in a paper's tables from other values in them, to find misprints.

The file `derivations.toml` of the suite declares how values follow from others: for example, that a
column is the mean of three other columns.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from typing import NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from snellen import DataError
from snellen.plugin_api import competition_ranks, entries
from snellen_lab.papers.formulas import (
    FORMULAS,
    SOURCE_COUNTS,
    half_unit,
    mean,
    nearest_share,
    pooled_share,
    round_half_up,
)
from snellen_lab.papers.printed_tables import (
    METHOD,
    MODEL,
    Derivation,
    Erratum,
    Paper,
    PrintedValue,
)
from snellen_lab.papers.repetitions import RepeatedPair, repeated_pairs

ValueT = TypeVar("ValueT")
MAX_LISTED_SOURCES = 16
"""Number of sources up to which their values are listed."""


class PaperCheck(Struct, frozen=True, kw_only=True):
    """A printed value next to the value that follows from other printed values."""

    cell: PrintedValue
    formula: str
    computed: Decimal
    agrees: bool
    arithmetic: str
    suspects: tuple[tuple[str, str], ...] = ()
    """Sources that cannot be right themselves, and what each would have to be for the value to agree."""
    erratum: Erratum | None = None

    @property
    def agreeing(self) -> Decimal:
        """Return the computed value, rounded as the paper prints it."""
        return round_half_up(self.computed, self.cell.digits)


class PaperReport(Struct, frozen=True, dict=True):
    """The results of all checks of a paper."""

    paper: Paper
    checks: tuple[PaperCheck, ...]
    repeated: tuple[RepeatedPair, ...]

    @cached_property
    def misprints(self) -> list[PaperCheck]:
        """Return the checks in which the printed value does not agree with the computed one."""
        return [check for check in self.checks if not check.agrees]

    @property
    def new_misprints(self) -> list[PaperCheck]:
        """Return the misprints that the list of the paper's known errors (errata) does not contain."""
        return [check for check in self.misprints if check.erratum is None]

    @property
    def unfound(self) -> list[Erratum]:
        """Return the known errors that a check should have found but did not."""
        misprinted_locations = {check.cell.location for check in self.misprints}
        not_found = []
        for erratum in self.paper.errata:
            if erratum.computed and erratum.location not in misprinted_locations:
                not_found.append(erratum)
        return not_found


def check_paper(paper: Paper) -> PaperReport:
    """Recompute all values of a paper that are declared to follow from others, and compare them.

    Raises:
        DataError: A derivation names columns or labels that the tables do not have.
    """
    erratum_by_location = {erratum.location: erratum for erratum in paper.errata}
    checker = _Checker(paper)
    checks: list[PaperCheck] = []
    for derivation in paper.derived.derivations:
        checks.extend(checker.checks(derivation))

    # If a mean is wrong, one of its sources may be the misprint. Only a source that is not a possible share of the
    # benchmark's questions is listed as a suspect.
    impossible_locations = set()
    for check in checks:
        if check.formula == "share of questions" and not check.agrees:
            impossible_locations.add(check.cell.location)
    completed_checks = []
    for check in checks:
        suspects = []
        for location, required_value in check.suspects:
            if location in impossible_locations:
                suspects.append((location, required_value))
        erratum = erratum_by_location.get(check.cell.location)
        completed_checks.append(replace(check, erratum=erratum, suspects=tuple(suspects)))
    return PaperReport(paper, tuple(completed_checks), tuple(repeated_pairs(paper)))


def derived_figures(paper: Paper, own_cells: Sequence[PrintedValue]) -> Iterator[PrintedValue]:
    """Compute for one more model the means and average ranks that a paper's tables print.

    A value is left out if the model lacks any of the values that it would be computed from.

    Args:
        paper: The paper.
        own_cells: The values of the model as cells of the tables. For ranks, the model is ranked
            among the printed ones.
    """
    checker = _Checker(paper, own_cells)
    for derivation in paper.derived.derivations:
        if derivation.formula not in ("mean", "average rank"):
            continue
        if MODEL in derivation.rows or MODEL in derivation.over:
            continue
        yield from checker.figures_of_model(derivation, own_cells[0].model)


class _Source(Struct, frozen=True):
    """A value from which another is computed: a printed cell, or the mean of a set of cells."""

    cells: tuple[PrintedValue, ...]
    value: Decimal


class _Computed(Struct, frozen=True):
    """A value that was computed from others, with the arithmetic as text."""

    value: Decimal
    arithmetic: str
    margin: Decimal = Decimal(0)
    """How far the value may be off because its sources are rounded."""
    suspects: tuple[tuple[str, str], ...] = ()
    """Sources, and what each would have to be for the printed value to agree."""
    cut_off: bool = False
    """Whether the printed value is this one with further decimals cut off."""


class _Column(NamedTuple):
    """A column of a table that matches a reference such as `16:* Acc`."""

    table: str
    name: str
    wildcard: str
    """The text that the reference's `*` matched."""


class _Checker:
    """Computes values from the cells of a paper and, if given, those of one more model."""

    def __init__(self, paper: Paper, more_cells: Sequence[PrintedValue] = ()) -> None:
        """Collect the printed values by table and column.

        Args:
            paper: The paper.
            more_cells: Further values, such as those of a run.
        """
        self.paper = paper
        self._cells_by_column: dict[tuple[str, str], list[PrintedValue]] = defaultdict(list)
        for table in paper.tables:
            self._add_cells(paper.values(table))
        self._add_cells(more_cells)

    def _add_cells(self, cells: Iterable[PrintedValue]) -> None:
        for cell in cells:
            if cell.value is not None:
                self._cells_by_column[cell.table, cell.column].append(cell)

    def checks(self, derivation: Derivation) -> Iterator[PaperCheck]:
        """Yield a check for each printed cell that a derivation explains.

        Raises DataError if it explains none.
        """
        n_checks = 0
        for column in self._columns(derivation.figure):
            for cell in self._cells_in(column):
                if not _has_labels(derivation.rows, cell):
                    continue
                computed = self._compute(derivation, cell, column.wildcard)
                if computed is not None:
                    n_checks += 1
                    yield _compare_with_printed(derivation, cell, computed)
        if not n_checks:
            raise DataError(
                f"{self.paper.folder}/derivations.toml: {derivation.figure} ({derivation.formula}) finds no cells; "
                "compare its columns and labels with the tables"
            )

    def figures_of_model(self, derivation: Derivation, model: str) -> Iterator[PrintedValue]:
        """Yield the values that a derivation gives for a model that is not in the paper.

        There is one for each column, and for each kind of row (the same labels apart from the
        model).
        """
        for column in self._columns(derivation.figure):
            # The last printed cell of each kind of row stands for the kind.
            example_cells: dict[tuple[str, ...], PrintedValue] = {}
            for cell in self._cells_in(column):
                if _has_labels(derivation.rows, cell) and MODEL in cell.labels:
                    row_kind = tuple(text for name, text in cell.labels.items() if name != MODEL)
                    example_cells[row_kind] = cell
            for cell in example_cells.values():
                figure = replace(cell, labels={**cell.labels, MODEL: model})
                n_printed_sources = self._count_sources(derivation, cell, column.wildcard)
                n_own_sources = self._count_sources(derivation, figure, column.wildcard)
                if n_own_sources != n_printed_sources:
                    continue
                computed = self._compute(derivation, figure, column.wildcard)
                if computed is not None:
                    yield replace(figure, printed=str(round_half_up(computed.value, cell.digits)))

    def _count_sources(self, derivation: Derivation, cell: PrintedValue, wildcard: str) -> int:
        """Return the number of cells from which a figure is computed."""
        count = 0
        for name in derivation.of:
            count += len(self._source_cells(name, derivation, cell, wildcard))
        return count

    def _source_cells(
        self, name: str, derivation: Derivation, cell: PrintedValue, wildcard: str
    ) -> list[PrintedValue]:
        """Return the cells that one source of a derivation contributes to the value in a cell.

        Args:
            name: The source: the name of a set of columns, or a reference such as `16:ViQuAE Acc`.
            derivation: The derivation.
            cell: The cell whose value is computed.
            wildcard: The text that `*` matched in the column of this cell.
        """
        source_cells = []
        for source in self._referenced_cells(name, wildcard):
            is_figure_itself = source.location == cell.location
            if _is_source_row(derivation, cell, source) and not is_figure_itself:
                source_cells.append(source)
        return source_cells

    def _compute(
        self, derivation: Derivation, cell: PrintedValue, wildcard: str
    ) -> _Computed | None:
        """Compute the value of a cell; None if it has no sources, or the formula has no value."""
        if derivation.formula == "share of questions":
            return _nearest_possible_share(derivation, cell)
        if derivation.formula == "average rank":
            return self._average_rank(derivation, cell, wildcard)

        sources = self._sources(derivation, cell, wildcard)
        if not sources:
            return None
        count = SOURCE_COUNTS.get(derivation.formula, len(sources))
        if len(sources) != count:
            raise DataError(
                f"{self.paper.folder}/derivations.toml: {derivation.figure} takes {count} sources as "
                f"{derivation.formula}, and has {len(sources)} in the row {cell.location}"
            )
        if derivation.formula == "pooled share":
            return _compute_pooled_share(derivation, cell, sources)
        return _apply_formula(derivation, cell, sources)

    def _sources(self, derivation: Derivation, cell: PrintedValue, wildcard: str) -> list[_Source]:
        """Return the values from which the value of a cell is computed.

        A set of columns gives a single value, the mean of its cells. A reference gives one for each
        cell.
        """
        sources: list[_Source] = []
        for name in derivation.of:
            cells = self._source_cells(name, derivation, cell, wildcard)
            if name in self.paper.derived.sets:
                set_mean = _mean_of_cells(cells, derivation.digits)
                if set_mean is not None:
                    sources.append(_Source(tuple(cells), set_mean))
            else:
                for source in cells:
                    sources.append(_Source((source,), source.value or Decimal(0)))
        return sources

    def _average_rank(
        self, derivation: Derivation, cell: PrintedValue, wildcard: str
    ) -> _Computed | None:
        """Compute the mean rank of the row's models, where all models are ranked in each source.

        Equal values share the best of their ranks. None is returned if there are no ranks.
        """
        ranked_models = _declared_members(derivation, cell).get(MODEL, (cell.model,))
        ranks: list[Decimal] = []
        for name in derivation.of:
            cells_by_model: dict[str, list[PrintedValue]] = defaultdict(list)
            for source in self._referenced_cells(name, wildcard):
                if _is_source_row(derivation, cell, source, free=(MODEL,)):
                    cells_by_model[source.model].append(source)
            values = []
            for cells in cells_by_model.values():
                values.append(float(_mean_of_cells(cells, derivation.digits) or 0))
            rank_by_model = dict(zip(cells_by_model, competition_ranks(values), strict=True))
            for model in ranked_models:
                if model in rank_by_model:
                    ranks.append(Decimal(rank_by_model[model]))
        if not ranks:
            return None
        value = mean(ranks)
        listed_ranks = ", ".join(str(rank) for rank in ranks)
        return _Computed(value, f"ranks {listed_ranks}: mean {_short_decimal(value)}")

    def _referenced_cells(self, name: str, wildcard: str) -> Iterator[PrintedValue]:
        """Yield the cells that the name of a set, or a reference, stands for.

        A reference is `TABLE:COLUMN` or, for the rows with a certain label only, `TABLE:COLUMN @
        LABEL`. `{}` in it is replaced by `wildcard`.
        """
        for reference in self.paper.derived.sets.get(name, (name,)):
            columns, _, label = reference.replace("{}", wildcard).partition(" @ ")
            for column in self._columns(columns):
                for cell in self._cells_in(column):
                    if not label or label in cell.labels.values():
                        yield cell

    def _cells_in(self, column: _Column) -> list[PrintedValue]:
        return self._cells_by_column[column.table, column.name]

    def _columns(self, reference: str) -> list[_Column]:
        """Return the columns that match a reference `TABLE:COLUMN`, in which `*` matches any text."""
        reference_table, _, pattern_text = reference.partition(":")
        escaped_parts = [re.escape(part) for part in pattern_text.split("*")]
        pattern = re.compile("(.*)".join(escaped_parts))
        columns = []
        for table, name in self._cells_by_column:
            match = pattern.fullmatch(name)
            if table == reference_table and match is not None:
                wildcard = match.group(1) if match.groups() else ""
                columns.append(_Column(table, name, wildcard))
        return columns


def _has_labels(labels: Mapping[str, str], cell: PrintedValue) -> bool:
    """Return whether the row of a cell has all these labels."""
    return all(cell.labels.get(column) == text for column, text in labels.items())


def _is_source_row(
    derivation: Derivation, cell: PrintedValue, source: PrintedValue, free: Sequence[str] = ()
) -> bool:
    """Return whether a computed value uses the values in the row of another cell.

    By default, a value is computed from values in rows with the same labels (model, split, ...). A
    derivation can declare exceptions.

    Args:
        derivation: The derivation, with its exceptions.
        cell: The cell of the computed value.
        source: A cell in a column of sources.
        free: Columns of labels that may differ.
    """
    members = _declared_members(derivation, cell)
    are_members_missing = bool(derivation.members) and not members
    if are_members_missing:
        return False
    for column, text in source.labels.items():
        if text in derivation.without.get(column, ()):
            return False
        if column not in free and not _is_allowed_label(derivation, cell, members, column, text):
            return False
    return True


def _is_allowed_label(
    derivation: Derivation,
    cell: PrintedValue,
    members: Mapping[str, tuple[str, ...]],
    column: str,
    text: str,
) -> bool:
    """Return whether a row with this label may be a source of a computed value.

    If the derivation declares no exception for the column, the label must be that of the computed
    cell.

    Args:
        derivation: The derivation, with its exceptions.
        cell: The cell of the computed value.
        members: The labels that the derivation allows for sources of this cell, by column.
        column: The column of the label.
        text: The label.
    """
    if column in members:
        return text in members[column]
    if column in derivation.given:
        return text == derivation.given[column]
    if column in derivation.over or column not in cell.labels:
        return True
    return text == cell.labels[column]


def _declared_members(derivation: Derivation, cell: PrintedValue) -> dict[str, tuple[str, ...]]:
    """Return the labels that `Derivation.members` allows for the sources of a cell, by column.

    The dict is empty if it declares nothing for the row of the cell.
    """
    row_labels = [text for column, text in cell.labels.items() if column != METHOD]
    return derivation.members.get(", ".join(row_labels), {})


def _mean_of_cells(cells: Sequence[PrintedValue], digits: int | None) -> Decimal | None:
    """Return the mean of cells, rounded to `digits` if the derivation says so; None without values."""
    values = [cell.value for cell in cells if cell.value is not None]
    if not values:
        return None
    value = mean(values)
    return value if digits is None else round_half_up(value, digits)


def _apply_formula(
    derivation: Derivation, cell: PrintedValue, sources: Sequence[_Source]
) -> _Computed | None:
    """Compute a value from its sources by a formula of `FORMULAS`.

    The result has a margin, because the printed sources are rounded. It is the sum of how much the
    value changes when each source is increased by half a unit of its last digit.

    Args:
        derivation: The derivation, which names the formula.
        cell: The cell of the figure, with its printed value.
        sources: The sources.

    Returns:
        The value; None if the formula is undefined for these sources.
    """
    formula = FORMULAS[derivation.formula]
    positives = Decimal(str(_declared_for_row(derivation.positives, derivation, cell) or 0))
    values = [source.value for source in sources]
    computed = formula(values, positives)
    if computed is None:
        return None

    margin = Decimal(0)
    for index, source in enumerate(sources):
        rounding = mean([half_unit(printed.digits) for printed in source.cells])
        moved_values = list(values)
        moved_values[index] += rounding
        moved = formula(moved_values, positives)
        if moved is not None:
            margin += abs(moved - computed)

    suspects: list[tuple[str, str]] = []
    if derivation.formula == "mean" and all(len(source.cells) == 1 for source in sources):
        missing_sum = ((cell.value or Decimal(0)) - computed) * len(sources)
        for source in sources:
            [source_cell] = source.cells
            required = round_half_up(source.value + missing_sum, source_cell.digits)
            suspects.append((source_cell.location, str(required)))

    inputs = f"of {len(values)} values"
    if len(values) <= MAX_LISTED_SOURCES:
        listed_values = ", ".join(_short_decimal(value) for value in values)
        inputs = f"({listed_values})"
    arithmetic = f"{derivation.formula} {inputs} = {_short_decimal(computed)}"
    return _Computed(computed, arithmetic, margin, tuple(suspects))


def _compute_pooled_share(
    derivation: Derivation, cell: PrintedValue, sources: Sequence[_Source]
) -> _Computed:
    """Compute the share of right answers over several parts of a benchmark from their shares.

    Raises:
        DataError: The derivation does not state how many questions a part has.
    """
    counts = _declared_for_row(derivation.counts, derivation, cell) or {}
    columns = [source.cells[0].column for source in sources]
    missing_columns = [column for column in columns if column not in counts]
    if missing_columns:
        raise DataError(
            f"{derivation.figure}: counts lacks {', '.join(missing_columns)} for {cell.location}"
        )
    sizes = [counts[column] for column in columns]
    share = pooled_share([source.value for source in sources], sizes)
    fractions = []
    for source, size in zip(sources, sizes, strict=True):
        n_correct = round_half_up(source.value * size / 100, 0)
        fractions.append(f"{n_correct}/{size}")
    return _Computed(share, f"questions right {' + '.join(fractions)} = {_short_decimal(share)}")


def _nearest_possible_share(derivation: Derivation, cell: PrintedValue) -> _Computed | None:
    """Return the share closest to a printed one that a whole number of right answers can give.

    For example, with 3 questions a printed 33.0 gives 33.333. None is returned if the number of
    questions is not known.
    """
    counts = _declared_for_row(derivation.counts, derivation, cell)
    questions = counts.get(cell.column) if counts else None
    if questions is None and cell.benchmark in entries():
        questions = entries()[cell.benchmark].expected.samples
    if questions is None or cell.value is None:
        return None
    tests = questions * derivation.tests
    computed, is_cut_off = nearest_share(cell.value, tests, cell.digits)
    repetition = f" put {derivation.tests} times" if derivation.tests > 1 else ""
    right = round_half_up(computed * tests / 100, 0)
    arithmetic = f"nearest share of {questions:,} questions{repetition}: {right}/{tests} = {_short_decimal(computed)}"
    if is_cut_off:
        arithmetic += ", cut off"
    return _Computed(computed, arithmetic, cut_off=is_cut_off)


def _compare_with_printed(
    derivation: Derivation, cell: PrintedValue, computed: _Computed
) -> PaperCheck:
    """Compare a printed value with the computed one.

    They agree if the computed value rounds to the printed one, or if their difference can be
    explained by the rounding of the sources or is within the tolerance that the derivation
    declares.
    """
    printed = cell.value or Decimal(0)
    agrees = round_half_up(computed.value, cell.digits) == printed or computed.cut_off
    if derivation.formula != "average rank":
        # A share exactly halfway between two decimals may have been rounded up or down.
        gap = abs(printed - computed.value)
        tolerance = half_unit(cell.digits) + computed.margin + derivation.within
        is_tie = gap == tolerance and derivation.formula == "pooled share"
        agrees = agrees or gap < tolerance or is_tie
    return PaperCheck(
        cell=cell,
        formula=derivation.formula,
        computed=computed.value,
        agrees=agrees,
        arithmetic=computed.arithmetic,
        suspects=computed.suspects,
    )


def _declared_for_row(
    by_text: Mapping[str, ValueT], derivation: Derivation, cell: PrintedValue
) -> ValueT | None:
    """Return the value that a derivation declares for the row of a cell.

    Args:
        by_text: The declared values, by the row's label in the column `counted_by`. The value under
            "" is for all other rows.
        derivation: The derivation.
        cell: The cell.

    Returns:
        The value; None if there is none for this row.
    """
    label_text = cell.labels.get(derivation.counted_by, "")
    value_for_all = by_text.get("")
    return by_text.get(label_text, value_for_all)


def _short_decimal(value: Decimal) -> str:
    """Return a value with up to four decimals."""
    text = f"{round_half_up(value, 4):f}"
    if "." in text:
        return text.rstrip("0").rstrip(".")
    return text
