"""Find the benchmarks that names stand for, and fetch and build those that are missing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path

from msgspec import Struct

from snellen import registry
from snellen.building.benchmark import MANIFEST, Benchmark, Selection, own_benchmarks
from snellen.building.builder import build_benchmark
from snellen.building.recipe import BuildInputs
from snellen.building.source_state import is_built, kept_state, source_state
from snellen.callers import for_caller, setting
from snellen.catalogue import BenchmarkSpec, PromptSet, entries, entry_file, select, suite_members
from snellen.catalogue.cards import benchmarks_seen, model_cards
from snellen.catalogue.selection import unknown_benchmark
from snellen.common.conditions import Condition
from snellen.common.paths import benchmark_folder, expanded, shell_word
from snellen.errors import (
    AbsentBenchmarkError,
    DataError,
    MissingExtraError,
    NoSourceError,
    NotFetchedError,
    SnellenError,
    UnknownNameError,
)
from snellen.formats.packed_files import RECEIVED, how_to_unpack
from snellen.formats.suffixes import SUFFIXES, row_suffix
from snellen.protocols.prompts.templates import (
    declared_sets,
)

Announce = Callable[[str], object]
"""Called with one line for the user."""


def announce_nothing(line: str) -> None:
    """Ignore a line for the user.

    Examples:
        >>> announce_nothing("building birds")
    """


class AbsentBenchmark(Struct, frozen=True):
    """A benchmark that could not be fetched."""

    name: str
    fault: str


class SelectedBenchmark(Struct, frozen=True):
    """A benchmark and the selection of its samples."""

    benchmark: Benchmark
    selection: Selection
    earlier: Selection | None = None
    """Selection of the samples that earlier rounds have already sent, if the run has rounds."""


def benchmarks_without_prompts(
    patterns: Sequence[str], name: str, announce: Announce = announce_nothing
) -> tuple[str, ...]:
    """Return the names of the benchmarks that do not declare a set of prompts, and announce that they are skipped.

    Args:
        patterns: Names, globs, suites or folders of benchmarks.
        name: Name of the set of prompts. If no benchmark declares it, it is the name of prompt templates, which every
            benchmark can use, so nothing is returned.
        announce: Receives the announcement.

    Raises:
        DataError: None of these benchmarks has the set, but others have.
    """
    if not name:
        return ()
    names_by_benchmark: dict[str, set[str]] = {}
    all_names: set[str] = set()
    for pattern in patterns:
        for spec in matching_specs(pattern):
            names = set(prompts_of(spec))
            names_by_benchmark[spec.name] = names
            all_names |= names
    if name not in all_names and name not in declared_sets():
        return ()
    lacking = []
    for benchmark, names in names_by_benchmark.items():
        if name not in names:
            lacking.append(benchmark)
    if len(lacking) == len(names_by_benchmark):
        declared = ", ".join(sorted(all_names)) or "none"
        raise DataError(f"{', '.join(lacking)} has no set of prompts {name!r}; it has {declared}")
    if lacking:
        announce(f"skipped, because they have no set of prompts {name!r}: {', '.join(lacking)}")
    return tuple(lacking)


def prompts_of(spec: BenchmarkSpec) -> dict[str, PromptSet]:
    """Return the sets of prompts that a benchmark declares, by name.

    They are read from its present catalogue entry, because a build does not contain them.
    """
    return current_entry(spec).prompts


def current_entry(spec: BenchmarkSpec) -> BenchmarkSpec:
    """Return the present catalogue entry of a built benchmark.

    It may differ from the entry that the benchmark was built from. If there is no entry of that name, the one that the
    build contains is returned.
    """
    return entries().get(spec.name, spec)


def find_benchmarks(
    patterns: Sequence[str],
    where: str = "",
    limit: int | None = None,
    announce: Announce = announce_nothing,
    *,
    without: Collection[str] = (),
    partial: bool = False,
    absent: list[AbsentBenchmark] | None = None,
) -> list[SelectedBenchmark]:
    """Return the benchmarks that names, globs, suites or folders stand for; missing ones are fetched and built.

    Args:
        patterns: Names, globs, suites or folders.
        where: Condition on tags and facts that samples must meet.
        limit: Maximum number of samples of each benchmark.
        announce: Receives lines for the user.
        without: Names of benchmarks to leave out.
        partial: Whether to leave out benchmarks of a suite or glob that cannot be fetched, as long as others remain.
        absent: Receives the benchmarks that could not be fetched, as long as others remain.

    Raises:
        UnknownNameError: A name does not exist.
        DataError: No benchmark remains, or one cannot be fetched.

    Examples:
        >>> [benchmark] = find_benchmarks(["eyechart/colour"])
        >>> benchmark.benchmark.name
        'eyechart/colour'
    """
    condition = Condition(where) if where else None
    benchmark_by_folder: dict[Path, Benchmark] = {}
    # Without a list for absent benchmarks, an error is raised for the first one.
    faults: list[tuple[str, SnellenError]] | None = None if absent is None else []
    # A part of a benchmark suffices for a limit, unless a condition has to choose among all its samples.
    limit_of_build = None if where else limit
    for pattern in patterns:
        for benchmark in _open_matching(
            pattern,
            condition,
            announce,
            without=without,
            partial=partial,
            limit=limit_of_build,
            faults=faults,
        ):
            if benchmark.name not in without:
                benchmark_by_folder.setdefault(benchmark.folder.resolve(), benchmark)
    benchmarks = list(benchmark_by_folder.values())
    if absent is not None and faults:
        if not benchmarks:
            raise _none_fetched(faults, announce)
        for name, fault in faults:
            absent.append(AbsentBenchmark(name, str(fault)))
            announce(f"{name} cannot be fetched and is skipped: {fault}")
    _check_names_differ(benchmarks)
    if condition:
        _check_facts(condition, benchmarks)

    selected_benchmarks = []
    for benchmark in benchmarks:
        facts = benchmark.spec.facts()
        facts_of_all_samples = facts.keys() - benchmark.manifest.tags.keys()
        sample_condition = where
        if condition and condition.names <= facts_of_all_samples:
            if not condition.holds(facts):
                continue
            sample_condition = ""
        selected = SelectedBenchmark(benchmark, Selection(sample_condition, limit))
        if benchmark.count(selected.selection):
            selected_benchmarks.append(selected)
    if not selected_benchmarks:
        raise _nothing_selected(patterns, where, benchmarks)
    return selected_benchmarks


def _none_fetched(faults: Sequence[tuple[str, SnellenError]], announce: Announce) -> SnellenError:
    """Return the error of a run of which no benchmark can be fetched. The reason for each of several is announced.

    Args:
        faults: The name and the error of each benchmark.
        announce: Receives a line for each of several benchmarks.
    """
    _, first_fault = faults[0]
    if len(faults) == 1:
        return first_fault
    for name, fault in faults:
        reason = str(fault)
        announce(reason if name in reason else f"{name} cannot be fetched: {reason}")
    names = ", ".join(name for name, _ in faults)
    reasons = {name: str(fault) for name, fault in faults}
    again = for_caller("repeat the command", "repeat the call")
    return AbsentBenchmarkError(
        f"none of {names} can be fetched, for the reasons above; {again} when the files can be fetched",
        reasons,
    )


def _nothing_selected(
    patterns: Sequence[str], where: str, benchmarks: Sequence[Benchmark]
) -> DataError:
    """Return the error of a run that would have no sample, which says why.

    Args:
        patterns: The names of benchmarks, globs, suites or folders that the user gave.
        where: The condition that samples must meet; empty if there is none.
        benchmarks: The benchmarks that they stand for.
    """
    for benchmark in benchmarks:
        if benchmark.manifest.counts.examples and not benchmark.count():
            return DataError(
                f"{benchmark.name} contains only few-shot examples; use them with {setting('few_shot_from')}"
            )
    names = ", ".join(patterns)
    if not where:
        return DataError(
            f"nothing remains of {names}: a model was trained on the data of each of them"
        )
    condition = setting("where", where, is_quoted=True)
    return DataError(f"no sample of {names} meets the condition {condition}")


def open_benchmark(pattern: str, announce: Announce = announce_nothing) -> Benchmark:
    """Return the one benchmark that a name or folder stands for. It is fetched and built if necessary.

    Args:
        pattern: Name or folder of a benchmark.
        announce: Receives lines for the user, such as that a file has changed since the benchmark was built from it.

    Raises:
        UnknownNameError: There is no such benchmark.
        DataError: The name stands for several benchmarks, or the benchmark cannot be fetched or built.

    Examples:
        >>> open_benchmark("eyechart/colour").name
        'eyechart/colour'
    """
    specs: Sequence[BenchmarkSpec] = ()
    with suppress(UnknownNameError):  # `_open_matching` raises it again, with similar names
        specs = matching_specs(pattern)
    if len(specs) > 1:
        names = ", ".join(spec.name for spec in specs[:10])
        if len(specs) > 10:
            names += ", ..."
        raise DataError(f"{pattern} is {len(specs)} benchmarks; name one of them: {names}")
    [benchmark] = _open_matching(
        pattern, None, announce, without=(), partial=False, limit=None, faults=None
    )
    return benchmark


def _check_names_differ(benchmarks: Sequence[Benchmark]) -> None:
    """Raise DataError if two folders contain benchmarks of the same name."""
    folders: dict[str, Path] = {}
    for benchmark in benchmarks:
        namesake = folders.setdefault(benchmark.name, benchmark.folder)
        if namesake != benchmark.folder:
            raise DataError(
                f"{namesake} and {benchmark.folder} are both named {benchmark.name}; remove one, or rebuild it "
                "under another name"
            )


def _check_facts(condition: Condition, benchmarks: Sequence[Benchmark]) -> None:
    """Check the names in a condition that selects questions for a run.

    Args:
        condition: The condition.
        benchmarks: The benchmarks of the run.

    Raises:
        DataError: No benchmark has such a tag or fact, or its value would reveal the correct answers.
    """
    names: set[str] = set()
    answer_tags: set[str] = set()
    for benchmark in benchmarks:
        names.update(benchmark.spec.facts())
        names.update(benchmark.manifest.tags)
        answer_tags.update(benchmark.manifest.answer_tags)
    revealing = condition.names & (answer_tags - names)
    if revealing:
        raise DataError(
            f"{for_caller('--where', 'where')}: {min(revealing)!r} reveals the answers, so a run cannot use it; filter when you score instead "
            f"({for_caller('snellen score --where', 'results.only(where=...)')})"
        )
    unknown = condition.names - names
    if names and unknown:
        raise DataError(
            f"{for_caller('--where', 'where')}: {registry.unknown_name('fact', min(unknown), names)}"
        )


def _open_matching(
    pattern: str,
    condition: Condition | None,
    announce: Announce,
    *,
    without: Collection[str],
    partial: bool,
    limit: int | None,
    faults: list[tuple[str, SnellenError]] | None,
) -> Iterator[Benchmark]:
    """Yield the benchmarks that a name, glob, suite or folder stands for. Those that are not built are built.

    Args:
        pattern: The name, glob, suite or folder.
        condition: Benchmarks whose facts show that none of their samples can meet it are left out.
        announce: Receives lines for the user.
        without: Names of benchmarks to leave out.
        partial: Whether to leave out benchmarks of a suite or glob that cannot be built, as long as others remain.
        limit: The number of samples that is needed. A part of the benchmark may then be fetched and built.
        faults: Receives the name and the error of each benchmark that cannot be fetched. If it is None, the error is
            raised.

    Raises:
        UnknownNameError: There is no such benchmark. The message says what the user may have meant.
        DataError: A benchmark cannot be built.
    """
    folder = expanded(pattern)
    if (folder / MANIFEST).exists():
        yield Benchmark(folder)
        return
    if (benchmark_folder(pattern) / MANIFEST).exists() and pattern not in entries():
        benchmark = Benchmark(benchmark_folder(pattern))
        _check_own_data(pattern, benchmark)
        _announce_source(benchmark, announce)
        _announce_changes(benchmark, announce)
        yield benchmark
        return

    _refuse_folder_path(pattern)
    try:
        matching = select(pattern)
    except UnknownNameError as error:
        raise _unknown_pattern(pattern, error) from None
    specs = []
    for spec in matching:
        if spec.name not in without and _may_meet(condition, spec):
            specs.append(spec)
    if partial and len(specs) != 1:
        yield from _open_those_built(pattern, specs, announce, limit=limit, faults=faults)
        return
    for spec in specs:
        try:
            yield _built_benchmark(spec, announce, limit)
        except (NoSourceError, MissingExtraError) as error:
            if faults is None:
                raise
            faults.append((spec.name, error))


def _open_those_built(
    pattern: str,
    specs: Sequence[BenchmarkSpec],
    announce: Announce,
    *,
    limit: int | None,
    faults: list[tuple[str, SnellenError]] | None,
) -> list[Benchmark]:
    """Return the benchmarks of a suite or glob, without those that are not built and cannot be.

    Args:
        pattern: The suite or glob.
        specs: Its benchmarks.
        announce: Receives lines about the benchmarks that are left out.
        limit: The number of samples that is needed.
        faults: Receives the name and the error of each benchmark that cannot be fetched, or of the pattern if there is
            no other benchmark. If it is None, the error is raised in the latter case.
    """
    missing = [spec for spec in specs if not is_ready(spec)]
    if len(missing) > 1:
        from snellen.fetching.sources import announce_fetch

        announce_fetch(missing)
    opened: list[Benchmark] = []
    skipped: list[tuple[BenchmarkSpec, SnellenError]] = []
    for spec in specs:
        try:
            opened.append(_built_benchmark(spec, announce, limit))
        except (DataError, MissingExtraError) as error:
            if spec not in missing:
                raise
            skipped.append((spec, error))
    if skipped and not opened:
        _, first_fault = skipped[0]
        if faults is None:
            raise first_fault
        faults.append((pattern, first_fault))
        return []
    for spec, fault in skipped:
        if isinstance(fault, NotFetchedError | MissingExtraError) and faults is not None:
            faults.append((spec.name, fault))
        elif not isinstance(fault, NoSourceError):
            announce(f"{spec.name} is not built: {fault}")
    if skipped:
        names = ", ".join(spec.short for spec, _ in skipped)
        announce(f"skipped from {pattern}, because they are not built yet: {names}")
    return opened


def _unknown_pattern(pattern: str, error: UnknownNameError) -> SnellenError:
    """Return the error for a text that stands for no benchmark, which says what the user may have meant.

    Args:
        pattern: The text.
        error: The error of the catalogue.

    Raises:
        DataError: The text names a file, or a folder that contains benchmarks.
    """
    _refuse_file(pattern)
    _refuse_folder_of_benchmarks(pattern)
    suite = pattern.partition(":")[0]
    if suite in suite_members():
        return error
    unpacked_folder = Path(RECEIVED, pattern)
    if (unpacked_folder / MANIFEST).exists():
        return UnknownNameError(
            f"no benchmark is named {pattern!r}, but {unpacked_folder} is one; name that folder"
        )
    build = _how_to_build(pattern)
    if build:
        similar = _similar_own_benchmarks(pattern)
        if similar:
            build = f"did you mean {' or '.join(similar)}? Or {build}"
        return UnknownNameError(f"no benchmark is named {pattern!r}; {build}")
    return unknown_benchmark(pattern, [*own_benchmarks(), *suite_members()])


def _check_own_data(name: str, benchmark: Benchmark) -> None:
    """Check that a name can only mean a built benchmark, and not also a table or folder in the working folder.

    Args:
        name: The name, as the user gave it.
        benchmark: The user's built benchmark of that name.

    Raises:
        DataError: The working folder has a table or folder of that name, and the benchmark was built from another.
    """
    # Imported here because the recognition of files takes a while to import.
    from snellen.recognition.unbuilt import data_called

    paths = data_called(name)
    state = kept_state(benchmark.name)
    origin = Path(benchmark.manifest.build_info.origin)
    for path in paths:
        if state.is_built_from(path) or path.resolve() == origin:
            return
    if not paths:
        return
    path = paths[0]
    is_file = path.is_file()
    here = f"name {shell_word(path)}" if is_file else _how_to_build(name)
    raise DataError(
        f"{name} was built from {_origin_of(benchmark)}, not from {path} in this folder; to use the "
        f"{'file' if is_file else 'folder'} here, {here}; to use that build, name {shell_word(benchmark.folder)}"
    )


def _origin_of(benchmark: Benchmark) -> str:
    """Return what a benchmark of the user was built from: a path or an address, or words if neither is known."""
    tables = list(kept_state(benchmark.name).tables)
    origin = benchmark.manifest.build_info.origin
    if Path(origin).is_dir() and tables:
        return tables[0]
    return origin or "files that are not known"


def _announce_source(benchmark: Benchmark, announce: Announce) -> None:
    """Say what a benchmark of the user was built from, unless that is in the working folder."""
    origin = _origin_of(benchmark)
    if Path(origin).is_relative_to(Path.cwd()):
        return
    built = date.fromtimestamp((benchmark.folder / MANIFEST).stat().st_mtime)
    announce(f"{benchmark.name}: built from {origin} on {built.isoformat()}")


def _announce_changes(benchmark: Benchmark, announce: Announce) -> None:
    """Say which files of the user have changed since a benchmark was built from them, and how to build it again."""
    state = kept_state(benchmark.name)
    for changed_file in state.changed_sources():
        rebuild = _rebuild_call(benchmark, [*state.own_entries, *state.tables])
        announce(
            f"{changed_file} has changed since {benchmark.name} was built from it; this uses the earlier build. To use "
            f"the current file, build it again: {rebuild}"
        )


def select_to_build(name: str) -> Sequence[BenchmarkSpec]:
    """Return the entries that a name stands for, as `select` does.

    Raises:
        DataError: A benchmark of the user's own has this name and is built. The message says what to type.
        UnknownNameError: There is no benchmark of this name.
    """
    try:
        return select(name)
    except UnknownNameError:
        fault = _describe_own_build(name)
        if fault:
            raise DataError(fault) from None
        raise


def _describe_own_build(name: str) -> str:
    """Return what to type to run, or to build again, a benchmark of the user that is not in the catalogue.

    Empty if no such benchmark is built.
    """
    if name not in own_benchmarks():
        return ""
    try:
        benchmark = Benchmark(benchmark_folder(name))
    except DataError:  # damaged, or of another version of Snellen
        return ""
    run = for_caller(f"`snellen run MODEL {shell_word(name)}`", f"sn.evaluate(MODEL, {name!r})")
    state = kept_state(name)
    files = [*state.own_entries, *state.tables]
    if not any(Path(file).is_file() for file in files):
        return f"{name} is already built; run it with {run}"
    rebuild = _rebuild_call(benchmark, files)
    return f"{name} is already built; run it with {run}, or build it again with {rebuild}"


def _rebuild_call(benchmark: Benchmark, files: Sequence[str]) -> str:
    """Return the command, or for Python the call, that builds a benchmark again from its source.

    Args:
        benchmark: The benchmark.
        files: Files that it was built from. The first one that exists is the source.
    """
    source = Path(benchmark.manifest.build_info.origin)
    for file in files:
        if Path(file).is_file():
            source = Path(file)
            break
    if source.is_relative_to(Path.cwd()):
        source = source.relative_to(Path.cwd())

    verb = "build" if benchmark.manifest.verification is None else "reform"
    command = f"snellen {verb} {shell_word(source)}"
    arguments = repr(str(source))
    has_default_name = source.stem == benchmark.name or source.suffix == ".toml"
    if not has_default_name:
        command += f" --name {shell_word(benchmark.name)}"
        arguments += f", name={benchmark.name!r}"
    return for_caller(f"`{command}`", f"sn.{verb}({arguments})")


def is_ready(spec: BenchmarkSpec) -> bool:
    """Return whether a benchmark is built, or can be built without fetching files.

    Examples:
        >>> is_ready(entries()["eyechart/colour"])
        True
    """
    return spec.source.embedded or is_built(spec)


def _may_meet(condition: Condition | None, spec: BenchmarkSpec) -> bool:
    """Return whether samples of a benchmark may satisfy a condition, judged by facts about the whole benchmark.

    If the condition also depends on tags of single samples, the result is True.
    """
    if condition is None:
        return True
    facts = spec.facts()
    depends_on_samples = not condition.names <= set(facts)
    return depends_on_samples or condition.holds(facts)


def held_out_benchmarks(
    patterns: Sequence[str],
    models: Sequence[str],
    cards: str = "",
    announce: Announce = announce_nothing,
) -> tuple[str, ...]:
    """Return the names of benchmarks whose data a model was trained on, and tell the user the reason for each.

    Args:
        patterns: Names, globs, suites or folders of benchmarks.
        models: Names of models.
        cards: File with model cards of the user, in addition to Snellen's own.
        announce: Receives lines for the user.

    Raises:
        UnknownNameError: A name does not exist.
        DataError: The file cannot be read.
    """
    if not models:
        return ()
    own_cards = model_cards(Path(cards)) if cards else None
    specs: dict[str, BenchmarkSpec] = {}
    for pattern in patterns:
        for spec in matching_specs(pattern):
            specs[spec.name] = spec
    reasons = benchmarks_seen(specs.values(), models, own_cards)
    for reason in reasons:
        announce(f"skipped: {reason}")
    return tuple(reason.benchmark for reason in reasons)


def matching_specs(pattern: str) -> tuple[BenchmarkSpec, ...]:
    """Return the benchmarks that a text stands for, as catalogue entries. They need not be built yet.

    Args:
        pattern: A name, a pattern with `*`, the name of a suite, or the folder of a built benchmark.

    Examples:
        >>> [spec.name for spec in matching_specs("eyechart/colour")]
        ['eyechart/colour']
    """
    for folder in (expanded(pattern), benchmark_folder(pattern)):
        if (folder / MANIFEST).exists() and pattern not in entries():
            return (Benchmark(folder).spec,)
    _refuse_folder_path(pattern)
    return select(pattern)


MAX_SUGGESTED_NAMES = 3
"""Maximum number of names that a message suggests."""


def _similar_own_benchmarks(pattern: str) -> list[str]:
    """Return names of the user's own benchmarks that begin with the name of a file or folder, or else are similar to it."""
    stem = Path(pattern).stem
    names = own_benchmarks()
    beginning_alike = [name for name in names if name.startswith(f"{stem}-")]
    if beginning_alike:
        return beginning_alike[:MAX_SUGGESTED_NAMES]
    return registry.nearest_names(stem, names)


