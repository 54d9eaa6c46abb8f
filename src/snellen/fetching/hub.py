"""Download files of a Hugging Face dataset at one commit into the hub's own cache, and check their content.

Users name a table of the hub as `hf://org/name`, `hf://org/name/config:split`.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from snellen.callers import source_setting
from snellen.catalogue.places import HubSource, KnownFile, fits
from snellen.common.foreign import format_bytes, read_text
from snellen.common.late import import_hub
from snellen.errors import DataError
from snellen.fetching.download import (
    ATTEMPTS,
    MAX_PAUSE_SECONDS,
    MIN_PAUSE_SECONDS,
    Content,
    FetchError,
    check_room,
    content_fault,
    fetch_file,
    writing,
)
from snellen.fetching.user_callbacks import is_offline, user_callbacks
from snellen.formats.retry_after import parse_retry_after

T = TypeVar("T")

_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SHARD = re.compile(r"(.*)-\d{5}-of-(\d{5})(.*)")


def fetch_dataset(
    names: Sequence[str],
    patterns: Sequence[str],
    revision: str = "",
    expected: Mapping[str, KnownFile] | None = None,
    licence: str = "",
) -> tuple[Path, str]:
    """Return the folder with the files of a dataset on the Hugging Face hub, and the commit.

    Missing files are downloaded. The files are in the hub's own cache, which other programs use
    too, so nothing is downloaded twice. If HF_HUB_OFFLINE=1 is set, only files in the cache are
    used.

    Args:
        names: The name of the dataset, then earlier names under which the cache may have it.
        patterns: Patterns of file names.
        revision: Branch, tag or commit; empty for the newest commit of `main`.
        expected: Sizes and checksums by file name, in addition to those that the hub lists.
        licence: Licence to mention when files are downloaded.

    Raises:
        FetchError: The files cannot be downloaded.
        DataError: The files cannot be written to the disk.
    """
    import_hub(f"the dataset {names[0]}")
    is_commit = bool(_COMMIT.fullmatch(revision))
    cached_names: Sequence[str] = ()
    if is_offline():
        cached_names = names
    elif is_commit:
        cached_names = names[1:]  # the current name is tried below
    for name in cached_names:
        cached = _in_cache(name, patterns, revision)
        if cached and _is_sound(cached, patterns, expected or {}):
            return cached, commit_of(cached)
    if is_offline():
        raise _not_cached(names[0], revision)
    try:
        return _fetch(names[0], patterns, revision, expected or {}, licence)
    except FetchError as error:
        cached = _in_cache(names[0], patterns, revision) if is_commit else None
        if cached is None or not _is_sound(cached, patterns, expected or {}):
            raise
        user_callbacks().say(f"{error}; using the files of this commit in the hub's cache")
        return cached, revision


def commit_of(folder: Path) -> str:
    """Return the commit of a dataset from its folder in the hub's cache (`snapshots/COMMIT`); empty
    for any other folder.
    """
    return folder.name if _COMMIT.fullmatch(folder.name) else ""


def files_like(folder: Path, patterns: Sequence[str]) -> list[str]:
    """Return the paths, relative to a folder, of the files in it that match one of the patterns, in
    alphabetical order.

    As on the hub, `*` matches slashes too, so `*.parquet` also finds files in subfolders.
    """
    paths = [path for path in folder.rglob("*") if path.is_file()]
    names = sorted(path.relative_to(folder).as_posix() for path in paths)
    return [name for name in names if fits(name, patterns)]


class HubFiles(Struct, frozen=True):
    """Files of a dataset at one commit, from the hub's listing."""

    repo: str
    commit: str
    listed: tuple[Any, ...]
    """`RepoFile`s of the hub's library."""

    @property
    def names(self) -> list[str]:
        return [file.path for file in self.listed]

    @property
    def size(self) -> int:
        """Total size in bytes."""
        return sum(file.size for file in self.listed)


