"""The declaration of an analysis in a TOML file: which groups of models are compared, by what.

It names the values, the groups, the statistic and the kind of chart.
docs/reference/analysis-files.md shows each field in use.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen import DataError, UnknownNameError
from snellen.plugin_api import (
    Method,
    ModelCard,
    check_names,
    declared_file,
    declared_files,
    names_of,
    parse_toml,
    suite_facts,
    unknown_name,
)

MODEL = "model"
"""What models are grouped by so that each stands alone."""
Plot = Literal["heat", "intervals", "radar", "scatter", "none"]


class AnalysisSource(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Values that enter: of a paper's printed tables, and what runs have of the same."""

    cells: tuple[str, ...] = ()
    """`TABLE:COLUMN` with `*` for any text. A run enters with its number of the same benchmark, metric and method."""
    quantity: str = ""
    """The name under which a model's cells are averaged; each cell counts by its column when empty."""
    rows: dict[str, str] = {}
    """Labels that the rows have, where they have such a label."""
    without: dict[str, tuple[str, ...]] = {}
    """Labels that the rows do not have."""
    method: Method | None = None
    """Where the table says the method by its column."""
    measure: Annotated[str, names_of("analysis_measures")] = ""
    """What is measured on runs, by its name in the registry's group `analysis_measures`."""


class Grouping(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that models are grouped by: a fact on their cards, what they were trained on, or lists of them."""

    name: str = ""
    """Heading of its column; `by` when empty."""
    by: str = ""
    """A field of the model card, or `model`."""
    names: dict[str, tuple[str, ...]] = {}
    """For texts: group -> patterns (`*` for any text), of which the first that fits counts; others keep their text."""
    edges: tuple[float, ...] = ()
    """For numbers: where one class ends (inclusive) and the next begins."""
    trained_on: str = ""
    """Instead: whether the card names this data set."""
    members: dict[str, tuple[str, ...]] = {}
    """Instead: group -> names of cards."""

    @property
    def heading(self) -> str:
        """Return the heading of the column of groups."""
        if self.name:
            return self.name
        if self.by:
            return self.by
        if self.trained_on:
            return f"trained on {self.trained_on}"
        return "group"


class PrintedGroups(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the paper prints what the analysis computes."""

    table: str
    groups: tuple[str, ...] = ()
    """The labels of the groups, in order."""
    rows: dict[str, str] = {}
    columns: dict[str, str] = {}
    """Quantity -> column, where these differ; with several methods `METHOD QUANTITY` -> column."""


class AnalysisSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A declared analysis."""

    name: str = ""
    title: str
    about: str = ""
    """The figure or table that it repeats."""
    notes: tuple[str, ...] = ()
    """What a reader of its numbers has to know."""
    suite: Annotated[str, names_of("suites")] = ""
    """The suite whose paper's tables are read; the one that declares the analysis when empty."""
    values: tuple[AnalysisSource, ...]
    groups: tuple[Grouping, ...] = (Grouping(by=MODEL),)
    pool: bool = False
    """Whether all quantities of a group count as one: each value of each model is an observation."""
    statistic: Annotated[str, names_of("analysis_statistics")] = "mean"
    """A name of the registry's group `analysis_statistics`."""
    plot: Plot = "intervals"
    printed: PrintedGroups | None = None


def analyses() -> dict[str, AnalysisSpec]:
    """Return all analyses that suites and named folders declare, by name. Raises DataError for a wrong file."""
    return {name: find_analysis(name) for name in declared_files("analysis")}


def find_analysis(name: str) -> AnalysisSpec:
    """Return the analysis in a file (`mine.toml`), or with this name.

    The name of its suite may be left out if no other suite has an analysis of that name. Raises
    UnknownNameError, and DataError for a wrong file.
    """
    file = declared_file("analysis", name)
    try:
        declared = msgspec.convert(parse_toml(file.text, file.where), AnalysisSpec)
    except msgspec.ValidationError as error:
        raise DataError(f"{file.where}: {error}") from None
    _check(declared, file.where)
    return replace(declared, name=file.name, suite=declared.suite or file.name.rpartition("/")[0])


def _check(spec: AnalysisSpec, where: str) -> None:
    """Check the names and fields of an analysis. Raises DataError or UnknownNameError."""
    for group in spec.groups:
        if sum(map(bool, (group.by, group.trained_on, group.members))) != 1:
            raise DataError(f"{where}: a group needs exactly one of by, trained_on and members")
        if group.by not in ("", MODEL) and group.by not in ModelCard.__struct_fields__:
            fields = [MODEL, *ModelCard.__struct_fields__]
            raise UnknownNameError(
                f"{where}: {unknown_name('field of a model card', group.by, fields)}"
            )
    check_names(spec, where, {"suites": suite_facts()})
    for source in spec.values:
        if not source.cells and not source.measure:
            raise DataError(
                f"{where}: values need either cells = [...] of a paper's tables or a measure of runs"
            )
