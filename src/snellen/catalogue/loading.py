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
STUDIES = "studies"
ANALYSES = "analyses"
DECLARATIONS = {STUDIES: "study", ANALYSES: "analysis"}
"""Folders with files that declare something else than a benchmark, and what each declares."""
INCLUDED_FILE_PREFIX = "_"
"""Prefix of files that are not entries but are included by several entries (`include = "_tdiuc.toml"`)."""
SUITES_VARIABLE = "SNELLEN_SUITES"
"""Folders with suites, as a list of paths like $PATH."""
PARAMS_WITH_PATHS = ("images", "answers")
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
        if name in self._late:
            return self._late[name].suite
        return self._loaded[name].spec.suite

    @cached_property
    def by_suite(self) -> Mapping[str, Sequence[str]]:
        """The names of the benchmarks of each suite. No file is read for it."""
        members: dict[str, list[str]] = {}
        for name in self:
            suite = self.suite_of(name)
            if suite:
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
    before = os.environ.get(SUITES_VARIABLE)
    # Workers are separate processes and must find the same suites.
    os.environ[SUITES_VARIABLE] = os.pathsep.join((*earlier, folder))
    named_folders = folders_named()
    try:
        for load in (_load_catalogue, _dimension_titles, _hook_targets_by_group):
            load(named_folders)
        for kind in DECLARATIONS:
            _declared_files(named_folders, kind)
    except DataError:
        if before is None:
            del os.environ[SUITES_VARIABLE]
        else:
            os.environ[SUITES_VARIABLE] = before
        raise


def suite_facts() -> Mapping[str, Suite]:
    """Return all suites by name, those of Snellen first.

    Examples:
        >>> suite_facts()["pope"].title
        'POPE from your own images'
    """
    return _suites_by_name(folders_named())


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
    _, suite_faults = _suite_folders_and_faults(folders_named())
    return (*suite_faults, *entries().faults.values())


def hooks_of_others() -> Iterator[tuple[str, HookGroup, str]]:
    """Yield what suites other than Snellen's own add to the registry, such as metrics and readers (their hooks).

    Yields:
        The file of the suite, the group of the registry, such as `metrics`, and the registered name.
    """
    own_suites = registry.own_targets("suites")
    for folder in _suite_folders(folders_named()):
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
    folders: dict[str, Traversable] = {}
    for folder in _suite_folders(folders_named()):
        if folder.suite is not None:
            folders[folder.suite.name] = folder.folder
    return folders


def entries() -> Entries:
    """Return all benchmarks of the catalogue, by name.

    Examples:
        >>> entries()["eyechart/colour"].formulation
        'choice'
    """
    return _load_catalogue(folders_named())


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
            f"the {kind} {name} is in several suites; use one of {', '.join(matches)}"
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
    return _declared_files(folders_named(), STUDIES if kind == "study" else ANALYSES)


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
    return _dimension_titles(folders_named())


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
    return _hook_targets_by_group(folders_named()).get(group, {})


def folders_named() -> tuple[str, ...]:
    """Return the folders with suites that the environment variable SNELLEN_SUITES names."""
    paths = os.environ.get(SUITES_VARIABLE, "").split(os.pathsep)
    return tuple(path for path in paths if path)


# --- loading: once per list of named folders ---------------------------------------------------------------------


def _suite_folders(named_folders: tuple[str, ...]) -> tuple[SuiteFolder, ...]:
    """Return all suites. Raises DataError if two have the same name."""
    folders, _ = _suite_folders_and_faults(named_folders)
    return folders


