"""Finding entries by name, glob, suite, dimension, task, or a named part of a suite."""

from __future__ import annotations

import fnmatch

from snellen import registry
from snellen.catalogue.cards import benchmarks_seen
from snellen.catalogue.entries import BenchmarkSpec
from snellen.catalogue.loading import entries, suite_facts


def suites() -> dict[str, tuple[BenchmarkSpec, ...]]:
    names = dict.fromkeys(spec.suite for spec in entries().values() if spec.suite)
    return {name: tuple(spec for spec in entries().values() if spec.suite == name) for name in names}


def select(pattern: str) -> tuple[BenchmarkSpec, ...]:
    """Entries for a name, a glob (`eyechart/*`), a suite, or a suite's part (`eyechart:spatial`).

    Raises UnknownNameError with similar names when there are none.
    """
    catalogue, groups = entries(), suites()
    if pattern in catalogue:
        return (catalogue[pattern],)
    if pattern in groups:
        return groups[pattern]
    suite, _, part = pattern.partition(":")
    if suite in groups and part:
        folded_part = part.casefold()
        named_parts = suite_facts()[suite].parts if suite in suite_facts() else {}
        if named := named_parts.get(folded_part):
            seen = {seen_benchmark.benchmark for seen_benchmark in benchmarks_seen(groups[suite], named.held_out_for)}
            return tuple(spec for spec in groups[suite] if spec.name not in seen)
        chosen = tuple(
            spec for spec in groups[suite] if folded_part in (spec.dimension.casefold(), spec.task.casefold())
        )
        if chosen:
            return chosen
        parts = dict.fromkeys(name.casefold() for spec in groups[suite] for name in (spec.dimension, spec.task) if name)
        parts |= dict.fromkeys(named_parts)
        raise registry.unknown(f"part of the suite {suite}", part, parts)
    chosen = tuple(spec for name, spec in catalogue.items() if fnmatch.fnmatchcase(name, pattern))
    if chosen:
        return chosen
    raise registry.unknown("benchmark", pattern, [*catalogue, *groups])
