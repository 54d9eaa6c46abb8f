"""Findings: what a check reports about a benchmark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Literal

from msgspec import Struct, field

from snellen.analysis.lint.material import LintQuestion
from snellen.analysis.statistics import estimate_mean
from snellen.records import Estimate

Severity = Literal["serious", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("serious", "warning", "note")
EXAMPLES = 5
MUCH = 0.1
"""A blind rule whose whole interval is at least this far above chance is serious."""


class Finding(Struct, frozen=True):
    """One problem that a check found, or a figure that it reports."""

    check: str
    severity: Severity
    message: str = field(name="says")
    count: int = 0
    total: int = field(default=0, name="of")
    """`count` of `total` questions, samples or pictures are concerned."""
    examples: tuple[str, ...] = ()
    """Ids of samples; `id#2` is round 2 of a dialogue."""
    estimate: Estimate | None = None
    chance: float | None = None
    """What guessing would score in place of the estimate."""
    p: float | None = None


def first_examples(ids: Iterable[str]) -> tuple[str, ...]:
    """The first few distinct ids."""
    return tuple(islice(dict.fromkeys(ids), EXAMPLES))


def severity_above_chance(estimate: Estimate, chance: float) -> Severity:
    """The severity of a rule scoring this much without looking at the picture."""
    low = estimate.low or 0.0
    return "note" if low <= chance else "serious" if low >= chance + MUCH else "warning"


def rule_finding(check: str, rule: str, choices: Sequence[LintQuestion], values: Sequence[float]) -> Finding:
    """The finding for a rule: its accuracy on questions with options, one value per question, against guessing.

    `rule` finishes the sentence "always choosing ...".
    """
    estimate = estimate_mean(values, [question.group for question in choices])
    chance = sum(question.chance for question in choices) / len(choices)
    return Finding(
        check,
        severity_above_chance(estimate, chance),
        f"always choosing {rule} scores {estimate_text(estimate)}; chance {chance:.1%}",
        count=round(sum(values)),
        total=len(values),
        estimate=estimate,
        chance=chance,
    )


def estimate_text(estimate: Estimate) -> str:
    """`40.0% [35.2, 45.0]`"""
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return "nothing"
    return f"{estimate.value:.1%} [{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]"
