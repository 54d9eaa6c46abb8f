"""Client for datasets on ModelScope (modelscope.cn), used if the hub's own address does not serve them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from snellen.catalogue.places import KnownFile, fits
from snellen.common.foreign import SETTINGS_BYTES, format_bytes, read_file
from snellen.fetching.download import Content, FetchError, check_room, fetch_file, writing
from snellen.fetching.user_callbacks import is_offline, user_callbacks

BRANCH = "master"
FILES_PER_PAGE = 200
"""Files per page of a listing."""
PAGE_SECONDS = 600
"""Most seconds for a page of a listing, including all attempts."""
MAX_PAGES = 999


class ListedFile(Struct, frozen=True, rename="pascal"):
    """A file or folder in the listing of a dataset."""

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
    """Download the files of a dataset that match any of the patterns.

    `MODELSCOPE_DOMAIN` names another server, and `MODELSCOPE_API_TOKEN` is sent to it. Offline, files of an earlier
    download are used.

    Args:
        repo: The dataset, as OWNER/NAME.
        patterns: Patterns of paths in the dataset.
        expected: Sizes and checksums by path; they take precedence over those of the listing.
        below: The folder that holds a folder for each dataset.

    Returns:
        The folder of the dataset.

    Raises:
        FetchError: The dataset has no such files, or the server does not give them.
    """
    folder = below / repo
    if is_offline():
        _check_downloaded(repo, patterns, folder)
        return folder

    listed = list(_list_files(repo))
    if not listed:
        raise FetchError(f"{repo} on ModelScope has no revision {BRANCH!r}, or it is empty")
    files = [entry for entry in listed if entry.type == "blob"]  # without folders
    matching = [file for file in files if fits(file.path, patterns)]
    if not matching:
        raise FetchError(f"{repo} on ModelScope has no file named {', '.join(patterns)}")

    with writing(folder):
        missing_files = [file for file in matching if not (folder / file.path).exists()]
        missing_bytes = sum(file.size for file in missing_files)
        if missing_bytes:
            user_callbacks().say(
                f"fetching {format_bytes(missing_bytes)} of {repo} from {_server()}"
            )
            check_room(folder, missing_bytes, f"the dataset {repo}")
        for file in matching:
            known = expected.get(file.path, KnownFile())
            content = Content(known.size or file.size, known.sha256 or file.sha256)
            address = _address(repo, "repo", Revision=BRANCH, FilePath=file.path)
            fetch_file((address,), folder / file.path, content, token=_token())
    return folder


def _check_downloaded(repo: str, patterns: Sequence[str], folder: Path) -> None:
    """Raise FetchError unless each pattern matches a file of an earlier download."""
    paths = [path.relative_to(folder).as_posix() for path in folder.rglob("*")]
    for pattern in patterns:
        if not any(fits(path, (pattern,)) for path in paths):
            raise FetchError(
                f"{repo} of ModelScope is not on this machine, and HF_HUB_OFFLINE is set"
            )


def _list_files(repo: str) -> Iterator[ListedFile]:
    """Yield all files and folders of a dataset, page by page. Raises FetchError for a page that is not a listing."""
    with TemporaryDirectory(prefix="snellen-listing-") as temporary:
        for page_number in range(1, MAX_PAGES + 1):
            address = _address(
                repo,
                "repo/tree",
                Revision=BRANCH,
                Recursive=True,
                PageNumber=page_number,
                PageSize=FILES_PER_PAGE,
            )
            page = Path(temporary, f"{page_number}.json")
            fetch_file(
                (address,),
                page,
                Content(),
                token=_token(),
                most=SETTINGS_BYTES,
                seconds=PAGE_SECONDS,
            )
            try:
                listing = msgspec.json.decode(read_file(page), type=_Listing)
            except (OSError, msgspec.DecodeError):
                raise FetchError(f"{address} returned a page that is not a file listing") from None
            files = listing.data.files or []
            yield from files
            if len(files) < FILES_PER_PAGE:
                return


def _server() -> str:
    scheme = os.environ.get("MODELSCOPE_URL_SCHEME") or "https://"
    domain = os.environ.get("MODELSCOPE_DOMAIN") or "www.modelscope.cn"
    return scheme + domain


def _token() -> str:
    return os.environ.get("MODELSCOPE_API_TOKEN", "")


def _address(repo: str, endpoint: str, **query: object) -> str:
    """Return the URL of an endpoint of ModelScope's interface for a dataset."""
    path = f"/api/v1/datasets/{quote(repo)}/{endpoint}"
    return f"{_server()}{path}?{urlencode(query)}"
