"""List where benchmarks come from and which fetched data are on this machine, and remove such data."""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from msgspec import Struct

from snellen.building.benchmark import MANIFEST
from snellen.catalogue import BenchmarkSpec, entries
from snellen.catalogue.places import (
    FoundPlace,
    HubSource,
    ManualSource,
    UrlSource,
    fits,
    known_dataset,
    known_file,
)
from snellen.common.foreign import in_bytes
from snellen.common.late import import_tqdm
from snellen.common.paths import benchmark_folder, snellen_home
from snellen.errors import DataError
from snellen.fetching.archives import folder_name
from snellen.fetching.data_folder import (
    FILES,
    JOINED,
    MODELSCOPE,
    UNPACKED,
    data_folder,
    file_path,
    folder_of_hub_archives,
)
from snellen.fetching.parts import parts_folder
from snellen.fetching.sources import source_places

if TYPE_CHECKING:
    from huggingface_hub import HFCacheInfo

_ASIDE = (".lock", ".tag")


class KeptData(Struct, frozen=True):
    """Fetched data: a file, an extracted archive, a dataset of the hub or of ModelScope, or a partial build."""

    name: str
    kind: Literal["file", "unpacked", "hub", "modelscope", "part"]
    path: str
    """Its folder."""
    size: int
    """Bytes."""
    benchmarks: tuple[str, ...]
    """Benchmarks of the catalogue that are built from it."""
    state: Literal["needed", "unused"]
    """`unused` if all of its benchmarks are built already, or no benchmark of the catalogue uses it."""


class Removal(Struct, frozen=True):
    """What was removed, and what was not because other benchmarks on this machine are built from it."""

    removed: tuple[KeptData, ...]
    stayed: tuple[tuple[KeptData, tuple[str, ...]], ...]
    """Data that were not removed, each with the other benchmarks that need them."""
    freed: int


def kept_data() -> list[KeptData]:
    """Return all fetched data: those in the data folder, and those in the hub's cache for benchmarks of the catalogue."""
    places = [(spec, place) for spec in entries().values() for place in source_places(spec)]
    # Which benchmarks need each folder of data, dataset of the hub, and copy from ModelScope.
    owners: dict[Path, list[str]] = defaultdict(list)
    datasets: dict[str, list[tuple[str, HubSource]]] = defaultdict(list)
    copies: dict[Path, list[str]] = defaultdict(list)
    for spec, place in places:
        if isinstance(place, UrlSource):
            for file in place.files:
                path = file_path(file)
                owners[path.parent].append(spec.name)
                if file.unpack:
                    owners[data_folder() / UNPACKED / folder_name(path, file.keep)].append(
                        spec.name
                    )
        elif isinstance(place, HubSource):
            owners[folder_of_hub_archives(place.repo)].append(spec.name)
            for repo in (place.repo, *place.before):
                datasets[repo].append((spec.name, place))
            if place.modelscope:
                copies[data_folder() / MODELSCOPE / place.modelscope].append(spec.name)
    files = [_stored_folder(folder, "file", owners.get(folder, [])) for folder in _below(FILES)]
    unpacked = [
        _stored_folder(folder, "unpacked", owners.get(folder, [])) for folder in _below(UNPACKED)
    ]
    copied = [_kept_copy(folder, names) for folder, names in copies.items() if folder.is_dir()]
    parts = [
        _kept_part(folder)
        for folder in sorted(parts_folder().glob("**/[0-9]*"))
        if (folder / MANIFEST).exists()
    ]
    return [
        *(data for data in (*files, *unpacked) if data.size),
        *_kept_datasets(datasets),
        *copied,
        *parts,
    ]


def remove_data(specs: Collection[BenchmarkSpec]) -> Removal:
    """Remove the data that only these benchmarks are built from. Raises DataError if that fails.

    Data of another benchmark stay if all files of that benchmark are on this machine.
    """
    names = {spec.name for spec in specs}
    stored = kept_data()
    other_names = {
        spec.name
        for spec in entries().values()
        if spec.name not in names and _is_here(spec, stored)
    }
    removed: list[KeptData] = []
    shared: list[tuple[KeptData, tuple[str, ...]]] = []
    for data in stored:
        if names.isdisjoint(data.benchmarks):
            continue
        needed_by = tuple(name for name in data.benchmarks if name in other_names)
        if needed_by:
            shared.append((data, needed_by))
        else:
            removed.append(data)
    try:
        for data in removed:
            if data.kind != "hub":
                shutil.rmtree(data.path)
        for spec in specs:
            shutil.rmtree(snellen_home() / JOINED / spec.name, ignore_errors=True)
        freed = _forget([Path(data.path).name for data in removed if data.kind == "hub"])
    except OSError as error:
        raise DataError(f"{error.filename} cannot be removed ({error.strerror or error})") from None
    freed += sum(data.size for data in removed if data.kind != "hub")
    return Removal(tuple(removed), tuple(shared), freed)


def _is_here(spec: BenchmarkSpec, stored: Collection[KeptData]) -> bool:
    """Return whether a place of a benchmark has all its files on this machine."""
    if any(data.kind == "hub" and spec.name in data.benchmarks for data in stored):
        return True
    from_urls = (place for place in source_places(spec) if isinstance(place, UrlSource))
    return any(all(file_path(file).exists() for file in place.files) for place in from_urls)


