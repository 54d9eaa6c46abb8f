"""The result of an audit of a benchmark by people, and the benchmark without the bad questions.

The result has a verdict on each question and an exact upper bound for the share of bad questions.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from snellen.plugin_api import (
    Benchmark,
    ErrorBound,
    ItemDecision,
    Sampling,
    Verification,
    draw_subset,
)
from snellen_lab.agreement.statistics import cohen_kappa
from snellen_lab.verification.audit_labels import (
    AuditLabel,
    Label,
    labels_file,
    read_audit_labels,
)
from snellen_lab.verification.audited_questions import AuditItem, audited_items

LEVEL = 0.95
"""Confidence level of the bound."""


class ItemVerdict(Struct, frozen=True):
    """What the raters of a question found: their labels and, if they disagreed, the settled label."""

    item: AuditItem
    labels: Mapping[str, Label]
    """The label of each rater."""
    settled: Label | None = None
    """The label that decides between raters who differ."""

    @property
    def differs(self) -> bool:
        """Return whether some raters find the question good and others do not."""
        return len({label == "good" for label in self.labels.values()}) > 1

    @property
    def is_open(self) -> bool:
        """Return whether raters disagree and nobody has settled the question yet."""
        return self.differs and self.settled is None

    @property
    def is_bad(self) -> bool:
        """Return whether the question is bad. One that raters still disagree on counts as bad."""
        if self.settled:
            return self.settled != "good"
        return set(self.labels.values()) != {"good"}

    @property
    def reason(self) -> str:
        """Return why the question is bad, such as "people: wrong answer"."""
        if self.is_open:
            statements = [f"{rater} says {label}" for rater, label in sorted(self.labels.items())]
            return f"people: not settled, {', '.join(statements)}"
        if self.settled:
            return f"people: {self.settled}"
        bad_labels = [label for label in self.labels.values() if label != "good"]
        return f"people: {' and '.join(dict.fromkeys(bad_labels))}"


class AuditOutcome(Struct, frozen=True):
    """The result of an audit, which may still go on."""

    verdicts: tuple[ItemVerdict, ...]
    """Verdicts on the questions that all raters labelled."""
    of: int
    """Number of questions of the benchmark that could be drawn."""
    raters: tuple[str, ...]
    """Raters who have labelled all drawn questions; if there are none, all raters who have begun."""
    unlabelled: dict[str, int]
    """Number of drawn questions that each rater has not labelled."""

    @property
    def is_complete(self) -> bool:
        """Return whether any rater has labelled all drawn questions."""
        return bool(self.raters) and not any(self.unlabelled[rater] for rater in self.raters)

    @property
    def bad(self) -> list[ItemVerdict]:
        """Return the verdicts on the bad questions."""
        return [verdict for verdict in self.verdicts if verdict.is_bad]

    @property
    def kinds(self) -> Counter[str]:
        """Return the number of bad questions by the kind of fault."""
        kinds: Counter[str] = Counter()
        for verdict in self.bad:
            kind, _, _ = verdict.reason.removeprefix("people: ").partition(", ")
            kinds[kind] += 1
        return kinds

    def bound(self, *, removed: bool = False) -> ErrorBound:
        """Return the exact upper bound of the share of bad questions.

        Args:
            removed: If true, the bound is for the benchmark that remains when the bad questions
                that were found are removed.
        """
        n_reviewed = len(self.verdicts)
        n_bad = len(self.bad)
        max_bad = most_bad(self.of, n_reviewed, n_bad)
        if removed:
            at_most = (max_bad - n_bad) / max(1, self.of - n_bad)
        else:
            at_most = max_bad / self.of

        kappa = None
        if len(self.raters) == 2:
            labels_of_two_raters = []
            for verdict in self.verdicts:
                first, second = (int(label == "good") for label in verdict.labels.values())
                labels_of_two_raters.append((first, second))
            kappa = cohen_kappa(labels_of_two_raters)
        n_differing = sum(verdict.differs for verdict in self.verdicts)
        return ErrorBound(
            n_reviewed,
            self.of,
            n_bad,
            at_most,
            LEVEL,
            self.raters,
            n_differing,
            n_bad if removed else 0,
            kappa,
        )


def audit_outcome(
    items: Sequence[AuditItem], n_questions: int, labels: Iterable[AuditLabel]
) -> AuditOutcome:
    """Return the result of an audit, given the labels so far.

    Only questions that all raters labelled have a verdict. Raters who have not labelled all
    questions are ignored if another has.

    Args:
        items: The drawn questions.
        n_questions: Number of questions from which they were drawn.
        labels: The labels.
    """
    drawn_ids = {item.id for item in items}
    labels_by_rater: dict[str, dict[str, Label]] = defaultdict(dict)
    settled: dict[str, Label] = {}
    for label in labels:
        if label.item not in drawn_ids or not label.label:
            continue
        if label.settles:
            settled[label.item] = label.label
        else:
            labels_by_rater[label.by][label.item] = label.label

    unlabelled = {}
    for rater, rater_labels in sorted(labels_by_rater.items()):
        unlabelled[rater] = len(drawn_ids) - len(rater_labels)
    finished = tuple(rater for rater, count in unlabelled.items() if not count)
    raters = finished or tuple(unlabelled)

    verdicts = []
    for item in items:
        if raters and all(item.id in labels_by_rater[rater] for rater in raters):
            item_labels = {rater: labels_by_rater[rater][item.id] for rater in raters}
            verdicts.append(ItemVerdict(item, item_labels, settled.get(item.id)))
    return AuditOutcome(tuple(verdicts), n_questions, raters, unlabelled)


def most_bad(n_questions: int, n_drawn: int, n_bad: int, level: float = LEVEL) -> int:
    """Return an exact upper bound of the number of bad questions (hypergeometric, one-sided).

    If more questions than this were bad, the probability of drawing so few bad ones (without
    replacement) would be at most 1 - level.

    Args:
        n_questions: Number of all questions.
        n_drawn: Number of drawn questions.
        n_bad: Number of bad questions among them.
        level: Confidence level.
    """
    lowest = n_bad
    highest = n_questions - (n_drawn - n_bad)
    while lowest < highest:
        middle = (lowest + highest + 1) // 2
        if few_bad_probability(n_questions, middle, n_drawn, n_bad) > 1 - level:
            lowest = middle
        else:
            highest = middle - 1
    return lowest


def few_bad_probability(n_questions: int, n_bad_in_all: int, n_drawn: int, n_bad: int) -> float:
    """Return the probability that at most `n_bad` of the drawn questions are bad.

    Args:
        n_questions: Number of all questions.
        n_bad_in_all: Number of bad questions among them.
        n_drawn: Number of drawn questions.
        n_bad: Number of bad questions that may be drawn.
    """
    n_good_in_all = n_questions - n_bad_in_all
    lowest = max(0, n_drawn - n_good_in_all)
    highest = min(n_bad, n_bad_in_all, n_drawn)
    log_all_draws = _log_choices(n_questions, n_drawn)
    probabilities = []
    for n_found in range(lowest, highest + 1):
        log_these_draws = _log_choices(n_bad_in_all, n_found) + _log_choices(
            n_good_in_all, n_drawn - n_found
        )
        probabilities.append(math.exp(log_these_draws - log_all_draws))
    return math.fsum(probabilities)


def _log_choices(population: int, sample: int) -> float:
    """Return the logarithm of the binomial coefficient: the number of samples of this size."""
    log_rest = math.lgamma(population - sample + 1)
    return math.lgamma(population + 1) - math.lgamma(sample + 1) - log_rest


def with_bound(benchmark: Benchmark, bound: ErrorBound) -> Benchmark:
    """Write the bound into the manifest of a benchmark, and return the benchmark."""
    count = benchmark.manifest.counts.samples
    before = benchmark.manifest.verification or Verification(count, count)
    return benchmark.with_verification(replace(before, bound=bound))


def keep_good(
    benchmark: Benchmark,
    outcome: AuditOutcome,
    name: str,
    *,
    bounded: bool = True,
    to: Path | None = None,
) -> Benchmark:
    """Build a benchmark without the questions that people found bad.

    If at most K questions are bad with 95% confidence, and b bad ones are removed, at most K - b
    bad ones remain with the same confidence. No distractors are replaced, because a question with a
    new distractor would have to count as bad until a person has looked at it.

    Args:
        benchmark: The benchmark.
        outcome: The result of its audit.
        name: Name of the new benchmark.
        bounded: Whether the questions were drawn at random. Only then the new manifest gets a
            bound.
        to: Folder of the new benchmark.
    """
    decisions = {}
    for verdict in outcome.bad:
        sample_id = verdict.item.sample.id
        decisions[sample_id] = ItemDecision(sample_id, set_apart=(verdict.reason,))
    kept_benchmark = draw_subset(benchmark, Sampling(), name=name, to=to, decisions=decisions)
    n_kept = kept_benchmark.manifest.counts.samples
    earlier_verification = benchmark.manifest.verification or Verification(
        n_kept + len(decisions), n_kept
    )
    bound = outcome.bound(removed=True) if bounded else None
    return kept_benchmark.with_verification(
        replace(earlier_verification, passing_questions=n_kept, bound=bound)
    )


def against_people(benchmark: Benchmark, failed: Collection[str]) -> str:
    """Return a sentence that compares a check with the labels of people; "" if there are no labels.

    It says how many of the questions that people found good, and of those they found bad, fail the
    check.

    Args:
        benchmark: The benchmark.
        failed: Identifiers of the samples that fail the check.
    """
    labels = read_audit_labels(labels_file(benchmark))
    if not labels:
        return ""
    is_good: dict[str, bool] = {label.item: True for label in labels}
    # Labels that settle a question come last, and decide.
    for label in sorted(labels, key=lambda label: label.settles):
        found_good = label.label == "good"
        is_good[label.item] = found_good and (is_good[label.item] or label.settles)

    good_failures = []
    bad_failures = []
    for item in audited_items(benchmark, benchmark.manifest.counts.samples):
        if item.id not in is_good:
            continue
        is_failed = item.sample.id in failed
        if is_good[item.id]:
            good_failures.append(is_failed)
        else:
            bad_failures.append(is_failed)
    return (
        f"of {len(good_failures):,} questions that people found good {sum(good_failures):,} fail, "
        f"of {len(bad_failures):,} that they found bad {sum(bad_failures):,}"
    )
