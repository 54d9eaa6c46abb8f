"""How this Snellen was installed, the line that adds an extra to it, and what is installed beside it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.metadata import Distribution

PACKAGE = "snellen"
_METADATA = ".dist-info"
_OLDER = (".egg-info", ".egg-link", ".egg", ".zip")


def distribution() -> Distribution | None:
    """What the package index of this environment knows of Snellen; None where its folder was only put on the path."""
    from importlib.metadata import Distribution, PackageNotFoundError

    try:
        return Distribution.from_name(PACKAGE)
    except PackageNotFoundError:
        return None


def origin() -> dict[str, Any]:
    """Where Snellen was installed from, as PEP 610 records it (`direct_url.json`); empty when from a package index."""
    import json

    found = distribution()
    text = found.read_text("direct_url.json") if found else None
    recorded: dict[str, Any] = json.loads(text) if text else {}
    return recorded


def install_line(extra: str) -> str:
    """The command that installs an extra, from the folder, repository or index that Snellen itself came from; for an
    empty text, what Snellen always needs."""
    from urllib.parse import unquote, urlsplit

    came_from, extras = origin(), f"[{extra}]" if extra else ""
    url = str(came_from.get("url", ""))
    if "dir_info" in came_from:
        editable = "-e " if came_from["dir_info"].get("editable") else ""
        return f"pip install {editable}'{unquote(urlsplit(url).path)}{extras}'"
    if version_control := came_from.get("vcs_info"):
        return f"pip install '{PACKAGE}{extras} @ {version_control['vcs']}+{url}@{version_control['commit_id']}'"
    return f"pip install '{PACKAGE}{extras}{f' @ {url}' if url else ''}'"


def installed_versions(names: Iterable[str]) -> dict[str, str]:
    """The versions of the packages among `names` that are installed."""
    found = _folders(tuple(sys.path))
    return {name: version for name in names if (version := _version(name, found))}


def entry_points_of(prefix: str) -> Mapping[str, Mapping[str, str]]:
    """Entry points of all packages by group, for groups that begin with a prefix: `module:attribute` by name."""
    return _entry_points(prefix, tuple(sys.path))


@cache
def _entry_points(prefix: str, path: tuple[str, ...]) -> Mapping[str, Mapping[str, str]]:
    found = _folders(path)
    if found is not None and not any(f"[{prefix}".encode() in text for text in _read("entry_points.txt", found)):
        return {}
    from importlib.metadata import entry_points

    points = entry_points()
    ours = [group for group in points.groups if group.startswith(prefix)]
    return {group: {point.name: point.value for point in points.select(group=group)} for group in ours}


def _version(name: str, found: Mapping[str, Path] | None) -> str:
    if found is not None:
        folder = found.get(_normalised(name))
        return folder.name.removesuffix(_METADATA).partition("-")[2] if folder else ""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _read(file: str, folders: Mapping[str, Path]) -> Iterator[bytes]:
    for folder in folders.values():
        try:
            yield (folder / file).read_bytes()
        except FileNotFoundError:
            continue


@cache
def _folders(path: tuple[str, ...]) -> Mapping[str, Path] | None:
    """Where the metadata of each package is (`NAME-VERSION.dist-info`), by normalised name.

    None where a package is installed in another way, which `importlib.metadata` alone finds; that takes 40 ms, a tenth
    of a short command.
    """
    found: dict[str, Path] = {}
    for place in path:
        folder = Path(place)
        if not folder.is_dir():
            if folder.exists():  # an archive
                return None
            continue
        with os.scandir(folder) as inside:
            names = [entry.name for entry in inside if entry.name.endswith((_METADATA, *_OLDER))]
        if any(name.endswith(_OLDER) for name in names):
            return None
        for name in names:
            found.setdefault(_normalised(name.partition("-")[0]), folder / name)
    return found


def _normalised(name: str) -> str:
    return name.replace("-", "_").replace(".", "_").lower()
