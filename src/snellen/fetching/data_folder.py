"""Where fetched files are stored."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from snellen.catalogue.places import SourceFile, known_file
from snellen.common.paths import expanded, snellen_home

FILES = "files"
"""Subfolder of the data folder for downloaded files, by their content."""
UNPACKED = "unpacked"
"""Subfolder of the data folder for the content of archives."""
MODELSCOPE = "modelscope"
"""Subfolder of the data folder for datasets of ModelScope."""
JOINED = "sources"
"""Subfolder of Snellen's own folder with links to the files of a source.

It is not in the data folder, because users may share data that they cannot write.
"""


def data_folder() -> Path:
    """Return the folder of fetched files: `$SNELLEN_DATA`, or `data` in Snellen's own folder."""
    chosen = os.environ.get("SNELLEN_DATA")
    if chosen:
        return expanded(chosen)
    return snellen_home() / "data"


def file_path(file: SourceFile) -> Path:
    """Return the path that a file is, or would be, downloaded to.

    The name of its folder is the file's checksum, if the catalogue has one, or else a digest of its address.
    """
    known = known_file(file)
    digest = known.sha256 or known.md5
    if not digest:
        digest = hashlib.sha256(file.url.encode()).hexdigest()
    return data_folder() / FILES / digest[:32] / file.file_name


def folder_of_hub_archives(repo: str) -> Path:
    """Return the folder that the archives of a dataset on the hub are extracted to."""
    return data_folder() / UNPACKED / f"hub-{repo.replace('/', '--')}"
