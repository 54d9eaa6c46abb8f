"""`snellen doctor`: Python, Snellen itself, which extras, and the server, are installed whole, by what installed
packages declare; and what lies around: accelerators, folders and their space, programs, keys.
"""

from __future__ import annotations

import importlib
import os
import platform
import shutil
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import click
from msgspec import Struct
from packaging.specifiers import SpecifierSet

from snellen import __version__, registry
from snellen.catalogue.loading import broken_suites, hooks_of_others
from snellen.cli.flags import json_flag
from snellen.cli.show import out, show_table
from snellen.common.paths import home
from snellen.errors import SnellenError, SuiteWarning
from snellen.installation import (
    CORE,
    PACKAGE,
    SERVER,
    distribution,
    entry_points_of,
    install_line,
    origin,
    requirements,
    server_install_line,
)

GIB = 1 << 30
ROOM = {"benchmarks": 2 * GIB, "runs": GIB, "hub cache": 20 * GIB}
"""Free bytes below which a place is called short of room: pictures of a suite, journals, the weights of a model."""
PROGRAMS = {
    "java": (
        "METEOR and the published tokenizer of captions",
        "install a Java runtime (8 or later)",
    ),
    "chromium": ("tests of pages, and `make pictures`", "install chromium"),
}
"""Programs that something optional runs: what needs them, and what to do."""
GIVES = {
    "bedrock": "models on Amazon Bedrock",
    "data": "official files that need SciPy or WordNet",
    "demo": "easy-VQA",
    "dev": "tests",
    "docs": "the documentation site",
    "figures": "figures of a report as PNG and PDF",
    "frames": "results as data frames",
    "hf": "models of transformers in this process, those of the demo among them",
    "hub": "data sets and runs from the Hugging Face hub",
    "math": "comparing mathematical answers as expressions",
    "meteor": "METEOR and the published tokenizer of captions",
    "mlflow": "logging runs to MLflow",
    "ocr": "a reader of text to compare with (ocr:rapidocr)",
    "ray": "runs on a Ray cluster",
    "release": "wheels",
    "semantic": "comparing texts by meaning",
    "trackio": "logging runs to Trackio",
    "vertex": "models on Google Vertex",
    "video": "building benchmarks with video",
    "view": "`snellen view`",
    "vllm": "models by vLLM in this process",
    "wandb": "logging runs to Weights & Biases",
    "xlsx": "submissions in Excel's form",
    SERVER: "a leaderboard and an arena for many",
}
"""Extra -> what it is for."""
KEY_NAME = "_API_KEY"
"""How the names of other environment variables with keys end (`?api_key_env=NAME`)."""
USUAL_KEYS = ("HF_TOKEN", "OPENAI_API_KEY")


State = Literal["good", "absent", "poor", "broken"]
"""`absent`: optional and not there. `poor`: works, but not for long or not well. `broken`: Snellen cannot work so."""


class Diagnosis(Struct, frozen=True):
    """One thing that was looked at, what was found, and what to do about it where something is to be done."""

    part: str
    name: str
    state: State
    found: str
    remedy: str = ""


def diagnose_accelerator() -> Iterator[Diagnosis]:
    """The accelerator that torch sees, with its memory."""
    if find_spec("torch") is None:
        yield Diagnosis(
            "machine",
            "accelerator",
            "absent",
            "torch is not installed; only models behind a server run",
        )
        return
    import torch

    from snellen.models.hf.load import accelerator, free_memory, total_memory

    kind = accelerator()
    if not kind:
        yield Diagnosis(
            "machine",
            "accelerator",
            "absent",
            f"torch {torch.__version__} sees none; models run on the CPU",
        )
    for number in range(torch.accelerator.device_count() if kind else 0):
        device = torch.device(kind, number)
        memory = f"{free_memory(device) / GIB:,.1f} of {total_memory(device) / GIB:,.1f} GiB free"
        yield Diagnosis(
            "machine", f"{kind}:{number}", "good", f"{memory}, torch {torch.__version__}"
        )


def hub_cache() -> Path:
    """Where the Hugging Face hub keeps what it fetched, by the environment variables that it documents."""
    if chosen := os.environ.get("HF_HUB_CACHE"):
        return Path(chosen).expanduser()
    default = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache"), "huggingface")
    return Path(os.environ.get("HF_HOME", default), "hub").expanduser()


