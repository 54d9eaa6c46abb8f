"""Findings of the checks of a benchmark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Literal

from msgspec import Struct, field

from snellen.plugin_api import Estimate, LintQuestion, estimate_mean

Severity = Literal["serious", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("serious", "warning", "note")
MAX_EXAMPLES = 5
SIGNIFICANCE_LEVEL = 0.001
"""p-value below which a check reports a deviation from chance."""
SERIOUS_MARGIN = 0.1
"""A blind rule is a serious finding if its whole interval is at least this far above chance."""


class Finding(Struct, frozen=True):
    """A problem that a check found, or a figure that it reports."""

    check: str
    severity: Severity
    message: str = field(name="says")
    count: int = 0
    total: int = field(default=0, name="of")
    """The finding is about `count` of `total` questions, samples or images."""
    examples: tuple[str, ...] = ()
    """Identifiers of samples; `id#2` is round 2 of a dialogue."""
    estimate: Estimate | None = None
    chance: float | None = None
    """Expected score of random choices."""
    p: float | None = None


def first_examples(ids: Iterable[str]) -> tuple[str, ...]:
    """Return the first few distinct identifiers."""
    return tuple(islice(dict.fromkeys(ids), MAX_EXAMPLES))


def samples_finding(
    check: str, severity: Severity, message: str, ids: Sequence[str], total: int
) -> Iterator[Finding]:
    """Yield the finding that `message` is true of these samples or questions, unless there are none."""
    if ids:
        yield Finding(check, severity, message, len(ids), total, first_examples(ids))


def severity_above_chance(estimate: Estimate, chance: float) -> Severity:
    """Return the severity of a rule that has this accuracy without looking at the image."""
    low = estimate.low or 0.0
    if low <= chance:
        return "note"
    if low >= chance + SERIOUS_MARGIN:
        return "serious"
    return "warning"


def rule_finding(
    check: str, rule: str, choices: Sequence[LintQuestion], values: Sequence[float]
) -> Finding:
    """Return the finding for a rule: its accuracy in comparison with chance.

    Args:
        check: Name of the check.
        rule: The rest of the sentence "always choosing ...".
        choices: Questions with options.
        values: Expected accuracy of the rule on each question.
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
    """Return a share with its 95% interval in percent, as in `40.0% [35.2, 45.0]`; `nothing` if it has no interval."""
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return "nothing"
    low = f"{100 * estimate.low:.1f}"
    high = f"{100 * estimate.high:.1f}"
    return f"{estimate.value:.1%} [{low}, {high}]"
