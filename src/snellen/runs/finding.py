"""Finds the benchmarks that names stand for, and fetches and builds those that are not here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from snellen import registry
from snellen.building.benchmark import MANIFEST, Benchmark, Selection, own_benchmarks
from snellen.building.builder import build_benchmark
from snellen.building.source_state import is_built, kept_state, source_state
from snellen.catalogue import BenchmarkSpec, PromptSet, entries, entry_file, select, suite_members
from snellen.catalogue.cards import benchmarks_seen, load_cards
from snellen.catalogue.forms import unknown_benchmark
from snellen.common.conditions import Condition
from snellen.common.paths import as_word, benchmark_folder
from snellen.errors import (
    DataError,
    MissingExtraError,
    NoSourceError,
    NotFetchedError,
    SnellenError,
    UnknownNameError,
)
from snellen.protocols.prompts.templates import (
    declared_sets,
)

Announce = Callable[[str], object]
"""Called with one line for the user."""


def silent(line: str) -> None:
    """Says nothing."""


class AbsentBenchmark(Struct, frozen=True):
    """A benchmark that could not be fetched."""

    name: str
    fault: str


class SelectedBenchmark(Struct, frozen=True):
    """A benchmark and which of its samples take part."""

    benchmark: Benchmark
    selection: Selection
    earlier: Selection | None = None
    """What this call has asked already, where it asks in rounds."""


def benchmarks_without_prompts(
    patterns: Sequence[str], name: str, announce: Announce = silent
) -> tuple[str, ...]:
    """Names of the benchmarks whose entries do not declare a set of prompts that others do, which is announced.

    Raises DataError where no benchmark of the patterns has it.
    """
    if not name:
        return ()
    sets = {spec.name: prompts_of(spec) for pattern in patterns for spec in specs_of(pattern)}
    if name not in {*declared_sets(), *(own for prompts in sets.values() for own in prompts)}:
        return ()
    lacking = tuple(benchmark for benchmark, prompts in sets.items() if name not in prompts)
    if len(lacking) == len(sets):
        declared = (
            ", ".join(sorted({own for prompts in sets.values() for own in prompts})) or "none"
        )
        raise DataError(
            f"no set of prompts {name!r} is declared for {', '.join(lacking)}; declared: {declared}"
        )
    if lacking:
        announce(
            f"left out, as no set of prompts {name!r} is declared for them: {', '.join(lacking)}"
        )
    return lacking


def prompts_of(spec: BenchmarkSpec) -> dict[str, PromptSet]:
    """The sets of prompts of a benchmark, by its entry of today: they are not part of what is built."""
    return entry_of_today(spec).prompts


def entry_of_today(spec: BenchmarkSpec) -> BenchmarkSpec:
    """What the catalogue says of a benchmark that was built, perhaps by an earlier entry."""
    return entries().get(spec.name, spec)


def find_benchmarks(
    patterns: Sequence[str],
    where: str = "",
    limit: int | None = None,
    announce: Announce = silent,
    *,
    without: Collection[str] = (),
    partial: bool = False,
    absent: list[AbsentBenchmark] | None = None,
) -> list[SelectedBenchmark]:
    """The benchmarks that names, globs, suites or folders stand for, built when they are not.

    One that is not built yet is fetched and built. Those called one of `without` are left out, built or not; with
    `partial` also those of a suite or glob that cannot be fetched, which is announced, as long as there is another.
    Those that cannot be fetched are added to `absent`, if that is given and others are left.
    Raises UnknownNameError for a name that nobody has, DataError when none is left or one cannot be fetched.
    """
    condition = Condition(where) if where else None
    by_folder: dict[Path, Benchmark] = {}
    faults: list[tuple[str, SnellenError]] | None = None if absent is None else []
    for pattern in patterns:
        for benchmark in _open(
            pattern, condition, announce, without, partial, None if where else limit, faults
        ):
            if benchmark.name not in without:
                by_folder.setdefault(benchmark.folder.resolve(), benchmark)
    benchmarks = list(by_folder.values())
    if absent is not None and faults:
        if not benchmarks:
            raise faults[0][1]
        for name, fault in faults:
            absent.append(AbsentBenchmark(name, str(fault)))
            announce(f"{name} cannot be fetched and is left out: {fault}")
    _check_names(benchmarks)
    if condition:
        _check_facts(condition, benchmarks)
    uses = []
    for benchmark in benchmarks:
        facts = benchmark.spec.facts()
        by_facts = (
            condition is not None
            and condition.names <= facts.keys() - benchmark.manifest.tags.keys()
        )
        if condition and by_facts and not condition.holds(facts):
            continue
        use = SelectedBenchmark(benchmark, Selection("" if by_facts else where, limit))
        if benchmark.count(use.selection):
            uses.append(use)
    if not uses:
        if alone := [
            candidate.name
            for candidate in benchmarks
            if candidate.manifest.counts.examples and not candidate.count()
        ]:
            raise DataError(
                f"{alone[0]} has examples alone and nothing to ask; show them with --few-shot-from"
            )
        if not where:
            raise DataError(
                f"nothing of {', '.join(patterns)} is left: a model has seen the data of all of them"
            )
        raise DataError(f"no sample of {', '.join(patterns)} fits --where {where!r}")
    return uses


def open_benchmark(pattern: str) -> Benchmark:
    """The one benchmark that a name or folder stands for. Raises UnknownNameError or DataError."""
    benchmarks = list(_open(pattern, None, silent, (), False, None, None))
    if len(benchmarks) != 1:
        raise DataError(f"{pattern} stands for {len(benchmarks)} benchmarks; name one of them")
    return benchmarks[0]


def _check_names(benchmarks: Sequence[Benchmark]) -> None:
    folders: dict[str, Path] = {}
    for benchmark in benchmarks:
        namesake = folders.setdefault(benchmark.name, benchmark.folder)
        if namesake != benchmark.folder:
            raise DataError(
                f"{namesake} and {benchmark.folder} are both called {benchmark.name}; leave one out, or build it "
                "again under another name"
            )


def _check_facts(condition: Condition, benchmarks: Sequence[Benchmark]) -> None:
    """A fact may be missing from some benchmarks; one that no benchmark has is a typing error."""
    names = {
        name
        for benchmark in benchmarks
        for name in (*benchmark.spec.facts(), *benchmark.manifest.tags)
    }
    after = (
        condition.names
        & {name for benchmark in benchmarks for name in benchmark.manifest.answer_tags} - names
    )
    if after:
        raise DataError(
            f"--where: {min(after)!r} tells of the answers, which no run may know; choose by it when scoring, "
            "snellen score --where"
        )
    if names and (unknown := condition.names - names):
        raise DataError(f"--where: {registry.unknown('fact', min(unknown), names)}")


def _open(
    pattern: str,
    condition: Condition | None,
    announce: Announce,
    without: Collection[str],
    partial: bool,
    limit: int | None,
    faults: list[tuple[str, SnellenError]] | None,
) -> Iterator[Benchmark]:
    """Yield the benchmarks of a pattern; those that cannot be fetched are added to `faults`, if that is given."""
    folder = Path(pattern).expanduser()
    if (folder / MANIFEST).exists():
        yield Benchmark(folder)
        return
    if (benchmark_folder(pattern) / MANIFEST).exists() and pattern not in entries():
        benchmark = Benchmark(benchmark_folder(pattern))
        for place in kept_state(pattern).changed_sources():
            announce(
                f"{place} has changed since {pattern} was built of it; build it again to ask what it says now"
            )
        yield benchmark
        return
    _check_folder(pattern)
    try:
        chosen = select(pattern)
    except UnknownNameError:
        _check_file(pattern)
        if pattern.partition(":")[0] in suite_members():
            raise
        raise unknown_benchmark(pattern, [*own_benchmarks(), *suite_members()]) from None
    specs = [spec for spec in chosen if spec.name not in without and _may_hold(condition, spec)]
    if not partial or len(specs) == 1:
        for spec in specs:
            try:
                yield _built_benchmark(spec, announce, limit)
            except (NoSourceError, MissingExtraError) as error:
                if faults is None:
                    raise
                faults.append((spec.name, error))
        return
    missing = [spec for spec in specs if not is_ready(spec)]
    if len(missing) > 1:
        from snellen.fetching.sources import announce_fetch

        announce_fetch(missing)
    opened: list[Benchmark] = []
    left_out: list[tuple[BenchmarkSpec, SnellenError]] = []
    for spec in specs:
        try:
            opened.append(_built_benchmark(spec, announce, limit))
        except (DataError, MissingExtraError) as error:
            if spec not in missing:
                raise
            left_out.append((spec, error))
    if left_out and not opened:
        if faults is None:
            raise left_out[0][1]
        faults.append((pattern, left_out[0][1]))
        return
    for spec, fault in left_out:
        if isinstance(fault, NotFetchedError | MissingExtraError) and faults is not None:
            faults.append((spec.name, fault))
        elif not isinstance(fault, NoSourceError):
            announce(f"{spec.name} is not built: {fault}")
    if left_out:
        announce(
            f"not built yet, left out of {pattern}: {', '.join(spec.short for spec, _ in left_out)}"
        )
    yield from opened


def is_ready(spec: BenchmarkSpec) -> bool:
    """Whether a benchmark is built, or can be without fetching anything."""
    return spec.source.embedded or is_built(spec)


def _may_hold(condition: Condition | None, spec: BenchmarkSpec) -> bool:
    """Whether a condition may hold of a benchmark's samples, by its facts alone."""
    facts = spec.facts()
    return condition is None or not condition.names <= set(facts) or condition.holds(facts)


