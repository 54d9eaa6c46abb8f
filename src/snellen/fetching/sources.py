"""Fetch the source files of a benchmark from the first of its places that has them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen import registry
from snellen.building.replaced_builds import OWN_FILES
from snellen.building.staging import staging_folder
from snellen.callers import for_caller
from snellen.catalogue import BenchmarkSpec, entries, suite_of
from snellen.catalogue.entries import with_params
from snellen.catalogue.places import (
    BorrowedSource,
    FoundPlace,
    HubSource,
    ManualSource,
    SourceFile,
    UrlSource,
    fits,
    known_dataset,
    known_file,
    locked_commit,
)
from snellen.catalogue.suites import Importer
from snellen.common.foreign import format_bytes, read_file
from snellen.common.paths import shell_word, snellen_home
from snellen.errors import DataError, NoSourceError, NotFetchedError
from snellen.fetching.archives import extract_archive
from snellen.fetching.data_folder import (
    JOINED,
    MODELSCOPE,
    UNPACKED,
    data_folder,
    file_path,
    folder_of_hub_archives,
)
from snellen.fetching.download import Content, FetchError, fetch_file
from snellen.fetching.hub import commit_of, fetch_dataset, files_like
from snellen.fetching.modelscope import fetch_from_modelscope
from snellen.fetching.terms import check_agreements
from snellen.fetching.user_callbacks import is_offline, user_callbacks

MUCH = 5_000_000_000
"""From this many bytes on, Snellen asks for consent."""
HUB_READER_PREFIX = "hub-"
"""Prefix of the readers of datasets on the hub."""
COPIED_SOURCE = "snellen-source.json"
"""File next to copied source files: the benchmark as it is built from them."""


class FetchedSource(Struct, frozen=True):
    """The files of a benchmark, and the benchmark as it is built from them."""

    spec: BenchmarkSpec
    folder: Path
    origin: str = ""
    """Where the files come from, as text for a reader."""


# --- places ----------------------------------------------------------------------------------------------------------


def source_places(spec: BenchmarkSpec) -> tuple[FoundPlace, ...]:
    """Return the places of a benchmark's files, in the order in which they are tried.

    These are its own places, those of the benchmark whose official files it reads, and the published data of its
    suite. The published data come first if a model wrote distractors, because only they contain them.
    """
    official: list[FoundPlace] = []
    for place in spec.source.places:
        if isinstance(place, BorrowedSource):
            official.append(_borrowed_hub(spec, place))
        else:
            official.append(place)
    official.extend(_official_places_of_lender(spec))

    published = _published_places(spec)
    if spec.source.written:
        return (*published, *official)
    return (*official, *published)


def _borrowed_hub(spec: BenchmarkSpec, place: BorrowedSource) -> HubSource:
    """Return another benchmark's dataset on the hub as the source of this benchmark.

    Args:
        spec: This benchmark. Its source names the other benchmark in `files_of`.
        place: The split and the parameters that this benchmark needs.
    """
    lender = entries()[spec.source.files_of]
    hub = replace(lender.hub, split=place.split or lender.hub.split)
    params = {**spec.source.params, "hub": {"files": hub.rows, **place.params}}
    return replace(hub, reader=spec.source.reader, params=params)


def _official_places_of_lender(spec: BenchmarkSpec) -> Iterator[FoundPlace]:
    """Yield the places of the official files, if a benchmark uses those of another benchmark (`files_of`)."""
    if not spec.source.files_of:
        return
    lender = entries()[spec.source.files_of]
    for place in lender.source.places:
        if isinstance(place, ManualSource) or (isinstance(place, UrlSource) and not place.reader):
            yield place


def _published_places(spec: BenchmarkSpec) -> list[HubSource]:
    """Return the datasets with the benchmark that importers of its suite read."""
    suite = suite_of(spec) if spec.suite else None
    if suite is None:
        return []
    places = []
    for name in suite.hooks.get("importers", ()):
        importer: Importer = registry.find_registered("importers", name)
        if spec.short in importer.names():
            patterns = tuple(importer.patterns([spec.short]))
            places.append(
                HubSource(repo=importer.dataset, files=patterns, reader="", importer=name)
            )
    return places


def is_fetchable(spec: BenchmarkSpec) -> bool:
    """Return whether Snellen can fetch a benchmark without the user."""
    return first_fetchable_place(spec) is not None


def first_fetchable_place(spec: BenchmarkSpec) -> UrlSource | HubSource | None:
    """Return the first place that does not need the user, or None."""
    for place in source_places(spec):
        if not isinstance(place, ManualSource):
            return place
    return None


# --- fetching --------------------------------------------------------------------------------------------------------


def announce_fetch(specs: Sequence[BenchmarkSpec]) -> None:
    """Announce how many bytes several benchmarks take, and ask for consent if that is a lot.

    Nothing is announced of a single benchmark, which announces its files itself.

    Raises:
        NoSourceError: The user declines, or cannot be asked.
    """
    specs = [spec for spec in specs if is_fetchable(spec)]
    if len(specs) < 2:
        return
    if not is_offline():
        check_agreements(specs)

    files: dict[str, SourceFile] = {}
    for spec in specs:
        place = first_fetchable_place(spec)
        if isinstance(place, UrlSource):
            files.update((file.url, file) for file in place.files)
    missing_bytes = sum(
        known_file(file).size for file in files.values() if not file_path(file).exists()
    )
    announcement = f"{len(specs)} benchmarks will be fetched and built"
    if missing_bytes:
        announcement += f", {format_bytes(missing_bytes)} or more"
    user_callbacks().say(announcement)
    if missing_bytes >= MUCH and not user_callbacks().agree(f"{announcement}; continue?"):
        raise NoSourceError("nothing was fetched; choose fewer benchmarks")


def fetch_source(spec: BenchmarkSpec) -> FetchedSource:
    """Return the files of a benchmark, downloading those that are not on this machine.

    Raises:
        NoSourceError: The user has to get the files; the message says how.
        NotFetchedError: No place gave the files.
    """
    if is_fetchable(spec) and not is_offline():
        check_agreements([spec])
    faults = []
    for place in source_places(spec):
        try:
            if isinstance(place, UrlSource):
                return _fetch_files(spec, place)
            if isinstance(place, HubSource):
                return _fetch_hub(spec, place)
        except FetchError as error:
            faults.append(str(error))
    raise _cannot_fetch(spec, faults)


def source_to_build(
    spec: BenchmarkSpec,
    folder: Path | None,
    revision: str = "",
    *,
    hub: bool = False,
    settings: Mapping[str, Any],
) -> tuple[BenchmarkSpec, Path | None, str]:
    """Return what a benchmark is built from.

    Args:
        spec: The benchmark as the catalogue has it.
        folder: Files of the user: official files, those of `copy_source`, or a dataset of the hub.
        revision: Branch, tag or commit of the dataset on the hub.
        hub: Whether to read the dataset on the hub, even if the benchmark has other places.
        settings: Parameters of the reader that replace those of the catalogue.

    Returns:
        The benchmark with its settings, the folder of its files, and their origin as text. The folder is None if the
        benchmark has no files.

    Raises:
        DataError: The files cannot be fetched or read.
    """
    if folder and not hub:
        copied = read_copied_source(spec, folder)
        if copied:
            return with_params(copied.spec, settings), folder, copied.origin

    spec = with_params(spec, settings)
    reads_hub = hub or (folder and spec.source.reader.startswith(HUB_READER_PREFIX))
    if reads_hub:
        source = hub_source(spec, folder, revision)
    elif folder is None and source_places(spec):
        source = fetch_source(spec)
    else:
        return spec, folder, ""
    return source.spec, source.folder, source.origin


# --- the hub ---------------------------------------------------------------------------------------------------------


def hub_source(
    spec: BenchmarkSpec, folder: Path | None = None, revision: str = ""
) -> FetchedSource:
    """Return a benchmark with its dataset on the hub as its source, even if other places are preferred.

    Args:
        spec: The benchmark.
        folder: A copy of the dataset, read as it is; without one the dataset is downloaded.
        revision: Branch, tag or commit to download.

    Raises:
        DataError: The benchmark has no dataset on the hub, or it cannot be fetched.
    """
    if folder is None:
        return _fetch_hub(spec, replace(spec.hub, revision=revision or spec.hub.revision))
    if revision:
        raise DataError(
            f"{folder} has no revisions; remove either the revision {revision!r} or the folder"
        )
    return FetchedSource(spec.from_hub(commit_of(folder)), folder, OWN_FILES)


def hub_name(repo: str, commit: str) -> str:
    """Format a dataset of the hub at a commit for a reader."""
    return f"{repo}@{commit[:7]} on the hub"


def _fetch_hub(spec: BenchmarkSpec, place: HubSource) -> FetchedSource:
    """Fetch the dataset of a benchmark from the hub, or if that fails, from ModelScope, and return where it is."""
    dataset = known_dataset(place)
    commit = locked_commit(place)
    expected = dataset.files if commit == dataset.commit else {}
    licence = dataset.licence or spec.licence
    try:
        folder, fetched_commit = fetch_dataset(
            (place.repo, *place.before), place.patterns, commit, expected, licence
        )
    except FetchError as error:
        if not place.modelscope:
            raise
        user_callbacks().say(f"{error}; trying ModelScope")
        folder = fetch_from_modelscope(
            place.modelscope, place.patterns, expected, data_folder() / MODELSCOPE
        )
        folder = _extract_archives_of_dataset(spec, place, folder)
        return FetchedSource(spec.from_place(place), folder, f"{place.modelscope} on ModelScope")

    origin = hub_name(place.repo, fetched_commit)
    if place.importer:
        importer: Importer = registry.find_registered("importers", place.importer)
        place = replace(place, revision=fetched_commit)
        imported = _import_published(spec, importer, place, folder)
        return FetchedSource(imported, folder, f"{importer.title}, {origin}")
    folder = _extract_archives_of_dataset(spec, place, folder)
    return FetchedSource(spec.from_place(place, fetched_commit), folder, origin)


def _extract_archives_of_dataset(spec: BenchmarkSpec, place: HubSource, folder: Path) -> Path:
    """Return a folder of links to a dataset's files in which the content of each archive replaces the archive."""
    if not place.archives:
        return folder
    target = snellen_home() / JOINED / spec.name
    with staging_folder(target) as staging:
        for name in files_like(folder, place.patterns):
            if not fits(name, place.archives):
                _link(folder / name, staging / name)
                continue
            # The hub's cache links to files that are named by their content, and so is the extracted folder.
            archive = (folder / name).resolve()
            content = extract_archive(archive, (), folder_of_hub_archives(place.repo))
            _link(content, (staging / name).parent)
    return target


