"""The sections of a report with their tables, as every form of it has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

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

Tables = list[Table]


class ReportSection(Struct, frozen=True):
    """A section; one without tables is of a page, which has its figures or samples."""

    anchor: str
    title: str
    lead: str = ""
    """What it is about, on a page beside its title."""
    tables: Callable[[Sequence[RunView]], Tables] = lambda views: []


def _summary(views: Sequence[RunView]) -> Tables:
    return [summary(views)]


def _suites(views: Sequence[RunView]) -> Tables:
    return [table for section in suite_sections(views) for table in section.tables]


SECTIONS = (
    ReportSection("summary", "Result", tables=_summary),
    ReportSection("stopped", "Stopped by a rule", "what these runs know of whole benchmarks", sequential_tables),
    ReportSection("dimensions", "Dimensions", "one number for each capability", dimension_tables),
    ReportSection("comparison", "Comparison", "differences on the same questions, with p-values; ranks", paired_tables),
    ReportSection("benchmarks", "Benchmarks", "each benchmark under each metric", benchmark_tables),
    ReportSection("suites", "Suites", "tables as a suite's paper has them", _suites),
    ReportSection("parts", "Parts", "by level, round and other tags of the questions", slice_tables),
    ReportSection("samples", "Samples", "questions with picture, prompt, reply and right answer"),
    ReportSection("stability", "Stability", "the same question in other words and orders"),
    ReportSection("places", "Option order", "which places the models choose, and where they are right"),
    ReportSection("methods", "Methods", "replies against likelihoods of the options"),
    ReportSection("controls", "Controls", "what the pictures are needed for", control_tables),
    ReportSection("talks", "Steps", "answers that came of several requests", talk_tables),
    ReportSection("papers", "Published models", "the numbers that papers print, beside these", beside_papers),
    ReportSection("conventions", "Conventions", "by Snellen's rules and as published", convention_tables),
    ReportSection("common", "Common questions", "those that all models answered", common_question_tables),
    ReportSection("audit", "Reading error", "how often replies were misread", audit_tables),
    ReportSection("cost", "Cost", "tokens, seconds and prices beside the accuracy", cost_tables),
    ReportSection("counts", "Counts", "requests, and how replies were read", count_tables),
    ReportSection("provenance", "Provenance", "models, settings and versions", provenance_tables),
)
"""In the order of the page."""


def report_tables(views: Sequence[RunView]) -> dict[str, Tables]:
    """The tables by the title of their section, for the forms that are tables alone."""
    return {section.title: section.tables(views) for section in SECTIONS}
