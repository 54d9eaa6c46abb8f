"""`snellen doctor`: check which parts of Snellen are installed, whether code of other packages works, and the accelerator."""

from __future__ import annotations

import importlib
import platform
import sys
import traceback
import warnings
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Literal

import click
from msgspec import Struct, field

from snellen import __version__, registry
from snellen.catalogue.loading import broken_suites, hooks_of_others
from snellen.cli.flags import json_flag
from snellen.cli.show import announce_next, command_line, console, show_table
from snellen.errors import SnellenError, SuiteWarning
from snellen.installation import (
    CORE,
    PACKAGE,
    SIBLINGS,
    distribution,
    entry_points_of,
    install_line,
    origin,
    requirements,
    sibling_install_line,
)

GIB = 1 << 30
UNASKED = ("all", "dev", "docs", "release")
"""Extras that are shown only if --require names them: one names the others, three are for work on Snellen itself."""
State = Literal["good", "absent", "poor", "broken"]
"""State of a part.

- `absent`: an optional part that is not installed
- `poor`: Snellen works, but `doctor` cannot look up its requirements and extras
- `broken`: Snellen, or something that another package brings, does not work
"""


class Diagnosis(Struct, frozen=True):
    """A part of the environment that was checked, what was found, and what to do about it."""

    part: str
    name: str
    state: State
    finding: str = field(name="found")
    remedy: str = ""


def diagnose_accelerator() -> Iterator[Diagnosis]:
    """Yield what was found about each accelerator that torch can use, with its memory.

    Without an accelerator, or without torch, one diagnosis is yielded that says so.
    """
    if find_spec("torch") is None:
        yield Diagnosis(
            "machine",
            "accelerator",
            "absent",
            "torch is not installed; only models behind a server can run",
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
            f"torch {torch.__version__} finds no accelerator; models run on the CPU",
        )
    for number in range(torch.accelerator.device_count() if kind else 0):
        device = torch.device(kind, number)
        memory = f"{free_memory(device) / GIB:,.1f} of {total_memory(device) / GIB:,.1f} GiB free"
        yield Diagnosis(
            "machine", f"{kind}:{number}", "good", f"{memory}, torch {torch.__version__}"
        )


def diagnose_packages(required: Sequence[str] = ()) -> Iterator[Diagnosis]:
    """Yield diagnoses of Snellen, its required packages, each extra, and the other packages of this repository.

    The first row names the running Python.

    Args:
        required: Extras that must be installed.
    """
    python = f"{platform.python_version()} ({sys.executable})"
    yield Diagnosis("packages", "Python", "good", python)
    came_from = str(origin().get("url", "")) or "a package index"
    snellen = distribution()
    if snellen is None:
        yield Diagnosis(
            "packages",
            PACKAGE,
            "poor",
            f"{__version__}, on the path but not installed",
            "extras cannot be checked; install the package with `pip install -e .` in its folder",
        )
        return
    yield Diagnosis("packages", PACKAGE, "good", f"{__version__}, from {came_from}")
    yield _of_requirements(
        "packages", "required packages", "broken", missing_requirements(CORE), install_line(CORE)
    )
    for extra in sorted(snellen.metadata.get_all("Provides-Extra") or ()):
        if extra in UNASKED and extra not in required:
            continue
        yield _of_requirements(
            "extras", extra, "absent", missing_requirements(extra), install_line(extra)
        )
    yield from _torchvision()
    for package in SIBLINGS:
        missing = missing_requirements(CORE, package) if distribution(package) else [package]
        yield _of_requirements("extras", package, "absent", missing, sibling_install_line(package))


def _torchvision() -> Iterator[Diagnosis]:
    """Yield a diagnosis of torchvision, which no extra installs and some models need, where torch is installed."""
    if find_spec("torch") is None:
        return
    if find_spec("torchvision") is not None:
        yield Diagnosis("packages", "torchvision", "good", "installed")
        return
    yield Diagnosis(
        "packages",
        "torchvision",
        "absent",
        "not installed; Qwen-VL, InternVL and LLaVA-OneVision in this process (hf:) need it",
        "pip install torchvision",
    )


def _of_requirements(
    part: str, name: str, otherwise: State, missing: Iterable[str], remedy: str
) -> Diagnosis:
    """Return the diagnosis of an extra or package: `good` if no requirement is missing.

    Args:
        part: The section of the table.
        name: The extra or package.
        otherwise: The state to report if a requirement is missing, such as `broken`.
        missing: The missing requirements.
        remedy: The command that installs them.
    """
    missing_names = ", ".join(missing)
    if missing_names:
        return Diagnosis(part, name, otherwise, f"lacks {missing_names}", remedy)
    return Diagnosis(part, name, "good", "installed")


