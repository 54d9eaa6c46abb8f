"""Load suites and entries: Snellen's own, those of installed packages, and those in folders that a user names.

All load the same way. A suite is a folder with `suite.toml`; its benchmarks are the files `entries/*.toml` in it,
its studies the files `studies/*.toml`, its analyses the files `analyses/*.toml`. A benchmark is named `SUITE/FILE`
without `.toml`, or `SUITE` if the file has the name of the suite. Only a file in a user's folder may state another
name, so that the names in packages are known before their files are read.
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
from snellen.catalogue.published_number import PublishedNumber
from snellen.catalogue.suites import Aggregation, HookGroup, Suite, parse_suite
from snellen.common.faults import check_names
from snellen.common.paths import expanded
from snellen.errors import DataError, SuiteWarning, UnknownNameError
from snellen.formats.json_files import parse_toml, read_packaged_text

SUITE_FILE = "suite.toml"
ENTRIES = "entries"
STUDIES, ANALYSES = "studies", "analyses"
DECLARATIONS = {STUDIES: "study", ANALYSES: "analysis"}
"""Folders with files that declare something else than a benchmark, and what each declares."""
SHARED = "_"
"""Prefix of files that are not entries but are included by several entries (`include = "_tdiuc.toml"`)."""
VARIABLE = "SNELLEN_SUITES"
"""Folders with suites, as a list of paths like $PATH."""
OF_PATHS = ("images", "answers")
"""Reader parameters that may name a folder or file; for some readers they are name patterns."""


class SuiteFolder(Struct, frozen=True):
    """A suite and the place of its files. If `suite` is None, `entries` are benchmarks that belong to no suite."""

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
    is_user_folder: bool
    """Whether the user named its folder rather than installing a package."""


class LoadedEntry(Struct, frozen=True):
    """The entry of a benchmark (its description), and the file that it was read from."""

    spec: BenchmarkSpec
    where: str
    folder: Path | None
    """Where its own files are when no source is named; None where the user must supply official files."""


class Entries(Mapping[str, BenchmarkSpec]):
    """The entries (descriptions) of all benchmarks by name, in alphabetical order.

    Snellen's own entry files are read only when they are looked up. `faults` says why entries of other packages could
    not be read, by the names that the benchmarks would have.
    """

    def __init__(
        self,
        loaded: Mapping[str, LoadedEntry],
        late: Mapping[str, _LateEntry],
        faults: Mapping[str, str],
    ) -> None:
        """Keep the entries of the catalogue.

        Args:
            loaded: Entries that were read.
            late: Entries that are read when they are looked up.
            faults: Why entries were left out, by name.
        """
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
        """Return the entry of a benchmark and its file. Raises KeyError for a name that no benchmark has."""
        if name not in self._loaded:
            self._loaded[name] = self._late[name].load(name)
        return self._loaded[name]

    def suite_of(self, name: str) -> str:
        """Return the name of a benchmark's suite, without reading a file; empty if it has no suite."""
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
    """A benchmark that is part of Snellen, whose file is read only when the benchmark is looked up."""

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
    folder = str(expanded(path).resolve())
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
    """Return all suites by name, those of Snellen first.

    Examples:
        >>> suite_facts()["pope"].title
        'POPE from your own images'
    """
    return _suites(folders_named())


def suite_of(spec: BenchmarkSpec) -> Suite | None:
    """Return the suite of a benchmark; None if it has none.

    A user's own table may be in the format of a suite. It then belongs to the suite whose reader reads that format.
    """
    if spec.suite:
        return suite_facts().get(spec.suite)
    for suite in suite_facts().values():
        reads_it = spec.source.reader in suite.hooks.get("readers", {})
        if "table_forms" in suite.hooks and reads_it:
            return suite
    return None


def broken_suites() -> tuple[str, ...]:
    """Return the faults of suites and entries of other packages that are left out because they cannot be read."""
    _, suite_faults = _folders_and_faults(folders_named())
    return (*suite_faults, *entries().faults.values())