@cache
def _suite_folders_and_faults(
    named_folders: tuple[str, ...],
) -> tuple[tuple[SuiteFolder, ...], tuple[str, ...]]:
    """Return all suites, and a message for each suite of another package that cannot be read.

    Args:
        named_folders: Folders that the user names, in addition to installed packages.

    Raises:
        DataError: A suite of Snellen or of the user cannot be read, or two suites have the same name.
    """
    folders: list[SuiteFolder] = []
    faults: list[str] = []
    for name, target in registry.targets("suites").items():
        try:
            folders.append(_suite_of_package(name, target))
        except DataError as error:
            if name in registry.own_targets("suites"):
                raise
            faults.append(_warn_of_skipped(error))
    for path in named_folders:
        folders.extend(_suites_in_user_folder(expanded(path).resolve()))
    places: dict[str, str] = {}
    for folder in folders:
        if folder.suite:
            _check_unique(places, "suite", folder.suite.name, folder.where)
    return tuple(folders), tuple(faults)


def _warn_of_skipped(error: DataError) -> str:
    """Warn the user that a suite or entry of another package is skipped because of an error. Return its text."""
    warnings.warn(f"skipped: {error}", SuiteWarning, stacklevel=2)
    return str(error)


@cache
def _suites_by_name(named_folders: tuple[str, ...]) -> Mapping[str, Suite]:
    """Return all suites by name, those of packages and those in the folders that the user names."""
    suites: dict[str, Suite] = {}
    for folder in _suite_folders(named_folders):
        if folder.suite is not None:
            suites[folder.suite.name] = folder.suite
    return MappingProxyType(suites)


@cache
def _dimension_titles(named_folders: tuple[str, ...]) -> Mapping[str, str]:
    """Return the title of each dimension (ability) that suites declare. Raises DataError if two suites title one differently."""
    titles: dict[str, str] = {}
    places: dict[str, str] = {}
    for folder in _suite_folders(named_folders):
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
def _hook_targets_by_group(named_folders: tuple[str, ...]) -> Mapping[str, Mapping[str, str]]:
    """Return what suites add to the groups of the registry: for each group, the targets `module:attribute` by name.

    Raises:
        DataError: A name is built into Snellen, or two suites add it.
    """
    hooks: dict[str, dict[str, str]] = {}
    places: dict[str, str] = {}
    for folder in _suite_folders(named_folders):
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
                _check_unique(places, f"{noun} of hooks.{group}", name, folder.where)
                hooks.setdefault(group, {})[name] = _hook_target(target, folder)
    return MappingProxyType(hooks)


@cache
def _load_catalogue(named_folders: tuple[str, ...]) -> Entries:
    """Load the catalogue. The entries of Snellen's own suites are read later, when they are looked up.

    An entry of another package that is wrong is left out with a warning, and `faults` of the result says why.

    Args:
        named_folders: Folders with suites that the user names, in addition to installed packages.

    Raises:
        DataError: Two benchmarks have the same name, or a file or hook of a named folder is invalid.
    """
    own_suites = registry.own_targets("suites")
    places: dict[str, str] = {}
    late: dict[str, _LateEntry] = {}
    faults: dict[str, str] = {}
    members_by_folder: list[tuple[SuiteFolder, dict[str, LoadedEntry]]] = []
    for folder in _suite_folders(named_folders):
        suite = folder.suite
        if suite is not None and suite.name in own_suites:
            for file in folder.entries:
                name = _name_from_file(file, suite)
                late[name] = _LateEntry(
                    suite.name, partial(_load_entry_named, file, folder, named_folders)
                )
                _check_unique(places, "benchmark", name, str(file))
            continue

        members: dict[str, LoadedEntry] = {}
        members_by_folder.append((folder, members))
        for file in folder.entries:
            try:
                entry = _load_member(file, folder, named_folders)
            except DataError as error:
                if folder.is_user_folder:
                    raise
                name = _name_from_file(file, suite) if suite else str(file)
                faults[name] = _warn_of_skipped(error)
                continue
            members[entry.spec.name] = entry
            _check_unique(places, "benchmark", entry.spec.name, str(file))

    if named_folders:
        # The names are looked up in the hooks of all suites. A fault in the hooks of a folder that the user names is
        # not a fault of the package whose names are checked.
        _hook_targets_by_group(named_folders)
    loaded: dict[str, LoadedEntry] = {}
    for _, members in members_by_folder:
        loaded.update(members)
    known_names = {
        "benchmarks": [*loaded, *late, *faults],
        "suites": _suites_by_name(named_folders),
    }
    for folder, members in members_by_folder:
        faults |= _faults_of_unknown_names(folder, members, known_names)
    usable = {name: entry for name, entry in loaded.items() if name not in faults}
    return Entries(usable, late, faults)


