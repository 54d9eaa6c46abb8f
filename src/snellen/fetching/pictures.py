"""Pictures at addresses, fetched together and kept among the fetched files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from snellen.common.paths import slug
from snellen.errors import DataError
from snellen.fetching.attendance import attendance
from snellen.fetching.download import Content, PlaceError, fetch_file
from snellen.fetching.sources import FILES, data_folder

AT_ONCE = 8
"""Pictures fetched at the same time."""


class FetchedPictures:
    """The files of all `addresses` among the cells; what cannot be fetched is a fault of the row that asks for it."""

    def __init__(self, cells: Iterable[Any]) -> None:
        addresses = list(dict.fromkeys(_addresses(cells)))
        here = sum(_file(address).exists() for address in addresses)
        if here < len(addresses):
            hosts = ", ".join(sorted({urlsplit(address).netloc for address in addresses})[:4])
            attendance().say(f"fetching {len(addresses) - here:,} pictures from {hosts}")
        with ThreadPoolExecutor(AT_ONCE) as pool:
            self._faults = dict(zip(addresses, pool.map(_fetch, addresses), strict=True))
        if failed := sum(map(bool, self._faults.values())):
            attendance().say(f"{failed:,} of {len(addresses):,} pictures could not be fetched")

    def path(self, address: str, where: str) -> Path:
        """The file of an address. Raises DataError, naming the row, where it could not be fetched."""
        if fault := self._faults[address]:
            raise DataError(f"{where}: {fault}")
        return _file(address)


def _addresses(cells: Iterable[Any]) -> Iterable[str]:
    for cell in cells:
        text = cell.get("url") or cell.get("path") if isinstance(cell, dict) else cell
        if isinstance(text, str) and text.startswith(("http://", "https://")):
            yield text


def _file(address: str) -> Path:
    name = slug(urlsplit(address).path.rpartition("/")[2])[-80:]
    return data_folder() / FILES / hashlib.sha256(address.encode()).hexdigest()[:32] / name


def _fetch(address: str) -> str:
    """Fetch a picture; why it could not be had, or nothing."""
    try:
        fetch_file((address,), _file(address), Content())
    except PlaceError as error:
        return str(error).partition("; ")[0]
    return ""