def _import_published(
    spec: BenchmarkSpec, importer: Importer, place: HubSource, folder: Path
) -> BenchmarkSpec:
    """Return a benchmark whose questions come from a published dataset instead of its official files, and say so.

    Args:
        spec: The benchmark.
        importer: Describes the benchmarks of the published dataset.
        place: Where the dataset was found.
        folder: The folder with its files.
    """
    user_callbacks().say(
        f"{spec.name} is built from {importer.title} ({place.repo}), not from its official files"
    )
    [imported] = importer.benchmarks(folder, [spec.short], None)
    place = replace(place, reader=imported.source.reader, params=imported.source.params)
    return replace(imported, source=replace(imported.source, places=(place,)))


# --- files at addresses ----------------------------------------------------------------------------------------------


def _fetch_files(spec: BenchmarkSpec, place: UrlSource) -> FetchedSource:
    """Download the files of a benchmark, extract archives, and put all in one folder."""
    parts = []
    for file in place.files:
        path = _fetch_file(spec, file)
        if file.unpack:
            path = extract_archive(path, file.keep, data_folder() / UNPACKED)
        parts.append((file, path))
    hosts = dict.fromkeys(urlsplit(file.url).netloc for file in place.files)
    folder = _join_parts(spec, parts)
    return FetchedSource(spec.from_place(place), folder, ", ".join(hosts))


