"""Recomputes the figures of a paper's tables from each other, as the suite's `derivations.toml` declares."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import ROUND_DOWN, ROUND_FLOOR, Decimal
from functools import cached_property
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from snellen import DataError
from snellen.plugin_api import competition_ranks, entries, rounded
from snellen_lab.papers.printed_tables import (
    METHOD,
    MODEL,
    Derivation,
    Erratum,
    Paper,
    PrintedValue,
)

ValueT = TypeVar("ValueT")
MOST_SOURCES = 16
"""More sources than this are counted, not written out."""


class PaperCheck(Struct, frozen=True, kw_only=True):
    """One printed value beside what other printed values make of it."""

    cell: PrintedValue
    formula: str
    computed: Decimal
    agrees: bool
    arithmetic: str
    suspects: tuple[tuple[str, str], ...] = ()
    """Sources that cannot be right themselves, and what they would have to be."""
    known: Erratum | None = None

    @property
    def agreeing(self) -> Decimal:
        """What the cell would have to print."""
        return rounded(self.computed, self.cell.digits)


class RepeatedPair(Struct, frozen=True):
    """Two cells with the same value and the same second value: a slip in copying, or chance."""

    first: PrintedValue
    second: PrintedValue
    pair: tuple[str, str]


class PaperReport(Struct, frozen=True, dict=True):
    """All checks of one paper."""

    paper: Paper
    checks: tuple[PaperCheck, ...]
    repeated: tuple[RepeatedPair, ...]

    @cached_property
    def misprints(self) -> list[PaperCheck]:
        return [check for check in self.checks if not check.agrees]

    @property
    def unknown(self) -> list[PaperCheck]:
        """Those that the suite's errata do not name."""
        return [check for check in self.misprints if check.known is None]

    @property
    def unfound(self) -> list[Erratum]:
        """Errata that a check should find and none did."""
        misprinted = {check.cell.place for check in self.misprints}
        return [
            erratum
            for erratum in self.paper.errata
            if erratum.computed and erratum.place not in misprinted
        ]


def check_paper(paper: Paper) -> PaperReport:
    """Every check that the paper's declarations allow. Raises DataError for a declaration without cells."""
    errata = {erratum.place: erratum for erratum in paper.errata}
    checker = _Checker(paper)
    checks = [
        check for derivation in paper.derived.derivations for check in checker.checks(derivation)
    ]
    impossible = {
        check.cell.place
        for check in checks
        if check.formula == "share of questions" and not check.agrees
    }
    finished = tuple(
        replace(
            check,
            known=errata.get(check.cell.place),
            suspects=tuple(suspect for suspect in check.suspects if suspect[0] in impossible),
        )
        for check in checks
    )
    return PaperReport(paper, finished, tuple(_repeated(paper)))


def derived_figures(paper: Paper, own_cells: Sequence[PrintedValue]) -> Iterator[PrintedValue]:
    """What the values of one more model make of figures that are declared as means or average ranks.

    `own_cells` are its values as cells of the tables, in rows of its own; ranks are among it and the printed models. A
    figure for which it lacks a value that they have is left out.
    """
    checker = _Checker(paper, own_cells)
    for derivation in paper.derived.derivations:
        if derivation.formula in ("mean", "average rank") and MODEL not in (
            *derivation.rows,
            *derivation.over,
        ):
            yield from checker.of_another(derivation, own_cells[0].model)


class _Source(Struct, frozen=True):
    """A term of a formula: a cell, or the mean of a set of cells."""

    cells: tuple[PrintedValue, ...]
    value: Decimal


class _Computed(Struct, frozen=True):
    """What sources make of a figure."""

    value: Decimal
    arithmetic: str
    margin: Decimal = Decimal(0)
    """How far the rounding of the sources can move it."""
    suspects: tuple[tuple[str, str], ...] = ()
    """Sources, and what each would have to be for the figure to agree."""
    cut_off: bool = False
    """Whether the figure is the value with its further decimals cut off."""


