"""The certificate of a benchmark: a short list of criteria, with whether each is met and why."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING

from msgspec import Struct

from snellen.plugin_api import (
    BenchmarkManifest,
    ErrorBound,
    Estimate,
    Verification,
)

if TYPE_CHECKING:
    from snellen_lab.linting import Finding

ERROR_LIMIT = 0.05
"""The largest bound on the share of bad questions that a certified benchmark may have, unless another is stated."""
CONFIDENCE = 0.95
RATERS = 2
BLIND_LEAST = 200
"""Number of questions that a model must be run on without images (or all): with few, any accuracy is near chance."""
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


class Criterion(Struct, frozen=True):
    """One line of a certificate."""

    name: str
    rule: str
    """The rule in words."""
    is_met: bool
    result: str
    """The result with its numbers, and how to meet the criterion if it is not met."""


class Certificate(Struct, frozen=True):
    """Whether a benchmark is certified, and by which criteria."""

    criteria: tuple[Criterion, ...]
    error_limit: float

    @property
    def is_certified(self) -> bool:
        return all(criterion.is_met for criterion in self.criteria)

    @property
    def sentence(self) -> str:
        """`Certified: ...`, or `Not certified: the criteria audit, raters are not met.`"""
        if self.is_certified:
            return f"Certified: all {len(self.criteria)} criteria are met."
        unmet = [criterion.name for criterion in self.criteria if not criterion.is_met]
        if len(unmet) == 1:
            return f"Not certified: the criterion {unmet[0]} is not met."
        return f"Not certified: the criteria {', '.join(unmet)} are not met."


def certify(
    manifest: BenchmarkManifest,
    findings: Sequence[Finding],
    blind: Sequence[Finding] = (),
    error_limit: float = ERROR_LIMIT,
) -> Certificate:
    """Decide whether a benchmark is certified.

    Args:
        manifest: Manifest of the benchmark, with the checks of its build and the bound of an audit.
        findings: Findings of lint.
        blind: Findings about runs that show no image (`text_only`).
        error_limit: Largest share of bad questions that the audit may leave possible.
    """
    verification = manifest.verification
    bound = verification.bound if verification else None
    return Certificate(
        (
            _checks(manifest, verification),
            _blind(manifest, verification, blind),
            _lint(findings),
            _audit(bound, error_limit),
            _raters(bound),
        ),
        error_limit,
    )


def _checks(manifest: BenchmarkManifest, verification: Verification | None) -> Criterion:
    """Return the criterion that the questions were checked during the build and that no known fault was kept."""
    name = "checks"
    rule = (
        "questions were checked during the build, and those that failed were repaired or set apart"
    )
    if verification is None or not verification.checks:
        return Criterion(name, rule, False, "no question was checked during the build")
    n_set_apart = verification.candidates - verification.passing_questions
    unrepaired = [check.failed - check.repaired for check in verification.checks]
    n_failed = sum(unrepaired)
    # A question may fail several checks, so that only the check with the most failures counts.
    n_to_set_apart = max(unrepaired)
    counts = manifest.counts
    is_current = verification.passing_questions in (counts.samples, counts.questions)
    result = f"{len(verification.checks)} checks of {verification.candidates:,} questions: {n_set_apart:,} set apart"
    if not is_current:
        result += f"; {verification.passing_questions:,} passed, but the benchmark has {manifest.counts.questions:,}"
    if n_to_set_apart > n_set_apart:
        result += (
            f"; {n_to_set_apart - n_set_apart:,} of the {n_failed:,} that failed are still in it"
        )
    # A check may apply to some questions only. The criterion states how many, and this is not a fault.
    partial_checks = []
    for check in verification.checks:
        if check.checked < verification.candidates:
            partial_checks.append(f"{check.name} checked {check.checked:,}")
    result = "; ".join([result, *partial_checks])
    return Criterion(name, rule, is_current and n_to_set_apart <= n_set_apart, result)


def _blind(
    manifest: BenchmarkManifest, verification: Verification | None, blind: Sequence[Finding]
) -> Criterion:
    """Return the criterion that models without the image are not better than chance.

    Args:
        manifest: Manifest of the benchmark.
        verification: The checks during the build, some of which asked models without the image.
        blind: Findings about runs without the image.
    """
    name = "blind"
    rule = "models without the image are not better than chance"
    estimates: list[tuple[Estimate, float]] = []
    descriptions: list[str] = []
    for finding in blind:
        if finding.chance is not None and finding.estimate is not None:
            estimates.append((finding.estimate, finding.chance))
            descriptions.append(finding.message)
    for check in verification.checks if verification else ():
        if check.chance is None:
            continue
        if check.estimate is not None:
            estimates.append((check.estimate, check.chance))
        if check.detail:
            descriptions.append(check.detail)
    if not estimates:
        return Criterion(
            name,
            rule,
            False,
            "no model was run without images; `snellen run ... -p blind` runs one",
        )

    is_above = any(_is_above(estimate, chance, len(estimates)) for estimate, chance in estimates)
    fewest = min(estimate.n for estimate, _ in estimates)
    enough = min(BLIND_LEAST, manifest.counts.answers)
    result = "; ".join(descriptions)
    if fewest < enough:
        result += f"; {fewest:,} questions are too few; {enough:,} are needed"
    return Criterion(name, rule, not is_above and fewest >= enough, result)


def _is_above(estimate: Estimate, chance: float, models: int) -> bool:
    """Return whether a model that sees no image is significantly above chance.

    Args:
        estimate: Accuracy of the model, with its 95% interval.
        chance: Accuracy of random answers.
        models: Number of models that are tested. The level is 2.5% for all of them together (Bonferroni).
    """
    if estimate.value is None or estimate.low is None:
        return False
    # The lower end of a 95% interval is 1.96 standard errors below the value; widen it to the level of one of the models.
    widening = NormalDist().inv_cdf(0.025 / models) / NormalDist().inv_cdf(0.025)
    margin = estimate.value - estimate.low
    return estimate.value - widening * margin > chance


def _lint(findings: Sequence[Finding]) -> Criterion:
    """Return the criterion that lint has no serious finding."""
    serious = [finding.check for finding in findings if finding.severity == "serious"]
    if serious:
        result = f"serious: {', '.join(serious)}"
    else:
        result = f"{len(findings)} findings, none serious"
    return Criterion("lint", "lint has no serious finding", not serious, result)


def _audit(bound: ErrorBound | None, error_limit: float) -> Criterion:
    """Return the criterion that people reviewed a random sample, which bounds the share of bad questions."""
    rule = f"people reviewed questions drawn at random, and at most {100 * error_limit:g}% of all can be bad"
    if bound is None:
        return Criterion(
            "audit",
            rule,
            False,
            "no one has reviewed its questions; `snellen audit` draws some to review",
        )
    is_met = bound.at_most <= error_limit and bound.level >= CONFIDENCE
    return Criterion("audit", rule, is_met, bound.sentence)


def _raters(bound: ErrorBound | None) -> Criterion:
    """Return the criterion that two people reviewed each question of the audit; `bound` is None without an audit."""
    rule = "at least two people reviewed each of them"
    raters = bound.raters if bound else ()
    noun = "rater" if len(raters) == 1 else "raters"
    result = f"{count_word(len(raters))} {noun}"
    if bound and len(raters) >= RATERS:
        result += (
            f", who differed on {bound.disagreements:,} of {bound.sample_size:,} before settling"
        )
    has_two_raters = len(set(raters)) >= RATERS
    return Criterion("raters", rule, has_two_raters, result)


def count_word(count: int) -> str:
    """Return a small number as a word, such as "three", and one above ten in digits."""
    return _NUMBERS[count] if count < len(_NUMBERS) else f"{count:,}"
