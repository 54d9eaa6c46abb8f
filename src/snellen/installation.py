"""How this Snellen was installed, the line that adds an extra to it, and what is installed beside it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.metadata import Distribution

    from packaging.requirements import Requirement

PACKAGE = "snellen"
LAB = "snellen-lab"
SERVER = "snellen-server"
SIBLINGS = (LAB, SERVER)
"""The other packages of this repository."""
CORE = ""
"""Stands for no extra, that is, for the packages that are always needed."""
_METADATA_SUFFIX = ".dist-info"
_ENTRY_POINTS_FILE = "entry_points.txt"
_OLDER_SUFFIXES = (".egg-info", ".egg-link", ".egg", ".zip")
"""Endings of files and folders that hold a package in a form that `_metadata_folders` cannot read."""


def distribution(package: str = PACKAGE) -> Distribution | None:
    """Return the metadata of an installed package; None if it is not installed, or its folder is only on the path."""
    from importlib.metadata import Distribution, PackageNotFoundError

    try:
        return Distribution.from_name(package)
    except PackageNotFoundError:
        return None


def origin() -> dict[str, Any]:
    """Return the origin of this installation, as PEP 610 records it (`direct_url.json`); empty for a package index."""
    import json

    package = distribution()
    text = package.read_text("direct_url.json") if package else None
    recorded: dict[str, Any] = json.loads(text) if text else {}
    return recorded


def install_line(extra: str) -> str:
    """Return the command that installs an extra of Snellen from where Snellen itself came: a folder, repository or
    index.

    Args:
        extra: The extra, such as `hf`. Without one (an empty text), the command installs what Snellen always needs.
    """
    extras = f"[{extra}]" if extra else ""
    command = _command_from_sources(PACKAGE, extras, "")
    if command:
        return command
    url = origin().get("url")
    address = f" @ {url}" if url else ""
    return f"pip install '{PACKAGE}{extras}{address}'"


def sibling_install_line(package: str) -> str:
    """Return the command that installs another package of this repository, such as snellen-server."""
    return _command_from_sources(package, "", f"packages/{package}") or f"pip install {package}"


def _command_from_sources(package: str, extras: str, subfolder: str) -> str:
    """Return the command that installs a package from the sources that Snellen itself was installed from.

    For example `pip install -e '/home/ann/snellen/packages/snellen-lab'` if that was a folder, or a command with
    the address and commit of a git repository.

    Args:
        package: The name of the package.
        extras: Extras in brackets, such as `[hf]`; may be empty.
        subfolder: The folder of the package inside the sources; empty for Snellen itself.

    Returns:
        The command; empty if Snellen was installed from a package index.
    """
    from urllib.parse import unquote, urlsplit

    recorded = origin()
    url = str(recorded.get("url", ""))
    if "dir_info" in recorded:
        editable_flag = "-e " if recorded["dir_info"].get("editable") else ""
        folder = unquote(urlsplit(url).path)
        if subfolder:
            folder = f"{folder}/{subfolder}"
        return f"pip install {editable_flag}'{folder}{extras}'"
    repository = recorded.get("vcs_info")
    if repository:
        address = f"{repository['vcs']}+{url}@{repository['commit_id']}"
        if subfolder:
            address = f"{address}#subdirectory={subfolder}"
        return f"pip install '{package}{extras} @ {address}'"
    return ""


def requirements(extra: str, package: str = PACKAGE) -> Iterator[Requirement]:
    """Yield the packages that an extra of a package requires, in addition to what the package always requires.

    An extra such as `all` may name other extras of Snellen; their packages are included. For the extra `CORE`,
    yield what the package always requires. Nothing is yielded if the package is not installed.
    """
    from packaging.requirements import Requirement

    installed = distribution(package)
    required_texts = (installed.requires if installed else None) or []
    for text in required_texts:
        requirement = Requirement(text)  # such as `torch>=2; extra == "hf"`
        marker = requirement.marker
        if marker is None:
            is_always_required = True
            is_of_extra = extra == CORE
        else:
            is_always_required = marker.evaluate({"extra": CORE})
            is_of_extra = marker.evaluate({"extra": extra})
        if not is_of_extra or (extra != CORE and is_always_required):
            continue
        if requirement.name == PACKAGE:
            for nested_extra in sorted(requirement.extras):
                yield from requirements(nested_extra)
        else:
            yield requirement


def requirement_of(module: str) -> tuple[str, str]:
    """Return which package to install, and with which extra of Snellen, so that a missing module can be imported.

    For example, `google.auth.transport` is part of the package `google-auth`. If several extras require the
    package, the one with the fewest packages is returned.

    Args:
        module: The dotted name of the module, as in `ModuleNotFoundError.name`.

    Returns:
        The package and the extra. The extra is empty if Snellen always needs the package. If no requirement of
        Snellen fits the module, it is empty, too, and the package is the first part of the module's name.
    """
    snellen = distribution()
    extras = (snellen.metadata.get_all("Provides-Extra") if snellen else None) or []
    packages_of_extra: dict[str, list[str]] = {}
    for extra in (CORE, *extras):
        packages_of_extra[extra] = [requirement.name for requirement in requirements(extra)]
    smallest_first = sorted(packages_of_extra, key=lambda extra: len(packages_of_extra[extra]))

    parts = module.split(".")
    # The longest beginning of the module's name decides: google.auth.transport, google.auth, google.
    for n_parts in range(len(parts), 0, -1):
        wanted = _normalised("_".join(parts[:n_parts]))
        for extra in (CORE, *smallest_first):
            for package in packages_of_extra[extra]:
                if _normalised(package) == wanted:
                    return package, extra
    return parts[0], CORE


def installed_versions(names: Iterable[str]) -> dict[str, str]:
    """Return the version of each of these packages that is installed; packages that are not installed are left out."""
    folders = _metadata_folders(tuple(sys.path))
    versions: dict[str, str] = {}
    for name in names:
        version = _version(name, folders)
        if version:
            versions[name] = version
    return versions


def entry_points_of(prefix: str) -> Mapping[str, Mapping[str, str]]:
    """Return the entry points of all installed packages, for groups whose name begins with a prefix.

    Returns:
        For each group, the targets `module:attribute` by name.

    Examples:
        >>> entry_points_of("no.such.group")
        {}
    """
    return _entry_points(prefix, tuple(sys.path))


@cache
def _entry_points(prefix: str, path: tuple[str, ...]) -> Mapping[str, Mapping[str, str]]:
    """Return entry points by group and name: `{"snellen.suites": {"mine": "my_package.suite:SUITE"}}`.

    Only groups whose name begins with the prefix are returned. The result is cached, because all packages have to
    be searched.

    Args:
        prefix: The beginning of the groups' names.
        path: The folders in which packages are searched, as in `sys.path`.
    """
    groups: dict[str, dict[str, str]] = {}
    for group, name, value in _all_entry_points(prefix, _metadata_folders(path)):
        if group.startswith(prefix):
            groups.setdefault(group, {})[name] = value
    return groups


def _all_entry_points(
    prefix: str, folders: Mapping[str, str] | None
) -> Iterator[tuple[str, str, str]]:
    """Yield group, name and value of entry points, at least of those whose group begins with a prefix.

    A package that has such a group may yield entry points of its other groups as well; the caller drops them.

    Args:
        prefix: The beginning of the groups' names.
        folders: The metadata folder of each package. If it is None, `importlib.metadata` is used, which is slower.
    """
    if folders is not None:
        for content in _read_in_each(_ENTRY_POINTS_FILE, folders.values()):
            if f"[{prefix}".encode() in content:
                yield from _parse_entry_points(content.decode())
        return
    from importlib.metadata import entry_points

    all_points = entry_points()
    for group in all_points.groups:
        for point in all_points.select(group=group):
            yield group, point.name, point.value


def _parse_entry_points(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield group, name and value of each entry point in the text of a package's `entry_points.txt`."""
    group = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            group = line.strip("[]")
        elif line and not line.startswith("#"):
            name, _, value = line.partition("=")
            yield group, name.strip(), value.strip()


