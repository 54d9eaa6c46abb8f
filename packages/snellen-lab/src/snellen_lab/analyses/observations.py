"""Collect the values of an analysis: of the models in a paper and of runs, by quantity and method."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from msgspec import Struct
from msgspec.structs import replace

from snellen import DataError
from snellen.plugin_api import (
    Better,
    Method,
    ModelCard,
    ReportedRun,
    declared_row,
    find_registered,
)
from snellen_lab.analyses.declaration import MODEL, AnalysisSource, AnalysisSpec
from snellen_lab.papers.printed_comparison import NOT_SHARED, compare_with_printed
from snellen_lab.papers.printed_tables import (
    METHOD,
    Paper,
    PrintedValue,
    paper_of,
)


class Observation(Struct, frozen=True, kw_only=True):
    """The value of one quantity for one model by one method."""

    model: str
    """Name in the paper, or label of the run."""
    card: str
    """Name of its model card; empty if it has none."""
    is_run: bool
    method: Method
    quantity: str
    value: float
    unit: str
    better: Better = "higher"
    slack: float = 0.0
    """How far the value may be off because it was rounded."""


class Measured(Struct, frozen=True):
    """A value that a measure computes from a run."""

    quantity: str
    method: Method
    value: float
    unit: str
    better: Better = "higher"


AnalysisMeasure = Callable[[ReportedRun], Iterable[Measured]]
"""Function from a run to its values (group `analysis_measures` of the registry)."""


class ObservedValues(Struct, frozen=True):
    """The values of an analysis, with notes on the values that are missing."""

    observations: list[Observation]
    notes: tuple[str, ...]


def observe(
    spec: AnalysisSpec, reported_runs: Sequence[ReportedRun], cards: dict[str, ModelCard]
) -> ObservedValues:
    """Return the values of the paper's models, followed by those of the runs, with notes on values that a run lacks.

    A source of values is a column of a table in the paper, or a measure that only runs have.

    Raises DataError if the analysis names a column that no table of the paper has.
    """
    paper = paper_of(spec.suite) if any(source.cells for source in spec.values) else None
    cells_by_source: list[list[PrintedValue]] = []
    observations: list[Observation] = []
    for source in spec.values:
        cells = _cells(paper, source) if paper is not None else []
        cells_by_source.append(cells)
        printed = [_printed_observation(cell, source, spec.suite, cards) for cell in cells]
        observations += _averaged(source, printed)

    notes: list[str] = []
    for reported_run in reported_runs:
        card = _card_of_model(reported_run.run.manifest.model, cards)
        card_name = card[0] if card else ""
        run_observations: list[Observation] = []
        missing_columns: dict[str, list[str]] = defaultdict(list)
        """The columns that a run lacks, by the reason."""
        for source, cells in zip(spec.values, cells_by_source, strict=True):
            run_values = _RunValues(reported_run, source, card_name)
            if source.measure:
                run_observations += run_values.measured()
            elif paper is not None:
                comparable, absent = run_values.comparable(paper, cells)
                for column, why in absent.items():
                    missing_columns[why].append(column)
                # If columns are averaged, a run that lacks one of them has no mean.
                if not source.quantity or not absent:
                    run_observations += _averaged(source, comparable)
        for why, columns in missing_columns.items():
            notes.append(f"{reported_run.label}: {why} ({', '.join(dict.fromkeys(columns))}).")
        if not run_observations:
            notes.append(
                f"{reported_run.label}: this run has none of the values that the analysis needs."
            )
        observations += run_observations
    return ObservedValues(observations, tuple(dict.fromkeys(notes)))


def _cells(paper: Paper, source: AnalysisSource) -> list[PrintedValue]:
    """Return the printed numbers of models that a source of an analysis names.

    Raises DataError if a column does not exist.
    """
    cells: list[PrintedValue] = []
    for reference in source.cells:
        table, _, pattern = reference.partition(":")
        matching_cells = [cell for cell in paper.values(table) if fnmatchcase(cell.column, pattern)]
        if not matching_cells:
            raise DataError(
                f"the analysis names {reference!r}, but Table {table} has no such column"
            )
        for cell in matching_cells:
            if cell.value is not None and cell.model and _is_in_source(cell, source):
                cells.append(cell)
    return cells


def _column(cell: PrintedValue) -> str:
    """Return a name for what a printed cell measures: its labels and its column.

    Labels for model and method are left out. For example, a cell in the row `Random` of the column
    `Accuracy` gives `Random, Accuracy`.
    """
    texts = []
    for label, text in cell.labels.items():
        if label not in (MODEL, METHOD):
            texts.append(text)
    texts.append(cell.column)
    return ", ".join(texts)


def _is_in_source(cell: PrintedValue, source: AnalysisSource) -> bool:
    """Return whether a source of an analysis includes a printed number, by the labels of its row.

    The row must have the labels in `rows`, if it has labels of that kind at all, and none of those
    in `without`.
    """
    for label, text in source.rows.items():
        if cell.labels.get(label, text) != text:
            return False
    for label, excluded_texts in source.without.items():
        if cell.labels.get(label) in excluded_texts:
            return False
    return True


def _printed_observation(
    cell: PrintedValue, source: AnalysisSource, suite: str, cards: dict[str, ModelCard]
) -> Observation:
    """Return a printed number as an observation of a model."""
    card = _card_of_printed(suite, cell.model, cards)
    return Observation(
        model=cell.model,
        card=card[0] if card else "",
        is_run=False,
        method=source.method or cell.method,
        quantity=source.quantity or _column(cell),
        value=float(cell.value or 0),
        unit=cell.unit,
        better=_better(cell),
        slack=0.5 * 10.0**-cell.digits,
    )


def _better(cell: PrintedValue) -> Better:
    """Return whether higher or lower values of a printed number are better; `higher` if unknown."""
    if cell.metric and not cell.dimension:
        return declared_row(cell.metric).better
    return "higher"


class _RunValues(Struct, frozen=True):
    """Collects the values that a run has for one source of an analysis."""

    reported_run: ReportedRun
    source: AnalysisSource
    card: str
    """Name of the model's card."""

    def measured(self) -> Iterator[Observation]:
        """Yield the values that the source's measure computes from the run."""
        measure: AnalysisMeasure = find_registered("analysis_measures", self.source.measure)
        for measured in measure(self.reported_run):
            yield self._observation(
                measured.method, measured.quantity, measured.value, measured.unit, measured.better
            )

    def comparable(
        self, paper: Paper, cells: Sequence[PrintedValue]
    ) -> tuple[list[Observation], dict[str, str]]:
        """Return the run's numbers that can be compared with printed ones.

        Args:
            paper: The paper.
            cells: Its printed numbers.

        Returns:
            A number for each column and method that the run has; and the other columns, each with
            the reason why the run has no number for it.
        """
        observations: list[Observation] = []
        absent: dict[str, str] = {}
        cells_by_column = {(cell.method, cell.table, _column(cell)): cell for cell in cells}
        for model_row in self.reported_run.method_rows:
            for cell in cells_by_column.values():
                if cell.method != model_row.method:
                    continue
                number = compare_with_printed(paper, model_row, [cell])
                if number is None:
                    absent[_column(cell)] = NOT_SHARED
                    continue
                if number.estimate.value is None:
                    absent[_column(cell)] = number.note
                    continue
                observation = self._observation(
                    self.source.method or cell.method,
                    self.source.quantity or _column(cell),
                    number.estimate.value,
                    cell.unit,
                    _better(cell),
                )
                observations.append(observation)
        return observations, absent

    def _observation(
        self, method: Method, quantity: str, value: float, unit: str, better: Better
    ) -> Observation:
        """Return one quantity of the run by one method as an observation."""
        return Observation(
            model=self.reported_run.label,
            card=self.card,
            is_run=True,
            method=method,
            quantity=quantity,
            value=value,
            unit=unit,
            better=better,
        )