def _how_to_build(pattern: str) -> str:
    """Return how to build a benchmark from the file or folder at a path, as a part of a message; empty if none can be.

    The recognition of files takes a while to import, and only messages about unknown names need it.
    """
    from snellen.recognition.unbuilt import how_to_build

    folder, colon, split = pattern.partition(":")
    if colon and split and expanded(folder).is_dir() and how_to_build(folder):
        call = for_caller(f"`snellen build {shell_word(pattern)}`", f"sn.build({pattern!r})")
        return f"build it from the folder {folder} with {call}"
    return how_to_build(pattern)


def _refuse_folder_path(pattern: str) -> None:
    """Raise DataError if a text is written as the path of a folder: it begins with `.`, `/` or `~`.

    The caller has found that this folder is not a built benchmark.
    """
    if not pattern.startswith((".", "/", "~")):
        return
    folder = expanded(pattern)
    _refuse_file(pattern)
    _refuse_folder_of_benchmarks(pattern)
    fault = f"there is no folder {pattern}"
    if folder.is_dir():
        fault = f"{folder} is not a built benchmark"
    build = _how_to_build(pattern)
    if build:
        raise DataError(f"{fault}; {build}")
    call = for_caller(
        f"`snellen build FILE --to {shell_word(folder)}`", f"sn.build(FILE, to={str(folder)!r})"
    )
    raise DataError(f"{fault}; build it with {call}")


