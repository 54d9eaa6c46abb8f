"""What a number of several benchmarks covers: what counts alike in it, and what of all that is named is not in it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from snellen.catalogue import BenchmarkSpec, aggregation_of, suites
from snellen.records import Estimate, MeanOver
from snellen.scoring.scored_run import ScoredRun

MOST_NAMED = 8
"""More names than this are counted."""


def counted_alike(specs: Iterable[BenchmarkSpec]) -> MeanOver:
    """What counts alike in a number of these benchmarks; the benchmarks, where their suites do not agree."""
    rules = {aggregation_of(spec) for spec in specs}
    over: set[MeanOver] = {"questions" if rule.counts_questions else rule.over for rule in rules}
    return over.pop() if len(over) == 1 else "benchmarks"


def member_names(run: ScoredRun, names: Collection[str]) -> str:
    """Benchmarks by name, each with the part of its questions that was asked: the same words, the same questions."""
    parts = dict(_asked_parts(run))
    return ", ".join(f"{name} ({parts[name]})" if name in parts else name for name in sorted(names))


def missing_words(
    run: ScoredRun, names: Collection[str], estimate: Estimate, *, with_options: bool, dimension: str = ""
) -> str:
    """What a number of these benchmarks lacks of all that their suites name, in one dimension or, without one, in all.

    `with_options`: benchmarks of open questions are not missed. Those of the user's own are all there. Empty when every
    question of every benchmark has its value.
    """
    specs = [spec for spec in _named(run, with_options) if dimension in ("", spec.dimension)]
    missing = [spec for spec in specs if spec.name not in names]
    words = []
    if missing and dimension:
        words.append(without_words(spec.name for spec in missing))
    elif missing:
        words.append(f"{len(names)} of {len(names) + len(missing)} benchmarks")
    if partly := [name.rpartition("/")[2] for name, _ in _asked_parts(run) if name in names]:
        words.append(f"only part of the questions of {few_names(partly)} was asked")
    questions = estimate.n + estimate.unscored + estimate.errors
    if estimate.n < questions:
        words.append(f"{estimate.n:,} of {questions:,} questions have a value")
    return "; ".join(words)


def without_words(names: Iterable[str]) -> str:
    """`without sroie, funsd`: benchmarks that a number of several does not hold; empty for none."""
    listed = few_names(name.rpartition("/")[2] for name in names)
    return f"without {listed}" if listed else ""


def missing_dimensions(run: ScoredRun, present: Collection[str], *, with_options: bool) -> str:
    """`3 of 8 dimensions`: how many of those that the suites of a run name are there; empty when all are."""
    dimensions = dict.fromkeys(spec.dimension for spec in _named(run, with_options))
    return f"{len(present)} of {len(dimensions)} dimensions" if set(dimensions) - set(present) else ""


def _named(run: ScoredRun, with_options: bool) -> list[BenchmarkSpec]:
    """The benchmarks with a dimension of all suites that take part in a run, and the run's own."""
    own_specs = {scored.spec.name: scored.spec for scored in run.benchmarks if scored.spec.dimension}
    taking_part = {spec.suite for spec in own_specs.values()}
    listed = {spec.name: spec for suite in taking_part for spec in suites().get(suite, ()) if spec.dimension}
    return [spec for spec in {**listed, **own_specs}.values() if not with_options or spec.formulation != "text"]


def _asked_parts(run: ScoredRun) -> Iterator[tuple[str, str]]:
    """Benchmarks of which only a part was asked, and which part."""
    counts = {scored.spec.name: len(scored.samples) for scored in run.benchmarks}
    for use in run.manifest.benchmarks:
        first = f"first {use.limit}" if use.limit is not None and counts.get(use.name, 0) >= use.limit else ""
        drawn = "" if use.part is None or use.part.is_whole else str(use.part)
        if part := ", ".join(filter(None, [f"where {use.where}" if use.where else "", first, drawn])):
            yield use.name, part


def few_names(names: Iterable[str]) -> str:
    """In alphabetical order; of many, the first ones and how many more there are."""
    ordered = sorted(names)
    more = len(ordered) - MOST_NAMED
    return ", ".join(ordered) if more <= 1 else f"{', '.join(ordered[:MOST_NAMED])} and {more} others"
