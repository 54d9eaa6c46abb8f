"""What pages get on their way from docs/ to the site: links that lead out of the folder, tables made of code."""

from __future__ import annotations

import json
import posixpath
import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
FROM_THE_TOP = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Pages that lie at the top of the repository, where forges look for them."""
LINK = re.compile(r"\]\(([^)\s#:]+)(#[^)]*)?\)")
CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.DOTALL | re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name, page in FROM_THE_TOP.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text("utf-8")))
    in_sections = set(pages_of(config.nav))
    for file in files.documentation_pages():
        if file.src_uri not in in_sections:
            raise SystemExit(
                f"docs/{file.src_uri} stands in no section: add it to `nav` in mkdocs.yml"
            )
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    place = page.file.src_uri
    lies_in = (
        "" if place in FROM_THE_TOP.values() else posixpath.join("docs", posixpath.dirname(place))
    )
    for mark, made in MADE_OF_CODE.items():
        if mark in markdown:
            markdown = markdown.replace(mark, made())
    parts = CODE.split(markdown)
    parts[::2] = [
        LINK.sub(lambda link: _leading(link, lies_in, place, config.extra["repository"]), part)
        for part in parts[::2]
    ]
    return "".join(parts)


def pages_of(nav: Any) -> list[str]:
    """The pages that a navigation names, in its order."""
    match nav:
        case str():
            return [nav]
        case dict():
            return [page for part in nav.values() for page in pages_of(part)]
        case _:
            return [page for part in nav for page in pages_of(part)]


def _leading(link: re.Match[str], lies_in: str, place: str, repository: str) -> str:
    """The link as it leads from the site: to a page of it, or to a file of the repository."""
    target, anchor = posixpath.normpath(posixpath.join(lies_in, link[1])), link[2] or ""
    page = FROM_THE_TOP.get(target) or (
        target.removeprefix("docs/") if target.startswith("docs/") else None
    )
    if page is None:
        return f"]({repository}/blob/main/{target}{anchor})"
    return f"]({posixpath.relpath(page, posixpath.dirname(place) or '.')}{anchor})"


def commands() -> str:
    """What each verb prints with --help, and each verb of a group of them."""
    from snellen.cli import cli

    context = click.Context(cli)
    return "\n\n".join(
        f"## {' '.join(words)}\n\n```text\n{_printed(*words, '--help')}```"
        for verb in cli.list_commands(context)
        for words in _verbs(verb, cli.get_command(context, verb))
    )


def _verbs(verb: str, command: click.Command | None) -> list[tuple[str, ...]]:
    inner = command.commands if isinstance(command, click.Group) else {}
    return [(verb,), *((verb, name) for name in inner)]


def catalogue() -> str:
    """The tables of `snellen list` in Markdown."""
    from snellen.cli.verbs.list import DATA, RUNS, all_lists

    sections = []
    for what in all_lists():
        if what not in (DATA, RUNS):  # what a user has, not what Snellen brings
            sections.append(f"## {what.capitalize()}\n\n{_table(_json_rows('list', what))}")
    return "\n\n".join(sections)


def printed_tables() -> str:
    """The tables of the papers in Markdown, those of a suite below its name."""
    parts = []
    for row in _json_rows("paper"):
        heading = f"## {row['suite']}"
        parts += [] if heading in parts else [heading]
        parts.append(_printed("paper", row["suite"], row["table"], "--markdown"))
    return "\n\n".join(parts)


def _table(rows: list[dict[str, str]]) -> str:
    lines = ["| " + " | ".join(rows[0]) + " |", "|" + "---|" * len(rows[0])]
    lines += [
        "| " + " | ".join(str(value).replace("|", "\\|") for value in row.values()) + " |"
        for row in rows
    ]
    return "\n".join(lines)


def _json_rows(*words: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in _printed(*words, "--json").splitlines()]


def _printed(*words: str) -> str:
    """What a command prints. Raises what it raises."""
    from snellen.cli import cli

    with redirect_stdout(StringIO()) as shown:
        cli.main(list(words), prog_name="snellen", standalone_mode=False)
    return shown.getvalue()


def example_package() -> str:
    """The files of the example package, each with what it is called."""
    home = ROOT / "examples" / "snellen-birds"
    languages = {".py": "py", ".toml": "toml", ".txt": "text"}
    files = [home / "pyproject.toml", *sorted((home / "snellen_birds").rglob("*"))]
    return "\n\n".join(
        f"## `{file.relative_to(home)}`\n\n```{languages[file.suffix]}\n{file.read_text('utf-8').rstrip()}\n```"
        for file in files
        if file.suffix in languages
    )


MADE_OF_CODE = {
    "<!-- example package -->": example_package,
    "<!-- commands -->": commands,
    "<!-- catalogue -->": catalogue,
    "<!-- printed tables -->": printed_tables,
}
"""What stands in a page at these marks."""