def _version(name: str, folders: Mapping[str, str] | None) -> str:
    """Return the installed version of a package, such as `2.1.0`; empty if it is not installed.

    Args:
        name: The name of the package.
        folders: The result of `_metadata_folders`.
    """
    if folders is not None:
        folder = folders.get(_normalised(name), "")
        folder_name = folder.rpartition("/")[2]  # such as numpy-2.1.0.dist-info
        return folder_name.removesuffix(_METADATA_SUFFIX).partition("-")[2]
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _read_in_each(file: str, folders: Iterable[str]) -> Iterator[bytes]:
    """Yield the content of the file of this name in each folder that has one."""
    for folder in folders:
        try:
            with open(f"{folder}/{file}", "rb", 0) as opened:  # noqa: PTH123 - there are hundreds
                yield opened.read()
        except FileNotFoundError:
            continue


@cache
def _metadata_folders(path: tuple[str, ...]) -> Mapping[str, str] | None:
    """Return the metadata folder of each installed package by its normalised name, by listing the folders of a search
    path.

    For example `{"numpy": "/.../numpy-2.1.0.dist-info"}`. `importlib.metadata` does the same in 40 ms, a tenth of
    the time of a short command. For speed, this function also avoids the modules for paths, whose import takes 4
    ms.

    Returns:
        The folders; None if a package is installed in another form (an archive or the older kind of metadata), so
        that only `importlib.metadata` can find all of them.
    """
    folders: dict[str, str] = {}
    for place in path:
        try:
            listed = os.listdir(place or ".")  # noqa: PTH208
            names = [name for name in listed if name.endswith((_METADATA_SUFFIX, *_OLDER_SUFFIXES))]
        except FileNotFoundError:
            continue
        except NotADirectoryError:  # an archive
            return None
        if any(name.endswith(_OLDER_SUFFIXES) for name in names):
            return None
        for name in names:
            package = _normalised(name.partition("-")[0])
            # Of several versions on the search path, Python imports the first.
            folders.setdefault(package, f"{place or '.'}/{name}")
    return folders


def _normalised(name: str) -> str:
    return name.replace("-", "_").replace(".", "_").lower()
