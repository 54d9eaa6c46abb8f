"""The tables that suites' papers print, as data: what each column is, how its values follow from others, misprints.

A suite's folder `paper` holds `tables.toml`, one CSV per table (`9.csv`, values as printed), and, where they are known,
`derivations.toml` and `errata.toml`. docs/reference/paper-data.md shows each field in use.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import cached_property
from importlib.resources.abc import Traversable
from typing import Literal

from msgspec import Struct

from snellen import DataError
from snellen.plugin_api import (
    Method,
    read_text,
    read_toml,
    suite_folders,
    unknown_name,
)

FOLDER, TABLES, DERIVATIONS, ERRATA = "paper", "tables.toml", "derivations.toml", "errata.toml"
MODEL, METHOD = "model", "method"
"""The labels of a row that mean the same in every table."""
_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?")

Formula = Literal[
    "same",
    "mean",
    "difference",
    "average rank",
    "F1",
    "implied accuracy",
    "implied yes-rate",
    "pooled share",
    "share of questions",
]


class Subject(Struct, frozen=True, forbid_unknown_fields=True):
    """What the values of a column are about, as Snellen names it."""

    benchmark: str = ""
    dimension: str = ""
    """Of a mean over benchmarks."""
    slice: str = ""
    """`tag=value`, of a part of a benchmark."""


class PrintedMetric(Struct, frozen=True, forbid_unknown_fields=True):
    """A metric as a paper prints it."""

    metric: str = ""
    """The row that a run scored as published has; empty where it has none."""
    of_dimension: str = ""
    """The same for means over a dimension's benchmarks."""
    unit: str = ""
    """What is printed is counted in: `%`, `nats`, `1`."""
    digits: int = 0
    """Decimals that a value has at least; fewer in print mean that zeros at the end were left out."""


class PaperTable(Struct, frozen=True, forbid_unknown_fields=True):
    """How to read one table."""

    title: str
    caption: str
    """What it shows, in our words."""
    labels: tuple[str, ...] = (MODEL,)
    """The columns on the left that say what a row is."""
    method: Method = "generation"
    """How the replies were got, where no label says so."""
    metric: str = ""
    """The metric of columns that name none."""
    subject: Subject = Subject()
    """What all columns are about, where a column or a label does not say otherwise."""
    subjects: dict[str, Subject] = {}
    """By column (without its metric) or by label: its own subjects, besides the paper's."""


class PrintedValue(Struct, frozen=True, kw_only=True):
    """One cell of a paper's table."""

    table: str
    labels: dict[str, str]
    column: str
    printed: str
    digits: int
    unit: str = ""
    method: Method = "generation"
    benchmark: str = ""
    dimension: str = ""
    slice: str = ""
    metric: str = ""

    @property
    def model(self) -> str:
        return self.labels.get(MODEL, "")

    @property
    def value(self) -> Decimal | None:
        """The printed number; None for words and empty cells."""
        return Decimal(self.printed) if _NUMBER.fullmatch(self.printed) else None

    @property
    def place(self) -> str:
        """`10: generation, LLaVA_V: Avg Acc`: the same for the same cell."""
        return f"{self.table}: {', '.join(self.labels.values())}: {self.column}"


class Derivation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How printed values follow from other printed values."""

    figure: str
    """`TABLE:COLUMN`; a `*` in the column stands for any text, and for the same text as `{}` in `of`."""
    formula: Formula
    of: tuple[str, ...] = ()
    """`TABLE:COLUMN` with `*` for any text (`TABLE:COLUMN @ LABEL` for one row), or the name of a set, which counts as
    the mean of its cells."""
    rows: dict[str, str] = {}
    """The labels that the figure's rows have; all rows when empty."""
    given: dict[str, str] = {}
    """Labels that rows of the sources have besides those they share with the figure's row."""
    over: tuple[str, ...] = ()
    """Shared labels by which rows are not matched: their rows all enter."""
    members: dict[str, dict[str, tuple[str, ...]]] = {}
    """For each of the figure's rows, by its labels but the method: the labels that the sources' rows may have."""
    without: dict[str, tuple[str, ...]] = {}
    """Labels that rows of the sources do not have."""
    counts: dict[str, dict[str, int]] = {}
    """For `pooled share` and `share of questions`: numbers of questions by the label in `counted_by`, then column."""
    counted_by: str = ""
    tests: int = 1
    """How often each question was put, where shares are checked against the entry's number of questions."""
    positives: dict[str, float] = {}
    """For implied rates: share of questions whose answer is yes, by the label in `counted_by`."""
    within: Decimal = Decimal(0)
    """Greatest difference that is none, besides rounding."""
    digits: int | None = None
    """Decimals that the paper rounds the sources' means to before it goes on."""