def _refuse_folder_of_benchmarks(pattern: str) -> None:
    """Raise DataError if the user named a folder that contains folders of benchmarks, instead of one of these."""
    manifests = expanded(pattern).glob(f"*/{MANIFEST}")
    folders = sorted(manifest.parent for manifest in manifests)
    if not folders:
        return
    listed = ", ".join(shell_word(folder) for folder in folders[:5])
    if len(folders) > 5:
        listed += ", ..."
    noun = "a benchmark" if len(folders) == 1 else "benchmarks"
    raise DataError(f"{pattern} is a folder with {noun} inside; write {listed}")


def _refuse_file(pattern: str) -> None:
    """Raise DataError if the user named a file instead of a benchmark, whether the file exists or not."""
    path = expanded(pattern)
    if path.is_file():
        how = how_to_unpack(path)
        if how:
            raise DataError(f"{pattern} was packed by Snellen; {how}")
        build = for_caller(f"`snellen build {shell_word(pattern)}`", f"sn.build({pattern!r})")
        raise DataError(f"{pattern} is a file; build a benchmark from it with {build}")
    if row_suffix(path) in SUFFIXES:
        raise DataError(f"there is no file {pattern}; check the path")


def _built_benchmark(spec: BenchmarkSpec, announce: Announce, limit: int | None) -> Benchmark:
    """Return the built benchmark of a catalogue entry. It is fetched and built if necessary.

    Args:
        spec: The entry.
        announce: Receives a line if the benchmark is built.
        limit: The number of samples that is needed; None for all. If the benchmark has to be fetched, a part of it
            that suffices may be fetched and built instead.

    Raises:
        NoSourceError: Its files are neither here nor can they be fetched.
        DataError: It cannot be built.
    """
    folder = benchmark_folder(spec.name)
    reason = ""
    if (folder / MANIFEST).exists():
        reason = reason_to_rebuild(spec)
        if not reason:
            return Benchmark(folder)
    building = f"rebuilding {spec.name}: {reason}" if reason else f"building {spec.name}"
    has_changed_neighbours = bool(reason) and bool(source_state(spec).neighbour_digest)
    if spec.source.embedded or has_changed_neighbours:
        announce(building)
        return build_benchmark(spec)
    # Imported here, because most runs fetch nothing.
    from snellen.fetching.parts import build_part, built_part
    from snellen.fetching.sources import fetch_source

    try:
        if limit is not None:
            part = built_part(spec, limit) or build_part(spec, limit)
            if part:
                return part
        fetched = fetch_source(spec)
    except NoSourceError as error:
        fault = f"{spec.name} is not built again: {reason}: {error}" if reason else str(error)
        raise type(error)(fault) from None
    announce(building)
    return build_benchmark(
        fetched.spec, source=fetched.folder, inputs=BuildInputs(origin=fetched.origin)
    )


def reason_to_rebuild(spec: BenchmarkSpec) -> str:
    """Return why a built benchmark must be rebuilt, as a part of a message; empty if it need not be."""
    state_of_build = kept_state(spec.name)
    if not is_built(spec):
        if not state_of_build.entry:
            return f"the existing build was not made from {entry_file(spec)}"
        return (
            f"the existing build was made from {state_of_build.entry}, not from {entry_file(spec)}"
        )
    is_embedded = spec.source.embedded
    try:
        benchmark = Benchmark(benchmark_folder(spec.name))
    except DataError:
        if is_embedded:
            return "the existing build has another format, or is damaged"
        return ""
    if is_embedded and benchmark.spec != spec:
        return "its catalogue entry has changed"
    depends_on_neighbours = is_embedded or bool(state_of_build.neighbour_digest)
    if depends_on_neighbours:
        present_digest = source_state(spec).neighbour_digest
        if state_of_build.neighbour_digest != present_digest:
            return "files beside its entry have changed"
    return ""
