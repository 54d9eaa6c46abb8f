"""Files that `snellen pack` wrote: what is in them, and how they are unpacked."""

from __future__ import annotations

import shlex
import zipfile
from pathlib import Path

from msgspec import Struct

from snellen.callers import for_caller
from snellen.common.foreign import open_file

RECEIVED = "received"
"""The folder into which messages suggest to unpack, because `runs` may have runs of the same names."""
BENCHMARK_FILE = "benchmark.json"
"""The file that makes a folder a built benchmark."""
RUN_FILE = "manifest.json"
"""The file that makes a folder a run."""
ANSWERS_PREFIX = "answers."
"""How the names of files with the answers to questions begin."""


class PackedFile(Struct, frozen=True):
    """What a file that `snellen pack` wrote has in it."""

    benchmark: str = ""
    """Folder of the benchmark in it; empty if it has runs."""
    runs: tuple[str, ...] = ()
    """Folders of the runs in it."""
    has_answers: bool = False

    @property
    def folders(self) -> frozenset[str]:
        """The folders that unpacking makes."""
        return frozenset({self.benchmark, *self.runs} - {""})


def read_packed(path: Path) -> PackedFile | None:
    """Return what `snellen pack` put into a file; None for any other file. Nothing is unpacked."""
    try:
        with open_file(path) as file, zipfile.ZipFile(file) as archive:
            names = archive.namelist()
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError):
        return None
    benchmarks = [name.partition("/")[0] for name in names if name.endswith(f"/{BENCHMARK_FILE}")]
    runs = []
    for name in names:
        folder, _, file = name.partition("/")
        if file == RUN_FILE:
            runs.append(folder)
    has_answers = any(Path(name).name.startswith(ANSWERS_PREFIX) for name in names)
    if runs:  # a run has its questions as a benchmark of its own
        return PackedFile(runs=tuple(sorted(runs)), has_answers=has_answers)
    if benchmarks:
        return PackedFile(benchmark=benchmarks[0], has_answers=has_answers)
    return None


def how_to_unpack(path: Path) -> str:
    """Return what to type for an archive that `snellen pack` wrote; empty for any other file.

    The text is a clause such as `unpack it with ..., then ...`.
    """
    packed = read_packed(path) if path.suffix.lower() == ".zip" else None
    if packed is None:
        return ""
    unpack = shlex.join(("python", "-m", "zipfile", "-e", str(path), RECEIVED))
    if packed.benchmark:
        folder = f"{RECEIVED}/{packed.benchmark}"
        use = for_caller(
            f"`{shlex.join(('snellen', 'run', 'MODEL', folder))}`",
            f"sn.evaluate(MODEL, {folder!r})",
        )
    else:
        use = for_caller(f"`snellen view {RECEIVED}`", f"sn.load_run({RECEIVED!r})")
    return f"unpack it with `{unpack}`, then {use}"
