"""The package in examples/, installed in an environment of its own: all that it brings works as Snellen's own does."""

from __future__ import annotations

import ast
import csv
import json
import math
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import snellen
from small import snellen_commands

EXAMPLE = Path(__file__).parent.parent / "examples/snellen-birds"
PACKAGE = EXAMPLE / "snellen_birds"
COLOUR_BLIND = "birds:watcher?colour_blind=true"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The Python of a fresh environment in which the example's wheel is installed. Nothing is downloaded.

    What the example depends on, Snellen too, is found where this test finds it.
    """
    folder = tmp_path_factory.mktemp("birds")
    shutil.copytree(
        EXAMPLE,
        folder / "source",
        ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"),
    )
    venv.create(folder / "venv", symlinks=True)
    python = str(folder / "venv/bin/python")
    [site] = folder.glob("venv/lib/python*/site-packages")
    # Packages whose entry points are seen have to be importable, too.
    others = [find_spec(name) for name in ("snellen_lab", "snellen_server")]
    places = (
        Path(snellen.__file__).parents[1],
        *(Path(str(found.origin)).parents[1] for found in others if found),
        sysconfig.get_path("purelib"),
        sysconfig.get_path("platlib"),
    )
    (site / "tested.pth").write_text("".join(f"{place}\n" for place in places))
    apart = ["--no-deps", "--no-index", "--no-build-isolation"]
    pip("--python", python, "install", *apart, str(folder / "source"))
    assert list(site.glob("snellen_birds-*.dist-info/RECORD"))
    return python


def pip(*words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def rows_of(lines: str) -> list[dict[str, Any]]:
    """The rows that `--json` prints, those of parts of benchmarks left out."""
    return [row for line in lines.splitlines() if not (row := json.loads(line))["slice"]]


def values_of(lines: str) -> dict[tuple[str, str, str], float | None]:
    return {
        (row["benchmark"], row["protocol"], row["metric"]): row["value"] for row in rows_of(lines)
    }


def test_what_it_brings_is_listed(python: str, tmp_path: Path) -> None:
    words = ("benchmarks", "suites", "models", "protocols", "metrics")
    listed = dict(
        zip(
            words,
            snellen_commands(tmp_path, *(["list", word] for word in words), python=python),
            strict=True,
        )
    )
    assert "birds/colours" in listed["benchmarks"] and "birds/songs" in listed["benchmarks"]
    assert any(
        line.split()[:3] == ["birds", "2", "Feathers,"] for line in listed["suites"].splitlines()
    )
    assert "birds:" in listed["models"] and "mirrored" in listed["protocols"]
    assert any(
        "shared_letters" in line and "best reference" in line
        for line in listed["metrics"].splitlines()
    )


def test_its_verb_stands_beside_snellens_own(python: str, tmp_path: Path) -> None:
    shown, birds = snellen_commands(tmp_path, ["--help"], ["birds"], python=python)
    benchmarks = shown.partition("Benchmarks:")[2].partition("Runs:")[0]
    assert re.search(r"^  birds +List the birds", benchmarks, re.MULTILINE)
    assert re.search(r"^robin +red +tweet$", birds, re.MULTILINE)


def test_its_model_is_asked_by_its_protocol_and_scored_by_its_metric(
    python: str, tmp_path: Path
) -> None:
    asked = ["-p", "vanilla", "-p", "mirrored", "-p", "circular", "-p", "likelihood"]
    shown = snellen_commands(
        tmp_path,
        ["build", "birds/colours"],
        ["run", "birds:watcher", "birds", "--name", "own", "--json"],
        ["run", COLOUR_BLIND, "birds", *asked, "--name", "blind", "--json"],
        ["score", "runs/blind"],
        ["report", "runs/own", "runs/blind", "-o", "r.md", "-o", "r.html", "-o", "r.csv"],
        python=python,
    )
    assert "8 questions, 8 images" in next(shown)
    own = values_of(next(shown))
    # The suite says how it is asked: by circular, songs once.
    assert own["birds/colours", "circular", "circular_accuracy"] == 1.0
    # The model calls every song a trill: of tweet two of five letters are in it, of screech one of seven, and so on.
    shared = (2 / 5, 1 / 7, 0, 5 / 5, 3 / 7, 4 / 6, 0, 2 / 5)
    assert own["birds/songs", "vanilla", "shared_letters"] == pytest.approx(sum(shared) / 8)
    blind = values_of(next(shown))
    # Red and green look alike, and the first of them is named: green birds are wrong, and mirrored red ones too.
    assert blind["birds/colours", "vanilla", "accuracy"] == 0.75
    assert blind["birds/colours", "mirrored", "accuracy"] == 0.75
    assert blind["birds/colours", "likelihood", "accuracy"] == 0.75
    assert blind["birds/colours", "circular", "circular_accuracy"] == 0.5
    assert blind["birds/colours", "mirrored", "instability"] == pytest.approx(math.log(2) / 2)
    assert "letters shared" in next(shown)
    markdown = (tmp_path / "r.md").read_text()
    assert "### Accuracy by colour" in markdown
    assert "what birds wear (Feathers)" in markdown and "letters shared" in markdown
    assert all(
        words in (tmp_path / "r.html").read_text()
        for words in ("Accuracy by colour", "letters shared")
    )
    with (tmp_path / "r.csv").open(newline="") as file:
        rows = [
            row
            for row in csv.DictReader(file)
            if row["metric"] == "shared_letters" and not row["slice"]
        ]
    assert {
        (row["model"], row["unit"], row["better"])
        for row in rows
        if row["benchmark"] == "birds/songs"
    } == {
        ("birds:watcher", "share", "higher"),
        (COLOUR_BLIND, "share", "higher"),
    }


def test_its_suite_brings_an_extractor_and_forms_of_files_to_the_verbs(
    python: str, tmp_path: Path
) -> None:
    (tmp_path / "download").mkdir()
    (tmp_path / "download/published.txt").write_text("kiwi | blue | peep\n")
    (tmp_path / "mine.tsv").write_text("bird\tcolour\tsong\nwren\tred\ttick\n")
    shown = snellen_commands(
        tmp_path,
        ["run", "birds:watcher", "birds/colours", "--name", "own", "--json"],
        ["score", "runs/own", "--as-published"],
        ["submit", "runs/own", "-o", "own.lines"],
        ["score", "own.lines", "--benchmark", "birds/colours", "--to", "runs/again", "--json"],
        ["build", "mine.tsv"],
        ["import", "birds", "download"],
        ["verify", "birds/colours", "--source", str(PACKAGE / "data"), "--json"],
        python=python,
    )
    next(shown)
    # The printed rule wants the option's text, and the model names its label: no reply can be read.
    published = next(shown)
    assert "birds:first-word" in published and "100.00" in published and "10000" not in published
    # The suite has a form of its own, so that no --format is needed.
    assert "wrote own.lines: 8 rows of birds/colours by circular" in next(shown)
    assert (tmp_path / "own.lines").read_text().splitlines()[0] == "canary = (D)"
    assert values_of(next(shown))["birds/colours", "vanilla", "accuracy"] == 1.0
    assert "built mine" in next(shown)
    assert "built birds/published" in next(shown)
    assert json.loads(next(shown))["samples"] == "8"


def test_a_wrong_line_of_its_data_is_refused_with_its_place(python: str, tmp_path: Path) -> None:
    (tmp_path / "published.txt").write_text("kiwi | blue | peep\nflamingo | pink | honk\n")
    done = subprocess.run(
        [python, "-m", "snellen", "import", "birds", "."],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert (
        done.returncode == 2
        and "published.txt:2: no bird is pink; choose one of red, blue" in done.stderr
    )


@pytest.mark.parametrize("file", sorted(PACKAGE.glob("*.py")), ids=lambda file: file.name)
def test_its_files_build_on_nothing_of_snellen_but_its_public_names(file: Path) -> None:
    text = file.read_text("utf-8")
    modules = {
        name
        for node in ast.walk(ast.parse(text))
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else []
        )
    }
    assert {name for name in modules if name.split(".")[0] == "snellen"} <= {
        "snellen",
        "snellen.plugin_api",
    }
