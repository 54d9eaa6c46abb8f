"""Measure thresholds from Python."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Unpack

from snellen.plugin_api import (
    RUN_FIELDS,
    Announce,
    ProgressListener,
    as_model_string,
    check_budget,
    check_known,
    ignore_progress,
    run_spec,
    silent,
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
    announce: Announce = silent,
    **fields: Unpack[RunKeywords],
) -> list[AcuityRun]:
    """Measure thresholds: how small, faint or crowded an object may be for a model to see it (docs/acuity.md).

    `models` are as in `evaluate`; `tests` are names (`letter-size`), all by default. `budget` is the most questions
    that a model is asked in all, else 48 for each test; a test ends early once its 95% interval is narrower than
    `width`, in octaves, or as a share of the range where levels are not spaced by ratios. `input_side` is the longer
    side to which a model behind an API reduces pictures. Other keywords are as in `evaluate`. Each run has `thresholds`
    and, for tests of places, `fields`. Raises as `evaluate` does.
    """
    listed = [
        as_model_string(entry)
        for entry in (models if isinstance(models, (list, tuple)) else [models])
    ]
    test_names = [tests] if isinstance(tests, str) else list(tests)
    benchmarks = [name if "/" in name else f"acuity/{name}" for name in test_names] or ["acuity"]
    check_known(fields, tuple(RUN_FIELDS), "field", "")
    spec = run_spec({"report": False, **fields, "benchmarks": benchmarks})
    runs = measure_spec(
        spec,
        listed,
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
