"""Names of what there is: benchmarks, suites, models, protocols, metrics and runs."""

from __future__ import annotations

from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

from snellen import registry
from snellen.building.benchmark import own_benchmarks
from snellen.building.source_state import is_built
from snellen.catalogue import entries
from snellen.catalogue.selection import select, suite_members
from snellen.errors import UnknownNameError
from snellen.models.known_models import known_models
from snellen.runs.run_folder import RUN_MANIFEST


def list_benchmarks(pattern: str = "", *, built: bool = False) -> list[str]:
    """Return the names of the benchmarks: those of the catalogue, then your own that are built on this machine.

    Args:
        pattern: A part of names, a glob or a suite. By default all benchmarks are listed.
        built: Whether to list only benchmarks that are built on this machine.

    Examples:
        >>> sn.list_benchmarks("modern/screen*")
        ['modern/screenspot', 'modern/screenspot-pro', 'modern/screenspot-v2']
        >>> sn.list_benchmarks("mmstar")
        ['modern/mmstar']
        >>> Image.new("RGB", (8, 8)).save("dog.png")
        >>> _ = sn.build([{"image": "dog.png", "question": "Which animal?", "answer": "dog"}], name="pets")
        >>> sn.list_benchmarks("pets", built=True)
        ['pets']
    """
    catalogue = entries()
    own = own_benchmarks()
    if built:
        names = [name for name, spec in catalogue.items() if is_built(spec)]
    else:
        names = list(catalogue)
    names += own
    if not pattern:
        return names
    matching: list[str] = []
    with suppress(UnknownNameError):  # then the pattern is only a part of names
        matching = [spec.name for spec in select(pattern) if spec.name in names]
    matching += [name for name in own if fnmatchcase(name, pattern)]
    containing = [name for name in names if pattern.casefold() in name.casefold()]
    return list(dict.fromkeys([*matching, *containing]))


def list_suites() -> list[str]:
    """Return the names of the suites.

    Examples:
        >>> "mmbench" in sn.list_suites()
        True
    """
    return list(suite_members())


def list_models() -> list[str]:
    """Return the forms of model strings. Those that begin with `snellen:` need no download.

    Examples:
        >>> [name for name in sn.list_models() if name.startswith("snellen:tiny")]
        ['snellen:tiny', 'snellen:tiny-xs']
    """
    return [name for name, _ in known_models()]


def list_protocols() -> list[str]:
    """Return the names of the protocols.

    Examples:
        >>> "circular" in sn.list_protocols()
        True
    """
    return registry.names("protocols")


def list_runs(folder: str | Path = "runs") -> list[str]:
    """Return the folders of the stored runs, the latest first, which `load_run` takes.

    Args:
        folder: Folder that contains the runs, also in folders of trainings.

    Examples:
        >>> _ = sn.evaluate("snellen:oracle", "eyechart/shape", limit=4, name="first")
        >>> sn.list_runs()
        ['runs/first']
    """
    manifests = [*Path(folder).glob(f"*/{RUN_MANIFEST}"), *Path(folder).glob(f"*/*/{RUN_MANIFEST}")]
    manifests.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    return [manifest.parent.as_posix() for manifest in manifests]


def list_metrics() -> list[str]:
    """Return the names of the metrics.

    Examples:
        >>> "anls" in sn.list_metrics()
        True
    """
    return registry.names("metrics")
