"""The server is a package like a stranger's: it imports what Snellen makes public, and Snellen does not import it."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import snellen
import snellen_server
from snellen import plugin_api
from snellen.cli import import_target
from snellen.installation import sibling_install_line
from source_trees import assert_no_circles, imports, private_imports, texts

CORE, SERVER = (Path(str(package.__file__)).parent for package in (snellen, snellen_server))
PROJECT = tomllib.loads((SERVER.parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
PUBLIC = {"snellen": set(snellen.__all__), "snellen.plugin_api": set(plugin_api.__all__)}


def test_the_server_imports_only_what_snellen_makes_public() -> None:
    files = sorted(SERVER.rglob("*.py"))
    ours = [module for file in files for module, _ in imports(file) if module in PUBLIC]
    assert len(ours) > 100
    assert private_imports(SERVER, snellen, PUBLIC) == []


def test_snellen_neither_imports_the_server_nor_names_its_modules() -> None:
    files = [
        file for file in sorted(CORE.rglob("*.py")) if "snellen_server" in file.read_text("utf-8")
    ]
    assert [
        (file.name, name)
        for file in files
        for name, _ in imports(file)
        if name.startswith("snellen_server")
    ] == []
    assert [
        (file.name, text) for file in files for text in texts(file) if "snellen_server" in text
    ] == []


def test_modules_of_the_server_do_not_import_each_other_in_a_circle() -> None:
    assert_no_circles(SERVER)


def test_features_do_not_import_each_other_and_their_house_knows_none() -> None:
    rooms = {"arena", "leaderboard", "explorer"}
    doors = {
        (file.relative_to(SERVER).parts[0], module.split(".")[1])
        for file in SERVER.rglob("*.py")
        for module, _ in imports(file)
        if module.startswith("snellen_server.")
    }
    among_features = {
        (room, other) for room, other in doors if room != other and {room, other} <= rooms
    }
    # Which answers are hidden from the explorer is said by the boards of the leaderboard.
    assert among_features == {("explorer", "leaderboard")}
    assert {other for room, other in doors if room == "hosting"} == {"hosting"}


def test_both_packages_have_one_version() -> None:
    assert snellen_server.__version__ == snellen.__version__
    assert f"snellen[view]~={snellen.__version__}" in PROJECT["dependencies"]


def test_what_the_server_is_found_by_is_installed() -> None:
    for group in ("snellen.verbs", "snellen_server.features"):
        declared = PROJECT["entry-points"][group]
        assert (
            declared.items()
            <= {point.name: point.value for point in entry_points(group=group)}.items()
        )
        assert all(import_target(target) for target in declared.values())


@pytest.mark.parametrize("verb", sorted(PROJECT["entry-points"]["snellen.verbs"]))
def test_without_the_package_its_verbs_say_in_one_line_what_to_install(
    verb: str, tmp_path: Path
) -> None:
    done = without_server(verb, tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    install = sibling_install_line("snellen-server")
    assert done.stderr == f"snellen: `snellen {verb}` is part of another package: {install}\n"


def test_without_the_package_the_help_shows_the_other_verbs(tmp_path: Path) -> None:
    done = without_server("--help", tmp_path)
    assert done.returncode == 0 and "  worker " in done.stdout and "  serve " not in done.stdout


def without_server(word: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """`snellen WORD` where each package is that is here, but for the server."""
    code = (
        "import sys, snellen.installation as installation\n"
        "found = installation._metadata_folders\n"
        "installation._metadata_folders = lambda path: {n: f for n, f in found(path).items() if n != 'snellen_server'}\n"
        f"from snellen.cli import main\nmain([{word!r}])"
    )
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=folder
    )


def test_a_verb_that_cannot_be_loaded_says_so_and_hinders_no_other(tmp_path: Path) -> None:
    package = tmp_path / "broken-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[snellen.verbs]\nlost = lost.package:VERB\n")

    def snellen_command(word: str) -> subprocess.CompletedProcess[str]:
        code = f"import sys; sys.path.append({str(tmp_path)!r}); from snellen.cli import main; main([{word!r}])"
        return subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path
        )

    done = snellen_command("--help")
    assert done.returncode == 0 and "(cannot be loaded: No module named 'lost')" in " ".join(
        done.stdout.split()
    )
    done = snellen_command("lost")
    assert done.returncode == 2
    assert (
        done.stderr
        == "snellen: cannot load `snellen lost`: No module named 'lost'; repair or uninstall its package\n"
    )
