"""What checks of a benchmark report, and the checks of its pictures, counts and hidden answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Literal

from msgspec import Struct, field

from snellen.plugin_api import Estimate, LintMaterial, LintQuestion, entries, estimate_mean

# --- what a check reports about a benchmark ---------------------------------------------------------------------------


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


def samples_finding(
    check: str, severity: Severity, message: str, ids: Sequence[str], total: int
) -> Iterator[Finding]:
    """The finding that `message` is true of these of `total` samples or questions; none where it is of none."""
    if ids:
        yield Finding(check, severity, message, len(ids), total, first_examples(ids))


def severity_above_chance(estimate: Estimate, chance: float) -> Severity:
    """The severity of a rule scoring this much without looking at the picture."""
    low = estimate.low or 0.0
    return "note" if low <= chance else "serious" if low >= chance + MUCH else "warning"


def rule_finding(
    check: str, rule: str, choices: Sequence[LintQuestion], values: Sequence[float]
) -> Finding:
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


# --- checks of pictures, counts and hidden answers --------------------------------------------------------------------


TINY = 32
"""Pixels; a picture whose shorter side is below this is tiny."""


def picture_quality(material: LintMaterial) -> Iterator[Finding]:
    """Samples without a picture, pictures too small to show anything, pictures that many samples share."""
    without = material.pictureless
    yield from samples_finding(
        "no-picture", "warning", "have no picture", without, material.benchmark.count()
    )
    if not material.pictures:
        return
    tiny = [
        digest
        for digest, image in material.pictures.items()
        if min(image.width, image.height) < TINY
    ]
    if tiny:
        examples = first_examples(material.first_sample[digest] for digest in tiny)
        says = f"have a side of less than {TINY} pixels"
        yield Finding("tiny-pictures", "warning", says, len(tiny), len(material.pictures), examples)
    shared = [digest for digest, uses in material.uses.most_common() if uses > 1]
    if shared:
        says = (
            f"are shared, by {sum(material.uses[digest] for digest in shared):,} samples, one by "
            f"{material.uses[shared[0]]:,}; what is said of one picture is not independent, and intervals allow for it"
        )
        examples = first_examples(material.first_sample[digest] for digest in shared)
        yield Finding(
            "shared-pictures", "note", says, len(shared), len(material.pictures), examples
        )


def built_counts(material: LintMaterial) -> Iterator[Finding]:
    """What was built against what the catalogue expects, both now and when it was built."""
    manifest = material.benchmark.manifest
    expected, counts = entries().get(material.spec.name, material.spec).expected, manifest.counts
    pairs = (
        ("samples", expected.samples, counts.samples),
        ("images", expected.images, counts.images),
    )
    current = [
        f"{kind}: built {actual}, expected {target}"
        for kind, target, actual in pairs
        if target not in (None, actual)
    ]
    for says in dict.fromkeys((*manifest.warnings, *current)):
        yield Finding("counts", "warning", says)


def hidden_answers(material: LintMaterial) -> Iterator[Finding]:
    """Questions whose gold is not known here; the checks of answers skip them."""
    unknown = [
        question.id for question in material.questions if not (question.gold or question.texts)
    ]
    severity: Severity = "warning"
    says = "have no answer here; they can be asked, not scored"
    if len(unknown) == len(material.questions):
        severity, says = (
            "note",
            "have no answer here: a hidden split, whose answers cannot be checked",
        )
    yield from samples_finding("hidden-answers", severity, says, unknown, len(material.questions))