def _averaged(source: AnalysisSource, observations: Sequence[Observation]) -> list[Observation]:
    """Return the mean of each model's values by the same method, if the source gives them one name.

    If the source has no name (`quantity`), the values are returned unchanged. A model with fewer
    values than others is left out, because means over different benchmarks cannot be compared.
    """
    if not source.quantity:
        return list(observations)
    values_by_model: dict[tuple[str, Method], list[Observation]] = defaultdict(list)
    most_values: dict[Method, int] = defaultdict(int)
    for observation in observations:
        method = observation.method
        model_values = values_by_model[observation.model, method]
        model_values.append(observation)
        most_values[method] = max(most_values[method], len(model_values))

    means = []
    for (_, method), model_values in values_by_model.items():
        if len(model_values) < most_values[method]:
            continue
        total = sum(observation.value for observation in model_values)
        means.append(replace(model_values[0], value=total / len(model_values)))
    return means


def _card_of_model(model: str, cards: Mapping[str, ModelCard]) -> tuple[str, ModelCard] | None:
    """Return the name and the card of an evaluated model; None if it has no card.

    A card is found by the complete model string or by its essential part: for
    `hf:org/name?dtype=float32`, this is `org/name`.
    """
    bare_name = re.split(r"[?@]", model.partition(":")[2])[0]
    for name in (model, bare_name):
        if not name:
            continue
        if name in cards:
            return name, cards[name]
        for card_name, card in cards.items():
            if name in card.hub:
                return card_name, card
    return None


def _card_of_printed(
    suite: str, model: str, cards: Mapping[str, ModelCard]
) -> tuple[str, ModelCard] | None:
    """Return the name and the card of a model in a paper's tables; None if it has no card.

    A card states under which name the paper prints the model.
    """
    for name, card in cards.items():
        if card.printed.get(suite) == model:
            return name, card
    return None