def _fetch_file(spec: BenchmarkSpec, file: SourceFile) -> Path:
    """Download a file unless it is on this machine already, and return its path. Size and licence are announced."""
    facts = known_file(file)
    target = file_path(file)
    if not target.exists() and not is_offline():
        size = format_bytes(facts.size) if facts.size else "a file of unknown size"
        announcement = f"fetching {size} from {file.url}"
        licence = facts.licence or spec.licence
        if licence:
            announcement += f" ({licence})"
        user_callbacks().say(announcement)
    fetch_file((file.url, *file.mirrors), target, Content(facts.size, facts.sha256, facts.md5))
    return target


def _join_parts(spec: BenchmarkSpec, parts: Sequence[tuple[SourceFile, Path]]) -> Path:
    """Return a folder with all files, arranged as the reader expects them."""
    if len(parts) == 1:
        [(file, path)] = parts
        if not file.to:
            return path if file.unpack else path.parent

    target = snellen_home() / JOINED / spec.name
    with staging_folder(target) as staging:
        for file, path in parts:
            position = staging / file.to
            if not file.unpack:
                position /= file.file_name
            _link(path, position)
    return target


def _link(path: Path, to: Path) -> None:
    """Link a file or folder to another path, merging folders with the same name."""
    if not path.is_dir() or (to.exists() and not to.is_dir()):
        to.parent.mkdir(parents=True, exist_ok=True)
        if not to.exists():
            to.symlink_to(path.resolve())
        return

    to.mkdir(parents=True, exist_ok=True)
    for inner in sorted(path.iterdir()):
        inner_target = to / inner.name
        if inner.is_dir() and inner_target.is_symlink():
            # To merge two folders, the link to the first becomes a folder of links.
            earlier = inner_target.resolve()
            inner_target.unlink()
            _link(earlier, inner_target)
        if inner.is_dir() and inner_target.is_dir():
            _link(inner, inner_target)
        elif not inner_target.exists():
            inner_target.symlink_to(inner.resolve())


