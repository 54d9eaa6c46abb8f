"""Other people's birds: as published (`snellen import`), and as a benchmark to begin with (`snellen init`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from snellen.plugin_api import (
    BenchmarkSpec,
    Importer,
    ScaffoldedTable,
    SourceCounts,
    SourceSpec,
    count_source,
)


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


def scaffold(questions: Path, images: Path | None, folder: Path, name: str) -> ScaffoldedTable:
    """A folder with a copy of the user's lines and an entry that reads them, ready for `snellen --suites FOLDER`."""
    folder.mkdir(parents=True)
    lines = questions.read_text("utf-8").splitlines(keepends=True)
    (folder / "birds.txt").write_text("".join(lines), "utf-8")
    (folder / "entry.toml").write_text(
        f'name = "{name or folder.name}"\ntitle = "Which colour is the bird?"\nformulation = "choice"\n\n[source]\n'
        'reader = "bird-lines"\nembedded = true\nparams = { file = "birds.txt", ask = "colour" }\n'
    )
    command = f"snellen --suites {folder} run birds:watcher {name or folder.name}"
    return ScaffoldedTable(
        title="Birds of your own",
        header=("file", "birds"),
        rows=(("birds.txt", str(len(lines))),),
        closing=command,
    )


def count(spec: BenchmarkSpec, source: Path | None) -> SourceCounts:
    """As Snellen counts, with a word on where the birds are from (`snellen verify`)."""
    counts = count_source(spec, source)
    return SourceCounts(
        counts.read,
        counts.complete,
        counts.images,
        counts.sampled,
        (*counts.notes, "drawn in code"),
    )


IMPORTER = Importer(title="Birds of the World", benchmarks=published)
