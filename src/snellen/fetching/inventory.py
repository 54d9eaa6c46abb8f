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
from snellen.common.foreign import format_bytes
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
    """One item of fetched data on this machine: a file, an extracted archive, a dataset of the hub
    or of ModelScope, or a partial build.
    """

    name: str
    kind: Literal["file", "unpacked", "hub", "modelscope", "part"]
    path: str
    """Its folder."""
    size: int
    """Bytes."""
    benchmarks: tuple[str, ...]
    """Names of the benchmarks in the catalogue that are built from these data."""
    state: Literal["needed", "unused"]
    """`unused` if all of its benchmarks are built already, or no benchmark of the catalogue uses it."""


class Removal(Struct, frozen=True):
    """What was removed, and what stayed because other benchmarks here are built from it."""

    removed: tuple[KeptData, ...]
    stayed: tuple[tuple[KeptData, tuple[str, ...]], ...]
    """Data that were not removed, each with the names of the other benchmarks that need them."""
    freed: int


def kept_data() -> list[KeptData]:
    """Return all fetched data on this machine.

    The data are listed in this order: downloaded files and unpacked archives in Snellen's data folder, datasets in the
    cache of the Hugging Face hub, copies of datasets from ModelScope, and partial builds. The hub's cache may also contain
    datasets of other programs, so only those are listed that have all files of a benchmark in the catalogue.
    """
    users_of_folder: dict[Path, list[str]] = defaultdict(list)
    users_of_dataset: dict[str, list[tuple[str, HubSource]]] = defaultdict(list)
    users_of_copy: dict[Path, list[str]] = defaultdict(list)  # by folder of a ModelScope dataset
    for spec in entries().values():
        for place in source_places(spec):
            if isinstance(place, UrlSource):
                for folder in _folders_of_urls(place):
                    users_of_folder[folder].append(spec.name)
            elif isinstance(place, HubSource):
                users_of_folder[folder_of_hub_archives(place.repo)].append(spec.name)
                for repo in (place.repo, *place.before):
                    users_of_dataset[repo].append((spec.name, place))
                if place.modelscope:
                    copy_folder = data_folder() / MODELSCOPE / place.modelscope
                    users_of_copy[copy_folder].append(spec.name)

    stored_folders: list[KeptData] = []
    for folder in _subfolders(FILES):
        stored_folders.append(_stored_folder(folder, "file", users_of_folder.get(folder, [])))
    for folder in _subfolders(UNPACKED):
        stored_folders.append(_stored_folder(folder, "unpacked", users_of_folder.get(folder, [])))
    kept = [data for data in stored_folders if data.size]  # without empty folders
    kept.extend(_kept_datasets(users_of_dataset))
    for folder, names in users_of_copy.items():
        if folder.is_dir():
            kept.append(_kept_copy(folder, names))
    for folder in sorted(parts_folder().glob("**/[0-9]*")):
        if (folder / MANIFEST).exists():
            kept.append(_kept_part(folder))
    return kept


def _folders_of_urls(place: UrlSource) -> Iterator[Path]:
    """Yield the folders in which a benchmark's downloaded files are (or would be), and those of its
    extracted archives.
    """
    for file in place.files:
        path = file_path(file)
        yield path.parent
        if file.unpack:
            yield data_folder() / UNPACKED / folder_name(path, file.keep)


def remove_data(specs: Collection[BenchmarkSpec]) -> Removal:
    """Remove the fetched data from which the given benchmarks are built.

    Data that another benchmark needs too are kept if all files of that benchmark are on this
    machine.

    Raises:
        DataError: A folder cannot be removed.
    """
    names = {spec.name for spec in specs}
    stored = kept_data()
    other_names = set()
    for spec in entries().values():
        if spec.name not in names and _is_here(spec, stored):
            other_names.add(spec.name)

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

    freed = 0
    commits = []
    try:
        for data in removed:
            if data.kind == "hub":
                commits.append(Path(data.path).name)
            else:
                shutil.rmtree(data.path)
                freed += data.size
        for spec in specs:
            shutil.rmtree(snellen_home() / JOINED / spec.name, ignore_errors=True)
        freed += _forget(commits)
    except OSError as error:
        raise DataError(f"{error.filename} cannot be removed ({error.strerror or error})") from None
    return Removal(tuple(removed), tuple(shared), freed)


