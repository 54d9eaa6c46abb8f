"""Lint: checks of the questions, options, answers and images of a benchmark (ReForm-Eval 3.1, E.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from snellen.plugin_api import Benchmark, LintMaterial
from snellen_lab.linting.contents import built_counts, hidden_answers, picture_quality
from snellen_lab.linting.golds import always_or_never_right, gold_positions, majority_answer
from snellen_lab.linting.matching_runs import is_run_on
from snellen_lab.linting.material import (
    SEVERITIES,
    Finding,
    Severity,
)
from snellen_lab.linting.surface import blind_reader, odd_one_out, option_lengths
from snellen_lab.linting.tags import telling_tags
from snellen_lab.linting.text_only_runs import text_only
from snellen_lab.linting.texts import (
    indistinguishable,
    repeated_questions,
    similar_options,
    text_lengths,
)
from snellen_lab.linting.wording import question_reader, telling_words

__all__ = ["SEVERITIES", "Finding", "Severity", "is_run_on", "lint", "text_only"]

CHECKS: tuple[Callable[[LintMaterial], Iterator[Finding]], ...] = (
    built_counts,
    hidden_answers,
    indistinguishable,
    repeated_questions,
    similar_options,
    text_lengths,
    gold_positions,
    majority_answer,
    always_or_never_right,
    option_lengths,
    odd_one_out,
    blind_reader,
    telling_words,
    question_reader,
    telling_tags,
    picture_quality,
)


def lint(benchmark: Benchmark) -> list[Finding]:
    """Return all findings about a built benchmark, serious ones first. Figures without a problem are notes.

    Raises:
        DataError: If the benchmark cannot be read.
    """
    material = LintMaterial.of(benchmark)
    findings: list[Finding] = []
    for check in CHECKS:
        findings.extend(check(material))
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))