def held_out_benchmarks(
    patterns: Sequence[str], models: Sequence[str], cards: str = "", announce: Announce = silent
) -> tuple[str, ...]:
    """Names of the benchmarks whose data one of the models was trained on, by model cards (a file of the user's
    beside Snellen's own); each is announced with the reason. Raises UnknownNameError, DataError."""
    if not models:
        return ()
    own_cards = load_cards(Path(cards)) if cards else None
    specs = {spec.name: spec for pattern in patterns for spec in specs_of(pattern)}
    reasons = benchmarks_seen(specs.values(), models, own_cards)
    for reason in reasons:
        announce(f"left out: {reason}")
    return tuple(reason.benchmark for reason in reasons)


def specs_of(pattern: str) -> tuple[BenchmarkSpec, ...]:
    """The facts of what a name, glob, suite or folder stands for, built or not."""
    for folder in (Path(pattern).expanduser(), benchmark_folder(pattern)):
        if (folder / MANIFEST).exists() and pattern not in entries():
            return (Benchmark(folder).spec,)
    _check_folder(pattern)
    return select(pattern)


def _check_folder(pattern: str) -> None:
    """Raise DataError for what is written as a folder: no benchmark is there."""
    folder = Path(pattern).expanduser()
    if not pattern.startswith((".", "/", "~")):
        return
    _check_file(pattern)
    fault = (
        f"{folder} is not a built benchmark" if folder.is_dir() else f"there is no folder {pattern}"
    )
    raise DataError(f"{fault}; build it with `snellen build FILE --to {as_word(folder)}`")


