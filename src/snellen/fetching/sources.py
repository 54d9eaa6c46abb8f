"""The files of a benchmark's source: from the first of its places that gives them.

Files of a dataset on ModelScope (modelscope.cn), where the hub's own address does not give them.

Terms are agreed to once and kept in `agreed.json` in Snellen's own folder; pictures at addresses are fetched together.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen import registry
from snellen.building.builder import OWN_FILES, staging_folder
from snellen.catalogue import BenchmarkSpec, entries, suite_of
from snellen.catalogue.entries import with_params
from snellen.catalogue.places import (
    ByHandPlace,
    FoundPlace,
    HubPlace,
    KnownFile,
    SourceFile,
    TheirPlace,
    UrlPlace,
    fits,
    known_dataset,
    known_file,
    locked_commit,
)
from snellen.catalogue.suites import Importer
from snellen.common.foreign import (
    IMAGE_BYTES,
    SETTINGS_BYTES,
    Allowance,
    LimitError,
    in_bytes,
    open_file,
    raised,
    read_file,
)
from snellen.common.paths import as_word, home, slug
from snellen.errors import DataError, NoSourceError, NotFetchedError
from snellen.fetching.attendance import attendance, is_offline, is_true
from snellen.fetching.download import (
    BLOCK,
    ROOM_EVERY,
    Content,
    PlaceError,
    check_room,
    fetch_file,
    writing,
)
from snellen.fetching.hub import commit_of, fetch_dataset, files_like

BRANCH = "master"
PAGE = 200
"""Files in a page of a listing."""
PAGE_SECONDS = 600
"""Most seconds for a page of a listing, with all attempts."""


class ListedFile(Struct, frozen=True, rename="pascal"):
    path: str
    type: str
    size: int = 0
    sha256: str = ""


class _Files(Struct, frozen=True, rename="pascal"):
    files: list[ListedFile] | None = None


class _Listing(Struct, frozen=True, rename="pascal"):
    data: _Files


def fetch_from_modelscope(
    repo: str, patterns: Sequence[str], expected: Mapping[str, KnownFile], below: Path
) -> Path:
    """The folder with a dataset's files that match `patterns`, in a folder of its own `below`.

    `expected` is what files should hold, besides what the listing says; offline, what was fetched before is taken.
    `MODELSCOPE_DOMAIN` names another server, and `MODELSCOPE_API_TOKEN` is sent to it. Raises PlaceError.
    """
    folder = below / repo
    if is_offline():
        here = [path.relative_to(folder).as_posix() for path in folder.rglob("*")]
        if all(any(fits(name, (pattern,)) for name in here) for pattern in patterns):
            return folder
        raise PlaceError(
            f"{repo} of ModelScope is not on this machine, and HF_HUB_OFFLINE forbids the network"
        )
    listed = list(_listed(repo))
    if not listed:
        raise PlaceError(f"{repo} on ModelScope has no revision {BRANCH!r}, or no files there")
    matching = [file for file in listed if file.type == "blob" and fits(file.path, patterns)]
    if not matching:
        raise PlaceError(f"{repo} on ModelScope has no file called {', '.join(patterns)}")
    with writing(folder):
        size = sum(file.size for file in matching if not (folder / file.path).exists())
        if size:
            attendance().say(f"fetching {in_bytes(size)} of {repo} from {_server()}")
            check_room(folder, size, f"the dataset {repo}")
        for file in matching:
            locked = expected.get(file.path, KnownFile())
            content = Content(locked.size or file.size, locked.sha256 or file.sha256)
            address = _address(repo, "repo", Revision=BRANCH, FilePath=file.path)
            fetch_file((address,), folder / file.path, content, token=_token())
    return folder


def _listed(repo: str) -> Iterator[ListedFile]:
    with TemporaryDirectory(prefix="snellen-listing-") as temporary:
        for number in range(1, 1_000):
            address = _address(
                repo, "repo/tree", Revision=BRANCH, Recursive=True, PageNumber=number, PageSize=PAGE
            )
            page = Path(temporary, f"{number}.json")
            fetch_file(
                (address,),
                page,
                Content(),
                token=_token(),
                most=SETTINGS_BYTES,
                seconds=PAGE_SECONDS,
            )
            try:
                files = msgspec.json.decode(read_file(page), type=_Listing).data.files or []
            except (OSError, msgspec.DecodeError):
                raise PlaceError(f"{address} gave a page that is not a listing of files") from None
            yield from files
            if len(files) < PAGE:
                return


def _server() -> str:
    scheme, domain = os.environ.get("MODELSCOPE_URL_SCHEME"), os.environ.get("MODELSCOPE_DOMAIN")
    return f"{scheme or 'https://'}{domain or 'www.modelscope.cn'}"


def _token() -> str:
    return os.environ.get("MODELSCOPE_API_TOKEN", "")


def _address(repo: str, endpoint: str, **query: object) -> str:
    return f"{_server()}/api/v1/datasets/{quote(repo)}/{endpoint}?{urlencode(query)}"


MUCH = 5_000_000_000
"""From this many bytes on the user is asked whether to go on."""
FILES, UNPACKED, MODELSCOPE = "files", "unpacked", "modelscope"
"""Below the folder of data: files by their content, what archives hold, and datasets."""
JOINED = "sources"
"""Below Snellen's own folder: links to what a source consists of, so that users may share data they cannot write."""

