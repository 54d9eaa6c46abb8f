"""What was asked, reused, avoided, read, unparsed and lost: nothing falls under the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from snellen.analysis.capability import text_headline
from snellen.protocols.base import labelled_declaration
from snellen.reasons import word_reason
from snellen.report.formatting import DASH, listed
from snellen.report.reading_table import stage_tables
from snellen.report.run_view import RunView
from snellen.report.table import Table
from snellen.scoring.scored_run import ScoredBenchmark


class ReplyCounts(Struct, frozen=True):
    """What became of the questions of one protocol in one run."""

    protocol: str
    questions: int
    presentations: int
    read: int
    unparsed: dict[str, int]
    """Presentations by how the reader gave up."""
    errors: dict[str, int]
    """Presentations by kind of failure."""
    to_grader: int
    """Presentations whose reply speaks to whoever grades it; they are read as any other."""
    unscored: dict[str, int]
    """Questions without a value in their first metric, by reason."""


class RotationCounts(Struct, frozen=True):
    """How many rotations of CircularEval were presented, of all that the questions have."""

    presented: int
    whole: int

    @property
    def avoided(self) -> int:
        return self.whole - self.presented


def headline(scored: ScoredBenchmark, has_options: bool) -> str:
    """The first metric of a question."""
    return "accuracy" if has_options else text_headline(scored.spec)


def count_replies(sheet: RunView) -> list[ReplyCounts]:
    """One record a protocol, in the run's order."""
    return [_count(sheet, protocol) for protocol in sheet.run.manifest.protocols]


def _count(sheet: RunView, protocol: str) -> ReplyCounts:
    questions: set[tuple[str, str, int]] = set()
    unscored: Counter[str] = Counter()
    unparsed: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    presentations = read = to_grader = 0
    for one in sheet.run.benchmarks:
        for score in one.scores:
            if score.protocol != protocol:
                continue
            questions.add((score.benchmark, score.sample_id, score.turn))
            options = one.samples[score.sample_id].rounds[score.turn].options
            if score.value is None and score.metric == headline(one, bool(options)):
                unscored[word_reason(score.reason, score.detail)] += 1
        for prediction in one.predictions:
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


def count_rotations(sheet: RunView) -> RotationCounts | None:
    """Rotations of the questions that were begun; None without a circular protocol."""
    labels = sheet.run.manifest.protocols
    circular = {label: found for label in labels if (found := labelled_declaration(label)).circular}
    if not circular:
        return None
    presented = whole = 0
    for one in sheet.run.benchmarks:
        tests = Counter((p.protocol, p.sample_id) for p in one.predictions if p.protocol in circular)
        presented += sum(tests.values())
        whole += sum(circular[protocol].n_presentations(one.samples[sample]) for protocol, sample in tests)
    return RotationCounts(presented, whole)


def count_tables(sheets: Sequence[RunView]) -> list[Table]:
    """Requests by model; replies by model and protocol."""
    calls = tuple(
        (
            sheet.label,
            sheet.run.asked,
            sheet.run.reused,
            *((r.presented, r.avoided) if (r := count_rotations(sheet)) else (DASH, DASH)),
        )
        for sheet in sheets
    )
    replies = tuple(
        (
            sheet.label,
            one.protocol,
            one.questions,
            one.presentations,
            one.read,
            listed(one.unparsed),
            listed(one.errors),
            one.to_grader,
            listed(one.unscored),
        )
        for sheet in sheets
        for one in count_replies(sheet)
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
            labels=2,
            notes=(
                "Unparsed and errors count presentations; unscored counts questions, by reason. To the grader: replies "
                "that speak to whoever grades them, read as any other.",
            ),
        ),
        *stage_tables(sheets),
    ]
