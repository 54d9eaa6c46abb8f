"""Check that a build replaces an earlier one of the same name only if both come from the same
source, or the user agrees.

Runs keep the questions that they asked, but the answers are in the build. If it is replaced by
another one, these runs cannot be scored again.
"""

from __future__ import annotations

from pathlib import Path

from snellen.building.benchmark import MANIFEST, Benchmark, BenchmarkManifest
from snellen.callers import setting
from snellen.common.paths import slug
from snellen.errors import DataError

OWN_FILES = "files named by the user"
"""Origin of a source that was not downloaded, where its path is not known."""
ROWS_IN_MEMORY = "rows in memory"
"""Origin of rows that a program passed."""
HUB_PREFIX = "hf://"


def is_same_source(earlier: str, present: str) -> bool:
    """Return whether two builds come from the same source, perhaps from different versions of it.

    If one of the origins names no place, the answer is yes, because nothing shows that they differ. Two revisions of
    one dataset on the hub, such as `hf://org/name@1a2b3c4`, are the same source.

    Args:
        earlier: The origin of the earlier build, such as a path or an address.
        present: The origin of the present build.

    Examples:
        >>> is_same_source("hf://org/birds@1a2b3c4", "hf://org/birds@5d6e7f8")
        True
        >>> is_same_source("/home/ann/a/test.tsv", "/home/ann/b/test.tsv")
        False
    """
    without_place = ("", OWN_FILES)
    if earlier in without_place or present in without_place:
        return True
    if earlier.startswith(HUB_PREFIX) and present.startswith(HUB_PREFIX):
        earlier_dataset, _, _ = earlier.partition("@")
        present_dataset, _, _ = present.partition("@")
        return earlier_dataset == present_dataset
    return earlier == present


def check_replacement(target: Path, manifest: BenchmarkManifest) -> None:
    """Raise DataError if a new build would replace one that was built from another source and has other content.

    Args:
        target: The folder of the earlier build, if there is one.
        manifest: Manifest of the new build.
    """
    if not (target / MANIFEST).exists():
        return
    try:
        earlier = Benchmark(target).manifest
    except DataError:  # It is damaged, so nothing is lost.
        return
    earlier_origin = earlier.build_info.origin
    origin = manifest.build_info.origin
    if earlier.version == manifest.version or is_same_source(earlier_origin, origin):
        return
    name = manifest.spec.name
    earlier_build = name if earlier.spec.name == name else f"{target} ({earlier.spec.name})"
    # Suggest a name: after the folder if both files have the same name, or else after the file's ending.
    suffix = Path(origin).suffix.strip(".")
    addition = suffix if suffix.isalpha() else "2"
    if Path(origin).name == Path(earlier_origin).name:
        addition = slug(Path(origin).parent.name)
    suggested = f"{name.rpartition('/')[2]}-{addition}"
    raise DataError(
        f"{earlier_build} is already built from {earlier_origin}, and its runs need that build; name the one from {origin} "
        f"differently ({setting('name', suggested)}), or replace the earlier one ({setting('force', True)})"
    )


def other_source(name: str, earlier: str, present: str) -> str:
    """Return a text that says that a benchmark has been built from another source after it was run;
    empty if it has not.

    Examples:
        >>> other_source("test", "/home/ann/a/test.tsv", "/home/ann/b/test.tsv")
        'test was built from /home/ann/a/test.tsv when it was run, and now from /home/ann/b/test.tsv'
    """
    if is_same_source(earlier, present):
        return ""
    return f"{name} was built from {earlier} when it was run, and now from {present}"
