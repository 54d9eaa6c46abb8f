"""Counts of what was asked, reused, avoided, read, unparsed and lost."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Literal

from snellen.metrics.declaration import SHARE
from snellen.reasons import Reason
from snellen.records import ExtractionMethod, Prediction
from snellen.report.formatting import DASH, counts_text
from snellen.report.pooled_estimates import Groups, ValuePool, with_samples
from snellen.report.reply_counts import count_rotations
from snellen.report.run_view import RunView
from snellen.report.table import Cell, NumberCell, Table


def count_tables(views: Sequence[RunView]) -> list[Table]:
    """Tables of requests by model, and of replies by model and protocol."""
    calls = tuple(
        (
            view.label,
            view.run.asked,
            view.run.reused,
            *((r.presented, r.avoided) if (r := count_rotations(view.run)) else (DASH, DASH)),
        )
        for view in views
    )
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
    return [
        Table(
            "Requests",
            ("model", "asked", "reused", "rotations presented", "rotations avoided"),
            calls,
            hints={
                "reused": "presentations answered by an earlier response to the same request",
                "rotations avoided": "those that CircularEval need not ask, as earlier ones had failed the question",
            },
        ),
        Table(
            "Replies",
            (
                "model",
                "protocol",
                "questions",
                "presentations",
                "read",
                "unparsed",
                "errors",
                "to the grader",
                "unscored questions",
            ),
            replies,
            label_columns=2,
            hints={
                "presentations": "a question in one wording and one order of its options",
                "unparsed": "presentations whose reply names no option, by reason",
                "errors": "presentations that were not answered, by reason",
                "to the grader": "replies that speak to whoever grades them, read as any other",
                "unscored questions": "questions without a value, by reason",
            },
        ),
        *_role_tables(views),
        *_stage_tables(views),
    ]


def _role_tables(views: Sequence[RunView]) -> list[Table]:
    """What each model of a run was asked, where there are several."""
    rows = tuple(
        (
            view.label,
            use.role or "evaluated",
            use.model,
            use.answered + use.failed,
            use.failed,
            *((use.usage.prompt_tokens or 0, use.usage.completion_tokens or 0) if use.usage else (DASH, DASH)),
        )
        for view in views
        for use in view.run.roles
        if len(view.run.roles) > 1
    )
    if not rows:
        return []
    header = ("run of", "role", "model", "requests", "failed", "tokens read", "tokens written")
    note = (
        "Over all sessions of the run; a request that failed and was asked again counts twice. Tokens as models count."
    )
    return [Table("Requests by role", header, rows, label_columns=3, notes=(note,))]


# --- by reading stage -----------------------------------------------------------------------------------------------

_StageName = Literal["rules", "meaning", "judge", "random guess", "none named", "refused", "empty", "failed"]
STAGES: tuple[_StageName, ...] = (
    "meaning",
    "judge",
    "random guess",
    "none named",
    "refused",
    "empty",
    "failed",
)
"""All stages but the rules."""
_BY_METHOD: dict[ExtractionMethod | None, _StageName] = {
    "semantic": "meaning",
    "judge": "judge",
    "random guess": "random guess",
}
_BY_REASON: dict[Reason | None, _StageName] = {"refused": "refused", "empty": "empty"}


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
    note = "Of the replies to questions with options. What the rules leave open goes to --semantic and --judge."
    header = ("model", "protocol", "replies", "read by rules", *STAGES)
    return [Table("Extraction by stage", header, tuple(rows), label_columns=2, notes=(note,))]


def _stage_rows(view: RunView) -> list[tuple[Cell, ...]]:
    stages: dict[str, Counter[str]] = defaultdict(Counter)
    by_rules: dict[str, ValuePool] = defaultdict(ValuePool)
    groups = Groups()
    for scored in view.run.benchmarks:
        for prediction, sample in with_samples(scored):
            if prediction.method == "generation" and sample.rounds[prediction.turn].options:
                stage = _stage_of(prediction)
                stages[prediction.protocol][stage] += 1
                by_rules[prediction.protocol].add(float(stage == "rules"), groups.number(scored, sample))
    return [
        (
            view.label,
            protocol,
            counts.total(),
            NumberCell(SHARE, by_rules[protocol].estimate()),
            *(counts[stage] for stage in STAGES),
        )
        for protocol, counts in stages.items()
    ]
