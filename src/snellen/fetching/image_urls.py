"""Download the images that a table refers to by address."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from snellen.common.foreign import IMAGE_BYTES, Allowance, LimitError
from snellen.common.paths import slug
from snellen.errors import DataError
from snellen.fetching.data_folder import FILES, data_folder
from snellen.fetching.download import Content, FetchError, fetch_file
from snellen.fetching.user_callbacks import user_callbacks

PARALLEL_DOWNLOADS = 8
IMAGE_SECONDS = 120
"""Most seconds for an image, including all attempts."""
BUILD_BYTES = 100e9
"""Most bytes of all images that one build downloads."""
BUILD_SECONDS = 24 * 3600
"""Most seconds for all images that one build downloads."""


class ImageDownloads:
    """Downloads the images of a table that are given as URLs, and finds the downloaded files.

    The constructor downloads all of them. If one cannot be downloaded, `path` raises an error for
    the rows that show it.

    Args:
        cells: Cells of the table. Those that are not URLs are ignored; a cell may also be an object
            with `url` or `path`, as the `datasets` library writes images.

    Raises:
        DataError: All images together take more bytes or time than a build may.
    """

    def __init__(self, cells: Iterable[Any]) -> None:
        """Download all images whose addresses are in the cells of a table. Images on this machine are not fetched again.

        Raises DataError if the images together are too large or take too long. A single failure raises no error here.
        """
        addresses = list(dict.fromkeys(_addresses(cells)))
        missing = [address for address in addresses if not _image_file(address).exists()]
        if missing:
            hosts = sorted({urlsplit(address).netloc for address in addresses})
            user_callbacks().say(f"fetching {len(missing):,} images from {', '.join(hosts[:4])}")

        allowance = Allowance(BUILD_BYTES, BUILD_SECONDS, "the downloads of this build")
        download = partial(_download_image, allowance)
        with ThreadPoolExecutor(PARALLEL_DOWNLOADS) as pool:
            faults = pool.map(download, addresses)
            self._faults = dict(
                zip(addresses, faults, strict=True)
            )  # "" for an image without a fault
        if allowance.fault:
            raise DataError(allowance.fault)

        failed_addresses = [address for address, fault in self._faults.items() if fault]
        if failed_addresses:
            user_callbacks().say(
                f"{len(failed_addresses):,} of {len(addresses):,} images could not be fetched"
            )

    def path(self, address: str, where: str) -> Path:
        """Return the file of an address. Raises DataError, naming the row `where`, if it could not be downloaded."""
        fault = self._faults.get(address, f"{address} is not an address")
        if fault:
            raise DataError(f"{where}: {fault}")
        return _image_file(address)


def _addresses(cells: Iterable[Any]) -> Iterator[str]:
    """Yield the URLs among the cells of a table. Other cells are skipped."""
    for cell in cells:
        text = cell
        if isinstance(cell, dict):
            text = cell.get("url") or cell.get("path")
        if not isinstance(text, str):
            continue
        address = text.strip()
        if address.startswith(("http://", "https://")) and _can_be_split(address):
            yield address


def _can_be_split(address: str) -> bool:
    """Return whether an address can be split into its parts, such as host and path."""
    try:
        urlsplit(address)
    except ValueError:  # a bracket that is not closed
        return False
    return True


def _image_file(address: str) -> Path:
    """Return the path that an image is, or would be, downloaded to."""
    name = urlsplit(address).path.rpartition("/")[2]
    digest = hashlib.sha256(address.encode()).hexdigest()
    return data_folder() / FILES / digest[:32] / slug(name)[-80:]


def _download_image(allowance: Allowance, address: str) -> str:
    """Download an image. Return why that failed; empty if it succeeded."""
    if allowance.fault:
        return allowance.fault
    try:
        fetch_file(
            (_encode_address(address),),
            _image_file(address),
            Content(),
            most=IMAGE_BYTES,
            seconds=IMAGE_SECONDS,
            within=allowance,
        )
    except FetchError as error:
        if isinstance(error.__cause__, LimitError):
            return str(error)
        # The rest of the message is advice that does not apply to images of a table.
        return str(error).partition("; ")[0]
    except UnicodeError:
        return f"{address} has no name of a host"
    return ""


def _encode_address(address: str) -> str:
    """Return a URL in which spaces and non-ASCII characters are encoded (`%20`), as servers
    require.

    Tables often have URLs as browsers show them.
    """
    parts = urlsplit(address)
    host = parts.netloc
    if not host.isascii():
        host = host.encode("idna").decode()
    safe = "%/:?@!$&'()*+,;=~[]"
    path = quote(parts.path, safe)
    query = quote(parts.query, safe)
    return parts._replace(netloc=host, path=path, query=query).geturl()
