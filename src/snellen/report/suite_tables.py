"""The tables that suites add to a report, each suite with its own layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from snellen import registry
from snellen.report.run_view import RunView
from snellen.report.table import Table


class SuiteTables(Struct, frozen=True):
    """One layout (the registry's group `report_tables`)."""

    subject: str
    """What the rows are, as in "abilities"."""
    tables: Callable[[Sequence[RunView]], list[Table]]
    """Makes the tables of some runs; none where the layout does not fit them."""


class SuiteSection(Struct, frozen=True):
    """The tables that one layout made."""

    layout: SuiteTables
    tables: tuple[Table, ...]


def suite_sections(views: Sequence[RunView]) -> list[SuiteSection]:
    """The sections that suites add to a report of these runs."""
    layouts: list[SuiteTables] = [registry.find("report_tables", name) for name in registry.targets("report_tables")]
    sections = [SuiteSection(layout, tuple(layout.tables(views))) for layout in layouts]
    return [section for section in sections if section.tables]