def _is_here(spec: BenchmarkSpec, stored: Collection[KeptData]) -> bool:
    """Return whether all files that a benchmark is built from are on this machine.

    Args:
        spec: The benchmark.
        stored: All fetched data.
    """
    for data in stored:
        if data.kind == "hub" and spec.name in data.benchmarks:
            return True
    for place in source_places(spec):
        if isinstance(place, UrlSource) and all(file_path(file).exists() for file in place.files):
            return True
    return False


def _subfolders(part: str) -> list[Path]:
    """Return the folders in the subfolder `part` of the data folder, sorted; an empty list if there
    is no such subfolder.
    """
    folder = data_folder() / part
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.is_dir())


def _stored_folder(
    folder: Path, kind: Literal["file", "unpacked"], benchmarks: Collection[str]
) -> KeptData:
    """Return the item of fetched data for a downloaded file or an extracted archive.

    Args:
        folder: The folder with only this file, or only the members of this archive.
        kind: `file` for a downloaded file, `unpacked` for an extracted archive.
        benchmarks: Names of the benchmarks that use it.
    """
    if kind == "file":
        names = [path.name for path in folder.iterdir() if path.suffix not in _ASIDE]
        name = min(names, default="")
    else:
        # The folder is called CHECKSUM-ARCHIVE-SELECTION.
        name = folder.name.partition("-")[2]
    return _kept(name or folder.name, kind, folder, _size(folder), benchmarks)


def _kept_copy(folder: Path, benchmarks: Collection[str]) -> KeptData:
    """Return the item of fetched data for a dataset of ModelScope."""
    name = folder.relative_to(data_folder() / MODELSCOPE).as_posix()
    return _kept(name, "modelscope", folder, _size(folder), benchmarks)


def _kept_part(folder: Path) -> KeptData:
    """Return the item of fetched data for a partial build, which has only some questions of a
    benchmark.

    Its folder is `BENCHMARK/100` for a build of 100 questions.
    """
    benchmark = folder.parent.relative_to(parts_folder()).as_posix()
    name = f"{folder.name} questions of {benchmark}"
    return _kept(name, "part", folder, _size(folder), [benchmark])


def _kept(
    name: str,
    kind: Literal["file", "unpacked", "hub", "modelscope", "part"],
    folder: Path,
    size: int,
    benchmarks: Collection[str],
) -> KeptData:
    """Return an item of fetched data.

    Its state is `needed` if one of its benchmarks is not built yet, otherwise `unused`.
    """
    users = tuple(dict.fromkeys(benchmarks))
    state: Literal["needed", "unused"] = "unused"
    for benchmark in users:
        is_built = (benchmark_folder(benchmark) / MANIFEST).exists()
        if not is_built:
            state = "needed"
    return KeptData(name, kind, str(folder), size, users, state)


def _size(folder: Path) -> int:
    """Return the size in bytes of all files in a folder and its subfolders.

    A link counts with its own size, not that of the file it leads to.
    """
    total = 0
    for parent, _, names in os.walk(folder):
        total += sum(Path(parent, name).lstat().st_size for name in names)
    return total


# --- the hub's cache ---------------------------------------------------------------------------------------------


def _kept_datasets(
    users_of_dataset: dict[str, list[tuple[str, HubSource]]],
) -> Iterator[KeptData]:
    """Yield the datasets in the hub's cache that have all files of at least one benchmark, an item
    for each commit.

    Args:
        users_of_dataset: For each dataset, the benchmarks that are built from it: their names, and
            which of its files they use.
    """
    cache = _scanned_cache()
    if cache is None:
        return
    for repo in sorted(cache.repos, key=lambda repo: repo.repo_id):
        if repo.repo_type != "dataset" or repo.repo_id not in users_of_dataset:
            continue
        for revision in sorted(repo.revisions, key=lambda revision: revision.commit_hash):
            files = []
            for file in revision.files:
                files.append(file.file_path.relative_to(revision.snapshot_path).as_posix())
            benchmarks = []
            for benchmark, place in users_of_dataset[repo.repo_id]:
                if _has_all_files(files, place):
                    benchmarks.append(benchmark)
            if benchmarks:
                name = f"{repo.repo_id}@{revision.commit_hash[:7]}"
                folder = Path(revision.snapshot_path)
                yield _kept(name, "hub", folder, revision.size_on_disk, benchmarks)