class _Checker:
    def __init__(self, paper: Paper, more: Sequence[PrintedValue] = ()) -> None:
        self.paper = paper
        self._by_column: dict[tuple[str, str], list[PrintedValue]] = defaultdict(list)
        for cell in (*(cell for table in paper.tables for cell in paper.values(table)), *more):
            if cell.value is not None:
                self._by_column[cell.table, cell.column].append(cell)

    def checks(self, derivation: Derivation) -> Iterator[PaperCheck]:
        """One for each cell that the derivation is about. Raises DataError when there is none."""
        empty = True
        for column, wildcard in self._columns(derivation.figure):
            for cell in self._by_column[column]:
                if _is_in(derivation.rows, cell):
                    check = self._check(derivation, cell, wildcard)
                    empty = empty and check is None
                    if check:
                        yield check
        if empty:
            raise DataError(
                f"{self.paper.folder}/derivations.toml: {derivation.figure} ({derivation.formula}) finds no cells; "
                "compare its columns and labels with the tables"
            )

    def of_another(self, derivation: Derivation, model: str) -> Iterator[PrintedValue]:
        """The figures of a model that the paper does not have, one for each column and kind of row."""
        for column, wildcard in self._columns(derivation.figure):
            printed = [
                cell
                for cell in self._by_column[column]
                if _is_in(derivation.rows, cell) and MODEL in cell.labels
            ]
            for cell in {
                tuple(cell.labels[name] for name in cell.labels if name != MODEL): cell
                for cell in printed
            }.values():
                figure = replace(cell, labels={**cell.labels, MODEL: model})
                terms = {
                    sum(
                        len(self._entering(name, derivation, value, wildcard))
                        for name in derivation.of
                    )
                    for value in (cell, figure)
                }
                computed = self._compute(derivation, figure, wildcard) if len(terms) == 1 else None
                if computed:
                    yield replace(figure, printed=str(rounded(computed.value, cell.digits)))

    def _entering(
        self, name: str, derivation: Derivation, cell: PrintedValue, wildcard: str
    ) -> list[PrintedValue]:
        """The cells of a set, or of a reference, that enter a figure."""
        sources = self._cells_of(name, wildcard)
        return [
            source
            for source in sources
            if _enters(derivation, cell, source) and source.place != cell.place
        ]

    def _check(
        self, derivation: Derivation, cell: PrintedValue, wildcard: str
    ) -> PaperCheck | None:
        computed = self._compute(derivation, cell, wildcard)
        return None if computed is None else _compared(derivation, cell, computed)

    def _compute(
        self, derivation: Derivation, cell: PrintedValue, wildcard: str
    ) -> _Computed | None:
        if derivation.formula == "share of questions":
            return _countable(derivation, cell)
        if derivation.formula == "average rank":
            return self._ranked(derivation, cell, wildcard)
        sources = self._sources(derivation, cell, wildcard)
        if not sources:
            return None
        count = SOURCES.get(derivation.formula, len(sources))
        if len(sources) != count:
            raise DataError(
                f"{self.paper.folder}/derivations.toml: {derivation.figure} takes {count} sources as "
                f"{derivation.formula}, and has {len(sources)} in the row {cell.place}"
            )
        if derivation.formula == "pooled share":
            return _pooled(derivation, cell, sources)
        return _evaluated(derivation, cell, sources)

    def _sources(self, derivation: Derivation, cell: PrintedValue, wildcard: str) -> list[_Source]:
        sources: list[_Source] = []
        for name in derivation.of:
            cells = self._entering(name, derivation, cell, wildcard)
            if name in self.paper.derived.sets:
                sources += _as_mean(cells, derivation.digits)
            else:
                sources += [_Source((source,), source.value or Decimal(0)) for source in cells]
        return sources

    def _ranked(
        self, derivation: Derivation, cell: PrintedValue, wildcard: str
    ) -> _Computed | None:
        """The mean over the sources of the row's models' competition ranks among all models of that source."""
        ranks: list[Decimal] = []
        ranked = _members(derivation, cell).get(MODEL, (cell.model,))
        for name in derivation.of:
            by_model: dict[str, list[PrintedValue]] = defaultdict(list)
            for source in self._cells_of(name, wildcard):
                if _enters(derivation, cell, source, free=(MODEL,)):
                    by_model[source.model].append(source)
            values = {
                model: _as_mean(cells, derivation.digits)[0].value
                for model, cells in by_model.items()
            }
            places = dict(
                zip(
                    values,
                    competition_ranks([float(value) for value in values.values()]),
                    strict=True,
                )
            )
            ranks += [Decimal(places[model]) for model in ranked if model in places]
        if not ranks:
            return None
        value = mean(ranks)
        return _Computed(
            value, f"ranks {', '.join(str(rank) for rank in ranks)}: mean {_short(value)}"
        )

    def _cells_of(self, name: str, wildcard: str) -> Iterator[PrintedValue]:
        """The cells of a set, of `TABLE:COLUMN`, or of one row of it (`TABLE:COLUMN @ LABEL`)."""
        for reference in self.paper.derived.sets.get(name, (name,)):
            columns, _, label = reference.replace("{}", wildcard).partition(" @ ")
            for column, _ in self._columns(columns):
                yield from (
                    cell
                    for cell in self._by_column[column]
                    if not label or label in cell.labels.values()
                )

    def _columns(self, reference: str) -> Iterator[tuple[tuple[str, str], str]]:
        """The columns that `TABLE:COLUMN` names, and what its `*` matched."""
        table, _, column = reference.partition(":")
        pattern = re.compile("(.*)".join(re.escape(part) for part in column.split("*")))
        for key in list(self._by_column):
            if key[0] == table and (match := pattern.fullmatch(key[1])):
                yield key, match.group(1) if match.groups() else ""


