"""Where suites and entries come from: Snellen's own, those of installed packages, and folders that a user names.

All load the same way. A suite is a folder with `suite.toml`; its benchmarks are the files `entries/*.toml` in it,
its studies the files `studies/*.toml`, its analyses the files `analyses/*.toml`. A benchmark is called `SUITE/FILE`
without `.toml`, or `SUITE` if the file is called so too, unless it says otherwise, which one of a package may not: thus
its name is known before its file is read.
Packages are named in the registry's group `suites` (third parties: by an entry point in the group `snellen.suites`),
folders by `add_suites`, `snellen --suites` or $SNELLEN_SUITES. A named folder is a suite or contains suites; TOML
files directly in it are benchmarks without a suite, and those in its folders `studies` and `analyses` are
studies and analyses without one.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache, cached_property, partial
from importlib import import_module
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from snellen import registry
from snellen.catalogue.entries import BenchmarkSpec, merged, parse_entry
from snellen.catalogue.suites import Aggregation, HookGroup, Suite, parse_suite
from snellen.common.faults import check_names
from snellen.errors import DataError, SuiteWarning, UnknownNameError
from snellen.formats.json_files import parse_toml, read_packaged_text

SUITE_FILE = "suite.toml"
ENTRIES = "entries"
STUDIES, ANALYSES = "studies", "analyses"
DECLARATIONS = {STUDIES: "study", ANALYSES: "analysis"}
"""Folders with files that declare something else than a benchmark, and what each declares."""
SHARED = "_"
"""How the name of a file begins that is not an entry, but is included by several (`include = "_tdiuc.toml"`)."""
VARIABLE = "SNELLEN_SUITES"
"""Folders with suites, as a list of paths like $PATH."""
OF_PATHS = ("images", "answers")
"""Reader parameters that may name a folder or file; for some readers they are name patterns."""


class SuiteFolder(Struct, frozen=True):
    """A suite and its location. Without a suite, `entries` are stand-alone benchmarks."""

    suite: Suite | None
    where: str
    """Its file, for error messages."""
    folder: Traversable
    """The suite's own folder."""
    entry_folder: Traversable
    """Where its benchmark files are, and what they include."""
    entries: tuple[Traversable, ...]
    """Its benchmark files."""
    declarations: Mapping[str, tuple[Traversable, ...]]
    """Its files of studies and of analyses, by the name of their folder."""
    named: bool
    """Whether the user named its folder rather than installing a package."""


class LoadedEntry(Struct, frozen=True):
    """A benchmark's facts and the file they come from."""

    spec: BenchmarkSpec
    where: str
    folder: Path | None
    """Where its own files are when no source is named; None where the user must supply official files."""


class Entries(Mapping[str, BenchmarkSpec]):
    """The facts of all benchmarks by name, sorted by name; Snellen's own are read when they are asked for.

    `faults` says what is left out: entries of other packages that cannot be read, by the names that they would have.
    """

    def __init__(
        self,
        loaded: Mapping[str, LoadedEntry],
        late: Mapping[str, _LateEntry],
        faults: Mapping[str, str],
    ) -> None:
        self._loaded = dict(loaded)
        self._late = late
        self.faults = faults
        self._names = sorted({**loaded, **late})

    def __getitem__(self, name: str) -> BenchmarkSpec:
        return self.loaded(name).spec

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._loaded or name in self._late

    def loaded(self, name: str) -> LoadedEntry:
        """Facts and file. Raises KeyError for a name that no benchmark has."""
        if name not in self._loaded:
            self._loaded[name] = self._late[name].load(name)
        return self._loaded[name]

    def suite_of(self, name: str) -> str:
        """The suite of a benchmark, "" if it has none; no file is read for it."""
        return self._late[name].suite if name in self._late else self._loaded[name].spec.suite

    @cached_property
    def by_suite(self) -> Mapping[str, Sequence[str]]:
        """The names of each suite's benchmarks; no file is read for it."""
        members: dict[str, list[str]] = {}
        for name in self:
            if suite := self.suite_of(name):
                members.setdefault(suite, []).append(name)
        return members


