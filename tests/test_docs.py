"""Every Python block of the documentation runs, page by page, in a folder of its own; of tutorials, commands too."""

from __future__ import annotations

import os
import pkgutil
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from http_browser import PASSWORD, Browser
from snellen.cli import main

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
TUTORIALS = [page for page in PAGES if page.parent.name == "tutorials"]
DEEP_IMPORT = re.compile(r"(?:from|import) snellen\.(?!plugin_api\b)\w[\w.]*")
"""An import of a module that is not a door of Snellen."""
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
DOTTED_NAME = re.compile(r"`(snellen(?:\.\w+){2,})(?:\(\))?`")
ROOM_NAME = re.compile(r"`([a-z]\w*(?:\.\w+)+)`")
"""A module of a package of Snellen, or something in it: `registry.find_registered`."""


def blocks(page: Path) -> list[tuple[str, str]]:
    """The examples of a page in their order, each with its language: commands are run where they teach a whole way."""
    languages = "python|bash" if page.parent.name == "tutorials" else "python"
    return re.findall(
        rf"^```({languages})\n(.*?)^```", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE
    )


class Shell:
    """Runs the lines of a page: `snellen` in this process, which takes less time than starting it."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.patch, self.output = patch, Path("printed.txt")
        self.jobs: list[subprocess.Popen[bytes]] = []

    def run(self, line: str) -> None:
        if line.startswith("export "):
            name, _, value = shlex.split(line)[1].partition("=")
            self.patch.setenv(name, make_key(self.output) if value == "snl_..." else value)
        elif line.endswith(" &"):
            command = f"exec {line[:-2]}".replace(
                "exec snellen ", f"exec {shlex.quote(sys.executable)} -m snellen "
            )
            with self.output.open("wb") as output:
                self.jobs.append(subprocess.Popen(["bash", "-c", command], stdout=output))
        elif line == "kill %1":
            self.jobs[0].kill()
            self.jobs.pop(0).wait()
        else:
            program, *words = shlex.split(os.path.expandvars(line))
            assert program == "snellen"
            with pytest.raises(SystemExit) as stopped:
                main(words)
            assert not stopped.value.code, line


def make_key(output: Path) -> str:
    """What a reader does in a browser: opens the printed link, makes an account, and a key to submit."""
    link = wait_for(lambda: re.search(r"(http://\S+)(/invitation/\S+)", output.read_text("utf-8")))
    browser = Browser(link[1])
    assert browser.post(link[2], {"name": "Anna", "password": PASSWORD}).status_code == 303
    page = browser.post("/account/keys", {"title": "laptop", "scopes": "submit"}).text
    browser.http.close()
    [key] = re.findall(r"snl_[\w-]+", page)
    return str(key)


def wait_for(look: Callable[[], re.Match[str] | None], seconds: float = 60) -> re.Match[str]:
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, "the server printed no link"
        time.sleep(0.1)
    return found


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Shell]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    shell = Shell(monkeypatch)
    yield shell
    for job in shell.jobs:
        job.kill()
        job.wait()


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=name_of)
def test_the_examples_of_a_page_run_as_written(
    page: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = page.read_text("utf-8")
    if re.search("snellen[-_]lab|^snellen lint", text, re.MULTILINE):
        pytest.importorskip("snellen_lab", reason="the page is about the package snellen-lab")
    monkeypatch.setenv("SNELLEN_SUITES", "")
    names: dict[str, Any] = {"__name__": "__page__"}
    for number, (language, block) in enumerate(blocks(page)):
        if language == "python":
            exec(compile(block, f"{page.name} block {number}", "exec"), names)
        else:
            for line in block.splitlines():
                shell.run(line)


def in_a_shell(tmp_path: Path) -> dict[str, str]:
    """The environment of a shell that finds `snellen`, and a folder `work` to work in."""
    (tmp_path / "snellen").write_text(
        f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m snellen "$@"\n'
    )
    (tmp_path / "snellen").chmod(0o755)
    (tmp_path / "work").mkdir()
    path = f"{tmp_path}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "src"), "SNELLEN_SUITES": ""}


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in TUTORIALS if "snl_..." not in page.read_text("utf-8")], ids=name_of
)
def test_a_tutorial_works_word_by_word_in_a_shell(page: Path, tmp_path: Path) -> None:
    """Every block in one shell: commands as they stand, Python by `python`, each block in a process of its own. (One
    tutorial needs a person at a browser; above, a test is that person.)"""
    steps = [
        block if language == "bash" else f"python - <<'END_OF_BLOCK'\n{block}END_OF_BLOCK"
        for language, block in blocks(page)
    ]
    places = in_a_shell(tmp_path)
    done = subprocess.run(
        ["bash", "-e"],
        input="\n".join(steps),
        cwd=tmp_path / "work",
        env=places,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def cells(page: Path) -> Iterator[str]:
    """The cells into which a reader copies a tutorial, as docs/setting-up.md says."""
    for language, block in blocks(page):
        if language == "python":
            yield block
            continue
        for line in block.splitlines():
            if line.startswith("export "):
                yield f"%env {shlex.split(line)[1]}"
            elif line.endswith(" &"):
                yield f"%%bash --bg\nexec {line[:-2]}"
            elif line == "kill %1":
                yield "%killbgscripts"
            else:
                yield f"!{line}\nassert _exit_code == 0"


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[] if page.stem == "reading-a-report" else pytest.mark.slow)
        for page in TUTORIALS
        if "snl_..." not in page.read_text("utf-8")
    ],
    ids=name_of,
)
def test_a_tutorial_works_in_a_notebook(page: Path, tmp_path: Path) -> None:
    notebooks = pytest.importorskip("notebooks")
    with notebooks.opened_notebook(tmp_path / "work", in_a_shell(tmp_path)) as notebook:
        for cell in cells(page):
            shown, fault = notebook.run(cell)
            assert not fault, f"{cell}\n{fault}\n{shown}"


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=name_of)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    targets = [target for target in LINK.findall(page.read_text("utf-8")) if "://" not in target]
    assert [target for target in targets if not (page.parent / target).exists()] == []


def user_files() -> Iterator[Path]:
    """Files that show users what to import: pages, notebooks and examples. Evidence describes the modules themselves."""
    evidence = ROOT / "docs" / "evidence"
    for page in PAGES:
        if not page.is_relative_to(evidence):
            yield page
    yield from (ROOT / "packages").glob("*/README.md")
    yield from sorted((ROOT / "docs").rglob("*.ipynb"))
    yield from sorted((ROOT / "examples").rglob("*.py"))


def deep_imports(text: str) -> list[str]:
    """The imports of modules behind the doors `snellen` and `snellen.plugin_api`."""
    return DEEP_IMPORT.findall(text)


def test_an_import_of_a_module_behind_the_doors_is_found() -> None:
    text = "from snellen.plugin_api import Draft\nfrom snellen.runs.spec import RunSpec\nimport snellen.api\n"
    assert deep_imports(text) == ["from snellen.runs.spec", "import snellen.api"]


@pytest.mark.parametrize("file", list(user_files()), ids=name_of)
def test_what_users_import_stands_in_snellen_or_its_plugin_api(file: Path) -> None:
    assert deep_imports(file.read_text("utf-8")) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_that_a_page_names_exists(page: Path) -> None:
    for name in DOTTED_NAME.findall(page.read_text("utf-8")):
        assert pkgutil.resolve_name(name), name


def test_code_that_the_page_of_rooms_names_exists() -> None:
    text = (ROOT / "docs" / "reference" / "rooms.md").read_text("utf-8")
    packages = {path.stem for path in (ROOT / "src" / "snellen").iterdir()}
    named = [name for name in ROOM_NAME.findall(text) if name.partition(".")[0] in packages]
    assert "registry.find_registered" in named
    for name in named:
        assert pkgutil.resolve_name(f"snellen.{name}"), name
