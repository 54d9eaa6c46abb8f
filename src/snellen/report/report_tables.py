"""The sections of a report with their tables, as every form of it has them.

Counts of what was asked, reused, avoided, read, unparsed and lost.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Literal

from snellen import registry
from snellen.reasons import Reason
from snellen.records import ExtractionMethod, Prediction
from snellen.report.content import suite_sections
from snellen.report.cost_tables import cost_tables
from snellen.report.headline_table import headline_by_model, headline_table, side_table
from snellen.report.letters import letter_tables
from snellen.report.paired_tables import (
    Comparisons,
    compare_views,
    paired_tables,
    sequential_tables,
)
from snellen.report.pooled_estimates import with_samples
from snellen.report.protocol_tables import control_tables, talk_tables
from snellen.report.report_section import ReportSection, with_registered_sections
from snellen.report.run_view import (
    RunView,
    count_rotations,
    each_choice_benchmark,
    method_rows,
)
from snellen.report.sections import (
    benchmark_tables,
    common_question_tables,
    convention_tables,
    dimension_tables,
    provenance_tables,
    slice_tables,
)
from snellen.report.summary import summary
from snellen.report.table import DASH, WIDE, Cell, Table, counts_text


def count_tables(views: Sequence[RunView]) -> list[Table]:
    """Tables of requests by model, and of replies by model and protocol."""
    of_options = [summary(views)] if any(map(_has_options, views)) else []
    return [
        *of_options,
        _request_table(views),
        _reply_table(views),
        *_role_tables(views),
        *_stage_tables(views),
    ]


def _has_options(view: RunView) -> bool:
    return any(True for _ in each_choice_benchmark(view))


def _request_table(views: Sequence[RunView]) -> Table:
    calls = tuple(
        (
            view.label,
            view.run.asked,
            view.run.reused,
            *((r.presented, r.avoided) if (r := count_rotations(view.run)) else (DASH, DASH)),
        )
        for view in views
    )
    return Table(
        "Requests",
        ("model", "asked", "reused", "rotations presented", "rotations avoided"),
        calls,
        hints={
            "reused": "replies taken from an earlier response to the same request",
            "rotations avoided": "those that CircularEval need not ask, as earlier ones had failed the question",
        },
    )


def _reply_table(views: Sequence[RunView]) -> Table:
    replies = tuple(
        (
            view.label,
            counts.protocol,
            counts.questions,
            counts.presentations,
            counts.read,
            counts_text(counts.unparsed),
            counts_text(counts.errors),
            counts.to_grader,
            counts_text(counts.unscored),
        )
        for view in views
        for counts in view.reply_counts
    )
    return Table(
        "Replies",
        (
            "model",
            "protocol",
            "questions",
            "asked",
            "read",
            "unparsed",
            "failed",
            "to the grader",
            "unscored questions",
        ),
        replies,
        label_columns=2,
        hints={
            "asked": "replies asked for: one for each wording and order of the options that a question is shown in",
            "unparsed": "replies that name no option, by reason",
            "failed": "those that have no reply in the end, by reason",
            "to the grader": "replies that speak to whoever grades them, read as any other",
            "unscored questions": "questions without a value, by reason",
        },
    )


def _role_tables(views: Sequence[RunView]) -> list[Table]:
    """What each model of a run was asked, where there are several."""
    rows = tuple(
        (
            view.label,
            use.role or "evaluated",
            use.model,
            use.answered + use.failed,
            use.failed,
            *(
                (use.usage.prompt_tokens or 0, use.usage.completion_tokens or 0)
                if use.usage
                else (DASH, DASH)
            ),
        )
        for view in views
        for use in view.run.roles
        if len(view.run.roles) > 1
    )
    if not rows:
        return []
    header = ("run of", "role", "model", "requests", "failed", "tokens read", "tokens written")
    note = (
        "Over all sessions of the run; a request counts once, as failed where it has no reply in the end. Tokens as "
        "models count."
    )
    return [Table("Requests by role", header, rows, label_columns=3, notes=(note,))]


# --- by reading stage -----------------------------------------------------------------------------------------------

_StageName = Literal["rules", "judge", "random guess", "none named", "refused", "empty", "failed"]
STAGES: tuple[_StageName, ...] = (
    "rules",
    "judge",
    "random guess",
    "none named",
    "refused",
    "empty",
    "failed",
)
_BY_METHOD: dict[ExtractionMethod | None, _StageName] = {
    "judge": "judge",
    "random guess": "random guess",
}
_BY_REASON: dict[Reason | None, _StageName] = {
    "refused": "refused",
    "empty": "empty",
    "tool call": "empty",
}


def _stage_of(prediction: Prediction) -> _StageName:
    """The stage that read a reply to a question with options, or why no stage could."""
    if prediction.error is not None:
        return "failed"
    if prediction.choice is not None:
        return _BY_METHOD.get(prediction.extraction_method, "rules")
    return _BY_REASON.get(prediction.reason, "none named")


def _stage_tables(views: Sequence[RunView]) -> list[Table]:
    """One row per model and protocol that shows options; no table without any."""
    rows = [row for view in views for row in _stage_rows(view)]
    if not rows:
        return []
    note = "Of the replies to questions with options. A reply that is hard to read goes to --judge."
    header = ("model", "protocol", "replies", *STAGES)
    return [Table("Extraction by stage", header, tuple(rows), label_columns=2, notes=(note,))]


def _stage_rows(view: RunView) -> list[tuple[Cell, ...]]:
    stages: dict[str, Counter[str]] = defaultdict(Counter)
    for scored in view.run.benchmarks:
        for prediction, sample in with_samples(scored):
            if prediction.method == "generation" and sample.rounds[prediction.turn].options:
                stages[prediction.protocol][_stage_of(prediction)] += 1
    return [
        (view.label, protocol, counts.total(), *(counts[stage] for stage in STAGES))
        for protocol, counts in stages.items()
    ]


Tables = list[Table]


def _summary(views: Sequence[RunView]) -> Tables:
    many = len(method_rows(views)) > WIDE
    first = headline_by_model(views) if many else headline_table(views)
    side = side_table(views)
    return [first, side] if side else [first]


def _suites(views: Sequence[RunView]) -> Tables:
    return [table for section in suite_sections(views) for table in section.tables]


def report_sections(
    comparisons: Comparisons, further: Sequence[ReportSection] = ()
) -> tuple[ReportSection, ...]:
    """Return the sections in the order of the page.

    Args:
        comparisons: Comparisons of the runs that the report shows.
        further: Sections of this report alone; those of other packages are in the registry.
    """
    compared = partial(paired_tables, comparisons=comparisons)
    own = (
        ReportSection("summary", "Result", tables=_summary),
        ReportSection(
            "stopped",
            "Stopped by a rule",
            "what these runs know of whole benchmarks",
            sequential_tables,
        ),
        ReportSection(
            "dimensions", "Dimensions", "one number for each capability", dimension_tables
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
        ReportSection("suites", "Suites", "tables as a suite's paper has them", _suites),
        ReportSection(
            "parts", "Parts", "by level, round and other tags of the questions", slice_tables
        ),
        ReportSection(
            "samples", "Samples", "questions with picture, prompt, reply and right answer"
        ),
        ReportSection("stability", "Stability", "the same question in other words and orders"),
        ReportSection(
            "places",
            "Option order",
            "which places the models choose, and where they are right",
            letter_tables,
        ),
        ReportSection("methods", "Methods", "replies against likelihoods of the options"),
        ReportSection("controls", "Controls", "what the pictures are needed for", control_tables),
        ReportSection("talks", "Steps", "answers that came of several requests", talk_tables),
        ReportSection(
            "conventions", "Conventions", "by Snellen's rules and as published", convention_tables
        ),
        ReportSection(
            "common", "Common questions", "those that all models answered", common_question_tables
        ),
        ReportSection(
            "cost", "Cost", "tokens, seconds and prices beside the accuracy", cost_tables
        ),
        ReportSection("counts", "Counts", "requests, and how replies were read", count_tables),
        ReportSection(
            "provenance", "Provenance", "models, settings and versions", provenance_tables
        ),
    )
    registered = registry.loadable("report_sections").values()
    return with_registered_sections(own, [*registered, *further])


def report_tables(
    views: Sequence[RunView],
    comparisons: Comparisons | None = None,
    further: Sequence[ReportSection] = (),
) -> dict[str, Tables]:
    """The tables by the title of their section, for the forms that are tables alone."""
    comparisons = compare_views(views) if comparisons is None else comparisons
    sections = report_sections(comparisons, further)
    return {section.title: section.tables(views) for section in sections}