class Repetition(Struct, frozen=True, forbid_unknown_fields=True):
    """Pairs of columns that hardly ever are the same twice, so that a second time may be a slip in copying."""

    columns: tuple[str, str]
    """Metrics as printed, the second of which is not 0 in a pair that counts."""


class Derivations(Struct, frozen=True, forbid_unknown_fields=True):
    sets: dict[str, tuple[str, ...]] = {}
    derivations: tuple[Derivation, ...] = ()
    repetitions: tuple[Repetition, ...] = ()


class Erratum(Struct, frozen=True, forbid_unknown_fields=True):
    """A misprint, or a contradiction, that is known."""

    place: str
    """A cell, as `PrintedValue.place`; or a place in the text."""
    printed: str
    why: str = ""
    instead: str = ""
    """What would agree, where it can be told."""
    computed: bool = True
    """Whether the check finds it; else it was found by reading."""


class Paper(Struct, frozen=True, dict=True):
    """The printed tables of one suite's paper."""

    suite: str
    tables: Mapping[str, PaperTable]
    subjects: Mapping[str, Subject]
    metrics: Mapping[str, PrintedMetric]
    derived: Derivations
    errata: tuple[Erratum, ...]
    folder: Traversable

    def table(self, name: str) -> PaperTable:
        """Raises UnknownNameError with similar names."""
        if name not in self.tables:
            raise unknown_name("table", name, self.tables)
        return self.tables[name]

    def header(self, name: str) -> tuple[str, ...]:
        """Labels and columns."""
        return self._rows[name][0]

    def values(self, name: str) -> tuple[PrintedValue, ...]:
        """Return the cells of a table, row by row, empty ones left out. Raises UnknownNameError."""
        self.table(name)
        return self._values[name]

    @cached_property
    def _rows(self) -> dict[str, tuple[tuple[str, ...], list[tuple[str, ...]]]]:
        """Read the CSV file of each printed table: its header and its rows."""
        return {
            name: _read_csv(self.folder.joinpath(f"{name}.csv"), table)
            for name, table in self.tables.items()
        }

    @cached_property
    def _values(self) -> dict[str, tuple[PrintedValue, ...]]:
        return {name: tuple(self._cells(name)) for name in self.tables}

    def _cells(self, name: str) -> Iterator[PrintedValue]:
        """Yield the numbers of a printed table, row by row; empty cells are left out."""
        table = self.tables[name]
        header, rows = self._rows[name]
        n_labels = len(table.labels)  # the first columns are labels of the row
        label_names = header[:n_labels]
        columns = header[n_labels:]
        for row in rows:
            labels = dict(zip(label_names, row[:n_labels], strict=True))
            for column, printed in zip(columns, row[n_labels:], strict=True):
                if printed:
                    yield self._cell(name, table, labels, column, printed)

    def _cell(
        self, name: str, table: PaperTable, labels: dict[str, str], column: str, printed: str
    ) -> PrintedValue:
        """Return a printed number with what it is about: benchmark, dimension, slice, metric and unit."""
        subjects = {**self.subjects, **table.subjects}
        column_subject, metric_name = self._column(table, column)
        metric = self.metrics.get(metric_name, PrintedMetric())
        # Of several subjects, the last one that names a benchmark, a dimension or a slice counts.
        benchmark = table.subject.benchmark
        dimension = table.subject.dimension
        slice_name = table.subject.slice
        for text in (*labels.values(), column_subject):
            if text in subjects:
                benchmark = subjects[text].benchmark or benchmark
                dimension = subjects[text].dimension or dimension
                slice_name = subjects[text].slice or slice_name
        method = labels.get(METHOD, table.method)
        return PrintedValue(
            table=name,
            labels=labels,
            column=column,
            printed=printed,
            digits=max(len(printed.partition(".")[2]), metric.digits),
            unit=metric.unit,
            method="likelihood" if method == "likelihood" else "generation",
            benchmark=benchmark,
            dimension=dimension,
            slice=slice_name,
            metric=metric.of_dimension if dimension else metric.metric,
        )

    def _column(self, table: PaperTable, column: str) -> tuple[str, str]:
        """Return what a printed column is about, and its metric."""
        if column in self.metrics:
            return "", column
        for metric in self.metrics:
            if column.endswith(f" {metric}"):
                return column.removesuffix(f" {metric}"), metric
        return column, table.metric