def hooks_of_others() -> Iterator[tuple[str, HookGroup, str]]:
    """Yield what suites other than Snellen's own add to the registry, such as metrics and readers (their hooks).

    Yields:
        The file of the suite, the group of the registry, such as `metrics`, and the registered name.
    """
    own_suites = registry.own_targets("suites")
    for folder in _folders(folders_named()):
        if folder.suite is None or folder.suite.name in own_suites:
            continue
        for group, hooks in folder.suite.hooks.items():
            for name in hooks:
                yield folder.where, group, name


def suite_folders() -> Mapping[str, Traversable]:
    """Return the folder of each suite, by the suite's name.

    Examples:
        >>> suite_folders()["pope"].joinpath("suite.toml").is_file()
        True
    """
    return {
        folder.suite.name: folder.folder for folder in _folders(folders_named()) if folder.suite
    }


def entries() -> Entries:
    """Return all benchmarks of the catalogue, by name.

    Examples:
        >>> entries()["eyechart/colour"].formulation
        'choice'
    """
    return _entries(folders_named())


class DeclaredFile(Struct, frozen=True):
    """The file that declares a study or an analysis."""

    name: str
    """`SUITE/FILE`; of a file that a user names, what it is called without `.toml`."""
    where: str
    """The file, for error messages."""
    text: str


def declared_file(kind: Literal["study", "analysis"], name: str) -> DeclaredFile:
    """Return the file of a study or an analysis.

    Args:
        kind: What the file declares.
        name: A file (`mine.toml`), or a name, which may lack its suite if no other suite has the same name.

    Raises:
        UnknownNameError: There is no such name, or several suites have it.
        DataError: The file cannot be read.

    Examples:
        >>> declared_file("study", "reform-eval/distractors").name
        'reform-eval/distractors'
    """
    if name.endswith(".toml"):
        path = expanded(name)
        return DeclaredFile(path.stem, str(path), read_packaged_text(path))

    files = declared_files(kind)
    matches = [name]
    if name not in files:
        matches = [full_name for full_name in files if full_name.rpartition("/")[2] == name]
    if len(matches) > 1:
        raise UnknownNameError(
            f"several suites have a benchmark {name}; use one of {', '.join(matches)}"
        )
    if not matches:
        raise registry.unknown_name(kind, name, files)
    [full_name] = matches
    file = files[full_name]
    return DeclaredFile(full_name, str(file), read_packaged_text(file))


def declared_files(kind: Literal["study", "analysis"]) -> Mapping[str, Traversable]:
    """Return the files of all studies or analyses that suites and named folders declare, by name.

    A name is `SUITE/FILE`, or `FILE` without a suite.

    Examples:
        >>> "reform-eval/distractors" in declared_files("study")
        True
    """
    return _declared(folders_named(), STUDIES if kind == "study" else ANALYSES)


def entry_folder(spec: BenchmarkSpec) -> Path | None:
    """Return the folder of a benchmark's entry if the benchmark's files are in it, too; else None.

    Examples:
        >>> entry_folder(entries()["mmbench/dev-en"]) is None  # its files must be fetched
        True
    """
    if spec.name not in entries():
        return None
    loaded = entries().loaded(spec.name)
    return loaded.folder if loaded.spec.source == spec.source else None


def entry_file(spec: BenchmarkSpec) -> str:
    """Return the path of the file that declares a benchmark; empty if there is none."""
    return entries().loaded(spec.name).where if spec.name in entries() else ""


def entry_with_files(name: str) -> str:
    """Return the file of a benchmark's entry if the benchmark's data files are next to it; otherwise an empty text.

    This is so for an entry in a folder that a user names, or in a package that contains the data files.
    """
    if name not in entries():
        return ""
    loaded = entries().loaded(name)
    return loaded.where if loaded.folder else ""


def dimension_titles() -> Mapping[str, str]:
    """Return the titles of all dimensions (abilities) that suites declare, by name, in the order in which tables show them.

    Examples:
        >>> dimension_titles()["FG"]
        'fine-grained perception'
    """
    return _dimensions(folders_named())