OF_HUB = "hub-"
"""How the names of readers of datasets on the hub begin."""
CARRIED = "snellen-source.json"
"""Beside files that are carried to another machine: the benchmark as it is built from them."""


class FetchedSource(Struct, frozen=True):
    """Where a benchmark's files are, and the benchmark as it is built from them."""

    spec: BenchmarkSpec
    folder: Path
    origin: str = ""
    """Where the files come from, in words."""


def data_folder() -> Path:
    """Where fetched files lie: `$SNELLEN_DATA`, or `data` in Snellen's own folder."""
    chosen = os.environ.get("SNELLEN_DATA")
    return Path(chosen).expanduser() if chosen else home() / "data"


def source_places(spec: BenchmarkSpec) -> tuple[FoundPlace, ...]:
    """Where a benchmark's files lie: its own places, those of the benchmark whose official files it reads, and the
    published data of its suite; these are the first where a model wrote distractors, which they have."""
    places = (
        _their_hub(spec, place) if isinstance(place, TheirPlace) else place
        for place in spec.source.places
    )
    official = (*places, *_official_of_the_other(spec))
    return (*_published(spec), *official) if spec.source.written else (*official, *_published(spec))


def _their_hub(spec: BenchmarkSpec, place: TheirPlace) -> HubPlace:
    theirs = entries()[spec.source.files_of].hub
    hub = replace(theirs, split=place.split or theirs.split)
    params = {**spec.source.params, "hub": {"files": hub.rows, **place.params}}
    return replace(hub, reader=spec.source.reader, params=params)


def _official_of_the_other(spec: BenchmarkSpec) -> Iterator[FoundPlace]:
    theirs = entries()[spec.source.files_of].source.places if spec.source.files_of else ()
    for place in theirs:
        if isinstance(place, ByHandPlace) or (isinstance(place, UrlPlace) and not place.reader):
            yield place


def _published(spec: BenchmarkSpec) -> Iterator[HubPlace]:
    """The datasets with the benchmark that importers of its suite read."""
    suite = suite_of(spec) if spec.suite else None
    for name in suite.hooks.get("importers", ()) if suite else ():
        importer: Importer = registry.find("importers", name)
        if spec.short in importer.names():
            patterns = tuple(importer.patterns([spec.short]))
            yield HubPlace(repo=importer.dataset, files=patterns, reader="", importer=name)


def is_fetchable(spec: BenchmarkSpec) -> bool:
    """Whether a place is known from which a machine can fetch it."""
    return any(not isinstance(place, ByHandPlace) for place in source_places(spec))