class _TablesFile(Struct, frozen=True, forbid_unknown_fields=True):
    tables: dict[str, PaperTable]
    subjects: dict[str, Subject] = {}
    metrics: dict[str, PrintedMetric] = {}


class _ErrataFile(Struct, frozen=True, forbid_unknown_fields=True):
    errata: tuple[Erratum, ...] = ()


def paper_of(suite: str) -> Paper:
    """Return the printed tables of a suite's paper. Raises UnknownNameError, or DataError where it ships none."""
    paper = _load(suite)
    if paper is None:
        raise DataError(
            f"the suite {suite!r} has no tables of its paper; `snellen paper` lists those that have"
        )
    return paper


def papers() -> dict[str, Paper]:
    """Return the printed tables of all suites that have any, by suite."""
    papers_by_suite = {}
    for suite in suite_folders():
        paper = _load(suite)
        if paper is not None:
            papers_by_suite[suite] = paper
    return papers_by_suite


def _load(suite: str) -> Paper | None:
    """Return the printed tables of a suite's paper, or None if the suite has none.

    Raises:
        UnknownNameError: If there is no such suite.
    """
    suites = suite_folders()
    if suite not in suites:
        raise unknown_name("suite", suite, suites)
    folder = suites[suite].joinpath(FOLDER)
    tables_file = folder.joinpath(TABLES)
    if not tables_file.is_file():
        return None
    declared = read_toml(tables_file, _TablesFile)

    derivations = Derivations()
    derivations_file = folder.joinpath(DERIVATIONS)
    if derivations_file.is_file():
        derivations = read_toml(derivations_file, Derivations)
    errata: tuple[Erratum, ...] = ()
    errata_file = folder.joinpath(ERRATA)
    if errata_file.is_file():
        errata = read_toml(errata_file, _ErrataFile).errata
    return Paper(
        suite,
        declared.tables,
        declared.subjects,
        declared.metrics,
        derivations,
        errata,
        folder,
    )


def _read_csv(
    file: Traversable, table: PaperTable
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Read the CSV file of a printed table.

    Args:
        file: The file.
        table: The declared table, whose labels are the first columns.

    Returns:
        The header and the rows.

    Raises:
        DataError: If the file cannot be read, or a row has the wrong length or the labels of an earlier one. The
            message names the file and the line.
    """
    try:
        lines = [tuple(row) for row in csv.reader(io.StringIO(read_text(file)))]
    except (csv.Error, OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file}: cannot read the table ({error})") from None
    header: tuple[str, ...] = ()
    rows: list[tuple[str, ...]] = []
    if lines:
        header, *rows = lines
    n_labels = len(table.labels)
    if header[:n_labels] != table.labels:
        raise DataError(
            f"{file}:1: begins with {', '.join(header)}; {TABLES} says it begins with {', '.join(table.labels)}"
        )
    earlier_labels: set[tuple[str, ...]] = set()
    for number, row in enumerate(rows, 2):
        if len(row) != len(header):
            raise DataError(f"{file}:{number}: {len(row)} cells under {len(header)} columns")
        labels = row[:n_labels]
        if labels in earlier_labels:
            raise DataError(f"{file}:{number}: a second row for {', '.join(labels)}")
        earlier_labels.add(labels)
    return header, rows