def _below(part: str) -> list[Path]:
    folder = data_folder() / part
    return sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def _stored_folder(
    folder: Path, kind: Literal["file", "unpacked"], benchmarks: Collection[str]
) -> KeptData:
    if kind == "file":
        name = min(
            (path.name for path in folder.iterdir() if path.suffix not in _ASIDE), default=""
        )
    else:
        name = folder.name.partition("-")[2]
    return KeptData(name or folder.name, kind, str(folder), _size(folder), *_use_of(benchmarks))


def _kept_copy(folder: Path, benchmarks: Collection[str]) -> KeptData:
    name = folder.relative_to(data_folder() / MODELSCOPE).as_posix()
    return KeptData(name, "modelscope", str(folder), _size(folder), *_use_of(benchmarks))


def _kept_part(folder: Path) -> KeptData:
    name = folder.parent.relative_to(parts_folder()).as_posix()
    return KeptData(
        f"{folder.name} questions of {name}", "part", str(folder), _size(folder), *_use_of([name])
    )


def _use_of(benchmarks: Collection[str]) -> tuple[tuple[str, ...], Literal["needed", "unused"]]:
    """Return the names of benchmarks without repetition, and whether any of them is not built yet."""
    names = tuple(dict.fromkeys(benchmarks))
    is_needed = any(not (benchmark_folder(name) / MANIFEST).exists() for name in names)
    return names, "needed" if is_needed else "unused"


def _size(folder: Path) -> int:
    return sum(
        Path(place, name).lstat().st_size for place, _, names in os.walk(folder) for name in names
    )


# --- the hub's cache ---------------------------------------------------------------------------------------------


def _kept_datasets(datasets: dict[str, list[tuple[str, HubSource]]]) -> Iterator[KeptData]:
    cache = _scanned_cache()
    for repo in sorted(cache.repos if cache else (), key=lambda repo: repo.repo_id):
        if repo.repo_type != "dataset" or repo.repo_id not in datasets:
            continue
        for revision in sorted(repo.revisions, key=lambda revision: revision.commit_hash):
            files = [
                file.file_path.relative_to(revision.snapshot_path).as_posix()
                for file in revision.files
            ]
            benchmarks = [name for name, place in datasets[repo.repo_id] if _holds(files, place)]
            if benchmarks:
                name = f"{repo.repo_id}@{revision.commit_hash[:7]}"
                yield KeptData(
                    name,
                    "hub",
                    str(revision.snapshot_path),
                    revision.size_on_disk,
                    *_use_of(benchmarks),
                )


def _holds(files: Collection[str], place: HubSource) -> bool:
    """Return whether files of a dataset include all that a benchmark is built from."""
    return all(any(fits(file, (pattern,)) for file in files) for pattern in place.patterns)


def _scanned_cache() -> HFCacheInfo | None:
    """Return the content of the hub's cache; None if there is no cache or no library to read it."""
    import_tqdm()
    try:
        from huggingface_hub import constants, scan_cache_dir
    except ImportError:
        return None
    folder = Path(constants.HF_HUB_CACHE)
    return scan_cache_dir(folder) if folder.is_dir() else None


def _forget(commits: Collection[str]) -> int:
    """Remove snapshots from the hub's cache, and return the freed bytes."""
    cache = _scanned_cache() if commits else None
    if cache is None:
        return 0
    strategy = cache.delete_revisions(*commits)
    strategy.execute()
    return strategy.expected_freed_size


class Origin(Struct, frozen=True):
    """A place of a benchmark's files, or the fact that it needs none."""

    name: str
    """Name of the benchmark."""
    kind: Literal["built in", "urls", "hub", "by hand", "own files"]
    place: str = ""
    """Hosts, name of the dataset, or instructions for the user."""
    url: str = ""
    """Page where a user gets the files by hand."""
    size: int | None = None
    """Bytes of all files; None if the size of any file is unknown."""
    licence: str = ""
    gated: bool = False

    @property
    def label(self) -> str:
        """The origin as text."""
        if self.kind == "urls":
            return self.place
        text = ": ".join(filter(None, (self.kind, self.place)))
        return f"{text} ({self.url})" if self.url else text

    @property
    def shown_size(self) -> str:
        return in_bytes(self.size) if self.size else ""


def origins_of(spec: BenchmarkSpec) -> tuple[Origin, ...]:
    """Return the origins of a benchmark's files, in the order in which they are tried; at least one."""
    if spec.source.embedded:
        return (Origin(spec.name, "built in", licence=spec.licence),)
    origins = tuple(_origin(spec, place) for place in source_places(spec))
    return origins or (Origin(spec.name, "own files", licence=spec.licence),)


def _origin(spec: BenchmarkSpec, place: FoundPlace) -> Origin:
    match place:
        case UrlSource():
            facts = [known_file(file) for file in place.files]
            hosts = dict.fromkeys(urlsplit(file.url).netloc for file in place.files)
            licences = dict.fromkeys(file.licence for file in facts if file.licence)
            count = f" ({len(facts)} files)" if len(facts) > 1 else ""
            return Origin(
                spec.name,
                "urls",
                ", ".join(hosts) + count,
                size=_sum([file.size for file in facts]),
                licence="; ".join(licences) or spec.licence,
            )
        case HubSource():
            dataset = known_dataset(place)
            sizes = [
                file.size for name, file in dataset.files.items() if fits(name, place.patterns)
            ]
            return Origin(
                spec.name,
                "hub",
                place.repo,
                size=_sum(sizes),
                licence=dataset.licence or spec.licence,
                gated=dataset.gated,
            )
        case ManualSource():
            return Origin(spec.name, "by hand", place.what, place.url, licence=spec.licence)


def _sum(sizes: Sequence[int]) -> int | None:
    return sum(sizes) if sizes and all(sizes) else None