def announce_fetch(specs: Sequence[BenchmarkSpec]) -> None:
    """Say how many bytes fetching several benchmarks takes, and ask for consent where that is a lot.

    Raises NoSourceError when nobody agrees.
    """
    specs = [spec for spec in specs if is_fetchable(spec)]
    if len(specs) < 2:
        return
    if not is_offline():
        check_agreements(specs)
    files = {file.url: file for spec in specs for file in _first_files(spec)}
    lacking = [file for file in files.values() if not file_path(file).exists()]
    size = sum(known_file(file).size for file in lacking)
    announcement = f"{len(specs)} benchmarks are to be fetched and built" + (
        f", {in_bytes(size)} or more" if size else ""
    )
    attendance().say(announcement)
    if size >= MUCH and not attendance().agree(f"{announcement}; go on?"):
        raise NoSourceError("nothing was fetched; name fewer benchmarks")


def _first_files(spec: BenchmarkSpec) -> tuple[SourceFile, ...]:
    place = next(
        (place for place in source_places(spec) if not isinstance(place, ByHandPlace)), None
    )
    return place.files if isinstance(place, UrlPlace) else ()


def fetch_source(spec: BenchmarkSpec) -> FetchedSource:
    """The files of a benchmark's source, fetched where they are not here. Raises DataError, which says what to do."""
    faults = []
    if is_fetchable(spec) and not is_offline():
        check_agreements([spec])
    for place in source_places(spec):
        try:
            if isinstance(place, UrlPlace):
                hosts = dict.fromkeys(urlsplit(file.url).netloc for file in place.files)
                return FetchedSource(
                    spec.from_place(place), _fetch_files(spec, place), ", ".join(hosts)
                )
            if isinstance(place, HubPlace):
                return _fetch_hub(spec, place)
        except PlaceError as error:
            faults.append(str(error))
    raise _cannot(spec, faults)


def source_to_build(
    spec: BenchmarkSpec,
    folder: Path | None,
    revision: str = "",
    *,
    hub: bool = False,
    settings: Mapping[str, Any],
) -> tuple[BenchmarkSpec, Path | None, str]:
    """A benchmark with `settings` of its source, its files, and where they are from: those in a folder, as official
    files, as they were carried there or (with `hub`, or where no other are known) as the hub has them; else one of its
    places. Raises DataError."""
    if folder and not hub and (carried := carried_source(spec, folder)):
        return with_params(carried.spec, settings), folder, carried.origin
    spec = with_params(spec, settings)
    if hub or (folder and spec.source.reader.startswith(OF_HUB)):
        source = hub_source(spec, folder, revision)
    elif folder is None and source_places(spec):
        source = fetch_source(spec)
    else:
        return spec, folder, ""
    return source.spec, source.folder, source.origin


def hub_source(
    spec: BenchmarkSpec, folder: Path | None = None, revision: str = ""
) -> FetchedSource:
    """A benchmark from its dataset on the hub, whatever other places it has; a given folder is read as it is.

    Raises DataError when no dataset is known or it cannot be fetched.
    """
    if folder is None:
        return _fetch_hub(spec, replace(spec.hub, revision=revision or spec.hub.revision))
    if revision:
        raise DataError(
            f"{folder} is read as it is; leave the revision {revision!r} or the folder out"
        )
    return FetchedSource(spec.from_hub(commit_of(folder)), folder, OWN_FILES)


