"""The printed tables of papers as data: what each column means, and which misprints are known.

The folder `paper` of a suite contains `tables.toml`, a CSV file for each table (`9.csv`, with the
values as printed) and optionally `derivations.toml` (how values follow from others) and
`errata.toml` (known misprints). docs/reference/paper-data.md shows each field in use.
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

FOLDER = "paper"
TABLES = "tables.toml"
DERIVATIONS = "derivations.toml"
ERRATA = "errata.toml"
MODEL = "model"
"""Label of a row that names its model, in all tables."""
METHOD = "method"
"""Label of a row that names the evaluation method, in all tables."""
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
    """The benchmark, dimension or slice that the values of a column are for, by its name in Snellen."""

    benchmark: str = ""
    dimension: str = ""
    """Dimension of the benchmarks, if the values are means over them."""
    slice: str = ""
    """Part of the benchmark as `tag=value`; empty for the complete benchmark."""


class PrintedMetric(Struct, frozen=True, forbid_unknown_fields=True):
    """A metric as a paper prints it."""

    metric: str = ""
    """Name of the metric in the results of a run that is scored as published; empty if Snellen does not compute it."""
    of_dimension: str = ""
    """Name of the metric in means over the benchmarks of a dimension."""
    unit: str = ""
    """Unit of the printed values, such as `%`, `nats` or `1`."""
    digits: int = 0
    """Minimum number of decimals of a value. If fewer are printed, zeros at the end were left out."""


class PaperTable(Struct, frozen=True, forbid_unknown_fields=True):
    """How to read one table."""

    title: str
    caption: str
    """Description of what the table shows, in Snellen's own words."""
    labels: tuple[str, ...] = (MODEL,)
    """Names of the first columns, which identify a row, such as the model."""
    method: Method = "generation"
    """Evaluation method of rows without a label that names it."""
    metric: str = ""
    """Metric of columns whose heading does not name one."""
    subject: Subject = Subject()
    """Subject of all values, unless the column or a label of the row has another one."""
    subjects: dict[str, Subject] = {}
    """Subjects by heading of a column (without its metric) or by label of a row, in addition to those of the paper."""


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
        """Return the name of the row's model as printed; "" if the row is not about a model."""
        return self.labels.get(MODEL, "")

    @property
    def value(self) -> Decimal | None:
        """Return the printed number; None if the cell has other text."""
        if _NUMBER.fullmatch(self.printed):
            return Decimal(self.printed)
        return None

    @property
    def location(self) -> str:
        """Return a text that identifies the cell: `10: generation, LLaVA_V: Avg Acc`.

        Its parts are the table, the labels of the row, and the column.
        """
        row = ", ".join(self.labels.values())
        return f"{self.table}: {row}: {self.column}"


class Derivation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the values in a column follow from other printed values, the sources, by a formula.

    A source is in the same row as the value that it belongs to: in a row with the same labels. `given`, `over`,
    `members` and `without` declare exceptions.
    """

    figure: str
    """The column of the computed values as `TABLE:COLUMN`. A `*` in the column stands for any text. `{}` in `of` stands
    for the same text."""
    formula: Formula
    of: tuple[str, ...] = ()
    """Columns of the sources as `TABLE:COLUMN`, with `*` for any text; `TABLE:COLUMN @ LABEL` for a single row. The name
    of a set stands for the mean of its cells."""
    rows: dict[str, str] = {}
    """Labels of the rows for which the derivation holds, by the label's column; empty for all rows."""
    given: dict[str, str] = {}
    """Labels of the sources' rows that the computed row need not have, by the label's column."""
    over: tuple[str, ...] = ()
    """Columns of labels that may differ between the sources and the computed row."""
    members: dict[str, dict[str, tuple[str, ...]]] = {}
    """By the labels of a computed row without its method: the labels that the sources' rows may have."""
    without: dict[str, tuple[str, ...]] = {}
    """Labels that the sources' rows must not have, by the label's column."""
    counts: dict[str, dict[str, int]] = {}
    """For `pooled share` and `share of questions`: numbers of questions by the label in `counted_by`, then column."""
    counted_by: str = ""
    """Column of the label by which `counts` and `positives` are declared."""
    tests: int = 1
    """How often each question was sent, if shares are checked against the number of questions of the benchmark."""
    positives: dict[str, float] = {}
    """For implied rates: share of questions whose answer is yes, by the label in `counted_by`."""
    within: Decimal = Decimal(0)
    """Difference up to which values agree, in addition to that by rounding."""
    digits: int | None = None
    """Decimals to which the paper rounds the means of sets before it computes with them."""


class Repetition(Struct, frozen=True, forbid_unknown_fields=True):
    """A pair of columns whose values are rarely the same in two rows, so that a repetition may be a copying error."""

    columns: tuple[str, str]
    """The printed metrics of the two columns. Pairs whose second value is 0 are ignored."""


