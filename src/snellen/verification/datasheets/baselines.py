"""What rules score that do not look, and what a model scores that knows every answer."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence

from msgspec import Struct

from snellen.analysis.aggregate import results_of
from snellen.analysis.capability import headlines_of
from snellen.analysis.lint import Finding
from snellen.analysis.lint.material import LintQuestion
from snellen.analysis.statistics import estimate_mean
from snellen.building.benchmark import Benchmark
from snellen.experiments.evaluation import evaluate_spec
from snellen.metrics.declaration import SHARE
from snellen.records import Estimate
from snellen.runs.spec import run_spec

ORACLE = "snellen:oracle"
ORACLE_LIMIT = 200
"""Samples that the oracle is asked: enough to see that right answers are read and scored as right."""
OF_LINT = {
    "majority-answer": "the answer most often right about other pictures",
    "longest-option": "always the longest option",
    "shortest-option": "always the shortest option",
    "blind-reader": "a naive reader of options (looks, places, wordings)",
    "question-reader": "a naive reader of the question",
    "constant-reply": "always the reply that most questions accept",
    "text-only": "",
}


class Baseline(Struct, frozen=True):
    """The score of something that does not look at pictures, or that needs not."""

    name: str
    metric: str
    unit: str
    estimate: Estimate
    note: str = ""


def baselines(benchmark: Benchmark, choices: Sequence[LintQuestion], findings: Sequence[Finding]) -> list[Baseline]:
    """The oracle, guessing, the first option, and what lint measured; `findings` hold those of blind models too."""
    lines = _oracle(benchmark) if benchmark.manifest.counts.answers else []
    if choices:
        chance = sum(question.chance for question in choices) / len(choices)
        guess = Estimate(chance, None, None, None, len(choices))
        lines.append(
            Baseline("guessing, each option equally likely", "accuracy", SHARE, guess, "computed, not measured")
        )
        first = [float(0 in question.gold) for question in choices]
        estimate = estimate_mean(first, [question.group for question in choices])
        lines.append(Baseline("always the first option", "accuracy", SHARE, estimate))
    for finding in findings:
        if finding.check in OF_LINT and finding.estimate is not None:
            name = OF_LINT[finding.check] or finding.message.partition(":")[0]
            lines.append(Baseline(name, "accuracy", SHARE, finding.estimate))
    return lines


def _oracle(benchmark: Benchmark) -> list[Baseline]:
    """A model that knows every answer, asked like any other."""
    limit = min(ORACLE_LIMIT, benchmark.count())
    with tempfile.TemporaryDirectory() as folder:
        spec = run_spec(
            {
                "models": (ORACLE,), "benchmarks": (str(benchmark.folder),), "runs": folder, "report": False,
                "limit": limit, "allow_same_requests": True,
            }
        )  # fmt: skip
        [finished] = evaluate_spec(spec)
        [scored] = finished.scored.benchmarks
        headlines = headlines_of(scored)
        rows = [row for row in results_of(finished.scored) if row.metric in headlines and not row.slice]
        note = "" if limit == benchmark.count() else f"of {limit:,} samples"
        return [
            Baseline("the oracle, which knows every answer", row.metric, row.unit, row.estimate, note)
            for row in rows
            if row.benchmark == benchmark.name
        ][:1]
