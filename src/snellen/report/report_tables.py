"""All tables of a report, by section, for the forms that are tables alone."""

from __future__ import annotations

from collections.abc import Sequence

from snellen.report.audit_tables import audit_tables
from snellen.report.control_tables import control_tables
from snellen.report.cost_tables import cost_tables
from snellen.report.paired_tables import paired_tables
from snellen.report.paper_tables import beside_papers
from snellen.report.request_counts import count_tables
from snellen.report.run_view import RunView
from snellen.report.sections import (
    benchmark_tables,
    common_question_tables,
    convention_tables,
    dimension_tables,
    provenance_tables,
    slice_tables,
)
from snellen.report.sequential_tables import sequential_tables
from snellen.report.suite_tables import suite_sections
from snellen.report.summary import summary
from snellen.report.table import Table
from snellen.report.talk_tables import talk_tables


def report_tables(views: Sequence[RunView]) -> dict[str, list[Table]]:
    """The tables under the titles of their sections; the summary has none."""
    return {
        "": [summary(views)],
        "Stopped by a rule": sequential_tables(views),
        "On common questions": common_question_tables(views),
        "By both conventions": convention_tables(views),
        "Reading error": audit_tables(views),
        "Comparison": paired_tables(views),
        "With something else to see": control_tables(views),
        "In several steps": talk_tables(views),
        "By dimension": dimension_tables(views),
        "By benchmark": benchmark_tables(views),
        **{section.layout.title: list(section.tables) for section in suite_sections(views)},
        "Beside the published models": beside_papers(views),
        "Parts of benchmarks": slice_tables(views),
        "Quality and cost": cost_tables(views),
        "Counts": count_tables(views),
        "Provenance": provenance_tables(views),
    }
