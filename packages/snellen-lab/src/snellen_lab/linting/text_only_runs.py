"""Findings about runs that showed no image: how well models score by the texts alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from snellen.plugin_api import (
    Result,
    ScoredBenchmark,
    ScoredRun,
    aggregate_run,
    first_text_metric,
    labelled_declaration,
)
from snellen_lab.linting.material import Finding, Severity, estimate_text, severity_above_chance


def text_only(run: ScoredRun) -> dict[str, list[Finding]]:
    """Return the findings of a run's protocols that show no image, by benchmark."""
    findings: dict[str, list[Finding]] = {}
    rows = aggregate_run(run)
    for scored in run.benchmarks:
        benchmark_rows = []
        for row in rows:
            if row.slice or row.benchmark != scored.spec.name:
                continue
            if not labelled_declaration(row.protocol).sees_images:
                benchmark_rows.append(row)
        findings[scored.spec.name] = list(_text_only_findings(scored, benchmark_rows))
    return findings


def _text_only_findings(scored: ScoredBenchmark, rows: Sequence[Result]) -> Iterator[Finding]:
    """Yield a finding for the accuracy, or the main text metric, of a benchmark without images.

    It is serious if the accuracy is above chance.
    """
    headline_rows = ("accuracy", first_text_metric(scored.spec))
    for row in rows:
        estimate = row.estimate
        if row.metric not in headline_rows or not estimate.n:
            continue
        message = f"{row.model} without the image: {row.metric} {estimate_text(estimate)}"
        severity: Severity = "note"
        chance = None
        unparsed = 0.0
        if row.metric == "accuracy":
            chance = _chance(scored)
            severity = severity_above_chance(estimate, chance)
            unparsed = _unparsed_rate(rows)
            message += f"; chance {chance:.1%}"
        if unparsed or estimate.errors:
            message += f"; {unparsed:.1%} unparsed, {estimate.errors:,} errors"
        yield Finding(
            "text-only",
            severity,
            message,
            round((estimate.value or 0.0) * estimate.n),
            estimate.n,
            (),
            estimate,
            chance,
        )


def _unparsed_rate(rows: Sequence[Result]) -> float:
    """Return the share of unparsed replies among rows of results; 0 if no row has it."""
    for row in rows:
        if row.metric == "unparsed_rate":
            return row.estimate.value or 0.0
    return 0.0


def _chance(scored: ScoredBenchmark) -> float:
    """Return the accuracy of random choices: the mean over questions of the share of options that are correct."""
    chances = []
    for (sample_id, turn), answer in scored.answers.items():
        if answer.options and sample_id in scored.samples:
            sample = scored.samples[sample_id]
            n_options = len(sample.rounds[turn].options)
            chances.append(len(answer.options) / n_options)
    return sum(chances) / len(chances)
