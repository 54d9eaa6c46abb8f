"""Counts questions and pictures in official files and compares them with the paper's tables, without a build."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from pathlib import Path

from msgspec import Struct

from snellen import registry
from snellen.catalogue import BenchmarkSpec
from snellen.drafts import Draft, ImageFile, LazyImage, PictureSpec
from snellen.reformulation.sampling import draw_sample


class SourceCounts(Struct, frozen=True):
    """The counts of one benchmark."""

    read: int
    """Questions in the files."""
    complete: int
    """Questions of the complete benchmark, drawn from the files as in the paper."""
    images: int
    """Pictures of the complete benchmark."""
    sampled: int
    """Questions that are evaluated."""
    notes: tuple[str, ...] = ()
    """What the reader excluded, and why."""


def count_source(spec: BenchmarkSpec, source: Path | None) -> SourceCounts:
    """Count a benchmark's questions as a build would. Raises DataError for files that are missing or wrong."""
    read = registry.find("readers", spec.source.reader)
    strata: list[str] = []
    pictures: list[tuple[Hashable, ...]] = []
    notes: list[str] = []
    for draft in read(spec.source.params, source):
        strata.append(draft.stratum)
        pictures.append(_pictures(draft))
        notes += draft.notes
    complete = draw_sample(strata, spec.source.select, spec.draw, "select", 0)
    sampled = draw_sample([strata[place] for place in complete], spec.source.sample, spec.draw, "sample", 0)
    images = {picture for place in complete for picture in pictures[place]}
    return SourceCounts(len(strata), len(complete), len(images), len(sampled), tuple(notes))


def _pictures(draft: Draft) -> tuple[Hashable, ...]:
    """Identities of a draft's pictures: the file and the crop. Outlines do not make another picture."""
    return tuple(
        (_file(image.file), image.crop) if isinstance(image, PictureSpec) else (_file(image), None)
        for image in draft.images
    )


def _file(file: ImageFile) -> Hashable:
    if isinstance(file, LazyImage):
        return file.place
    return file if isinstance(file, Path) else hashlib.blake2b(file, digest_size=16).digest()


def count_differences(spec: BenchmarkSpec, counted: SourceCounts) -> list[str]:
    """Counts that differ from the paper's, as in `samples 3,669, paper 3,680`; empty when all agree."""
    rows = (
        ("samples", counted.complete, spec.complete.samples, "paper"),
        ("images", counted.images, spec.complete.images, "paper"),
        ("evaluated", counted.sampled, spec.expected.samples, "published data"),
    )
    return [f"{what} {here:,}, {where} {there:,}" for what, here, there, where in rows if there not in (None, here)]


def difference_reasons(spec: BenchmarkSpec, counted: SourceCounts) -> list[str]:
    """Why counts may differ: the entry's remark and the reader's exclusions, or else the likeliest causes."""
    reasons = [*([spec.remark] if spec.remark else []), *counted.notes]
    if reasons or not count_differences(spec, counted):
        return reasons
    expected = spec.complete.samples
    if expected is not None and counted.read < expected:
        return ["the files give fewer questions than the paper has: another release, or not whole"]
    if expected is not None and counted.complete > expected:
        return ["the paper filtered further by a rule that it does not print, or used another release"]
    return ["another release of the files, or a draw that the paper did not seed"]