def aggregation_of(spec: BenchmarkSpec) -> Aggregation:
    """Return how the results of a benchmark are combined with those of others.

    This is the rule of its suite, or of the suite whose taxonomy that suite uses. A benchmark without a suite follows
    the suite that declares its dimension. Without any rule, benchmarks are averaged.
    """
    suites = suite_facts()
    suite = suites.get(spec.suite)
    if suite is None:
        for other_suite in suites.values():
            if spec.dimension in other_suite.dimensions:
                suite = other_suite
                break
    if suite is not None and suite.aggregation is None and suite.taxonomy:
        suite = suites.get(suite.taxonomy)
    if suite is None or suite.aggregation is None:
        return Aggregation()
    return suite.aggregation


def hook_targets(group: str) -> Mapping[str, str]:
    """Return what suites add to a group of the registry, such as `metrics`: an import path `module:attribute` by name.

    The registry finds this function by its name.
    """
    return _hooks(folders_named()).get(group, {})


def folders_named() -> tuple[str, ...]:
    """Return the folders with suites that an environment variable names."""
    return tuple(path for path in os.environ.get(VARIABLE, "").split(os.pathsep) if path)


# --- loading: once per list of named folders ---------------------------------------------------------------------


def _folders(named_folders: tuple[str, ...]) -> tuple[SuiteFolder, ...]:
    """Return all suites. Raises DataError if two have the same name."""
    folders, _ = _folders_and_faults(named_folders)
    return folders


@cache
def _folders_and_faults(
    named_folders: tuple[str, ...],
) -> tuple[tuple[SuiteFolder, ...], tuple[str, ...]]:
    """Return all suites, and the faults of those of other packages that cannot be read."""
    folders: list[SuiteFolder] = []
    faults: list[str] = []
    for name, target in registry.targets("suites").items():
        try:
            folders.append(_of_package(name, target))
        except DataError as error:
            if name in registry.own_targets("suites"):
                raise
            faults.append(_left_out(error))
    for path in named_folders:
        folders.extend(_in_folder(expanded(path).resolve()))
    places: dict[str, str] = {}
    for folder in folders:
        if folder.suite:
            _claim(places, "suite", folder.suite.name, folder.where)
    return tuple(folders), tuple(faults)


def _left_out(error: DataError) -> str:
    """Warn the user that a suite or entry of another package is skipped because of an error. Return its text."""
    warnings.warn(f"skipped: {error}", SuiteWarning, stacklevel=2)
    return str(error)


@cache
def _suites(named_folders: tuple[str, ...]) -> Mapping[str, Suite]:
    """Return all suites by name."""
    return MappingProxyType(
        {folder.suite.name: folder.suite for folder in _folders(named_folders) if folder.suite}
    )


@cache
def _dimensions(named_folders: tuple[str, ...]) -> Mapping[str, str]:
    """Return the titles of all dimensions by name; raises DataError if two suites title one differently."""
    titles: dict[str, str] = {}
    places: dict[str, str] = {}
    for folder in _folders(named_folders):
        if folder.suite is None:
            continue
        for name, title in folder.suite.dimensions.items():
            if titles.setdefault(name, title) != title:
                raise DataError(
                    f"the dimension {name!r} is {titles[name]!r} in {places[name]}, but {title!r} in {folder.where}; "
                    "give one of them another name"
                )
            places.setdefault(name, folder.where)
    return MappingProxyType(titles)


@cache
def _hooks(named_folders: tuple[str, ...]) -> Mapping[str, Mapping[str, str]]:
    """Return what suites add to registries: by group, the import path of each name.

    Raises DataError if a name is built in, or added by two suites.
    """
    hooks: dict[str, dict[str, str]] = {}
    places: dict[str, str] = {}
    for folder in _folders(named_folders):
        if folder.suite is None:
            continue
        for group, targets in folder.suite.hooks.items():
            own_names = registry.own_targets(group)
            noun = registry.singular(group)
            for name, target in targets.items():
                if name in own_names:
                    raise DataError(
                        f"{folder.where}: the {noun} {name!r} is built into Snellen; choose another name"
                    )
                _claim(places, f"{noun} of hooks.{group}", name, folder.where)
                hooks.setdefault(group, {})[name] = _located(target, folder)
    return MappingProxyType(hooks)


