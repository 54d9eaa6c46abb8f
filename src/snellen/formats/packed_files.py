"""Tell what is in a file that `snellen pack` wrote, and how to unpack it."""

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
"""Names of files with the answers to questions begin with this text."""


class PackedFile(Struct, frozen=True):
    """What is in a file that `snellen pack` wrote: a benchmark, or runs with their benchmarks."""

    benchmark: str = ""
    """Name of the folder with the benchmark; empty if the file contains runs."""
    runs: tuple[str, ...] = ()
    """Names of the folders with runs; empty if the file contains only a benchmark."""
    has_answers: bool = False

    @property
    def folders(self) -> frozenset[str]:
        """Names of the folders that appear when the file is unpacked."""
        return frozenset({self.benchmark, *self.runs} - {""})


def read_packed(path: Path) -> PackedFile | None:
    """Return what is in a file that `snellen pack` wrote, without unpacking it; None for any other
    file.
    """
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
    """Return the commands that unpack and use a file that `snellen pack` wrote; empty for any other
    file.

    The text is a part of a sentence, such as `unpack it with ..., then ...`.
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
