"""The lab is a package like a stranger's: it imports what Snellen makes public, and Snellen does not import it."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import snellen
import snellen_lab
from snellen import plugin_api
from snellen.cli import import_target
from snellen.installation import sibling_install_line
from source_trees import assert_no_circles, imports, private_imports, texts

HARNESS = Path(str(snellen.__file__)).parent
LAB = Path(snellen_lab.__file__).parent
PROJECT = tomllib.loads((LAB.parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
PUBLIC = {"snellen": set(snellen.__all__), "snellen.plugin_api": set(plugin_api.__all__)}


def test_the_lab_imports_only_what_snellen_makes_public() -> None:
    assert private_imports(LAB, snellen, PUBLIC) == []


def test_modules_of_the_lab_do_not_import_each_other_in_a_circle() -> None:
    assert_no_circles(LAB)


def test_snellen_neither_imports_the_lab_nor_names_its_modules() -> None:
    for file in sorted(HARNESS.rglob("*.py")):
        if "snellen_lab" in file.read_text("utf-8"):
            assert [name for name, _ in imports(file) if name.startswith("snellen_lab")] == []
            assert [text for text in texts(file) if "snellen_lab" in text] == []


def test_the_lab_has_the_version_of_the_harness() -> None:
    assert snellen_lab.__version__ == snellen.__version__
    needed = [text for text in PROJECT["dependencies"] if text.startswith("snellen")]
    assert [text.partition("~=")[2] for text in needed] == [snellen.__version__]


def test_what_the_lab_imports_is_declared() -> None:
    modules = {"pillow": "PIL"}
    declared = [re.split(r"[~>=<]", text)[0] for text in PROJECT["dependencies"]]
    # The server alone loads its pages, and polars comes with an extra of snellen, as everywhere.
    of_others = {"snellen_lab", "snellen_server", "fastapi", "sqlalchemy", "polars"}
    imported_packages = {
        module.partition(".")[0] for file in LAB.rglob("*.py") for module, _ in imports(file)
    }
    needed = imported_packages - sys.stdlib_module_names - of_others
    assert needed <= {modules.get(name, name) for name in declared}


def test_the_environment_of_the_demo_has_the_lab(tmp_path: Path) -> None:
    make = ["make", "--dry-run", f"VENV={tmp_path}", "UV=uv", "demo"]
    done = subprocess.run(make, capture_output=True, text=True, check=True, cwd=LAB.parents[3])
    [install] = [line for line in done.stdout.splitlines() if "[hf,demo,view]" in line]
    assert "-e packages/snellen-lab" in install


def test_public_names_are_imported_when_they_are_used() -> None:
    code = "import sys, snellen_lab; print([m for m in sorted(sys.modules) if 'snellen' in m])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "['snellen_lab']\n"
    assert all(getattr(snellen_lab, name) is not None for name in snellen_lab.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Acuities'"):
        _ = snellen_lab.Acuities


@pytest.mark.parametrize("group", PROJECT["entry-points"])
def test_what_the_lab_is_found_by_is_installed(group: str) -> None:
    declared = PROJECT["entry-points"][group]
    installed = {point.name: point.value for point in entry_points(group=group)}
    assert declared.items() <= installed.items()
    for target in declared.values():
        # A suite is a package, and everything else an attribute of a module.
        is_suite = ":" not in target
        assert (importlib.import_module(target) if is_suite else import_target(target)) is not None


def without_lab(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run code in a process that does not find the lab among the installed packages."""
    hiding = (
        "import snellen.installation as installation\n"
        "found = installation._metadata_folders\n"
        "installation._metadata_folders = lambda path: {n: f for n, f in found(path).items() if n != 'snellen_lab'}\n"
    )
    return subprocess.run(
        [sys.executable, "-c", hiding + code],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )


@pytest.mark.parametrize("verb", sorted(PROJECT["entry-points"]["snellen.verbs"]))
def test_without_the_lab_its_verbs_say_in_one_line_what_to_install(
    verb: str, tmp_path: Path
) -> None:
    done = without_lab(f"from snellen.cli import main\nmain([{verb!r}])", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    install = sibling_install_line("snellen-lab")
    assert done.stderr == f"snellen: `snellen {verb}` is part of another package: {install}\n"


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["build", "acuity/blur"], "the suite 'acuity'"),
        (["run", "snellen:oracle", "acuity"], "the suite 'acuity'"),
        (["list", "studies"], "`snellen list studies`"),
    ],
)
def test_without_the_lab_its_names_say_in_one_line_what_to_install(
    words: list[str], what: str, tmp_path: Path
) -> None:
    done = without_lab(f"from snellen.cli import main\nmain({words!r})", tmp_path)
    install = sibling_install_line("snellen-lab")
    assert done.returncode == 2
    assert done.stderr == f"snellen: {what} is part of another package: {install}\n"


def test_without_the_lab_its_readers_and_checks_say_what_to_install(tmp_path: Path) -> None:
    for group, name in (("readers", "acuity"), ("readers", "jury"), ("checks", "blind")):
        done = without_lab(
            f"from snellen import registry\nregistry.find_registered({group!r}, {name!r})", tmp_path
        )
        said = f"the {group[:-1]} '{name}' is part of another package: pip install"
        assert f"UnknownNameError: {said}" in done.stderr
