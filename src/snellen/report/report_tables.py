"""The sections of a report and their tables, the same for every form of it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from snellen import registry
from snellen.report.common_question_tables import common_question_tables
from snellen.report.content import suite_sections
from snellen.report.control_tables import control_tables
from snellen.report.convention_tables import convention_tables
from snellen.report.cost_tables import cost_tables
from snellen.report.count_tables import count_tables
from snellen.report.headline_table import headline_by_model, headline_table, side_table
from snellen.report.letters import letter_tables
from snellen.report.matrix_tables import benchmark_tables, dimension_tables, slice_tables
from snellen.report.page_table import WIDE_TABLE_COLUMNS
from snellen.report.paired_tables import Comparisons, compare_reported_runs, paired_tables
from snellen.report.provenance_tables import provenance_tables
from snellen.report.report_section import ReportSection, with_registered_sections
from snellen.report.reported_runs import ReportedRun, method_rows
from snellen.report.sequential_tables import sequential_tables
from snellen.report.step_tables import multi_step_tables
from snellen.report.table import Table
from snellen.report.training_curves import training_tables


def _result_tables(reported_runs: Sequence[ReportedRun]) -> list[Table]:
    """Return the headlines, with models as rows if there are too many for columns, and numbers next to them."""
    if len(method_rows(reported_runs)) > WIDE_TABLE_COLUMNS:
        tables = [headline_by_model(reported_runs)]
    else:
        tables = [headline_table(reported_runs)]
    side = side_table(reported_runs)
    if side:
        tables.append(side)
    return tables


def _suite_tables(reported_runs: Sequence[ReportedRun]) -> list[Table]:
    return [table for section in suite_sections(reported_runs) for table in section.tables]


def report_sections(
    comparisons: Comparisons, further: Sequence[ReportSection] = ()
) -> tuple[ReportSection, ...]:
    """Return the sections in the order of the page.

    Args:
        comparisons: Comparisons of the runs that the report shows.
        further: Sections of this report alone; those of other packages are in the registry.
    """
    compared = partial(paired_tables, comparisons=comparisons)
    builtin_sections = (
        ReportSection("summary", "Result", tables=_result_tables),
        ReportSection(
            "stopped",
            "Stopped by a rule",
            "what these runs show about the whole benchmarks",
            sequential_tables,
        ),
        ReportSection(
            "dimensions", "Dimensions", "one score for each capability", dimension_tables
        ),
        ReportSection(
            "training", "Training", "scores over the steps of a training", training_tables
        ),
        ReportSection(
            "comparison",
            "Comparison",
            "differences on the same questions, with p-values; ranks",
            compared,
        ),
        ReportSection(
            "benchmarks", "Benchmarks", "each benchmark under each metric", benchmark_tables
        ),
        ReportSection("suites", "Suites", "tables in the layout of a suite's paper", _suite_tables),
        ReportSection(
            "parts", "Parts", "by level, round and other tags of the questions", slice_tables
        ),
        ReportSection(
            "samples", "Samples", "questions with image, prompt, reply and correct answer"
        ),
        ReportSection(
            "stability", "Stability", "the same question with other wordings and option orders"
        ),
        ReportSection(
            "places",
            "Option order",
            "which positions the models choose, and where they are correct",
            letter_tables,
        ),
        ReportSection("methods", "Methods", "replies compared with the likelihoods of the options"),
        ReportSection("controls", "Controls", "what the images contribute", control_tables),
        ReportSection("talks", "Steps", "answers derived from several requests", multi_step_tables),
        ReportSection(
            "conventions",
            "Conventions",
            "under Snellen's rules and as published",
            convention_tables,
        ),
        ReportSection(
            "common",
            "Common questions",
            "the questions that all models answered",
            common_question_tables,
        ),
        ReportSection(
            "cost", "Cost", "tokens, seconds and prices next to the accuracy", cost_tables
        ),
        ReportSection("counts", "Counts", "requests, and how replies were parsed", count_tables),
        ReportSection(
            "provenance", "Provenance", "models, settings and versions", provenance_tables
        ),
    )
    registered = registry.loadable("report_sections").values()
    return with_registered_sections(builtin_sections, [*registered, *further])


def report_tables(
    reported_runs: Sequence[ReportedRun],
    comparisons: Comparisons | None = None,
    further: Sequence[ReportSection] = (),
) -> dict[str, list[Table]]:
    """Return the tables of a report by the title of their section, for formats that have nothing but tables.

    Args:
        reported_runs: The runs.
        comparisons: The comparison of the runs, if it was computed already.
        further: Additional sections that only this report has.
    """
    if comparisons is None:
        comparisons = compare_reported_runs(reported_runs)
    sections = report_sections(comparisons, further)
    return {section.title: section.tables(reported_runs) for section in sections}
