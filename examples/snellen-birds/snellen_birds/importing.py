"""Other people's birds, as published (`snellen import`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from snellen.plugin_api import BenchmarkSpec, Importer, SourceSpec


def published(folder: Path, names: Sequence[str], images: Path | None) -> list[BenchmarkSpec]:
    """The entries that can be built from a folder with `published.txt`, all or those named."""
    specs = [
        BenchmarkSpec(
            name="birds/published",
            title="Which colour is the bird?",
            suite="birds",
            formulation="choice",
            dimension="Feathers",
            source=SourceSpec("bird-lines", {"file": "published.txt", "ask": "colour"}),
        )
    ]
    return [spec for spec in specs if not names or spec.short in names]


IMPORTER = Importer(title="Birds of the World", benchmarks=published)