def _fetch_hub(spec: BenchmarkSpec, place: HubPlace) -> FetchedSource:
    dataset, commit = known_dataset(place), locked_commit(place)
    files = dataset.files if commit == dataset.commit else {}
    licence = dataset.licence or spec.licence
    try:
        folder, fetched = fetch_dataset(
            (place.repo, *place.before), place.patterns, commit, files, licence
        )
    except PlaceError as error:
        if not place.modelscope:
            raise
        attendance().say(f"{error}; ModelScope is tried")
        folder = fetch_from_modelscope(
            place.modelscope, place.patterns, files, data_folder() / MODELSCOPE
        )
        folder = _with_archives_unpacked(spec, place, folder)
        return FetchedSource(spec.from_place(place), folder, f"{place.modelscope} on ModelScope")
    if place.importer:
        importer: Importer = registry.find("importers", place.importer)
        imported = _imported(spec, importer, replace(place, revision=fetched), folder)
        return FetchedSource(imported, folder, f"{importer.title}, {hub_name(place.repo, fetched)}")
    folder = _with_archives_unpacked(spec, place, folder)
    return FetchedSource(spec.from_place(place, fetched), folder, hub_name(place.repo, fetched))


def _with_archives_unpacked(spec: BenchmarkSpec, place: HubPlace, folder: Path) -> Path:
    """A folder of links to a dataset's files, with what its archives hold where these stand; without any, its own."""
    if not place.archives:
        return folder
    target = home() / JOINED / spec.name
    with staging_folder(target) as staging:
        for name in files_like(folder, place.patterns):
            if fits(name, place.archives):
                # By the name of the content, which the hub's cache gives to the file itself.
                _link(
                    unpacked((folder / name).resolve(), (), unpacked_of_hub(place.repo)),
                    (staging / name).parent,
                )
            else:
                _link(folder / name, staging / name)
    return target


def unpacked_of_hub(repo: str) -> Path:
    """Where the archives of a dataset of the hub are unpacked."""
    return data_folder() / UNPACKED / f"hub-{repo.replace('/', '--')}"


def hub_name(repo: str, commit: str) -> str:
    """A dataset of the hub at a commit, in words."""
    return f"{repo}@{commit[:7]} on the hub"


def _imported(
    spec: BenchmarkSpec, importer: Importer, place: HubPlace, folder: Path
) -> BenchmarkSpec:
    """The benchmark as `snellen import` makes it from these files."""
    attendance().say(
        f"{spec.name} is built from {importer.title} ({place.repo}), not from its official files"
    )
    [imported] = importer.benchmarks(folder, [spec.short], None)
    place = replace(place, reader=imported.source.reader, params=imported.source.params)
    return replace(imported, source=replace(imported.source, places=(place,)))


def _fetch_files(spec: BenchmarkSpec, place: UrlPlace) -> Path:
    """The folder with the files of a place, side by side as its reader wants them."""
    parts = []
    for file in place.files:
        path = _fetch_one(spec, file)
        parts.append(
            (file, unpacked(path, file.keep, data_folder() / UNPACKED) if file.unpack else path)
        )
    [(first, alone), *further] = parts
    if not further and not first.to:
        return alone if first.unpack else alone.parent
    target = home() / JOINED / spec.name
    with staging_folder(target) as staging:
        for file, path in parts:
            _link(path, staging / file.to if file.unpack else staging / file.to / file.file_name)
    return target


def file_path(file: SourceFile) -> Path:
    """Where a file is, or would be, fetched to: by its content, as far as that is known."""
    facts = known_file(file)
    digest = facts.sha256 or facts.md5 or hashlib.sha256(file.url.encode()).hexdigest()
    return data_folder() / FILES / digest[:32] / file.file_name


def _fetch_one(spec: BenchmarkSpec, file: SourceFile) -> Path:
    facts, target = known_file(file), file_path(file)
    if not target.exists() and not is_offline():
        size = in_bytes(facts.size) if facts.size else "a file of unknown size"
        licence = facts.licence or spec.licence
        attendance().say(f"fetching {size} from {file.url}{f' ({licence})' if licence else ''}")
    fetch_file((file.url, *file.mirrors), target, Content(facts.size, facts.sha256, facts.md5))
    return target