def _check_file(pattern: str) -> None:
    """Raise DataError for a file, of which a benchmark is to be built first."""
    if Path(pattern).expanduser().is_file():
        raise DataError(
            f"{pattern} is a file; `snellen build {as_word(pattern)}` makes a benchmark of it"
        )


def _built_benchmark(spec: BenchmarkSpec, announce: Announce, limit: int | None) -> Benchmark:
    """A benchmark, or a part of it that has what a run with this limit asks; fetched and built where it is not here."""
    folder = benchmark_folder(spec.name)
    reason = ""
    if (folder / MANIFEST).exists() and not (reason := outdated(spec)):
        return Benchmark(folder)
    again = f" again: {reason}" if reason else ""
    if spec.source.embedded or (reason and source_state(spec).beside):
        announce(f"building {spec.name}{again}")
        return build_benchmark(spec)
    from snellen.fetching.parts import (
        build_part,
        built_part,
    )  # loaded where something is to be fetched
    from snellen.fetching.sources import fetch_source

    try:
        if limit is not None and (part := built_part(spec, limit) or build_part(spec, limit)):
            return part
        fetched = fetch_source(spec)
    except NoSourceError as error:
        fault = f"{spec.name} is not built{again}: {error}" if reason else str(error)
        raise type(error)(fault) from None
    announce(f"building {spec.name}{again}")
    return build_benchmark(fetched.spec, source=fetched.folder, origin=fetched.origin)


def outdated(spec: BenchmarkSpec) -> str:
    """Why a benchmark that is built is to be built again; empty where it is not."""
    kept = kept_state(spec.name)
    if not is_built(spec):
        return f"what is built is not of {entry_file(spec)}" + f", but of {kept.entry}" * bool(
            kept.entry
        )
    try:
        benchmark = Benchmark(benchmark_folder(spec.name))
    except DataError:
        return "what was built is of another format, or damaged" if spec.source.embedded else ""
    if spec.source.embedded and benchmark.spec != spec:
        return "its catalogue entry has changed"
    if (spec.source.embedded or kept.beside) and kept.beside != source_state(spec).beside:
        return "files beside its entry have changed"
    return ""
