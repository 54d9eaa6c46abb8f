"""Which benchmarks and questions a number of several benchmarks covers, in words."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from snellen.catalogue import BenchmarkSpec, entries, suite_members
from snellen.records import Estimate
from snellen.scoring.scored_run import ScoredRun

MOST_NAMED = 8
"""More names than this are counted."""


def member_names(run: ScoredRun, names: Collection[str]) -> str:
    """Benchmarks by name, each with the part of its questions that was asked: the same words, the same questions."""
    parts = dict(_asked_parts(run))
    own = {parts.get(name, "") for name in names}
    if len(names) > 1 and len(own) == 1 and (part := own.pop()):
        return f"{', '.join(sorted(names))} (each: {part})"
    return ", ".join(f"{name} ({parts[name]})" if name in parts else name for name in sorted(names))


def missing_words(
    run: ScoredRun,
    names: Collection[str],
    estimate: Estimate,
    *,
    with_options: bool,
    dimension: str = "",
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
        every = len(names) + len(missing)
        which = f"{every} benchmarks with options" if with_options else f"all {every} benchmarks"
        words.append(f"{len(names)} of {which}")
    if not dimension:
        asked = [
            scored.spec
            for scored in run.benchmarks
            if len(scored.predictions) and scored.spec.name not in names
        ]
        words.append(
            without_words(s.name for s in asked if not with_options or s.formulation != "text")
        )
    if partly := [name.rpartition("/")[2] for name, _ in _asked_parts(run) if name in names]:
        words.append(f"only part of the questions of {few_names(partly)} was asked")
    if estimate.n < estimate.questions:
        words.append(f"{estimate.n:,} of {estimate.questions:,} questions have a value")
    return "; ".join(filter(None, words))


def without_words(names: Iterable[str]) -> str:
    """`without sroie, funsd`: benchmarks that a number of several does not hold; empty for none."""
    listed = few_names(name.rpartition("/")[2] for name in names)
    return f"without {listed}" if listed else ""


def missing_dimensions(run: ScoredRun, present: Collection[str], *, with_options: bool) -> str:
    """`3 of 8 dimensions`: how many of those that the suites of a run name are there; empty when all are."""
    dimensions = dict.fromkeys(spec.dimension for spec in _named(run, with_options))
    return (
        f"{len(present)} of {len(dimensions)} dimensions" if set(dimensions) - set(present) else ""
    )


def _named(run: ScoredRun, with_options: bool) -> list[BenchmarkSpec]:
    """The benchmarks with a dimension of all suites that take part in a run, and the run's own."""
    own_specs = {
        scored.spec.name: scored.spec for scored in run.benchmarks if scored.spec.dimension
    }
    taking_part = {spec.suite for spec in own_specs.values()}
    catalogue, members = entries(), suite_members()
    listed = {
        name: catalogue[name]
        for suite in taking_part
        for name in members.get(suite, ())
        if catalogue[name].dimension
    }
    return [
        spec
        for spec in {**listed, **own_specs}.values()
        if not with_options or spec.formulation != "text"
    ]


def _asked_parts(run: ScoredRun) -> Iterator[tuple[str, str]]:
    """Benchmarks of which only a part was asked, and which part."""
    counts = {scored.spec.name: len(scored.samples) for scored in run.benchmarks}
    for use in run.manifest.benchmarks:
        first = (
            f"first {use.limit}"
            if use.limit is not None and counts.get(use.name, 0) >= use.limit
            else ""
        )
        drawn = "" if use.part is None or use.part.is_whole else str(use.part)
        if part := ", ".join(
            filter(None, [f"where {use.where}" if use.where else "", first, drawn])
        ):
            yield use.name, part


def few_names(names: Iterable[str]) -> str:
    """In alphabetical order; of many, the first ones and how many more there are."""
    ordered = sorted(names)
    more = len(ordered) - MOST_NAMED
    return (
        ", ".join(ordered) if more <= 1 else f"{', '.join(ordered[:MOST_NAMED])} and {more} others"
    )
