"""Refuse to write results over a file that a benchmark of the user was built from."""

from __future__ import annotations

from pathlib import Path

from snellen.building.benchmark import own_benchmarks
from snellen.building.source_state import kept_state
from snellen.errors import DataError


def check_overwrites_no_source(path: Path) -> None:
    """Check that a file to write is not the table, or the TOML file, that a benchmark of the user was built from.

    Args:
        path: The file to write. It need not exist.

    Raises:
        DataError: A benchmark was built from it.

    Examples:
        >>> check_overwrites_no_source(Path("report.csv"))
    """
    if not path.is_file():
        return
    resolved_path = path.resolve()
    for name in own_benchmarks():
        state = kept_state(name)
        for source in (*state.tables, *state.own_entries):
            if Path(source).resolve() == resolved_path:
                other = path.with_stem(f"{path.stem}-results")
                raise DataError(
                    f"{path} is not overwritten, because the benchmark {name} was built from it; name another file, "
                    f"such as {other}"
                )