@cache
def _entries(named_folders: tuple[str, ...]) -> Entries:
    """Load the catalogue. Snellen's own entries are read later, when they are asked for.

    Raises:
        DataError: Two benchmarks have the same name, or a file or hook of a named folder is invalid.
    """
    own_suites = registry.own_targets("suites")
    places: dict[str, str] = {}
    late: dict[str, _LateEntry] = {}
    faults: dict[str, str] = {}
    members_by_folder: list[tuple[SuiteFolder, dict[str, LoadedEntry]]] = []
    for folder in _folders(named_folders):
        suite = folder.suite
        if suite is not None and suite.name in own_suites:
            for file in folder.entries:
                name = _name_by_file(file, suite)
                late[name] = _LateEntry(
                    suite.name, partial(_entry_called, file, folder, named_folders)
                )
                _claim(places, "benchmark", name, str(file))
            continue

        members: dict[str, LoadedEntry] = {}
        members_by_folder.append((folder, members))
        for file in folder.entries:
            try:
                entry = _entry(file, folder, named_folders)
                if suite and not folder.is_user_folder:
                    _check_name(entry, _name_by_file(file, suite))
            except DataError as error:
                if folder.is_user_folder:
                    raise
                name = _name_by_file(file, suite) if suite else str(file)
                faults[name] = _left_out(error)
                continue
            members[entry.spec.name] = entry
            _claim(places, "benchmark", entry.spec.name, str(file))

    if named_folders:
        # The names are looked up in the hooks of all suites. A fault in the hooks of a folder that the user names is
        # not a fault of the package whose names are checked.
        _hooks(named_folders)
    loaded: dict[str, LoadedEntry] = {}
    for _, members in members_by_folder:
        loaded.update(members)
    names = {"benchmarks": [*loaded, *late, *faults], "suites": _suites(named_folders)}
    for folder, members in members_by_folder:
        faults |= _wrong_names(folder, members, names)
    sound = {name: entry for name, entry in loaded.items() if name not in faults}
    return Entries(sound, late, faults)


def _wrong_names(
    home: SuiteFolder, members: Mapping[str, LoadedEntry], names: Mapping[str, Collection[str]]
) -> dict[str, str]:
    """Return the faults of benchmarks in a package that use an unknown name, or whose suite uses one.

    Raises:
        DataError: The folder is one that the user names.
    """
    faults: dict[str, str] = {}
    if home.suite:
        fault = _fault(home.suite, home, home.where, _names_in_suite(home.suite, members, names))
        if fault:
            return dict.fromkeys(members, fault)
    for name, entry in members.items():
        entry_names = {**names, "templates": entry.spec.prompts}
        fault = _fault(entry.spec, home, entry.where, entry_names)
        if fault:
            faults[name] = fault
    return faults


def _names_in_suite(
    suite: Suite, members: Mapping[str, LoadedEntry], names: Mapping[str, Collection[str]]
) -> dict[str, Collection[str]]:
    """Return the names that the file of a suite may refer to, by the kind of name.

    Benchmarks are named without the prefix of the suite. As templates, the file may name a set of prompts only if all
    those benchmarks declare it that use the templates of the suite.
    """
    prefix = f"{suite.name}/"
    short_names = [
        name.removeprefix(prefix) for name in names["benchmarks"] if name.startswith(prefix)
    ]
    prompt_names = [
        set(entry.spec.prompts)
        for entry in members.values()
        if entry.spec.templates == suite.templates
    ]
    common_prompts: Collection[str] = set.intersection(*prompt_names) if prompt_names else ()
    return {**names, "templates": common_prompts, "benchmarks": short_names}


def _fault(
    record: Struct, home: SuiteFolder, where: str, names: Mapping[str, Collection[str]]
) -> str:
    """Return why a suite or an entry is left out because it refers to an unknown name; empty if it need not be.

    In a user's own folder, an unknown name raises DataError instead.
    """
    try:
        check_names(record, where, names)
    except DataError as error:
        if home.is_user_folder:
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
    """Raise DataError if an entry's name is not the one that its file requires."""
    if entry.spec.name != name:
        raise DataError(
            f"{entry.where}: name = {entry.spec.name!r}, but a benchmark in this file must be named {name!r}"
        )


