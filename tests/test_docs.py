"""Every Python block of the documentation runs, page by page, in a folder of its own; of tutorials, commands too."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from snellen.cli import main

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")


def blocks(page: Path) -> list[tuple[str, str]]:
    """The examples of a page in their order, each with its language: commands are run where they teach a whole way."""
    languages = "python|bash" if page.parent.name == "tutorials" else "python"
    return re.findall(rf"^```({languages})\n(.*?)^```", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)


def run_command(line: str) -> None:
    """A line of a shell, for this process: `snellen` with its words, in which variables are replaced."""
    program, *words = shlex.split(os.path.expandvars(line))
    assert program == "snellen"
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert not stopped.value.code, line


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=name_of)
def test_the_examples_of_a_page_run_as_written(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SNELLEN_SUITES", "")
    names: dict[str, Any] = {"__name__": "__page__"}
    for number, (language, block) in enumerate(blocks(page)):
        if language == "python":
            exec(compile(block, f"{page.name} block {number}", "exec"), names)
        else:
            for line in block.splitlines():
                run_command(line)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    targets = [target for target in LINK.findall(page.read_text("utf-8")) if "://" not in target]
    assert [target for target in targets if not (page.parent / target).exists()] == []
