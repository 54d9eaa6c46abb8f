"""Describe in words which benchmarks and questions a number over several benchmarks covers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from snellen.catalogue import BenchmarkSpec, entries, suite_members
from snellen.records import Estimate
from snellen.scoring.scored_run import ScoredRun

MAX_LISTED_NAMES = 8
"""Names in a list at most; further ones are counted."""


def member_names(run: ScoredRun, names: Collection[str]) -> str:
    """Join names of benchmarks, each with the part of its questions that was run, such as `vqa (first 100)`.

    If the same part of each benchmark was run, it is named once at the end: `a, b (each: first 100)`. So two equal
    texts mean equal questions.
    """
    part_by_name = dict(_partly_run_benchmarks(run))
    distinct_parts = {part_by_name.get(name, "") for name in names}
    if len(names) > 1 and len(distinct_parts) == 1:
        [common_part] = distinct_parts
        if common_part:
            return f"{', '.join(sorted(names))} (each: {common_part})"

    described: list[str] = []
    for name in sorted(names):
        if name in part_by_name:
            described.append(f"{name} ({part_by_name[name]})")
        else:
            described.append(name)
    return ", ".join(described)


def describe_missing(
    run: ScoredRun,
    names: Collection[str],
    estimate: Estimate,
    *,
    with_options: bool,
    dimension: str = "",
) -> str:
    """Describe which benchmarks and questions a summary number does not include, such as `7 of all 8 benchmarks`.

    Args:
        run: The run.
        names: The benchmarks that the number includes.
        estimate: The number.
        with_options: Whether the number is expected to include only benchmarks with multiple-choice questions.
        dimension: The ability dimension that the number is about; if empty, benchmarks of all dimensions are expected.

    Returns:
        Clauses separated by semicolons; empty if nothing is missing.
    """
    clauses: list[str] = []
    missing: list[str] = []
    for spec in _expected_specs(run, with_options):
        if dimension in ("", spec.dimension) and spec.name not in names:
            missing.append(spec.name)
    if missing and dimension:
        clauses.append(describe_left_out(missing))
    elif missing:
        total = len(names) + len(missing)
        expected = f"{total} benchmarks with options" if with_options else f"all {total} benchmarks"
        clauses.append(f"{len(names)} of {expected}")

    if not dimension:
        unused: list[str] = []
        for scored in run.benchmarks:
            is_expected = not with_options or scored.spec.formulation != "text"
            if len(scored.predictions) and scored.spec.name not in names and is_expected:
                unused.append(scored.spec.name)
        clauses.append(describe_left_out(unused))

    partly_run = [
        name.rpartition("/")[2] for name, _ in _partly_run_benchmarks(run) if name in names
    ]
    if partly_run:
        clauses.append(f"only some of the questions of {few_names(partly_run)} were run")
    if estimate.n < estimate.questions:
        clauses.append(f"{estimate.n:,} of {estimate.questions:,} questions have a value")
    return "; ".join(clause for clause in clauses if clause)


def describe_left_out(names: Iterable[str]) -> str:
    """Return the benchmarks that a number leaves out as a text: `without sroie, funsd`; empty without any."""
    listed = few_names(name.rpartition("/")[2] for name in names)
    return f"without {listed}" if listed else ""


def missing_dimensions(run: ScoredRun, present: Collection[str], *, with_options: bool) -> str:
    """Describe how many ability dimensions a number includes, such as `3 of 8 dimensions`.

    Args:
        run: The run. Its suites determine which dimensions are expected.
        present: The dimensions that the number includes.
        with_options: Whether only benchmarks with multiple-choice questions are expected.

    Returns:
        The description; empty if no expected dimension is missing.
    """
    expected = {spec.dimension for spec in _expected_specs(run, with_options)}
    if expected <= set(present):
        return ""
    return f"{len(present)} of {len(expected)} dimensions"


def _expected_specs(run: ScoredRun, with_options: bool) -> list[BenchmarkSpec]:
    """Return the benchmarks that a number over several benchmarks is expected to include.

    These are the benchmarks of the run and all others of its suites, without those that have no ability dimension.

    Args:
        run: The run.
        with_options: Whether to leave out benchmarks whose questions have no options.
    """
    run_specs: dict[str, BenchmarkSpec] = {}
    for scored in run.benchmarks:
        if scored.spec.dimension:
            run_specs[scored.spec.name] = scored.spec

    catalogue = entries()
    members = suite_members()
    specs: dict[str, BenchmarkSpec] = {}
    for suite in {spec.suite for spec in run_specs.values()}:
        for name in members.get(suite, ()):
            if catalogue[name].dimension:
                specs[name] = catalogue[name]
    # The run's own version of a benchmark counts.
    specs |= run_specs
    if not with_options:
        return list(specs.values())
    return [spec for spec in specs.values() if spec.formulation != "text"]


def _partly_run_benchmarks(run: ScoredRun) -> Iterator[tuple[str, str]]:
    """Yield each benchmark of which a run used only some questions, and what restricted them.

    Yields:
        The name of the benchmark, and a description such as `where level=hard, first 100`.
    """
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
            yield use.name, ", ".join(restrictions)


def few_names(names: Iterable[str]) -> str:
    """Join names in alphabetical order. If there are many, only the first ones are listed and the others counted.

    Examples:
        >>> few_names([f"q{i}" for i in range(20)])
        'q0, q1, q10, q11, q12, q13, q14, q15 and 12 others'
    """
    ordered = sorted(names)
    n_unlisted = len(ordered) - MAX_LISTED_NAMES
    if n_unlisted <= 1:
        return ", ".join(ordered)
    listed = ", ".join(ordered[:MAX_LISTED_NAMES])
    return f"{listed} and {n_unlisted} others"
