"""Finding entries by name, glob, suite, dimension, task, or a named part of a suite."""

from __future__ import annotations

import fnmatch
import re

from snellen import registry
from snellen.catalogue.cards import benchmarks_seen
from snellen.catalogue.entries import BenchmarkSpec
from snellen.catalogue.loading import entries, suite_facts
from snellen.errors import DataError


def suites() -> dict[str, tuple[BenchmarkSpec, ...]]:
    catalogue = entries()
    return {suite: tuple(catalogue[name] for name in names) for suite, names in suite_members().items()}


def suite_members() -> dict[str, list[str]]:
    """The names of each suite's benchmarks; their files are not read for it."""
    members: dict[str, list[str]] = {}
    catalogue = entries()
    for name in catalogue:
        if suite := catalogue.suite_of(name):
            members.setdefault(suite, []).append(name)
    return members


def select(pattern: str) -> tuple[BenchmarkSpec, ...]:
    """Entries for a name, a glob (`eyechart/*`), a suite, a suite's part (`eyechart:spatial`), a name without its
    suite (of several benchmarks that of a suite that claims short names), or the same words in another order.

    Raises UnknownNameError with similar names when there are none, and DataError for a short name that several have.
    """
    catalogue, groups = entries(), suite_members()
    if pattern in catalogue:
        return (catalogue[pattern],)
    if pattern in groups:
        return tuple(catalogue[name] for name in groups[pattern])
    suite, _, part = pattern.partition(":")
    if suite in groups and part:
        return _suite_part(suite, part)
    chosen = tuple(catalogue[name] for name in catalogue if fnmatch.fnmatchcase(name, pattern)) or _by_short(pattern)
    if chosen:
        return chosen
    if len(same_words := [name for name in catalogue if _words(name) == _words(pattern)]) == 1:
        return (catalogue[same_words[0]],)
    raise registry.unknown("benchmark", pattern, [*catalogue, *groups])


def _words(name: str) -> list[str]:
    """The words of a name, as other harnesses write it too: MMBench_DEV_EN and mmbench_en_dev are mmbench/dev-en."""
    return sorted(re.split(r"[^a-z0-9]+", name.casefold()))


def _by_short(pattern: str) -> tuple[BenchmarkSpec, ...]:
    """The benchmark with a short name, in any case of letters; none where nobody has it."""
    catalogue, short = entries(), pattern.casefold().replace("_", "-")
    names = [name for name in catalogue if name.rpartition("/")[2] == short]
    if len(names) > 1:
        claimed = [name for name in names if suite_facts()[catalogue.suite_of(name)].short_names]
        if len(claimed) != 1:
            raise DataError(f"{pattern} is {' and '.join(names)}; name one of them")
        names = claimed
    return tuple(catalogue[name] for name in names)


def _suite_part(suite: str, part: str) -> tuple[BenchmarkSpec, ...]:
    """The benchmarks of a suite's named part, of a dimension or of a task."""
    members, folded_part = [entries()[name] for name in suite_members()[suite]], part.casefold()
    named_parts = suite_facts()[suite].parts if suite in suite_facts() else {}
    if named_part := named_parts.get(folded_part):
        excluded = {seen_benchmark.benchmark for seen_benchmark in benchmarks_seen(members, named_part.held_out_for)}
        return tuple(spec for spec in members if spec.name not in excluded)
    chosen = tuple(spec for spec in members if folded_part in (spec.dimension.casefold(), spec.task.casefold()))
    if chosen:
        return chosen
    parts = dict.fromkeys(name.casefold() for spec in members for name in (spec.dimension, spec.task) if name)
    parts |= dict.fromkeys(named_parts)
    raise registry.unknown(f"part of the suite {suite}", part, parts)
