"""Counts of what was asked, reused, avoided, read, unparsed and lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from snellen.analysis.capability import first_text_metric
from snellen.protocols.base import labelled_declaration
from snellen.reasons import word_reason
from snellen.report.formatting import DASH, counts_text
from snellen.report.reading_table import stage_tables
from snellen.report.run_view import RunView
from snellen.report.table import Table
from snellen.scoring.scored_run import ScoredBenchmark


class ReplyCounts(Struct, frozen=True):
    """Outcomes of one protocol in one run."""

    protocol: str
    questions: int
    presentations: int
    read: int
    unparsed: dict[str, int]
    """Unparsed presentations by reason."""
    errors: dict[str, int]
    """Failed presentations by kind of failure."""
    to_grader: int
    """Presentations whose reply speaks to whoever grades it; they are read as any other."""
    unscored: dict[str, int]
    """Questions without a value of their first metric, by reason."""


class RotationCounts(Struct, frozen=True):
    """CircularEval rotations presented, out of all that the questions have."""

    presented: int
    total: int

    @property
    def avoided(self) -> int:
        return self.total - self.presented


def question_metric(scored: ScoredBenchmark, has_options: bool) -> str:
    """The first metric of a question: accuracy if it has options."""
    return "accuracy" if has_options else first_text_metric(scored.spec)


def count_replies(view: RunView) -> list[ReplyCounts]:
    """One record per protocol, in the run's order."""
    return [_count(view, protocol) for protocol in view.run.manifest.protocols]


def _count(view: RunView, protocol: str) -> ReplyCounts:
    questions: set[tuple[str, str, int]] = set()
    unscored: Counter[str] = Counter()
    unparsed: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    presentations = read = to_grader = 0
    for scored in view.run.benchmarks:
        for score in scored.scores:
            if score.protocol != protocol:
                continue
            questions.add((score.benchmark, score.sample_id, score.turn))
            options = scored.samples[score.sample_id].rounds[score.turn].options
            if score.value is None and score.metric == question_metric(scored, bool(options)):
                unscored[word_reason(score.reason, score.detail)] += 1
        for prediction in scored.predictions:
            if prediction.protocol != protocol:
                continue
            presentations += 1
            to_grader += bool(prediction.addresses_grader)
            if prediction.error:
                errors[prediction.error.kind] += 1
            elif prediction.choice is None and prediction.text is None:
                unparsed[prediction.reason or ""] += 1
            else:
                read += 1
    return ReplyCounts(
        protocol, len(questions), presentations, read, dict(unparsed), dict(errors), to_grader, dict(unscored)
    )


def count_rotations(view: RunView) -> RotationCounts | None:
    """Rotations of the questions that were started; None without a circular protocol."""
    labels = view.run.manifest.protocols
    circular = {label: declaration for label in labels if (declaration := labelled_declaration(label)).circular}
    if not circular:
        return None
    presented = total = 0
    for scored in view.run.benchmarks:
        tests = Counter((p.protocol, p.sample_id) for p in scored.predictions if p.protocol in circular)
        presented += sum(tests.values())
        total += sum(circular[protocol].n_presentations(scored.samples[sample]) for protocol, sample in tests)
    return RotationCounts(presented, total)


def count_tables(views: Sequence[RunView]) -> list[Table]:
    """Tables of requests by model, and of replies by model and protocol."""
    calls = tuple(
        (
            view.label,
            view.run.asked,
            view.run.reused,
            *((r.presented, r.avoided) if (r := count_rotations(view)) else (DASH, DASH)),
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
        for counts in count_replies(view)
    )
    return [
        Table(
            "Requests",
            ("model", "asked", "reused", "rotations presented", "rotations avoided"),
            calls,
            notes=(
                "Reused: presentations answered by an earlier response to the same request. Avoided: rotations that "
                "CircularEval need not ask, because the earlier ones had failed the question.",
            ),
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
            notes=(
                "Unparsed and errors count presentations; unscored counts questions, by reason. To the grader: replies "
                "that speak to whoever grades them, read as any other.",
            ),
        ),
        *_role_tables(views),
        *stage_tables(views),
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
