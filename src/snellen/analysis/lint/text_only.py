"""What a model makes of the questions without their pictures."""

from __future__ import annotations

from collections.abc import Iterator

from snellen.analysis.aggregate import results_of
from snellen.analysis.lint.findings import Finding, finding_figure, graded_finding
from snellen.records import Result
from snellen.scoring.scored_run import ScoredBenchmark, ScoredRun
from snellen.scoring.text_scoring import DEFAULT_TEXT_METRICS, rows_of


def text_only(run: ScoredRun) -> dict[str, list[Finding]]:
    """Findings of a run under the protocol `blind`, by benchmark: how far the words alone carry its model."""
    rows = [row for row in results_of(run) if not row.slice]
    return {
        scored.spec.name: list(_findings(scored, [row for row in rows if row.benchmark == scored.spec.name]))
        for scored in run.benchmarks
    }


def _findings(scored: ScoredBenchmark, rows: list[Result]) -> Iterator[Finding]:
    wanted = ("accuracy", rows_of((scored.spec.metrics or DEFAULT_TEXT_METRICS)[0])[0])
    for row in rows:
        found = row.estimate
        if row.metric not in wanted or not found.n:
            continue
        chance = _chance(scored) if row.metric == "accuracy" else None
        against = f"; chance {chance:.1%}" if chance is not None else ""
        of_choices = (one.estimate.value or 0.0 for one in rows if one.metric == "unparsed_rate" and chance is not None)
        unparsed = next(of_choices, 0.0)
        lost = f"; {unparsed:.1%} unparsed, {found.errors:,} errors" if unparsed or found.errors else ""
        yield Finding(
            "text-only", graded_finding(found, chance) if chance is not None else "note",
            f"{row.model} without the picture: {row.metric} {finding_figure(found)}{against}{lost}",
            round((found.value or 0.0) * found.n), found.n, (), found, chance,
        )  # fmt: skip


def _chance(scored: ScoredBenchmark) -> float:
    chances = [
        len(answer.options) / len(scored.samples[name].rounds[turn].options)
        for (name, turn), answer in scored.answers.items()
        if answer.options and name in scored.samples
    ]
    return sum(chances) / len(chances)
