"""Evaluate a model while it is trained, every so many steps, as one family of runs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from snellen.api import evaluate
from snellen.experiments.results import Results


def evaluate_step(
    model: Any,
    step: int,
    benchmarks: Any,
    protocols: str | Iterable[str] = (),
    *,
    name: str = "training",
    runs: str | Path = "runs",
    **fields: Any,
) -> Results:
    """Evaluate a model at a step of its training, for a training loop of any kind.

    The run is stored as `RUNS/NAME/step-STEP` under the label `NAME@STEP`. Reports and pages show the runs of one
    training as a curve.

    Args:
        model: A model as in `evaluate`, for example `sn.hf(model, processor)`.
        step: Number of the training step.
        benchmarks: Benchmarks as in `evaluate`.
        protocols: Protocols as in `evaluate`.
        name: Name of the training.
        runs: Folder of all trainings.
        fields: Further keywords of `evaluate`, such as `limit`.

    Raises:
        SnellenError: As `evaluate`.

    Examples:
        >>> for step in (0, 100):
        ...     results = sn.evaluate_step("snellen:tiny", step, "eyechart/shape", name="first", limit=8)
        >>> results.runs[0].folder.as_posix(), results.runs[0].manifest.executed[0].label
        ('runs/first/step-000100', 'first@100')
    """
    return evaluate(
        model,
        benchmarks,
        protocols,
        name=f"step-{step:06d}",
        label=f"{name}@{step}",
        runs=str(Path(runs) / name),
        **fields,
    )
