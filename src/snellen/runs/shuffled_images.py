"""Show a sample the images of another sample, as a control."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from snellen.building.benchmark import Benchmark
from snellen.common.seeds import rng_for
from snellen.errors import DataError
from snellen.records import ImageRef, Sample

SHUFFLED = "shuffled pictures"
"""Purpose of the random order. Its text seeds the order, so it must not change."""
Partners = Mapping[tuple[ImageRef, ...], tuple[ImageRef, ...]]
"""The images that are shown instead, by a sample's own images."""


def image_partners(benchmark: Benchmark) -> Partners:
    """Return, for the images of each sample, those of another sample of the benchmark.

    All questions about an image get the same other image. The assignment does not depend on which samples of the
    benchmark a run selects.

    Raises:
        DataError: All samples show the same images.
    """
    images = list(dict.fromkeys(sample.images for sample in benchmark.samples() if sample.images))
    if len(images) == 1:
        raise DataError(
            f"{benchmark.name}: all its questions have the same image, so images cannot be shuffled"
        )
    rng_for(benchmark.name, SHUFFLED).shuffle(images)
    following = [*images[1:], *images[:1]]
    return dict(zip(images, following, strict=True))


def with_other_images(sample: Sample, partners: Partners) -> Sample:
    """Return a sample with the same number of images, taken from another sample."""
    other_images = partners[sample.images]
    images = []
    for index in range(len(sample.images)):
        images.append(other_images[index % len(other_images)])
    return replace(sample, images=tuple(images))
