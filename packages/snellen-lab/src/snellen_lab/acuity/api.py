"""Python interface to the measurement of thresholds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Unpack

from snellen import ignore_progress
from snellen.plugin_api import (
    Announce,
    ProgressListener,
    announce_nothing,
    as_model_string,
    check_budget,
    run_spec,
)
from snellen_lab.acuity import WIDTH
from snellen_lab.acuity.acuity_run import AcuityRun
from snellen_lab.acuity.measuring import measure_spec

if TYPE_CHECKING:
    from snellen_lab.keywords import RunKeywords


def measure_acuity(
    models: Any,
    tests: str | Iterable[str] = (),
    *,
    budget: int | None = None,
    width: float = WIDTH,
    input_side: int | None = None,
    progress: ProgressListener = ignore_progress,
    announce: Announce = announce_nothing,
    **fields: Unpack[RunKeywords],
) -> list[AcuityRun]:
    """Measure thresholds: how small, faint or crowded an object may be for a model to see it (docs/acuity.md).

    Args:
        models: One model or several, as in `evaluate`.
        tests: Names of tests, such as `letter-size`; all by default.
        budget: Maximum number of questions per model; by default 48 for each test.
        width: Width of a 95% interval at which a test stops, in octaves, or as a share of the range if levels are not
            spaced by ratios.
        input_side: Longer side in pixels to which a model behind an API reduces images.
        progress: Receives the progress of requests.
        announce: Receives lines for the user.
        fields: Other keywords, as in `evaluate`.

    Returns:
        One run per model. It has `thresholds` and, for tests of places, `fields`. Raises as `evaluate` does.
    """
    entries = models if isinstance(models, (list, tuple)) else [models]
    evaluated = [as_model_string(entry) for entry in entries]
    test_names = [tests] if isinstance(tests, str) else list(tests)
    benchmarks = [name if "/" in name else f"acuity/{name}" for name in test_names]
    if not benchmarks:
        benchmarks = ["acuity"]
    spec = run_spec({"report": False, **fields, "benchmarks": benchmarks})
    runs = measure_spec(
        spec,
        evaluated,
        budget=budget,
        width=width,
        input_side=input_side,
        progress=progress,
        announce=announce,
    )
    for run in runs:
        if run.outcome is not None:
            check_budget(run.outcome, spec.execution.error_budget)
    return runs
