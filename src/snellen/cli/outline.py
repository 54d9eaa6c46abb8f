"""What completion has to know of verbs and names, in one small file: loading them takes seconds, a key press may not.

The file is made again whenever what it was made of has changed: Snellen's own files, the packages beside it, the
folders of $SNELLEN_SUITES, or the benchmarks that were built.
"""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import click
import msgspec
from msgspec import Struct

import snellen
from snellen.common.paths import home

FILE = "completion.json"


class ParameterOutline(Struct, frozen=True, omit_defaults=True):
    """A flag or an argument, as far as a word in its place can be completed."""

    name: str
    flags: list[str] = []
    """How it is written; none for an argument."""
    is_switch: bool = False
    count: int = 1
    choices: list[str] = []
    is_path: bool = False
    help: str = ""


class VerbOutline(Struct, frozen=True, omit_defaults=True):
    """A verb, or a group of them."""

    parameters: list[ParameterOutline]
    verbs: dict[str, VerbOutline] = {}


class CompletionOutline(Struct, frozen=True):
    """All verbs and all names, and the stamp of what they were read from."""

    stamp: str
    verbs: dict[str, VerbOutline]
    names: dict[str, list[str]]


def known_outline(commands: click.Group) -> CompletionOutline:
    """The outline, from its file in $SNELLEN_HOME when that is up to date."""
    file, stamp = home() / FILE, _stamp()
    try:
        cached = msgspec.json.decode(file.read_bytes(), type=CompletionOutline)
        if cached.stamp == stamp:
            return cached
    except (OSError, msgspec.DecodeError):
        pass  # never made, or by another version
    context = click.Context(commands)
    outline = CompletionOutline(
        stamp,
        {
            verb: _outlined(command)
            for verb in commands.list_commands(context)
            if (command := commands.get_command(context, verb))
        },
        _names(),
    )
    _keep(file, msgspec.json.encode(outline))
    return outline


def _keep(file: Path, content: bytes) -> None:
    """Writes the file whole or not at all; where nothing can be written, the next key press waits again."""
    beside = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(content)
        beside.replace(file)
    except OSError:
        return


def _outlined(command: click.Command) -> VerbOutline:
    inner = command.commands if isinstance(command, click.Group) else {}
    return VerbOutline(
        [_parameter(parameter) for parameter in command.params],
        {name: _outlined(verb) for name, verb in inner.items()},
    )


def _parameter(parameter: click.Parameter) -> ParameterOutline:
    is_option = isinstance(parameter, click.Option)
    return ParameterOutline(
        parameter.name or "",
        [*parameter.opts, *parameter.secondary_opts] if is_option else [],
        isinstance(parameter, click.Option) and parameter.is_flag,
        parameter.nargs,
        [str(choice) for choice in parameter.type.choices] if isinstance(parameter.type, click.Choice) else [],
        isinstance(parameter.type, click.Path),
        (getattr(parameter, "help", None) or "").partition("  [")[0],
    )


def _names() -> dict[str, list[str]]:
    """Names by kind: those of the registry's groups, of the catalogue, and of the models that ship."""
    from snellen import registry
    from snellen.building.benchmark import own_benchmarks
    from snellen.catalogue import entries, suite_members
    from snellen.catalogue.cards import model_cards
    from snellen.experiments.model_groups.declaration import analyses
    from snellen.experiments.studies.declaration import studies
    from snellen.models.embedded import NAMES

    groups: dict[str, list[str]] = {
        group: registry.names(group)
        for group in ("protocols", "metrics", "extractors", "exporters", "importers", "scaffolds")
    }
    schemes = [f"{name}:" for name in registry.names("models") if name != snellen.__name__]
    return {
        **groups,
        "models": [*(f"{snellen.__name__}:{name}" for name in NAMES), *schemes],
        "benchmarks": [*suite_members(), *entries(), *own_benchmarks()],
        "suites": [*suite_members()],
        "studies": [*studies()],
        "analyses": [*analyses()],
        "cards": [*model_cards()],
    }


def _stamp() -> str:
    """A digest of when the files were last changed that an outline is made of."""
    suites = (Path(folder) for folder in os.environ.get("SNELLEN_SUITES", "").split(os.pathsep) if folder)
    places = [
        file for folder in (Path(snellen.__file__).parent, home() / "benchmarks", *suites) for file in _below(folder)
    ]
    # The folder of packages itself changes when Python compiles a module in it; what says one is installed does not.
    installed = sorted(Path(sysconfig.get_path("purelib")).glob("*.dist-info"))
    changes = (f"{place}:{_changed(place)}" for place in (*places, *installed))
    return sha256("\n".join((snellen.__version__, *changes)).encode()).hexdigest()


def _below(folder: Path) -> Iterator[Path]:
    """Each Python and TOML file below a folder, and each folder."""
    for place, inner, files in os.walk(folder):
        inner[:] = sorted(name for name in inner if name != "__pycache__")
        yield from (Path(place, name) for name in sorted(files) if name.endswith((".py", ".toml")))
        if folder.name == "benchmarks":  # one that was built is a folder; that of Python files changes when they run
            yield Path(place)


def _changed(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