def _is_in(rows: Mapping[str, str], cell: PrintedValue) -> bool:
    return all(cell.labels.get(label) == text for label, text in rows.items())


def _enters(
    derivation: Derivation, cell: PrintedValue, source: PrintedValue, free: Sequence[str] = ()
) -> bool:
    """Whether a cell's row is one of those that the figure's row is computed from."""
    members = _members(derivation, cell)
    if derivation.members and not members:
        return False
    for label, text in source.labels.items():
        if text in derivation.without.get(label, ()):
            return False
        if label in free:
            continue
        if label in members:
            if text not in members[label]:
                return False
        elif label in derivation.given:
            if text != derivation.given[label]:
                return False
        elif label in cell.labels and label not in derivation.over and text != cell.labels[label]:
            return False
    return True


def _members(derivation: Derivation, cell: PrintedValue) -> dict[str, tuple[str, ...]]:
    return derivation.members.get(
        ", ".join(text for label, text in cell.labels.items() if label != METHOD), {}
    )


def _as_mean(cells: Sequence[PrintedValue], digits: int | None) -> list[_Source]:
    values = [cell.value for cell in cells if cell.value is not None]
    if not values:
        return []
    value = mean(values)
    return [_Source(tuple(cells), value if digits is None else rounded(value, digits))]


def _evaluated(
    derivation: Derivation, cell: PrintedValue, sources: Sequence[_Source]
) -> _Computed | None:
    formula = FORMULAS[derivation.formula]
    positives = Decimal(str(_by_label(derivation.positives, derivation, cell) or 0))
    values = [source.value for source in sources]
    computed = formula(values, positives)
    if computed is None:
        return None
    margin = Decimal(0)
    for i, source in enumerate(sources):
        # Cells that are rounded by up to half a unit each.
        step = mean([half_unit(printed.digits) for printed in source.cells])
        moved = formula([*values[:i], values[i] + step, *values[i + 1 :]], positives)
        margin += abs((moved if moved is not None else computed) - computed)
    suspects: tuple[tuple[str, str], ...] = ()
    if derivation.formula == "mean" and all(len(source.cells) == 1 for source in sources):
        gap = (cell.value or Decimal(0)) - computed
        suspects = tuple(
            (
                source.cells[0].place,
                str(rounded(source.value + gap * len(sources), source.cells[0].digits)),
            )
            for source in sources
        )
    inputs = (
        f"of {len(values)} values"
        if len(values) > MOST_SOURCES
        else f"({', '.join(map(_short, values))})"
    )
    explanation = f"{derivation.formula} {inputs} = {_short(computed)}"
    return _Computed(computed, explanation, margin, suspects)


def _pooled(derivation: Derivation, cell: PrintedValue, sources: Sequence[_Source]) -> _Computed:
    counts = _by_label(derivation.counts, derivation, cell) or {}
    columns = [source.cells[0].column for source in sources]
    if missing := [column for column in columns if column not in counts]:
        raise DataError(f"{derivation.figure}: counts lacks {', '.join(missing)} for {cell.place}")
    sizes = [counts[column] for column in columns]
    computed = pooled_share([source.value for source in sources], sizes)
    parts = " + ".join(
        f"{rounded(source.value * size / 100, 0)}/{size}"
        for source, size in zip(sources, sizes, strict=True)
    )
    return _Computed(computed, f"questions right {parts} = {_short(computed)}")


def _countable(derivation: Derivation, cell: PrintedValue) -> _Computed | None:
    """Whether a share is one of the number of tests that the benchmark had."""
    counts = _by_label(derivation.counts, derivation, cell)
    questions = counts.get(cell.column) if counts else None
    if questions is None and cell.benchmark in entries():
        questions = entries()[cell.benchmark].expected.samples
    if questions is None or cell.value is None:
        return None
    tests = questions * derivation.tests
    computed, cut_off = nearest_share(cell.value, tests, cell.digits)
    repetition = f" put {derivation.tests} times" if derivation.tests > 1 else ""
    right = rounded(computed * tests / 100, 0)
    explanation = f"nearest share of {questions:,} questions{repetition}: {right}/{tests} = {_short(computed)}"
    return _Computed(
        computed, f"{explanation}, cut off" if cut_off else explanation, cut_off=cut_off
    )


def _compared(derivation: Derivation, cell: PrintedValue, computed: _Computed) -> PaperCheck:
    printed = cell.value or Decimal(0)
    gap, room = (
        abs(printed - computed.value),
        half_unit(cell.digits) + computed.margin + derivation.within,
    )
    agrees = rounded(computed.value, cell.digits) == printed or computed.cut_off
    if derivation.formula != "average rank":
        # A share just between two decimals may have been rounded either way.
        agrees = agrees or gap < room or (gap == room and derivation.formula == "pooled share")
    return PaperCheck(
        cell=cell,
        formula=derivation.formula,
        computed=computed.value,
        agrees=agrees,
        arithmetic=computed.arithmetic,
        suspects=computed.suspects,
    )