def missing_requirements(extra: str, package: str = PACKAGE) -> Iterator[str]:
    """Yield the requirements of an extra that are not installed, or not in a suitable version.

    For example `pillow>=10 (installed: 9.5)`.

    Args:
        extra: The extra, including those that it names; `CORE` for what the package always requires.
        package: The package.
    """
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
@click.option(
    "--require",
    multiple=True,
    metavar="EXTRA",
    help="Extra that must be installed. Repeat for more.",
)
@json_flag
def doctor_command(require: tuple[str, ...], as_json: bool) -> None:
    """Check this environment: packages, extras, plugins and the accelerator.

    For everything that is missing, the command prints how to install it. It sends nothing. The exit code is 1 if
    something is broken, or if an extra that --require names is not completely installed.
    """
    diagnoses = [
        *diagnose_packages(require),
        *diagnose_suites(),
        *diagnose_hooks(),
        *diagnose_accelerator(),
    ]
    rows = [(row.part, row.name, row.state, row.finding, row.remedy) for row in diagnoses]
    if as_json:
        show_table("", HEADER, rows, as_json=True)
    else:
        # Remedies are commands to copy, so they have lines of their own below the table.
        show_table("", HEADER[:-1], [row[:-1] for row in rows], as_json=False)
    good_extras: set[str] = set()
    broken: list[str] = []
    for diagnosis in diagnoses:
        if diagnosis.state == "broken":
            broken.append(diagnosis.name)
        elif diagnosis.state == "good" and diagnosis.part == "extras":
            good_extras.add(diagnosis.name)
    broken += [name for name in require if name not in good_extras]
    if not as_json:
        _print_remedies(diagnoses)
        verdict = f"needs repair: {', '.join(broken)}" if broken else "nothing is broken"
        console.print(f"\n{verdict}")
    if broken:
        raise SystemExit(1)
    if not as_json:
        announce_next(f"{command_line('run', 'MODEL', 'eyechart')} evaluates your model")


def _print_remedies(diagnoses: Sequence[Diagnosis]) -> None:
    """Print what to do about each part, on a line of its own that can be copied.

    Extras that are not installed share one line, because they differ only in the name.
    """
    absent_extras: list[str] = []
    remedies: list[str] = []
    for row in diagnoses:
        is_extra = row.part == "extras" and row.state == "absent" and row.name not in SIBLINGS
        if is_extra and row.remedy:
            absent_extras.append(row.name)
        elif row.remedy:
            remedies.append(f"{row.name}: {row.remedy}")
    if absent_extras:
        remedies.insert(0, f"an extra, or several: {install_line(','.join(absent_extras[:2]))}")
    if remedies:
        console.print("\nwhat to do:")
    for remedy in remedies:
        console.print(f"  {remedy}", soft_wrap=True)


def diagnose_suites() -> Iterator[Diagnosis]:
    """Yield a diagnosis for each suite of another package that cannot be read, and is left out for this reason."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuiteWarning)  # the table has them
        faults = broken_suites()
    for fault in faults:
        yield Diagnosis(
            "packages", "suite", "broken", fault, "repair or uninstall the package that provides it"
        )


def _failing_line(cause: BaseException | None) -> str:
    """Return where code of another package raised an error while it was imported, such as ` (/path/metric.py:12)`.

    Args:
        cause: The error; may be None.

    Returns:
        The first line of the traceback that is not Python's or Snellen's import code; empty if there is none.
    """
    if cause is None:
        return ""
    import_files = (registry.__file__, importlib.__file__)
    for frame in traceback.extract_tb(cause.__traceback__):
        is_import_code = frame.filename in import_files or frame.filename.startswith("<frozen")
        if not is_import_code:
            return f" ({frame.filename}:{frame.lineno})"
    return ""


def diagnose_hooks() -> Iterator[Diagnosis]:
    """Yield a diagnosis for each object (metric, protocol ...) of another suite or package that cannot be imported.

    It names the line of code that raises the error. A package may also declare entry points in a group that Snellen
    does not have; these are reported, too.
    """
    names_by_group = registry.of_other_packages()
    hooks: list[tuple[str, registry.Group, str]] = []
    for declared_in, group, name in hooks_of_others():
        hooks.append((f"{declared_in}: hooks.{group}: ", group, name))
    for group, names in names_by_group.items():
        if group == "suites":
            continue
        for name in names:
            hooks.append(("", group, name))
    for prefix, group, name in hooks:
        try:
            registry.find_registered(group, name)
        except SnellenError as error:
            fault = f"{prefix}{error}{_failing_line(error.__cause__)}"
            yield Diagnosis(
                "hooks", name, "broken", fault, "correct what it refers to, or remove it"
            )
    for entry_point_group in entry_points_of("snellen."):
        group_name = entry_point_group.removeprefix("snellen.")
        if group_name not in (*names_by_group, "verbs"):
            fault = str(registry.unknown_name("group of entry points", group_name, names_by_group))
            remedy = "correct it in the package's pyproject.toml"
            yield Diagnosis("hooks", entry_point_group, "broken", fault, remedy)
