"""Describe in words which benchmarks and questions a number over several benchmarks covers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from snellen.catalogue import BenchmarkSpec, entries, suite_members
from snellen.records import Estimate
from snellen.scoring.scored_run import ScoredRun

MOST_NAMED = 8
"""Names in a list at most; further ones are counted."""


def member_names(run: ScoredRun, names: Collection[str]) -> str:
    """Return the names of benchmarks, each with the part of its questions that was run, such as `vqa (first 100)`.

    If all benchmarks have the same part, it is named once. Equal texts thus mean equal questions.
    """
    asked_parts = dict(_asked_parts(run))
    distinct_parts = {asked_parts.get(name, "") for name in names}
    if len(names) > 1 and len(distinct_parts) == 1:
        [common_part] = distinct_parts
        if common_part:
            return f"{', '.join(sorted(names))} (each: {common_part})"
    return ", ".join(
        f"{name} ({asked_parts[name]})" if name in asked_parts else name for name in sorted(names)
    )


def describe_missing(
    run: ScoredRun,
    names: Collection[str],
    estimate: Estimate,
    *,
    with_options: bool,
    dimension: str = "",
) -> str:
    """Describe which benchmarks and questions a number does not cover; empty if it covers all.

    Args:
        run: The run.
        names: The benchmarks in the number.
        estimate: The number.
        with_options: Whether only benchmarks with options are expected.
        dimension: The dimension that the number is about; if empty, benchmarks of all dimensions are expected.
    """
    specs = [spec for spec in _named(run, with_options) if dimension in ("", spec.dimension)]
    missing = [spec for spec in specs if spec.name not in names]
    clauses = []
    if missing and dimension:
        clauses.append(without_words(spec.name for spec in missing))
    elif missing:
        total = len(names) + len(missing)
        expected = f"{total} benchmarks with options" if with_options else f"all {total} benchmarks"
        clauses.append(f"{len(names)} of {expected}")
    if not dimension:
        unused_specs = [
            scored.spec
            for scored in run.benchmarks
            if len(scored.predictions) and scored.spec.name not in names
        ]
        clauses.append(
            without_words(
                spec.name for spec in unused_specs if not with_options or spec.formulation != "text"
            )
        )
    partly_run = [name.rpartition("/")[2] for name, _ in _asked_parts(run) if name in names]
    if partly_run:
        clauses.append(f"only some of the questions of {few_names(partly_run)} were run")
    if estimate.n < estimate.questions:
        clauses.append(f"{estimate.n:,} of {estimate.questions:,} questions have a value")
    return "; ".join(filter(None, clauses))


def without_words(names: Iterable[str]) -> str:
    """Return the benchmarks that a number does not cover, such as `without sroie, funsd`; empty for none."""
    listed = few_names(name.rpartition("/")[2] for name in names)
    return f"without {listed}" if listed else ""


def missing_dimensions(run: ScoredRun, present: Collection[str], *, with_options: bool) -> str:
    """Return how many dimensions of the suites of a run are present, such as `3 of 8 dimensions`; empty if all are."""
    dimensions = {spec.dimension for spec in _named(run, with_options)}
    if dimensions <= set(present):
        return ""
    return f"{len(present)} of {len(dimensions)} dimensions"


def _named(run: ScoredRun, with_options: bool) -> list[BenchmarkSpec]:
    """Return the expected benchmarks that have a dimension: those of the run, and all of the suites in the run."""
    run_specs = {
        scored.spec.name: scored.spec for scored in run.benchmarks if scored.spec.dimension
    }
    suites = {spec.suite for spec in run_specs.values()}
    catalogue = entries()
    members = suite_members()
    suite_specs = {
        name: catalogue[name]
        for suite in suites
        for name in members.get(suite, ())
        if catalogue[name].dimension
    }
    return [
        spec
        for spec in {**suite_specs, **run_specs}.values()
        if not with_options or spec.formulation != "text"
    ]


def _asked_parts(run: ScoredRun) -> Iterator[tuple[str, str]]:
    """Yield the name of each benchmark that was run in part, with a description of the part."""
    counts = {scored.spec.name: len(scored.samples) for scored in run.benchmarks}
    for use in run.manifest.benchmarks:
        restrictions: list[str] = []
        if use.where:
            restrictions.append(f"where {use.where}")
        if use.limit is not None and counts.get(use.name, 0) >= use.limit:
            restrictions.append(f"first {use.limit}")
        if use.part is not None and not use.part.is_whole:
            restrictions.append(str(use.part))
        if restrictions:
            yield use.name, ", ".join(filter(None, restrictions))


def few_names(names: Iterable[str]) -> str:
    """Join names in alphabetical order. If there are many, the first ones are listed and the others counted.

    Examples:
        >>> few_names([f"q{i}" for i in range(20)])
        'q0, q1, q10, q11, q12, q13, q14, q15 and 12 others'
    """
    ordered = sorted(names)
    n_unlisted = len(ordered) - MOST_NAMED
    if n_unlisted <= 1:
        return ", ".join(ordered)
    return f"{', '.join(ordered[:MOST_NAMED])} and {n_unlisted} others"