def lacking_files(
    names: Sequence[str], patterns: Sequence[str], revision: str
) -> tuple[HubFiles, int]:
    """Return the files of a dataset that are needed, and how many bytes of them must still be
    downloaded.

    Args:
        names: The name of the dataset, then earlier names under which the hub's cache may have
            files of it.
        patterns: Patterns of the paths of needed files.
        revision: Branch, tag or commit of the dataset.

    Raises:
        FetchError: The hub cannot list the files.
    """
    files = _listed(names[0], patterns, revision)
    blob_folders = [_cache_folder(name) / "blobs" for name in names]
    lacking_bytes = 0
    for file in files.listed:
        is_cached = any((folder / _etag(file)).exists() for folder in blob_folders)
        if not is_cached:
            lacking_bytes += file.size
    return files, lacking_bytes


def _cache_folder(repo: str) -> Path:
    """Return the folder of a dataset in the hub's cache."""
    from huggingface_hub import constants
    from huggingface_hub.file_download import repo_folder_name

    return Path(constants.HF_HUB_CACHE) / repo_folder_name(repo_id=repo, repo_type="dataset")


def _listed(repo: str, patterns: Sequence[str], revision: str) -> HubFiles:
    """Return the files of a dataset that match `patterns`, as the hub lists them.

    Raises FetchError if there are none.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import RepoFile

    api = HfApi()
    dataset = _with_patience(
        repo, revision, lambda: api.dataset_info(repo, revision=revision or None)
    )
    commit = str(dataset.sha)
    if dataset.id != repo:
        user_callbacks().say(f"{repo} has been renamed to {dataset.id}")

    def list_tree() -> list[Any]:
        return list(api.list_repo_tree(repo, recursive=True, revision=commit, repo_type="dataset"))

    matching = []
    for file in _with_patience(repo, revision, list_tree):
        if isinstance(file, RepoFile) and fits(file.path, patterns):
            matching.append(file)
    if not matching:
        raise FetchError(f"{repo} has no file named {', '.join(patterns)}; has its layout changed?")
    return HubFiles(repo, commit, tuple(matching))


def _fetch(
    repo: str,
    patterns: Sequence[str],
    revision: str,
    expected: Mapping[str, KnownFile],
    licence: str,
) -> tuple[Path, str]:
    """Download the missing files of a dataset into the hub's cache.

    The cache stores the content of a file as a blob, under a name that is its digest. The folder of a commit (a snapshot)
    has a link to the blob for each of the commit's files.

    Args:
        repo: The dataset, as ORG/NAME.
        patterns: Patterns of the files' paths.
        revision: Commit, branch or tag; empty for the newest.
        expected: Sizes and checksums by path, as far as the catalogue has them.
        licence: The licence, announced before a download.

    Returns:
        The folder of the snapshot, and its commit.
    """
    from huggingface_hub import constants, get_token, hf_hub_url

    files = _listed(repo, patterns, revision)
    commit = files.commit
    folder = _cache_folder(repo)
    blob_folder = folder / "blobs"
    snapshot = folder / "snapshots" / commit
    missing_bytes = 0
    for file in files.listed:
        is_linked = (snapshot / file.path).exists()
        has_content = (blob_folder / _etag(file)).exists()
        if not is_linked and not has_content:
            missing_bytes += file.size
    with writing(blob_folder):
        if missing_bytes:
            terms = f" ({licence})" if licence else ""
            user_callbacks().say(
                f"fetching {format_bytes(missing_bytes)} of {repo} from {constants.ENDPOINT}{terms}"
            )
            check_room(folder, missing_bytes, f"the dataset {repo}")
        blobs = {}
        for file in files.listed:
            path = snapshot / file.path
            blob = path.resolve() if path.exists() else blob_folder / _etag(file)
            blobs[path] = blob
            address = hf_hub_url(repo, file.path, repo_type="dataset", revision=commit)
            lock = folder.parent / ".locks" / folder.name / f"{_etag(file)}.lock"
            content = _expected(file, expected.get(file.path))
            try:
                fetch_file((address,), blob, content, lock=lock, token=get_token() or "")
            except FetchError as error:
                raise _refusal(repo, commit, error.code, error.reason) or error from None
        # Links are made last, so that an incomplete download never looks like a complete one.
        for path, blob in blobs.items():
            _link_to_blob(path, blob)
        ref = folder / "refs" / (revision or "main")
        is_current = ref.exists() and read_text(ref) == commit
        if revision != commit and not is_current:
            ref.parent.mkdir(parents=True, exist_ok=True)
            ref.write_text(commit)
    return snapshot, commit


def _etag(file: Any) -> str:
    """Return the digest by which the hub's cache names a file: SHA-256 for a large file, git's
    SHA-1 for a small one.
    """
    return str(file.lfs.sha256 if file.lfs else file.blob_id)


def _expected(file: Any, locked: KnownFile | None) -> Content:
    """Return the size and checksum that a file should have, as the catalogue knows them, or else as
    the hub lists them.

    Args:
        file: The file in the hub's list.
        locked: Size and checksum in the catalogue; None if it does not have them.
    """
    if locked and locked.sha256:
        return Content(locked.size, sha256=locked.sha256)
    if file.lfs:
        return Content(file.size, sha256=file.lfs.sha256)
    return Content(file.size, git=file.blob_id)


def _link_to_blob(pointer: Path, blob: Path) -> None:
    """Make `pointer` a link to the file `blob`, as the hub's cache does, unless it exists.

    The link is made under another name first and then renamed, so that no other process sees an
    unfinished one.
    """
    pointer.parent.mkdir(parents=True, exist_ok=True)
    if pointer.exists():
        return
    link = pointer.with_name(f".{pointer.name}.{os.getpid()}")
    link.unlink(missing_ok=True)
    link.symlink_to(os.path.relpath(blob, pointer.parent))
    link.replace(pointer)


def _in_cache(name: str, patterns: Sequence[str], revision: str) -> Path | None:
    """Return the folder of a dataset in the hub's cache; None if files that are needed are not
    there.

    It must have a file for each pattern and, of a file in several parts
    (`test-00000-of-00003.parquet`), all parts.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        snapshot = snapshot_download(
            name,
            repo_type="dataset",
            allow_patterns=list(patterns),
            revision=revision or None,
            local_files_only=True,
        )
    except LocalEntryNotFoundError:
        return None
    folder = Path(str(snapshot))
    shards: Counter[tuple[str, ...]] = Counter()
    for file in files_like(folder, patterns):
        match = _SHARD.fullmatch(file)
        if match:
            shards[match.groups()] += 1
    for (_, total, _), count in shards.items():
        if count != int(total):
            return None
    for pattern in patterns:
        if not files_like(folder, (pattern,)):
            return None
    return folder