class _LateEntry(Struct, frozen=True):
    """A benchmark of Snellen's own whose file is not read yet."""

    suite: str
    load: Callable[[str], LoadedEntry]


def add_suites(path: str | Path) -> None:
    """Add the suites and entries of a folder, for this process and its child processes.

    Raises:
        DataError: The folder has no suites or entries, a file is invalid, or a name is taken (the message names both
            files).

    Examples:
        >>> sn.add_suites("photos")
        Traceback (most recent call last):
        snellen.errors.DataError: ...
    """
    folder = str(Path(path).expanduser().resolve())
    earlier = folders_named()
    if folder in earlier:
        return
    before = os.environ.get(VARIABLE)
    # Workers are separate processes and must find the same suites.
    os.environ[VARIABLE] = os.pathsep.join((*earlier, folder))
    named_folders = folders_named()
    try:
        for load in (_entries, _dimensions, _hooks):
            load(named_folders)
        for kind in DECLARATIONS:
            _declared(named_folders, kind)
    except DataError:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before
        raise


def suite_facts() -> Mapping[str, Suite]:
    """All suites by name, Snellen's own first."""
    return _suites(folders_named())


def suite_of(spec: BenchmarkSpec) -> Suite | None:
    """The suite of a benchmark; of a user's own table in a suite's form, the suite that reads the form."""
    if spec.suite:
        return suite_facts().get(spec.suite)
    with_forms = (suite for suite in suite_facts().values() if "table_forms" in suite.hooks)
    return next(
        (suite for suite in with_forms if spec.source.reader in suite.hooks.get("readers", {})),
        None,
    )


def broken_suites() -> tuple[str, ...]:
    """What other packages bring and is left out, as it cannot be read: suites and entries, each with its fault."""
    return (*_folders_and_faults(folders_named())[1], *entries().faults.values())


def hooks_of_others() -> Iterator[tuple[str, HookGroup, str]]:
    """The hooks of suites that are not Snellen's own: the suite's file, group and name."""
    for folder in _folders(folders_named()):
        if folder.suite and folder.suite.name not in registry.own_targets("suites"):
            for group, hooks in folder.suite.hooks.items():
                yield from ((folder.where, group, name) for name in hooks)


def suite_folders() -> Mapping[str, Traversable]:
    """The folder of each suite, by the suite's name."""
    return {
        folder.suite.name: folder.folder for folder in _folders(folders_named()) if folder.suite
    }


def entries() -> Entries:
    """All benchmarks of the catalogue, by name."""
    return _entries(folders_named())


class DeclaredFile(Struct, frozen=True):
    """The file that declares a study or an analysis."""

    name: str
    """`SUITE/FILE`; of a file that a user names, what it is called without `.toml`."""
    where: str
    """The file, for error messages."""
    text: str


def declared_file(kind: Literal["study", "analysis"], name: str) -> DeclaredFile:
    """The file called so (`mine.toml`), or that of a name, without its suite where it is the only one of that name.

    Raises UnknownNameError, and DataError for a file that cannot be read.
    """
    files: Mapping[str, Traversable]
    if name.endswith(".toml"):
        path = Path(name).expanduser()
        files, matches = {path.stem: path}, [path.stem]
    else:
        files = study_files() if kind == "study" else analysis_files()
        matches = (
            [name] if name in files else [full for full in files if full.rpartition("/")[2] == name]
        )
    if len(matches) > 1:
        raise UnknownNameError(
            f"{name} is called so by several suites; name one of {', '.join(matches)}"
        )
    if not matches:
        raise registry.unknown(kind, name, files)
    [full] = matches
    return DeclaredFile(full, str(files[full]), read_packaged_text(files[full]))


def study_files() -> Mapping[str, Traversable]:
    """The files of all studies that suites and named folders declare, by name: `SUITE/FILE`, without a suite `FILE`."""
    return _declared(folders_named(), STUDIES)


def analysis_files() -> Mapping[str, Traversable]:
    """The same of analyses."""
    return _declared(folders_named(), ANALYSES)


