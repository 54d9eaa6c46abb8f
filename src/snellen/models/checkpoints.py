"""Where the checkpoint of a model string lies, told without loading anything."""

from __future__ import annotations

import re
from pathlib import Path

from snellen.errors import ModelError
from snellen.models.base import ModelSpec


def locate_checkpoint(spec: ModelSpec) -> tuple[str, str]:
    """The folder or repository, and the revision. Raises ModelError for a folder without a model, and for what is no
    repository's name."""
    target = spec.target
    if target.startswith((".", "/", "~")) or Path(target).is_dir():
        folder = Path(target).expanduser()
        if not folder.is_dir():
            raise ModelError(f"{spec.text}: there is no folder {folder}; check the path")
        if not (folder / "config.json").is_file():
            raise ModelError(f"{spec.text}: {folder} has no config.json; point at the folder save_pretrained wrote")
        return str(folder), ""
    name, _, revision = target.partition("@")
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name):
        raise ModelError(f"{spec.text}: {name!r} is not a repository name; write hf:org/name[@revision] or hf:./folder")
    return name, revision