def _is_sound(folder: Path, patterns: Sequence[str], locked_files: Mapping[str, KnownFile]) -> bool:
    """Return whether the cached files of a dataset have their expected content.

    Raises FetchError if one has not and network access is forbidden, so that it cannot be
    downloaded again.
    """
    for name in files_like(folder, patterns):
        path = folder / name
        blob = path.resolve()
        locked = locked_files.get(name)
        if locked and locked.sha256:
            expected = Content(locked.size, locked.sha256)
        elif _SHA256.fullmatch(blob.name):
            expected = Content(sha256=blob.name)
        elif _COMMIT.fullmatch(blob.name):
            expected = Content(git=blob.name)
        else:
            continue
        fault = content_fault(blob, expected)
        if fault and is_offline():
            raise FetchError(
                f"{path} has unexpected content: {fault}; unset HF_HUB_OFFLINE to download it again"
            )
        if fault:
            return False
    return True


def _not_cached(repo: str, revision: str) -> FetchError:
    """Return the error for a dataset that is not in the hub's cache while network access is
    forbidden.
    """
    name = f"{repo}@{revision}" if revision else repo
    return FetchError(
        f"{name} is not in the hub's cache, and HF_HUB_OFFLINE is set; fetch it "
        f"on a machine with network access (`snellen fetch`), or give a folder with {source_setting()}"
    )


def _with_patience(repo: str, revision: str, query: Callable[[], T]) -> T:
    """Return the result of a query to the hub.

    If the hub is busy or has an error of its own, the query is repeated after a pause.
    """
    from huggingface_hub.errors import HfHubHTTPError

    attempt = 0
    while True:
        attempt += 1
        with hub_faults(repo, revision):
            try:
                return query()
            except HfHubHTTPError as error:
                status = _status(error)
                pause = _retry_after(error)
                is_temporary = status == 429 or status >= 500
                if attempt == ATTEMPTS or not is_temporary or pause > MAX_PAUSE_SECONDS:
                    raise
        time.sleep(pause or MIN_PAUSE_SECONDS * 2**attempt)