def entry_folder(spec: BenchmarkSpec) -> Path | None:
    """The folder of a benchmark's entry if its files lie beside it, else None."""
    if spec.name not in entries():
        return None
    loaded = entries().loaded(spec.name)
    return loaded.folder if loaded.spec.source == spec.source else None


def entry_file(spec: BenchmarkSpec) -> str:
    """The file of a benchmark's entry; empty where it has none."""
    return entries().loaded(spec.name).where if spec.name in entries() else ""


def entry_with_files(name: str) -> str:
    """The file of the entry of that name whose own files lie beside it: in a folder that a user names, or in a package
    that brings them; empty where there is none."""
    if name not in entries():
        return ""
    loaded = entries().loaded(name)
    return loaded.where if loaded.folder else ""


def dimension_titles() -> Mapping[str, str]:
    """The dimensions that suites declare, by name, in the order of their tables."""
    return _dimensions(folders_named())


def aggregation_of(spec: BenchmarkSpec) -> Aggregation:
    """How the suite of a benchmark aggregates: by its own rule, by that of the taxonomy it uses, or over benchmarks.

    A benchmark without a suite follows the one that declares its dimension.
    """
    facts = suite_facts()
    rules = facts.get(spec.suite)
    if rules is None:
        rules = next(
            (suite for suite in facts.values() if spec.dimension in suite.dimensions), None
        )
    if rules is not None and rules.aggregation is None and rules.taxonomy:
        rules = facts.get(rules.taxonomy)
    return (rules.aggregation if rules else None) or Aggregation()


def hook_targets(group: str) -> Mapping[str, str]:
    """What suites add to a registry group: `module:attribute` by name. The registry refers to this function by name."""
    return _hooks(folders_named()).get(group, {})


def folders_named() -> tuple[str, ...]:
    """The folders of suites that the environment names."""
    return tuple(path for path in os.environ.get(VARIABLE, "").split(os.pathsep) if path)


# --- loading: once per list of named folders ---------------------------------------------------------------------


def _folders(named_folders: tuple[str, ...]) -> tuple[SuiteFolder, ...]:
    """All suites. Raises DataError when two have the same name."""
    return _folders_and_faults(named_folders)[0]


@cache
def _folders_and_faults(
    named_folders: tuple[str, ...],
) -> tuple[tuple[SuiteFolder, ...], tuple[str, ...]]:
    """All suites, and why those of other packages are left out that cannot be read."""
    folders: list[SuiteFolder] = []
    faults = []
    for name, target in registry.targets("suites").items():
        try:
            folders.append(_of_package(name, target))
        except DataError as error:
            if name in registry.own_targets("suites"):
                raise
            faults.append(_left_out(error))
    folders += [
        folder for path in named_folders for folder in _in_folder(Path(path).expanduser().resolve())
    ]
    places: dict[str, str] = {}
    for folder in folders:
        if folder.suite:
            _claim(places, "suite", folder.suite.name, folder.where)
    return tuple(folders), tuple(faults)


def _left_out(error: DataError) -> str:
    """The fault of another package, of which the user is warned."""
    warnings.warn(f"left out: {error}", SuiteWarning, stacklevel=2)
    return str(error)


@cache
def _suites(named_folders: tuple[str, ...]) -> Mapping[str, Suite]:
    return MappingProxyType(
        {folder.suite.name: folder.suite for folder in _folders(named_folders) if folder.suite}
    )


@cache
def _dimensions(named_folders: tuple[str, ...]) -> Mapping[str, str]:
    titles: dict[str, str] = {}
    places: dict[str, str] = {}
    for folder in _folders(named_folders):
        for name, title in folder.suite.dimensions.items() if folder.suite else ():
            if titles.setdefault(name, title) != title:
                raise DataError(
                    f"the dimension {name!r} is {titles[name]!r} in {places[name]}, but {title!r} in {folder.where}; "
                    "give one of them another name"
                )
            places.setdefault(name, folder.where)
    return MappingProxyType(titles)