def _load_member(
    file: Traversable, home: SuiteFolder, named_folders: tuple[str, ...]
) -> LoadedEntry:
    """Load the entry of a benchmark that is loaded with the catalogue. In a suite of a package, its name is that of its file.

    Raises:
        DataError: The file is wrong, or the benchmark has another name.
    """
    entry = _load_entry(file, home, named_folders)
    if home.suite and not home.is_user_folder:
        _check_name(entry, _name_from_file(file, home.suite))
    return entry


def _faults_of_unknown_names(
    home: SuiteFolder, members: Mapping[str, LoadedEntry], names: Mapping[str, Collection[str]]
) -> dict[str, str]:
    """Return why benchmarks are left out because their entry, or the file of their suite, refers to an unknown name.

    Args:
        home: The suite.
        members: The entries of the suite, by the name of the benchmark.
        names: The known names by kind: `benchmarks` and `suites`.

    Returns:
        A message by the name of the benchmark. An unknown name in the suite's file concerns all its benchmarks.

    Raises:
        DataError: A name is unknown in a folder that the user names.
    """
    if home.suite:
        names_for_suite = _names_allowed_in_suite(home.suite, members, names)
        fault = _fault_of_unknown_name(home.suite, home, home.where, names_for_suite)
        if fault:
            return dict.fromkeys(members, fault)
    faults: dict[str, str] = {}
    for name, entry in members.items():
        names_for_entry = {**names, "templates": entry.spec.prompts}
        fault = _fault_of_unknown_name(entry.spec, home, entry.where, names_for_entry)
        if fault:
            faults[name] = fault
    return faults


def _names_allowed_in_suite(
    suite: Suite, members: Mapping[str, LoadedEntry], names: Mapping[str, Collection[str]]
) -> dict[str, Collection[str]]:
    """Return the names that the file of a suite may refer to, by the kind of name.

    Benchmarks are named without the prefix of the suite. As its `templates`, the file may name a set of prompts only
    if every benchmark that is asked by the templates of the suite declares that set.
    """
    prefix = f"{suite.name}/"
    short_names: list[str] = []
    for name in names["benchmarks"]:
        if name.startswith(prefix):
            short_names.append(name.removeprefix(prefix))

    prompt_names: list[set[str]] = []
    for entry in members.values():
        if entry.spec.templates == suite.templates:
            prompt_names.append(set(entry.spec.prompts))
    common_prompts: Collection[str] = set.intersection(*prompt_names) if prompt_names else ()
    return {**names, "templates": common_prompts, "benchmarks": short_names}


def _fault_of_unknown_name(
    record: Struct, home: SuiteFolder, where: str, names: Mapping[str, Collection[str]]
) -> str:
    """Check that a suite or an entry refers to known names only, and return what is wrong; empty if nothing is.

    The fault is also shown as a warning, because the entry is then left out. In a folder that the user names, it
    raises DataError instead.
    """
    try:
        check_names(record, where, names)
    except DataError as error:
        if home.is_user_folder:
            raise
        return _warn_of_skipped(error)
    return ""


def _name_from_file(file: Traversable, suite: Suite | None) -> str:
    """Return the name of the benchmark in a file: `SUITE/FILE`, or `SUITE` if the file has the name of the suite."""
    stem = file.name.removesuffix(".toml")
    if suite is None or stem == suite.name:
        return stem
    return f"{suite.name}/{stem}"


def _load_entry_named(
    file: Traversable, home: SuiteFolder, named_folders: tuple[str, ...], name: str
) -> LoadedEntry:
    """Load the file of a benchmark in one of Snellen's suites. Raises DataError if it states another name than expected."""
    entry = _load_entry(file, home, named_folders)
    _check_name(entry, name)
    return entry


