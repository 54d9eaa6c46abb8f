"""Samples with the pictures of others, for controls."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from snellen.benchmark import Benchmark
from snellen.errors import DataError
from snellen.records import ImageRef, Sample
from snellen.seeds import rng_for

PURPOSE = "shuffled pictures"
Partners = Mapping[tuple[ImageRef, ...], tuple[ImageRef, ...]]
"""By a sample's own pictures: those that it is shown instead."""


def picture_partners(benchmark: Benchmark) -> Partners:
    """For all pictures of a benchmark others of it, never the same; the same ones whatever part of it is asked.

    All questions about a picture are shown the same other one. Raises DataError where all show the same.
    """
    pictures = list(dict.fromkeys(sample.images for sample in benchmark.samples() if sample.images))
    if len(pictures) == 1:
        raise DataError(f"{benchmark.name}: all its questions show the same picture; nothing can be shuffled")
    rng_for(benchmark.name, PURPOSE).shuffle(pictures)
    return dict(zip(pictures, [*pictures[1:], *pictures[:1]], strict=True))


def with_other_pictures(sample: Sample, partners: Partners) -> Sample:
    """The sample with as many pictures of others."""
    others = partners[sample.images]
    return replace(sample, images=tuple(others[i % len(others)] for i in range(len(sample.images))))