@cache
def _hooks(named_folders: tuple[str, ...]) -> Mapping[str, Mapping[str, str]]:
    hooks: dict[str, dict[str, str]] = {}
    places: dict[str, str] = {}
    for folder in _folders(named_folders):
        for group, targets in folder.suite.hooks.items() if folder.suite else ():
            own_names = registry.own_targets(group)
            for name, target in targets.items():
                noun = registry.singular(group)
                if name in own_names:
                    raise DataError(
                        f"{folder.where}: Snellen itself has the {noun} {name!r}; give it another name"
                    )
                _claim(places, f"{noun} of hooks.{group}", name, folder.where)
                hooks.setdefault(group, {})[name] = _located(target, folder)
    return MappingProxyType(hooks)


@cache
def _entries(named_folders: tuple[str, ...]) -> Entries:
    """Raises DataError when two benchmarks have the same name, and for an invalid file or hook of a named folder."""
    places: dict[str, str] = {}
    loaded: dict[str, LoadedEntry] = {}
    late: dict[str, _LateEntry] = {}
    faults: dict[str, str] = {}
    by_folder: list[tuple[SuiteFolder, dict[str, LoadedEntry]]] = []
    for folder in _folders(named_folders):
        is_own = folder.suite is not None and folder.suite.name in registry.own_targets("suites")
        by_folder += [(folder, {})] * (not is_own)
        for file in folder.entries:
            if is_own and folder.suite:
                name = _name_by_file(file, folder.suite)
                late[name] = _LateEntry(
                    folder.suite.name, partial(_entry_called, file, folder, named_folders)
                )
            else:
                try:
                    entry = _entry(file, folder, named_folders)
                    if folder.suite and not folder.named:
                        _check_name(entry, _name_by_file(file, folder.suite))
                except DataError as error:
                    if folder.named:
                        raise
                    faults[_name_by_file(file, folder.suite) if folder.suite else str(file)] = (
                        _left_out(error)
                    )
                    continue
                name = entry.spec.name
                loaded[name] = by_folder[-1][1][name] = entry
            _claim(places, "benchmark", name, str(file))
    if named_folders:
        # Names are looked up among hooks: a fault in those of a named folder is not one of the package looked at.
        _hooks(named_folders)
    names = {"benchmarks": [*loaded, *late, *faults], "suites": _suites(named_folders)}
    for folder, members in by_folder:
        faults |= _wrong_names(folder, members, names)
    return Entries(
        {name: entry for name, entry in loaded.items() if name not in faults}, late, faults
    )


def _wrong_names(
    home: SuiteFolder, members: Mapping[str, LoadedEntry], names: Mapping[str, Collection[str]]
) -> dict[str, str]:
    """The benchmarks of a package that give a name that nobody has, or whose suite does, with the fault.

    Raises DataError for those of a folder that the user names.
    """
    faults: dict[str, str] = {}
    if suite := home.suite:
        sets = [
            set(entry.spec.prompts)
            for entry in members.values()
            if entry.spec.templates == suite.templates
        ]
        prefix = f"{suite.name}/"
        short_names = [
            name.removeprefix(prefix) for name in names["benchmarks"] if name.startswith(prefix)
        ]
        of_all = set.intersection(*sets) if sets else ()
        fault = _fault(
            suite, home, home.where, {**names, "templates": of_all, "benchmarks": short_names}
        )
        faults |= dict.fromkeys(members if fault else (), fault)
    for name, entry in members.items():
        own_names = {**names, "templates": entry.spec.prompts}
        if name not in faults and (fault := _fault(entry.spec, home, entry.where, own_names)):
            faults[name] = fault
    return faults


def _fault(
    record: Struct, home: SuiteFolder, where: str, names: Mapping[str, Collection[str]]
) -> str:
    try:
        check_names(record, where, names)
    except DataError as error:
        if home.named:
            raise
        return _left_out(error)
    return ""


def _name_by_file(file: Traversable, suite: Suite | None) -> str:
    stem = file.name.removesuffix(".toml")
    return f"{suite.name}/{stem}" if suite and stem != suite.name else stem


