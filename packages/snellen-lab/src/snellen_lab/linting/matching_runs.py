"""Find out whether a run evaluated a benchmark in the version that is built now."""

from __future__ import annotations

from snellen import DataError
from snellen.plugin_api import Benchmark, ScoredRun


def is_run_on(run: ScoredRun, benchmark: Benchmark) -> bool:
    """Return whether a benchmark was evaluated in a run.

    Raises:
        DataError: If another version of the benchmark was evaluated.
    """
    manifest = benchmark.manifest
    for use in run.manifest.benchmarks:
        if use.name != benchmark.name:
            continue
        if not use.matches_build(manifest.version, manifest.questions):
            raise DataError(
                f"{run.folder} asked {benchmark.name} version {use.version}, which is version {manifest.version} "
                "now; run the model again"
            )
        return True
    return False
