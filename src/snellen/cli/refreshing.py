"""`--refresh NAME` of the verb that reformulates: the next version of a benchmark."""

from __future__ import annotations

from pathlib import Path

from snellen.api import refresh
from snellen.cli.show import announce, build_progress, out, print_built
from snellen.paths import as_word


def refresh_and_print(name: str, source: Path | None, count: int | None, writer: str = "") -> None:
    """Build the next version of a benchmark, and say how much is left for the one after it."""
    with build_progress(name) as progress:
        benchmark = refresh(name, source=source, count=count, writer=writer or None, progress=progress)
    print_built(benchmark)
    made = benchmark.manifest.made
    announce(f"  new to {', '.join(version.name for version in made.earlier)}; {made.left:,} questions are left unused")
    out.print(
        f"next: snellen compare --drift RUNS_ON_{as_word(made.earlier[-1].name)} RUNS_ON_{as_word(benchmark.name)}"
    )
