"""Show a sample with the images of another sample, to test whether a model uses the images at all."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from snellen.building.benchmark import Benchmark
from snellen.common.seeds import rng_for
from snellen.errors import DataError
from snellen.records import ImageRef, Sample

SHUFFLING_SEED = "shuffled pictures"
"""Part of the seed of the random order. A change would show other images than in earlier runs."""
OtherImages = Mapping[tuple[ImageRef, ...], tuple[ImageRef, ...]]
"""By the images of a sample, the images of another sample that are shown instead."""


def assign_other_images(benchmark: Benchmark) -> OtherImages:
    """Assign to the images of each sample the images of another sample, to test whether a model uses the images at all.

    All questions about an image get the same other image. The assignment does not depend on which samples a run
    selects.

    Returns:
        A mapping from the images of a sample to those of another one.

    Raises:
        DataError: All samples have the same images.
    """
    distinct_images: dict[tuple[ImageRef, ...], None] = {}
    for sample in benchmark.samples():
        if sample.images:
            distinct_images[sample.images] = None
    images = list(distinct_images)
    if len(images) == 1:
        raise DataError(
            f"{benchmark.name}: all its questions have the same image, so images cannot be shuffled"
        )
    rng_for(benchmark.name, SHUFFLING_SEED).shuffle(images)
    following = [*images[1:], *images[:1]]  # each gets the images after it, the last one the first
    return dict(zip(images, following, strict=True))


def with_other_images(sample: Sample, assignment: OtherImages) -> Sample:
    """Replace the images of a sample by the same number of images of another sample.

    If the other sample has fewer images, they are repeated.

    Args:
        sample: The sample.
        assignment: The images of another sample, by the images of each sample (see `assign_other_images`).
    """
    other_images = assignment[sample.images]
    images = []
    for index in range(len(sample.images)):
        images.append(other_images[index % len(other_images)])
    return replace(sample, images=tuple(images))