def _link(path: Path, to: Path) -> None:
    """Make a file or a folder's content available at another place too; folders with the same name are merged."""
    if path.is_dir() and (to.is_dir() or not to.exists()):
        to.mkdir(parents=True, exist_ok=True)
        for inner in sorted(path.iterdir()):
            if inner.is_dir() and (to / inner.name).is_symlink():
                earlier = (to / inner.name).resolve()
                (to / inner.name).unlink()
                _link(earlier, to / inner.name)
            if inner.is_dir() and (to / inner.name).is_dir():
                _link(inner, to / inner.name)
            elif not (to / inner.name).exists():
                (to / inner.name).symlink_to(inner.resolve())
        return
    to.parent.mkdir(parents=True, exist_ok=True)
    if not to.exists():
        to.symlink_to(path.resolve())


def _cannot(spec: BenchmarkSpec, faults: list[str]) -> NoSourceError:
    by_hand = next((place for place in source_places(spec) if isinstance(place, ByHandPlace)), None)
    build = f"`snellen build {as_word(spec.name)} --source FOLDER`"
    if faults:
        more = f" ({len(faults) - 1} more of its places failed too)" if len(faults) > 1 else ""
        return NotFetchedError(f"{spec.name} cannot be fetched: {faults[0]}{more}")
    if by_hand:
        return NoSourceError(
            f"{spec.name} cannot be fetched by a machine: {by_hand.what} ({by_hand.url}); then {build}"
        )
    return NoSourceError(
        f"no place is known that {spec.name} can be fetched from; have its official files, then {build}"
    )


def copy_source(source: FetchedSource, to: Path) -> Path:
    """Copy fetched files into a folder of the user's, for `--source`; of a dataset only what is needed.

    A file beside them says how they are read. Raises DataError for a folder that exists.
    """
    target = to / source.spec.name
    if target.exists():
        raise DataError(f"{target} exists; name another folder, or remove it")
    [place] = source.spec.source.places
    if isinstance(place, HubPlace) and not place.archives:
        for name in files_like(source.folder, place.patterns):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source.folder / name, target / name)
    else:
        unneeded = shutil.ignore_patterns("*.lock", "*.tag", "*.wrong")
        shutil.copytree(source.folder, target, symlinks=False, ignore=unneeded)
    (target / CARRIED).write_bytes(msgspec.json.encode((source.spec, source.origin)))
    return target


def carried_source(spec: BenchmarkSpec, folder: Path) -> FetchedSource | None:
    """What `copy_source` put into a folder; None where somebody else did. Raises DataError when it cannot be read."""
    path = folder / CARRIED
    if not path.is_file():
        return None
    try:
        carried, origin = msgspec.json.decode(read_file(path), type=tuple[BenchmarkSpec, str])
    except (OSError, msgspec.DecodeError) as error:
        raise DataError(
            f"{path} cannot be read ({error}); copy the files again with `snellen fetch --to`"
        ) from None
    return FetchedSource(carried, folder, origin) if carried.name == spec.name else None


# --- archives --------------------------------------------------------------------------------------------------------


_FAULTS = (
    EOFError,
    gzip.BadGzipFile,
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    RuntimeError,
)


def unpacked(archive: Path, keep: Sequence[str], to: Path) -> Path:
    """The folder with the content of an archive: what matches one of the patterns `keep`, or all when there are none.

    It lies below `to`, whole or not at all. Raises DataError for a file that is not an archive, or broken.
    """
    folder = to / folder_name(archive, keep)
    if folder.is_dir():
        return folder
    with staging_folder(folder) as staging:
        try:
            _unpack(archive, staging, lambda name: not keep or fits(name, keep))
        except LimitError as error:
            raise DataError(error.strerror) from None
        except _FAULTS as error:
            raise DataError(
                f"{archive} cannot be unpacked ({error}); remove it, and it is fetched again"
            ) from None
        if keep and not any(staging.iterdir()):
            raise DataError(
                f"{archive} holds nothing that is called {', '.join(keep)}; is it the right file?"
            )
    return folder


