"""What a check says of a benchmark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Literal

from msgspec import Struct

from snellen.analysis.lint.material import LintQuestion
from snellen.analysis.statistics import estimate_mean
from snellen.records import Estimate

Severity = Literal["serious", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("serious", "warning", "note")
EXAMPLES = 5
MUCH = 0.1
"""A blind rule whose whole interval is so far above chance is serious."""


class Finding(Struct, frozen=True, omit_defaults=True):
    """One thing that a check found, or a figure that it was asked for."""

    check: str
    severity: Severity
    says: str
    count: int = 0
    of: int = 0
    """Questions, samples or pictures that it is about, of so many."""
    examples: tuple[str, ...] = ()
    """Ids of samples; `id#2` is round 2 of a dialogue."""
    estimate: Estimate | None = None
    chance: float | None = None
    """What guessing would give in place of the estimate."""
    p: float | None = None


def some(ids: Iterable[str]) -> tuple[str, ...]:
    """The first few, each once."""
    return tuple(islice(dict.fromkeys(ids), EXAMPLES))


def graded_finding(found: Estimate, chance: float) -> Severity:
    """How bad it is that a rule which never looks at the picture scores so much."""
    low = found.low or 0.0
    return "note" if low <= chance else "serious" if low >= chance + MUCH else "warning"


def baseline(check: str, rule: str, choices: Sequence[LintQuestion], values: Sequence[float]) -> Finding:
    """A rule's expected accuracy on questions with options, one value each, against guessing.

    `rule` finishes the sentence "always choosing ...".
    """
    found = estimate_mean(values, [question.group for question in choices])
    chance = sum(question.chance for question in choices) / len(choices)
    return Finding(
        check,
        graded_finding(found, chance),
        f"always choosing {rule} scores {finding_figure(found)}; chance {chance:.1%}",
        count=round(sum(values)),
        of=len(values),
        estimate=found,
        chance=chance,
    )


def finding_figure(found: Estimate) -> str:
    """`40.0% [35.2, 45.0]`"""
    if found.value is None or found.low is None or found.high is None:
        return "nothing"
    return f"{found.value:.1%} [{100 * found.low:.1f}, {100 * found.high:.1f}]"