class Derivations(Struct, frozen=True, forbid_unknown_fields=True):
    """The content of `derivations.toml`."""

    sets: dict[str, tuple[str, ...]] = {}
    """Columns whose mean is a source of a derivation, by the name of the set."""
    derivations: tuple[Derivation, ...] = ()
    repetitions: tuple[Repetition, ...] = ()


class Erratum(Struct, frozen=True, forbid_unknown_fields=True, rename={"location": "place"}):
    """A known misprint or contradiction in a paper."""

    location: str
    """The cell, as in `PrintedValue.location`, or a position in the text."""
    printed: str
    why: str = ""
    instead: str = ""
    """The value that would agree with the others; empty if it is not known."""
    computed: bool = True
    """Whether `snellen paper --check` finds it. Otherwise a person found it by reading."""


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
        """Return a table by its name. Raises UnknownNameError, with similar names, if there is none."""
        if name not in self.tables:
            raise unknown_name("table", name, self.tables)
        return self.tables[name]

    def header(self, name: str) -> tuple[str, ...]:
        """Return the headings of a table's columns: first those of the labels, then those of the values."""
        header, _ = self._header_and_rows[name]
        return header

    def values(self, name: str) -> tuple[PrintedValue, ...]:
        """Return the non-empty cells of a table, row by row. Raises UnknownNameError."""
        self.table(name)
        return self._values[name]

    @cached_property
    def _header_and_rows(self) -> dict[str, tuple[tuple[str, ...], list[tuple[str, ...]]]]:
        """Return the header and the rows of each printed table, read from its CSV file."""
        contents = {}
        for name, table in self.tables.items():
            file = self.folder.joinpath(f"{name}.csv")
            contents[name] = _read_csv(file, table)
        return contents

    @cached_property
    def _values(self) -> dict[str, tuple[PrintedValue, ...]]:
        return {name: tuple(self._cells(name)) for name in self.tables}

    def _cells(self, name: str) -> Iterator[PrintedValue]:
        """Yield the numbers of a printed table, row by row; empty cells are left out."""
        table = self.tables[name]
        header, rows = self._header_and_rows[name]
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
        """Return a printed value with its benchmark, dimension, slice, metric and unit.

        What a value is about (its subject) can be declared for the table, for labels of the row,
        and for the column. A later one in this order overrides the benchmark, dimension or slice of
        an earlier one.

        Args:
            name: The name of the table.
            table: The table.
            labels: The labels of the row.
            column: The heading of the column.
            printed: The text in the cell.
        """
        subjects = {**self.subjects, **table.subjects}
        column_subject, metric_name = self._split_heading(table, column)
        metric = self.metrics.get(metric_name, PrintedMetric())
        benchmark = table.subject.benchmark
        dimension = table.subject.dimension
        slice_name = table.subject.slice
        for text in (*labels.values(), column_subject):
            if text in subjects:
                benchmark = subjects[text].benchmark or benchmark
                dimension = subjects[text].dimension or dimension
                slice_name = subjects[text].slice or slice_name
        method: Method = "generation"
        if labels.get(METHOD, table.method) == "likelihood":
            method = "likelihood"
        _, _, decimals = printed.partition(".")
        return PrintedValue(
            table=name,
            labels=labels,
            column=column,
            printed=printed,
            digits=max(len(decimals), metric.digits),
            unit=metric.unit,
            method=method,
            benchmark=benchmark,
            dimension=dimension,
            slice=slice_name,
            metric=metric.of_dimension if dimension else metric.metric,
        )

    def _split_heading(self, table: PaperTable, column: str) -> tuple[str, str]:
        """Split the heading of a column into subject and metric: `VSR Acc` into `VSR` and `Acc`.

        A heading that does not end with a metric has the metric of the table.
        """
        if column in self.metrics:
            return "", column
        for metric in self.metrics:
            if column.endswith(f" {metric}"):
                return column.removesuffix(f" {metric}"), metric
        return column, table.metric


class _TablesFile(Struct, frozen=True, forbid_unknown_fields=True):
    """The content of `tables.toml`."""

    tables: dict[str, PaperTable]
    subjects: dict[str, Subject] = {}
    metrics: dict[str, PrintedMetric] = {}


class _ErrataFile(Struct, frozen=True, forbid_unknown_fields=True):
    """The content of `errata.toml`."""

    errata: tuple[Erratum, ...] = ()


def paper_of(suite: str) -> Paper:
    """Return the printed tables of a suite's paper.

    Raises:
        UnknownNameError: There is no such suite.
        DataError: The suite has no tables of its paper.
    """
    paper = _load(suite)
    if paper is None:
        raise DataError(
            f"the suite {suite!r} has no tables of its paper; `snellen paper` lists those that have"
        )
    return paper


def papers() -> dict[str, Paper]:
    """Return the printed tables of all suites that have some, by the name of the suite."""
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
        text = read_text(file)
        lines = [tuple(row) for row in csv.reader(io.StringIO(text))]
    except (csv.Error, OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file}: cannot read the table ({error})") from None
    header = lines[0] if lines else ()
    rows = lines[1:]
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