def folder_name(archive: Path, keep: Sequence[str]) -> str:
    """The name of the folder to which an archive, or what is kept of it, is unpacked."""
    chosen = hashlib.sha256("\0".join(keep).encode()).hexdigest()[:8] if keep else "all"
    return f"{archive.parent.name}-{archive.name}-{chosen}"


UNPACKED_BYTES = 10e9
"""What an archive may unpack to, however small it is."""
UNPACKED_TIMES = 100
"""What it may unpack to, in multiples of its own size; JSON shrinks to a thirtieth, zeros to a thousandth."""
MEMBERS = 5_000_000
"""Most files in an archive."""


def _unpack(archive: Path, folder: Path, is_kept: Callable[[str], bool]) -> None:
    """Unpack what is kept of an archive, within the limits and the room on the disk. Raises LimitError, DataError."""
    with open_file(archive) as opened:
        size = os.fstat(opened.fileno()).st_size
        most = max(UNPACKED_BYTES, UNPACKED_TIMES * size)
        if zipfile.is_zipfile(opened):
            with zipfile.ZipFile(opened) as content:
                # Of a member no more is read than the directory says it has.
                sizes = [(member, member.file_size) for member in content.infolist()]
                kept = [
                    member
                    for member in _within(archive, folder, sizes, most)
                    if is_kept(member.filename)
                ]
                content.extractall(folder, kept)  # noqa: S202
            return
        opened.seek(0)
        if tarfile.is_tarfile(opened):
            opened.seek(0)
            with tarfile.open(fileobj=opened) as content:
                # Looked at one by one while they are unpacked: to list a packed archive is to unpack it.
                lengths = ((member, member.size) for member in content)
                kept_members = (
                    member
                    for member in _within(archive, folder, lengths, most)
                    if is_kept(member.name.removeprefix("./"))
                )
                content.extractall(folder, kept_members, filter="data")
            return
        opened.seek(0)
        if archive.suffix != ".gz":
            raise DataError(f"{archive} is not an archive that is known here (zip, tar, gz)")
        with gzip.open(opened) as packed, (folder / archive.stem).open("wb") as file:
            blocks = ((block, len(block)) for block in iter(partial(packed.read, BLOCK), b""))
            file.writelines(_within(archive, folder, blocks, most))


Part = TypeVar("Part")


def _within(
    archive: Path, folder: Path, parts: Iterable[tuple[Part, int]], most: float
) -> Iterator[Part]:
    """The parts of an archive, each with its size in bytes, as long as all of them may be unpacked to a folder.

    Raises LimitError for more bytes or parts than allowed, DataError for more than the disk has room for.
    """
    limit, total, checked = raised(most), 0, 0
    for number, (part, size) in enumerate(parts, 1):
        total += size
        if total > limit or number > raised(MEMBERS):
            many = in_bytes(limit) if total > limit else f"{raised(MEMBERS):,.0f} parts"
            raise LimitError(f"{archive} unpacks to more than {many}")
        if total - checked > ROOM_EVERY:
            check_room(folder, size, str(archive))
            checked = total
        yield part


YES = "SNELLEN_YES"
"""The environment variable that agrees to all terms when it says yes (1, true, on)."""


def check_agreements(specs: Sequence[BenchmarkSpec]) -> None:
    """Ask, once per benchmark, whether the user agrees to its terms. Raises NoSourceError when nobody does."""
    if is_true(os.environ.get(YES)):
        return
    agreed = _agreed_terms()
    unanswered = [
        spec for spec in specs if spec.agreement and agreed.get(spec.name) != spec.agreement
    ]
    if not unanswered:
        return
    terms = "; ".join(
        f"{spec.name} is for {spec.agreement} ({spec.url or spec.licence})" for spec in unanswered
    )
    if not attendance().accept(f"{terms}. Do you agree?"):
        raise NoSourceError(f"{terms}; agree with --yes or {YES}=1, and it is fetched")
    answers = agreed | {spec.name: spec.agreement for spec in unanswered}
    with writing(_agreements_file().parent):
        _agreements_file().write_bytes(msgspec.json.format(msgspec.json.encode(answers), indent=1))


