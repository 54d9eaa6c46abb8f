"""Agreement between two sides that read replies, with intervals."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

from msgspec import Struct

from snellen_lab.agreement.krippendorff import nominal_alpha
from snellen_lab.agreement.labelled_replies import Reading

RESAMPLES = 1000
Pair = tuple[Reading, Reading]
"""The readings of a reply by two sides."""
Statistic = Callable[[Sequence[Pair]], float | None]


class AgreementInterval(Struct, frozen=True):
    """A statistic with its 95% bootstrap interval; None where it is undefined."""

    value: float | None
    low: float | None = None
    high: float | None = None


class Agreement(Struct, frozen=True):
    """Agreement of a reader of replies with people."""

    reader: str
    n: int
    """Labelled replies that it read."""
    share: AgreementInterval
    kappa: AgreementInterval
    alpha: AgreementInterval
    case_one: int
    """Disagreements in which one side says that no option is meant."""
    case_two: int
    """Disagreements between two options."""


def agreement(
    reader: str, pairs: Sequence[Pair], groups: Sequence[str], rng: random.Random
) -> Agreement:
    """Compute how far a reader of replies (an extractor or a judge model) agrees with people.

    Args:
        reader: Name of the reader.
        pairs: For each reply, what the reader and what people read in it: the index of an option, or None for no option.
        groups: The group of each reply, usually its question. Replies of a group are resampled together.
        rng: Source of the resamples.
    """
    about_none = 0
    between_options = 0
    for by_reader, by_people in pairs:
        if by_reader == by_people:
            continue
        if by_reader is None or by_people is None:
            about_none += 1
        else:
            between_options += 1
    statistics = (observed_agreement, cohen_kappa, nominal_alpha)
    share, kappa, alpha = bootstrap_agreement(pairs, groups, statistics, rng)
    return Agreement(
        reader=reader,
        n=len(pairs),
        share=share,
        kappa=kappa,
        alpha=alpha,
        case_one=about_none,
        case_two=between_options,
    )


def observed_agreement(pairs: Sequence[Pair]) -> float | None:
    """Return the share of pairs that agree, in [0, 1], or None without pairs."""
    if not pairs:
        return None
    return sum(first == second for first, second in pairs) / len(pairs)


def cohen_kappa(pairs: Sequence[Pair]) -> float | None:
    """Return Cohen's kappa (1960): (observed - expected) / (1 - expected).

    It is at most 1, and 0 at chance. It is undefined (None) if both sides give the same single reading throughout.
    """
    n_pairs = len(pairs)
    observed = observed_agreement(pairs)
    if observed is None:
        return None
    first_counts: Counter[Reading] = Counter()
    second_counts: Counter[Reading] = Counter()
    for (first, second), count in Counter(pairs).items():
        first_counts[first] += count
        second_counts[second] += count
    agreeing_products = sum(count * second_counts[value] for value, count in first_counts.items())
    expected = agreeing_products / n_pairs**2
    if expected >= 1:
        return None
    return (observed - expected) / (1 - expected)


def bootstrap_agreement(
    pairs: Sequence[Pair],
    groups: Sequence[str],
    statistics: Sequence[Statistic],
    rng: random.Random,
) -> list[AgreementInterval]:
    """Return each statistic with its 2.5th and 97.5th percentile over resamples of complete groups."""
    pairs_by_group: dict[str, list[Pair]] = defaultdict(list)
    for group, pair in zip(groups, pairs, strict=True):
        pairs_by_group[group].append(pair)
    clusters = [pairs_by_group[group] for group in sorted(pairs_by_group)]

    resampled: list[list[float]] = [[] for _ in statistics]
    if len(clusters) > 1:
        for _ in range(RESAMPLES):
            resample: list[Pair] = []
            for cluster in rng.choices(clusters, k=len(clusters)):
                resample.extend(cluster)
            for values, statistic in zip(resampled, statistics, strict=True):
                value = statistic(resample)
                if value is not None:
                    values.append(value)

    intervals = []
    for statistic, values in zip(statistics, resampled, strict=True):
        low, high = percentile_interval(values)
        intervals.append(AgreementInterval(statistic(pairs), low, high))
    return intervals


def percentile_interval(values: list[float]) -> tuple[float | None, float | None]:
    """Return the 2.5th and the 97.5th percentile, by nearest rank. Sorts `values` in place."""
    if not values:
        return None, None
    values.sort()
    last = len(values) - 1
    return values[round(0.025 * last)], values[round(0.975 * last)]


def agreement_sentence(row: Agreement) -> str:
    """Describe agreement, kappa and the two cases of disagreement in a line."""
    if not row.n:
        return f"{row.reader} gave no verdict on the labelled hard replies"
    share = agreement_interval_text(row.share)
    kappa = agreement_interval_text(row.kappa)
    return (
        f"{row.reader} agrees with people on {share} of {row.n} labelled hard replies, kappa {kappa}; disagreements: "
        f"{row.case_one} about none (case I), {row.case_two} between options (case II)"
    )


def agreement_interval_text(interval: AgreementInterval) -> str:
    """Format an interval as `0.87 [0.82, 0.91]`, or a dash if the value is undefined."""
    if interval.value is None:
        return "-"
    if interval.low is None or interval.high is None:
        return f"{interval.value:.2f}"
    return f"{interval.value:.2f} [{interval.low:.2f}, {interval.high:.2f}]"