def _entry_called(
    file: Traversable, home: SuiteFolder, named_folders: tuple[str, ...], name: str
) -> LoadedEntry:
    """Load the file of a package's benchmark. Raises DataError when it has another name than its file says."""
    entry = _entry(file, home, named_folders)
    _check_name(entry, name)
    return entry


def _check_name(entry: LoadedEntry, name: str) -> None:
    if entry.spec.name != name:
        raise DataError(
            f"{entry.where}: name = {entry.spec.name!r}; a benchmark in this file is called {name!r}"
        )


@cache
def _declared(named_folders: tuple[str, ...], kind: str) -> Mapping[str, Traversable]:
    """All files of studies or analyses, sorted by name. Raises DataError when two have the same name."""
    places: dict[str, str] = {}
    files: dict[str, Traversable] = {}
    for folder in _folders(named_folders):
        for file in folder.declarations[kind]:
            stem = file.name.removesuffix(".toml")
            name = f"{folder.suite.name}/{stem}" if folder.suite else stem
            _claim(places, DECLARATIONS[kind], name, str(file))
            files[name] = file
    return MappingProxyType(dict(sorted(files.items())))


def _claim(places: dict[str, str], noun: str, name: str, where: str) -> None:
    """Raise DataError when the name is taken, naming both files."""
    if (first_place := places.setdefault(name, where)) != where:
        raise DataError(
            f"{first_place} and {where} both have the {noun} {name!r}; rename one of them"
        )


# --- folders -----------------------------------------------------------------------------------------------------


def _of_package(name: str, package: str) -> SuiteFolder:
    """The suite in a package."""
    try:
        import_module(package)
        folder = files(package)
        text = folder.joinpath(SUITE_FILE).read_text("utf-8")
    except (ImportError, OSError, UnicodeDecodeError) as error:
        raise DataError(f"the suite {name!r} ({package}) cannot be read: {error}") from None
    return _suite_in(folder, text, named=False)


def _in_folder(folder: Path) -> Iterator[SuiteFolder]:
    """The suites in a user's folder: the folder itself or its subfolders, and benchmarks directly in it.

    Raises DataError when there are none.
    """
    if not folder.is_dir():
        raise DataError(
            f"{folder}: no such folder; it should hold suites ({SUITE_FILE}) or entries (*.toml)"
        )
    homes = (
        [folder]
        if (folder / SUITE_FILE).exists()
        else [file.parent for file in sorted(folder.glob(f"*/{SUITE_FILE}"))]
    )
    yield from (
        _suite_in(home, read_packaged_text(home / SUITE_FILE), named=True) for home in homes
    )
    bare = () if folder in homes else _toml_files(folder)
    declarations = {
        kind: () if folder in homes else _toml_files(folder.joinpath(kind)) for kind in DECLARATIONS
    }
    if bare or any(declarations.values()):
        yield SuiteFolder(None, str(folder), folder, folder, bare, declarations, named=True)
    if not homes and not bare and not any(declarations.values()):
        raise DataError(f"{folder}: there is neither a suite ({SUITE_FILE}) nor an entry (*.toml)")


def _suite_in(folder: Traversable, text: str, *, named: bool) -> SuiteFolder:
    where = str(folder.joinpath(SUITE_FILE))
    suite = parse_suite(text, where)
    home = folder.joinpath(ENTRIES)
    declarations = {kind: _toml_files(folder.joinpath(kind)) for kind in DECLARATIONS}
    return SuiteFolder(suite, where, folder, home, _toml_files(home), declarations, named)


def _toml_files(folder: Traversable) -> tuple[Traversable, ...]:
    """The TOML files in a folder, sorted by name, but for those that begin with an underscore: others include them."""
    files = folder.iterdir() if folder.is_dir() else ()
    chosen = (
        file for file in files if file.name.endswith(".toml") and not file.name.startswith(SHARED)
    )
    return tuple(sorted(chosen, key=lambda file: file.name))


# --- entries -----------------------------------------------------------------------------------------------------


