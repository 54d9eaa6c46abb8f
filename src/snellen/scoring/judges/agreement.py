"""How far a reader of replies agrees with people, with intervals; and where it does not (MMBench 4.3).

A reading is the place of an option in the order shown, or None for "no option is meant".
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby

from msgspec import Struct
from msgspec.structs import replace

from snellen.common.paths import home
from snellen.common.seeds import rng_for
from snellen.extraction import semantic_matching
from snellen.extraction.hard_replies import HardReply, hard_replies
from snellen.models.base import AsyncModel, Model
from snellen.protocols.prompts.rendering import labels_for
from snellen.protocols.verdict import Verdict
from snellen.records import Prediction, Turn, Variant
from snellen.runs.spec import JudgeSpec
from snellen.scoring.judges.ensemble import DEFAULT_JUDGE, JudgeEnsemble
from snellen.scoring.unparsed import UnparsedReply, matching_item, prompt_version

RESAMPLES = 1000
Reading = int | None
Pair = tuple[Reading, Reading]
"""What one said of a reply, and what the other said."""
Statistic = Callable[[Sequence[Pair]], float | None]


class AgreementInterval(Struct, frozen=True):
    """A statistic with its 95 % bootstrap interval; None where it is not defined."""

    value: float | None
    low: float | None = None
    high: float | None = None


class Agreement(Struct, frozen=True):
    """One reader of replies against people."""

    reader: str
    n: int
    """Labelled replies that it was asked about."""
    share: AgreementInterval
    kappa: AgreementInterval
    alpha: AgreementInterval
    case_one: int
    """Disagreements in which one side says that no option is meant."""
    case_two: int
    """Disagreements between two options."""


def agreement(reader: str, pairs: Sequence[Pair], groups: Sequence[str], rng: random.Random) -> Agreement:
    """Agreement of (reader, people) pairs; replies of one group (a question) are drawn together."""
    differ = [
        (said_by_reader, said_by_people) for said_by_reader, said_by_people in pairs if said_by_reader != said_by_people
    ]
    case_one = sum(None in pair for pair in differ)
    share, kappa, alpha = bootstrap_agreement(pairs, groups, (observed, cohen_kappa, krippendorff_alpha), rng)
    return Agreement(reader, len(pairs), share, kappa, alpha, case_one, len(differ) - case_one)


def observed(pairs: Sequence[Pair]) -> float | None:
    """Share of the pairs that agree, 0 to 1."""
    return sum(first == second for first, second in pairs) / len(pairs) if pairs else None


def cohen_kappa(pairs: Sequence[Pair]) -> float | None:
    """Cohen's kappa (1960): (observed - expected) / (1 - expected), at most 1; 0 is chance.

    None where both sides say one and the same throughout, so that there is nothing to agree about.
    """
    n = len(pairs)
    if not n:
        return None
    first, second = Counter(reading for reading, _ in pairs), Counter(reading for _, reading in pairs)
    expected = sum(count * second[value] for value, count in first.items()) / n**2
    if expected >= 1:
        return None
    return ((observed(pairs) or 0.0) - expected) / (1 - expected)


def krippendorff_alpha(units: Sequence[Sequence[Reading]]) -> float | None:
    """Krippendorff's alpha for nominal values: 1 - observed / expected disagreement, at most 1; 0 is chance.

    A unit holds what each rater said of one reply; units of one rating count for nothing. None where all ratings
    are the same, or none can be compared.
    """
    paired = [Counter(unit) for unit in units if len(unit) > 1]
    total: Counter[Reading] = Counter()
    apart = 0.0
    for counts in paired:
        size = counts.total()
        total.update(counts)
        apart += (size**2 - sum(count**2 for count in counts.values())) / (size - 1)
    n = total.total()
    expected = n**2 - sum(count**2 for count in total.values())
    return 1 - (n - 1) * apart / expected if expected else None


def bootstrap_agreement(
    pairs: Sequence[Pair], groups: Sequence[str], statistics: Sequence[Statistic], rng: random.Random
) -> list[AgreementInterval]:
    """Each statistic with the 2.5th and 97.5th percentile over resamples of whole groups."""
    order = sorted(range(len(pairs)), key=lambda i: groups[i])
    clusters = [[pairs[i] for i in members] for _, members in groupby(order, key=lambda i: groups[i])]
    resampled: list[list[float]] = [[] for _ in statistics]
    for _ in range(RESAMPLES if len(clusters) > 1 else 0):
        resample = [pair for cluster in rng.choices(clusters, k=len(clusters)) for pair in cluster]
        for values, statistic in zip(resampled, statistics, strict=True):
            if (value := statistic(resample)) is not None:
                values.append(value)
    return [
        AgreementInterval(statistic(pairs), *percentile_interval(values))
        for statistic, values in zip(statistics, resampled, strict=True)
    ]


def percentile_interval(values: list[float]) -> tuple[float | None, float | None]:
    """The 2.5th and the 97.5th, nearest rank; sorts what it is given."""
    if not values:
        return None, None
    values.sort()
    last = len(values) - 1
    return values[round(0.025 * last)], values[round(0.975 * last)]


def agreement_sentence(row: Agreement) -> str:
    """One line: agreement, kappa, and the two cases of disagreement."""
    if not row.n:
        return f"{row.reader} gave no verdict on the labelled hard replies"
    share, kappa = agreement_interval_text(row.share), agreement_interval_text(row.kappa)
    return (
        f"{row.reader} agrees with people on {share} of {row.n} labelled hard replies, kappa {kappa}; disagreements: "
        f"{row.case_one} about none (case I), {row.case_two} between options (case II)"
    )


def agreement_interval_text(interval: AgreementInterval) -> str:
    """`0.87 [0.82, 0.91]`, or a dash for what is not defined."""
    if interval.value is None:
        return "-"
    if interval.low is None or interval.high is None:
        return f"{interval.value:.2f}"
    return f"{interval.value:.2f} [{interval.low:.2f}, {interval.high:.2f}]"


# --- calibration on the labelled hard replies of the package ---------------------------------------------------------


def calibrate(
    judges: Sequence[Model | AsyncModel],
    spec: JudgeSpec = DEFAULT_JUDGE,
    announce: Callable[[str], object] = lambda line: None,
) -> list[Agreement]:
    """Agreement of each judge with the labels of the held-out half; replies without a verdict are left out of its n.

    `spec` says how they are asked, whatever models it names and however often they may fail. Verdicts are kept under
    $SNELLEN_HOME, so that a judge is asked once. Raises what a panel raises.
    """
    replies = hard_replies(held_out=True)
    panel = JudgeEnsemble(judges, home() / "calibration", replace(spec, failures=1.0), announce)
    rows = panel.verdicts([matching_item(as_unparsed(hard), spec) for hard in replies])
    version = prompt_version(spec)
    return [
        _of_judge(f"{judge.name} ({version})", replies, column)
        for judge, column in zip(judges, zip(*rows, strict=True), strict=True)
    ]


def as_unparsed(hard: HardReply) -> UnparsedReply:
    """A labelled reply as scoring would find it."""
    labels = labels_for("upper", len(hard.options))
    variant = Variant(order=tuple(range(len(hard.options))), labels=labels)
    prediction = Prediction("calibration", "generation", "calibration", hard.id, variant, "", reason="no match")
    return UnparsedReply(prediction, Turn(hard.question, hard.options), hard.reply)


def _of_judge(name: str, replies: Sequence[HardReply], verdicts: Sequence[Verdict]) -> Agreement:
    heard = [(hard, verdict) for hard, verdict in zip(replies, verdicts, strict=True) if not verdict.failed]
    pairs = [(verdict.value, hard.expected) for hard, verdict in heard]
    return _agreement(name, pairs, [hard.group for hard, _ in heard])


def calibrate_semantic() -> Agreement:
    """The same of matching by meaning; abstaining says that no option is meant. Raises MissingExtraError."""
    replies = hard_replies(held_out=True)
    near = semantic_matching.nearest([(hard.reply, hard.options) for hard in replies])
    pairs = [(nearest.chosen(), hard.expected) for nearest, hard in zip(near, replies, strict=True)]
    return _agreement(semantic_matching.VERSION, pairs, [hard.group for hard in replies])


def _agreement(name: str, pairs: Sequence[Pair], groups: Sequence[str]) -> Agreement:
    return agreement(name, pairs, groups, rng_for("calibration", name, "bootstrap"))