def _by_label(
    by_text: Mapping[str, ValueT], derivation: Derivation, cell: PrintedValue
) -> ValueT | None:
    """What is declared for the cell's row, or for all rows."""
    return by_text.get(cell.labels.get(derivation.counted_by, ""), by_text.get(""))


def _short(value: Decimal) -> str:
    text = f"{rounded(value, 4):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _repeated(paper: Paper) -> Iterator[RepeatedPair]:
    """Pairs that one model has on two benchmarks or two models on one, by the same method; or one on one by both."""
    for repetition in paper.derived.repetitions:
        pairs: dict[tuple[str, str], list[PrintedValue]] = defaultdict(list)
        first, second = repetition.columns
        for table in paper.tables:
            cells = {(cell.column, *cell.labels.values()): cell for cell in paper.values(table)}
            for (column, *labels), cell in cells.items():
                counterpart = cells.get((f"{column.removesuffix(first)}{second}", *labels))
                if (
                    column.endswith(f" {first}")
                    and cell.benchmark
                    and counterpart is not None
                    and counterpart.value
                ):
                    pairs[cell.printed, counterpart.printed].append(cell)
        for pair, cells_alike in pairs.items():
            for i, cell in enumerate(cells_alike):
                for later in cells_alike[i + 1 :]:
                    alike = (cell.model == later.model) + (cell.benchmark == later.benchmark)
                    if alike == (1 if cell.method == later.method else 2):
                        yield RepeatedPair(cell, later, pair)


# --- the formulas by which printed values follow from others, on exact decimals ---------------------------------------


HUNDRED = Decimal(100)
Formula = Callable[[Sequence[Decimal], Decimal], Decimal | None]
"""(sources, positives) -> value; `positives` is the share of questions whose answer is yes. None where undefined."""


def half_unit(digits: int) -> Decimal:
    """How far a value may be from what is printed with this many decimals."""
    return Decimal(5).scaleb(-digits - 1)


def mean(values: Sequence[Decimal]) -> Decimal:
    return sum(values, Decimal(0)) / len(values)


def _f1(precision_recall: Sequence[Decimal], positives: Decimal) -> Decimal:
    """2 true positives / (predicted + positive), which is 0 where precision and recall are."""
    precision, recall = precision_recall
    return 2 * precision * recall / (precision + recall) if precision + recall else Decimal(0)


def _yes_rate(precision_recall: Sequence[Decimal], positives: Decimal) -> Decimal | None:
    """Of all questions, the true positives are `positives` x recall, and the yes replies those / precision."""
    precision, recall = precision_recall
    return HUNDRED * positives * recall / precision if precision else None


def _accuracy(precision_recall: Sequence[Decimal], positives: Decimal) -> Decimal | None:
    """True positives and, of the negatives, those that are not false positives; all in per cent."""
    yes = _yes_rate(precision_recall, positives)
    true_positives = positives * precision_recall[1]
    return (
        None if yes is None else true_positives + HUNDRED * (1 - positives) - (yes - true_positives)
    )


FORMULAS: Mapping[str, Formula] = {
    "same": lambda sources, _: sources[0],
    "mean": lambda sources, _: mean(sources),
    "difference": lambda sources, _: sources[0] - sources[1],
    "F1": _f1,
    "implied accuracy": _accuracy,
    "implied yes-rate": _yes_rate,
}
SOURCES = {"same": 1, "difference": 2, "F1": 2, "implied accuracy": 2, "implied yes-rate": 2}
"""How many sources a formula takes, where not any number."""


def pooled_share(shares: Sequence[Decimal], counts: Sequence[int]) -> Decimal:
    """The share among all questions, in per cent: each part's share is taken back to a number of its questions."""
    right = sum(
        rounded(share * count / HUNDRED, 0) for share, count in zip(shares, counts, strict=True)
    )
    return HUNDRED * right / sum(counts)


def nearest_share(printed: Decimal, tests: int, digits: int) -> tuple[Decimal, bool]:
    """The share of this many tests that is nearest to `printed`, in per cent; and whether `printed` is one cut off."""
    right = (printed * tests / HUNDRED).to_integral_value(ROUND_FLOOR)
    above = HUNDRED * (right + 1) / tests
    if (
        above.quantize(Decimal(1).scaleb(-digits), ROUND_DOWN) == printed
        and rounded(above, digits) != printed
    ):
        return above, True
    below = HUNDRED * right / tests
    return (above if above - printed < printed - below else below), False