def _status(error: Any) -> int:
    """Return the HTTP status of an error of the hub; 0 if it has none."""
    return int(getattr(error.response, "status_code", 0) or 0)


def _retry_after(error: Any) -> float:
    """Return the seconds that the hub asks to wait; 0 if it does not say."""
    if error.response is None:
        return 0.0
    header = error.response.headers.get("Retry-After", "")
    return parse_retry_after(header, time.time()) or 0.0


def _refusal(repo: str, revision: str, code: str, reason: str) -> FetchError | None:
    """Return the error that explains why the hub refused a request, such as a dataset whose terms
    must be accepted first.

    None if the code and reason that the hub sent say no more than the HTTP status.
    """
    from huggingface_hub import constants, get_token

    page = f"{constants.ENDPOINT}/datasets/{repo}"
    if code == "GatedRepo" and "awaiting a review" in reason:
        return FetchError(
            f"{repo} is gated, and your request for access is still pending; look at {page}"
        )
    if code == "GatedRepo" and get_token():
        return FetchError(f"{repo} is gated; your login does not have access; request it at {page}")
    if code == "GatedRepo":
        return FetchError(
            f"{repo} is gated; accept its terms at {page}, then run `hf auth login` (or set HF_TOKEN)"
        )
    if code == "RevisionNotFound":
        return FetchError(f"{repo} has no revision {revision!r}; see {page}/commits")
    if reason.startswith("Invalid credentials"):
        return FetchError(
            f"{constants.ENDPOINT} rejects your token; run `hf auth login` again, or unset HF_TOKEN"
        )
    return None


@contextmanager
def hub_faults(repo: str, revision: str) -> Iterator[None]:
    """Turn errors of the hub's library, raised inside the block, into FetchError with a message
    that says what to do.
    """
    from huggingface_hub import constants
    from huggingface_hub.errors import (
        HfHubHTTPError,
        HFValidationError,
        HTTPError,  # pyrefly: ignore[implicit-reexport]  # of whichever HTTP client this version of the hub has
        RepositoryNotFoundError,
    )

    server = constants.ENDPOINT
    page = f"{server}/datasets/{repo}"
    try:
        yield
    except HfHubHTTPError as error:
        headers = error.response.headers
        code = headers.get("X-Error-Code", "")
        reason = headers.get("X-Error-Message", "")
        refusal = _refusal(repo, revision, code, reason)
        if refusal:
            raise refusal from None
        if isinstance(error, RepositoryNotFoundError):
            raise FetchError(
                f"no dataset {repo} at {server}: it may be private, deleted or renamed; look at "
                f"{page}, and run `hf auth login` if you have access"
            ) from None
        if _status(error) == 429:
            pause = _retry_after(error)
            again = f"in {pause:,.0f} seconds" if pause else "later"
            raise FetchError(
                f"{server} has rate-limited this client (429, too many requests); try again {again}, "
                "or run `hf auth login` for a higher limit"
            ) from None
        raise FetchError(f"{page} cannot be read ({_one_line(error)})") from None
    except json.JSONDecodeError as error:
        if not error.doc.lstrip().startswith("<"):
            raise FetchError(f"{server} returned an incomplete response; try again later") from None
        raise FetchError(
            f"{server} returned a web page instead of data; sign in to the proxy that shows it, or "
            "set HF_ENDPOINT"
        ) from None
    except DataError:
        raise
    except (HFValidationError, ValueError) as error:
        raise FetchError(f"the dataset {repo} cannot be read ({_one_line(error)})") from None
    except (HTTPError, OSError) as error:
        raise FetchError(f"{page} cannot be reached ({_one_line(error)})") from None


def _one_line(error: Exception) -> str:
    """Return at most 200 characters of an error's message, without line breaks."""
    return " ".join(str(error).split())[:200]


SCHEME = "hf://"
_TARGET = re.compile(
    r"hf://(?P<repo>[^/:@]+/[^/:@]+)(?:/(?P<config>[^:@]+))?(?::(?P<split>[^@]+))?(?:@(?P<revision>.+))?"
)
_FILE = re.compile(
    r"(?P<folder>.*/)?(?P<split>[^/]+?)(?:-\d{5}-of-\d{5}(?:-[0-9a-f]+)?)?\.(?P<form>parquet|jsonl|json|csv|tsv)"
)
_IMAGES = ("*.png", "*.jpg", "*.jpeg", "*.webp")
_ASIDE = frozenset({"dataset_infos.json", "dataset_info.json"})