@cache
def _declared(named_folders: tuple[str, ...], kind: str) -> Mapping[str, Traversable]:
    """Return all files of studies, or of analyses, by name; a file in a suite is called `SUITE/FILE`.

    Args:
        named_folders: Folders with suites that the user names.
        kind: The name of the subfolder with such files in a suite.

    Raises:
        DataError: Two files have the same name.
    """
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
    """Raise DataError if the name is taken, naming both files."""
    first_place = places.setdefault(name, where)
    if first_place != where:
        raise DataError(
            f"{first_place} and {where} both have the {noun} {name!r}; rename one of them"
        )


# --- folders -----------------------------------------------------------------------------------------------------


def _of_package(name: str, package: str) -> SuiteFolder:
    """Return the suite in a package."""
    try:
        import_module(package)
        folder = files(package)
        text = folder.joinpath(SUITE_FILE).read_text("utf-8")
    except (ImportError, OSError, UnicodeDecodeError) as error:
        raise DataError(f"the suite {name!r} ({package}) cannot be read: {error}") from None
    return _suite_in(folder, text, named=False)


def _in_folder(folder: Path) -> Iterator[SuiteFolder]:
    """Yield the suites in a user's folder: the folder itself, its subfolders, and benchmarks directly in it.

    Raises DataError when there are none.
    """
    if not folder.is_dir():
        raise DataError(
            f"{folder}: no such folder; give a folder with suites ({SUITE_FILE}) or entries (*.toml)"
        )
    if (folder / SUITE_FILE).exists():
        yield _suite_in(folder, read_packaged_text(folder / SUITE_FILE), named=True)
        return

    suite_files = sorted(folder.glob(f"*/{SUITE_FILE}"))
    for file in suite_files:
        yield _suite_in(file.parent, read_packaged_text(file), named=True)
    entry_files = _toml_files(folder)
    declarations = {kind: _toml_files(folder.joinpath(kind)) for kind in DECLARATIONS}
    if entry_files or any(declarations.values()):
        yield SuiteFolder(
            None, str(folder), folder, folder, entry_files, declarations, is_user_folder=True
        )
    elif not suite_files:
        raise DataError(f"{folder} contains neither a suite ({SUITE_FILE}) nor an entry (*.toml)")


def _suite_in(folder: Traversable, text: str, *, named: bool) -> SuiteFolder:
    """Return the suite in a folder. Its description is parsed; its other files are listed, but not read.

    Args:
        folder: The folder.
        text: The content of its `suite.toml`.
        named: Whether the user names the folder; if not, it belongs to a package.
    """
    where = str(folder.joinpath(SUITE_FILE))
    suite = parse_suite(text, where)
    entry_folder = folder.joinpath(ENTRIES)
    declarations = {kind: _toml_files(folder.joinpath(kind)) for kind in DECLARATIONS}
    return SuiteFolder(
        suite, where, folder, entry_folder, _toml_files(entry_folder), declarations, named
    )


def _toml_files(folder: Traversable) -> tuple[Traversable, ...]:
    """Return the TOML files in a folder, sorted by name, except those that others include."""
    if not folder.is_dir():
        return ()
    files = []
    for file in folder.iterdir():
        is_included = file.name.startswith(SHARED)
        if file.name.endswith(".toml") and not is_included:
            files.append(file)
    return tuple(sorted(files, key=lambda file: file.name))


# --- entries -----------------------------------------------------------------------------------------------------


def _entry(file: Traversable, home: SuiteFolder, named_folders: tuple[str, ...]) -> LoadedEntry:
    """Load one benchmark file. Raises DataError naming it."""
    where = str(file)
    suite = home.suite
    content = _content(file, home.entry_folder)
    name = content.get("name") or _name_by_file(file, suite)
    spec = parse_entry({**content, "name": name}, where)
    if suite and spec.suite not in ("", suite.name):
        raise DataError(
            f"{where}: suite = {spec.suite!r}, but the entry belongs to the suite {suite.name!r}"
        )
    _check_dimension(spec, suite, named_folders, where)
    folder = None
    brings_files = home.is_user_folder or (spec.source.embedded and spec.source.folder)
    if isinstance(file, Path) and brings_files:
        spec = _with_paths(spec, file.parent)
        folder = file.parent / spec.source.folder
    if suite:
        spec = _in_suite(spec, suite)
    return LoadedEntry(spec, where, folder)


