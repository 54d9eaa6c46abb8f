"""All checks of a benchmark, the serious findings first."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from snellen.analysis.lint.findings import SEVERITIES, Finding
from snellen.analysis.lint.golds import majority, places, settled
from snellen.analysis.lint.material import LintMaterial, gather_material
from snellen.analysis.lint.pictures import counts, hidden, pictures
from snellen.analysis.lint.surface import blind_reader, lengths, odd_ones
from snellen.analysis.lint.texts import alike, indistinguishable, repeated, sizes
from snellen.benchmark import Benchmark

CHECKS: tuple[Callable[[LintMaterial], Iterator[Finding]], ...] = (
    counts, hidden, indistinguishable, repeated, alike, sizes, places, majority, settled, lengths, odd_ones,
    blind_reader, pictures,
)  # fmt: skip


def lint(benchmark: Benchmark) -> list[Finding]:
    """What a built benchmark hides, the serious findings first; figures that are as they should be are notes.

    Raises DataError for a benchmark that cannot be read.
    """
    material = gather_material(benchmark)
    found = [finding for check in CHECKS for finding in check(material)]
    return sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))
