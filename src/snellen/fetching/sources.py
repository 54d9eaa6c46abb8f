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

CONSENT_BYTES = 5_000_000_000
"""Total size in bytes from which Snellen asks the user before it downloads several benchmarks."""
HUB_READER_PREFIX = "hub-"
"""The names of readers that read datasets of the Hugging Face hub begin with this prefix."""
COPIED_SOURCE = "snellen-source.json"
"""File that `copy_source` writes next to copied source files.

It contains the benchmark entry that tells how to read them.
"""


class FetchedSource(Struct, frozen=True):
    """The source files of a benchmark on this machine, and the benchmark entry with the settings to
    read exactly these files.
    """

    spec: BenchmarkSpec
    folder: Path
    origin: str = ""
    """Where the files come from, as text for the user: `org/birds@1a2b3c4 on the hub`."""


# --- places ----------------------------------------------------------------------------------------------------------


def source_places(spec: BenchmarkSpec) -> tuple[FoundPlace, ...]:
    """Return the places where a benchmark's files can be found, in the order in which they are
    tried.

    First come the places that the benchmark's own entry names, then those of another benchmark if
    its official files are used (`files_of`), and last the datasets that the authors of its suite
    published. Those are first instead if a model wrote the wrong options, because only the
    published datasets contain them.
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
    """Yield the places of the official files of the benchmark that this one shares files with; none
    if it shares none.

    That benchmark is named by `files_of` in the entry. Its dataset on the hub is handled by
    `_borrowed_hub`.
    """
    if not spec.source.files_of:
        return
    lender = entries()[spec.source.files_of]
    for place in lender.source.places:
        if isinstance(place, ManualSource) or (isinstance(place, UrlSource) and not place.reader):
            yield place


def _published_places(spec: BenchmarkSpec) -> list[HubSource]:
    """Return the published datasets of the benchmark's suite that contain the benchmark; an empty
    list if there are none.
    """
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
    """Return whether Snellen can download the files of a benchmark itself."""
    return first_fetchable_place(spec) is not None


def first_fetchable_place(spec: BenchmarkSpec) -> UrlSource | HubSource | None:
    """Return the first place that Snellen can download from itself; None if the user has to get the
    files by hand.
    """
    for place in source_places(spec):
        if not isinstance(place, ManualSource):
            return place
    return None


# --- fetching --------------------------------------------------------------------------------------------------------


def announce_fetch(specs: Sequence[BenchmarkSpec]) -> None:
    """Say how much will be downloaded for several benchmarks, and ask for consent if that is 5 GB
    or more.

    Nothing is said about a single benchmark, because each of its files is announced when it is
    downloaded.

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
            for file in place.files:
                files[file.url] = file
    missing_bytes = 0
    for file in files.values():
        if not file_path(file).exists():
            missing_bytes += known_file(file).size
    announcement = f"{len(specs)} benchmarks will be fetched and built"
    if missing_bytes:
        announcement += f", {format_bytes(missing_bytes)} or more"
    user_callbacks().say(announcement)
    if missing_bytes >= CONSENT_BYTES and not user_callbacks().agree(f"{announcement}; continue?"):
        raise NoSourceError("nothing was fetched; choose fewer benchmarks")


def fetch_source(spec: BenchmarkSpec) -> FetchedSource:
    """Return the source files of a benchmark, downloading those that are not on this machine.

    The places of the files are tried in order until one succeeds.

    Raises:
        NoSourceError: The user has to get the files by hand; the message says how.
        NotFetchedError: Downloading from every place failed.
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
    """Return the benchmark entry and the files from which a benchmark will be built.

    Args:
        spec: The benchmark as the catalogue has it.
        folder: The user's folder with its files: the official files, a copy made by `copy_source`,
            or a dataset of the hub. If None, the files are downloaded, unless the benchmark needs
            none.
        revision: Branch, tag or commit of the dataset on the hub.
        hub: Whether to read the dataset on the hub, even if the benchmark has other places.
        settings: Parameters of the reader that replace those of the catalogue.

    Returns:
        The benchmark with these settings, the folder of its files, and a text that says where they
        come from. The folder is None if there are no files to read. The text is empty for official
        files that the user supplies.

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
    """Return the files of a benchmark from its dataset on the hub, even if other places would be
    tried first.

    Args:
        spec: The benchmark.
        folder: A copy of the dataset, which is read as it is. If None, the dataset is downloaded.
        revision: Branch, tag or commit to download.

    Raises:
        DataError: The benchmark has no dataset on the hub, it cannot be downloaded, or both
            `folder` and `revision` are given.
    """
    if folder is None:
        return _fetch_hub(spec, replace(spec.hub, revision=revision or spec.hub.revision))
    if revision:
        raise DataError(
            f"{folder} has no revisions; remove either the revision {revision!r} or the folder"
        )
    return FetchedSource(spec.from_hub(commit_of(folder)), folder, OWN_FILES)


def hub_name(repo: str, commit: str) -> str:
    """Return a dataset and its commit as text for the user: `org/birds@1a2b3c4 on the hub`."""
    return f"{repo}@{commit[:7]} on the hub"


def _fetch_hub(spec: BenchmarkSpec, place: HubSource) -> FetchedSource:
    """Download the dataset of a benchmark from the hub and return its files.

    If the hub fails and the entry names a copy of the dataset on ModelScope, that one is
    downloaded.
    """
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
    """Extract the archives of a downloaded dataset, and return a folder in which their content is
    in place of each archive.

    The folder contains links, so that nothing is copied. A dataset without archives is returned as
    it is.
    """
    if not place.archives:
        return folder
    target = snellen_home() / JOINED / spec.name
    with staging_folder(target) as staging:
        for name in files_like(folder, place.patterns):
            if not fits(name, place.archives):
                _link(folder / name, staging / name)
                continue
            # Files in the hub's cache are links to files that are named by their digest. The
            # resolved path gives the extracted folder the same name.
            archive = (folder / name).resolve()
            content = extract_archive(archive, (), folder_of_hub_archives(place.repo))
            _link(content, (staging / name).parent)
    return target


def _import_published(
    spec: BenchmarkSpec, importer: Importer, place: HubSource, folder: Path
) -> BenchmarkSpec:
    """Return the entry of a benchmark that is built from a dataset published by the authors of its
    suite.

    The user is told that the official files are not used.

    Args:
        spec: The benchmark.
        importer: Object that describes the benchmarks in the published dataset.
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
    """Return one folder with all files of a benchmark, arranged as its reader expects them.

    The folder contains links to the downloads. A single download that needs no other place is
    returned as it is.

    Args:
        spec: The benchmark.
        parts: Each file of the entry, with its path on this machine (a folder for an extracted
            archive).
    """
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
    """Make `to` a link to a file or folder.

    If both are folders, `to` becomes a folder of links, and contents of folders with the same name
    are merged. A file that already exists at `to` stays.
    """
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
    """Return the error to raise when no place provided a benchmark's files.

    Args:
        spec: The benchmark.
        faults: The error messages of the downloads that were tried; empty if there was nothing to
            download from, and the user has to get the files by hand.
    """
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
    """Copy the files of a benchmark into a folder that can be taken to another machine, as `snellen
    build --source`.

    Of a dataset on the hub only the files that the benchmark needs are copied. A file next to them
    records how to read them.

    Raises:
        DataError: The folder of the copy already exists.
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
    """Return the source that `copy_source` copied into a folder; None if it copied nothing there,
    or another benchmark.

    Raises:
        DataError: The record that `copy_source` wrote cannot be read.
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
