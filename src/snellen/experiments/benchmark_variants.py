"""Build benchmarks that a plan of several runs needs: those that are missing, and variants of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from snellen.building.benchmark import MANIFEST, Benchmark
from snellen.building.builder import build_benchmark
from snellen.building.recipe import Recipe
from snellen.callers import for_caller
from snellen.catalogue import BenchmarkSpec
from snellen.common.paths import snellen_home
from snellen.errors import DataError
from snellen.runs.finding import (
    Announce,
    announce_nothing,
    find_benchmarks,
    is_ready,
    matching_specs,
)
from snellen.scoring.resampling import reopened


def build_missing(
    patterns: Sequence[str], source: Path, announce: Announce = announce_nothing
) -> None:
    """Build the benchmarks that are not built and need files.

    Args:
        patterns: Names, globs, suites or folders.
        source: Folder with the official files, or with a folder for each benchmark.
        announce: Receives lines for the user.

    Raises:
        DataError: A benchmark cannot be built.

    Examples:
        >>> build_missing(["eyechart/colour"], Path("official-files"))  # it needs no files
    """
    for pattern in patterns:
        for spec in matching_specs(pattern):
            if not is_ready(spec):
                announce(f"building {spec.name}")
                build_benchmark(spec, source=spec.source_in(source))


def build_variant(
    spec: BenchmarkSpec,
    recipe: Mapping[str, Any],
    *,
    name: str,
    to: Path,
    source: Path | None = None,
    folders: Sequence[Path] = (),
    announce: Announce = announce_nothing,
) -> Path:
    """Build the same questions of a benchmark with other options, unless that was done before.

    Args:
        spec: The benchmark.
        recipe: What is built in another way: `options`, `distractors`.
        name: Name of the variant.
        to: Folder of the variant.
        source: Folder with the official files. Without it, the options of the built benchmark are drawn again.
        folders: Built benchmarks, among which the benchmark is looked for first.
        announce: Receives lines for the user.

    Returns:
        The folder of the variant.

    Raises:
        DataError: The benchmark is neither built nor can be built without files.

    Examples:
        >>> from snellen.plugin_api import open_benchmark
        >>> spec = open_benchmark("eyechart/colour").spec
        >>> folder = build_variant(spec, {"options": 3}, name="colour-3", to=Path("colour-3"))
        >>> len(next(open_benchmark(str(folder)).samples()).options)
        3
    """
    if (to / MANIFEST).exists():
        return to
    announce(f"building {name}")
    parsed_recipe = msgspec.convert(dict(recipe), Recipe)
    if source is not None:
        # The same questions are drawn in each variant.
        variant = replace(spec, name=name, source=replace(spec.source, drawn_with=spec.draw))
        build_benchmark(variant, source=spec.source_in(source), to=to, recipe=parsed_recipe)
        return to

    benchmark = _find_or_build(spec, folders, name, announce)
    draws_distractors = parsed_recipe.distractors != Recipe().distractors
    variant = reopened(benchmark, name, "distractors" if draws_distractors else "options")
    build_benchmark(variant, source=benchmark.folder, to=to, recipe=parsed_recipe)
    return to


def _find_or_build(
    spec: BenchmarkSpec, folders: Sequence[Path], variant: str, announce: Announce
) -> Benchmark:
    """Return a built benchmark, which is built now if it needs no files."""
    folder = snellen_home() / "benchmarks" / spec.name
    for path in folders:
        if (path / MANIFEST).exists() and Benchmark(path).name == spec.name:
            folder = path
            break
    is_built = (folder / MANIFEST).exists()
    if not is_built and not spec.source.embedded:
        raise DataError(
            f"{variant}: {spec.name} is not built, so it cannot be built in another way; name its files "
            f"({for_caller('--source', 'source=...')})"
        )
    [use] = find_benchmarks([str(folder) if is_built else spec.name], announce=announce)
    return use.benchmark