def diagnose_places(runs: Path) -> Iterator[Diagnosis]:
    """Where benchmarks, runs and weights are kept: whether it can be written, and how much room there is."""
    places = {
        "benchmarks": (home(), "$SNELLEN_HOME"),
        "runs": (runs, "--runs"),
        "hub cache": (hub_cache(), "$HF_HOME"),
    }
    for name, (folder, setting) in places.items():
        existing = next(
            parent for parent in (folder, *folder.absolute().parents) if parent.exists()
        )
        if fault := _unwritable(existing):
            remedy = f"choose another folder with {setting}"
            state: State = "poor" if name == "hub cache" else "broken"
            yield Diagnosis("places", name, state, f"{folder} cannot be written: {fault}", remedy)
            continue
        free = shutil.disk_usage(existing).free
        short = free < ROOM[name]
        remedy = f"less than {ROOM[name] / GIB:.0f} GiB: make room, or choose another folder with {setting}"
        space = f"{folder}, {free / GIB:,.1f} GiB free"
        yield Diagnosis("places", name, "poor" if short else "good", space, remedy if short else "")


def _unwritable(folder: Path) -> str:
    """Why no file can be made in a folder; an empty text when one can."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return error.strerror or type(error).__name__


def diagnose_programs() -> Iterator[Diagnosis]:
    """Programs outside Python that something optional runs."""
    for program, (purpose, remedy) in PROGRAMS.items():
        place = shutil.which(program)
        if place:
            yield Diagnosis("programs", program, "good", place)
        else:
            yield Diagnosis("programs", program, "absent", f"needed by {purpose}", remedy)


def diagnose_keys() -> Iterator[Diagnosis]:
    """Which variables hold keys: those that models declare, and others by their name. Never what they hold."""
    services = registry.loadable("models").values()
    declared = {name for service in services for name in getattr(service, "key_variables", ())}
    for name in sorted(
        {*USUAL_KEYS, *declared, *(name for name in os.environ if name.endswith(KEY_NAME))}
    ):
        key = os.environ.get(name, "").strip()
        if not key:
            yield Diagnosis("keys", name, "absent", "not set")
        elif not key.isascii() or not key.isprintable() or " " in key:
            yield Diagnosis(
                "keys",
                name,
                "poor",
                "set, but to no key: it has blanks or other signs",
                "set it again",
            )
        else:
            yield Diagnosis("keys", name, "good", "set (not shown)")


def diagnose_packages() -> Iterator[Diagnosis]:
    """Python, Snellen, what it always needs, each extra, and the server."""
    yield _python()
    came_from = str(origin().get("url", "")) or "a package index"
    snellen = distribution()
    if snellen is None:
        yield Diagnosis(
            "packages",
            PACKAGE,
            "poor",
            f"{__version__}, on the path but not installed",
            "extras cannot be looked up: install it, `pip install -e .` in its folder",
        )
        return
    yield Diagnosis("packages", PACKAGE, "good", f"{__version__}, from {came_from}")
    yield _of_requirements(
        "packages", "what it always needs", "broken", lacks(CORE), install_line(CORE)
    )
    for extra in sorted(snellen.metadata.get_all("Provides-Extra") or ()):
        yield _of_requirements("extras", extra, "absent", lacks(extra), install_line(extra))
    missing = lacks(CORE, SERVER) if distribution(SERVER) else [SERVER]
    yield _of_requirements("extras", SERVER, "absent", missing, server_install_line())


def _of_requirements(
    part: str, name: str, otherwise: State, missing: Iterable[str], remedy: str
) -> Diagnosis:
    if lacking := ", ".join(missing):
        purpose = f", for {GIVES[name]}" if name in GIVES else ""
        return Diagnosis(part, name, otherwise, f"lacks {lacking}{purpose}", remedy)
    return Diagnosis(part, name, "good", "installed")


def _python() -> Diagnosis:
    snellen = distribution()
    [needed] = (snellen.metadata.get_all("Requires-Python") if snellen else None) or [""]
    version = f"{platform.python_version()} ({sys.executable})"
    fits = SpecifierSet(needed).contains(platform.python_version(), prereleases=True)
    return Diagnosis(
        "packages",
        "Python",
        "good" if fits else "broken",
        version,
        "" if fits else f"install {needed}",
    )


def lacks(extra: str, package: str = PACKAGE) -> Iterator[str]:
    """Requirements of a package's extra, and of extras that it names, which are missing or of another version."""
    for requirement in requirements(extra, package):
        try:
            installed = version(requirement.name)
        except PackageNotFoundError:
            yield requirement.name
            continue
        if not requirement.specifier.contains(installed, prereleases=True):
            yield f"{requirement.name}{requirement.specifier} (installed: {installed})"


