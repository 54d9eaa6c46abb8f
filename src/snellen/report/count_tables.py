"""Tables of counts: requests, replies by outcome, requests by role, and replies by the stage that read them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Literal, NamedTuple

from snellen.callers import for_caller
from snellen.reasons import Reason
from snellen.records import ExtractionMethod, Prediction
from snellen.report.number_text import DASH, counts_text
from snellen.report.pooled_estimates import with_samples
from snellen.report.reported_runs import (
    ReplyCounts,
    ReportedRun,
    RotationCounts,
    benchmarks_with_options,
    count_rotations,
)
from snellen.report.summary import summary
from snellen.report.table import Column, Table, tabulate
from snellen.scoring.request_costs import RoleUse

StageName = Literal["rules", "judge", "random guess", "none named", "refused", "empty", "failed"]
STAGES: tuple[StageName, ...] = (
    "rules",
    "judge",
    "random guess",
    "none named",
    "refused",
    "empty",
    "failed",
)
"""Stages that read a reply, then reasons why no stage could."""
_STAGE_BY_METHOD: dict[ExtractionMethod | None, StageName] = {
    "judge": "judge",
    "random guess": "random guess",
}
_STAGE_BY_REASON: dict[Reason | None, StageName] = {
    "refused": "refused",
    "empty": "empty",
    "tool call": "empty",
}


class _RequestRow(NamedTuple):
    reported_run: ReportedRun
    rotations: RotationCounts | None


class _ReplyRow(NamedTuple):
    reported_run: ReportedRun
    counts: ReplyCounts


class _RoleRow(NamedTuple):
    reported_run: ReportedRun
    use: RoleUse


class _StageRow(NamedTuple):
    reported_run: ReportedRun
    protocol: str
    counts: Counter[StageName]


def count_tables(reported_runs: Sequence[ReportedRun]) -> list[Table]:
    """Return the tables of requests by model, and of replies by model and protocol."""
    tables: list[Table] = []
    for reported_run in reported_runs:
        if any(True for _ in benchmarks_with_options(reported_run)):
            tables.append(summary(reported_runs))
            break
    tables.append(_request_table(reported_runs))
    tables.append(_reply_table(reported_runs))
    tables += _role_tables(reported_runs)
    tables += _stage_tables(reported_runs)
    return tables


def _request_table(reported_runs: Sequence[ReportedRun]) -> Table:
    """Return the table of the requests of each model: asked, reused, failed."""
    columns: list[Column[_RequestRow]] = [
        Column("model", lambda row: row.reported_run.label, is_label=True),
        Column("asked", lambda row: row.reported_run.run.distinct_requests),
        Column(
            "reused",
            lambda row: row.reported_run.run.reused,
            "replies reused from an earlier response to the same request",
        ),
        Column(
            "rotations presented", lambda row: row.rotations.presented if row.rotations else DASH
        ),
        Column(
            "rotations avoided",
            lambda row: row.rotations.n_avoided if row.rotations else DASH,
            "presentations that CircularEval skipped, because the question had already failed",
        ),
    ]
    rows = [
        _RequestRow(reported_run, count_rotations(reported_run.run))
        for reported_run in reported_runs
    ]
    return tabulate("Requests", columns, rows)


def _reply_table(reported_runs: Sequence[ReportedRun]) -> Table:
    """Return the table of what became of the replies: read, unparsed, empty, failed."""
    columns: list[Column[_ReplyRow]] = [
        Column("model", lambda row: row.reported_run.label, is_label=True),
        Column("protocol", lambda row: row.counts.protocol, is_label=True),
        Column("questions", lambda row: row.counts.questions),
        Column(
            "asked",
            lambda row: row.counts.presentations,
            "replies requested from the model: one for each wording and option order of a question",
        ),
        Column("read", lambda row: row.counts.read),
        Column(
            "unparsed",
            lambda row: counts_text(row.counts.unparsed),
            "unparsed replies, by reason",
        ),
        Column(
            "failed",
            lambda row: counts_text(row.counts.errors),
            "requests that never received a reply, by reason",
        ),
        Column(
            "to the grader",
            lambda row: row.counts.to_grader,
            "replies that try to influence the grader; they are parsed like any other reply",
        ),
        Column(
            "unscored questions",
            lambda row: counts_text(row.counts.unscored),
            "questions without a value, by reason",
        ),
    ]
    rows = [
        _ReplyRow(reported_run, counts)
        for reported_run in reported_runs
        for counts in reported_run.reply_counts
    ]
    return tabulate("Replies", columns, rows)


def _role_tables(reported_runs: Sequence[ReportedRun]) -> list[Table]:
    """Return the requests to each model of runs with several models, for example with a judge."""
    columns: list[Column[_RoleRow]] = [
        Column("run of", lambda row: row.reported_run.label, is_label=True),
        Column("role", lambda row: row.use.role or "evaluated", is_label=True),
        Column("model", lambda row: row.use.model, is_label=True),
        Column("requests", lambda row: row.use.answered + row.use.failed),
        Column("failed", lambda row: row.use.failed),
        Column(
            "tokens read",
            lambda row: row.use.usage.prompt_tokens or 0 if row.use.usage else DASH,
        ),
        Column(
            "tokens written",
            lambda row: row.use.usage.completion_tokens or 0 if row.use.usage else DASH,
        ),
    ]
    rows: list[_RoleRow] = []
    for reported_run in reported_runs:
        if len(reported_run.run.roles) > 1:
            rows += [_RoleRow(reported_run, use) for use in reported_run.run.roles]
    if not rows:
        return []
    note = (
        "Over all sessions of the run. A request counts once, and as failed if it never received a reply. Tokens "
        "are as counted by the models."
    )
    return [tabulate("Requests by role", columns, rows, [note])]


def _stage_tables(reported_runs: Sequence[ReportedRun]) -> list[Table]:
    """Return a table that counts how replies were read: by the extractor's rules, by a judge model, or not at all.

    It has a row for each model and each protocol with multiple-choice questions.

    Returns:
        One table; none if there are no such replies.
    """
    columns: list[Column[_StageRow]] = [
        Column("model", lambda row: row.reported_run.label, is_label=True),
        Column("protocol", lambda row: row.protocol, is_label=True),
        Column("replies", lambda row: row.counts.total()),
    ]
    columns += [_stage_column(stage) for stage in STAGES]
    rows: list[_StageRow] = []
    for reported_run in reported_runs:
        for protocol, counts in _count_stages(reported_run).items():
            rows.append(_StageRow(reported_run, protocol, counts))
    if not rows:
        return []
    judge = for_caller("--judge", "the judge")
    note = f"Replies to questions with options. Replies that are hard to parse go to {judge}."
    return [tabulate("Extraction by stage", columns, rows, [note])]


def _stage_column(stage: StageName) -> Column[_StageRow]:
    return Column(stage, lambda row: row.counts[stage])


def _count_stages(reported_run: ReportedRun) -> dict[str, Counter[StageName]]:
    """Count how replies to multiple-choice questions were read, by protocol.

    A stage is what found the chosen option in a reply: the extractor's rules, a judge model, or a random guess.
    """
    counts: dict[str, Counter[StageName]] = defaultdict(Counter)
    for scored in reported_run.run.benchmarks:
        for prediction, sample in with_samples(scored):
            has_options = bool(sample.rounds[prediction.turn].options)
            if prediction.method == "generation" and has_options:
                counts[prediction.protocol][_stage_of(prediction)] += 1
    return counts


def _stage_of(prediction: Prediction) -> StageName:
    """Return what read a reply to a multiple-choice question: rules, a judge, or a random guess; or why nothing could."""
    if prediction.error is not None:
        return "failed"
    if prediction.choice is not None:
        return _STAGE_BY_METHOD.get(prediction.extraction_method, "rules")
    return _STAGE_BY_REASON.get(prediction.reason, "none named")