def _cannot_fetch(spec: BenchmarkSpec, faults: Sequence[str]) -> NoSourceError:
    """Return the error for a benchmark that no place gave."""
    if faults:
        more = f" ({len(faults) - 1} more of its sources also failed)" if len(faults) > 1 else ""
        return NotFetchedError(f"{spec.name} cannot be fetched: {faults[0]}{more}")

    build = for_caller(
        f"`snellen build {shell_word(spec.name)} --source FOLDER`",
        f"sn.build({spec.name!r}, source=FOLDER)",
    )
    for place in source_places(spec):
        if isinstance(place, ManualSource):
            return NoSourceError(
                f"{spec.name} cannot be downloaded automatically: {place.what} ({place.url}); then {build}"
            )
    return NoSourceError(
        f"there is no known download source for {spec.name}; obtain its official files, then {build}"
    )


# --- copies of sources -----------------------------------------------------------------------------------------------


def copy_source(source: FetchedSource, to: Path) -> Path:
    """Copy fetched files into a folder of the user, which `--source` takes on another machine.

    Of a dataset on the hub only the files that are needed are copied. A file next to them records how to read them.

    Raises:
        DataError: The folder exists.
    """
    target = to / source.spec.name
    if target.exists():
        raise DataError(f"{target} exists; name another folder, or remove it")

    [place] = source.spec.source.places
    if isinstance(place, HubSource) and not place.archives:
        for name in files_like(source.folder, place.patterns):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source.folder / name, target / name)
    else:
        unneeded = shutil.ignore_patterns("*.lock", "*.tag", "*.wrong")
        shutil.copytree(source.folder, target, symlinks=False, ignore=unneeded)
    (target / COPIED_SOURCE).write_bytes(msgspec.json.encode((source.spec, source.origin)))
    return target


def read_copied_source(spec: BenchmarkSpec, folder: Path) -> FetchedSource | None:
    """Return what `copy_source` wrote into a folder, or None if it has other files.

    Raises:
        DataError: The record of the copy cannot be read.
    """
    path = folder / COPIED_SOURCE
    if not path.is_file():
        return None
    try:
        copied, origin = msgspec.json.decode(read_file(path), type=tuple[BenchmarkSpec, str])
    except (OSError, msgspec.DecodeError) as error:
        raise DataError(
            f"cannot read {path} ({error}); copy the files again with `snellen fetch --to`"
        ) from None
    if copied.name != spec.name:
        return None
    return FetchedSource(copied, folder, origin)