class HubTable(Struct, frozen=True):
    """The downloaded files of one split."""

    place: HubSource
    folder: Path
    file: str
    """The table relative to the folder, or a pattern of its parts."""
    name: str
    """Name of the benchmark: the dataset, with config and split if it has several tables."""


def fetch_hub_table(target: str) -> HubTable:
    """Download the table that a target such as `hf://ORG/NAME/CONFIG:SPLIT@REVISION` names.

    CONFIG, SPLIT and REVISION may be left out if the dataset has only one table. Image files in the dataset are
    downloaded too, except for Parquet, which contains the images.

    Raises DataError if there is no such table, or several to choose from.
    """
    match = _TARGET.fullmatch(target)
    if match is None:
        raise DataError(f"{target}: write it as hf://ORG/NAME, hf://ORG/NAME/CONFIG:SPLIT")
    repo = match["repo"]
    revision = match["revision"] or ""
    files, _ = lacking_files((repo,), ("*",), revision)
    tables = tables_by_split(files.names)
    chosen: dict[tuple[str, str], str] = {}
    for (config, split), pattern in tables.items():
        if match["config"] and match["config"] != config:
            continue
        if match["split"] and match["split"] != split:
            continue
        chosen[config, split] = pattern
    if not tables:
        raise DataError(
            f"{target}: the dataset has no table in a supported format (.parquet, .jsonl, .json, .csv, .tsv)"
        )
    if len(chosen) != 1:
        names = [_table_name(repo, *key) for key in sorted(chosen or tables)]
        listed = ", ".join(names[:8])
        if len(names) > 8:
            listed += " ..."
        raise DataError(f"{target}: which table? Name one of {listed}")

    [((config, split), pattern)] = chosen.items()
    image_patterns = []
    if not pattern.endswith(".parquet"):
        for image_pattern in _IMAGES:
            suffix = image_pattern.removeprefix("*")
            if any(name.endswith(suffix) for name in files.names):
                image_patterns.append(image_pattern)
    images = tuple(image_patterns)
    folder, commit = fetch_dataset((repo,), (pattern, *images), revision)
    place = HubSource(repo=repo, files=(pattern,), images=images, revision=commit, reader="table")
    name = repo.rpartition("/")[2]
    if len(tables) > 1:
        name = "-".join(part for part in (name, config, split) if part)
    return HubTable(place, folder, pattern, name)


def _table_name(repo: str, config: str, split: str) -> str:
    """Return the target of a table, such as `hf://ORG/NAME/CONFIG:SPLIT`; config may be empty."""
    dataset = f"{repo}/{config}" if config else repo
    return f"{SCHEME}{dataset}:{split}"


def tables_by_split(names: Iterable[str]) -> dict[tuple[str, str], str]:
    """Find the tables of a dataset on the hub by the names of its files.

    A dataset may have several tables, each with a config (the folder of its files) and a split (the
    beginning of their names). For example, `en/test-00000-of-00002.parquet` and
    `en/test-00001-of-00002.parquet` give `{("en", "test"): "en/test-*.parquet"}`.

    Args:
        names: Paths of all files of the dataset.

    Returns:
        For each config (empty if files are not in a folder, or in `data`) and split, the path of
        its file, or a pattern if it has several. Empty if there is no table.
    """
    files_of_table: dict[tuple[str, str, str], list[tuple[str, str]]] = defaultdict(list)
    for name in names:
        match = _FILE.fullmatch(name)
        if not match or name in _ASIDE:
            continue
        folder = (match["folder"] or "").rstrip("/")
        config = "" if folder in ("", "data") else folder.removeprefix("data/")
        files_of_table[config, match["split"], match["form"]].append((folder, name))

    tables = {}
    for (config, split, suffix), files in files_of_table.items():
        folder, name = files[0]
        if len(files) == 1:
            tables[config, split] = name
        else:
            pattern = f"{split}-*.{suffix}"
            tables[config, split] = f"{folder}/{pattern}" if folder else pattern
    return tables