def _agreements_file() -> Path:
    return home() / "agreed.json"


def _agreed_terms() -> dict[str, str]:
    """By benchmark, the terms that were agreed to."""
    try:
        return msgspec.json.decode(read_file(_agreements_file()), type=dict[str, str])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError) as error:
        raise DataError(
            f"{_agreements_file()} cannot be read ({error}); remove it, and you are asked again"
        ) from None


AT_ONCE = 8
"""Images fetched at the same time."""
IMAGE_SECONDS = 120
"""Most seconds for an image, with all attempts."""
BUILD_BYTES = 100e9
"""Most bytes of all images at addresses that one build fetches."""
BUILD_SECONDS = 24 * 3600
"""Most seconds for them."""


class FetchedPictures:
    """The files of all `addresses` among the cells; what cannot be fetched is a fault of the row that asks for it.

    Raises DataError where all of them together take more bytes or time than a build may.
    """

    def __init__(self, cells: Iterable[Any]) -> None:
        addresses = list(dict.fromkeys(_addresses(cells)))
        here = sum(_picture_file(address).exists() for address in addresses)
        if here < len(addresses):
            hosts = ", ".join(sorted({urlsplit(address).netloc for address in addresses})[:4])
            attendance().say(f"fetching {len(addresses) - here:,} pictures from {hosts}")
        whole = Allowance(BUILD_BYTES, BUILD_SECONDS, "what this build fetches")
        fetch = partial(_fetch_picture, whole)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            self._faults = dict(zip(addresses, pool.map(fetch, addresses), strict=True))
        if whole.fault:
            raise DataError(whole.fault)
        if failed := sum(map(bool, self._faults.values())):
            attendance().say(f"{failed:,} of {len(addresses):,} pictures could not be fetched")

    def path(self, address: str, where: str) -> Path:
        """The file of an address. Raises DataError, naming the row, where it could not be fetched."""
        if fault := self._faults.get(address, f"{address} is not an address"):
            raise DataError(f"{where}: {fault}")
        return _picture_file(address)


def _addresses(cells: Iterable[Any]) -> Iterable[str]:
    for cell in cells:
        text = cell.get("url") or cell.get("path") if isinstance(cell, dict) else cell
        address = text.strip() if isinstance(text, str) else ""
        if address.startswith(("http://", "https://")) and _is_address(address):
            yield address


def _is_address(text: str) -> bool:
    try:
        urlsplit(text)
        return True
    except ValueError:  # a bracket that is not closed
        return False


def _picture_file(address: str) -> Path:
    name = slug(urlsplit(address).path.rpartition("/")[2])[-80:]
    return data_folder() / FILES / hashlib.sha256(address.encode()).hexdigest()[:32] / name


def _fetch_picture(whole: Allowance, address: str) -> str:
    """Fetch an image; why it could not be had, or nothing."""
    if whole.fault:
        return whole.fault
    try:
        fetch_file(
            (_encoded(address),),
            _picture_file(address),
            Content(),
            most=IMAGE_BYTES,
            seconds=IMAGE_SECONDS,
            within=whole,
        )
    except PlaceError as error:
        is_limit = isinstance(error.__cause__, LimitError)
        return str(error) if is_limit else str(error).partition("; ")[0]
    except UnicodeError:
        return f"{address} has no name of a host"
    return ""


def _encoded(address: str) -> str:
    """An address as it is sent: blanks and letters beyond ASCII stand in tables as browsers show them."""
    parts = urlsplit(address)
    safe = "%/:?@!$&'()*+,;=~[]"
    return parts._replace(
        netloc=parts.netloc if parts.netloc.isascii() else parts.netloc.encode("idna").decode(),
        path=quote(parts.path, safe),
        query=quote(parts.query, safe),
    ).geturl()
