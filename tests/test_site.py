"""What a stranger meets first: sections of the site, images, containers, workflows. `make site` builds the site."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest

import snellen
from snellen import plugin_api
from snellen.cli import cli

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
MADE = {"contributing.md", "changelog.md"}
"""Pages that the build takes from the top of the repository."""
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
DOCKERFILES = sorted((ROOT / "docker").glob("*.Dockerfile"))
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def pages_in_sections() -> list[str]:
    nav = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]
    return re.findall(r"^\s+- (?:[\w ]+: )?(\S+\.md)$", nav, flags=re.MULTILINE)


def test_every_page_stands_in_one_section_of_the_site() -> None:
    sections = pages_in_sections()
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} | MADE
    assert len(sections) == len(set(sections)) and set(sections) <= pages
    assert sorted(pages - set(sections)) == [], "add these pages to `nav` in mkdocs.yml"


def test_the_page_on_python_has_every_public_name() -> None:
    shown = re.findall(
        r"^<!-- name snellen\.(\w+) -->$",
        (DOCS / "reference/python.md").read_text("utf-8"),
        flags=re.MULTILINE,
    )
    assert sorted(shown) == sorted(set(snellen.__all__) - {"__version__"})


@pytest.fixture(scope="module")
def reference() -> dict[str, Any]:
    """Names of the module that writes the reference; it reads the sources once for both pages."""
    pytest.importorskip("griffe2md")
    return runpy.run_path(str(ROOT / "website" / "python_reference.py"))


def test_the_page_on_python_says_what_the_docstrings_say(reference: dict[str, Any]) -> None:
    """`make fields` writes it."""
    page = reference["PAGE"].read_text("utf-8")
    assert page == reference["page_text"](page), "run `make fields`"
    assert "](#snellen" not in page and "<code>" not in page


def test_the_page_on_the_plugin_api_says_what_the_docstrings_say(reference: dict[str, Any]) -> None:
    """`make fields` writes it."""
    page = reference["PLUGIN_PAGE"].read_text("utf-8")
    assert page == reference["plugin_page"](), "run `make fields`"
    assert set(plugin_api.__all__) <= set(re.findall(r"^### `(\w+)`$", page, flags=re.MULTILINE))
    assert "](#snellen" not in page and "<details" not in page


def test_pictures_are_small_and_load_nothing() -> None:
    pictures = sorted(file for file in (DOCS / "images").rglob("*") if file.is_file())
    assert {picture.suffix for picture in pictures} == {".png", ".svg"}
    for picture in pictures:
        assert 1_000 < picture.stat().st_size < 300_000, picture
        if picture.suffix == ".svg":
            assert "url(http" not in picture.read_text(
                "utf-8"
            ) and "@font-face" not in picture.read_text("utf-8")


def test_the_site_loads_no_fonts_from_elsewhere() -> None:
    assert "font: false" in (ROOT / "mkdocs.yml").read_text("utf-8")


@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.name)
def test_a_container_is_made_of_files_and_extras_that_exist(file: Path) -> None:
    text = file.read_text("utf-8")
    copied = [
        name
        for line in re.findall(r"^COPY (.+)$", text, flags=re.MULTILINE)
        for name in line.split()[:-1]
    ]
    kept = {
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    assert {"src", "pyproject.toml"} <= set(copied) <= kept and [
        name for name in copied if not (ROOT / name).exists()
    ] == []
    assert set(PROJECT["license-files"]) | {PROJECT["readme"]} <= set(copied)
    assert "deploy/requirements.lock" in copied and "--no-deps ." in text.replace(
        "--no-build-isolation ", ""
    )
    assert (
        "\nUSER 1000\n" in text
        and 'ENTRYPOINT ["snellen"]' in text
        and "snellen" in PROJECT["scripts"]
    )


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_a_workflow_calls_targets_verbs_and_extras_that_exist(file: Path) -> None:
    text = file.read_text("utf-8")
    targets = set(
        re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), flags=re.MULTILINE)
    )
    assert set(re.findall(r"\bmake (\w+)", text)) <= targets
    verbs = set(re.findall(r"(?:- run: |--rm )snellen (\w+)", text)) - {"snellen"}
    assert verbs <= set(cli.list_commands(click.Context(cli)))
    named = {extra for group in re.findall(r"\)\[([\w,]+)\]", text) for extra in group.split(",")}
    assert named | set(re.findall(r"--require (\w+)", text)) <= set(
        PROJECT["optional-dependencies"]
    )
    [versions] = set(re.findall(r'python: (\[".+?"\])', text))
    supported = [
        line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)
    ]
    assert (
        re.findall(r'"(.+?)"', versions) == supported
        and PROJECT["requires-python"] == f">={supported[0]}"
    )


def test_the_citation_names_the_version_and_the_licence() -> None:
    text = (ROOT / "CITATION.cff").read_text("utf-8")
    assert (
        f"\nversion: {snellen.__version__}\n" in text
        and f"\nlicense: {PROJECT['license']}\n" in text
    )


def test_setting_up_names_every_extra() -> None:
    page = (DOCS / "setting-up.md").read_text("utf-8")
    named = {
        name
        for row in re.findall(r"^\| (`.+?) \|", page, flags=re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    }
    assert set(PROJECT["optional-dependencies"]) - {"all"} <= named
