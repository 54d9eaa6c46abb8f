"""Build the questions of `--limit` from a large dataset on the hub, reading only parts of its Parquet files.

The texts of all questions are read, so that the same questions are chosen as from the complete benchmark. Only images
of chosen questions are read, and those before them in their row group. Data that are read in parts are not checked by
digests.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from snellen.building.benchmark import MANIFEST, Benchmark
from snellen.building.builder import build_benchmark
from snellen.building.recipe import BuildInputs
from snellen.callers import setting
from snellen.catalogue import BenchmarkSpec
from snellen.catalogue.places import HubSource, locked_commit
from snellen.common.foreign import format_bytes
from snellen.common.paths import snellen_home
from snellen.errors import DataError
from snellen.fetching.download import FetchError
from snellen.fetching.hub import HubFiles, hub_faults, lacking_files
from snellen.fetching.sources import first_fetchable_place, hub_name
from snellen.fetching.terms import check_agreements
from snellen.fetching.user_callbacks import is_offline, user_callbacks
from snellen.formats.hub_parquet import files_opened_by

MIN_BYTES_FOR_PART = 500_000_000
"""Smallest download, in bytes, of which only a part is read for a run with a limit.

Smaller ones are downloaded completely.
"""


def parts_folder() -> Path:
    return snellen_home() / "parts"


def built_part(spec: BenchmarkSpec, limit: int) -> Benchmark | None:
    """Return the smallest earlier partial build that is large enough for a run with a limit; None
    if there is none.

    A partial build has only the questions that a run with a certain limit evaluates. One that is
    damaged, or was built from another version of the dataset, is not used.
    """
    place = first_fetchable_place(spec)
    if not isinstance(place, HubSource):
        return None
    folder_by_size: dict[int, Path] = {}
    for folder in (parts_folder() / spec.name).glob("[0-9]*"):
        if (folder / MANIFEST).exists():
            folder_by_size[int(folder.name)] = folder
    for size, folder in sorted(folder_by_size.items()):
        if size < limit:
            continue
        try:
            part = Benchmark(folder)
            as_built = spec.from_place(place, part.spec.hub.revision).source
        except DataError:  # damaged or of another format: try a larger one, or build it again
            continue
        if msgspec.json.encode(part.spec.source) == msgspec.json.encode(as_built):
            return part
    return None


def build_part(spec: BenchmarkSpec, limit: int) -> Benchmark | None:
    """Build only as many questions of a benchmark as a run with `--limit` needs, without downloading the whole dataset.

    This works only for a dataset on the Hugging Face hub whose rows and images are in Parquet files, because parts of
    these can be read over the network.

    Args:
        spec: The benchmark.
        limit: The number of questions.

    Returns:
        The benchmark with these questions. None if its data are elsewhere or in other files, network access is forbidden,
        the hub cannot list the files, or less than `MIN_BYTES_FOR_PART` bytes remain to be downloaded. The caller then
        downloads the dataset completely.

    Raises:
        DataError: The files do not fit the benchmark, or reading them failed.
    """
    place = first_fetchable_place(spec)
    if is_offline() or not isinstance(place, HubSource) or place.importer:
        return None
    if place.images or place.beside or place.archives:
        return None
    if not all(pattern.endswith(".parquet") for pattern in place.rows):
        return None
    dataset_names = (place.repo, *place.before)
    try:
        files, lacking_bytes = lacking_files(dataset_names, place.patterns, locked_commit(place))
    except FetchError:
        return None  # the caller's complete download reports it, or finds another place
    if lacking_bytes < MIN_BYTES_FOR_PART:
        return None
    check_agreements([spec])
    user_callbacks().say(
        f"downloading only the parts of {files.repo} ({format_bytes(files.size)}, {spec.licence}) that {limit:,} "
        f"questions need; digests are not checked (without {setting('limit')}, everything is downloaded and checked)"
    )
    with _read_by_ranges(files) as (folder, count_bytes):
        part = build_benchmark(
            spec.from_place(place, files.commit),
            source=folder,
            to=parts_folder() / spec.name / str(limit),
            inputs=BuildInputs(
                limit=limit, origin=f"{hub_name(place.repo, files.commit)}, read in part"
            ),
        )
    user_callbacks().say(f"read {format_bytes(count_bytes())} of {format_bytes(files.size)}")
    return part


@contextmanager
def _read_by_ranges(files: HubFiles) -> Iterator[tuple[Path, Callable[[], int]]]:
    """Yield a folder that looks like a download of the files but is read over the network.

    Its files are empty. Inside the block, whenever the Parquet reader opens one of them, it gets a
    file that requests the bytes it needs from the hub.

    Yields:
        The folder, and a function that returns how many bytes have been read so far.
    """
    from huggingface_hub import HfFileSystem, constants

    opened: dict[Path, _RemoteFile] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="snellen-part-")))
        for name in files.names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).touch()
        system = HfFileSystem(endpoint=constants.ENDPOINT)

        def open_remote(path: Path) -> _RemoteFile:
            """Return an open file that reads from the hub, in place of the empty file at `path`.

            Each file is opened once.
            """
            if path in opened:
                return opened[path]
            name = path.relative_to(folder).as_posix()
            address = f"datasets/{files.repo}@{files.commit}/{name}"
            with hub_faults(files.repo, files.commit):
                file = system.open(address, cache_type="none")
            stack.callback(file.close)
            opened[path] = _RemoteFile(file, files)
            return opened[path]

        def count_bytes() -> int:
            return sum(file.bytes_read for file in opened.values())

        stack.enter_context(files_opened_by(open_remote))
        yield folder, count_bytes


class _RemoteFile(io.RawIOBase):
    """A file on the hub that is read in parts.

    It ignores `close`, because the same open file is used again by later readers.
    """

    def __init__(self, file: Any, files: HubFiles) -> None:
        self._file, self._files = file, files
        self.bytes_read = 0
        """Bytes read so far."""

    def read(self, size: int = -1, /) -> bytes:
        """Read bytes from the hub, and count them. Errors of the hub become OSError, which the Parquet reader expects."""
        try:
            with hub_faults(self._files.repo, self._files.commit):
                content = bytes(self._file.read(size))
        except DataError as error:
            raise OSError(str(error)) from None
        self.bytes_read += len(content)
        return content

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        pass