def _entry(file: Traversable, home: SuiteFolder, named_folders: tuple[str, ...]) -> LoadedEntry:
    """Load one benchmark file. Raises DataError naming it."""
    where = str(file)
    suite, content = home.suite, _content(file, home.entry_folder)
    spec = parse_entry(
        {**content, "name": content.get("name") or _name_by_file(file, suite)}, where
    )
    if suite and spec.suite not in ("", suite.name):
        raise DataError(
            f"{where}: suite = {spec.suite!r}, but it is an entry of the suite {suite.name!r}"
        )
    _check_dimension(spec, suite, named_folders, where)
    beside = None
    if isinstance(file, Path) and (home.named or (spec.source.embedded and spec.source.folder)):
        spec = _with_paths(spec, file.parent)
        beside = file.parent / spec.source.folder
    return LoadedEntry(_in_suite(spec, suite) if suite else spec, where, beside)


def read_entry_file(file: Path) -> LoadedEntry:
    """The benchmark of one file, whose own files lie beside it. Raises DataError naming it."""
    home = SuiteFolder(None, str(file), file.parent, file.parent, (), {}, named=True)
    entry = _entry(file, home, folders_named())
    check_names(entry.spec, entry.where, {"templates": entry.spec.prompts, "benchmarks": entries()})
    return entry


def _content(file: Traversable, folder: Traversable) -> dict[str, Any]:
    """The tables of an entry's file, over those of the file beside it that it includes."""
    content = parse_toml(read_packaged_text(file), str(file))
    name = content.pop("include", None)
    if name is None:
        return content
    if not (isinstance(name, str) and name.startswith(SHARED) and Path(name).name == name):
        raise DataError(
            f"{file}: include = {name!r}; name a file beside it whose name begins with {SHARED!r}"
        )
    beside = folder.joinpath(name)
    return merged(_included(read_packaged_text(beside), str(beside)), content)


@cache
def _included(text: str, where: str) -> Mapping[str, Any]:
    shared = parse_toml(text, where)
    if "include" in shared:
        raise DataError(f"{where}: an included file cannot include another")
    return shared


def _check_dimension(
    spec: BenchmarkSpec, suite: Suite | None, named_folders: tuple[str, ...], where: str
) -> None:
    if not spec.dimension:
        return
    declared: Mapping[str, str] = suite.dimensions if suite else {}
    if suite and suite.taxonomy:
        if suite.taxonomy not in _suites(named_folders):
            raise DataError(
                f"{where}: {registry.unknown('suite', suite.taxonomy, _suites(named_folders))}"
            )
        declared = _suites(named_folders)[suite.taxonomy].dimensions
    declared = declared or _dimensions(named_folders)
    if spec.dimension not in declared:
        raise DataError(f"{where}: {registry.unknown('dimension', spec.dimension, declared)}")


def _in_suite(spec: BenchmarkSpec, suite: Suite) -> BenchmarkSpec:
    """The entry with its suite's protocols and templates wherever it has none of its own."""
    defaults = suite.protocols_for(spec.task)
    likelihood = () if spec.formulation == "text" else spec.likelihood or defaults.likelihood
    return replace(
        spec,
        suite=suite.name,
        generation=spec.generation or defaults.generation,
        likelihood=likelihood,
        templates=spec.templates or suite.templates,
    )


def _with_paths(spec: BenchmarkSpec, folder: Path) -> BenchmarkSpec:
    """The entry with paths relative to it made absolute, so that they do not depend on the working directory."""
    params = {
        name: str(folder.absolute() / value)
        if name in OF_PATHS and value and (folder / str(value)).exists()
        else value
        for name, value in spec.source.params.items()
    }
    return (
        replace(spec, source=replace(spec.source, params=params))
        if params != spec.source.params
        else spec
    )


def _located(target: str, folder: SuiteFolder) -> str:
    """A hook's target; a module beside the `suite.toml` of a named folder is given by its file path."""
    module, _, attribute = target.partition(":")
    beside = Path(folder.where).with_name(f"{module}.py")
    return f"{beside}:{attribute}" if folder.named and beside.is_file() else target