HEADER = ("part", "name", "state", "found", "what to do")


@click.command()
@click.option("--runs", default="runs", help="Folder of runs.  [runs]")
@click.option(
    "--require",
    multiple=True,
    metavar="EXTRA",
    help="An extra that has to be there; repeat for more.",
)
@json_flag
def doctor_command(runs: str, require: tuple[str, ...], as_json: bool) -> None:
    """Look at this environment: packages, extras, accelerator, folders, programs, keys.

    Says what is missing and the command that installs it. Keys are never shown, and nothing is sent.
    The exit code is 1 when something is broken, or an extra of --require is not there whole.
    """
    diagnoses = [*_diagnoses(Path(runs))]
    rows = [(row.part, row.name, row.state, row.found, row.remedy) for row in diagnoses]
    show_table("", HEADER, rows, as_json)
    good_extras = {row.name for row in diagnoses if (row.part, row.state) == ("extras", "good")}
    broken = [row.name for row in diagnoses if row.state == "broken"] + [
        name for name in require if name not in good_extras
    ]
    if not as_json:
        out.print(f"\n{_verdict(diagnoses, broken)}")
    if broken:
        raise SystemExit(1)


def _verdict(diagnoses: Sequence[Diagnosis], broken: Sequence[str]) -> str:
    if broken:
        return f"to be mended: {', '.join(broken)}"
    absent = [row.name for row in diagnoses if (row.part, row.state) == ("extras", "absent")]
    return (
        f"nothing is broken{'; optional and not installed: ' if absent else ''}{', '.join(absent)}"
    )


def diagnose_suites() -> Iterator[Diagnosis]:
    """What other packages bring and is left out, as it cannot be read."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuiteWarning)  # they stand in the table
        faults = broken_suites()
    for fault in faults:
        yield Diagnosis(
            "packages", "suite", "broken", fault, "mend or uninstall the package that brings it"
        )


def _place_in_module(cause: BaseException | None) -> str:
    """The line of a module of others that raised when it was imported; empty where none was run."""
    frames = traceback.extract_tb(cause.__traceback__ if cause else None)
    imports = (registry.__file__, importlib.__file__)
    places = (
        frame
        for frame in frames
        if frame.filename not in imports and not frame.filename.startswith("<frozen")
    )
    return next((f" ({frame.filename}:{frame.lineno})" for frame in places), "")


def diagnose_hooks() -> Iterator[Diagnosis]:
    """What suites and other packages add to the registry and cannot be imported, each with the line that raises."""
    by_packages = registry.of_other_packages()
    hooks: list[tuple[str, registry.Group, str]] = [
        (f"{where}: hooks.{group}: ", group, name) for where, group, name in hooks_of_others()
    ]
    hooks += [
        ("", group, name)
        for group, names in by_packages.items()
        for name in names
        if group != "suites"
    ]
    for where, group, name in hooks:
        try:
            registry.find(group, name)
        except SnellenError as error:
            found = f"{where}{error}{_place_in_module(error.__cause__)}"
            yield Diagnosis("hooks", name, "broken", found, "mend what it names, or take it out")
    for entry_points in entry_points_of("snellen."):
        if (name := entry_points.removeprefix("snellen.")) not in (*by_packages, "verbs"):
            fault = str(registry.unknown("group of entry points", name, by_packages))
            yield Diagnosis(
                "hooks", entry_points, "broken", fault, "correct it in the package's pyproject.toml"
            )


def _diagnoses(runs: Path) -> Iterator[Diagnosis]:
    yield from diagnose_packages()
    yield from diagnose_suites()
    yield from diagnose_hooks()
    yield from diagnose_accelerator()
    yield from diagnose_places(runs)
    yield from diagnose_programs()
    yield from diagnose_keys()
