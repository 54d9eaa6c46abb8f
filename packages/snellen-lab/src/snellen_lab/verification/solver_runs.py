"""Runs of models that solve or judge questions for a check."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from snellen import load_model
from snellen.plugin_api import (
    Benchmark,
    ScoredBenchmark,
    Solvers,
    check_budget,
    evaluate_spec,
    run_spec,
    slug,
    snellen_home,
)


def run_solver(
    model: Any, benchmark: Benchmark, protocol: str, solvers: Solvers, images: Sequence[str] = ()
) -> tuple[str, ScoredBenchmark]:
    """Run a model on a benchmark, or continue its run, and reuse its replies from earlier checks.

    Args:
        model: A model, or a model string.
        benchmark: The benchmark.
        protocol: The protocol.
        solvers: Settings of the runs.
        images: Controls of the protocol by what replaces the image, such as `text`. With any, only these are run.

    Returns:
        The model's name, and the scored benchmark.
    """
    opened = load_model(model).model
    if "generate" not in opened.kinds:
        separator = "&" if "?" in protocol else "?"
        protocol += f"{separator}by=likelihood"
    protocols = [protocol]
    if images:
        controlled = quote(protocol, safe="?=")
        protocols = [f"control?picture={image}&of={controlled}" for image in images]
    version = benchmark.manifest.version
    spec = run_spec(
        {
            "benchmarks": [str(benchmark.folder)],
            "protocols": protocols,
            "name": f"verify-{slug(benchmark.name)}-{version}-{slug(opened.name)}",
            "runs": solvers.runs,
            "cache": str(snellen_home() / "verification" / "answers"),
            "allow_same_requests": True,
            "report": False,
        }
    )
    [finished] = evaluate_spec(spec, [opened], progress=solvers.progress, announce=solvers.announce)
    check_budget(finished.outcome, spec.execution.error_budget)
    return opened.name, finished.scored.benchmarks[0]
