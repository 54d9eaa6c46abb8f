"""The Python reference as Markdown: each public name with its signature and docstring.

On docs/reference/python.md, names stand below their marks; docs/reference/plugin-api.md has all names of
`snellen.plugin_api`, by the subjects of its stub. `make fields` writes both, so that they can be read where they lie,
without building the site.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from griffe import GriffeLoader, Object, Parser
from griffe2md import ConfigDict, prepare_context, prepare_env

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reference" / "python.md"
PLUGIN_PAGE = ROOT / "docs" / "reference" / "plugin-api.md"
PLUGIN_STUB = ROOT / "src" / "snellen" / "plugin_api.pyi"
SUBJECT = re.compile(r"# (.+)")
IMPORT = re.compile(r"from (\S+) import (\w+) as \w+")
PLUGIN_INTRODUCTION = """\
# What packages build on

The names of `snellen.plugin_api` by subject, each with its contract, from their docstrings (`make fields` writes them
here). [How to extend Snellen](../extending.md) shows them at work, [the Python reference](python.md) has the names of
`snellen` itself.
"""
SOURCES = {
    "snellen": ROOT / "src",
    "snellen_lab": ROOT / "packages" / "snellen-lab" / "src",
}
MARKED = re.compile(r"<!-- name (\w+)\.(\w+) -->\n.*?<!-- end of name -->\n", re.DOTALL)
CROSS_REFERENCE = re.compile(r"\[([^\[\]]+)\]\(#[\w.]+\)")
"""A link of griffe2md to another name; most of them lead nowhere on this page."""
CODE = re.compile(r"<code>(.*?)</code>", re.DOTALL)
MEMBER_HEADING = re.compile(r"^(#+) `[\w.]*\.(\w+\.\w+)`$", re.MULTILINE)
"""The heading of a member, with the path of its module."""
# One environment for all names: griffe2md's own function compiles its templates again for each.
TEMPLATES = prepare_env()
LAYOUT: ConfigDict = {
    "heading_level": 3,
    "filters": ["!^_"],
    "members_order": "source",
    "group_by_category": False,
    "show_bases": False,
    "show_if_no_docstring": False,
    "show_root_full_path": False,
    "summary": False,
}


def page_text(text: str) -> str:
    """Return the page with what each mark names. A package that is not here keeps its text."""
    modules = {package: _loaded(package) for package in SOURCES if SOURCES[package].exists()}

    def described(mark: re.Match[str]) -> str:
        package = mark[1]
        name = mark[2]
        if package not in modules:
            return mark[0]
        rendered = _rendered(modules[package][name])
        return f"<!-- name {package}.{name} -->\n\n{rendered}\n\n<!-- end of name -->\n"

    return MARKED.sub(described, text)


def plugin_page() -> str:
    """Return the page with all names of `snellen.plugin_api`, below the subjects of its stub."""
    package = _loaded("snellen")
    parts = [PLUGIN_INTRODUCTION]
    for line in PLUGIN_STUB.read_text("utf-8").splitlines():
        subject = SUBJECT.fullmatch(line)
        if subject:
            parts.append(f"## {subject[1]}\n")
        imported = IMPORT.fullmatch(line)
        if imported:
            home = package[imported[1].removeprefix("snellen.")]
            parts.append(_rendered(home[imported[2]]) + "\n")
    return "\n".join(parts)


@cache
def _loaded(package: str) -> Object:
    """Return a package as its source says it is, without importing it."""
    loader = GriffeLoader(
        search_paths=[SOURCES[package]],
        docstring_parser=Parser("google"),
        # What a function returns is one text, however many lines it has.
        docstring_options={"returns_multiple_items": False},
    )
    loaded: Any = loader.load(package)
    loader.resolve_aliases()
    return loaded


def _rendered(target: Any) -> str:
    """Return the signature and docstring of a name, with its members below it."""
    if target.is_alias:
        target = target.final_target
    template = TEMPLATES.get_template(f"{target.kind.value}.md.jinja")
    rendered = template.render(prepare_context(target, LAYOUT))
    return plain(rendered).strip()


def plain(markdown: str) -> str:
    """Return Markdown without links between names, HTML or paths of modules."""
    lines = []
    for line, is_code in _lines(markdown):
        if line.strip() == "```python":
            # Signatures are no examples that tests of pages could run.
            line = line.replace("python", "py")
        if not is_code:
            line = _without_links(line)
            line = CODE.sub(lambda code: f"`{html.unescape(code[1])}`", line)
        lines.append(line)
    return MEMBER_HEADING.sub(r"\1 `\2`", "\n".join(lines))


def _lines(markdown: str) -> Iterator[tuple[str, bool]]:
    """Yield each line, and whether it lies in a block of code."""
    is_code = False
    for line in markdown.splitlines():
        if line.lstrip().startswith("```"):
            is_code = not is_code
        yield line, is_code


def _without_links(line: str) -> str:
    """Return a line with the texts of its links between names; types nest them in brackets."""
    while True:
        shorter = CROSS_REFERENCE.sub(r"\1", line)
        if shorter == line:
            return line
        line = shorter


if __name__ == "__main__":
    PAGE.write_text(page_text(PAGE.read_text("utf-8")), "utf-8")
    PLUGIN_PAGE.write_text(plugin_page(), "utf-8")