def _check_name(entry: LoadedEntry, name: str) -> None:
    """Raise DataError if an entry's name is not the one that its file requires."""
    if entry.spec.name != name:
        raise DataError(
            f"{entry.where}: name = {entry.spec.name!r}, but a benchmark in this file must be named {name!r}"
        )


@cache
def _declared_files(named_folders: tuple[str, ...], kind: str) -> Mapping[str, Traversable]:
    """Return all files that declare studies, or analyses, by name. A file in a suite is called `SUITE/FILE`.

    Args:
        named_folders: Folders with suites that the user names.
        kind: `STUDIES` or `ANALYSES`, the name of the subfolder with such files in a suite.

    Raises:
        DataError: Two files have the same name.
    """
    places: dict[str, str] = {}
    files: dict[str, Traversable] = {}
    for folder in _suite_folders(named_folders):
        for file in folder.declarations[kind]:
            stem = file.name.removesuffix(".toml")
            name = f"{folder.suite.name}/{stem}" if folder.suite else stem
            _check_unique(places, DECLARATIONS[kind], name, str(file))
            files[name] = file
    return MappingProxyType(dict(sorted(files.items())))


def _check_unique(places: dict[str, str], noun: str, name: str, where: str) -> None:
    """Remember the file that has a name. Raises DataError, which names both files, if another file has it already.

    Args:
        places: The file of each name so far. The name is added.
        noun: What the name stands for, such as `benchmark`.
        name: The name.
        where: The file that has it.
    """
    first_place = places.setdefault(name, where)
    if first_place != where:
        raise DataError(
            f"{first_place} and {where} both have the {noun} {name!r}; rename one of them"
        )


# --- folders -----------------------------------------------------------------------------------------------------


def _suite_of_package(name: str, package: str) -> SuiteFolder:
    """Return the suite in a package. Raises DataError if the package has none, or if its file cannot be read.

    Args:
        name: The name of the suite.
        package: The name of the package, such as `snellen.suites.eyechart`.
    """
    try:
        import_module(package)
        folder = files(package)
        text = folder.joinpath(SUITE_FILE).read_text("utf-8")
    except (ImportError, OSError, UnicodeDecodeError) as error:
        raise DataError(f"the suite {name!r} ({package}) cannot be read: {error}") from None
    return _read_suite(folder, text, named=False)


def _suites_in_user_folder(folder: Path) -> Iterator[SuiteFolder]:
    """Yield the suites in a user's folder: the folder itself, its subfolders, and benchmarks directly in it.

    Raises DataError when there are none.
    """
    if not folder.is_dir():
        raise DataError(
            f"{folder}: no such folder; give a folder with suites ({SUITE_FILE}) or entries (*.toml)"
        )
    if (folder / SUITE_FILE).exists():
        yield _read_suite(folder, read_packaged_text(folder / SUITE_FILE), named=True)
        return

    suite_files = sorted(folder.glob(f"*/{SUITE_FILE}"))
    for file in suite_files:
        yield _read_suite(file.parent, read_packaged_text(file), named=True)
    entry_files = _toml_files(folder)
    declarations = {kind: _toml_files(folder.joinpath(kind)) for kind in DECLARATIONS}
    if entry_files or any(declarations.values()):
        yield SuiteFolder(
            suite=None,
            where=str(folder),
            folder=folder,
            entry_folder=folder,
            entries=entry_files,
            declarations=declarations,
            is_user_folder=True,
        )
    elif not suite_files:
        raise DataError(f"{folder} contains neither a suite ({SUITE_FILE}) nor an entry (*.toml)")


def _read_suite(folder: Traversable, text: str, *, named: bool) -> SuiteFolder:
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
        suite=suite,
        where=where,
        folder=folder,
        entry_folder=entry_folder,
        entries=_toml_files(entry_folder),
        declarations=declarations,
        is_user_folder=named,
    )


