"""The published, already re-formulated data of ReForm-Eval: JSON files with pictures in base64, or by name.

`files.toml` says which file holds which of the 61 benchmarks, in which of the forms below. Instructions that
a file brings (`instructs`) become those of its benchmark. Both variants are read: with pictures inside, and the raw
one with file names or original ids, whose pictures lie in a folder of the user.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from snellen import registry
from snellen.catalogue import BenchmarkSpec, SourceSpec, entries
from snellen.catalogue.hooks import Importer
from snellen.common.drafts import Draft, read_params
from snellen.errors import DataError
from snellen.formats.json_files import read_json
from snellen.formats.locate import locate, locate_or_none
from snellen.readers.exclusions import without_exclusions
from snellen.suites.reform_eval.published.forms import FORM_READERS, PublishedPictures, published_entries


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    benchmark: str
    """Its name in the catalogue, without the suite's."""
    images: str = ""
    """Folder of the pictures that the raw variant names."""


class _Instructs(Struct, frozen=True):
    instructs: tuple[str, ...] = ()


def instructions(folder: Path, benchmark: str) -> tuple[str, ...]:
    """The instructions that a benchmark's file brings; empty for most. Raises DataError."""
    entry = published_entries()[benchmark]
    if not entry.form.startswith("core"):
        return ()
    return tuple(
        dict.fromkeys(text.strip() for text in read_json(locate(folder, entry.files[0]), _Instructs).instructs)
    )


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """The questions of one benchmark in the order of its file. Raises DataError naming file and record."""
    chosen = read_params(params, Params)
    entry = published_entries()[chosen.benchmark]
    paths = [locate(folder, name) for name in entry.files]
    shelf = PublishedPictures(Path(chosen.images) if chosen.images else paths[0].parent, entry)
    yield from without_exclusions(FORM_READERS[entry.form](paths, shelf), paths[0])


def importable_benchmarks(folder: Path, names: Sequence[str] = (), images: Path | None = None) -> list[BenchmarkSpec]:
    """The catalogue's entries of the benchmarks whose files are in `folder`, to be built from it.

    `names` are short names; all that are there when none is given. Raises UnknownNameError for a name that
    nobody has, DataError for one whose files are not there or when there are none at all.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; it should hold the files of ReForm-Eval-Data")
    _check(names)
    chosen = names or [
        name for name, entry in published_entries().items() if all(locate_or_none(folder, file) for file in entry.files)
    ]
    if not chosen:
        raise DataError(f"{folder}: no file of ReForm-Eval-Data is there; it has folders such as CLEVR and MSCOCO")
    return [_spec(name, folder, images) for name in chosen]


def hub_patterns(names: Sequence[str]) -> list[str]:
    """The files that benchmarks need, as patterns for a hub. Raises UnknownNameError."""
    _check(names)
    return [f"**{file}" for name in names or published_entries() for file in published_entries()[name].files]


def _check(names: Sequence[str]) -> None:
    for name in names:
        if name not in published_entries():
            raise registry.unknown("benchmark of reform-eval", name, published_entries())


def _spec(name: str, folder: Path, images: Path | None) -> BenchmarkSpec:
    params = {"benchmark": name, **({"images": str(images)} if images else {})}
    source = SourceSpec("reform-eval-data", params)
    return replace(entries()[f"reform-eval/{name}"], source=source, instructions=instructions(folder, name))


IMPORTER = Importer(
    title="ReForm-Eval-Data",
    benchmarks=importable_benchmarks,
    dataset="Aweminus/ReForm-Eval-Data",
    patterns=hub_patterns,
    names=published_entries,
)
"""`snellen import reform-eval`, from a folder or the hub."""

__all__ = ["IMPORTER", "Params", "hub_patterns", "importable_benchmarks", "instructions", "published_entries", "read"]