def _has_all_files(files: Collection[str], place: HubSource) -> bool:
    """Return whether the files of a dataset are complete for a benchmark: each of its patterns
    matches at least one.

    Args:
        files: Paths of files in the dataset.
        place: The dataset and the patterns of the files that the benchmark uses, such as
            `test-*.parquet`.
    """
    missing = list(place.patterns)
    for file in files:
        missing = [pattern for pattern in missing if not fits(file, (pattern,))]
    return not missing


def _scanned_cache() -> HFCacheInfo | None:
    """Return the content of the hub's cache; None if there is no cache, or the library
    `huggingface_hub` is not installed.
    """
    import_tqdm()
    try:
        from huggingface_hub import constants, scan_cache_dir
    except ImportError:
        return None
    folder = Path(constants.HF_HUB_CACHE)
    return scan_cache_dir(folder) if folder.is_dir() else None


def _forget(commits: Collection[str]) -> int:
    """Remove datasets at the given commits from the hub's cache, and return the number of bytes
    that this frees.
    """
    cache = _scanned_cache() if commits else None
    if cache is None:
        return 0
    strategy = cache.delete_revisions(*commits)
    strategy.execute()
    return strategy.expected_freed_size


class Origin(Struct, frozen=True):
    """Where a benchmark's files come from.

    A benchmark that is part of Snellen has one origin too, of the kind `built in`.
    """

    name: str
    """Name of the benchmark."""
    kind: Literal["built in", "urls", "hub", "by hand", "own files"]
    place: str = ""
    """The hosts of the addresses, the name of the dataset, or what the user has to do; it depends
    on `kind`.
    """
    url: str = ""
    """Page where a user gets the files by hand."""
    size: int | None = None
    """Bytes of all files; None if the size of any file is unknown."""
    licence: str = ""
    gated: bool = False

    @property
    def label(self) -> str:
        """The origin as text, such as "hub: ORG/NAME" or "by hand: WHAT (PAGE)"."""
        if self.kind == "urls":
            return self.place
        text = f"{self.kind}: {self.place}" if self.place else self.kind
        return f"{text} ({self.url})" if self.url else text

    @property
    def shown_size(self) -> str:
        return format_bytes(self.size) if self.size else ""


def origins_of(spec: BenchmarkSpec) -> tuple[Origin, ...]:
    """Return all places where a benchmark's files come from, in the order in which they are tried.

    There is at least one: a benchmark without known places gets one of the kind `own files`, as the
    user has to supply them.
    """
    if spec.source.embedded:
        return (Origin(spec.name, "built in", licence=spec.licence),)
    origins = tuple(_origin(spec, place) for place in source_places(spec))
    if not origins:
        return (Origin(spec.name, "own files", licence=spec.licence),)
    return origins


def _origin(spec: BenchmarkSpec, place: FoundPlace) -> Origin:
    """Return a place of a benchmark's files in the form that is shown to users, with size and
    licence if these are known.
    """
    match place:
        case UrlSource():
            files = [known_file(file) for file in place.files]
            hosts = dict.fromkeys(urlsplit(file.url).netloc for file in place.files)
            licences = dict.fromkeys(file.licence for file in files if file.licence)
            hosts_text = ", ".join(hosts)
            if len(files) > 1:
                hosts_text += f" ({len(files)} files)"
            return Origin(
                spec.name,
                "urls",
                hosts_text,
                size=_sum([file.size for file in files]),
                licence="; ".join(licences) or spec.licence,
            )
        case HubSource():
            dataset = known_dataset(place)
            sizes = []
            for name, file in dataset.files.items():
                if fits(name, place.patterns):
                    sizes.append(file.size)
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
    """Return the total of some file sizes; None if it is unknown, because a size is 0 (unknown) or
    there are no files.
    """
    if not sizes or not all(sizes):
        return None
    return sum(sizes)