def published_number_of(spec: BenchmarkSpec) -> PublishedNumber | None:
    """Return the published number of a benchmark, from its present entry if the catalogue has one."""
    return entries().get(spec.name, spec).published


def read_entry_file(file: Path) -> LoadedEntry:
    """Load a benchmark from a TOML file of the user. The files that it names are in the same folder.

    Raises:
        DataError: The file is wrong; the message names it.
    """
    folder = file.parent
    home = SuiteFolder(None, str(file), folder, folder, (), {}, is_user_folder=True)
    entry = _entry(file, home, folders_named())
    known_names = {"templates": entry.spec.prompts, "benchmarks": entries()}
    check_names(entry.spec, entry.where, known_names)
    return entry


def _content(file: Traversable, folder: Traversable) -> dict[str, Any]:
    """Return the tables of an entry's file, merged over those of the file that it includes, if any."""
    content = parse_toml(read_packaged_text(file), str(file))
    name = content.pop("include", None)
    if name is None:
        return content
    if not (isinstance(name, str) and name.startswith(SHARED) and Path(name).name == name):
        raise DataError(
            f"{file}: include = {name!r} must be a file in the same folder whose name begins with {SHARED!r}"
        )
    beside = folder.joinpath(name)
    return merged(_included(read_packaged_text(beside), str(beside)), content)


@cache
def _included(text: str, where: str) -> Mapping[str, Any]:
    """Parse a file that an entry includes; raises DataError if it includes another one."""
    shared = parse_toml(text, where)
    if "include" in shared:
        raise DataError(f"{where}: an included file cannot include another")
    return shared


def _check_dimension(
    spec: BenchmarkSpec, suite: Suite | None, named_folders: tuple[str, ...], where: str
) -> None:
    """Raise DataError if no suite declares the dimension (ability) that a benchmark measures.

    The benchmark's own suite must declare it, or the suite whose taxonomy that suite uses. If neither declares any
    dimension, another suite may.

    Args:
        spec: The benchmark.
        suite: Its suite, if it has one.
        named_folders: Folders with suites that the user names.
        where: The benchmark's file, for the message.
    """
    if not spec.dimension:
        return
    suites = _suites(named_folders)
    declared: Mapping[str, str] = suite.dimensions if suite else {}
    if suite and suite.taxonomy:
        if suite.taxonomy not in suites:
            raise DataError(f"{where}: {registry.unknown_name('suite', suite.taxonomy, suites)}")
        declared = suites[suite.taxonomy].dimensions
    if not declared:
        declared = _dimensions(named_folders)
    if spec.dimension not in declared:
        raise DataError(f"{where}: {registry.unknown_name('dimension', spec.dimension, declared)}")


def _in_suite(spec: BenchmarkSpec, suite: Suite) -> BenchmarkSpec:
    """Return an entry with the protocols and templates of its suite if it has none of its own."""
    defaults = suite.protocols_for(spec.task)
    likelihood = spec.likelihood or defaults.likelihood
    if spec.formulation == "text":
        likelihood = ()
    return replace(
        spec,
        suite=suite.name,
        generation=spec.generation or defaults.generation,
        likelihood=likelihood,
        templates=spec.templates or suite.templates,
    )


def _with_paths(spec: BenchmarkSpec, folder: Path) -> BenchmarkSpec:
    """Return an entry whose parameters name files next to it by absolute paths.

    It then does not depend on the working directory.
    """
    params = dict(spec.source.params)
    for name in OF_PATHS:
        value = params.get(name)
        if value and (folder / str(value)).exists():
            params[name] = str(folder.absolute() / value)
    if params == spec.source.params:
        return spec
    return replace(spec, source=replace(spec.source, params=params))


def _located(target: str, folder: SuiteFolder) -> str:
    """Return the target of a hook. A module next to the `suite.toml` of a named folder is given by its file path."""
    module, _, attribute = target.partition(":")
    file = Path(folder.where).with_name(f"{module}.py")
    if folder.is_user_folder and file.is_file():
        return f"{file}:{attribute}"
    return target
