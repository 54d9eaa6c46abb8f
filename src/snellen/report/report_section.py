"""A section of a report, which another package can bring.

A package registers a `ReportSection` in the group `report_sections`; the report shows it behind the section it names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from snellen.report.reported_runs import ReportedRun
from snellen.report.table import Table


def no_tables(reported_runs: Sequence[ReportedRun]) -> list[Table]:
    """Return an empty list: the tables of a section that has only charts or text."""
    return []


class ReportSection(Struct, frozen=True):
    """A section of a report. Sections whose tables are empty are left out.

    Examples:
        >>> def run_names(reported_runs):
        ...     rows = tuple((reported_run.label, str(reported_run.run.folder)) for reported_run in reported_runs)
        ...     return [Table("Folders", ("model", "folder"), rows)]
        >>> section = ReportSection("folders", "Folders", "where the runs are stored", run_names, "counts")
        >>> section.tables([])[0].title
        'Folders'
    """

    anchor: str
    """Name of the section in links."""
    title: str
    lead: str = ""
    """What the section is about, shown next to its title."""
    tables: Callable[[Sequence[ReportedRun]], list[Table]] = no_tables
    after: str = ""
    """Anchor of the section before it; empty for the end of the report. Only for sections of other packages."""


def with_registered_sections(
    builtin_sections: Sequence[ReportSection], registered: Sequence[ReportSection]
) -> tuple[ReportSection, ...]:
    """Insert each registered section behind the one it names, or at the end if that section is unknown."""
    sections = list(builtin_sections)
    for section in registered:
        anchors = [earlier_section.anchor for earlier_section in sections]
        if section.after in anchors:
            position = anchors.index(section.after) + 1
        else:
            position = len(sections)
        sections.insert(position, section)
    return tuple(sections)
