"""Checks of the images, counts and hidden answers of a benchmark."""

from __future__ import annotations

from collections.abc import Iterator

from snellen.plugin_api import LintMaterial, entries
from snellen_lab.linting.material import Finding, first_examples, samples_finding

MIN_IMAGE_SIDE = 32
"""Side in pixels below which an image is tiny."""


def picture_quality(material: LintMaterial) -> Iterator[Finding]:
    """Find samples without an image, tiny images, and images that several samples share."""
    yield from samples_finding(
        "no-image",
        "warning",
        "have no image",
        material.imageless,
        material.benchmark.count(),
    )
    images = material.pictures
    if not images:
        return

    tiny = [
        digest
        for digest, image in images.items()
        if min(image.width, image.height) < MIN_IMAGE_SIDE
    ]
    if tiny:
        examples = first_examples(material.first_sample[digest] for digest in tiny)
        message = f"have a side of less than {MIN_IMAGE_SIDE} pixels"
        yield Finding("tiny-images", "warning", message, len(tiny), len(images), examples)

    shared = [digest for digest, uses in material.uses.most_common() if uses > 1]
    if shared:
        n_samples = sum(material.uses[digest] for digest in shared)
        most_uses = material.uses[shared[0]]
        message = (
            f"are shared: {n_samples:,} samples use them, and one is used by {most_uses:,}; replies about the same image "
            "are not independent, which intervals take into account"
        )
        examples = first_examples(material.first_sample[digest] for digest in shared)
        yield Finding("shared-images", "note", message, len(shared), len(images), examples)


def built_counts(material: LintMaterial) -> Iterator[Finding]:
    """Compare the counts of the build with those that the catalogue expects, now and when it was built."""
    manifest = material.benchmark.manifest
    expected = entries().get(material.spec.name, material.spec).expected
    messages = list(manifest.warnings)
    for counted_things, expected_count, built_count in (
        ("samples", expected.samples, manifest.counts.samples),
        ("images", expected.images, manifest.counts.images),
    ):
        if expected_count is not None and expected_count != built_count:
            messages.append(f"{counted_things}: built {built_count}, expected {expected_count}")
    for message in dict.fromkeys(messages):
        yield Finding("counts", "warning", message)


def hidden_answers(material: LintMaterial) -> Iterator[Finding]:
    """Find questions without ground truth, which the checks of answers leave out."""
    hidden = []
    for question in material.questions:
        if not question.gold and not question.texts:
            hidden.append(question.id)
    total = len(material.questions)
    if len(hidden) == total:
        message = "have hidden answers, which cannot be checked"
        yield from samples_finding("hidden-answers", "note", message, hidden, total)
    else:
        message = "have no answer; a model can be run on them, but not scored"
        yield from samples_finding("hidden-answers", "warning", message, hidden, total)
