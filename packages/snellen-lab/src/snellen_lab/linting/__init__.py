"""Lint: checks of a built benchmark's questions, options, answers and pictures (ReForm-Eval 3.1, E.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from snellen.plugin_api import Benchmark, LintMaterial, gather_material
from snellen_lab.linting.golds import always_or_never_right, gold_positions, majority_answer
from snellen_lab.linting.material import (
    SEVERITIES,
    Finding,
    Severity,
    built_counts,
    hidden_answers,
    picture_quality,
)
from snellen_lab.linting.surface import blind_reader, odd_one_out, option_lengths
from snellen_lab.linting.wording import (
    indistinguishable,
    question_reader,
    repeated_questions,
    similar_options,
    telling_tags,
    telling_words,
    text_lengths,
    text_only,
)

__all__ = ["SEVERITIES", "Finding", "Severity", "lint", "text_only"]

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
    """All findings about a built benchmark, serious ones first; figures that are as they should be are notes.

    Raises DataError for a benchmark that cannot be read.
    """
    material = gather_material(benchmark)
    findings = [finding for check in CHECKS for finding in check(material)]
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))