def _toml_files(folder: Traversable) -> tuple[Traversable, ...]:
    """Return the TOML files in a folder, sorted by name, except those that others include."""
    if not folder.is_dir():
        return ()
    files = []
    for file in folder.iterdir():
        is_included = file.name.startswith(INCLUDED_FILE_PREFIX)
        if file.name.endswith(".toml") and not is_included:
            files.append(file)
    return tuple(sorted(files, key=lambda file: file.name))


# --- entries -----------------------------------------------------------------------------------------------------


def _load_entry(
    file: Traversable, home: SuiteFolder, named_folders: tuple[str, ...]
) -> LoadedEntry:
    """Load the file of one benchmark, and complete it by what its suite declares.

    Args:
        file: The file.
        home: The suite, or the folder of the user, that the file belongs to.
        named_folders: Folders with suites that the user names.

    Raises:
        DataError: The file is wrong; the message names it.
    """
    where = str(file)
    suite = home.suite
    content = _merged_content(file, home.entry_folder)
    name = content.get("name") or _name_from_file(file, suite)
    spec = parse_entry({**content, "name": name}, where)
    if suite and spec.suite not in ("", suite.name):
        raise DataError(
            f"{where}: suite = {spec.suite!r}, but the entry belongs to the suite {suite.name!r}"
        )
    _check_dimension(spec, suite, named_folders, where)
    folder = None
    has_data_files = home.is_user_folder or (spec.source.embedded and spec.source.folder)
    if isinstance(file, Path) and has_data_files:
        spec = _with_paths(spec, file.parent)
        folder = file.parent / spec.source.folder
    if suite:
        spec = _with_suite_defaults(spec, suite)
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
    home = SuiteFolder(
        suite=None,
        where=str(file),
        folder=folder,
        entry_folder=folder,
        entries=(),
        declarations={},
        is_user_folder=True,
    )
    entry = _load_entry(file, home, folders_named())
    known_names = {"templates": entry.spec.prompts, "benchmarks": entries()}
    check_names(entry.spec, entry.where, known_names)
    return entry


def _merged_content(file: Traversable, folder: Traversable) -> dict[str, Any]:
    """Return the tables of an entry's file, merged over those of the file that it includes, if any."""
    content = parse_toml(read_packaged_text(file), str(file))
    name = content.pop("include", None)
    if name is None:
        return content
    if not (
        isinstance(name, str) and name.startswith(INCLUDED_FILE_PREFIX) and Path(name).name == name
    ):
        raise DataError(
            f"{file}: include = {name!r} must be a file in the same folder whose name begins with {INCLUDED_FILE_PREFIX!r}"
        )
    beside = folder.joinpath(name)
    return merged(_parse_included_file(read_packaged_text(beside), str(beside)), content)


@cache
def _parse_included_file(text: str, where: str) -> Mapping[str, Any]:
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
    suites = _suites_by_name(named_folders)
    declared: Mapping[str, str] = suite.dimensions if suite else {}
    if suite and suite.taxonomy:
        if suite.taxonomy not in suites:
            raise DataError(f"{where}: {registry.unknown_name('suite', suite.taxonomy, suites)}")
        declared = suites[suite.taxonomy].dimensions
    if not declared:
        declared = _dimension_titles(named_folders)
    if spec.dimension not in declared:
        raise DataError(f"{where}: {registry.unknown_name('dimension', spec.dimension, declared)}")


def _with_suite_defaults(spec: BenchmarkSpec, suite: Suite) -> BenchmarkSpec:
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
    for name in PARAMS_WITH_PATHS:
        value = params.get(name)
        if value and (folder / str(value)).exists():
            params[name] = str(folder.absolute() / value)
    if params == spec.source.params:
        return spec
    return replace(spec, source=replace(spec.source, params=params))


def _hook_target(target: str, folder: SuiteFolder) -> str:
    """Return the target of a hook. A module next to the `suite.toml` of a named folder is given by its file path."""
    module, _, attribute = target.partition(":")
    file = Path(folder.where).with_name(f"{module}.py")
    if folder.is_user_folder and file.is_file():
        return f"{file}:{attribute}"
    return target
